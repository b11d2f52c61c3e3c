"""How much of an interval each open thing makes, against the interval without it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from specmath.predict import predict
from specmath.scenario.files import build
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.sensitivity import shares
from specmath.words.verdict import verdict


def found(**fields: Any) -> dict[str, float]:
    endpoint = predict(build(fields)).endpoint
    return {each.gap: each.share for each in shares(endpoint, fields.get("gamma", 1))}


def width(**fields: Any) -> float:
    speed = predict(build(fields)).endpoint.speedup_at(fields["gamma"])
    assert speed.low is not None
    assert speed.high is not None
    return math.log(speed.high / speed.low)


def test_at_one_token_the_parts_are_those_of_a_quotient() -> None:
    """(1 + α) / (1 + c): the logarithms add, so the shares do."""
    free = {"verify_costs": (1.0,)}
    told = found(alpha_low=0.5, alpha_high=0.85, c_low=0.02, c_high=0.25, gamma=1, **free)
    tokens, cost = math.log(1.85 / 1.5), math.log(1.25 / 1.02)
    assert told["acceptance"] == pytest.approx(tokens / (tokens + cost))
    assert told["c"] == pytest.approx(cost / (tokens + cost))
    assert list(told) == ["acceptance", "c"], "the most first"


def test_what_alone_is_open_is_all_of_it() -> None:
    assert found(alpha=0.7, c=0.1, sigma=None, gamma=3) == {"sigma": 1.0}
    assert found(alpha=0.7, c=0.1, gamma=3) == {"besides": 1.0}
    assert found(alpha=0.7, c=0.1, gamma=3, overhead=0.1) == {}
    # A pass over one token costs one plain step whatever σ: ĉ counts nothing where σ is 0.
    assert found(alpha=0.7, c=0.1, c_hat=None, gamma=3, overhead=0.1) == {}


@pytest.mark.parametrize("load", [{"batch": 32}, {"concurrency": 32}])
def test_known_is_what_the_interval_is_once_it_is_given(load: dict[str, int]) -> None:
    """With hardware: α at each of its ends, and the prompt's length likewise."""
    base = {**EXAMPLE_PAIR, **load, "context_tokens": 4096, "gamma": 2}
    lengths: dict[str, Any] = {"alpha_low": 0.5, "alpha_high": 0.8, **base}
    told = found(**lengths)
    whole = width(**lengths)
    ends = [width(alpha=alpha, **base) for alpha in (0.5, 0.8)]
    assert told["acceptance"] == pytest.approx(1 - sum(ends) / 2 / whole)
    ends = [width(**lengths, prompt_tokens=length) for length in (0, 4096)]
    assert told["prompt_tokens"] == pytest.approx(1 - sum(ends) / 2 / whole)
    assert set(told) == {"acceptance", "prompt_tokens", "step_cost"}


def test_a_step_that_was_measured_leaves_less_of_it() -> None:
    base = {**EXAMPLE_PAIR, "concurrency": 32, "prompt_tokens": 1000, "gamma": 3, "alpha": 0.7}
    assert found(**base) == {"step_cost": 1.0}
    computed = predict(build(base)).to_dict()
    run = {"run_gamma": 3, "run_ms": computed["tpot_ms"], "run_tokens_per_step": 2.4}
    # Over a plain time that is only computed a run says little.
    assert next(iter(found(**base, **run))) == "plain_step"
    timed = {**base, **run, "target_ms": computed["tpot_plain_ms"]}
    assert width(**timed) < 0.5 * width(**base)
    assert "plain_step" not in found(**timed)


def test_the_prompt_is_asked_for_where_it_decides() -> None:
    """A long context of which the prompt may be nothing or all."""
    for alpha in (0.4, 0.6, 0.8):
        s = {**EXAMPLE_PAIR, "alpha": alpha, "concurrency": 32, "context_tokens": 16_384}
        p = predict(build({**s, "gpu": "H200 SXM"}))
        said, first = verdict(p), shares(p.endpoint, max(1, p.decision.gamma))[0]
        if said.action == "measure":
            decides = "What decides is the prompt length" in said.flips
            assert decides == (first.gap == "prompt_tokens")
        assert "prompts of unknown length" in said.load
        assert said.sentence().endswith(said.load)
