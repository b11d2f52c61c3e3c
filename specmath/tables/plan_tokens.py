"""What a segment accepts, as a file of a plan has it: α for typing where it is one rate, else τ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specmath.acceptance import FallingAcceptance, IidAcceptance
from specmath.checks import InputError
from specmath.plan.decided import SegmentAnswer
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import revised
from specmath.scenario.forms import Recorded
from specmath.speculation import Speculation
from specmath.tables.inputs import acceptance_from
from specmath.tables.live_acceptance import LONGEST_SUM
from specmath.tables.table import Basis
from specmath.words.plan import acceptance_words

__all__ = ["Accepted", "accepted"]

PROBES = (0.35, 0.8)
"""α at which the formula must be what the package says of a segment with that α."""

HALVINGS = 60
"""In search of the α that emits as many tokens."""


@dataclass(frozen=True)
class Accepted:
    """τ of a segment at γ.

    Attributes
    ----------
    tokens
        τ over all steps.
    alpha
        The rate that emits as many, where a segment with one rate is known to emit as the formula
        has it; None where it is no single rate.
    formula
        τ from the cell {alpha}; None as well.
    basis, source
        Where it is from.
    """

    tokens: float
    alpha: float | None
    formula: str | None
    basis: Basis
    source: str


def accepted(segment: SegmentAnswer, s: Scenario, gamma: int) -> Accepted:
    """What a segment accepts at γ ≥ 1, and where that is from; `s`: its scenario in the plan."""
    tokens = float(segment.prediction.speculation.tokens(gamma))
    basis, source = _from(segment)
    alpha, formula = _one_rate(s, gamma, tokens) or (None, None)
    return Accepted(tokens, alpha, formula, basis, source)


def _from(segment: SegmentAnswer) -> tuple[Basis, str]:
    p = segment.prediction
    form, words = p.scenario.accepts, acceptance_words(p)
    if not isinstance(form, Recorded):
        basis, _ = acceptance_from(p.scenario)
        return basis, words
    band = form.band(p.scenario)
    if band is None or p.scenario.alpha_low is not None or p.scenario.alpha_high is not None:
        return "assumed", words
    return "published", f"{words}: {band.cited}"


def _one_rate(s: Scenario, gamma: int, tokens: float) -> tuple[float, str] | None:
    """The α of as many tokens and its formula, where the package has the same."""
    if gamma > LONGEST_SUM or not isinstance(s.accepts.acceptance(s), IidAcceptance):
        return None
    found: Speculation | None = None
    for alpha in PROBES:
        try:
            found = resolve(revised(s, {"alpha": alpha})).speculation
        except InputError:
            return None
        drafted = found.drafted
        if not isinstance(drafted, IidAcceptance | FallingAcceptance):
            return None
        if not np.isclose(_tokens(found, gamma, alpha), found.tokens(gamma), rtol=1e-12):
            return None
    assert found is not None
    low, high = 0.0, 1.0
    if not _tokens(found, gamma, low) <= tokens <= _tokens(found, gamma, high) * (1.0 + 1e-12):
        return None
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        fewer = _tokens(found, gamma, middle) < tokens
        low, high = (middle, high) if fewer else (low, middle)
    alpha = 0.5 * (low + high)
    given = s.accepts.acceptance(s)
    assert isinstance(given, IidAcceptance)
    # The very number that was given, not one that rounding makes of it.
    return (given.alpha if abs(given.alpha - alpha) < 1e-9 else alpha), _formula(found, gamma)


def _shares(found: Speculation, gamma: int) -> list[float]:
    """What of α^i is accepted at each position i up to γ."""
    a = found.drafted
    if not isinstance(a, FallingAcceptance):
        return [1.0] * gamma
    past = [max(0, i - a.depth) for i in range(1, gamma + 1)]
    return [float(each) for each in np.cumprod([(1.0 - a.fall) ** each for each in past])]


def _tokens(found: Speculation, gamma: int, alpha: float) -> float:
    shares = _shares(found, gamma)
    drafted = 1.0 + sum(share * alpha**i for i, share in enumerate(shares, start=1))
    return 1.0 + found.coverage * (drafted - 1.0)


def _formula(found: Speculation, gamma: int) -> str:
    # At α=0 no term is 0⁰.
    terms = [
        f"{{alpha}}^{i}" + (f"*{share!r}" if share != 1.0 else "")
        for i, share in enumerate(_shares(found, gamma), start=1)
    ]
    whole = "+".join(terms)
    return f"1+{whole}" if found.coverage == 1.0 else f"1+{found.coverage!r}*({whole})"
