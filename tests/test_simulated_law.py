"""The server law's open loop against the simulation (docs/simulate.md has the whole table)."""

from __future__ import annotations

import pytest

from tools.simulate_gap import gap


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
