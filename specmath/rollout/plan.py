"""What is expected of a trial: each quantity in both arms, the requests that show it, when to stop.

How many requests show it is `specmath.rollout.trial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from specmath.estimate import Estimate
from specmath.predict import Prediction
from specmath.rollout.breakeven import breakeven
from specmath.rollout.trial import Trial, trial
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint
from specmath.tails import Arms, Tails, tails

__all__ = ["QUANTITIES", "Expected", "Name", "Quantity", "Rollout", "rollout"]

Name = Literal["tpot", "tokens_per_step", "tokens_per_second", "ttft", "e2e", "e2e_p99"]


class Quantity(NamedTuple):
    """What is measured: its label, and the unit in which people and files say it, `scale` of which
    are one of the library's (seconds)."""

    label: str
    unit: str
    scale: float
    definition: str


QUANTITIES: dict[Name, Quantity] = {
    "tpot": Quantity("Time per token, mean", "ms", 1e3,
        "(whole request − first token) / (output tokens − 1), mean over requests"),
    "tokens_per_step": Quantity("Tokens per step", "", 1.0,
        "1 + accepted ÷ steps with a draft: the bonus or correction token is included"),
    "tokens_per_second": Quantity("Output tokens of a replica", "tokens/s", 1.0,
        "Generated tokens a second of one replica at this load"),
    "ttft": Quantity("First token, mean", "ms", 1e3, "From the request to its first token"),
    "e2e": Quantity("Whole request, mean", "ms", 1e3, "From the request to its last token"),
    "e2e_p99": Quantity("Whole request, p99", "ms", 1e3,
        "1 request in 100 takes longer; of requests of the same length"),
}  # fmt: skip
"""What is measured before and after, the one that decides first."""


@dataclass(frozen=True)
class Expected:
    """A quantity without speculation and with it, in SI units."""

    plain: Estimate
    speculative: Estimate


@dataclass(frozen=True, eq=False)
class Rollout(Trial):
    """A trial of speculation on one endpoint: what is expected of it, and when to stop.

    Attributes
    ----------
    scenario
        What was planned, at that γ.
    expected
        Each quantity that is known; times only where the plain step is.
    breakeven
        Tokens per step with a draft below which speculation slows decoding down; above γ+1 where
        it does whatever is accepted.
    steps_variation
        v of a request's tokens per step, by what is accepted.
    alike
        Whether all requests are taken to accept alike: then `steps_variation` is a least.
    """

    scenario: Scenario
    expected: Mapping[Name, Expected]
    breakeven: Estimate
    steps_variation: float
    alike: bool

    @property
    def stop_requests(self) -> int | None:
        """Requests with speculation that tell the expected tokens per step from break-even; None
        where they are the same, or none are enough."""
        expected, least = self.expected["tokens_per_step"].speculative, self.breakeven
        if least.value > self.gamma + 1.0:
            return None
        ratio = expected.value / least.value
        return self.tested(ratio, 0.0, self.steps_variation)


def rollout(
    prediction: Prediction, *, power: float = 0.8, significance: float = 0.05,
    cv: float | None = None,
) -> Rollout:  # fmt: skip
    """The trial that would show what is predicted, at the γ in use.

    Parameters
    ----------
    prediction
        Of one scenario.
    power
        The chance to see the change, ≥ 0.5 and < 1.
    significance
        The chance to see one that is not there, two-sided, > 0 and ≤ 0.5.
    cv
        Standard deviation over mean of a request's TPOT as measured on plain decoding, > 0 and
        ≤ 10; None takes what acceptance and prompts alone give, which is the least.

    Returns
    -------
    Rollout
        The checklist, requests and stop rules.

    Raises
    ------
    InputError
        A value outside its range; γ = 0, of which there is nothing to try; requests without a tail
        (`specmath.tails.tails`).

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> found = rollout(predict(Scenario(alpha=0.8, c=0.1, gamma=4, overhead=0.1)), cv=0.3)
    >>> round(found.speedup.value, 2), found.requests, round(found.breakeven.value, 2)
    (2.24, 30, 1.5)
    """
    shown = trial(prediction, power=power, significance=significance, cv=cv)
    found = tails(prediction, (0.99,))
    _, steps = found.steps
    return Rollout(
        **vars(shown),
        scenario=prediction.scenario.model_copy(update={"gamma": prediction.gamma}),
        expected=_expected(prediction, found),
        breakeven=breakeven(prediction.endpoint, prediction.gamma),
        steps_variation=steps.variance**0.5 / steps.mean,
        alike=found.alike,
    )


def _expected(p: Prediction, found: Tails) -> dict[Name, Expected]:
    """What is known of each quantity; a rate only where it can change."""
    endpoint, gamma = p.endpoint, p.gamma
    expected: dict[Name, Expected] = {}
    if p.tpot_plain is not None and p.tpot is not None:
        expected["tpot"] = Expected(p.tpot_plain, p.tpot)
    expected["tokens_per_step"] = Expected(Estimate(1.0), _tokens(endpoint, gamma))
    if p.tpot_plain is not None and p.tpot is not None and _rate_told(endpoint):
        expected["tokens_per_second"] = Expected(
            p.tpot_plain.map(lambda seconds: endpoint.throughput(seconds, 0)),
            p.tpot.map(lambda seconds: endpoint.throughput(seconds, gamma)),
        )
    if p.first_token is not None:
        expected["ttft"] = Expected(*p.first_token)
    if p.whole_request is not None:
        expected["e2e"] = Expected(*p.whole_request)
    if found.timed and found.request is not None:
        expected["e2e_p99"] = _p99(found.request)
    return expected


def _rate_told(endpoint: Endpoint) -> bool:
    """Whether a replica's tokens a second follow, and may change: its load is known, and is not a
    rate of requests, which is served in both arms."""
    load = endpoint.load
    if load is None:
        return endpoint.scenario.batch > 1
    return load.requests.request_rate is None


def _p99(arms: Arms) -> Expected:
    return Expected(arms.plain.at(0.99), arms.speculative.at(0.99))


def _tokens(endpoint: Endpoint, gamma: int) -> Estimate:
    """Tokens of a step with a draft, which is what engines count."""
    each = [float(corner.drafted.tokens_per_step(gamma)) for corner in endpoint.corners]
    value = float(endpoint.speculation.drafted.tokens_per_step(gamma))
    if min(each) == max(each):
        return Estimate(value, basis=endpoint.basis)
    return Estimate(value, np.array(each)[:, None], endpoint.basis)
