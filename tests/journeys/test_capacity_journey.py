"""How many GPUs: the answer, the table and the chart move with what is promised and served."""

from __future__ import annotations

import re

import pytest
from driver import Visitor, until

from specmath.capacity import Capacity, aggregated, capacity
from specmath.predict import predict
from specmath.scenario import SPECS, Scenario
from specmath.scenario.files import build, revised, to_link
from specmath.words.capacity import NEEDS_PROMPTS, capacity_sentence, crossover_sentence
from specmath.words.pools import moved_words, together_sentence

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


def test_prompts_that_others_read_need_gpus_of_their_own(visitor: Visitor) -> None:
    visitor.open("capacity", **to_link(SERVED))
    until(lambda: _shows(visitor, SERVED))
    visitor.unfold("Load")
    visitor.choose("Decode-only workers", "Yes")
    apart = revised(SERVED, {"decode_only": "yes"})
    until(lambda: _shows_pools(visitor, apart))
    visitor.type_number(SPECS["prefill_tensor_parallel"].title, "2")
    wider = revised(apart, {"prefill_tensor_parallel": 2})
    until(lambda: _shows_pools(visitor, wider))
    visitor.type_number(SPECS["slo_ttft_ms"].title, "60")
    promised = revised(wider, {"slo_ttft_ms": 60})
    until(lambda: _shows_pools(visitor, promised))
    visitor.page_says("Its time is in no number until you say how fast")
    visitor.type_number(SPECS["transfer_gb_per_second"].title, "10")
    moved = revised(promised, {"transfer_gb_per_second": 10})
    until(lambda: _shows_pools(visitor, moved))
    visitor.page_says(moved_words(of(moved)))
    assert visitor.scenario() == moved


def _shows_pools(visitor: Visitor, scenario: Scenario) -> None:
    """GPUs of each pool in both arms, and the same demand on one pool."""
    p = predict(scenario)
    found = capacity(p)
    _shows(visitor, scenario)
    rows = visitor.table("GPUs that read", heads=True)
    heads, together = rows.pop(""), aggregated(p, found)
    for arm, line in ((found.plain, "Plain decoding"), (found.speculative, f"γ={found.gamma}")):
        cells = dict(zip(heads, rows[line], strict=True))
        assert arm.prefill is not None
        for head, number in (("GPUs that decode", arm.decoding_gpus), ("GPUs", arm.all_gpus),
                             ("GPUs that read", arm.prefill.all_gpus)):  # fmt: skip
            assert number is not None
            assert re.match(rf"{number.value:.0f}\b", cells[head]), (head, cells)
    visitor.page_says(together_sentence(found, together))


def test_without_the_length_of_prompts_it_says_what_it_needs(visitor: Visitor) -> None:
    unknown = revised(SERVED, {"prompt_tokens": None})
    visitor.open("capacity", **to_link(unknown))
    visitor.says(NEEDS_PROMPTS)
