"""The bill: whole replicas by hand, extra GPUs, served hardware, the price of a millisecond."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath import models
from specmath.bill import bill, bill_ends, millisecond_price
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.serving import ServedStepCost
from specmath.serving.of_scenario import served_of

TIMES: dict[str, Any] = {
    "accepted_per_step": 3,
    "measured_gamma": 4,
    "gamma": 4,
    "target_ms": 40,
    "draft_ms": 8,
    "usd_per_hour": 2.5,
}
SERVED: dict[str, Any] = {
    "alpha": 0.8,
    "gamma": 4,
    "gpu": "H100 SXM",
    "model": "Llama-3.1-70B",
    "draft": "Llama-3.2-1B",
    "tensor_parallel": 4,
    "batch": 16,
}


def test_fleet_by_hand() -> None:
    """Batch 8: 8/40 ms = 200 tokens/s plain, 8·4 in 72 ms = 444.4 speculative."""
    found = bill(predict(Scenario(**TIMES, batch=8, demand_tokens_per_second=1000)))
    assert found
    assert found.plain.tokens_per_second == pytest.approx(200)
    assert found.speculative.tokens_per_second == pytest.approx(32 / 0.072)
    assert (found.plain.replicas, found.speculative.replicas) == (5, 3)
    assert found.plain.usd_per_month == pytest.approx(5 * 2.5 * 730)
    assert found.speculative.usd_per_month == pytest.approx(3 * 2.5 * 730)


def test_the_bill_falls_only_when_a_replica_leaves() -> None:
    """2.2 times the speed and the same bill, while one replica is enough either way."""
    found = bill(predict(Scenario(**TIMES, batch=8, demand_tokens_per_second=150)))
    assert found
    assert found.plain.replicas == found.speculative.replicas == 1
    assert found.plain.usd_per_month == found.speculative.usd_per_month


def test_the_drafts_own_gpus_are_billed_with_speculation_only() -> None:
    s = Scenario(
        **TIMES, batch=8, tensor_parallel=2, draft_gpus=1, demand_tokens_per_second=200.0001
    )
    found = bill(predict(s))
    assert found
    assert found.plain.usd_per_month == pytest.approx(2 * 2 * 2.5 * 730)
    assert found.speculative.usd_per_month == pytest.approx(1 * 3 * 2.5 * 730)
    off = bill(predict(s.model_copy(update={"gamma": 0})))
    assert off
    assert off.speculative == off.plain


@given(
    demand=st.floats(1, 1e7),
    batch=st.integers(1, 512),
    gamma=st.integers(0, 8),
    price=st.floats(0.1, 50),
)
def test_enough_replicas_and_not_one_more(
    demand: float, batch: int, gamma: int, price: float
) -> None:
    s = Scenario(
        **TIMES | {"gamma": gamma, "batch": batch, "usd_per_hour": price},
        demand_tokens_per_second=demand,
    )
    found = bill(predict(s))
    assert found
    for fleet in (found.plain, found.speculative):
        assert fleet.replicas * fleet.tokens_per_second >= demand * (1 - 1e-9)
        assert (fleet.replicas - 1) * fleet.tokens_per_second < demand * (1 + 1e-9)


def test_served_fleet_from_step_seconds() -> None:
    """70B on 4 H100, batch 16: tokens/s = batch τ / step; dollars an hour for 4 GPUs."""
    s = Scenario(**SERVED, demand_tokens_per_second=5000)
    p = predict(s)
    step = served_of(s)
    assert step == ServedStepCost(
        models.find("Llama-3.1-70B"), step.drafter, step.gpu, 16, 1024, 4, None
    )
    rate = 16 * (1 - 0.8**5) / 0.2 / float(step.seconds(4))
    found = bill(p)
    assert found
    assert found.speculative.tokens_per_second == pytest.approx(rate)
    replicas = math.ceil(5000 / rate)
    assert found.speculative.replicas == replicas
    assert found.speculative.usd_per_month == pytest.approx(
        replicas * 4 * (s.usd_per_hour or 0) * 730
    )
    # Dollars per million tokens are the same fleet's, fully busy.
    assert p.usd
    assert p.usd.value == pytest.approx(4 * (s.usd_per_hour or 0) / 3600 / rate * 1e6)


@pytest.mark.parametrize(
    "unknown", [{"demand_tokens_per_second": None}, {"usd_per_hour": None}, {"target_ms": None}]
)
def test_unknown_stays_unknown(unknown: dict[str, None]) -> None:
    known = TIMES | {"demand_tokens_per_second": 1000}
    if "target_ms" in unknown:
        known = {k: v for k, v in known.items() if k != "draft_ms"} | {"c": 0.2}
    assert bill(predict(Scenario(**known | unknown))) is None


def test_price_of_a_millisecond() -> None:
    """Extra dollars per million over the ms saved; none where the cost falls."""
    assert millisecond_price(predict(Scenario(**TIMES))) is None, "cheaper and faster: no price"
    p = predict(Scenario(**TIMES, tensor_parallel=1, draft_gpus=2, batch=8))
    price = millisecond_price(p)
    # $2.5/h on one GPU at 200 tokens/s; $7.5/h on three at 32/72 ms; 40 against 18 ms a token.
    plain, speculative = (usd / 3600 * 1e6 for usd in (2.5 / 200, 7.5 / (32 / 0.072)))
    assert price == pytest.approx((speculative - plain) / 22)
    assert millisecond_price(predict(Scenario(alpha=0.8, gamma=4, c=0.1))) is None


def test_the_bill_of_a_computed_step_is_a_range() -> None:
    """70B on 4 H100: a plain step within 1/1.2 to 1/0.8 of the one computed, with each end of the
    speedup; by hand from the prediction's own intervals."""
    p = predict(Scenario(**SERVED, demand_tokens_per_second=20_000))
    ends, middle = bill_ends(p), bill(p)
    assert middle
    assert p.tpot_plain
    assert p.tpot
    assert p.tpot.low
    assert p.tpot.high
    assert p.speedup.low
    assert p.speedup.high
    assert len(ends) == 4
    plain = sorted({each.plain.replicas for each in ends})
    expected = [math.ceil(20_000 * p.tpot_plain / e / 16) for e in (1.2, 0.8)]
    assert plain == expected
    assert plain[0] < middle.plain.replicas < plain[1]
    replicas = [each.speculative.replicas for each in ends]
    assert min(replicas) == math.ceil(20_000 * p.tpot.low / 16)
    assert max(replicas) == math.ceil(20_000 * p.tpot.high / 16)
    assert min(replicas) < middle.speculative.replicas < max(replicas)
    # The error of the plain step cancels in the change.
    gains = {
        round(each.speculative.tokens_per_second / each.plain.tokens_per_second, 9) for each in ends
    }
    assert gains == {round(p.speedup.low, 9), round(p.speedup.high, 9)}
    off = bill_ends(predict(p.scenario.model_copy(update={"gamma": 0})))
    assert len(off) == 2
    assert all(each.plain == each.speculative for each in off)


def test_a_bill_without_anything_open_is_no_range() -> None:
    assert bill_ends(predict(Scenario(**TIMES, demand_tokens_per_second=1000))) == ()
    assert bill_ends(predict(Scenario(**SERVED))) == (), "no demand, no bill"
    known = {k: v for k, v in TIMES.items() if k not in ("accepted_per_step", "measured_gamma")}
    open_alpha = predict(Scenario(**known, acceptance_form="range", demand_tokens_per_second=1000))
    ends = bill_ends(open_alpha)
    assert len(ends) == 2, "times were given: only the speedup is open"
    assert ends[0].plain == ends[1].plain
