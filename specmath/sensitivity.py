"""Which of the things that are not known makes the interval of an answer as wide as it is.

    share(x) = 1 − width(x known) / width,      width = log(high / low) of the speedup at a γ

Known means held at each of its ends in turn, and the widths averaged; an error of which only a
range is known is held at its median. Shares do not add up to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from specmath.checks import FloatArray
from specmath.estimate import ends
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.speculation import ROUNDING

__all__ = ["Gap", "Share", "shares"]

Gap = Literal[
    "acceptance", "prompt_tokens", "step_cost", "plain_step", "c", "c_hat", "sigma", "besides"
]
"""What a single measurement, or a single number given, would end."""

STEP_COST = ("position", "reading")
"""Axes that a measured run ends, with the errors of the computed step and of prompts."""
LEAST = 1e-6
"""Stands for the speedup of a γ at which a server cannot keep up, which is 0."""


@dataclass(frozen=True)
class Share:
    """A thing that is open, and how much of the interval goes once it is known, in [0, 1]."""

    gap: Gap
    share: float


def shares(endpoint: Endpoint, gamma: int) -> tuple[Share, ...]:
    """How much of the interval of the speedup at γ each open thing makes, the most first.

    Parameters
    ----------
    endpoint
        Whose interval.
    gamma
        The γ looked at, from 0 to the largest considered.

    Returns
    -------
    tuple[Share, ...]
        Empty where nothing is open.

    Examples
    --------
    >>> from specmath import Scenario
    >>> from specmath.scenario.endpoint import resolve
    >>> found = shares(resolve(Scenario(alpha_low=0.5, alpha_high=0.85, c_low=0.09, c_high=0.1)), 3)
    >>> [(each.gap, round(each.share, 2)) for each in found]
    [('acceptance', 0.6), ('besides', 0.38), ('c', 0.02)]
    """
    points = endpoint.points[:, :, gamma]
    whole = _width(endpoint, points, ())
    if whole <= ROUNDING:
        return ()
    left: dict[Gap, float] = {
        cast(Gap, name): _width(endpoint, points, (name,))
        for name, count in endpoint.axes.items()
        if count > 1 and name not in STEP_COST
    }
    if endpoint.excess.size > 1:
        known = np.ones(1)
        points = np.stack([each.points([gamma], known, known)[:, 0] for each in endpoint.corners])
        left["step_cost"] = _width(endpoint, points, STEP_COST)
    if (timed := _timed(endpoint)) is not None:
        left["plain_step"] = _width(timed, timed.points[:, :, gamma], ("reading",))
    found = (Share(gap, max(0.0, 1.0 - width / whole)) for gap, width in left.items())
    return tuple(sorted(found, key=lambda each: -each.share))


def _timed(endpoint: Endpoint) -> Endpoint | None:
    """The same where the plain time was measured, and as computed; None where it does not count:
    it cancels in a ratio, unless a run was timed."""
    s, plain = endpoint.scenario, endpoint.tpot_plain
    if s.run_ms is None or s.target_ms is not None or plain is None:
        return None
    return resolve(s.model_copy(update={"target_ms": plain.value * 1e3}))


def _width(endpoint: Endpoint, points: FloatArray, known: tuple[str, ...]) -> float:
    """log(high / low) of `points` (corners, draws), averaged over the ends of what is known."""
    names, counts = list(endpoint.axes), list(endpoint.axes.values())
    cube = np.log(np.maximum(points, LEAST)).reshape(*counts, points.shape[1])
    front = [names.index(name) for name in known if name in names]
    held = int(np.prod([counts[i] for i in front]))
    parts = np.moveaxis(cube, front, range(len(front))).reshape(held, -1, points.shape[1])
    widths = [high - low for low, high in map(ends, parts)]
    return float(np.mean(widths))
