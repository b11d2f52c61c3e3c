"""What every page is built from: the answer, the numbers, the chart, the table, the next page."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.state import scenario, touched
from specmath.checks import plain_text
from specmath.numbers import count, measured_in, ratio, signed_percent, significant
from specmath.predict import Prediction
from specmath.tables import numbers_table
from specmath.tables.files import file_bytes, offered
from specmath.tables.table import Cell, Column, Table
from specmath.tables.table import shown as cell_text
from specmath.words import notes as words
from specmath.words.verdict import Verdict, ground_words

NBSP, HYPHEN = "\u00a0", "\u2011"
"""A blank and a hyphen at which no line breaks."""
MINUS = "\u2212"
LONG = 30
"""Characters beyond which the text of a cell may break into lines."""

_MARKUP = re.compile(r"[\\`*_\[\]<>#|~$&]|^[-+]|(?<=^\d)[.)]")
# Links, addresses, icons and emoji are found in the text after escapes are taken off it, so that
# only a character between keeps them apart; a directive begins with a colon and a letter.
_FOUND = re.compile(r"(?<=:)(?=[^\W\d]|//)|(?<=www)(?=\.)|(?=@)", re.IGNORECASE)
JOINER = "\u2060"
"""Has no width, and no line breaks at it."""

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


def verbatim(text: str) -> str:
    """Text for markdown as it stands: nothing in it is markup, mathematics, a link or an image,
    which would be fetched from wherever it says. Every text passes here that is not written in
    `pages/` itself: names, logs, answers of servers, and sentences that repeat any of them."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", _FOUND.sub(JOINER, plain_text(text)))


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
        st.session_state["withheld"] = True


def answer_place(key: str = "answer") -> DeltaGenerator:
    """Where a page's answer stands; on a phone all whose key begins so come before the inputs."""
    return st.container(key=key)


def say(text: str, icon: str) -> None:
    """An answer that is no verdict."""
    answer_place().info(verbatim(text), icon=f":material/{icon}:")


def answer(found: Verdict) -> None:
    """The verdict: headline, reason, what flips it, and the commands to measure with; its load
    stands among the notes."""
    box = {"use": st.success, "skip": st.error, "measure": st.warning}.get(found.action, st.info)
    with answer_place():
        why = " ".join(filter(None, (found.reason, found.flips)))
        box(f"**{verbatim(found.headline)}** {verbatim(why)}", icon=ICONS[found.action])
        if found.commands:
            with st.expander("How to measure", icon=":material/terminal:"):
                for engine, command in found.commands:
                    st.caption(verbatim(engine))
                    st.code(command, language="shell")


def numbers(prediction: Prediction) -> None:
    """Plain, speculative and change: time per token, cost, speed, arithmetic."""
    plain_table(numbers_table(prediction))


def choices_of_gamma(prediction: Prediction) -> None:
    """The γ that matter, side by side: yours if you gave one, best, recommended, crossover."""
    p, speeds = prediction, prediction.curve.walltime_improvement
    # A measured curve of v, or the heads of a drafter, may end before the largest considered.
    top = min(p.scenario.max_gamma, int(p.curve.gamma[-1]))
    chosen = {} if p.scenario.gamma is None else {"Yours": p.gamma}
    chosen |= {
        "Recommended: smallest within 2% of the best": p.recommended_gamma,
        f"Best up to {top}": p.best_gamma,
    }
    low, high = p.curve.low, p.curve.high

    def speed_at(g: int) -> str:
        if low is None or high is None:
            return ratio(float(speeds[g]))
        return f"{ratio(float(low[g]))} to {ratio(float(high[g]))}"

    cells = [(label, f"γ={g}", speed_at(g)) for label, g in chosen.items()]
    reach = f"none to {p.speculation.cost.reach:,}"
    crossing = f"γ={p.crossover_gamma}" if p.crossover_gamma else reach
    cells.append(("Arithmetic outgrows speed from", crossing, ""))
    large(cells, "choices")


def large(cells: Sequence[tuple[str, str, str]], key: str) -> None:
    """Numbers to be seen from afar: a label, its value and its range, which may be empty.

    One piece of the page for all: each that Streamlit draws of its own costs a redraw some time.
    """
    drawn = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd><dd>{escape(span)}</dd></div>"
        for label, value, span in cells
    )
    with answer_place(key):
        st.html(f"<dl class='large'>{drawn}</dl>")


def assumptions(prediction: Prediction, more: Sequence[str] = ()) -> None:
    """One folded list: what the range is over, what nobody gave, how far to trust the rest; `more`:
    what a page knows besides, first."""
    ground, named = ground_words(prediction), words.assumed(prediction)
    told = (*more, *words.notes(prediction))
    unknown = len(prediction.speedup.basis.over) if ground else 0
    parts = [f"{n} {what}" for n, what in ((unknown, "not known"), (len(named), "assumed")) if n]
    listed = f"Assumed until you give them: {'; '.join(named)}." if named else ""
    folded((*parts, count(len(told), "note")), tuple(filter(None, (ground, listed, *told))))


def folded(parts: Sequence[str], texts: Sequence[str]) -> None:
    """The one list of a page of what its answer rests on; `parts`: what is in it."""
    label = f"What this rests on: {', '.join(parts)}"
    with st.expander(label, icon=":material/edit_note:", key="assumptions"):
        remarks(texts)


def remarks(texts: Sequence[str]) -> None:
    """What must be known of what stands above, a line each."""
    if texts:
        st.caption("  \n".join(f":material/info: {verbatim(text)}" for text in texts))


