"""A reading taken into a scenario: what a server showed becomes an input of the calculator."""

from __future__ import annotations

from typing import Any, Literal

from specmath.checks import InputError
from specmath.logs.record import Reading
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import revised

__all__ = ["SHAPES", "Shape", "scenario_from", "shape_of"]

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


def scenario_from(reading: Reading, base: Scenario, shape: Shape | None = None) -> Scenario:
    """`base` with the acceptance, γ and coverage that the server showed, marked as own traffic.

    Survival where the log has it; else α, as a range where its interval is known; else tokens per
    step or the accepted share at the γ that ran. Costs and money stay those of `base`; c is taken
    from the log only where `base` does not know it. Raises InputError where no acceptance
    follows: a token tree, or a mean without its draft length.
    """
    if shape_of(reading, shape) == "tree":
        raise InputError(
            "reading must be of a chain of drafted tokens, got a token tree: its tokens per step "
            "hold for this tree only"
        )
    changes: dict[str, Any] = _acceptance(reading) | {"acceptance_source": "my_traffic"}
    if reading.gamma is not None:
        changes["gamma"] = reading.gamma
    if base.label in ("", EXAMPLE.label):
        changes["label"] = f"{reading.engine} log"
    if base.draft_form == "hardware" and reading.coverage is not None:
        changes["coverage"] = reading.coverage
    if base.draft_form == "range" and reading.c is not None:
        changes["c"] = reading.c
    return revised(base, changes)


def _acceptance(reading: Reading) -> dict[str, Any]:
    if reading.survival:
        return {"acceptance_form": "survival", "rates": reading.survival}
    if reading.alpha is not None:
        low, high = reading.alpha_interval or (reading.alpha, reading.alpha)
        if low < high:
            return {"acceptance_form": "range", "alpha_low": low, "alpha_high": high}
        return {"acceptance_form": "alpha", "alpha": reading.alpha}
    if reading.gamma is None:
        raise InputError(
            "gamma must be given: this log prints a mean without its draft length, and no α "
            "follows from it"
        )
    at = {"measured_gamma": reading.gamma}
    if reading.tokens_per_step is not None:
        return {"tokens_per_step": min(reading.tokens_per_step, reading.gamma + 1.0)} | at
    if reading.drafted and reading.accepted is not None:
        return {"accepted_share": reading.accepted / reading.drafted} | at
    raise InputError("reading must hold an acceptance, got facts only (a run without speculation)")
