"""How many requests show a change: Welch's test of two means, on their ratio.

    n = (z₁₋ₐ⸝₂ + z_p)² (v₀² + v₁²) / ln² r          v = standard deviation / mean of a request

of the logarithms of two means of n requests each, whose errors are v/√n; then raised until the
test with a t instead of a z has the power (Welch 1947; Cohen 1988, chapter 2). With one spread of 0
it is the test of one mean against a fixed number.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

from specmath.checks import real, whole

__all__ = ["FEWEST", "MANY", "power_of", "quantile_requests", "requests_needed"]

FEWEST = 2
"""Requests below which nothing tells a spread."""

MANY = 10_000
"""Requests from which a t is a z."""

LEAST = 1e-9
"""A change, or a spread, below which there is none."""

_NODES, _PARTS = np.polynomial.legendre.leggauss(128)
_QUANTILES, _WEIGHTS = (_NODES + 1.0) / 2.0, _PARTS / 2.0


def power_of(
    requests: int, ratio: float, before: float, after: float, significance: float = 0.05
) -> float:
    """The chance that means of so many requests in each arm differ significantly.

    Parameters
    ----------
    requests
        n of each arm, whole, ≥ 2.
    ratio
        The true mean before over the one after, > 0.
    before, after
        v of either arm, ≥ 0, not both below 1e-9.
    significance
        Two-sided, > 0 and ≤ 0.5.

    Returns
    -------
    float
        Of a noncentral t with Welch's degrees of freedom.

    Raises
    ------
    InputError
        A value outside its range.

    Examples
    --------
    >>> round(power_of(64, math.exp(0.5), 1.0, 1.0), 3)  # Cohen 1988: d = 0.5
    0.801
    """
    n = int(whole("requests", requests, FEWEST))
    effect = abs(math.log(float(real("ratio", ratio, 0, low_open=True))))
    total, fourth = _spreads(before, after)
    free = (n - 1) * total * total / fourth
    limit = float(stdtrit(free, 1.0 - float(_significance(significance)) / 2))
    # T = (Z + away) / S with S² = χ²/free: over the quantiles of S it is normal.
    spread = limit * np.sqrt(2.0 / free * gammaincinv(free / 2.0, _QUANTILES))
    away = effect * math.sqrt(n / total)
    return float(_WEIGHTS @ (ndtr(away - spread) + ndtr(-away - spread)))


def requests_needed(
    ratio: float, before: float, after: float, *, power: float = 0.8, significance: float = 0.05
) -> int | None:
    """Requests in each arm whose means show a ratio; None where there is no change to show.

    Parameters
    ----------
    ratio
        The mean before over the one after, > 0; as many show r as 1/r.
    before, after
        v of either arm, ≥ 0: of a request's number, standard deviation over mean.
    power
        The chance to see it, ≥ 0.5 and < 1.
    significance
        The chance to see what is not there, two-sided, > 0 and ≤ 0.5.

    Returns
    -------
    int | None
        At least 2, which is also what two arms without any spread need.

    Raises
    ------
    InputError
        A value outside its range.

    Examples
    --------
    >>> requests_needed(2.0, 0.3, 0.3), requests_needed(1.02, 0.3, 0.3)
    (5, 3604)
    >>> requests_needed(1.0, 0.3, 0.3) is None
    True
    """
    effect = abs(math.log(float(real("ratio", ratio, 0, low_open=True))))
    wanted = float(real("power", power, 0.5, 0.9999))
    level = float(_significance(significance))
    spreads = [float(real(name, v, 0)) for name, v in (("before", before), ("after", after))]
    if effect < LEAST:
        return None
    if max(spreads) < LEAST:
        return FEWEST
    reach = float(ndtri(1.0 - level / 2) + ndtri(wanted))
    n = max(FEWEST, math.ceil(reach * reach * _spreads(*spreads)[0] / effect**2))
    while n < MANY and power_of(n, ratio, before, after, level) < wanted:
        n += 1
    return n


def quantile_requests(level: float, significance: float = 0.05) -> int:
    """Requests from which a quantile has an interval with an upper end: fewer may all be faster.

    The largest of n is above the quantile with chance 1 − levelⁿ, whatever the distribution (David
    and Nagaraja 2003, Section 7.1).

    Parameters
    ----------
    level
        Of the quantile, > 0 and ≤ 0.9999.
    significance
        Of the interval, two-sided.

    Examples
    --------
    >>> quantile_requests(0.5, 0.0625), quantile_requests(0.99)
    (5, 368)
    """
    below = float(real("level", level, 0, 0.9999, low_open=True))
    return math.ceil(math.log(float(_significance(significance)) / 2) / math.log(below) - 1e-9)


def _significance(value: float) -> float:
    return float(real("significance", value, 0, 0.5, low_open=True))


def _spreads(before: float, after: float) -> tuple[float, float]:
    """v₀² + v₁² and v₀⁴ + v₁⁴."""
    first, last = (float(real(name, v, 0)) ** 2
                   for name, v in (("before", before), ("after", after)))  # fmt: skip
    total = float(real("spread", first + last, LEAST * LEAST))
    return total, first * first + last * last
