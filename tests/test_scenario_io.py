"""Files, links and rows give back the scenario exactly; what is wrong in them is told."""

from __future__ import annotations

import tomllib
import urllib.parse

import pytest
from helpers.random_scenarios import scenarios
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath.checks import InputError
from specmath.scenario import EXAMPLE, SPECS, Scenario
from specmath.scenario.files import (
    LINK_VERSION,
    from_link,
    from_toml,
    revised,
    to_link,
    to_toml,
)

BASIC_FIELDS = {"alpha": 0.8, "c": 0.1, "gamma": 4}
BASIC = Scenario(**BASIC_FIELDS)


@given(scenarios(hardware=True))
@settings(max_examples=150)
def test_nothing_is_lost_in_a_file_or_a_link(scenario: Scenario) -> None:
    assert from_toml(to_toml(scenario)) == scenario
    link = urllib.parse.urlencode(to_link(scenario))
    assert from_link(dict(urllib.parse.parse_qsl(link, True))) == (scenario, [])


@pytest.mark.parametrize(
    "label", ["=1+1", "+1", "-1", "@SUM(A1)", "'=1", " =1", "unknown", "a,b;c"]
)
def test_labels_that_look_like_something_else_come_back(label: str) -> None:
    scenario = Scenario(label=label, **BASIC_FIELDS)
    assert from_link(to_link(scenario)) == (scenario, [])
    assert from_toml(to_toml(scenario)) == scenario


@pytest.mark.parametrize("price", [2.5, None, 3.0])
def test_a_price_typed_over_that_of_the_gpu_comes_back(price: float | None) -> None:
    """The catalogue assumes another price for this GPU than the field's own default of 2.50."""
    known = {"gpu": "B200 SXM", "model": "Llama-3.1-8B", "draft": "ngram", "alpha": 0.8, "gamma": 4}
    assert Scenario(**known).usd_per_hour != 2.5
    scenario = Scenario(usd_per_hour=price, **known)
    assert from_link(to_link(scenario)) == (scenario, [])
    assert from_toml(to_toml(scenario)) == scenario


# ── links ────────────────────────────────────────────────────────────────────────────────────


def test_a_link_holds_only_what_differs_and_its_version() -> None:
    assert to_link(EXAMPLE).keys() == {
        "v", "acceptance_form", "accepted_per_step", "measured_gamma", "gamma", "draft_form",
        "target_ms", "draft_ms",
    }  # fmt: skip
    assert from_link({}) == (EXAMPLE, [])
    assert to_link(BASIC) == {"v": LINK_VERSION, "alpha": "0.8", "c": "0.1", "gamma": "4"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"alpha": "7"}, "alpha must be a finite number >= 0 and <= 1, got 7"),
        ({"c": "nan"}, "c must be a finite number >= 0 and <= 100, got nan"),
        ({"sigma": "1e999"}, "sigma must be"),
        ({"gamma": "-3"}, "gamma must be a whole number >= 0"),
        ({"nonsense": "1"}, "unknown field nonsense"),
        ({"v": "99"}, "version must be 1, got 99"),
        ({"label": "a\x00b"}, "label must be one line"),
        ({"acceptance_form": "survival", "rates": "hello", "alpha": None}, "hello"),
        ({"acceptance_form": "tokens_per_step", "tokens_per_step": "abc", "alpha": None}, "abc"),
        ({"rates": "0.5,0.6", "alpha": None}, "position 2"),
        ({"alpha_low": "0.9", "alpha_high": "0.1", "alpha": None}, "alpha_low must be"),
        ({"c_low": "0.9", "c_high": "0.1", "c": None}, "c_low must be"),
        ({"tokens_per_step": "3"}, "ambiguous"),
    ],
)
def test_what_is_wrong_in_a_link_is_told_and_the_rest_kept(
    change: dict[str, str | None], word: str
) -> None:
    link = {"alpha": "0.8", "c": "0.35", "gamma": "7", "overhead": "0.25"} | change
    found, notices = from_link({name: value for name, value in link.items() if value is not None})
    assert any(word in notice for notice in notices), notices
    assert found.overhead == 0.25
    assert "gamma" in change or found.gamma == 7
    assert {"c", "c_low"} & change.keys() or found.c == 0.35
    kept = not {"alpha", "tokens_per_step"} & change.keys()
    assert (found.alpha == 0.8) if kept else (found.accepted_per_step == 3)


def test_both_halves_at_fault_still_leave_gamma() -> None:
    found, notices = from_link(
        {"rates": "no", "c_low": "2", "c_high": "1", "gamma": "9", "max_gamma": "12"}
    )
    assert (found.gamma, found.max_gamma) == (9, 12)
    assert (found.accepted_per_step, found.draft_ms) == (3, 8)
    assert notices


