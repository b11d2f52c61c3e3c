"""Measure: what to measure, the measurement that runs, the way to open an earlier report."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.ui import measure_pair
from pages.ui.furniture import verbatim
from pages.ui.measure_choices import kept
from pages.ui.measure_job import SMOLLM2, Job, Models
from pages.ui.measure_tab import connected
from specmath.checks import InputError
from specmath.measure.files import read_report
from specmath.measure.optional import commands, lacking
from specmath.measure.pairs import BUILTIN, builtin_prompts
from specmath.measure.plan import Plan
from specmath.measure.prompts import Prompt, parse_prompts, spread
from specmath.measure.report import Report
from specmath.measure.smollm2 import smollm2_prompts
from specmath.measure.written import real_numbers, whole_numbers

SHIPPED, PASTED, FILE = "Shipped with specmath", "Paste my own", "Open a file"
SHIPPED_ARE = {
    BUILTIN: "Prose, code, JSON and grounded text that the pair never saw in training.",
    SMOLLM2: "Twelve short tasks, asked as chat: prose, code, JSON and grounded.",
}
TICK_SECONDS = 1.0
DEMO_TOKENS_PER_SECOND = 15
"""Of SmolLM2 on a processor: 15 to 24 were seen."""


# ── what to measure ──────────────────────────────────────────────────────────────────────────


def settings(busy: bool) -> None:
    """The inputs, the button that starts a measurement of them, and why the last one failed."""
    pair, prompts, numbers = st.columns([4, 4, 3], gap="medium")
    with pair:
        models = measure_pair.models()
    with prompts:
        given = _prompts(models.target)
    with numbers:
        asked = _numbers()
    try:
        plan = _plan(given(), *asked)
    except InputError as error:
        st.error(f"{verbatim(str(error))}.", icon=":material/error:")
        plan = None
    missing = [] if models.target == BUILTIN else lacking(models.target == SMOLLM2)
    if missing:
        _say_how_to_install(missing)
    left, right = st.columns([1, 3], vertical_alignment="center")
    with left:
        if st.button(
            "Measure",
            type="primary",
            icon=":material/straighten:",
            disabled=busy or plan is None or bool(missing),
            width="stretch",
        ):
            st.session_state["measurement"] = Job(models, plan, connected())
            st.session_state["measure_error"] = ""
            st.rerun()
    _say(failure())
    if plan is not None:
        right.caption(
            f"{plan.units:,} texts of up to {plan.output_tokens:,} tokens"
            f"{_expected(models, plan)}. Nothing leaves this machine. It goes on while you read "
            "other pages, and stops 30 s after this tab is closed."
        )


def _say_how_to_install(missing: list[str]) -> None:
    steps = ", then ".join(f"`{command}`" for command in commands(missing))
    st.info(
        f"This pair needs {', '.join(f'`{name}`' for name in missing)}, not installed here. In the "
        f"folder of this project run {steps}, and start the app again. The built-in pair needs "
        "nothing more.",
        icon=":material/download:",
    )


def _expected(models: Models, plan: Plan) -> str:
    """How long, where that is long and known before it starts."""
    if models.target != SMOLLM2:
        return ""
    seconds = plan.units * plan.output_tokens / DEMO_TOKENS_PER_SECOND
    return f": about {_duration(seconds)} on a processor; fewer γ, prompts or tokens shorten it"


def _prompts(target: str) -> Callable[[], list[Prompt]]:
    """The widgets now, the prompts later: what is wrong with them is said below the columns."""
    source = kept("prompts", SHIPPED, st.selectbox, "Prompts", [SHIPPED, PASTED, FILE])
    if source == SHIPPED:
        st.caption(
            SHIPPED_ARE.get(target, "Short texts of four kinds. Your own traffic says more.")
        )
        return smollm2_prompts if target == SMOLLM2 else builtin_prompts
    if source == PASTED:
        text = kept(
            "pasted", "", st.text_area, "Prompts, parted by blank lines", height=130,
            placeholder="A prompt\n\nAnother prompt",
        )  # fmt: skip
        return lambda: parse_prompts("pasted.txt", text.encode("utf-8", "replace"))
    found = st.file_uploader(
        "Prompts",
        type=["txt", "json", "jsonl"],
        key="measure_file",
        label_visibility="collapsed",
        help="txt: parted by blank lines. json, jsonl: strings, or objects with text, and "
        "optionally segment and response.",
    )
    st.caption("json and jsonl entries may carry text, segment and response.")
    if found is not None:
        st.session_state["measure_prompts_file"] = (found.name, found.getvalue())
    name, content = st.session_state.get("measure_prompts_file", ("", b""))
    if found is None and name:
        st.caption(f"In use: {verbatim(name)}")
    return lambda: parse_prompts(name, content) if name else _no_file()


def _no_file() -> list[Prompt]:
    raise InputError("prompts must be given, got no file yet")


def _numbers() -> tuple[Any, ...]:
    left, right = st.columns(2)
    with left:
        temperatures = kept("temperatures", "0, 1", st.text_input, "Temperatures")
        count = kept("count", 16, st.number_input, "Prompts used", min_value=1, step=1,
                     help="Segments are taken in turn.")  # fmt: skip
    with right:
        gammas = kept("gammas", "1-8", st.text_input, "γ",
                      help="Each is replayed and really run: 1-8 or 1,2,4.")  # fmt: skip
        tokens = kept("tokens", 64, st.number_input, "Tokens a text", min_value=1, step=16)
    top_p = kept("top_p", 1.0, st.number_input, "Top-p", min_value=0.01, max_value=1.0, step=0.05,
                 help="1 samples from the whole distribution.")  # fmt: skip
    own = st.session_state["measure_choices"]["prompts"] != SHIPPED
    return temperatures, gammas, count, tokens, top_p, own


def _plan(
    prompts: list[Prompt], temperatures: str, gammas: str, count: int, tokens: int, top_p: float,
    own: bool,
) -> Plan:  # fmt: skip
    run = tuple(gamma for gamma in whole_numbers("γ", gammas) if gamma > 0)
    if not run:
        raise InputError(f"γ must hold a whole number >= 1, got {gammas!r}")
    return Plan(
        prompts=tuple(spread(prompts, count)),
        temperatures=real_numbers("temperatures", temperatures),
        top_p=top_p,
        gammas=(0, *run),
        run_gammas=run,
        output_tokens=tokens,
        own_prompts=own,
    )


def failure() -> str:
    """Why the last measurement ended without a report; "" where it did not."""
    return str(st.session_state.get("measure_error", ""))


# ── the measurement that runs ────────────────────────────────────────────────────────────────


def job() -> Job | None:
    """The session's measurement; what it found is taken over once it has ended."""
    found: Job | None = st.session_state.get("measurement")
    if found is None or found.alive:
        return found
    del st.session_state["measurement"]
    if found.report is not None:
        st.session_state["measured"] = found.report
    st.session_state["measure_error"] = found.error
    return None


