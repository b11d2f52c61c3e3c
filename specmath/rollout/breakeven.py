"""How many tokens a step must emit for speculation to pay, where the load follows its speed.

In a loop that is not held at a batch, whoever accepts less has more requests in a step: the state
of the server is that in which both arms take equally long a token, and not the one predicted.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from specmath.checks import FloatArray
from specmath.estimate import Estimate
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.scenario.files import revised

__all__ = ["NEVER", "at_break_even", "breakeven"]

NEVER = 1e9
"""Tokens per step that no draft has."""

NEAR = 1e-7
"""Of α at break-even."""


def breakeven(endpoint: Endpoint, gamma: int) -> Estimate:
    """Tokens per step with a draft below which a token takes longer than without.

    Parameters
    ----------
    endpoint
        A scenario, resolved.
    gamma
        γ ≥ 1.

    Returns
    -------
    Estimate
        Over what is open of the costs; above γ+1 where no tokens are enough.

    Examples
    --------
    >>> found = breakeven(resolve(Scenario(alpha=0.8, c=0.1, gamma=4, overhead=0.1)), 4)
    >>> round(found.value, 9)
    1.5
    """
    return _of_state(at_break_even(endpoint, gamma), gamma)


def at_break_even(endpoint: Endpoint, gamma: int) -> Endpoint:
    """The endpoint in the state in which both arms take equally long; as it is where its batch is
    held, its costs were given, or a measured run fixes the step at this load."""
    s, load = endpoint.scenario, endpoint.load
    if load is None or load.requests.batch is not None or s.run_ms is not None:
        return endpoint

    def slowness(alpha: float) -> float:
        return -math.log(float(_accepting(s, gamma, alpha).curves[0][gamma]))

    if slowness(1.0) >= 0.0 or slowness(0.0) <= 0.0:
        return _accepting(s, gamma, 1.0 if slowness(1.0) >= 0.0 else 0.0)
    return _accepting(s, gamma, float(brentq(slowness, 0.0, 1.0, xtol=NEAR)))


def _accepting(s: Scenario, gamma: int, alpha: float) -> Endpoint:
    changes = {"acceptance_form": "alpha", "alpha": alpha, "gamma": gamma}
    return resolve(revised(s, changes))


def _of_state(endpoint: Endpoint, gamma: int) -> Estimate:
    """Of a share κ of the steps, 1 + (τ − 1)/κ, at every joint point."""
    each = []
    for corner in endpoint.corners:
        cost = corner.cost.points([gamma], endpoint.excess)[:, 0]
        left = 1.0 + endpoint.prompts * (corner.plain_waiting - float(corner.waits(gamma)))
        each.append(_of_drafted(cost, left, corner.coverage))
    ours = endpoint.speculation
    middle = _of_drafted(np.array([ours.breakeven(gamma)[2]]), np.ones(1), ours.coverage)
    return endpoint.estimate(np.stack(each), float(middle[0]))


def _of_drafted(cost: FloatArray, left: FloatArray, coverage: float) -> FloatArray:
    able = (left > 0.0) & (coverage > 0.0)
    needed = np.divide(cost, left, out=np.full(np.shape(cost), NEVER), where=able)
    return np.asarray(np.minimum(1.0 + (needed - 1.0) / (coverage or 1.0), NEVER))
