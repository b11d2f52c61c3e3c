"""A simulation in sentences: what speculation does to its requests, and what is not in it."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.arms import Arm
from specmath.numbers import significant

__all__ = ["NOT_MODELLED", "simulated_sentence"]

NOT_MODELLED = (
    "Not in it: the HTTP front end and the network, batches padded to captured sizes, how long "
    "blocks stay in the prefix cache, and the errors of the step times themselves."
)


def simulated_sentence(arms: Sequence[Arm]) -> str:
    """A request's mean and 99th percentile with and without, and who carries more."""
    plain, *rest = arms
    before = _times(plain)
    if not rest:
        return f"Without speculation a request takes {before}; no γ is recommended at this load."
    ours = rest[0]
    carried = f"{ours.limit.rate:.3g} requests/s at most instead of {plain.limit.rate:.3g}"
    return (
        f"With γ={ours.gamma} a request takes {_times(ours)}; without, {before}. One replica "
        f"carries {carried}."
    )


def _times(arm: Arm) -> str:
    mean, tail = arm.found.mean("e2e"), arm.found.quantile("e2e", 0.99)
    return f"{significant(mean)} s in the mean, {significant(tail)} s at the 99th percentile"
