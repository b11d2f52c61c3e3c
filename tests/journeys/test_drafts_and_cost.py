"""The drafts page with its editable table, and the cost page with its bill."""

from __future__ import annotations

import pytest
from driver import Visitor, shows, until
from playwright.sync_api import expect

from specmath.bill import bill
from specmath.predict import predict
from specmath.scenario import EXAMPLE
from specmath.scenario.files import revised, to_link
from specmath.theorems import walltime_improvement
from specmath.words.bill import bill_sentence

pytestmark = pytest.mark.browser

# α, c, then what Theorem 3.8 gives at γ=7 and what Leviathan et al. measured (Tables 2 and 4).
T5 = {
    "T5-small": (0.75, 0.02, 3.16, 3.4),
    "T5-base": (0.80, 0.04, 3.25, 2.8),
    "T5-large": (0.82, 0.11, 2.50, 1.7),
}


def _drafts(visitor: Visitor) -> dict[str, dict[str, str]]:
    """The table of results: draft → heading → cell."""
    heads, *rows = visitor.table("Implied c", heads=True).items()
    return {name: dict(zip(heads[1], cells, strict=True)) for name, cells in rows}


def test_published_drafts_and_an_edited_cell(visitor: Visitor) -> None:
    visitor.open("drafts", **to_link(EXAMPLE))
    # The theorem ranks T5-base first; the measurement ranks T5-small first. Both are shown.
    visitor.says("T5-base is fastest by the theorem")
    visitor.says("measured, T5-small was fastest")
    shown = _drafts(visitor)
    for name, (alpha, c, predicted, measured) in T5.items():
        row = shown[name]
        assert shows(row["Speedup (×)"], float(walltime_improvement(alpha, 7, c)))
        assert float(row["Speedup (×)"]) == pytest.approx(predicted, abs=0.005)
        assert shows(row["Measured (×)"], measured)
    implied = [float(shown[name]["Implied c"]) for name in T5]
    assert implied == [0.008, 0.069, 0.229]

    # The grid is a canvas: click the first draft, go right to its α, open the cell, type.
    grid = visitor.page.get_by_test_id("stDataFrame").first
    cell = visitor.page.locator("#portal input")

    def opened() -> None:
        box = grid.bounding_box()
        assert box
        visitor.page.mouse.click(box["x"] + 80, box["y"] + 52)
        visitor.page.keyboard.press("ArrowRight")
        visitor.page.keyboard.press("Enter")
        expect(cell).to_have_count(1, timeout=5e3)

    until(opened)
    cell.fill("0.9")
    cell.press("Enter")
    expected = float(walltime_improvement(0.9, 7, 0.02))

    def edited() -> None:
        row = _drafts(visitor)["T5-small"]
        assert shows(row["α"], 0.9)
        assert shows(row["Speedup (×)"], expected)

    until(edited)
    visitor.says("T5-small is fastest by the theorem")

    def charted() -> None:
        points = visitor.figures()[0]["Candidates"]
        assert (points["x"], points["y"]) == ([0.9, 0.8, 0.82], [0.02, 0.04, 0.11])

    until(charted)

    # Taken into the scenario, the draft follows to the other pages.
    use = visitor.page.get_by_role("button", name="Use it with")
    visitor.press(use, lambda: _uses(visitor, 0.9, 0.02))
    visitor.go_to("what_if")
    until(lambda: _uses(visitor, 0.9, 0.02))

    # And the table is kept for the session, until the published one is wanted back.
    visitor.go_to("drafts")
    until(edited)

    def published() -> None:
        row = _drafts(visitor)["T5-small"]
        assert shows(row["α"], 0.75)
        assert visitor.page.get_by_role("button", name="Reset to the published").count() == 0

    reset = visitor.page.get_by_role("button", name="Reset to the published drafts")
    visitor.press(reset, published)
    visitor.go_to("cost")
    visitor.go_to("drafts")
    until(published)


def _uses(visitor: Visitor, alpha: float, c: float) -> None:
    scenario = visitor.scenario()
    assert (scenario.alpha, scenario.c) == (alpha, c)


def test_demand_gives_whole_replicas_and_a_bill(visitor: Visitor) -> None:
    visitor.open("cost", **to_link(EXAMPLE))
    visitor.says("Say what you serve: the bill falls only when a replica leaves.")
    visitor.type_number("Headroom (share)", "0")
    visitor.type_number("or output tokens/s", "1000")
    served = {"demand_tokens_per_second": 1000, "headroom": 0}
    p = predict(revised(EXAMPLE, served))
    expected = bill(p)
    assert expected
    # By hand: 1000 tokens/s over 25 a replica is 40; over 160/72×25 = 55.6 a replica, 18; where
    # half a plain step comes on top, 160/92.4×25 = 43.3, 24.
    assert (expected.plain.replicas.value, expected.speculative.replicas.value) == (40, 18)

    def billed() -> None:
        rows = visitor.table("Plain")
        assert rows["Replicas"] == ["40", "18 to 24", "−22 to −16"]
        plain, speculative, changed = rows["Bill a month (730 h)"]
        assert shows(plain, 40 * 730 * 2.5)
        assert shows(speculative, 18 * 730 * 2.5)
        assert shows(changed, (18 - 40) * 730 * 2.5)

    until(billed)
    visitor.says(bill_sentence(p, expected))
    # Each regime's latency stands beside its cost; compute-bound is dearer and slower.
    regimes = visitor.table("Regime")
    p = visitor.prediction()
    cells = next(row for name, row in regimes.items() if name.startswith("Compute"))
    assert any(shows(cell, 40 * p.operations.value) for cell in cells)
    assert shows(cells[-1], 100 * (p.operations.value - 1))
    # One token a second more than 18 replicas carry, and the 19th comes.
    visitor.type_number("or output tokens/s", "1001")

    def one_more() -> None:
        assert visitor.table("Plain")["Replicas"] == ["41", "19 to 24", "−22 to −17"]

    until(one_more)
    # Replicas say the demand in another way: the tokens make room.
    visitor.type_number("or replicas you run", "40")

    def by_replicas() -> None:
        s = visitor.scenario()
        assert (s.replicas, s.demand_tokens_per_second) == (40, None)
        assert visitor.table("Plain")["Replicas"] == ["40", "18 to 24", "−22 to −16"]

    until(by_replicas)
    # What is wrong withdraws the answer, and the box that mends it stays.
    visitor.type_number("Headroom (share)", "2")
    until(visitor.has_no_answer)
    visitor.type_number("Headroom (share)", "0.1")
    visitor.says("40 without")
