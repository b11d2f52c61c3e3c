"""Read my log: the boxes, what was read, the answers, the way to the calculator."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import streamlit as st

import specmath
from pages.ui.furniture import NBSP, chart, safe, table, verbatim
from pages.ui.guidance import MARKS
from pages.ui.logs_boxes import paste_box, read_cached, upload_box
from pages.ui.state import adopt, is_example, prediction, scenario
from specmath.charts.logs import survival_chart, windows_chart
from specmath.checks import InputError
from specmath.logs import LogError, Reading
from specmath.logs.answer import Answer
from specmath.logs.answers import answer_all
from specmath.logs.gamma_advice import GAMMA, gamma_rows
from specmath.logs.speed import Speed, speed_of
from specmath.logs.taken import SHAPES, Shape, scenario_from, shape_of
from specmath.predict import predict
from specmath.views.logs import survival_table, windows_table
from specmath.wording import significant

EXAMPLE = Path(specmath.__file__).parent / "data" / "example_vllm.log"
ENGINES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tgi": "TGI",
    "tensorrt-llm": "TensorRT-LLM",
    "lm-studio": "LM Studio",
    "ollama": "Ollama",
}
"""As the engines write their names."""
STATE_MARKS = MARKS | {"info": ":blue[:material/info:]"}


def given_readings() -> list[Reading]:
    """The readings of what is in the boxes; a message and none where nothing can be read."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        text = paste_box("log_text", "Paste what your server printed", EXAMPLE.read_text("utf-8"))
    with right:
        files = upload_box("log_files", "or open files")
    if not files and text.strip() == EXAMPLE.read_text("utf-8").strip():
        left.caption(":orange-badge[Example: replace it with your own] Invented numbers of vLLM.")
    if files and text.strip():
        left.caption("The opened files are read; the text above is not.")
    sources: list[str | bytes] = list(files) or [text]
    if not files and not text.strip():
        st.info("Paste a line or open a file.", icon=":material/content_paste:")
        return []
    gamma = st.session_state.get("log_gamma")
    try:
        return read_cached(tuple(sources), gamma)
    except (LogError, InputError) as error:
        st.error(f"{verbatim(str(error))}", icon=":material/error:")
        return []


def chosen(readings: Sequence[Reading]) -> Reading:
    """The reading to look at; a choice where there are several."""
    if len(readings) == 1:
        return readings[0]
    names = [f"{_engine(r)}, {r.format}" for r in readings]
    index = st.selectbox(
        f"{len(readings)} readings found: look at",
        range(len(readings)),
        format_func=names.__getitem__,
        key="log_reading",
    )
    return readings[index]


def _engine(reading: Reading) -> str:
    return ENGINES.get(reading.engine, reading.engine)


# ── beside the log ───────────────────────────────────────────────────────────────────────────


def beside(reading: Reading) -> tuple[Speed | None, Shape]:
    """A plain run beside the log, and how the server drafts: what a log does not say."""
    with st.expander(
        "Beside the log: a plain run, γ, the kind of draft",
        icon=":material/add_notes:",
        key="log_beside",
    ):
        columns = [*st.columns(2), *st.columns(2)]
        plain_ms = columns[0].number_input(
            "Plain: ms per token", min_value=0.001, value=None, key="log_plain_ms",
            help="TPOT or ITL of the same load without speculation.", placeholder="unknown",
        )  # fmt: skip
        own_ms = columns[1].number_input(
            "This run: ms per token", min_value=0.001, value=None, key="log_ms",
            help="Mean TPOT with speculation; from the log where it prints one.",
            placeholder=_printed(reading, "mean_tpot_ms"),
        )  # fmt: skip
        plain_rate = columns[2].number_input(
            "Plain: tokens/s", min_value=0.001, value=None, key="log_plain_rate",
            help="Of one sequence or of the server: the same for both.", placeholder="unknown",
        )  # fmt: skip
        own_rate = columns[3].number_input(
            "This run: tokens/s", min_value=0.001, value=None, key="log_rate",
            placeholder=_printed(reading, "output_throughput", "tokens_per_second"),
        )  # fmt: skip
        left, right = st.columns([1, 3])
        left.number_input(
            "γ", min_value=1, max_value=256, value=None, key="log_gamma",
            help="Where the log does not print the draft length.",
            placeholder=str(reading.gamma or "unknown"),
        )  # fmt: skip
        shapes: list[Shape | None] = [None, *SHAPES]
        stated = right.selectbox(
            "How the server drafts",
            shapes,
            format_func=lambda s: (
                SHAPES[s] if s else f"As the log shows: {SHAPES[shape_of(reading)]}"
            ),
            key="log_shape",
        )
    speed = speed_of(
        reading,
        plain_ms=plain_ms,
        plain_tokens_per_second=plain_rate,
        ms=own_ms,
        tokens_per_second=own_rate,
    )
    return speed, stated or shape_of(reading)


def _printed(reading: Reading, *names: str) -> str:
    for name in names:
        value = reading.fact(name)
        if isinstance(value, float):
            return f"{significant(value)} (log)"
    return "unknown"


# ── what was read ────────────────────────────────────────────────────────────────────────────