@given(
    st.dictionaries(
        st.sampled_from([*SPECS, "v", "evil", "__class__", "self"]), st.text(max_size=40)
    )
)
@settings(max_examples=200)
def test_no_link_breaks_the_page(link: dict[str, str]) -> None:
    found, notices = from_link(link)
    assert isinstance(found, Scenario)
    assert all(isinstance(notice, str) and len(notice) < 2000 for notice in notices)


def test_a_link_says_which_half_is_the_examples() -> None:
    found, notices = from_link({"alpha": "0.7", "gamma": "3"})
    assert (found.alpha, found.target_ms, found.draft_ms) == (0.7, 40, 8)
    assert notices == ["no draft cost could be read from the link: the example's is used"]


# ── revised ──────────────────────────────────────────────────────────────────────────────────


def test_a_new_form_replaces_the_half_and_leaves_the_other() -> None:
    found = revised(EXAMPLE, {"alpha": 0.6, "gamma": 2})
    assert (found.alpha, found.accepted_per_step, found.measured_gamma) == (0.6, None, None)
    assert (found.target_ms, found.draft_ms, found.gamma) == (40, 8, 2)
    found = revised(EXAMPLE, {"c": 0.1})
    assert (found.c, found.draft_ms, found.target_ms) == (0.1, None, 40)
    assert found.accepted_per_step == 3


def test_one_field_of_the_form_in_use_keeps_the_others() -> None:
    known = Scenario(alpha_low=0.3, alpha_high=0.6, c=0.1, gamma=4)
    assert revised(known, {"alpha_low": 0.4}).alpha_high == 0.6
    assert revised(EXAMPLE, {"measured_gamma": 5}).accepted_per_step == 3
    conditional = Scenario(acceptance_form="conditional", rates=(0.5, 0.6), c=0.1, gamma=2)
    assert revised(conditional, {"rates": (0.5, 0.9)}).acceptance_form == "conditional"
    assert revised(EXAMPLE, {"target_ms": 20}).draft_ms == 8


def test_a_new_measurement_is_taken_at_the_gamma_in_use() -> None:
    found = revised(EXAMPLE, {"accepted_per_step": 1.5, "gamma": 2})
    assert (found.measured_gamma, found.gamma) == (2, 2)
    assert revised(EXAMPLE, {"gamma": 2}).measured_gamma == 4


# ── files ────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_toml_that_a_person_can_read() -> None:
    data = tomllib.loads(to_toml(Scenario(alpha=0.8, c=0.1, gamma=4, sigma=None)))
    assert data["specmath"] == LINK_VERSION
    assert data["scenario"]["alpha"] == 0.8
    assert data["scenario"]["sigma"] == "unknown"


HEAD = "[scenario]\nalpha = 0.8\nc = 0.1\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[scenario\n", ["TOML", "line 1"]),
        ("", ["[scenario]"]),
        ("scenario = 3", ["[scenario]"]),
        (HEAD + "gamma = 4\nalhpa = 1", ["alhpa", "alpha"]),
        ("speed = 1\n" + HEAD, ["speed", "[scenario]"]),
        ('specmath = "99"\n' + HEAD, ["specmath", "99"]),
        (HEAD + "gamma = 4.5", ["gamma", "4.5", "whole"]),
        (HEAD + "gamma = true", ["gamma", "True", "whole"]),
        (HEAD + "gamma = nan", ["gamma", "nan"]),
        (HEAD + "gamma = 1979-05-27", ["gamma", "1979"]),
        (HEAD + "gamma = {a = 1}", ["gamma", "whole"]),
        ("[scenario]\nc = 0.1\n", ["alpha", "nothing"]),
        (HEAD + "gamma = 0x" + "f" * 10_000, ["gamma", "whole"]),
        (HEAD + "gamma = " + "9" * 10_000, ["TOML"]),
        ("x = " + "[" * 100_000, ["nested too deeply"]),
        ("#" * 1_000_001, ["1000000 characters", "1000001"]),
        ("[scenario]\nc = 0.1\ngamma = 4\nrates = 0.5", ["rates", "0.5"]),
    ],
)
def test_a_file_that_is_none_is_told(text: str, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        from_toml(text)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"verify_costs": "1.1,1.2"}, "gamma must be <= 2"),
        ({"verify_costs": "abc"}, "verify_costs"),
        ({"verify_costs": "1.1,1.2,1.3,1.4", "sigma": "0.1"}, "ambiguous"),
    ],
)
def test_a_wrong_verification_leaves_the_rest_of_a_link(given: dict[str, str], word: str) -> None:
    scenario, notices = from_link({"alpha": "0.7", "c": "0.05", "gamma": "4", **given})
    assert scenario == Scenario(alpha=0.7, c=0.05, gamma=4)
    assert any(word in notice for notice in notices)
