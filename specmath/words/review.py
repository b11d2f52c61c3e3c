"""Two runs in words: what to do, why, and what differs between them besides the change."""

from __future__ import annotations

from collections.abc import Callable

from specmath.estimate import Estimate
from specmath.logs.reading import Reading
from specmath.numbers import change, faster, ratio, significant
from specmath.review.before_after import Decision, Review, ends_of
from specmath.review.comparable import Difference
from specmath.review.observed import throughput_of, tpot_of
from specmath.rollout import Rollout
from specmath.words.causes import cause_words, lanes_words
from specmath.words.logs import load_words
from specmath.words.notes import basis_words
from specmath.words.rollout import expected_words, stopped_words
from specmath.words.said import Said, State

__all__ = ["basis_of", "review_said", "review_warnings"]

DIFFERENT = 0.05
"""A request's ratio and the server's that lie apart by more are both said."""

_STATES: dict[Decision, State] = {
    "keep": "good", "change": "info", "roll back": "bad", "cannot tell": "unknown",
    "not comparable": "unknown",
}  # fmt: skip


def review_said(found: Review) -> Said:
    """The decision, and what speaks for it."""
    because = [lanes_words(found.lanes)] if found.lanes else []
    because += [_differs(each) for each in found.differences if each.bars]
    because += [_total(found), _fell(found)] if found.observed is not None else _unseen(found)
    because += [] if found.plan is None else [stopped_words(found.plan, found.after)]
    because += map(cause_words, found.causes)
    because += [] if found.agrees is None else [_against(found)]
    if found.base.costs.cited and not found.planned and found.predicted is not None:
        because.append(
            "The draft cost is not known: the prediction spans the usual c, "
            f"{found.base.c_low:g} to {found.base.c_high:g}"
        )
    if found.matched is not None:
        low, high = found.matched
        because.append(f"Compared where {low} to {high} requests ran, which both logs hold")
    said = tuple(text for text in because if text)
    return Said("Did it work?", _STATES[found.decision], _headline(found), said)


def _headline(found: Review) -> str:
    ran = found.after.gamma
    if found.decision == "not comparable":
        barred = [each.what for each in found.differences if each.bars]
        what = ", ".join(barred)
        if barred == ["speculation"]:
            return f"Not comparable: {_UNTOLD[True]}."
        return f"Not comparable: {what} differs, so nothing follows about speculation."
    if found.lanes:
        return "Cannot tell: the servers of one side disagree. Mend or leave out the odd one first."
    if found.observed is None:
        return "Cannot tell: the runs tell no time per token and no throughput to compare."
    value = found.observed.value
    if found.decision == "cannot tell":
        low, high = ends_of(found.observed)
        if found.plan is not None and _open_plain(found.plan):
            return (
                f"Cannot tell: {ratio(low)} to {ratio(high)} against what plain decoding was "
                "expected to take. Run it, and give that run as BEFORE."
            )
        return f"Run longer: {ratio(low)} to {ratio(high)} is no difference that can be seen."
    if found.decision == "change" and found.gain is not None:
        then = faster(found.gain * value)
        return (
            f"Change γ to {found.gamma}: γ={ran} is {faster(value)} than before, "
            f"γ={found.gamma} should be {then}."
        )
    if found.decision == "roll back":
        if found.before.speculates and found.before.gamma == ran:
            slower = f"{faster(value)}{_in_total(found)} at the same γ={ran}"
            return f"Roll back what was changed: this is {slower}."
        back = f"γ={found.before.gamma}" if found.before.speculates else "plain decoding"
        return f"Roll back to {back}: this is {faster(value)}{_in_total(found)}."
    return f"Keep it: {faster(value)}{_in_total(found)}."


def _open_plain(plan: Rollout) -> bool:
    """Whether the plain time that was expected has a range."""
    tpot = plan.expected.get("tpot")
    return tpot is not None and tpot.plain.low is not None


def _in_total(found: Review) -> str:
    return " in total, over all requests" if found.measure == "throughput" else ""