@st.fragment(run_every=TICK_SECONDS)
def watch(running: Job) -> None:
    """Progress, time left, Cancel: drawn anew each second without the rest of the page."""
    if not running.alive:
        st.rerun()
    stopping = running.cancel.is_set()
    left = running.seconds_left
    words = "stopping; what is done is being scored" if stopping else running.doing
    if not stopping:
        words += "" if left is None else f"; about {_duration(left)} left"
    bar, button = st.columns([5, 1], vertical_alignment="center")
    bar.progress(running.share, text=f"{running.share:.0%} {words}")
    if button.button("Cancel", icon=":material/stop:", disabled=stopping, width="stretch"):
        running.cancel.set()
        st.rerun(scope="fragment")
    st.caption("Cancel keeps what is finished by then, and marks it.")


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"


# ── the report on screen ─────────────────────────────────────────────────────────────────────


def measured() -> Report | None:
    """The report on screen: measured in this session, or opened."""
    return st.session_state.get("measured")


def open_report() -> None:
    """Open the JSON of an earlier report; one that cannot be read changes nothing."""
    found = st.file_uploader("Open an earlier report (JSON)", type="json", key="measure_report")
    if found is None or st.session_state.get("measure_opened") == found.file_id:
        _say(st.session_state.get("measure_fault", "") if found is not None else "")
        return
    st.session_state["measure_opened"] = found.file_id
    try:
        st.session_state["measured"] = read_report(found.getvalue().decode("utf-8"))
    except UnicodeDecodeError:
        fault = f"{found.name} is not UTF-8 text"
    except InputError as error:
        fault = f"{found.name}: {error}"
    else:
        st.session_state["measure_fault"] = ""
        st.session_state["measure_error"] = ""
        st.rerun()
    st.session_state["measure_fault"] = f"{fault}. Nothing was opened"
    _say(st.session_state["measure_fault"])


def _say(fault: str) -> None:
    if fault:
        st.error(f"{verbatim(fault)}.", icon=":material/error:")
