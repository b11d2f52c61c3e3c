"""The server law's open loop against the simulation (docs/simulate.md has the whole table)."""

from __future__ import annotations

import pytest

from specmath import Scenario
from specmath.arms import endpoint_for, served
from specmath.predict import of_endpoint
from specmath.tails import tails
from specmath.traffic import poisson
from tools.simulate_gap import exactly, gap


@pytest.mark.parametrize(
    ("prompt", "gamma", "share"), [(1024, 0, 0.5), (4096, 0, 0.5), (256, 3, 0.25)]
)
def test_calm_open_loops_agree(prompt: int, gamma: int, share: float) -> None:
    found = gap(prompt, gamma, share, requests=2500, seeds=1)
    assert found is not None
    assert abs(found.tpot) < 0.03
    assert abs(found.batch) < 0.04
    assert -0.2 < found.ttft < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prompt", "gamma", "share", "low", "high"),
    [(256, 0, 0.9, 0.05, 0.05), (256, 3, 0.9, 0.08, 0.03), (1024, 0, 0.9, 0.05, 0.05),
     (1024, 3, 0.9, 0.07, 0.03), (4096, 0, 0.9, 0.03, 0.06),
     # Known miss: a prompt that is being read takes one of few places.
     (16384, 0, 0.75, 0.0, 0.13)],
)  # fmt: skip
def test_busy_open_loops_agree_or_are_known_misses(
    prompt: int, gamma: int, share: float, low: float, high: float
) -> None:
    found = gap(prompt, gamma, share, requests=5000, seeds=2)
    assert found is not None
    assert -low < found.tpot < high
    assert -low - 0.02 < found.batch < high + 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "low"), [(5.0, (0.06, 0.06)), (15.0, (0.1, 0.1)), (25.0, (0.15, 0.2))]
)
def test_the_99th_percentile_of_a_mean_field_is_low_by_how_the_batch_moves(
    rate: float, low: tuple[float, float]
) -> None:
    """14, 42 and 70% of the largest rate; at 70% with speculation 17% low is a known miss."""
    traffic = exactly(poisson(rate, 512, 256, requests=5000, seed=1), rate)
    scenario = Scenario(
        gpu="h100", model="Llama-3.1-8B", draft="eagle3", alpha=0.7, gamma=3, prompt_tokens=512,
        output_tokens=256, request_rate=rate,
    )  # fmt: skip
    endpoint = endpoint_for(scenario, traffic)
    law = tails(of_endpoint(endpoint)).request
    assert law is not None
    for arm, spread, most in zip(
        served(endpoint, traffic), (law.plain, law.speculative), low, strict=True
    ):
        ratio = spread.at(0.99).value / arm.found.quantile("e2e", 0.99)
        assert 1 - most < ratio < 1.02
        assert spread.mean.value == pytest.approx(arm.found.mean("e2e"), rel=0.03)
