"""Which endpoints? A plan is typed, pasted, opened, spoiled and mended."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from driver import ANSWER, Visitor, until

from pages.ui.plan import example
from specmath.plan.decided import PlanAnswer, decided
from specmath.plan.files import from_toml, to_toml
from specmath.plan.grid import SEGMENT_COLUMNS, Grid, grid_of, plan_from, read_rows
from specmath.plan.record import Plan
from specmath.tables.plan_ways import WAYS
from specmath.words.plan import do_words, plan_sentence, ways_sentence

pytestmark = pytest.mark.browser

PASTED = (
    "endpoint\tsegment\tshare\tprompt_tokens\toutput_tokens\tacceptance\n"
    "Chat\teasy\t55%\t1,000\t250\t90%\n"
    "Chat\thard\t45%\t1,000\t250\t0.3 to 0.4\n"
)
ACCEPTANCE = SEGMENT_COLUMNS.index("acceptance")


def _shows(visitor: Visitor, plan: Plan) -> PlanAnswer:
    """The answer, a row an endpoint, and the chart of that plan."""
    found = decided(plan)
    assert plan_sentence(found) in " ".join(visitor.messages())
    rows = visitor.table("Token p99 (ms)")
    assert [*rows] == [answer.endpoint.name for answer in found.endpoints]
    for answer in found.endpoints:
        row = rows[answer.endpoint.name]
        assert row[0] == do_words(answer)
        before, after = answer.tpot[0.99]
        assert row[2].startswith(f"{1e3 * before.value:.1f} → {1e3 * after.value:.1f}")
    drawn = visitor.figures()[0]["With γ, p99"]["y"]
    assert drawn == pytest.approx([1e3 * answer.tpot[0.99][1].value for answer in found.endpoints])
    return found


def _edit(visitor: Visitor, column: int, text: str) -> None:
    """Type into the first row of the table of segments."""
    table = visitor.page.get_by_test_id("stDataFrame").last
    table.scroll_into_view_if_needed()
    table.click(position={"x": 110, "y": 52})
    for _ in range(column):
        visitor.page.keyboard.press("ArrowRight")
    visitor.page.keyboard.press("Enter")
    box = visitor.page.locator("#portal textarea")
    box.fill(text)
    box.press("Enter")
    visitor.settle()


def _shows_ways(visitor: Visitor, plan: Plan) -> None:
    """How each mixed endpoint of that plan may be served, and what a γ for each request does."""
    found = decided(plan)
    told = [way for answer in found.endpoints for way in answer.ways]
    lines = visitor.lines("Gain at most (%)")
    assert [line[1] for line in lines] == [WAYS[way.name] for way in told]
    assert [line[2] for line in lines] == [", ".join(map(str, way.gammas)) for way in told]
    assert [line[5].split()[0] for line in lines] == [f"{way.gpus.value:,.0f}" for way in told]
    for answer in found.endpoints:
        if answer.by_request is not None:
            visitor.page_says(f"{answer.endpoint.name}: {ways_sentence(answer)}")


def test_a_gamma_for_each_request(visitor: Visitor, tmp_path: Path) -> None:
    """One γ beside one for each request; what the plan takes is a cell of its endpoint."""
    visitor.open("traffic")
    mixed = [dict(row) for row in example().endpoints[:1]]
    mixed[0]["draft"] = "dflash"
    mixed[0].pop("slo_tpot_ms")
    rows = read_rows(PASTED, SEGMENT_COLUMNS)
    for by in ("one", "request"):
        plan = plan_from(Grid([{**mixed[0], "gamma_by": by}], rows, by))
        file = tmp_path / f"{by}.toml"
        file.write_text(to_toml(plan))
        if by == "one":
            visitor.unfold("Save, open, paste")
        visitor.page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(file)
        until(lambda plan=plan: _shows(visitor, plan))
        until(lambda plan=plan: _shows_ways(visitor, plan))
    (answer,) = decided(plan).endpoints
    assert answer.each
    assert answer.segments[0].gamma > answer.segments[1].gamma
    # What is accepted is typed, and the γ of each segment follow; after F5 they stand.
    _edit(visitor, ACCEPTANCE, "0.5")
    now = [dict(row) for row in grid_of(plan).segments]
    now[0]["acceptance"] = "0.5"
    changed = plan_from(Grid(grid_of(plan).endpoints, now, "request"))
    assert decided(changed).endpoints[0].by_request.gammas != answer.by_request.gammas
    until(lambda: _shows_ways(visitor, changed))
    visitor.page.reload()
    visitor.arrived("traffic")
    until(lambda: _shows_ways(visitor, changed))


def _has_one_message(visitor: Visitor) -> None:
    assert visitor.page.locator(ANSWER).count() == 1


def test_a_plan_from_table_to_decision(visitor: Visitor, tmp_path: Path) -> None:
    visitor.open("traffic")
    until(lambda: _shows(visitor, plan_from(example())))
    # A cell: what the first segment accepts.
    _edit(visitor, ACCEPTANCE, "0.35")
    rows = [dict(row) for row in example().segments]
    rows[0]["acceptance"] = "0.35"
    typed = Grid(example().endpoints, rows, example().name)
    until(lambda: _shows(visitor, plan_from(typed)))
    # What is wrong withdraws the answer, and the mend brings it back.
    _edit(visitor, ACCEPTANCE, "1.5")
    visitor.says("got 1.5")
    until(visitor.has_no_answer)
    _edit(visitor, ACCEPTANCE, "0.35")
    until(lambda: _shows(visitor, plan_from(typed)))
    # F5, another page and back: the plan stays.
    visitor.page.reload()
    visitor.arrived("traffic")
    until(lambda: _shows(visitor, plan_from(typed)))
    visitor.go_to("cost")
    visitor.go_to("traffic")
    until(lambda: _shows(visitor, plan_from(typed)))
    # Segments from a spreadsheet take the place of those of their endpoint.
    visitor.unfold("Save, open, paste")
    visitor.paste("Paste segments from a spreadsheet", PASTED)
    button = visitor.page.get_by_role("button", name="Use these segments")
    kept = [row for row in typed.segments if row["endpoint"] != "Chat"]
    pasted = plan_from(Grid(typed.endpoints, [*kept, *read_rows(PASTED, SEGMENT_COLUMNS)], ""))
    visitor.press(button, lambda: _shows(visitor, pasted))
    name, data = visitor.download(visitor.page.get_by_role("button", name="Save plan"))
    saved = tmp_path / name
    saved.write_bytes(data)
    assert from_toml(data.decode()).endpoints == pasted.endpoints
    # For the meeting: the report says the same, and the plan is kept beside the next one.
    visitor.unfold("For the meeting")
    name, data = visitor.download(visitor.page.get_by_role("button", name="Report, HTML"))
    assert name == "specmath-plan.html"
    assert plan_sentence(decided(pasted)) in html.unescape(data.decode())
    keep = visitor.page.get_by_role("button", name="Keep this plan to compare")
    visitor.press(keep, lambda: visitor.page.get_by_text("Beside the plan kept").wait_for())
    # A file opens, one that is no plan is refused and changes nothing.
    broken = tmp_path / "broken.toml"
    broken.write_text("[[endpoints]]\nname = 3\n")
    upload = visitor.page.get_by_test_id("stFileUploaderDropzoneInput")
    upload.set_input_files(broken)
    visitor.says("Nothing was opened")
    until(lambda: _shows(visitor, pasted))
    small = tmp_path / "small.toml"
    one = Plan(plan_from(example()).endpoints[1:2], "one")
    small.write_text(to_toml(one))
    upload.set_input_files(small)
    until(lambda: _shows(visitor, one))
    until(lambda: _has_one_message(visitor))
    visitor.page_says(f"Kept: {plan_sentence(decided(pasted))}")
