"""The scenario record: forms read off the fields, unknowns kept, every fault in a sentence."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers.random_scenarios import scenarios
from hypothesis import given, settings
from pydantic import ValidationError

from specmath.acceptance_record import band
from specmath.checks import InputError
from specmath.scenario import EXAMPLE, SPECS, Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import build
from specmath.scenario.forms import ACCEPTANCE, FORMS

OK: dict[str, Any] = {"alpha": 0.8, "c": 0.1, "gamma": 4}


@pytest.mark.parametrize(
    ("said", "alpha"),
    [
        ({"alpha": 0.6}, 0.6),
        ({"tokens_per_step": 2.176, "measured_gamma": 3}, 0.6),
        ({"accepted_per_step": 1.176, "measured_gamma": 3}, 0.6),
        ({"accepted_share": 0.392, "measured_gamma": 3}, 0.6),
    ],
)
def test_forms_of_one_number_say_the_same(said: dict[str, Any], alpha: float) -> None:
    """α=0.6, γ=3: τ = 1 + 0.6 + 0.36 + 0.216 = 2.176; accepted 1.176; share 1.176/3 = 0.392."""
    s = Scenario(c=0.1, gamma=5, **said)
    assert s.acceptance_form in said
    assert s.accepts.acceptance(s).survival(1)[1] == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize(
    "said",
    [
        {"rates": (0.6, 0.36, 0.216)},
        {"rates": "0.6, 0.36, 0.216"},
        {"rates": "60%, 36%, 21.6%"},
        {"rates": "INFO Per-position acceptance rate: 0.6, 0.36, 0.216, Avg 0.4"},
        {"rates": "0.6,0.6,0.6", "acceptance_form": "conditional"},
        {"mixture": "1:0.6"},
        {"mixture": "0.25:0.6, 0.75:0.6"},
        {"mixture": ((2, 0.6),)},
    ],
)
def test_lists_may_be_numbers_or_text(said: dict[str, Any]) -> None:
    s = Scenario(c=0.1, gamma=3, **said)
    assert s.accepts.acceptance(s).tokens_per_step(3) == pytest.approx(2.176, rel=1e-9)


def test_two_times_make_c() -> None:
    assert EXAMPLE.draft_form == "times"
    assert resolve(EXAMPLE).speculation.cost.c == pytest.approx(0.2)


def test_what_was_measured_stays_measured_when_gamma_moves() -> None:
    s = Scenario(accepted_per_step=3, gamma=4, c=0.1)
    assert s.measured_gamma == 4
    with pytest.raises(ValidationError, match="measured_gamma"):
        Scenario(accepted_per_step=3, gamma=0, c=0.1)


def test_not_knowing_the_cost_is_a_cited_range() -> None:
    known = OK.copy()
    del known["c"]
    s = Scenario(draft_form="range", **known)
    cited = FORMS["draft_form"]["range"].cited
    assert {name: getattr(s, name) for name in cited} == cited


def test_a_range_leaves_other_unknowns_unknown() -> None:
    unknown = dict.fromkeys(n for n, spec in SPECS.items() if spec.unknown)
    s = Scenario(acceptance_form="range", draft_form="range", **unknown)
    assert all(getattr(s, name) is None for name in unknown)
    # "unknown" is what a file or a link says instead of nothing.
    as_words = dict.fromkeys(unknown, "unknown")
    assert Scenario(acceptance_form="range", draft_form="range", **as_words) == s


def test_one_end_of_a_range_may_be_given() -> None:
    """The other is that of what others measured; never below it."""
    every = band(None, None)
    assert every is not None
    for typed, ends in (
        ({"alpha_low": 0.2}, (0.2, every.high)),
        ({"alpha_high": 0.7}, (every.low, 0.7)),
        ({"alpha_low": 0.99}, (0.99, 0.99)),
        ({"alpha_high": 0.1}, (0.1, 0.1)),
    ):
        s = Scenario(acceptance_form="range", c=0.1, gamma=4, **typed)
        low, middle, high = ACCEPTANCE["range"].ends(s)
        assert (low, high) == ends
        assert middle == pytest.approx((low + high) / 2)


def test_every_field_has_a_definition_a_person_can_read() -> None:
    assert set(SPECS) == set(Scenario.model_fields)
    for name, spec in SPECS.items():
        assert spec.label, name
        assert spec.help, name
        assert spec.bounds, name
        default = Scenario.model_fields[name].default
        if spec.low is not None and isinstance(default, int | float):
            assert spec.low <= default <= spec.high, name
    used = {f for forms in FORMS.values() for form in forms.values() for f in form.fields}
    assert used <= set(SPECS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 1.2}, ["alpha", "1.2", ">= 0", "<= 1"]),
        ({"alpha": -0.1}, ["alpha", "-0.1", ">= 0"]),
        ({"alpha": math.nan}, ["alpha", "nan", ">= 0"]),
        ({"alpha": "high"}, ["alpha", "high", "<= 1"]),
        ({"alpha": True}, ["alpha", "True", "<= 1"]),
        ({"alpha": None}, ["alpha", ">= 0", "nothing"]),
        ({"gamma": -1}, ["gamma", "-1", "whole number >= 0"]),
        ({"gamma": 2.5}, ["gamma", "2.5", "whole number"]),
        ({"gamma": 10**9}, ["gamma", "1000000000", "<= 1000"]),
        ({"gamma": True}, ["gamma", "True", "whole number"]),
        ({"gamma": math.inf}, ["gamma", "inf", "whole number"]),
        ({"c": -0.01}, ["c must", "-0.01", ">= 0"]),
        ({"c": math.inf}, ["c must", "inf", "<= 100"]),
        ({"sigma": -0.6}, ["sigma", "-0.6", ">= -0.5"]),
        ({"usd_per_hour": "free"}, ["usd_per_hour", "free", ">= 0"]),
        ({"label": "two\nlines"}, ["label", "two\\nlines", "one line"]),
        ({"label": 5}, ["label", "5", "text"]),
        ({"label": "x" * 81}, ["label", "at most 80 characters"]),
        ({"alhpa": 0.5}, ["alhpa", "alpha"]),
        ({"acceptance_form": "guess"}, ["acceptance_form", "guess", "tokens_per_step"]),
        ({"tokens_per_step": 3}, ["ambiguous", "alpha", "tokens_per_step"]),
        ({"acceptance_form": "alpha", "rates": (0.5,)}, ["alpha", "rates"]),
        ({"target_ms": 40, "draft_ms": 8}, ["ambiguous", "times", "ratio"]),
        ({"verify_costs": (1.5, 0.0, 1, 1)}, ["verify_costs", "0.0", "> 0", "<= 10000"]),
        ({"verify_costs": (1.5, math.nan, 1, 1)}, ["verify_costs", "nan", "> 0"]),
        ({"verify_costs": "1,05;1,1;1,2;1,3"}, ["verify_costs", "semicolons", "1,05"]),
        ({"verify_costs": "1.05,,1.2,1.5,1.6"}, ["verify_costs", "between any two commas"]),
        ({"verify_costs": ["x", 1, 1, 1]}, ["verify_costs", "entry 1", "> 0", "x"]),
        ({"alpha": 80}, ["alpha", "<= 1", "80% is 0.8"]),
        ({"alpha": "80%"}, ["alpha", "<= 1", "80% is 0.8"]),
        ({"verify_costs": "1.5, x"}, ["verify_costs", "1.5, x", "numbers"]),
        ({"verify_costs": (1.5,) * 257}, ["verify_costs", "at most 256"]),
        ({"verify_costs": (1.5, 1.6, 1.7)}, ["gamma", "<= 3", "verify_costs", "got 4"]),
        ({"verify_form": "curve"}, ["verify_costs", "nothing"]),
        ({"verify_costs": (1.5,) * 4, "sigma": 0.1}, ["ambiguous", "slope", "curve"]),
        ({"verify_costs": (1.5,) * 4, "sigma": "unknown"}, ["curve", "sigma"]),
        ({"verify_costs": (1.5,) * 4, "verify_form": "slope"}, ["slope", "verify_costs"]),
    ],
)
def test_a_fault_names_field_value_and_bounds(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        build(OK | changes)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rates": (0.5, 0.6)}, ["position 2", "0.6", "0.5"]),
        ({"rates": (0.5, 1.2)}, ["position 2", "1.2", "<= 1"]),
        ({"rates": (0.9, math.nan)}, ["position 2", "nan"]),
        ({"rates": ()}, ["alpha"]),
        ({"rates": (), "acceptance_form": "survival"}, ["rates", "nothing"]),
        ({"rates": "GET /metrics 200"}, ["rates must be numbers", "GET /metrics"]),
        ({"rates": "0.5, 0.6"}, ["position 2", "0.6", "0.5"]),
        ({"rates": [0.5, "x"]}, ["rates", "entry 2", "x"]),
        ({"rates": (0.5,) * 257}, ["rates", "at most 256"]),
        ({"rates": "0.5, x", "acceptance_form": "conditional"}, ["rates", "0.5, x"]),
        ({"mixture": "0.5"}, ["mixture", "share:alpha", "0.5"]),
        ({"mixture": ((0.5,),)}, ["mixture", "entry 1", "share"]),
        ({"mixture": ((0.5, 1.5),)}, ["alpha", "1.5", "<= 1"]),
        ({"mixture": ((-1, 0.5),)}, ["weights", "-1"]),
        ({"mixture": ((0, 0.5),)}, ["weights", "0"]),
        ({"tokens_per_step": 5.1, "measured_gamma": 4}, ["tokens_per_step", "5.1", "<= 5"]),
        ({"tokens_per_step": 0.9, "measured_gamma": 4}, ["tokens_per_step", "0.9", ">= 1"]),
        ({"accepted_per_step": 4.1, "measured_gamma": 4}, ["accepted_per_step", "4.1", "<= 4"]),
        ({"accepted_share": 1.1, "measured_gamma": 4}, ["accepted_share", "1.1", "<= 1"]),
        ({"accepted_share": 0.5, "measured_gamma": 0}, ["measured_gamma", "0", ">= 1"]),
        ({"alpha_low": 0.7, "alpha_high": 0.6}, ["alpha_low", "0.7", "0.6"]),
        ({"workload": "poetry"}, ["workload", "poetry", "creative"]),
        ({}, ["alpha", "nothing"]),
    ],
)
def test_a_fault_of_the_acceptance_is_named(said: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        build({"c": 0.1, "gamma": 4} | said)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(InputError, match=r"alpha must .*; gamma must .*; c must") as error:
        build({"alpha": 2, "gamma": -1, "c": -1})
    assert "pydantic" not in str(error.value)


@pytest.mark.parametrize("gamma", [-4, 2.5, 5000, float("nan"), "many"])
def test_a_refused_gamma_is_told_once_though_the_measured_one_is_taken_from_it(gamma: Any) -> None:
    with pytest.raises(InputError, match="gamma must") as error:
        build({"tokens_per_step": 3, "gamma": gamma, "c": 0.1})
    assert "measured_gamma" not in str(error.value)


def test_a_record_does_not_change() -> None:
    with pytest.raises(ValidationError):
        EXAMPLE.gamma = 5  # type: ignore[misc]


@given(scenarios())
@settings(max_examples=100)
def test_a_copy_from_its_own_values_is_equal(scenario: Scenario) -> None:
    assert Scenario(**scenario.model_dump()) == scenario
