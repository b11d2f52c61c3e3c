"""How numbers are written: rounding that stays true, signs, and what is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath.estimate import Estimate
from specmath.numbers import change, changed, count, faster, ms, ratio, significant, usd


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2.2222, "2.22"),
        (9.96, "9.96"),
        (9.996, "10.0"),
        (99.6, "99.6"),
        (999.6, "1,000"),
        (12345.6, "12,346"),
        (0.336, "0.336"),
        (0.02, "0.020"),
        (0.99996, "1.00"),
        (0.0084, "0.0084"),
        (0.0004, "0.0004"),
        (1e-9, "1e-09"),
        (-0.0296, "-0.030"),
        (0, "0"),
        (None, "unknown"),
    ],
)
def test_three_digits(value: float | None, shown: str) -> None:
    assert significant(value) == shown


@given(st.floats(1e-6, 1e6))
def test_what_is_shown_is_within_half_a_percent_or_half_a_thousandth(value: float) -> None:
    shown = float(significant(value).replace(",", ""))
    assert abs(shown - value) <= max(0.0051 * value, 0.00051)
    assert shown > 0, "a small number is not shown as nothing"


@pytest.mark.parametrize(
    ("speedup", "shown"),
    [
        (160 / 72, "2.22× faster"),
        (60 / 72, "17% slower"),
        (1.0, "no change"),
        (1.0004, "no change"),
        (1.003, "0.3% faster"),
        (1.02, "1.02× faster"),
        (0.996, "0.4% slower"),
        (0.5, "50% slower"),
    ],
)
def test_faster_and_slower(speedup: float, shown: str) -> None:
    assert faster(speedup) == shown


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [
        (18, 40, "−55%"),
        (48, 40, "+20%"),
        (40, 40, "±0%"),
        (40.2, 40, "+0.5%"),
        (None, 40, "unknown"),
        (40, None, "unknown"),
        (1, 0, "unknown"),
    ],
)
def test_change(now: float | None, before: float | None, shown: str) -> None:
    assert change(now, before) == shown


def test_units() -> None:
    assert ms(0.018) == "18.0 ms"
    assert usd(12.5) == "$12.5"
    assert usd(14_379_540) == "$14,400,000"
    assert ratio(2.5) == "2.50×"
    assert (count(1, "token"), count(1200, "token")) == ("1 token", "1,200 tokens")
    assert ms(None) == usd(None) == ratio(None) == "unknown"


def test_a_change_cancels_what_both_numbers_share() -> None:
    """Both open by the same factor, one half of the other: half, whatever the factor."""
    plain = Estimate.between(10.0, 8.0, 12.0)
    assert changed(plain.map(lambda x: x / 2), plain) == "−50%"
    assert changed(Estimate.between(5.0, 4.0, 6.0), Estimate(10.0)) == "−60% to −40%"
    assert changed(Estimate(1.0), Estimate(0.0)) == "unknown"
