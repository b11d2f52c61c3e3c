"""A reading taken into a scenario: what a server showed becomes an input of the calculator.

The scenario gives, at every γ, the speedup that the log's own page gives, because both are one
prediction. What a plain run beside the log showed replaces the cost at the γ that ran.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.estimate import Unknown
from specmath.logs.estimate import estimate_alpha, independent_interval
from specmath.logs.reading import Counts, Reading, Shape
from specmath.review.observed import Speed
from specmath.scenario import EXAMPLE, SPECS, Scenario
from specmath.scenario.endpoint import BEYOND_WHAT_RAN, Endpoint, resolve
from specmath.scenario.files import revised
from specmath.speculation import Speculation
from specmath.stepcost import Observed
from specmath.theorems import expected_tokens

__all__ = [
    "SHAPES", "Shape", "coverage_of", "endpoint_of", "expected_of", "scenario_from", "shape_of",
]  # fmt: skip

SHAPES: dict[Shape, str] = {
    "chain": "One token after another, always γ of them",
    "tree": "A token tree (several candidates a position)",
    "parallel": "All positions in one pass (Medusa, block-parallel)",
    "stops": "Stops when unsure (confidence), or drafts what it finds (n-gram)",
}
"""How a server drafts: only of a chain of fixed length does a shorter γ follow from the rates."""

DIGITS = 6
"""Decimals of what is handed on: more is noise in a box that a person reads."""

LONGEST_LABEL = 80
_OUR_LABEL = re.compile(r"\S+ log(, only γ=\d+ known)?")
"""A label that an earlier log gave; the next one takes its place."""


def shape_of(reading: Reading, stated: Shape | None = None) -> Shape:
    """How the server drafts: as stated, or as the reading tells."""
    return stated if stated is not None else reading.shape


def coverage_of(reading: Reading) -> float | None:
    """κ: the share of sequence-steps that had a draft; None where nothing tells.

    Where the log counts passes but not the steps with a draft, full drafts of γ tokens emit
    1 + γ r tokens a step (r accepted ÷ drafted), so κ = (tokens a pass − 1) / (γ r). Where drafts
    stop early this is the least that κ can be.
    """
    if reading.coverage is not None:
        return reading.coverage
    share, gamma, tokens = reading.accepted_share, reading.gamma, reading.tokens_per_pass
    if reading.tokens_per_step is not None or not share or not gamma or tokens is None:
        return None
    return min(1.0, max(0.0, (tokens - 1.0) / (gamma * share)))


def scenario_from(reading: Reading, base: Scenario, shape: Shape | None = None) -> Scenario:
    """`base` with the acceptance of the steps that had a draft, their share and their γ.

    Survival where the log has it; else tokens per step or the accepted share at the γ that ran;
    else α, the estimate itself (as tokens per step at the γ that ran, where that is known). Where
    a position's rates hold for this γ only (drafts that stop early, all positions in one pass),
    tokens per step at the γ that ran stand for them. Costs and money stay those of `base`; c is
    taken from the log only where `base` does not know it.

    Bounds of α (drafts that stop early) are not handed on as a range of α. Where the drafts are
    counted, tokens per step at the γ that ran are exact and need none; where only the passes are,
    α and κ are bound to each other by the tokens of a pass, κ (τ(α) − 1) + 1, which the one κ of a
    scenario would miss at both ends. The answer of the log itself spans both ends.

    Raises
    ------
    InputError
        No acceptance follows: a token tree, or a mean without its draft length.

    Examples
    --------
    >>> reading = Reading("vllm", "log", survival=(0.8, 0.6, 0.45), tokens_per_step=2.85, gamma=3)
    >>> scenario_from(reading, Scenario(alpha=0.5, c=0.1)).rates
    (0.8, 0.6, 0.45)
    """
    how, gamma = shape_of(reading, shape), reading.gamma
    if how == "tree":
        raise InputError(
            "reading must be of a chain of drafted tokens, got a token tree: its tokens per step "
            "hold for this tree only"
        )
    alone = how != "chain" and gamma is not None
    changes = _acceptance(reading, alone=alone) | {"acceptance_source": "my_traffic"}
    if (coverage := coverage_of(reading)) is not None:
        changes["coverage"] = coverage
    if gamma is not None:
        changes["gamma"] = gamma
        # What ran is among what is considered, or the decision would be about other γ only.
        highest = int(SPECS["max_gamma"].high or gamma)
        changes["max_gamma"] = max(base.max_gamma, min(gamma + BEYOND_WHAT_RAN, highest))
    if base.label in ("", EXAMPLE.label) or _OUR_LABEL.fullmatch(base.label):
        label = f"{reading.engine} log"
        known = f"{label}, only γ={gamma} known" if alone else label
        changes["label"] = known if len(known) <= LONGEST_LABEL else label
    if base.costs.cited and reading.c is not None:
        changes["c"] = reading.c
    return revised(base, changes)


def _acceptance(reading: Reading, *, alone: bool) -> dict[str, Any]:
    gamma, share, tokens = reading.gamma, reading.accepted_share, reading.tokens_per_step
    if reading.survival and alone and gamma is not None:
        return _at_gamma(1.0 + sum(reading.survival) if tokens is None else tokens, gamma)
    if reading.survival:
        rates = tuple(round(rate, DIGITS) for rate in reading.survival)
        return {"acceptance_form": "survival", "rates": rates}
    if gamma is not None and tokens is not None:
        return _at_gamma(tokens, gamma)
    if gamma is not None and share is not None:
        return {"accepted_share": round(share, DIGITS), "measured_gamma": gamma}
    if gamma is not None and reading.alpha is not None:
        return _at_gamma(float(expected_tokens(reading.alpha, gamma)), gamma)
    if reading.alpha is not None:
        return {"acceptance_form": "alpha", "alpha": round(reading.alpha, DIGITS)}
    if share is None and tokens is None:
        raise InputError("reading must hold an acceptance, got a run without speculation")
    raise InputError(
        "γ must be given: this log prints a mean without its draft length, and no α follows from it"
    )


def _at_gamma(tokens: float, gamma: int) -> dict[str, Any]:
    within = min(max(tokens, 1.0), gamma + 1.0)
    return {"tokens_per_step": round(within, DIGITS), "measured_gamma": gamma}


# ── with what the log leaves open, and what a plain run showed ───────────────────────────────


def endpoint_of(
    reading: Reading, base: Scenario, speed: Speed | None = None, shape: Shape | None = None
) -> Endpoint:
    """`expected_of` with the cost at the γ that ran as the plain run shows it."""
    ran = reading.gamma
    endpoint = expected_of(reading, base, shape, step_seen=speed is not None and ran is not None)
    if speed is None or ran is None:
        return endpoint

    def seen(each: Speculation) -> Speculation:
        """The same acceptance where the step that ran costs what its speedup implies."""
        cost = float(each.implied_cost(ran, speed.speedup))
        return each.with_cost(Observed(each.cost, ran, cost))

    corners = tuple(map(seen, endpoint.corners))
    return replace(endpoint, speculation=seen(endpoint.speculation), corners=corners)


def expected_of(
    reading: Reading, base: Scenario, shape: Shape | None = None, *, step_seen: bool = False
) -> Endpoint:
    """The scenario of the log, resolved, with the interval of an inverted α among what is open;
    `step_seen` as in `resolve`. InputError as `scenario_from`."""
    endpoint = resolve(scenario_from(reading, base, shape), step_seen=step_seen)
    interval = _sampled(reading)
    if interval is None:
        return endpoint
    wide = [IidAcceptance(alpha) for alpha in interval]
    more = (corner.with_drafted(a) for a in wide for corner in endpoint.corners)
    unknown = (_sampling(reading, interval), *endpoint.unknown)
    axes = {**endpoint.axes, "acceptance": endpoint.axes["acceptance"] * (1 + len(wide))}
    return replace(endpoint, corners=(*endpoint.corners, *more), axes=axes, unknown=unknown)


def _sampled(reading: Reading) -> tuple[float, float] | None:
    """The interval of α, where the log has no rates; what independent steps leave open at the
    least, where its windows do not tell more."""
    if reading.survival:
        return None
    alpha, interval, gamma = reading.alpha, reading.alpha_interval, reading.gamma
    if gamma is not None and reading.tokens_per_step is not None:
        mean = Counts(reading.steps, gamma=gamma, tokens_per_step=reading.tokens_per_step)
        found = estimate_alpha(mean, reading.windows)
        alpha, interval = found.value, found.interval
    steps = float((reading.steps if gamma else None) or (reading.drafted or 0) / (gamma or 1))
    if interval is None and alpha is not None and steps:
        interval = independent_interval(alpha, gamma or 1, steps)
    if interval is None or not interval[0] < interval[1]:
        return None
    low, high = (min(max(end, 0.0), 1.0) for end in interval)
    return low, high


def _sampling(reading: Reading, interval: tuple[float, float]) -> Unknown:
    """What is open: tokens per step, which the log counts; α itself where no γ is known."""
    if reading.gamma is None:
        return Unknown("alpha", *interval)
    low, high = (float(expected_tokens(alpha, reading.gamma)) for alpha in interval)
    return Unknown("tokens_per_step", low, high)
