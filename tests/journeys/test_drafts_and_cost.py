"""The drafts page with its editable table, and the cost page with its bill."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from driver import Visitor, shows, until
from playwright.sync_api import expect

from specmath.bill import bill
from specmath.predict import predict
from specmath.scenario import EXAMPLE
from specmath.scenario.files import build, revised, to_link
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.theorems import walltime_improvement
from specmath.words.bill import bill_sentence

pytestmark = pytest.mark.browser

SERVED = build({"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR})
LONG_CONFIG = {
    "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip

# α, c, then what Theorem 3.8 gives at γ=7 and what Leviathan et al. measured (Tables 2 and 4).
T5 = {
    "T5-small": (0.75, 0.02, 3.16, 3.4),
    "T5-base": (0.80, 0.04, 3.25, 2.8),
    "T5-large": (0.82, 0.11, 2.50, 1.7),
}


def _drafts(visitor: Visitor) -> dict[str, dict[str, str]]:
    """The table of results: draft → heading → cell."""
    found = visitor.table("Implied c", heads=True)
    assert found
    heads, *rows = found.items()
    return {name: dict(zip(heads[1], cells, strict=True)) for name, cells in rows}


@pytest.mark.slow
def test_the_published_example_stands_apart(visitor: Visitor) -> None:
    visitor.open("drafts", **to_link(EXAMPLE))
    assert visitor.page.get_by_text("T5-base").count() == 0
    box = visitor.unfold("A published example: T5 drafts")
    # The theorem ranks T5-base first; the measurement ranks T5-small first. Both are shown.
    expect(box).to_contain_text("T5-base is fastest by the theorem")
    expect(box).to_contain_text("measured, T5-small was fastest")
    shown = until(lambda: _drafts(visitor))
    for name, (alpha, c, predicted, measured) in T5.items():
        row = shown[name]
        assert shows(row["Speedup (×)"], float(walltime_improvement(alpha, 7, c)))
        assert float(row["Speedup (×)"]) == pytest.approx(predicted, abs=0.005)
        assert shows(row["Measured (×)"], measured)
    implied = [float(shown[name]["Implied c"]) for name in T5]
    assert implied == [0.008, 0.069, 0.229]


def _typed_into_the_grid(visitor: Visitor, cells: tuple[str, ...]) -> None:
    """A row of the empty grid, which is a canvas: click below its head, then type cell by cell."""
    grid = visitor.page.get_by_test_id("stDataFrame").first
    cell = visitor.page.locator("#portal input, #portal textarea")

    def opened() -> None:
        box = grid.bounding_box()
        assert box
        visitor.page.mouse.click(box["x"] + 80, box["y"] + 52)
        # The click adds a row and opens its cell: Enter would close it. In a row that is there
        # already, where the first click was slow, it selects the cell only.
        with suppress(AssertionError):
            return expect(cell).to_have_count(1, timeout=3e3)
        visitor.page.keyboard.press("Enter")
        return expect(cell).to_have_count(1, timeout=3e3)

    until(opened)
    for place, text in enumerate(cells):
        if place:
            visitor.page.keyboard.press("Enter")
        expect(cell).to_have_count(1, timeout=5e3)
        cell.fill(text)
        cell.press("Tab")
        expect(cell).to_have_count(0, timeout=5e3)


def test_a_draft_of_ones_own_survives_everything(visitor: Visitor) -> None:
    """Typed, compared, taken; kept on another page and through F5, until it is cleared."""
    visitor.open("drafts", **to_link(EXAMPLE))
    _typed_into_the_grid(visitor, ("mine", "0.9", "0.02", "7"))
    expected = float(walltime_improvement(0.9, 7, 0.02))

    def compared() -> None:
        row = _drafts(visitor)["mine"]
        assert shows(row["α"], 0.9)
        assert shows(row["Speedup (×)"], expected)

    until(compared)
    visitor.says("mine is fastest")
    expect(visitor.page.get_by_text("T5")).to_have_count(1)  # the title of the example, no more

    def charted() -> None:
        points = visitor.figures()[0]["Candidates"]
        assert (points["x"], points["y"]) == ([0.9], [0.02])

    until(charted)
    link = until(lambda: visitor.link())
    assert len(link["drafts"]) == 12

    # Loaded anew, in the same tab and in another: a session that knows the address only.
    visitor.page.reload()
    visitor.arrived("drafts")
    until(compared)
    assert visitor.link() == link

    # Taken into the scenario, the draft follows to the other pages; the list is kept.
    use = visitor.page.get_by_role("button", name="Use it with")
    visitor.press(use, lambda: _uses(visitor, 0.9, 0.02))
    visitor.go_to("what_if")
    until(lambda: _uses(visitor, 0.9, 0.02))
    visitor.page.reload()
    visitor.arrived("what_if")
    visitor.go_to("drafts")
    until(compared)

    def cleared() -> None:
        assert visitor.page.get_by_role("button", name="Clear the table").count() == 0
        assert "drafts" not in visitor.link()

    clear = visitor.page.get_by_role("button", name="Clear the table")
    visitor.press(clear, cleared)
    visitor.go_to("cost")
    visitor.go_to("drafts")
    until(cleared)


@pytest.mark.slow
def test_a_step_back_takes_a_listed_draft_back(visitor: Visitor) -> None:
    visitor.open("drafts", **to_link(SERVED))
    box = visitor.page.get_by_role("combobox", name="Compare another draft model")

    def compares(*names: str) -> None:
        rows = visitor.table("For your model")
        assert [name for name in ("Qwen3-0.6B", "Llama-2-7B") if name in rows] == [*names]

    for name, listed in (("Qwen3-0.6B", 1), ("Llama-2-7B", 2)):
        box.click()
        box.fill(name)
        visitor.page.get_by_role("option", name=name, exact=True).click()
        visitor.page.keyboard.press("Escape")  # an open list hides the page from roles
        until(lambda n=listed: compares(*("Qwen3-0.6B", "Llama-2-7B")[:n]))
        visitor.settle()
    visitor.page.go_back()
    until(lambda: compares("Qwen3-0.6B"))
    visitor.page.go_forward()
    until(lambda: compares("Qwen3-0.6B", "Llama-2-7B"))
    visitor.settle()
    # Back to before the first, and on: the address is not written over a step back.
    visitor.page.go_back()
    until(lambda: compares("Qwen3-0.6B"))
    visitor.settle()
    visitor.page.go_back()
    until(lambda: _no_list(visitor))
    visitor.settle()
    assert "drafts" not in visitor.link()


def _no_list(visitor: Visitor) -> None:
    assert "drafts" not in visitor.link()


def test_a_config_longer_than_a_link_survives_f5(visitor: Visitor) -> None:
    config = json.dumps(LONG_CONFIG | {"comment": "x" * 3000})
    visitor.open("drafts", **to_link(SERVED))
    visitor.page.get_by_role("button", name="More").click()
    visitor.page.get_by_role("textbox", name="config.json of the target").wait_for()
    visitor.settle()
    visitor.paste("config.json of the target", config)

    def folded() -> dict[str, str]:
        link = visitor.link()
        assert {*link} == {"kept"}
        return link

    link = until(folded)
    visitor.settle()

    def is_offered_its_own() -> None:
        rows = visitor.table("For your model")
        assert any(name.startswith("N-gram") for name in rows)
        assert "Llama-3.2-1B" not in rows, "whose kin it is nobody knows"

    until(is_offered_its_own)
    visitor.page.keyboard.press("Escape")
    before = visitor.table("For your model")
    visitor.page.reload()
    until(lambda: visitor.is_at("drafts"))
    visitor.settle()
    until(is_offered_its_own)
    assert visitor.table("For your model") == before
    assert visitor.link() == link
    # On a server that does not know the key: no answer, and why.
    visitor.page.goto(f"{visitor.address}/drafts?kept=AAAAAAAAAAAA")
    visitor.says("does not know it any more")
    visitor.has_no_answer()


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