def chart(figure: go.Figure, title: str, sentence: str, *, height: int = 380) -> None:
    """A chart with a title that says what is seen, and the same in a sentence."""
    st.markdown(f"**{verbatim(title)}**")
    figure.update_layout(height=height)
    st.plotly_chart(figure, width="stretch", config={"displaylogo": False, "displayModeBar": False})
    st.caption(verbatim(sentence))


def table(shown: Table) -> None:
    """The table behind the chart, and its downloads."""
    with drawer(f"Table: {verbatim(shown.title)}", "table", f"table_{shown.name}") as opened:
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


def plain_table(
    shown: Table, marks: Mapping[str, str] | None = None, middles: Collection[str] = (),
    against: Collection[str] = (), empty: str = "unknown",
) -> None:  # fmt: skip
    """A short table as text, in the number formats of its columns; `marks` draws a column `state`.

    Where `x_low` and `x_high` stand beside a column x, the three are one: the range, or the value
    where there is none; of a column of `middles` the value, and the range in brackets. Of a column
    of `against` the value of its `x_plain` stands before it: "29.1 → 12.5". Where a column `unit`
    has the unit of each row, the cells carry it. `empty`: how a cell without a value reads.
    """
    columns = {c.name: c for c in shown.columns}
    units = columns.pop("unit").values if "unit" in columns else ("",) * len(shown)
    ends = {f"{name}{end}" for name in columns for end in ("_low", "_high")}
    before = {f"{name}_plain": name for name in against}
    kept = [c for name, c in columns.items() if name not in ends | before.keys()]
    heads = [verbatim(f"{c.label} ({c.unit})" if _head_has_unit(c) else c.label) for c in kept]
    aligned = ["---|" if isinstance(c.values[0], str) else "---:|" for c in kept]
    lines = [f"| {' | '.join(heads)} |", "|" + "".join(aligned)]
    for row, unit in enumerate(units):
        cells = (
            marks[str(c.values[row])]
            if marks and c.name == "state"
            else _against(columns, c, row)
            if c.name in against
            else empty
            if c.values[row] is None
            else _range(columns, c, row, str(unit), middle=c.name in middles)
            for c in kept
        )
        lines.append(f"| {' | '.join(cells)} |")
    st.markdown("\n".join(lines))


def _head_has_unit(column: Column) -> bool:
    return bool(column.unit) and (column.unit != "%" or bool(column.format))


def _range(
    columns: Mapping[str, Column], column: Column, row: int, unit: str, *, middle: bool
) -> str:
    ends = [columns.get(f"{column.name}{end}") for end in ("_low", "_high")]
    values = [c.values[row] for c in ends if c is not None]
    if len(values) < 2 or None in values:
        values = [column.values[row]]
    unit = "" if column.unit else unit
    # Of a range the last end has the unit; percent and dollars stand at the number itself.
    first = unit if unit in ("%", "USD", "×") else ""
    cells = dict.fromkeys(_unbroken(value, column, unit) for value in values)
    if len(cells) > 1:
        cells = dict.fromkeys((_unbroken(values[0], column, first), list(cells)[-1]))
    told = f" to{NBSP}".join(cells)  # in a narrow column, two lines
    if middle and len(cells) > 1:
        between = _unbroken(column.values[row], column, unit)
        return f"{between} ({told.replace(' ', NBSP)})"
    return told


def _against(columns: Mapping[str, Column], column: Column, row: int) -> str:
    """Plain decoding, and beside it what becomes of it with its range."""
    plain = columns[f"{column.name}_plain"]
    then = _range(columns, column, row, "", middle=True)
    return f"{_unbroken(plain.values[row], plain, '')} → {then}"


def _unbroken(value: Cell, column: Column, unit: str) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        if len(value) > LONG:
            return verbatim(value)
        return verbatim(value.replace("-", HYPHEN)).replace(" ", NBSP)
    if "%" in (unit, "" if _head_has_unit(column) else column.unit):
        return signed_percent(value / 100)
    if column.format or isinstance(value, int):
        text = cell_text(value, column.format or "#,##0")
    else:
        text = significant(value)
    sign = "+" if column.name == "change" and value > 0 else ""
    text = measured_in(unit, sign + text.replace("-", MINUS))
    return verbatim(text).replace(" ", NBSP)


def downloads(shown: Table, beside: Sequence[Table] = (), about: str | None = None) -> None:
    """The table on screen as CSV with values, CSV with live formulas, and a workbook, in which the
    tables `beside` it have their sheets too. `about`: what the files say that they are of, where
    it is not the scenario."""
    # A row of one box: columns would each be one more piece of the page to draw anew.
    row, key = st.container(horizontal=True, vertical_alignment="center"), f"comma_{shown.name}"
    separators = (";", ",") if st.session_state.get(key) else (",", ".")
    current = scenario() if about is None else about
    for kind, label in offered(shown, beside).items():
        ending, mime = MIMES[kind]
        row.download_button(
            label,
            data=lambda kind=kind: file_bytes(shown, current, kind, *separators, beside=beside),
            file_name=f"specmath-{shown.name}.{ending}",
            mime=mime,
            key=f"download_{shown.name}_{kind}",
            on_click="ignore",
            width="stretch",
        )
    row.toggle(
        "Decimal comma, `;` between cells",
        key=key,
        help="For a spreadsheet program set to a language with decimal commas.",
    )


def next_question(page: str, question: str) -> None:
    """The page to read next."""
    st.page_link(f"pages/{page}.py", label=f"Next: {question}", icon=":material/arrow_forward:")
