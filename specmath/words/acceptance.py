"""Acceptance that others measured, in words: where a range is from, and where it does not hold."""

from __future__ import annotations

from specmath.acceptance_record import Band
from specmath.numbers import count, significant
from specmath.predict import Prediction
from specmath.scenario import SPECS
from specmath.scenario.forms import Recorded

__all__ = [
    "KIND_WORDS", "band_sentence", "band_words", "kind_words", "not_known_words",
    "range_not_narrowed", "range_notes", "work_words",
]  # fmt: skip

KIND_WORDS = {
    "eagle3": "EAGLE-3 heads",
    "mtp": "MTP modules",
    "block": "block heads (DFlash, DSpark, P-EAGLE)",
    "draft_model": "draft models",
    "ngram": "n-gram lookup",
    "suffix": "suffix decoding",
    "eagle": "EAGLE heads",
    "medusa": "Medusa heads",
}
"""Kinds of drafters, as the record has them."""

TRAINED = ("eagle3", "eagle", "mtp", "block")
"""Kinds that are trained for one target, at some length and some temperature."""


def kind_words(kind: str) -> str:
    """A kind of drafter; "" is all of them."""
    return KIND_WORDS.get(kind, kind) if kind else "every kind of draft"


def work_words(work: str) -> str:
    """A kind of work, or several joined by "+"; "" is all of them."""
    if not work:
        return "every kind of work"
    return " and ".join(SPECS["work"].label_of(one).lower() for one in work.split("+"))


def band_words(band: Band) -> str:
    """What the ends of a band are of."""
    measured = f"{count(band.pairs, 'pair')} of drafter and target that others measured"
    if band.basis == "10-90%":
        return f"the middle 80% of {measured}"
    if band.basis == "min-max":
        return f"least to largest of {measured}"
    if band.target:
        return (
            f"{measured}, and as far past them as other sources found the same pair in 80% of cases"
        )
    return f"{measured}, and as far to each side as two pairs of the record differ in 80% of cases"


def band_sentence(band: Band) -> str:
    """A band with what it is of: ends, pairs, sources, γ and dates."""
    least, most = band.gammas
    drafter = f" ({band.drafter})" if band.drafter else ""
    target = f" on {band.target}" if band.target else ""
    dates = f", {band.dates[0]} to {band.dates[1]}" if band.dates[0] else ""
    return (
        f"{_capital(kind_words(band.kind))}{drafter}{target}, {work_words(band.work)}: α "
        f"{significant(band.low)} to {significant(band.high)}, {band_words(band)} "
        f"({count(len(band.sources), 'source')}, {count(band.rows, 'measurement')} at γ {least} to "
        f"{most}{dates}). Each pair weighs once; the middle is {significant(band.median)}."
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def range_not_narrowed(target: str) -> str:
    """That the band is not of a target alone."""
    return (
        f"The band is of every target: no draft of that name with {target} is in the record, and a "
        "band of one target with whatever head held one pair in four of another source."
    )


def not_known_words(what: str, work: str) -> str:
    """That nobody measured it."""
    return f"Nobody measured the acceptance of {what} at {work_words(work)}: it is not known."


def range_notes(p: Prediction) -> tuple[str, ...]:
    """Where the range of α of a prediction is from, and where it may not hold; empty where the
    acceptance was given."""
    s, found = p.scenario, p.endpoint.band
    if s.accepts.nobodys(s):
        what = p.endpoint.pair.drafter.label if p.endpoint.pair else "this draft"
        known = not_known_words(what, "" if s.work == "unknown" else s.work)
        return (f"{known} α is open from 0 to 1: measure it before anything else.",)
    if found is None:
        return ()
    notes = [band_sentence(found)]
    return (*notes, *_limits(p))


def _limits(p: Prediction) -> list[str]:
    """What context and temperature make of the range."""
    found, s, band = [], p.scenario, p.endpoint.band
    if band is None or not isinstance(s.accepts, Recorded):
        return []
    warm, long = s.accepts.moved(s, band)
    if long.measured:
        found.append(
            f"At {s.context:,} tokens of context the low end is {significant(long.low)} of what "
            "was measured: a head that was trained short fell from 2.29 tokens a step at 2,000 "
            "tokens to 1.08 at 20,000 (speculators pull request 684), others did not fall. Type "
            "your own range where yours was trained at that length."
        )
    if s.temperature:
        pairs = count(warm.measured, "comparison") if warm.measured else "no comparison"
        found.append(
            f"Most that state a temperature are greedy. At {s.temperature:g} the low end is "
            f"{significant(warm.low)} of it and the middle {significant(warm.middle)}, by {pairs} "
            "of this kind at 0 and warmer (the low end below three by every kind); "
            "where the engine samples its draft it falls less."
        )
    return found