def headline(reading: Reading, answers: Sequence[Answer]) -> str:
    """What the log says, and what to do about γ, in two sentences."""
    said = [f"**{verbatim(_engine(reading))}**, {verbatim(reading.format)}:"]
    if reading.tokens_per_step is not None:
        said.append(
            f"**{significant(reading.tokens_per_step)} tokens a step**, bonus token included,"
        )
    elif reading.tokens_per_pass is not None:
        said.append(f"{significant(reading.tokens_per_pass)} tokens a decode pass,")
    elif reading.accepted_share is not None:
        said.append(f"{reading.accepted_share:.1%} accepted ÷ drafted,")
    said.append("α unknown." if reading.alpha is None else f"**α = {significant(reading.alpha)}**.")
    said += [answer.headline for answer in answers if answer.question == GAMMA]
    return safe(" ".join(said))


def show_costs(gamma: int | None = None) -> None:
    """Which costs the answers take: the scenario's, at its γ or this, and whose they are."""
    found, gamma = prediction(), max(gamma or scenario().gamma, 1)
    if scenario().draft_form == "range":
        cost = f"c from {scenario().c_low:g} to {scenario().c_high:g}"
    else:
        cost = f"c = {significant(found.halves.cost.c)}"
    verified = significant(float(found.halves.cost.verify(gamma)))
    whose = "the example's: put yours in the scenario above" if is_example() else "the scenario's"
    st.caption(
        f":material/edit_note: Costs are {whose}: {cost}, verifying {gamma + 1} tokens {verified} "
        "plain steps."
    )


def numbers(reading: Reading) -> None:
    """The counts and rates, as a small table."""
    interval = reading.alpha_interval
    share = None if reading.accepted_share is None else f"{reading.accepted_share:.1%}"
    rows = {
        "Steps with a draft": _count(reading.steps),
        "Tokens drafted": _count(reading.drafted),
        "Tokens accepted": _count(reading.accepted),
        "Accepted ÷ drafted": share,
        "Tokens per step, bonus included": _rounded(reading.tokens_per_step),
        "Tokens per pass, drafted or not": _rounded(reading.tokens_per_pass),
        "γ": _count(reading.gamma),
        "α": _rounded(reading.alpha),
        "α, interval": interval and f"{interval[0]:.3f} to {interval[1]:.3f}",
        "Coverage: steps with a draft": reading.coverage and f"{reading.coverage:.0%}",
        "Drafting, ms a step": _rounded(reading.draft_seconds and 1e3 * reading.draft_seconds),
        "c": _rounded(reading.c),
        "Requests, tokens per step p10 to p90": _spread(reading),
    }
    lines = ["| What was read | |", "|---|---:|"]
    lines += [f"| {name} | {value.replace(' ', NBSP)} |" for name, value in rows.items() if value]
    st.markdown("\n".join(lines))


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _rounded(value: float | None) -> str | None:
    return None if value is None else significant(value)


def _spread(reading: Reading) -> str | None:
    found = reading.requests
    if found is None or found.measure != "tokens_per_step":
        return None
    return f"{significant(found.p10)} to {significant(found.p90)}"


def show_warnings(reading: Reading) -> None:
    """What to know before using the numbers."""
    for text in reading.warnings:
        st.caption(f":material/info: {verbatim(text)}")


# ── answers ──────────────────────────────────────────────────────────────────────────────────


def show_answers(answers: Sequence[Answer]) -> None:
    """Each question with its answer; the reasons below it."""
    for answer in answers:
        mark = STATE_MARKS[answer.state]
        st.markdown(safe(f"{mark} **{answer.question}** {answer.headline}"))
        if answer.because:
            st.caption(safe("\n".join(f"- {reason}" for reason in answer.because)))


def show_charts(reading: Reading) -> None:
    """Survival with its interval; beside it the windows over time."""
    if reading.survival:
        chart(
            survival_chart(reading),
            "How far drafts survive",
            f"At least one drafted token is accepted in {reading.survival[0]:.0%} of the steps, "
            f"all {len(reading.survival)} in {reading.survival[-1]:.0%}.",
            height=320,
        )


def show_windows(reading: Reading) -> None:
    """Tokens per step over time, where the log has windows."""
    shown = windows_table(reading)
    if shown is None:
        return
    values = [v for v in shown.column("tokens_per_step").values if isinstance(v, float)]
    chart(
        windows_chart(reading),
        "Tokens per step over time",
        f"From {significant(min(values))} to {significant(max(values))} over {len(values)} "
        "windows. A lasting fall? The tab Has it fallen? compares two logs.",
        height=280,
    )


def show_tables(reading: Reading, shape: Shape) -> None:
    """What the charts show, and the table over γ, each with its downloads."""
    with suppress(InputError):  # the answers say why no γ can be judged
        table(gamma_rows(reading, predict(scenario_from(reading, scenario(), shape)), shape))
    for shown in (survival_table(reading), windows_table(reading)):
        if shown is not None:
            table(shown)


def use_in_calculator(reading: Reading, shape: Shape) -> None:
    """The acceptance of the log becomes the scenario's."""
    try:
        taken = scenario_from(reading, scenario(), shape)
    except InputError as error:
        st.caption(f"Not for the calculator: {verbatim(str(error))}.")
        return
    if st.button("Use in the calculator", type="primary", icon=":material/calculate:"):
        try:
            adopt(taken)
        except InputError as error:
            st.error(f"{verbatim(str(error))}. Nothing was taken over.")
            return
        st.session_state["log_taken"] = True
        st.rerun()
    if st.session_state.pop("log_taken", False):
        st.success("Taken into the scenario, with its γ.", icon=":material/check:")


def answers_of(reading: Reading, speed: Speed | None, shape: Shape) -> tuple[Answer, ...]:
    """The answers with the costs of the scenario."""
    return answer_all(reading, scenario(), speed, shape)
