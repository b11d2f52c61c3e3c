"""Did it work? Two runs side by side: predicted, observed, difference and the decision."""

import streamlit as st

from pages.ui.furniture import MINUS, safe, verbatim
from pages.ui.logs_boxes import side
from pages.ui.state import examples, scenario
from specmath.checks import InputError
from specmath.logs.observed import Span
from specmath.logs.review import Review, cost_unknown, review
from specmath.scenario.faults import in_words
from specmath.wording import ratio

BOXES = {"keep": st.success, "roll back": st.error, "change": st.info, "run longer": st.warning}
ICONS = {
    "keep": ":material/check_circle:",
    "roll back": ":material/undo:",
    "change": ":material/tune:",
    "run longer": ":material/hourglass_top:",
}


def show_review() -> None:
    """Both sides' boxes, and the decision once both can be read."""
    st.caption(
        "Two benchmark results (vllm bench serve, SGLang's bench_serving; several runs of each "
        "give a better interval), metrics pages or logs, of the same load before and after. Before "
        "needs only its speed: a plain run of llama.cpp or a table of guidellm will do."
    )
    sides = []
    for column, (key, label) in zip(
        st.columns(2, gap="medium"), (("before", "Before"), ("after", "After")), strict=True
    ):
        with column:
            sides.append(side(f"review_{key}", label, plain=True))
    planned = st.toggle(
        "Hold it against the scenario above, as planned",
        help="Off: predicted from the acceptance in the logs and the scenario's costs.",
    )
    if sides[0] is None or sides[1] is None:
        st.info("Give both sides.", icon=":material/compare_arrows:")
        return
    try:
        base = scenario() if planned or "draft cost" not in examples() else cost_unknown(scenario())
        found = review(sides[0], sides[1], base, planned=planned)
    except InputError as error:
        st.error(f"{verbatim(in_words(str(error)))}.", icon=":material/error:")
        return
    _show(found)
    if "draft cost" in examples() or (planned and examples()):
        st.caption(f":material/edit_note: {_whose(planned)}")


def _whose(planned: bool) -> str:
    """Whose values the prediction rests on while the scenario is the example, or part of it is."""
    if planned:
        return (
            f"The {' and '.join(examples())} of the scenario above are still the example's: that "
            "is no plan of yours."
        )
    return "The draft cost of the scenario above is still the example's, so it is not used here."


def _show(found: Review) -> None:
    because = " ".join(f"{reason}." for reason in found.because)
    BOXES[found.decision](safe(f"**{found.headline}** {because}"), icon=ICONS[found.decision])
    lines = ["| | Value | Interval | Where it comes from |", "|---|---:|---:|---|"]
    lines += [_line("Predicted speedup", found.predicted, ratio)]
    lines += [_line(f"Observed speedup, by {found.measure}", found.observed, ratio)]
    lines += [_line("Observed against predicted", found.difference, _percent)]
    st.markdown(safe("\n".join(lines)))
    for warning in found.warnings:
        st.warning(verbatim(warning), icon=":material/warning:")


def _line(name: str, span: Span | None, show) -> str:  # type: ignore[no-untyped-def]
    if span is None:
        return f"| {name} | unknown | | |"
    interval = "none"
    if span.low is not None and span.high is not None:
        interval = f"{show(span.low)} to {show(span.high)}"
    return f"| {name} | {show(span.value)} | {interval} | {span.basis} |"


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}%".replace("-", MINUS)
