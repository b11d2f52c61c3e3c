"""Survival as the design defines it: within [0, 1] and never rising."""

from __future__ import annotations

from specmath.logs.errors import LogError

__all__ = ["RATE_LIST", "check_survival", "parse_rates"]

# A printed list of fractions: "0.812, 0.562, 0.337", whole or not at all.
RATE_LIST = r"\d\.\d{1,9}(?:, \d\.\d{1,9}){0,255}(?![\d.]|, \d)"


def parse_rates(text: str) -> tuple[float, ...]:
    """The survival that a text matching RATE_LIST prints; LogError where it rises or exceeds 1."""
    return check_survival(tuple(float(rate) for rate in text.split(", ")))


def check_survival(rates: tuple[float, ...], unit: float = 1.0) -> tuple[float, ...]:
    """`rates` if each is in [0, 1] and none exceeds the one before it; else LogError.

    s_i = P(the first i drafted tokens are accepted), so s_i <= s_{i-1} always. `unit` is what the
    values were divided by (100 for percentages): the message shows them as they were written.
    """
    before = 1.0
    for position, rate in enumerate(rates, start=1):
        if not 0.0 <= rate <= before:
            raise LogError(_complaint(position, rate, before, unit))
        before = rate
    return rates


def _complaint(position: int, rate: float, before: float, unit: float) -> str:
    shown = _as_written(rate, unit)
    if not 0.0 <= rate <= 1.0:
        return (
            f"acceptance rate at position {position} is {shown}: it must be >= 0 and "
            f"<= {_as_written(1.0, unit)}"
        )
    return (
        f"acceptance rate at position {position} is {shown}, above {_as_written(before, unit)} at "
        f"position {position - 1}: per-position rates count steps in which all earlier tokens were "
        "accepted too, so they cannot rise (conditional rates can: multiply them up first)"
    )


def _as_written(rate: float, unit: float) -> str:
    return f"{rate * unit:.6g}{'%' if unit == 100.0 else ''}"
