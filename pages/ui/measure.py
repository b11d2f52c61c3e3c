"""Measure: what to measure, and the button that starts it."""

from collections.abc import Callable

import streamlit as st

from pages.ui.furniture import verbatim
from pages.ui.measure_choices import kept
from pages.ui.measure_job import Job, Kept, Models, connected
from pages.ui.measure_pair import models
from pages.ui.measure_running import duration, failure, keep_here, say
from specmath.checks import InputError
from specmath.measure.pairs import BUILTIN, SHIPPED, SMOLLM2, builtin_prompts
from specmath.measure.plan import Plan, Prompt, parse_prompts, real_numbers, spread, whole_numbers
from specmath.measure.torch_model import commands, lacking

OURS, PASTED, FILE = "Shipped with specmath", "Paste my own", "Open a file"
OURS_ARE = {
    BUILTIN: "Prose, code, JSON and grounded text that the pair never saw in training.",
    SMOLLM2: "Twelve short tasks, asked as chat: prose, code, JSON and grounded.",
}
DEMO_TOKENS_PER_SECOND = 15
"""Of SmolLM2 on a processor: 15 to 24 were seen."""


def settings(busy: bool) -> None:
    """The inputs, the button that starts a measurement of them, and why the last one failed."""
    pair, prompts, numbers = st.columns([4, 4, 3], gap="medium")
    with pair:
        pair_of = models()
    with prompts:
        given = _prompts(pair_of.target)
    with numbers:
        asked = _numbers()
    try:
        plan = asked(given())
    except InputError as error:
        st.error(f"{verbatim(str(error))}.", icon=":material/error:")
        plan = None
    missing = [] if pair_of.target == BUILTIN else lacking(pair_of.target == SMOLLM2)
    if missing:
        _say_how_to_install(missing)
    left, right = st.columns([1, 3], vertical_alignment="center")
    with left:
        if st.button(
            "Measure", type="primary", icon=":material/straighten:", width="stretch",
            disabled=busy or plan is None or bool(missing),
        ):  # fmt: skip
            begun = Job(pair_of, plan, connected())
            st.session_state["measurement"] = begun
            st.session_state["measure_error"] = ""
            keep_here(Kept(begun))
            st.rerun()
    say(failure())
    if plan is not None:
        right.caption(
            f"{plan.units:,} texts of up to {plan.output_tokens:,} tokens"
            f"{_expected(pair_of, plan)}. Nothing leaves this machine. It goes on while you read "
            "other pages or load this one anew, and stops 30 s after this tab is closed: "
            "its address then opens what is done."
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
    return f": about {duration(seconds)} on a processor; fewer γ, prompts or tokens shorten it"


def _prompts(target: str) -> Callable[[], list[Prompt]]:
    """The widgets now, the prompts later: what is wrong with them is said below the columns."""
    source = kept("prompts", OURS, st.selectbox, "Prompts", [OURS, PASTED, FILE])
    if source == OURS:
        st.caption(OURS_ARE.get(target, "Short texts of four kinds. Your own traffic says more."))
        return SHIPPED[target][1] if target in SHIPPED else builtin_prompts
    if source == PASTED:
        text = kept(
            "pasted", "", st.text_area, "Prompts, parted by blank lines", height=130,
            placeholder="A prompt\n\nAnother prompt",
        )  # fmt: skip
        return lambda: parse_prompts("pasted.txt", text.encode("utf-8", "replace"))
    found = st.file_uploader(
        "Prompts", type=["txt", "json", "jsonl"], key="measure_file",
        label_visibility="collapsed", help="txt: parted by blank lines. json, jsonl: strings, or "
        "objects with text, and optionally segment and response.",
    )  # fmt: skip
    st.caption("json and jsonl entries may carry text, segment and response.")
    if found is not None:
        st.session_state["measure_prompts_file"] = (found.name, found.getvalue())
    name, content = st.session_state.get("measure_prompts_file", ("", b""))
    if found is None and name:
        st.caption(f"In use: {verbatim(name)}")
    return lambda: parse_prompts(name, content) if name else _no_file()


def _no_file() -> list[Prompt]:
    raise InputError("prompts must be given, got no file yet")


def _numbers() -> Callable[[list[Prompt]], Plan]:
    """The widgets now, the plan later, as for the prompts."""
    left, right = st.columns(2)
    with left:
        temperatures = kept("temperatures", "0, 1", st.text_input, "Temperatures")
        count = kept("count", 8, st.number_input, "Prompts used", min_value=1, step=1,
                     help="Segments are taken in turn.")  # fmt: skip
    with right:
        gammas = kept("gammas", "1-8", st.text_input, "γ",
                      help="Each is replayed and really run: 1-8 or 1,2,4.")  # fmt: skip
        tokens = kept("tokens", 48, st.number_input, "Tokens a text", min_value=1, step=16)
    top_p = kept("top_p", 1.0, st.number_input, "Top-p", min_value=0.01, max_value=1.0, step=0.05,
                 help="1 samples from the whole distribution.")  # fmt: skip
    own = st.session_state["measure_choices"]["prompts"] != OURS

    def plan(prompts: list[Prompt]) -> Plan:
        run = tuple(gamma for gamma in whole_numbers("γ", gammas) if gamma > 0)
        if not run:
            raise InputError(f"γ must hold a whole number >= 1, got {gammas!r}")
        return Plan(
            prompts=tuple(spread(prompts, count)), top_p=top_p, gammas=(0, *run), run_gammas=run,
            temperatures=real_numbers("temperatures", temperatures), output_tokens=tokens,
            own_prompts=own,
        )  # fmt: skip

    return plan
