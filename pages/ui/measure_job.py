"""A measurement in a thread of its own: it outlives a rerun, a move to another page and a page that
is loaded anew; and what this server keeps of those that were made."""

import gc
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specmath.checks import InputError
from specmath.measure.pairs import BUILTIN, SMOLLM2, Pair, load_pair
from specmath.measure.plan import Plan
from specmath.measure.report import Report
from specmath.measure.run import measure

ONE_AT_A_TIME = threading.Lock()
"""Two measurements at once would time each other."""

EARLY = 0.02
"""Below this share of the work the time left is a guess."""

PATIENCE_SECONDS = 30.0
"""How long a measurement goes on while no tab shows it: a page loaded anew is back in a second."""


def connected() -> Callable[[], bool]:
    """Asks, from any thread, whether the tab that runs this script is open and connected.

    A closed tab, a lost network and a computer asleep all end its connection. Without a server (a
    script run by a test) the answer is always yes.
    """
    context = get_script_run_ctx()
    if context is None or not runtime.exists():
        return lambda: True
    session, server = context.session_id, runtime.get_instance()
    return lambda: server.is_active_session(session)


@dataclass(frozen=True)
class Models:
    """The pair to load; folders of this machine only: a page never fetches a model.

    `target` is a folder, "builtin" or "smollm2".
    """

    target: str
    draft: str
    dtype: str = "auto"
    chat: bool = False
    argmax: bool = False

    def load(self) -> Pair:
        target, draft = self.target, self.draft
        if target not in (BUILTIN, SMOLLM2):
            target = _folder("target", target)
            if draft.split(":")[0] not in ("ngram", "skip"):
                draft = _folder("draft", draft)
        return load_pair(target, draft, dtype=self.dtype, chat=self.chat, argmax=self.argmax)


def _folder(what: str, name: str) -> str:
    if not name.strip():
        raise InputError(f"{what} must be a folder with a model, got nothing")
    folder = Path(name.strip()).expanduser()
    if "\0" in name or not folder.is_dir():
        raise InputError(
            f"{what} must be a folder on this machine, found none at {name[:200]!r}; the command "
            "line also takes names of the hub"
        )
    return str(folder)


@dataclass
class Job:
    """One measurement, begun at once; the page reads its fields and may set `cancel`.

    It ends with `report` or with `error`, and then `alive` is false. It stops by itself, with what
    is done, once `watched` has been false for `PATIENCE_SECONDS`.
    """

    models: Models
    plan: Plan
    watched: Callable[[], bool] = lambda: True
    share: float = 0.0
    doing: str = "loading the models"
    begun: float = field(default_factory=time.monotonic)
    seen: float = field(default_factory=time.monotonic)
    report: Report | None = None
    error: str = ""
    cancel: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    abandoned: bool = False

    def __post_init__(self) -> None:
        threading.Thread(target=self._run, name="measure", daemon=True).start()

    @property
    def alive(self) -> bool:
        return not self.ended.is_set()

    def watch_too(self, watched: Callable[[], bool]) -> None:
        """Another tab shows it as well: it goes on while any of them does."""
        before = self.watched
        self.watched = lambda: watched() or before()

    @property
    def seconds_left(self) -> float | None:
        """From the share done so far; None while that is too little to tell."""
        if self.share < EARLY:
            return None
        return (time.monotonic() - self.begun) * (1 - self.share) / self.share

    def _run(self) -> None:
        try:
            if not ONE_AT_A_TIME.acquire(blocking=False):
                raise InputError(
                    "another measurement runs on this machine, and two at once would time each "
                    "other; wait until it has ended, which one whose tab was closed does after 30 s"
                )
            try:
                pair = self.models.load()
                # Streamlit collects garbage after every run of a script, each second while the
                # progress is shown: through all objects of torch that took most of the time.
                gc.freeze()
                self.begun = time.monotonic()
                found = measure(pair, self.plan, self._tell, self._cancelled)
                left = {"reason": f"its browser tab was gone for {PATIENCE_SECONDS:.0f} s"}
                partial = self.abandoned and found.status == "partial"
                self.report = found.model_copy(update=left) if partial else found
            finally:
                gc.unfreeze()
                ONE_AT_A_TIME.release()
        except InputError as error:
            self.error = str(error)
        except Exception as error:  # of a model's own code: the page must say so and live on
            logging.getLogger(__name__).exception("measurement failed")
            self.error = f"the measurement failed: {type(error).__name__}: {str(error)[:300]}"
        finally:
            self.ended.set()

    def _tell(self, share: float, what: str) -> None:
        self.share, self.doing = share, what
        self._look()

    def _cancelled(self) -> bool:
        self._look()
        return self.cancel.is_set()

    def _look(self) -> None:
        now = time.monotonic()
        if self.watched():
            self.seen = now
        elif now - self.seen > PATIENCE_SECONDS:
            self.abandoned = True
            self.cancel.set()


# ── what this server keeps ───────────────────────────────────────────────────────────────────

MOST_KEPT = 20
"""Measurements; the oldest make room."""


@dataclass
class Kept:
    """A measurement under way or its report, and what was chosen on the page."""

    job: Job | None = None
    report: Report | None = None
    choices: dict[str, Any] = field(default_factory=dict)


_SHELF: dict[str, Kept] = {}


def keep(kept: Kept) -> str:
    """Keep it in this server's memory; the key, which nobody guesses, goes into the address."""
    key = secrets.token_urlsafe(9)
    _SHELF[key] = kept
    for oldest in list(_SHELF)[:-MOST_KEPT]:
        if (job := _SHELF[oldest].job) is None or not job.alive:
            _SHELF.pop(oldest, None)
    return key


def kept(key: str) -> Kept | None:
    """What is kept under that key; None where it is not (any more)."""
    return _SHELF.get(key)
