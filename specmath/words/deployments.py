"""The search over deployments in sentences."""

from __future__ import annotations

from statistics import median

from specmath.deployments import LOADS, Deployment, Search
from specmath.numbers import count, significant, usd
from specmath.scenario import Scenario

__all__ = ["front_sentence", "search_notes", "search_sentence"]

_NOTES = (
    "Prices are the catalogue's, assumed, but for the scenario's own GPU: the order of deployments "
    "is worth what they are.",
    "Times that were measured are of one GPU and are left out: every server is computed, and what "
    "is open of it is in its range.",
    "Drafts are those that there are for the target and whose acceptance is given or was measured "
    "by others; each has its own.",
)
_DECODING_ALONE = (
    "Prompts are read by other workers: GPUs, bills and the front are of the decoding pool alone; "
    "a promised first token is not looked at, a whole request begins where it decodes. How many "
    "GPUs counts both pools, of one deployment."
)


def search_notes(s: Scenario) -> tuple[str, ...]:
    """What a search of that scenario rests on."""
    return (*((_DECODING_ALONE,) if s.decode_only == "yes" else ()), *_NOTES)


def search_sentence(found: Search) -> str:
    """What was looked at, and the cheapest within what is promised."""
    looked = (
        f"{found.looked_at:,} deployments looked at: {count(found.servers, 'server')} (GPU, number "
        f"of GPUs, draft), each at every γ that may be advised and {LOADS} loads"
    )
    left = f"; {found.left_out:,} more servers do not hold the model" if found.left_out else ""
    if not found.cheapest:
        return f"Nothing serves it within what is promised. {looked}{left}."
    return f"{_named(found.cheapest[0])}. {looked}{left}."


def _named(best: Deployment) -> str:
    how = f"{best.draft}, γ={best.gamma}" if best.gamma else "plain decoding"
    gpus = f"{best.scenario.gpu} × {best.gpus}"
    if best.usd_per_month is None:
        return (
            f"Cheapest a million tokens: {gpus}, {how}, {usd(best.usd_per_million.value)} at "
            f"{significant(best.rate)} requests/s of a replica"
        )
    return (
        f"Cheapest for the demand: {count(int(best.replicas or 0), 'replica')} of {gpus}, {how}: "
        f"{usd(best.usd_per_month)} a month"
    )


def front_sentence(found: Search) -> str:
    """What speculation does to the front."""
    gains = []
    for plain in found.plain_front:
        cheaper = [d for d in found.front if d.tpot.value <= plain.tpot.value]
        if cheaper:
            best = min(d.usd_per_million.value for d in cheaper)
            gains.append(plain.usd_per_million.value / best)
    if not gains:
        return "To the left and down is better: faster a token, and cheaper a million."
    return (
        "To the left and down is better. At the time per token of plain decoding's front a million "
        f"tokens cost {significant(median(gains))} times less with speculation (the median along "
        "it, in the middle of the ranges)."
    )
