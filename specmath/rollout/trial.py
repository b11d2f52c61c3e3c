"""How many requests show what is predicted, and how requests differ.

The requests are those whose mean TPOT shows the predicted change (`specmath.rollout.samples`). How
requests differ by what is accepted and by other requests' prompts is computed (`specmath.tails`):
that is the least. A spread that was measured on plain decoding stands in both arms, and what
acceptance adds comes on top:

    v₀² = max(measured, computed)²        v₁² = v₀² + max(0, computed₁² − computed₀²)

No fewer than 30 in each arm are told, however large the change is: the test takes the spread from
the requests themselves, and means of skewed times are near normal from about there (a rule of
thumb).
"""

from __future__ import annotations

from dataclasses import dataclass

from specmath.checks import InputError, real
from specmath.estimate import Estimate
from specmath.predict import Prediction
from specmath.rollout.samples import requests_needed
from specmath.speculation import ROUNDING
from specmath.tails import tails

__all__ = ["FLOOR", "Trial", "trial"]

FLOOR = 30
"""Requests in each arm below which neither is their spread seen nor is a mean near normal."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What a trial of speculation is to show, and by how many requests.

    Attributes
    ----------
    gamma
        The γ that is tried.
    speedup
        Plain over speculative TPOT, as predicted.
    variation
        v of a request's TPOT in either arm: standard deviation over mean.
    measured
        Whether a measured spread is in `variation`; else it is a least.
    power, significance
        Of the test: the chances to see the change, and to see one that is not there.
    """

    gamma: int
    speedup: Estimate
    variation: tuple[float, float]
    measured: bool
    power: float
    significance: float

    @property
    def smallest(self) -> float | None:
        """The speedup nearest to 1 in its range; None where the range includes 1."""
        value, low, high = self.speedup.value, self.speedup.low, self.speedup.high
        if low is None or high is None:
            low = high = value
        if low <= 1.0 + ROUNDING and high >= 1.0 - ROUNDING:
            return None
        return low if low > 1.0 else high

    @property
    def requests(self) -> int | None:
        """Requests in each arm that show the speedup, at least `FLOOR`; None where none is
        predicted."""
        return self.needed(self.speedup.value)

    @property
    def requests_smallest(self) -> int | None:
        """Requests in each arm that show the smallest speedup of the range; None where that
        includes 1."""
        return None if self.smallest is None else self.needed(self.smallest)

    def needed(self, ratio: float) -> int | None:
        """Requests in each arm that show this ratio of mean TPOT, at least `FLOOR`."""
        return self.tested(ratio, *self.variation)

    def tested(self, ratio: float, before: float, after: float) -> int | None:
        """Requests in each arm that show a ratio of means at these spreads, at least `FLOOR`."""
        needed = requests_needed(
            ratio, before, after, power=self.power, significance=self.significance
        )
        return None if needed is None else max(FLOOR, needed)


def trial(
    prediction: Prediction, *, power: float = 0.8, significance: float = 0.05,
    cv: float | None = None,
) -> Trial:  # fmt: skip
    """The statistics of a trial at the γ in use, of one scenario or of one kind of request.

    Parameters and errors are those of `specmath.rollout.plan.rollout`.
    """
    real("power", power, 0.5, 0.9999)
    real("significance", significance, 0, 0.5, low_open=True)
    if cv is not None:
        real("cv", cv, 0, 10, low_open=True)
    if prediction.gamma == 0:
        raise InputError(
            "gamma must be >= 1 for a trial, got 0: no γ pays in the middle of its interval; give "
            "one to try it all the same"
        )
    return Trial(
        gamma=prediction.gamma,
        speedup=prediction.speedup,
        variation=_variation(tails(prediction, (0.5,)).variation, cv),
        measured=cv is not None,
        power=power,
        significance=significance,
    )


def _variation(least: tuple[float, float], cv: float | None) -> tuple[float, float]:
    if cv is None:
        return least
    before = max(cv, least[0])
    more = max(0.0, least[1] ** 2 - least[0] ** 2)
    return before, float((before**2 + more) ** 0.5)
