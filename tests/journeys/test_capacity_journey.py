"""How many GPUs: the answer, the table and the chart move with what is promised and served."""

from __future__ import annotations

import pytest
from driver import Visitor, until

from specmath.capacity import Capacity, capacity
from specmath.predict import predict
from specmath.scenario import SPECS, Scenario
from specmath.scenario.files import build, revised, to_link
from specmath.words.capacity import NEEDS_PROMPTS, capacity_sentence, crossover_sentence

pytestmark = pytest.mark.browser

SERVED = build({
    "alpha": 0.7, "gamma": 3, "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3",
    "prompt_tokens": 1024, "slo_tpot_ms": 10, "demand_requests_per_second": 100,
})  # fmt: skip
PROMISE = SPECS["slo_tpot_ms"].title


def of(scenario: Scenario) -> Capacity:
    return capacity(predict(scenario))


def _shows(visitor: Visitor, scenario: Scenario) -> None:
    """The answer, the arms and the curve of that scenario."""
    found = of(scenario)
    assert capacity_sentence(found) in " ".join(visitor.messages())
    assert f"γ={found.gamma}" in visitor.table("Limited by")
    curve = visitor.figures()[0][f"γ={found.gamma}"]
    arm = found.speculative
    expected = [1e3 * at.tpot.value for at in (arm.alone, *arm.at)]
    assert curve["y"] == pytest.approx(expected)


def test_gpus_move_with_what_is_promised(visitor: Visitor) -> None:
    visitor.open("capacity", **to_link(SERVED))
    until(lambda: _shows(visitor, SERVED))
    visitor.page_says(crossover_sentence(of(SERVED)))
    visitor.type_number(PROMISE, "14")
    looser = revised(SERVED, {"slo_tpot_ms": 14})
    until(lambda: _shows(visitor, looser))
    visitor.type_number("Requests/s to serve", "250")
    more = revised(looser, {"demand_requests_per_second": 250})
    until(lambda: _shows(visitor, more))
    # What is wrong withdraws the answer, and the mend brings it back.
    visitor.type_number(PROMISE, "-1")
    until(visitor.has_no_answer)
    visitor.type_number(PROMISE, "14")
    until(lambda: _shows(visitor, more))
    visitor.page.reload()
    visitor.arrived("capacity")
    assert visitor.scenario() == more
    until(lambda: _shows(visitor, more))


def test_without_the_length_of_prompts_it_says_what_it_needs(visitor: Visitor) -> None:
    unknown = revised(SERVED, {"prompt_tokens": None})
    visitor.open("capacity", **to_link(unknown))
    visitor.says(NEEDS_PROMPTS)
