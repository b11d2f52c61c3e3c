"""Money: hand-worked bills, whole replicas, the price of a millisecond."""

from __future__ import annotations

import numpy as np
import pytest

from specmath.bill import bill, millisecond_price
from specmath.checks import InputError
from specmath.money import (
    price_of_a_millisecond,
    replicas_needed,
    tokens_per_second,
    usd_per_million_served,
    usd_per_million_tokens,
    usd_per_month,
    wh_per_million_tokens,
)
from specmath.predict import predict
from specmath.scenario import Scenario


def test_a_million_tokens_by_hand() -> None:
    """40 ms a token, batch 8: 200 tokens/s; a million takes 5000 s; 2 GPUs at $3.60/h: $10."""
    assert tokens_per_second(0.040, 8) == pytest.approx(200)
    cost = usd_per_million_tokens(0.040, batch=8, gpus=2, usd_per_hour=3.6)
    assert cost == pytest.approx(10.0, rel=1e-14)


def test_cost_per_token_is_the_bill_over_the_tokens() -> None:
    """A month of one busy replica, divided by the tokens of that month."""
    month = float(usd_per_month(1, gpus=4, usd_per_hour=2.5))
    tokens = float(tokens_per_second(0.02, 16)) * 730 * 3600
    each = usd_per_million_tokens(0.02, batch=16, gpus=4, usd_per_hour=2.5)
    assert each == pytest.approx(1e6 * month / tokens, rel=1e-13)


@pytest.mark.parametrize(
    ("demand", "each", "replicas"),
    [(0, 50, 1), (1, 50, 1), (50, 50, 1), (50.1, 50, 2), (0.3, 0.1, 3), (1000, 333, 4)],
)
def test_replicas_are_whole(demand: float, each: float, replicas: int) -> None:
    assert replicas_needed(demand, each) == replicas


def test_the_bill_falls_only_when_a_replica_leaves() -> None:
    """1.05× on one replica saves nothing; on 100 it takes five away."""
    speeds = np.array([100.0, 105.0])
    np.testing.assert_array_equal(replicas_needed(100, speeds), [1, 1])
    np.testing.assert_array_equal(replicas_needed(10_000, speeds), [100, 96])


def test_a_bill_over_what_is_served_and_energy_by_hand() -> None:
    """$2628 a month at 1000 tokens/s, 2.628 billion a month: $1 a million. 720 W at 1000 tokens/s:
    1000 s for a million, 200 Wh."""
    assert usd_per_million_served(2628, 1000) == pytest.approx(1.0)
    assert wh_per_million_tokens(1000, 720) == pytest.approx(200)


def test_price_of_a_millisecond() -> None:
    assert price_of_a_millisecond(10, 12, 0.040, 0.030) == pytest.approx(0.2)
    assert price_of_a_millisecond(10, 9, 0.040, 0.030) is None, "cost falls"
    assert price_of_a_millisecond(10, 12, 0.040, 0.041) is None, "no time is saved"


def test_the_bill_of_the_example_by_hand() -> None:
    """40 ms, 2.22×: 25 → 55.6 tokens/s. 1000 tokens/s: 40 replicas, then 18. $2.50 × 730 h each.
    With a fifth of each kept free 20 → 44.4: 50 replicas, then 23."""
    example = Scenario(
        accepted_per_step=3, measured_gamma=4, gamma=4, target_ms=40, draft_ms=8,
        demand_tokens_per_second=1000, headroom=0,
    )  # fmt: skip
    kept_free = bill(predict(example.model_copy(update={"headroom": 0.2})))
    assert kept_free is not None
    both = kept_free.plain.replicas, kept_free.speculative.replicas
    assert [each and each.value for each in both] == [50, 23]
    found = bill(predict(example))
    assert found is not None
    assert (found.plain.replicas.value, found.speculative.replicas.value) == (40, 18)
    assert found.plain.usd_per_month.value == pytest.approx(40 * 2.5 * 730)
    assert found.speculative.usd_per_month.value == pytest.approx(18 * 2.5 * 730)
    assert millisecond_price(predict(example)) is None


def test_a_draft_on_its_own_gpu_has_a_price() -> None:
    """2.22× on twice the GPUs: $27.78 → $25 a million; at 1.5× (τ=2.7): $37.04, 13.3 ms saved."""
    same = {"measured_gamma": 4, "gamma": 4, "target_ms": 40, "draft_ms": 8, "draft_gpus": 1}
    cheaper, dearer = (predict(Scenario(tokens_per_step=t, **same)) for t in (4.0, 2.7))
    assert cheaper.usd_plain is not None
    assert cheaper.usd_plain.value == pytest.approx(27.7778, abs=1e-4)
    assert cheaper.usd is not None
    assert cheaper.usd.value == pytest.approx(25)
    assert millisecond_price(cheaper) is None
    assert millisecond_price(dearer) == pytest.approx((37.037 - 27.7778) / (40 - 40 / 1.5), 1e-4)


def test_what_is_unknown_gives_no_bill() -> None:
    known = {"alpha": 0.8, "gamma": 4, "c": 0.1, "target_ms": 40, "demand_tokens_per_second": 100}
    assert bill(predict(Scenario(**known))) is not None
    assert bill(predict(Scenario(**known | {"target_ms": None}))) is None
    for name in ("target_ms", "usd_per_hour"):
        assert millisecond_price(predict(Scenario(**known | {name: None}))) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tokens_per_second(0, 1), ["seconds_per_token", "> 0"]),
        (lambda: tokens_per_second(0.1, 0), ["batch", ">= 1"]),
        (
            lambda: usd_per_million_tokens(0.1, batch=1, gpus=0, usd_per_hour=1),
            ["gpus", ">= 1"],
        ),
        (
            lambda: usd_per_million_tokens(0.1, batch=1, gpus=1, usd_per_hour=-1),
            ["usd_per_hour", "-1"],
        ),
        (lambda: replicas_needed(-1, 1), ["demand_tokens_per_second", "-1"]),
        (lambda: replicas_needed(1, 0), ["replica_tokens_per_second", "> 0"]),
        (lambda: usd_per_month(1.5, gpus=1, usd_per_hour=1), ["replicas", "1.5"]),
        (lambda: usd_per_million_served(1, 0), ["tokens_per_second", "> 0"]),
        (lambda: wh_per_million_tokens(1, -5), ["watts", "-5"]),
    ],
)
def test_money_out_of_range_is_named(call: object, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        call()  # type: ignore[operator]
    assert all(word in str(error.value) for word in words), str(error.value)
