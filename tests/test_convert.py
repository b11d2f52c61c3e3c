"""Switching the form of an input keeps what was said."""

from __future__ import annotations

from typing import Any

import pytest

from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.endpoint import resolve, said_as
from specmath.scenario.files import revised
from specmath.scenario.forms import ACCEPTANCE, COST

KNOWN: list[dict[str, Any]] = [
    {"alpha": 0.7},
    {"accepted_per_step": 1.9, "measured_gamma": 5},
    {"accepted_share": 0.61, "measured_gamma": 3},
    {"rates": (0.8, 0.6, 0.45)},
    {"mixture": ((0.5, 0.9), (0.5, 0.4))},
    {"workload": "creative"},
    {"alpha_low": 0.5, "alpha_high": 0.7},
    {"alpha": 0.0},
    {"alpha": 1.0},
]
EXACT = ("alpha", "tokens_per_step", "accepted_per_step", "accepted_share", "survival", "mixture")


@pytest.mark.parametrize("said", KNOWN)
@pytest.mark.parametrize("gamma", [0, 1, 4])
@pytest.mark.parametrize("form", [*EXACT, "conditional"])
def test_tokens_per_step_stay_when_the_form_changes(
    said: dict[str, Any], gamma: int, form: str
) -> None:
    before = Scenario(gamma=gamma, c=0.1, **said)
    after = revised(before, said_as(before, "acceptance_form", form) | {"acceptance_form": form})
    assert after.acceptance_form == form
    at = max(1, gamma)
    # A widget shows three decimals; that moves τ by at most the slope dτ/dα = γ(γ+1)/2.
    assert after.accepts.acceptance(after).tokens_per_step(at) == pytest.approx(
        before.accepts.acceptance(before).tokens_per_step(at), abs=0.0005 * (1 + at * (at + 1) / 2)
    )


def test_per_position_rates_keep_their_shape() -> None:
    before = Scenario(rates=(0.8, 0.6, 0.45), gamma=3, c=0.1)
    after = said_as(before, "acceptance_form", "conditional")
    assert after == {"rates": (0.8, 0.75, 0.75)}


def test_draft_cost_in_each_form() -> None:
    assert said_as(EXAMPLE, "draft_form", "ratio") == {"c": 0.2}
    ratio = revised(EXAMPLE, {"c": 0.25})
    assert said_as(ratio, "draft_form", "times") == {"target_ms": 40, "draft_ms": 10}
    unknown = Scenario(alpha=0.8, c=0.1, gamma=4)
    assert said_as(unknown, "draft_form", "times") == {"target_ms": None, "draft_ms": None}
    after = revised(EXAMPLE, said_as(EXAMPLE, "draft_form", "range") | {"draft_form": "range"})
    assert after.c_low is not None
    assert after.c_low <= resolve(after).speculation.cost.c


def test_verification_as_a_line_and_as_a_curve() -> None:
    """v = 1 + σγ at every γ, and back the slope to v at the γ in use."""
    line = revised(EXAMPLE, {"sigma": 0.25})
    curve = said_as(line, "verify_form", "curve")["verify_costs"]
    assert curve == (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0)
    assert said_as(EXAMPLE, "verify_form", "curve") == {"verify_costs": ()}
    measured = revised(EXAMPLE, {"verify_costs": (1.6, 1.9, 1.5, 1.8)})
    assert said_as(measured, "verify_form", "slope") == {"sigma": 0.2}
    assert said_as(measured, "verify_form", "curve") == {"verify_costs": (1.6, 1.9, 1.5, 1.8)}


@pytest.mark.parametrize(
    ("half", "form"),
    [("acceptance_form", form) for form in ACCEPTANCE]
    + [("draft_form", form) for form in COST if form != "hardware"]
    + [("verify_form", "slope")],
)
def test_every_form_makes_a_scenario_at_once(half: str, form: str) -> None:
    assert getattr(revised(EXAMPLE, said_as(EXAMPLE, half, form) | {half: form}), half) == form
