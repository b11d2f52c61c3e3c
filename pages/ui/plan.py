"""The plan of the page of which endpoints: its two tables, its file, where it begins."""

from collections.abc import Sequence
from functools import cache
from importlib import resources

import pandas as pd
import streamlit as st

from pages.ui.furniture import drawer, verbatim
from pages.ui.state import PLAN, note_plan, plan_grid, scenario, take_plan, touched
from specmath.checks import InputError
from specmath.plan.files import from_toml, to_toml
from specmath.plan.grid import (
    ENDPOINT_COLUMNS,
    SEGMENT_COLUMNS,
    Grid,
    Row,
    endpoint_row,
    grid_of,
    plan_from,
    read_rows,
)
from specmath.plan.record import GAMMA_BY, RATE, SHARE, Plan
from specmath.scenario import SPECS
from specmath.scenario.faults import ScenarioError, in_words

LABELS = {
    "endpoint": ("Endpoint", "A name of your own."),
    "segment": ("Segment", "A name of your own."),
    SHARE: ("Share", "Of the endpoint's requests, such as 60%; or give each its requests/s."),
    "acceptance": (
        "Acceptance",
        "0.8 is α; 0.6 to 0.8 a range of it; 0.8, 0.6, 0.45 rates by position; 2.8 @ 4 tokens a "
        "step at γ=4; 61% @ 4 accepted ÷ drafted; 0.5:0.9, 0.5:0.4 share:α. Empty: what others "
        "measured of that kind of draft at that kind of work.",
    ),
    GAMMA_BY: (
        "γ by",
        "one: the engine drafts as many for all requests, as most do; request: it has a γ for "
        "each kind (needs segments). What that costs: per_request_tax=5 among the other fields, "
        "percent of a step.",
    ),
    "day": ("Day", "24 numbers, one an hour, of which only the shape counts. Empty: all alike."),
    "other": ("Other fields", "name=value; name=value, as on the command line."),
}
"""Of columns that are no field of the scenario."""

SHORT = {
    RATE: "Requests/s", "usd_per_hour": "USD a GPU hour", "tensor_parallel": "GPUs (TP)",
    "slo_tpot_ms": "Token ≤ ms", "slo_ttft_ms": "First token ≤ ms", "slo_e2e_ms": "Request ≤ ms",
    "prompt_tokens": "Prompt", "output_tokens": "Output", "prefix_hit": "Cache hits",
    "work": "Work", "model": "Model", "draft": "Draft", "gamma": "γ",
}  # fmt: skip
"""Heads that a narrow column has room for."""


@cache
def example() -> Grid:
    """Three endpoints to be replaced by one's own."""
    text = resources.files("specmath.data").joinpath("plan_example.toml").read_text("utf-8")
    return grid_of(from_toml(text))


def edited() -> tuple[Plan | None, list[str]]:
    """The plan as its tables stand, or the faults for which there is none."""
    grid = plan_grid()
    if grid is None:
        grid = example()
    with st.expander("The plan", expanded=True, icon=":material/table_edit:"):
        st.caption(
            "A row an endpoint, and below a row for each kind of request that it serves. Edit a "
            "cell, paste cells, add a row at the bottom, or select rows to delete them."
        )
        endpoints = _editor("endpoints", grid.endpoints, ENDPOINT_COLUMNS)
        segments = _editor("segments", grid.segments, SEGMENT_COLUMNS)
    now = Grid(endpoints, segments, grid.name)
    if plan_grid() is not None or now != example():
        note_plan(now)
    try:
        return plan_from(now), []
    except ScenarioError as error:
        return None, error.faults
    except InputError as error:
        return None, [str(error)]


def say_faults(faults: Sequence[str]) -> None:
    """What is to be mended, a line each."""
    lines = "  \n".join(verbatim(in_words(fault)) for fault in faults[:10])
    more = f"  \nand {len(faults) - 10} more" if len(faults) > 10 else ""
    st.error(f"{lines}{more}", icon=":material/error:")


def is_example() -> bool:
    """Whether nobody has put their own plan yet."""
    return plan_grid() is None


