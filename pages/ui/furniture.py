"""What every page is built from: the answer, the numbers, the chart, the table, the next page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.state import scenario, touched
from specmath.predict import Prediction
from specmath.sheets.downloads import KINDS, file_bytes
from specmath.sheets.tables import Cell, Table
from specmath.sheets.tables import shown as cell_text
from specmath.verdict import Verdict
from specmath.wording import change, changed, faster, interval, ms, ratio, usd

NBSP, HYPHEN = "\u00a0", "\u2011"
"""A blank and a hyphen at which no line breaks."""
MINUS = "\u2212"

UNSAFE = "\\`*_[]<>#|!~$:"

ICONS = {
    "use": ":material/check_circle:",
    "lower": ":material/south:",
    "raise": ":material/north:",
    "skip": ":material/block:",
    "measure": ":material/straighten:",
}
MIMES = {
    "values": ("csv", "text/csv"),
    "formulas": ("formulas.csv", "text/csv"),
    "xlsx": ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
}


def safe(text: str) -> str:
    """Text for markdown: a dollar sign is money, not mathematics."""
    return text.replace("$", r"\$")


def verbatim(text: str) -> str:
    """Somebody's own text (a name, a log, a link) for markdown: nothing in it is markup, a link
    or an image, which would be fetched from wherever it says."""
    return "".join(f"\\{c}" if c in UNSAFE else c for c in " ".join(text.split()))


@contextmanager
def drawer(label: str, icon: str, key: str) -> Iterator[bool]:
    """A closed expander that is only filled once it is opened: a page stays quick without it."""
    box = st.expander(label, icon=f":material/{icon}:", key=f"drawer_{key}", on_change=touched)
    with box:
        yield bool(box.open)


def said_of_link(notices: Sequence[str]) -> None:
    """What could not be read of a link, in one box."""
    if notices:
        st.warning("  \n".join(map(verbatim, notices)), icon=":material/link_off:")


def answer_place(key: str = "answer") -> DeltaGenerator:
    """Where a page's answer stands; on a phone all whose key begins so come before the inputs."""
    return st.container(key=key)


def say(text: str, icon: str) -> None:
    """An answer that is no verdict."""
    answer_place().info(safe(text), icon=f":material/{icon}:")


def answer(found: Verdict) -> None:
    """The verdict: headline, reason, what flips it, and the commands to measure with."""
    box = {"use": st.success, "skip": st.error, "measure": st.warning}.get(found.action, st.info)
    with answer_place():
        box(
            safe(f"**{found.headline}** {found.reason} {found.flips}"),
            icon=ICONS[found.action],
        )
        if found.commands:
            with st.expander("How to measure", icon=":material/terminal:"):
                for engine, command in found.commands:
                    st.caption(engine)
                    st.code(command, language="shell")


def _plain(prediction: Prediction, value: float | None, show: Any) -> str:
    return interval(None if value is None else prediction.of_plain(value), show)


def numbers(prediction: Prediction) -> None:
    """Plain, speculative and change: time per token, cost, arithmetic."""
    p = prediction
    speed = faster(p.speedup.value) if p.speedup.low is None else interval(p.speedup, ratio)
    work = p.operations
    ends = (work.value,) if work.low is None or work.high is None else (work.low, work.high)
    more = " to ".join(change(end, 1.0) for end in ends)
    rows = {
        "Time per token": (
            _plain(p, p.tpot_plain, ms),
            interval(p.tpot, ms),
            changed(p.tpot and p.tpot.value, p.tpot_plain, p.speedup),
        ),
        "Cost per 1M tokens": (
            _plain(p, p.usd_plain, usd),
            interval(p.usd, usd),
            changed(p.usd and p.usd.value, p.usd_plain, p.speedup),
        ),
        "Speed": ("1×", interval(p.speedup, ratio), speed),
        "Arithmetic per token": ("1×", interval(work, ratio), more),
    }
    lines = ["| | Plain | Speculative | Change |", "|---|---:|---:|---:|"]
    # A number and its unit stay on one line.
    lines += [
        f"| {name} | {' | '.join(cells)} |".replace(" ms", f"{NBSP}ms")
        for name, cells in rows.items()
    ]
    st.markdown(safe("\n".join(lines)))


