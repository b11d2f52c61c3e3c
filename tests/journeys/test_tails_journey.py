"""Slow requests: the answer, the table and the chart move with the inputs; a link brings them."""

from __future__ import annotations

import pytest
from driver import GAMMA, Visitor, shows, until

from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import build, revised, to_link
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.tables import tails_part, tails_table
from specmath.tails import Tails, tails
from specmath.words.tails import GAP_TOOLS, gaps_words, tail_sentence

pytestmark = pytest.mark.browser

SERVED = build({"alpha": 0.7, "gamma": 3, **EXAMPLE_PAIR, "concurrency": 16, "prompt_tokens": 1024})


def of(scenario: Scenario) -> Tails:
    return tails(predict(scenario))


def _shows(visitor: Visitor, scenario: Scenario) -> None:
    """The answer, p99 in the table and the curves, of that scenario."""
    found = of(scenario)
    assert tail_sentence(found) in " ".join(visitor.messages())
    rows = visitor.table("Speculative")
    expected = {row["statistic"]: row for row in tails_part(
        tails_table(found), "request", "decode"
    ).rows()}  # fmt: skip
    assert list(rows) == list(expected)
    (*_, speculative, _), row = rows["p99"], expected["p99"]
    ends = [row["speculative_low"], row["speculative_high"]]
    cells = speculative.split(" to ")
    for cell, end in zip(cells, ends if len(cells) > 1 else ends[-1:], strict=True):
        assert shows(cell, row["speculative"] if end is None else float(str(end)))
    curve = visitor.figures()[0][f"γ={found.gamma}"]
    assert curve["y"] == pytest.approx(found.whole.speculative.values.tolist())


def test_the_tail_moves_with_what_is_typed(visitor: Visitor) -> None:
    visitor.open("tails", **to_link(EXAMPLE))
    until(lambda: _shows(visitor, EXAMPLE))
    visitor.type_number(GAMMA, "2")
    shorter = revised(EXAMPLE, {"gamma": 2})
    until(lambda: _shows(visitor, shorter))
    # Requests of two kinds: the slow ones are those that accept least.
    visitor.choose("Acceptance: what you know", "A mixture of request kinds")
    until(lambda: _is_mixed(visitor))
    until(lambda: _shows(visitor, visitor.scenario()))
    # What is wrong withdraws the answer, and the mend brings it back.
    visitor.type_number("Drafted γ, typed", "-1")
    until(visitor.has_no_answer)
    visitor.type_number("Drafted γ, typed", "2")
    until(lambda: _shows(visitor, visitor.scenario()))


def _is_mixed(visitor: Visitor) -> None:
    assert visitor.scenario().mixture


@pytest.mark.slow
def test_a_link_brings_the_tail_to_a_server_that_nobody_visited(first_visitor: Visitor) -> None:
    visitor = first_visitor
    visitor.open("tails", **to_link(SERVED))
    assert visitor.dialogs_seen() == []
    until(lambda: _shows(visitor, SERVED))
    visitor.page_says(gaps_words(of(SERVED)))
    visitor.unfold("Which tool means which")
    visitor.page_says(GAP_TOOLS["itl_smeared"])
    visitor.page.reload()
    visitor.arrived("tails")
    assert visitor.scenario() == SERVED
    until(lambda: _shows(visitor, SERVED))
