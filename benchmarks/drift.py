"""How often `logs drift` cries wolf, and what falls it sees: `python -m benchmarks.drift`.

Pairs of logs of a server whose α wanders from window to window: Gaussian around a mean, lag-1
correlation φ, clipped to [0, 1]; nothing changes between the two but what a row says. A row gives,
at the stated rates of 1% and 5%, the alarms among all calls, the alarms among the calls that were
answered, and the share that was refused ("cannot tell"). The tables of docs/logs.md are from here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from specmath.checks import FloatArray
from specmath.logs import Reading, Window
from specmath.review.drift import drift

RATES = (0.01, 0.05)
Steps = Callable[[np.random.Generator, int], FloatArray]


@dataclass(frozen=True)
class Side:
    """One log: `windows` of `steps` (a number, or a draw); α is lower by `drop` in all of it.

    `bad` is the share of windows, at random, in which α is lower by 0.15. With `rho` α is
    beta-distributed, each window for itself; `rho` is the correlation of two tokens of a window.
    """

    windows: int
    steps: float | Steps = 600
    phi: float = 0.0
    alpha: float = 0.75
    moves: float = 0.03
    gamma: int = 3
    drop: float = 0.0
    bad: float = 0.0
    rho: float = 0.0


def made(random: np.random.Generator, side: Side) -> Reading:
    """A log of γ drafted tokens a step, each accepted with its window's α, with counts."""
    wander = random.standard_normal(side.windows)
    wander[1:] *= np.sqrt(1 - side.phi**2)
    low = np.full(side.windows, side.drop)
    if side.bad:
        low += 0.15 * (random.random(side.windows) < side.bad)
    if side.rho:
        both = 1 / side.rho - 1
        alpha = random.beta((side.alpha - low) * both, (1 - side.alpha + low) * both)
    else:
        walk = lfilter([1], [1, -side.phi], wander)
        alpha = np.clip(side.alpha - low + side.moves * walk, 0, 1)
    drawn = side.steps(random, side.windows) if callable(side.steps) else side.steps
    steps = np.broadcast_to(np.asarray(drawn, dtype=int), (side.windows,))
    reached = [steps]
    for _ in range(side.gamma):
        reached.append(random.binomial(reached[-1], alpha))
    counts, total = np.array(reached[1:]), int(steps.sum())
    accepted = counts.sum(axis=0)
    columns = (steps, accepted, 1 + accepted / steps, (counts / steps).T)
    rows = tuple(
        Window(t + 1, None, n, side.gamma * n, a, mean, tuple(rates), float(n))
        for t, (n, a, mean, rates) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
    )
    survival = tuple((counts.sum(axis=1) / total).tolist())
    return Reading(
        "vllm", "made", steps=total, drafted=side.gamma * total, accepted=int(accepted.sum()),
        tokens_per_step=1 + sum(survival), survival=survival, gamma=side.gamma, windows=rows,
    )  # fmt: skip


def uneven(random: np.random.Generator, windows: int) -> FloatArray:
    return random.integers(300, 900, windows).astype(float)


def lognormal(random: np.random.Generator, windows: int) -> FloatArray:
    """From a few steps to thousands: the spread of ln(steps) is 1.2."""
    return np.ceil(np.exp(random.normal(5.0, 1.2, windows)))


def loaded(random: np.random.Generator, windows: int) -> FloatArray:
    """From a hundred steps to thousands: the spread of ln(steps) is 1."""
    return np.ceil(600 * np.exp(random.standard_normal(windows)))


def hours(first: int, last: int, days: int = 1) -> Steps:
    """50 steps a window at midnight, 1000 at noon, 15 windows an hour; these hours of each day."""

    def steps(random: np.random.Generator, windows: int) -> FloatArray:
        of_day = np.tile(np.arange(15 * first, 15 * last) / 360, days)[:windows]
        return np.asarray(np.ceil(50 + 475 * (1 - np.cos(2 * np.pi * of_day))))

    return steps