def choices_of_gamma(prediction: Prediction) -> None:
    """The γ that matter, side by side: yours, best, recommended, crossover."""
    p, speeds = prediction, prediction.curve.walltime_improvement
    # A measured curve of v, or the heads of a drafter, may end before the largest considered.
    top = min(p.scenario.max_gamma, int(p.curve.gamma[-1]))
    chosen = {
        "Yours": p.scenario.gamma,
        "Recommended: smallest within 2% of the best": p.recommended_gamma,
        f"Best up to {top}": p.best_gamma,
    }
    low, high = p.curve.low, p.curve.high

    def speed_at(g: int) -> str:
        if low is None or high is None:
            return ratio(float(speeds[g]))
        return f"{ratio(float(low[g]))} to {ratio(float(high[g]))}"

    cells = [(label, f"γ={g}", speed_at(g)) for label, g in chosen.items()]
    reach = f"none to {p.halves.cost.reach:,}"
    crossing = f"γ={p.crossover_gamma}" if p.crossover_gamma else reach
    cells.append(("Arithmetic outgrows speed from", crossing, ""))
    with st.container(key="choices"):
        for column, (label, value, speed) in zip(st.columns(4), cells, strict=True):
            column.metric(label, value, speed or None, delta_color="off", delta_arrow="off")


def assumed(prediction: Prediction) -> None:
    """The inputs that nobody gave, beside the numbers they make."""
    if prediction.assumed:
        listed = "; ".join(prediction.assumed)
        st.caption(f":material/edit_note: Assumed until you give them: {safe(listed)}.")


def notes(texts: Sequence[str]) -> None:
    """What the reader must know about how far the numbers can be trusted."""
    if texts:
        st.caption("  \n".join(f":material/info: {verbatim(text)}" for text in texts))


def chart(figure: go.Figure, title: str, sentence: str, *, height: int = 380) -> None:
    """A chart with a title that says what is seen, and the same in a sentence."""
    st.markdown(f"**{safe(title)}**")
    figure.update_layout(height=height)
    st.plotly_chart(figure, width="stretch", config={"displaylogo": False, "displayModeBar": False})
    st.caption(safe(sentence))


def table(shown: Table) -> None:
    """The table behind the chart, and its downloads."""
    with drawer(f"Table: {shown.title}", "table", f"table_{shown.name}") as opened:
        if opened:
            st.dataframe(
                pd.DataFrame(shown.rows()),
                hide_index=True,
                column_config={
                    c.name: st.column_config.Column(
                        f"{c.label} ({c.unit})" if c.unit else c.label, help=c.definition
                    )
                    for c in shown.columns
                },
            )
            downloads(shown)


def plain_table(shown: Table) -> None:
    """A short table as text, in the number formats of its columns."""
    heads = [safe(f"{c.label} ({c.unit})" if c.unit else c.label) for c in shown.columns]
    aligned = ["---|" if isinstance(c.values[0], str) else "---:|" for c in shown.columns]
    lines = [f"| {' | '.join(heads)} |", "|" + "".join(aligned)]
    for row in range(len(shown)):
        cells = (_unbroken(c.values[row], c.format) for c in shown.columns)
        lines.append(f"| {' | '.join(cells)} |")
    st.markdown("\n".join(lines))


def _unbroken(value: Cell, number_format: str) -> str:
    text = cell_text(value, number_format) or "none"
    if isinstance(value, str):
        text = verbatim(text).replace("-", HYPHEN)
    else:
        text = text.replace("-", MINUS)
    return text.replace(" ", NBSP)


def downloads(shown: Table) -> None:
    """The table on screen as CSV with values, CSV with live formulas, and a workbook."""
    columns = st.columns([2, 2, 2, 3], vertical_alignment="bottom")
    with columns[3]:
        comma = st.toggle(
            "Decimal comma, `;` between cells",
            key=f"comma_{shown.name}",
            help="For a spreadsheet program set to a language with decimal commas.",
        )
    separators = (";", ",") if comma else (",", ".")
    current = scenario()
    for column, (kind, label) in zip(columns, KINDS.items(), strict=False):
        ending, mime = MIMES[kind]
        column.download_button(
            label,
            data=lambda kind=kind: file_bytes(shown, current, kind, *separators),
            file_name=f"specmath-{shown.name}.{ending}",
            mime=mime,
            key=f"download_{shown.name}_{kind}",
            on_click="ignore",
            width="stretch",
        )


def next_question(page: str, question: str) -> None:
    """The page to read next."""
    st.page_link(f"pages/{page}.py", label=f"Next: {question}", icon=":material/arrow_forward:")
