"""Requests of several kinds that one endpoint serves together: what they are in the mean.

They share every step. Of kinds in shares p of the requests, with prompts P and N output tokens,

    prompt = Σ p P      output = Σ p N      τ(γ) = Σ w / Σ (w / τ_i(γ)),    w ∝ p (N − 1)

because a request takes (N − 1)/τ_i steps, whoever else is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specmath.acceptance import (
    Acceptance,
    CappedAcceptance,
    CoveredAcceptance,
    FallingAcceptance,
    MixtureAcceptance,
    StoppedAcceptance,
)
from specmath.checks import InputError, real
from specmath.scenario.record import Scenario
from specmath.scenario.server import drafted
from specmath.serving.pair import ServedPair
from specmath.speculation import USUAL_GAMMA
from specmath.theorems import alpha_from_tokens_per_step
from specmath.trees import TreeAcceptance

__all__ = ["Accepted", "Part", "accepted_by", "blended", "falls", "of_kind"]


@dataclass(frozen=True)
class Part:
    """A kind of request.

    Attributes
    ----------
    share
        Of all requests, > 0; InputError otherwise.
    scenario
        Of which the acceptance, the lengths and the prefix cache are read.
    most
        Tokens drafted for it at most, whatever γ others have; None: as many as γ.
    tax
        What it costs the server to have a γ for each request: a share of its steps with
        speculation, ≥ 0; the largest of all kinds counts.
    """

    share: float
    scenario: Scenario
    most: int | None = None
    tax: float = 0.0

    def __post_init__(self) -> None:
        real("share", self.share, 0, low_open=True)
        real("tax", self.tax, 0)

    @property
    def decoded(self) -> int:
        """N − 1: tokens of a request that come from decode steps."""
        return max(1, self.scenario.output_tokens - 1)


Accepted = tuple[Acceptance, tuple[Acceptance, ...]]
"""An acceptance, and its ends where it is open, else itself."""


def accepted_by(s: Scenario, pair: ServedPair, parts: Sequence[Part] = ()) -> Accepted:
    """The acceptance of a scenario with what is known of its drafter; of parts, that of them
    together, whose ends are those of all at once: the worst of each, and the best of each."""
    if not parts:
        middle, *_ = drafted(s, pair, (s.accepts.acceptance(s),))
        return middle, drafted(s, pair, s.accepts.corners(s), ends=True)
    each = [_capped(accepted_by(part.scenario, pair), part.most) for part in parts]
    weights = [part.share * part.decoded for part in parts]
    middle = MixtureAcceptance(weights, [one for one, _ in each])
    if all(len(ends) == 1 for _, ends in each):
        return middle, (MixtureAcceptance(weights, [ends[0] for _, ends in each]),)
    ranked = [sorted(ends, key=_usual_tokens) for _, ends in each]
    return middle, tuple(
        MixtureAcceptance(weights, [ends[at] for ends in ranked]) for at in (0, -1)
    )


def _capped(accepted: Accepted, most: int | None) -> Accepted:
    """The same where at most so many tokens are drafted."""
    middle, ends = accepted
    if most is None:
        return accepted
    return CappedAcceptance(middle, most), tuple(CappedAcceptance(end, most) for end in ends)


def _usual_tokens(acceptance: Acceptance) -> float:
    return float(acceptance.tokens_per_step(USUAL_GAMMA))


def falls(acceptance: Acceptance) -> bool:
    """Whether some of it falls with the position."""
    if isinstance(acceptance, MixtureAcceptance):
        return any(map(falls, acceptance.parts))
    if isinstance(acceptance, CoveredAcceptance | StoppedAcceptance | CappedAcceptance):
        return falls(acceptance.part)
    return isinstance(acceptance, FallingAcceptance)


def of_kind(acceptance: Acceptance, index: int) -> Acceptance:
    """The acceptance of one kind, from that of all together."""
    if isinstance(acceptance, MixtureAcceptance):
        return acceptance.parts[index]
    if isinstance(acceptance, CoveredAcceptance | StoppedAcceptance):
        return replace(acceptance, part=of_kind(acceptance.part, index))
    if isinstance(acceptance, TreeAcceptance):
        return replace(acceptance, chain=of_kind(acceptance.chain, index))
    raise InputError(f"an acceptance of several kinds is needed, got {acceptance!r}")


def blended(base: Scenario, parts: Sequence[Part]) -> Scenario:
    """`base` with the lengths and the acceptance of all its parts in the mean.

    Parameters
    ----------
    base
        The endpoint, in the hardware form.
    parts
        At least one, each with the prompts' length.

    Returns
    -------
    Scenario
        Its acceptance is for people and links: a mixture of each part's α, or where one is open
        the range of the α that emits as many tokens. A prediction takes the parts beside it.

    Raises
    ------
    InputError
        No part, or one whose prompts are of unknown length.
    """
    if not parts:
        raise InputError("an endpoint needs at least one segment, got none")
    shares = np.array([part.share for part in parts])
    shares = shares / shares.sum()
    prompts, outputs = (
        np.array([_known(part.scenario, name) for part in parts], dtype=float)
        for name in ("prompt_tokens", "output_tokens")
    )
    weights = shares * np.array([part.decoded for part in parts])
    weights = weights / weights.sum()
    fields: dict[str, Any] = {
        "prompt_tokens": round(float(shares @ prompts)),
        "output_tokens": max(1, round(float(shares @ outputs))),
        "prefix_hit": _hits(parts, shares * prompts, speculative=False),
        "prefix_hit_speculative": None,
        "prompt_spread": prompt_spread(parts),
        **_acceptance(parts, weights),
    }
    if any(part.scenario.prefix_hit_speculative is not None for part in parts):
        fields["prefix_hit_speculative"] = _hits(parts, shares * prompts, speculative=True)
    if base.context_tokens is None:
        # As a batch has them: a long answer is in more steps.
        spreads = np.array([part.scenario.output_spread for part in parts])
        written = outputs * (1.0 + spreads**2) / 2.0
        fields["context_tokens"] = max(1, round(float(weights @ (prompts + written))))
    return base.model_copy(update=_NO_ACCEPTANCE | fields)


_NO_ACCEPTANCE: dict[str, Any] = {
    name: Scenario.model_fields[name].default
    for name in ("alpha", "accepted_share", "tokens_per_step", "accepted_per_step",
                 "measured_gamma", "rates", "mixture", "workload", "alpha_low", "alpha_high")
}  # fmt: skip


def _known(s: Scenario, name: str) -> int:
    value: int | None = getattr(s, name)
    if value is None:
        raise InputError(f"{name} must be given for every segment, got none")
    return value


def prompt_spread(parts: Sequence[Part]) -> float:
    """Standard deviation over mean of the prompt tokens that the cache does not hold, of all kinds
    together, each with its own spread."""
    shares = np.array([part.share for part in parts])
    shares = shares / shares.sum()
    tokens, spreads = (
        np.array([float(getattr(part.scenario, name) or 0.0) for part in parts])
        for name in ("prompt_tokens", "prompt_spread")
    )
    tokens = tokens * (1.0 - np.array([part.scenario.prefix_hit for part in parts]))
    mean = float(shares @ tokens)
    if not mean:
        return 0.0
    square = float(shares @ (tokens**2 * (1.0 + spreads**2))) / mean**2
    return float(np.sqrt(max(0.0, square - 1.0)))  # rounding may put it below 1


def _hits(parts: Sequence[Part], tokens: np.ndarray, *, speculative: bool) -> float:
    """The share of all prompt tokens that the cache holds."""
    each = []
    for part in parts:
        s = part.scenario
        own = s.prefix_hit_speculative if speculative else None
        each.append(s.prefix_hit if own is None else own)
    total = float(tokens.sum())
    return float(tokens @ np.array(each)) / total if total else 0.0


def _acceptance(parts: Sequence[Part], weights: np.ndarray) -> dict[str, Any]:
    """The fields that say it: of each part's own acceptance, before what its drafter adds."""
    each = [part.scenario.accepts.corners(part.scenario) for part in parts]
    middles = [part.scenario.accepts.acceptance(part.scenario) for part in parts]

    def alpha(acceptance: Acceptance) -> float:
        tokens = float(acceptance.tokens_per_step(USUAL_GAMMA))
        return float(alpha_from_tokens_per_step(tokens, USUAL_GAMMA))

    if all(len(ends) == 1 for ends in each):
        told = tuple((float(w), alpha(a)) for w, a in zip(weights, middles, strict=True))
        return {"acceptance_form": "mixture", "mixture": told}
    low, high = (
        alpha(MixtureAcceptance(weights.tolist(), [pick(e, key=_usual_tokens) for e in each]))
        for pick in (min, max)
    )
    return {"acceptance_form": "range", "alpha_low": low, "alpha_high": high}
