"""The one door to standard output and standard error.

Text out of logs, models and servers may hold what steers a terminal: it is taken out here. What
the terminal's encoding lacks is spelled. A stream that cannot be written is one sentence.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import click

__all__ = [
    "OutputError",
    "captured",
    "failing_output",
    "prepare_streams",
    "printable",
    "progress",
    "progress_ended",
    "say",
    "say_each",
    "say_json",
    "show",
    "unforeseen",
]

EXIT_OUTPUT = 74
"""EX_IOERR of sysexits.h, apart from the codes by which commands answer."""

EXIT_PIPE = 128 + 13
"""What a shell says of a program that SIGPIPE ends."""

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""C0 but for tab and line feed, C1, and what turns the direction of writing."""

# Whole sequences, so that no "[31m" stays behind: CSI; then OSC, DCS, SOS, PM and APC to their end.
_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)"
)

_SPELLED = {
    "α": "alpha", "γ": "gamma", "κ": "kappa", "σ": "sigma", "τ": "tau", "ĉ": "c_hat", "×": "x",
    "÷": "/", "±": "+/-", "−": "-", "–": "-", "—": "-", "…": "...", "→": "->", "≈": "~",
    "≤": "<=", "≥": ">=", "µ": "u", "μ": "u", "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip


_FAILING = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EINVAL}


class OutputError(click.ClickException):
    """Standard output or a file that could not be written."""

    exit_code = EXIT_OUTPUT


def printable(text: str) -> str:
    """The text without control sequences and control characters; tab and line feed stay."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


_CAPTURED: ContextVar[list[str] | None] = ContextVar("captured", default=None)
"""What a command says while somebody else than a terminal listens."""


@contextmanager
def captured() -> Iterator[list[str]]:
    """What is said to standard output meanwhile, here and not there, in this thread alone."""
    said: list[str] = []
    before = _CAPTURED.set(said)
    try:
        yield said
    finally:
        _CAPTURED.reset(before)


def _echo(text: str, *, nl: bool = True) -> None:
    """To standard output, or to who captures it."""
    said = _CAPTURED.get()
    if said is None:
        click.echo(text, nl=nl)
    else:
        said.append(f"{text}\n" if nl else text)


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text that may hold foreign text."""
    if err:
        click.echo(printable(text), err=True, nl=nl)
    else:
        _echo(printable(text), nl=nl)


def say_each(lead: str, texts: Iterable[str]) -> None:
    """Print each text on a line of its own, behind the same lead."""
    for text in texts:
        say(f"{lead}{text}")


def say_json(value: Any) -> None:
    """Print a value as JSON: what would steer a terminal, or what its encoding lacks, escaped."""
    # A stream in memory, and none at all, have no encoding; whoever captures takes any.
    encoding = None if _CAPTURED.get() is not None else getattr(sys.stdout, "encoding", None)
    unicode = (encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=not unicode, indent=2)
    _echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


LINE_SECONDS = 10.0
"""Between two lines of progress where no terminal shows them."""


class _Lines:
    said: float | None = None
    """When the work began or last said where it stands; None between works."""


def progress(text: str) -> None:
    """One line on standard error, written over by the next; where that is no terminal a line every
    ten seconds, the first after as long. A stream that cannot be written ends no work."""
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            click.echo(f"\r{printable(text):<60}", err=True, nl=False)
            return
        now = time.monotonic()
        if _Lines.said is None:
            _Lines.said = now
        elif now - _Lines.said > LINE_SECONDS:
            _Lines.said = now
            click.echo(printable(text.strip()), err=True)


def progress_ended() -> None:
    """Leave the line that progress wrote over."""
    _Lines.said = None
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            click.echo(err=True)


def show(error: click.ClickException) -> None:
    """The error on standard error, with the usage where click adds it."""
    text = io.StringIO()
    error.show(text)
    say(text.getvalue(), err=True, nl=False)


def unforeseen(error: Exception) -> str:
    """A fault of the program itself, in a sentence."""
    return (
        "this should not have happened, please report it: "
        f"{printable(f'{type(error).__name__}: {error}')}"
    )


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    said = (
        _SPELLED.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in lost
    )
    return "".join(said), error.end


def prepare_streams() -> None:
    """Whatever the encoding of the streams, nothing that is printed raises."""
    _Lines.said = None  # a work before this one may have ended without a word
    codecs.register_error("specmath.spell", _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="specmath.spell")


@contextmanager
def failing_output() -> Iterator[None]:
    """OutputError where standard output is full, in place of what it raised; where its reader
    has had enough (`| head`) the program ends as if by SIGPIPE, without a word."""
    try:
        yield
    except OSError as error:
        # A stream has no file name; files and sockets have their own errors before they come here.
        if error.filename is not None or error.errno not in _FAILING:
            raise
        # Python would try to write the rest once more at its end, and say so in its own way.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            sys.exit(EXIT_PIPE)
        raise OutputError(f"cannot write the output: {error.strerror}") from error
