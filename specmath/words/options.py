"""Which draft, in words: the best with its interval, what nothing tells apart from it, what to
measure; and of each whether there is one for this target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specmath.numbers import count, faster, ratio, significant
from specmath.options import Option, Options
from specmath.predict import Prediction
from specmath.vocabularies import Mismatch
from specmath.words.notes import known_biases, notes

__all__ = [
    "Choice", "choice_of", "evidence_words", "named_words", "options_notes", "target_words",
]  # fmt: skip

MOST_NAMED = 3
"""Of those that nothing tells apart from the best: the rest is counted."""


@dataclass(frozen=True)
class Choice:
    """The answer: a headline, what stands against it, and what would settle it."""

    headline: str
    reason: str
    firm: bool
    """Whether the low end of its interval pays."""

    def sentence(self) -> str:
        """All of it, as one paragraph."""
        return f"{self.headline} {self.reason}"


def choice_of(found: Options) -> Choice:
    """The best draft of a target, those that the numbers do not tell from it, what to measure."""
    best, trained = found.best, found.if_trained
    maybe = "" if trained is None else (
        f"{named_words(trained)}, if one exists for your model, would reach {_reached(trained)}."
    )  # fmt: skip
    if best is None:
        known = any(row.known and row.runs for row in found.rows)
        why = "at your load none of those whose acceptance is known beats plain decoding"
        if not known:
            why = "nobody measured the acceptance of a draft that you can have"
        measure = "Measure the acceptance of one on your text before you switch it on."
        said = f"{maybe} {measure}".strip()
        return Choice(f"No draft is known to pay: {why}.", said, firm=False)
    reasons = [_near(found.near), maybe, _to_measure(best, found.near)]
    low, high = best.ends
    span = "" if low == high else f" ({ratio(low)} to {ratio(high)})"
    headline = f"{named_words(best)}: {faster(best.speedup.value)} at γ={best.best_gamma}{span}."
    return Choice(headline, " ".join(filter(None, reasons)), firm=low > 1)


def named_words(row: Option) -> str:
    """Its label, and that it is the reader's own."""
    return f"{row.label} (yours)" if row.yours else row.label


def _near(near: tuple[Option, ...]) -> str:
    if not near:
        return ""
    told = [f"{named_words(row)} {ratio(row.speedup.value)}" for row in near[:MOST_NAMED]]
    if more := len(near) - MOST_NAMED:
        told += [f"{more} more"] if more > 0 else []
    return f"Not told apart from it: {', '.join(told)}."


def _to_measure(best: Option, near: tuple[Option, ...]) -> str:
    """What would settle it."""
    first = " before you switch it on" if best.ends[0] <= 1 else ""
    if near:
        return f"Measure the acceptance of each on your text{first}: that ranks them."
    if best.endpoint.band is None:
        return ""
    return f"Measure its acceptance on your text{first}: the range is other people's."


def _reached(row: Option) -> str:
    low, high = row.ends
    span = "" if low == high else f" ({ratio(low)} to {ratio(high)})"
    return f"{ratio(row.speedup.value)}{span}"


# ── of each ──────────────────────────────────────────────────────────────────────────────────


def target_words(row: Option) -> str:
    """Whether there is one for this target, and what the engine makes of it."""
    found = [_vocabulary(row), row.refused, "" if row.smaller else "not smaller than the target"]
    return "; ".join(filter(None, (_origin(row), *found)))


def _origin(row: Option) -> str:
    drafter, target = row.pair.drafter, row.pair.target
    if row.named:
        return "named by you"
    if drafter.origin == "model":
        own = drafter.own_model
        return "of its family" if own and own.tokenizer == target.tokenizer != "" else ""
    return {
        "lookup": "nothing to fetch",
        "module": f"comes with {target.name}" if drafter.suits(target) else f"not of {target.name}",
        "trained": _seen(row),
    }[drafter.origin]


def _seen(row: Option) -> str:
    if not row.seen:
        return "none in the record" if row.yours else "if one was trained for it"
    sources = {each.reporter for each in row.seen}
    alphas = [each.alpha for each in row.seen if each.alpha is not None and each.for_ranges]
    told = f"{count(len(sources), 'source')} measured one on it"
    if not alphas:
        return told
    return f"{told}, α {significant(min(alphas), 2)} to {significant(max(alphas), 2)}"


_DOES = {
    "refuses": "{} refuses it",
    "translates": "{} translates",
    "goes on": "{} does not notice",
    "unknown": "what {} does is not known",
}


def _vocabulary(row: Option) -> str:
    differs = row.vocabulary
    if differs is None:
        return ""
    if differs.difference == "unsure":
        return "whether its tokens are the target's is not known"
    does = _DOES[differs.does].format(differs.engine.partition(" ")[0] or "this engine")
    return f"{_differs(differs)}: {does}"


def _differs(differs: Mismatch) -> str:
    own, target = differs.draft.vocab, differs.target.vocab
    sizes = "" if own == target else f"{own:,} tokens for {target:,}"
    if differs.difference == "sizes":
        return sizes
    return f"another tokenizer ({sizes})" if sizes else "another tokenizer of the same size"


def evidence_words(row: Option) -> str:
    """Where the acceptance of a draft is from."""
    found = row.endpoint.band
    if not row.known:
        return "nobody"
    if found is None:
        return "you"
    own = f" on {found.target}" if found.target else ""
    return f"{count(found.pairs, 'pair')}{own}, {count(len(found.sources), 'source')}"


# ── notes ────────────────────────────────────────────────────────────────────────────────────


def options_notes(prediction: Prediction, found: Options) -> tuple[str, ...]:
    """What the record does not tell apart, what was left out, the known biases of every draft in
    the table, and the notes of the prediction."""
    biases = [note for row in found.rows for note in known_biases(row.pair)]
    each = (*_shared(found), *_engine_said(found), *_left_out(found), *biases, *notes(prediction))
    return tuple(dict.fromkeys(each))


def _shared(found: Options) -> Iterable[str]:
    """Drafts with one range of α, which only their cost ranks."""
    groups: dict[tuple[str, float, float], list[Option]] = {}
    for row in found.rows:
        band = row.endpoint.band
        if row.known and band is not None:
            groups.setdefault((band.kind, band.low, band.high), []).append(row)
    for (_, low, high), rows in groups.items():
        if len(rows) > 1:
            yield (
                f"{', '.join(map(named_words, rows))}: one range of α ({significant(low, 2)} to "
                f"{significant(high, 2)}), not told apart by what others measured; only their cost "
                "ranks them, and a larger draft is accepted more often."
            )
    for row in found.rows:
        if " or " in row.label:
            yield f"{row.label}: one range of α, not told apart; their steps cost nearly the same."


def _engine_said(found: Options) -> Iterable[str]:
    """What the engine does with another vocabulary, and where that was read."""
    for row in found.rows:
        differs = row.vocabulary
        if differs is not None and differs.said:
            what = (
                "another tokenizer" if differs.difference == "tokens" else "a table of other size"
            )
            yield f"A draft with {what}: {differs.engine} {differs.said} [{differs.source}]."


def _left_out(found: Options) -> Iterable[str]:
    if found.left_out:
        told = "; ".join(reason for _, reason in found.left_out)
        yield f"Left out: {told}."