def rows_of(table: str) -> list[tuple[str, Side, Side]]:
    """(name, baseline, current) of one table."""
    if table == "length":
        return [
            (f"phi {phi:g}: {n}, {n // 2} windows", Side(n, uneven, phi), Side(n // 2, uneven, phi))
            for phi in (0.0, 0.2, 0.5, 0.8, 0.9, 0.95) for n in (20, 30, 60, 100, 360)
        ]  # fmt: skip
    if table == "spread":
        return [
            (f"rho {rho:g}, {name}: 60, 30 windows",
             Side(60, steps, rho=rho, moves=0), Side(30, steps, rho=rho, moves=0))
            for rho in (0.0, 0.001, 0.01, 0.05)
            for name, steps in (("even", 600), ("lognormal", loaded))
        ]  # fmt: skip
    if table == "load":
        return [
            ("10 times busier", Side(640, 100), Side(64, 1000)),
            ("3 times busier", Side(640), Side(200, 1800)),
            ("5 times busier, phi .8", Side(360, 600, 0.8), Side(180, 3000, 0.8)),
            ("5 times quieter, phi .8", Side(360, 3000, 0.8), Side(180, 600, 0.8)),
            ("10 times quieter", Side(64, 1000), Side(640, 100)),
            ("lognormal", Side(200, lognormal), Side(100, lognormal)),
            ("lognormal, phi .8", Side(360, lognormal, 0.8), Side(180, lognormal, 0.8)),
            ("lognormal, then even, phi .8", Side(360, lognormal, 0.8), Side(180, 300, 0.8)),
            ("three days, then a day, phi .8",
             Side(1080, hours(0, 24, 3), 0.8), Side(360, hours(0, 24), 0.8)),
            ("three days, then 6 to 18 h, phi .8",
             Side(1080, hours(0, 24, 3), 0.8), Side(180, hours(6, 18), 0.8)),
            ("six nights to 6 h, then 6 to 18 h, phi .8",
             Side(540, hours(0, 6, 6), 0.8), Side(180, hours(6, 18), 0.8)),
        ]  # fmt: skip
    if table == "ends":
        return [
            (f"alpha {alpha:g}, {steps} steps, g={gamma}: {n}, {n // 2} windows",
             Side(n, steps, 0.0, alpha, moves, gamma),
             Side(n // 2, steps, 0.0, alpha, moves, gamma))
            for alpha, steps, gamma, n, moves in (
                (0.9999, 600, 3, 100, 0), (0.9999, 600, 3, 2000, 0), (0.999, 600, 3, 100, 0),
                (0.995, 50, 3, 100, 0), (0.995, 50, 3, 400, 0), (0.99, 100, 5, 60, 0),
                (0.95, 20, 3, 100, 0), (0.98, 600, 3, 100, 0.03), (0.01, 600, 3, 100, 0),
            )
        ]  # fmt: skip
    if table == "bad":
        return [
            (f"3% bad windows: {n}, {n // 2} windows",
             Side(n, uneven, moves=0.02, bad=0.03), Side(n // 2, uneven, moves=0.02, bad=0.03))
            for n in (60, 360)
        ]  # fmt: skip
    return [
        *(
            (f"fall of 0.03, {name}: 60, 30 windows",
             Side(60, steps, rho=rho), Side(30, steps, rho=rho, drop=0.03))
            for name, steps, rho in (
                ("uneven", uneven, 0), ("lognormal", loaded, 0),
                ("rho .001, lognormal", loaded, 0.001),
                ("rho .005, lognormal", loaded, 0.005),
                ("rho .01, even", 600, 0.01),
            )
        ),
        *((f"fall of {drop:g}, phi {phi:g}: {n}, {n // 2} windows",
         Side(n, uneven, phi), Side(n // 2, uneven, phi, drop=drop))
        for drop, phi, n in (
            (0.05, 0.0, 60), (0.05, 0.0, 360), (0.05, 0.5, 100), (0.05, 0.8, 360),
            (0.05, 0.9, 360), (0.05, 0.95, 360), (0.1, 0.0, 30), (0.1, 0.8, 360),
            (0.2, 0.0, 20), (0.2, 0.5, 60),
        )),
    ]  # fmt: skip


TABLES = ("spread", "power", "length", "load", "ends", "bad")


def simulated(before: Side, after: Side, pairs: int, seed: int) -> list[tuple[int, int]]:
    """(alarms, answered) at each of RATES among so many pairs."""
    random = np.random.default_rng(seed)
    found = np.zeros((len(RATES), 2), dtype=int)
    for _ in range(pairs):
        answer = drift(made(random, before), made(random, after))
        for row, rate in enumerate(RATES):
            told = answer.fallen is not None and answer.p_value is not None
            found[row] += told and (answer.p_value or 0.0) <= rate, told
    return [(int(alarms), int(answered)) for alarms, answered in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}; all by default")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for table in given.tables or TABLES:
        print(f"{table}: alarms of all, of those answered; refused")
        for name, before, after in rows_of(table):
            cells = [
                f"{100 * alarms / given.pairs:5.1f}% {100 * alarms / max(answered, 1):5.1f}% "
                f"{100 - 100 * answered / given.pairs:4.0f}%"
                for alarms, answered in simulated(before, after, given.pairs, given.seed)
            ]
            print(f"  {name:50} {'   '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
