"""A reading taken into a scenario: what a server showed becomes an input of the calculator."""

from __future__ import annotations

import re
from typing import Any, Literal

from specmath.checks import InputError
from specmath.halves import step_cost_of
from specmath.logs.record import Reading
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.acceptances import given_acceptance
from specmath.scenario.files import revised
from specmath.wording import significant

__all__ = ["SHAPES", "Shape", "drafts_of", "handed_on", "scenario_from", "shape_of"]

Shape = Literal["chain", "tree", "parallel", "stops"]

SHAPES: dict[Shape, str] = {
    "chain": "One token after another, always γ of them",
    "tree": "A token tree (several candidates a position)",
    "parallel": "All positions in one pass (Medusa, block-parallel)",
    "stops": "Stops when unsure (confidence), or drafts what it finds (n-gram)",
}
"""How a server drafts: only of a chain of fixed length does a shorter γ follow from the rates."""

FULL_DRAFT = 0.98
"""D/N of at least this share of γ counts as drafts of one length; requests end inside a draft."""

DIGITS = 6
"""Decimals of what is handed on: more is noise in a box that a person reads."""

LONGEST_LABEL = 80
_OUR_LABEL = re.compile(r"\S+ log(, only γ=\d+ known)?")


def shape_of(reading: Reading, stated: Shape | None = None) -> Shape:
    """How the server drafts: as stated, else as the log shows it."""
    if stated is not None:
        return stated
    if reading.tree:
        return "tree"
    name = reading.format.lower()
    if any(kind in name for kind in ("dspark", "medusa", "dflash")):
        return "parallel"
    short = reading.drafted_per_step is not None and reading.gamma is not None
    if short and (reading.drafted_per_step or 0.0) < FULL_DRAFT * (reading.gamma or 0):
        return "stops"
    return "stops" if "ngram" in name else "chain"


def drafts_of(reading: Reading, base: Scenario, shape: Shape | None = None) -> Scenario:
    """`base` with the acceptance of the steps that had a draft, and their γ: own traffic.

    Survival where the log has it; else tokens per step or the accepted share at the γ that ran;
    else α, the estimate itself. Costs and money stay those of `base`; c is taken from the log only
    where `base` does not know it. Raises InputError where no acceptance follows: a token tree, or
    a mean without its draft length.
    """
    if shape_of(reading, shape) == "tree":
        raise InputError(
            "reading must be of a chain of drafted tokens, got a token tree: its tokens per step "
            "hold for this tree only"
        )
    changes: dict[str, Any] = _acceptance(reading) | {"acceptance_source": "my_traffic"}
    if reading.gamma is not None:
        changes["gamma"] = reading.gamma
    if base.label in ("", EXAMPLE.label) or _OUR_LABEL.fullmatch(base.label):
        changes["label"] = f"{reading.engine} log"
    if base.draft_form == "hardware" and reading.coverage is not None:
        changes["coverage"] = reading.coverage
    if base.draft_form == "range" and reading.c is not None:
        changes["c"] = reading.c
    return revised(base, changes)


def scenario_from(reading: Reading, base: Scenario, shape: Shape | None = None) -> Scenario:
    """`base` with what the server showed, so that at its γ the calculator repeats the log's answer.

    As `drafts_of`, but where a position's rates hold for this γ only (drafts that stop early, all
    positions in one pass) or steps without a draft count and the form of the costs has no
    coverage, tokens per step at the γ that ran stand for the acceptance:

        τ' = s (κτ + 1−κ) / (κs + 1−κ)          speedup τ'/s = that over all steps, at this γ
    """
    taken = drafts_of(reading, base, shape)
    gamma, alone = reading.gamma, shape_of(reading, shape) != "chain"
    share = _uncounted(reading, taken)
    if gamma is None or not (alone or share < 1):
        return taken
    tokens = reading.tokens_per_step or float(given_acceptance(taken).tokens_per_step(gamma))
    if share < 1:
        cost = float(step_cost_of(taken).total(gamma))
        tokens = cost * (share * tokens + 1.0 - share) / (share * cost + 1.0 - share)
    changes: dict[str, Any] = _at_gamma(tokens, gamma)
    label = f"{taken.label}, only γ={gamma} known"
    if alone and len(label) <= LONGEST_LABEL and not taken.label.endswith("known"):
        changes["label"] = label
    return revised(taken, changes)


def handed_on(reading: Reading, base: Scenario, shape: Shape | None = None) -> tuple[str, ...]:
    """What the calculator does not know of this log, to be said beside the way into it."""
    taken, gamma, found = drafts_of(reading, base, shape), reading.gamma, []
    if gamma is None:
        return ("The log does not print γ: the calculator keeps the γ of the scenario",)
    if (share := _uncounted(reading, taken)) < 1:
        tokens = scenario_from(reading, base, shape).tokens_per_step
        found.append(
            f"Only {share:.0%} of the steps had a draft, which these costs cannot say: taken as "
            f"{significant(tokens)} tokens per step, which give the same speedup at γ={gamma} as "
            "the log does over all steps"
        )
    if shape_of(reading, shape) != "chain":
        found.append(
            f"The log tells of γ={gamma} only: what the calculator says of another γ supposes that "
            "each position is accepted alike, and this log does not support it"
        )
    return tuple(found)


def _uncounted(reading: Reading, taken: Scenario) -> float:
    """κ, where the scenario cannot hold it; else 1."""
    if taken.draft_form == "hardware" or reading.coverage is None:
        return 1.0
    return reading.coverage


def _at_gamma(tokens: float, gamma: int) -> dict[str, Any]:
    within = min(max(tokens, 1.0), gamma + 1.0)
    return {"tokens_per_step": round(within, DIGITS), "measured_gamma": gamma}


def _acceptance(reading: Reading) -> dict[str, Any]:
    if reading.survival:
        rates = tuple(round(rate, DIGITS) for rate in reading.survival)
        return {"acceptance_form": "survival", "rates": rates}
    gamma, share = reading.gamma, reading.accepted_share
    if gamma is not None and reading.tokens_per_step is not None:
        return _at_gamma(reading.tokens_per_step, gamma)
    if gamma is not None and share is not None:
        return {"accepted_share": round(share, DIGITS), "measured_gamma": gamma}
    if reading.alpha is not None:
        return {"acceptance_form": "alpha", "alpha": round(reading.alpha, DIGITS)}
    if share is None and reading.tokens_per_step is None:
        raise InputError("reading must hold an acceptance, got a run without speculation")
    raise InputError(
        "γ must be given: this log prints a mean without its draft length, and no α follows from it"
    )
