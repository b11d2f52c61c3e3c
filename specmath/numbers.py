"""How numbers are written where a person reads them; the same on pages, command line and report."""

from __future__ import annotations

from collections.abc import Callable

from specmath.estimate import Estimate

__all__ = [
    "UNKNOWN",
    "change",
    "changed",
    "count",
    "faster",
    "interval",
    "measured_in",
    "ms",
    "ratio",
    "signed_percent",
    "significant",
    "usd",
]

UNKNOWN = "unknown"


def significant(value: float | None, digits: int = 3) -> str:
    """Plain notation with that many significant digits; "unknown" for None."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    if not 1e-2 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    places = max(0, digits - 1 - exponent) if exponent >= 0 else digits
    return f"{value:,.{places}f}"


def ratio(value: float | None) -> str:
    """2.2222 → "2.22×"."""
    return UNKNOWN if value is None else f"{significant(value)}×"


def faster(speedup: float) -> str:
    """2.22 → "2.22× faster"; below 1 → "17% slower"; "no change" within 0.05%.

    Below 1.01 a ratio to two decimals would hide the gain: "0.4% faster".
    """
    if abs(speedup - 1) < 5e-4:
        return "no change"
    if 1 < speedup < 1.01:
        return f"{_percent(speedup - 1)}% faster"
    return f"{ratio(speedup)} faster" if speedup > 1 else f"{_percent(1 - speedup)}% slower"


def change(now: float | None, before: float | None) -> str:
    """Relative change with its sign: "−55%", "+20%"."""
    if now is None or not before:
        return UNKNOWN
    return signed_percent(now / before - 1)


def signed_percent(share: float) -> str:
    """−0.55 → "−55%"; a decimal below 10%."""
    return f"{'+' if share > 0 else '−' if share < 0 else '±'}{_percent(abs(share))}%"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}" if percent >= 9.95 or percent == 0 else f"{percent:.1f}"


def ms(seconds: float | None) -> str:
    """Seconds shown in milliseconds."""
    return UNKNOWN if seconds is None else f"{significant(seconds * 1e3)} ms"


def usd(dollars: float | None) -> str:
    """Dollars; a bill of many millions too is read in full."""
    if dollars is None:
        return UNKNOWN
    if abs(dollars) >= 1e7:
        return f"${float(f'{dollars:.3g}'):,.0f}"
    return f"${significant(dollars)}"


def measured_in(unit: str, number: str) -> str:
    """A written number with its unit: "$27.8", "2.22×", "40.0 ms"."""
    if unit == "USD":
        sign = number[0] if number[0] in "+−" else ""
        return f"{sign}${number.removeprefix(sign)}"
    return f"{number}{'' if unit in ('', '×') else ' '}{unit}"


def count(number: int, noun: str) -> str:
    """1 token, 4 tokens."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def interval(estimate: Estimate | None, show: Callable[[float | None], str]) -> str:
    """An estimate as `show` writes numbers: its ends where it has an interval and they do not read
    alike, else its value."""
    if estimate is None:
        return UNKNOWN
    if estimate.low is None or estimate.high is None:
        return show(estimate.value)
    return " to ".join(dict.fromkeys((show(estimate.low), show(estimate.high))))


def changed(now: Estimate, before: Estimate) -> str:
    """The relative change of one number of an endpoint against another, point by point: what both
    share cancels. "−50% to −42%"; "unknown" against nothing."""
    if not before.value:
        return UNKNOWN
    ratio = now.with_(before, lambda a, b: a / b)
    ends = (ratio.value,) if ratio.low is None else (ratio.low, ratio.high)
    return " to ".join(dict.fromkeys(change(end, 1.0) for end in ends))
