"""Each form of acceptance → the acceptance model it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from specmath.acceptance import (
    Acceptance,
    IidAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
)
from specmath.checks import InputError
from specmath.scenario.forms import WORKLOADS
from specmath.theorems import alpha_from_accepted_share, alpha_from_tokens_per_step

if TYPE_CHECKING:
    from specmath.scenario.record import Scenario

__all__ = ["alpha_ends", "given", "given_acceptance"]


def given(scenario: Scenario, name: str) -> float:
    """A field of the scenario's own form: the record has checked that it is there."""
    value: float | None = getattr(scenario, name)
    if value is None:
        raise InputError(f"{name} must be given, got nothing")
    return value


def _from_tokens(s: Scenario, tokens: float) -> IidAcceptance:
    return IidAcceptance(float(alpha_from_tokens_per_step(tokens, given(s, "measured_gamma"))))


def _from_share(s: Scenario) -> IidAcceptance:
    share, gamma = given(s, "accepted_share"), given(s, "measured_gamma")
    return IidAcceptance(float(alpha_from_accepted_share(share, gamma)))


def _from_mixture(s: Scenario) -> MixtureAcceptance:
    shares, alphas = zip(*s.mixture, strict=True)
    return MixtureAcceptance(shares, [IidAcceptance(alpha) for alpha in alphas])


ACCEPTANCES: dict[str, Callable[[Scenario], Acceptance]] = {
    "alpha": lambda s: IidAcceptance(given(s, "alpha")),
    "tokens_per_step": lambda s: _from_tokens(s, given(s, "tokens_per_step")),
    "accepted_per_step": lambda s: _from_tokens(s, 1 + given(s, "accepted_per_step")),
    "accepted_share": _from_share,
    "survival": lambda s: PerPositionAcceptance(s.rates),
    "conditional": lambda s: PerPositionAcceptance.from_conditional(s.rates),
    "mixture": _from_mixture,
    "workload": lambda s: IidAcceptance(WORKLOADS[str(s.workload)]),
    "range": lambda s: IidAcceptance(float(np.mean(alpha_ends(s)))),
}


def given_acceptance(scenario: Scenario) -> Acceptance:
    """The acceptance as given, of the steps with a draft; of a range, its middle.

    Raises InputError where the rates are no acceptance.
    """
    return ACCEPTANCES[scenario.acceptance_form](scenario)


def alpha_ends(scenario: Scenario) -> tuple[float, float]:
    """The two ends of a range of α."""
    return given(scenario, "alpha_low"), given(scenario, "alpha_high")