def _editor(what: str, rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """A table of text cells. The box forgets its edits once another page is shown: it then starts
    from the rows as left; one of another name after a plan was read."""
    key = f"plan_{what}|{st.session_state.get(f'{PLAN}_read', 0)}"
    if key not in st.session_state:
        st.session_state[f"plan_{what}_start"] = _frame(rows, columns)
    found = st.data_editor(
        st.session_state[f"plan_{what}_start"],
        key=key,
        num_rows="dynamic",
        hide_index=True,
        width="stretch",
        on_change=touched,
        column_config={name: _box(name) for name in columns},
    )
    return [
        {name: str(cell).strip() for name, cell in row.items() if not pd.isna(cell) and cell != ""}
        for row in found.to_dict("records")
    ]


def _frame(rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    cells = [[row.get(name, "") for name in columns] for row in rows]
    return pd.DataFrame(cells, columns=list(columns), dtype="object")


def _box(name: str) -> dict:
    spec = SPECS.get(name)
    label, about = LABELS.get(name) or (SHORT.get(name) or spec.title, spec.help)
    if spec is not None and spec.choices and not spec.open:
        options = [choice.value for choice in spec.choices]
        return st.column_config.SelectboxColumn(label, help=about, options=options,
                                                format_func=spec.label_of)  # fmt: skip
    if name == GAMMA_BY:
        return st.column_config.SelectboxColumn(label, help=about, options=["one", "request"])
    return st.column_config.TextColumn(label, help=about, pinned=name == "endpoint")


# ── its file, and where it begins ────────────────────────────────────────────────────────────


def file_drawer(plan: Plan | None) -> None:
    """Save and open a plan, begin from the scenario, paste a table."""
    with drawer("Save, open, paste", "save", "plan_file") as opened:
        if not opened:
            return
        left, right = st.columns(2, gap="medium")
        with left:
            _save_and_open(plan)
        with right:
            _paste()


def _save_and_open(plan: Plan | None) -> None:
    if plan is not None:
        st.download_button("Save plan", lambda: to_toml(plan), "plan.toml", "application/toml",
                           on_click="ignore", width="stretch")  # fmt: skip
    uploaded = st.file_uploader("Open plan", type="toml", key="plan_upload")
    if uploaded is not None and st.session_state.get("plan_opened") != uploaded.file_id:
        st.session_state["plan_opened"] = uploaded.file_id
        try:
            take_plan(grid_of(from_toml(uploaded.getvalue().decode("utf-8"))))
        except UnicodeDecodeError:
            st.session_state["fault"] = f"{uploaded.name} is not UTF-8 text; nothing was opened"
        except InputError as error:
            st.session_state["fault"] = f"{uploaded.name}: {error}. Nothing was opened"
        st.rerun()
    st.button("Add my scenario as an endpoint", on_click=_add_scenario, width="stretch",
              disabled=not scenario().costs.computed)  # fmt: skip
    st.button("Begin with the example", on_click=_begin, args=(example(),), width="stretch")


def _begin(grid: Grid) -> None:
    take_plan(grid)


def _add_scenario() -> None:
    """To what was typed; the example makes room."""
    grid = plan_grid() or Grid([], [])
    taken = {row.get("endpoint") for row in grid.endpoints}
    label = scenario().label or "Mine"
    name = next(n for i in range(1, 1000) if (n := f"{label} {i}" if i > 1 else label) not in taken)
    new = endpoint_row(scenario(), name)
    take_plan(Grid([*grid.endpoints, *new.endpoints], [*grid.segments, *new.segments], grid.name))


def _paste() -> None:
    text = st.text_area(
        "Paste segments from a spreadsheet, names of columns first",
        key="plan_pasted",
        placeholder="endpoint\tsegment\tshare\tprompt_tokens\toutput_tokens\tacceptance",
        height=140,
        on_change=touched,
    )
    if st.button("Use these segments", width="stretch", disabled=not text.strip()):
        try:
            rows = read_rows(text, SEGMENT_COLUMNS)
        except InputError as error:
            st.error(f"{verbatim(str(error))}. Nothing was taken.")
            return
        grid = plan_grid() or example()
        named = {row.get("endpoint") for row in rows}
        kept = [
            row for row in grid.segments if named != {None} and row.get("endpoint") not in named
        ]
        take_plan(Grid(grid.endpoints, [*kept, *rows], grid.name))
        st.rerun()
