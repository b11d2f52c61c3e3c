"""What a log says of each γ: tokens and cost of a decode pass, and the speedup with its ends.

    tokens(γ) = κ τ(γ) + 1−κ        cost(γ) = κ s(γ) + 1−κ        speedup = tokens / cost

Beside a plain run the cost of a pass at the γ that ran is what that run showed, tokens ÷ observed
speedup; at another γ it is the scenario's verification and drafting with what those leave
unexplained (`specmath.logs.speed.pass_costs`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray
from specmath.halves import Halves, acceptance_of, ends, spread_of, step_cost_of, unknowns
from specmath.logs.estimate import estimate_alpha
from specmath.logs.record import Reading
from specmath.logs.speed import Speed, pass_costs, tokens_per_pass
from specmath.scenario import Scenario
from specmath.scenario.acceptances import given
from specmath.scenario.files import revised
from specmath.theorems import expected_tokens
from specmath.verdict import Decision, decide
from specmath.wording import significant

__all__ = ["LogCurve", "log_curve"]


@dataclass(frozen=True)
class LogCurve:
    """Arrays over γ = 0 … top; `ends` the speedup at each end of what is not known.

    `ran` is the γ of the log, None where it does not print one. `observed` is the plain run's
    comparison; without it the costs are the scenario's. `inputs_unknown`: more is open than the
    error of computed steps. `expected` is the scenario's cost of a
    pass at `ran`.
    """

    ran: int | None
    tokens: FloatArray
    cost: FloatArray
    speedup: FloatArray
    ends: tuple[FloatArray, ...]
    unknown: tuple[str, ...]
    inputs_unknown: bool
    share: float
    observed: Speed | None
    expected: float
    max_gamma: int

    @property
    def low(self) -> FloatArray:
        """The least speedup over what is not known, at each γ."""
        return np.asarray(np.min([self.speedup, *self.ends], axis=0))

    @property
    def high(self) -> FloatArray:
        """The most."""
        return np.asarray(np.max([self.speedup, *self.ends], axis=0))

    def decisions(self) -> tuple[Decision, list[Decision]]:
        """What to do at the central values, and at each end; of a log without γ, from plain."""
        gamma = self.ran or 0
        each = [decide(end, gamma, self.max_gamma) for end in self.ends]
        return decide(self.speedup, gamma, self.max_gamma), each


def log_curve(reading: Reading, scenario: Scenario, speed: Speed | None = None) -> LogCurve:
    """The curve of a reading whose drafts are `scenario`'s acceptance (`taken.drafts_of`).

    At the γ that ran the tokens are the log's own count; of a larger γ than its positions they
    are extrapolated. `ends` holds the scenario's unknown costs and, where α was inverted, its
    interval.
    """
    tokens, share = tokens_per_pass(reading)
    kappa = 1.0 if scenario.draft_form == "hardware" else share
    wide = _sampled(reading, scenario)
    central = Halves(acceptance_of(scenario), step_cost_of(scenario))
    ran = reading.gamma
    top = min(max(scenario.max_gamma, ran or 0), central.cost.reach)
    gammas = np.arange(top + 1)
    shown = speed if ran is not None and tokens is not None else None

    def over_passes(halves: Halves, own: float | None) -> tuple[FloatArray, FloatArray]:
        emitted = kappa * np.asarray(halves.acceptance.tokens_per_step(gammas)) + 1.0 - kappa
        if own is not None and ran is not None:
            emitted[ran] = own
        costs = kappa * np.asarray(halves.cost.total(gammas)) + 1.0 - kappa
        if shown is not None and ran is not None:
            costs = pass_costs(costs, ran, float(emitted[ran]) / shown.speedup)
        return emitted, costs

    emitted, costs = over_passes(central, tokens)
    corners = [over_passes(halves, tokens) for halves in ends(scenario)]
    if wide is not None:
        corners += [over_passes(halves, None) for halves in ends(wide)]
    expected = 1.0
    if ran is not None:
        expected = kappa * float(central.cost.total(ran)) + 1.0 - kappa
    return LogCurve(
        ran=ran,
        tokens=emitted,
        cost=costs,
        speedup=emitted / costs,
        ends=tuple(one / each for one, each in corners),
        unknown=(*_sampling(wide, ran), *spread_of(scenario)),
        inputs_unknown=wide is not None or bool(unknowns(scenario)),
        share=share,
        observed=shown,
        expected=expected,
        max_gamma=min(scenario.max_gamma, top),
    )


def _sampled(reading: Reading, scenario: Scenario) -> Scenario | None:
    """The scenario with the interval of α, where the log has no rates and α has one."""
    if reading.survival:
        return None
    interval = reading.alpha_interval
    if reading.gamma is not None and reading.tokens_per_step is not None:
        interval = estimate_alpha(
            steps=reading.steps, drafted=None, accepted=None, survival=None, gamma=reading.gamma,
            tokens_per_step=reading.tokens_per_step, windows=reading.windows,
        ).interval  # fmt: skip
    if interval is None or not interval[0] < interval[1]:
        return None
    low, high = (min(max(end, 0.0), 1.0) for end in interval)
    return revised(scenario, {"acceptance_form": "range", "alpha_low": low, "alpha_high": high})


def _sampling(wide: Scenario | None, gamma: int | None) -> list[str]:
    """The interval in words: of tokens per step, which the log counts, not a second α."""
    if wide is None:
        return []
    alphas = [given(wide, "alpha_low"), given(wide, "alpha_high")]
    if gamma is None:
        return [f"α from {significant(alphas[0])} to {significant(alphas[1])}"]
    low, high = (significant(float(expected_tokens(alpha, gamma))) for alpha in alphas)
    return [f"{low} to {high} tokens a step with a draft"]