def _fell(found: Review) -> str:
    """That fewer drafted tokens are accepted than before, where γ is the same."""
    if found.fallen is None:
        return ""
    then, now = found.fallen
    return (
        f"At the same γ acceptance fell: {significant(then)} tokens a step, then "
        f"{significant(now)}. Whether that is more than chance, and since when: specmath logs drift"
    )


def _total(found: Review) -> str:
    """A request's speed beside the server's, where the two tell different things."""
    each, total = (_ratio_of(found, measure) for measure in (tpot_of, throughput_of))
    if each is None or total is None or each <= 0:
        return ""
    each = 1.0 / each
    if abs(each / total - 1.0) < DIFFERENT:
        return ""
    return f"A request is {faster(each)}, the server in total {faster(total)}"


def _ratio_of(found: Review, measure: Callable[[Reading], float | None]) -> float | None:
    then, now = measure(found.before), measure(found.after)
    return now / then if now and then else None


def _unseen(found: Review) -> list[str]:
    """What acceptance alone says where no speed was told."""
    before, after = found.before, found.after
    same = before.gamma is not None and before.gamma == after.gamma
    tokens = before.tokens_per_step, after.tokens_per_step
    said = []
    if same and tokens[0] and tokens[1]:
        moved = "fell" if tokens[1] < tokens[0] else "rose"
        said.append(
            f"At the same γ acceptance {moved}: {significant(tokens[0])} tokens a step, then "
            f"{significant(tokens[1])}. Whether that is more than chance: specmath logs drift"
        )
    if found.modelled is not None:
        said.append(
            f"Modelled, not seen: {ratio(found.modelled.value)} by the tokens per step of both and "
            "the costs given"
        )
    return said


def _against(found: Review) -> str:
    if found.agrees or found.request is None or found.predicted is None:
        return "Prediction and observation agree within what is known of both"
    away = change(found.request.value, found.predicted.value)
    return f"Observed is {away} from predicted: acceptance, draft cost or overhead is not as taken"


def basis_of(number: Estimate) -> str:
    """Where a number of a review comes from, and what its interval spans."""
    source, over = number.basis.source, number.basis.over
    if not over:
        return source
    spans = basis_words(number.basis)
    kind = "over what the prediction leaves open" if number.basis.kind == "measured" else spans
    return f"{source}; {kind}"


def review_warnings(found: Review) -> tuple[str, ...]:
    """What differs besides the change, and which load was taken."""
    unsaid = [each for each in found.differences if not each.bars]
    words = [*(load_words(load) for load in found.loads), *map(_differs, unsaid)]
    if found.plan is not None:
        words.append(expected_words(found.plan))
    planned, ran = found.base.gamma, found.after.gamma
    if found.planned and ran not in (None, planned):
        words.append(f"Planned at γ={planned}, but AFTER ran γ={ran}")
    return tuple(dict.fromkeys(words))


_UNTOLD = {
    True: "AFTER does not tell whether it speculated: the key is missing, which is no evidence",
    False: "BEFORE does not tell whether it speculated: taken as a plain run",
}


def _differs(difference: Difference) -> str:
    if difference.before is None and difference.after is None:
        return (
            f"The {difference.what} is not printed: whether both ran the same requests is not known"
        )
    before, after = (_shown(value) for value in (difference.before, difference.after))
    if difference.what == "speculation":
        return _UNTOLD[difference.bars]
    if difference.what == "restarts":
        return (
            f"The server restarted within a run ({before} and {after} times): settings may differ"
        )
    if difference.what == "requests running":
        return (
            f"Another load: {before} requests running, then {after}, and none that both logs hold"
        )
    if difference.what.endswith("length"):
        return f"Requests differ in {difference.what}, {before} then {after} tokens: other traffic"
    return f"Another {difference.what}: {before}, then {after}"


def _shown(value: float | str | None) -> str:
    return significant(value) if isinstance(value, float) else str(value)
