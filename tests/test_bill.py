"""The bill: whole replicas by hand, extra GPUs, served hardware, the price of a millisecond."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath import models
from specmath.bill import bill, millisecond_price
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.server import error_of, pair_of
from specmath.serving import ServedPair
from specmath.steptime import Placement

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
    "decode_only": "yes",
}


def test_fleet_by_hand() -> None:
    """Batch 8: 8/40 ms = 200 tokens/s plain, 8·4 in 72 ms = 444.4 speculative."""
    found = bill(predict(Scenario(**TIMES, batch=8, demand_tokens_per_second=1000)))
    assert found
    assert found.plain.tokens_per_second.value == pytest.approx(200)
    assert found.speculative.tokens_per_second.value == pytest.approx(32 / 0.072)
    assert (found.plain.replicas.value, found.speculative.replicas.value) == (5, 3)
    assert found.plain.usd_per_month.value == pytest.approx(5 * 2.5 * 730)
    assert found.speculative.usd_per_month.value == pytest.approx(3 * 2.5 * 730)


def test_the_bill_falls_only_when_a_replica_leaves() -> None:
    """2.2 times the speed and the same bill, while one replica is enough either way."""
    found = bill(predict(Scenario(**TIMES, batch=8, demand_tokens_per_second=150)))
    assert found
    assert found.plain.replicas.value == found.speculative.replicas.value == 1
    assert found.plain.usd_per_month.value == found.speculative.usd_per_month.value


def test_the_drafts_own_gpus_are_billed_with_speculation_only() -> None:
    s = Scenario(
        **TIMES, overhead=0.1, batch=8, tensor_parallel=2, draft_gpus=1,
        demand_tokens_per_second=200.0001,
    )  # fmt: skip
    found = bill(predict(s))
    assert found
    assert found.plain.usd_per_month.value == pytest.approx(2 * 2 * 2.5 * 730)
    assert found.speculative.usd_per_month.value == pytest.approx(1 * 3 * 2.5 * 730)
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
        assert fleet.replicas.value * fleet.tokens_per_second.value >= demand * (1 - 1e-9)
        assert (fleet.replicas.value - 1) * fleet.tokens_per_second.value < demand * (1 + 1e-9)


def test_served_fleet_from_step_seconds() -> None:
    """70B on 4 H100, batch 16: tokens/s = batch τ / step; dollars an hour for 4 GPUs."""
    s = Scenario(**SERVED, demand_tokens_per_second=5000)
    p = predict(s)
    step = pair_of(s)
    assert step == ServedPair(
        Placement(models.find("Llama-3.1-70B"), step.place.gpu, 4, None), step.drafter, 16, 1024
    )
    rate = 16 * (1 - 0.8**5) / 0.2 / float(step.seconds(4))
    found = bill(p)
    assert found
    assert found.speculative.tokens_per_second.value == pytest.approx(rate)
    replicas = math.ceil(5000 / rate)
    assert found.speculative.replicas.value == replicas
    assert found.speculative.usd_per_month.value == pytest.approx(
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
    """70B on 4 H100: the error of the plain step follows into the fleet; the change of a replica is
    that of the speedup, whatever the plain step."""
    p = predict(Scenario(**SERVED, demand_tokens_per_second=20_000))
    found = bill(p)
    assert found
    assert p.tpot_plain
    assert p.tpot
    plain, ours = found.plain.replicas, found.speculative.replicas
    assert (plain.low, plain.high) == tuple(
        math.ceil(20_000 * end / 16) for end in (p.tpot_plain.low, p.tpot_plain.high)
    )
    low, _ = error_of(pair_of(p.scenario)).plain
    assert p.tpot_plain.low == pytest.approx(p.tpot_plain.value * low, rel=0.01)
    assert (ours.low, ours.high) == tuple(
        math.ceil(20_000 * end / 16) for end in (p.tpot.low, p.tpot.high)
    )
    gain = found.speculative.tokens_per_second.with_(
        found.plain.tokens_per_second, lambda a, b: a / b
    )
    assert (gain.low, gain.high) == pytest.approx((p.speedup.low, p.speedup.high))
    off = bill(predict(p.scenario.model_copy(update={"gamma": 0})))
    assert off
    same = off.speculative.replicas.with_(off.plain.replicas, lambda a, b: a - b)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_a_bill_without_anything_open_is_no_range() -> None:
    found = bill(predict(Scenario(**TIMES, overhead=0.1, demand_tokens_per_second=1000)))
    assert found
    assert found.speculative.replicas.low is None
    assert bill(predict(Scenario(**SERVED))) is None, "no demand, no bill"
    known = {k: v for k, v in TIMES.items() if k not in ("accepted_per_step", "measured_gamma")}
    open_alpha = predict(Scenario(**known, acceptance_form="range", demand_tokens_per_second=1000))
    found = bill(open_alpha)
    assert found
    assert found.plain.replicas.low is None, "times were given: only the speedup is open"
    assert found.speculative.tokens_per_second.low is not None
