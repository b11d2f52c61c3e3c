"""Speed of the closed forms as ratios within one run: `python benchmarks/closed_forms.py`.

Both sides of a ratio are timed in turn, so a slow moment of the machine hits both; each time is
the median of the repeats.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specmath.gamma import crossover_gamma, optimal_gamma
from specmath.theorems import walltime_improvement

REPEATS = 9
SCAN_GAMMA = 64


def medians(*functions: Callable[[], object]) -> list[float]:
    """Seconds of each function, called in turn after one call to warm up."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    for _ in range(REPEATS):
        for function, record in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            record.append(time.perf_counter() - start)
    return [statistics.median(record) for record in times]


def running_sum_scan(alpha: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The γ in 0…64 with the largest speedup, one γ at a time, in place where numpy allows."""
    power, tokens, best = np.ones_like(alpha), np.ones_like(alpha), np.ones_like(alpha)
    best_gamma = np.zeros(alpha.size, dtype=np.int64)
    for gamma in range(1, SCAN_GAMMA + 1):
        power *= alpha
        tokens += power
        speedup = tokens / (gamma * c + 1.0)
        np.copyto(best_gamma, gamma, where=speedup > best)
        np.maximum(best, speedup, out=best)
    return best_gamma


def main() -> None:
    rng = np.random.default_rng(0)

    a, g, c = rng.random(10**7), rng.integers(0, 20, 10**7), rng.random(10**7)
    bare, ours = medians(
        lambda: (1 - a ** (g + 1)) / ((1 - a) * (g * c + 1)),
        lambda: walltime_improvement(a, g, c),
    )
    print("walltime_improvement, 10^7 elements (checked, exact near α = 1)")
    print(f"  bare numpy {bare:.3f} s, specmath {ours:.3f} s: {ours / bare:.2f}x the time (<= 2)")

    alpha, cost = rng.random(10**6), rng.uniform(0.01, 1.0, 10**6)
    scan, ours, crossing = medians(
        lambda: running_sum_scan(alpha, cost),
        lambda: optimal_gamma(alpha, cost),
        lambda: crossover_gamma(alpha, cost),
    )
    found, scanned = optimal_gamma(alpha, cost, SCAN_GAMMA), running_sum_scan(alpha, cost)
    print(f"optimal_gamma, 10^6 pairs (γ to 10000; the scan to {SCAN_GAMMA})")
    print(f"  scan {scan:.3f} s, specmath {ours:.3f} s: {scan / ours:.1f}x faster (>= 8)")
    print(f"  same γ in {np.mean(found == scanned):.4%} (a scan cannot see ties below rounding)")
    print(f"crossover_gamma, 10^6 pairs: {crossing:.3f} s")


if __name__ == "__main__":
    main()
