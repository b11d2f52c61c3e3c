"""The answer: use, change γ, skip or measure first; and what would flip it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath.acceptance import IidAcceptance
from specmath.checks import FloatArray
from specmath.halves import Halves, ends, unknowns
from specmath.predict import ROUNDING, Prediction, near_best
from specmath.scenario import Scenario
from specmath.scenario.forms import MEASURED_AT
from specmath.serving.schedule import breakeven_alpha_of
from specmath.wording import faster, ratio, significant

__all__ = [
    "MEASURE_COMMANDS",
    "WORTH_CHANGING",
    "Action",
    "Decision",
    "Verdict",
    "decide",
    "verdict",
]

Action = Literal["use", "lower", "raise", "skip", "measure"]

WORTH_CHANGING = 1.03
"""γ is worth changing for more than 3%."""

MEASURE_COMMANDS = {
    "Your own pair of models": "python -m specmath measure --target FOLDER --draft FOLDER",
    "vLLM": "curl -s http://localhost:8000/metrics | grep spec_decode",
    "SGLang": "curl -s http://localhost:30000/metrics | grep spec_",
    "llama.cpp": "curl -s http://localhost:8080/metrics | grep spec_decode",
}
"""What measures acceptance and cost: on a model pair, or off a running server by engine
(llama.cpp needs --metrics)."""


@dataclass(frozen=True)
class Decision:
    """What to do, and the γ to run; 0 where the answer is plain decoding."""

    action: Action
    gamma: int


@dataclass(frozen=True)
class Verdict:
    """A decision in words: the answer, the reason, and what would flip it."""

    action: Action
    gamma: int
    speedup: float
    headline: str
    reason: str
    flips: str
    commands: tuple[tuple[str, str], ...] = ()

    def sentence(self) -> str:
        """All of it, as one paragraph."""
        return " ".join(part for part in (self.headline, self.reason, self.flips) if part)


def decide(speedups: FloatArray, gamma: int, max_gamma: int) -> Decision:
    """The rule, from speedup over γ = 0, 1, … (shape ≥ max_gamma+1) and the γ in use.

    Skip if no γ ≥ 1 exceeds 1. Otherwise move to the smallest γ within 2% of the best if that
    gains more than 3%, or if the γ in use does not pay at all. Otherwise use.
    """
    target = near_best(speedups[: max_gamma + 1])
    if target == 0:
        return Decision("skip", 0)
    current = float(speedups[gamma])
    gains = speedups[target] > WORTH_CHANGING * current
    if target != gamma and (gains or current <= 1.0):
        return Decision("lower" if target < gamma else "raise", target)
    return Decision("use", gamma)


def verdict(prediction: Prediction) -> Verdict:
    """The decision of a prediction; "measure" where the ends of what is unknown disagree, or where
    the error of computed step times leaves open whether it pays at all."""
    s = prediction.scenario
    corners, gammas = ends(s), prediction.curve.gamma
    at_ends = [decide(halves.speedup(gammas), s.gamma, s.max_gamma) for halves in corners]
    agree = len({d.action for d in at_ends}) == 1
    if unknowns(s) and agree:
        # Of the γ that the ends name, the smallest risks the least.
        agreed = Decision(at_ends[0].action, min(d.gamma for d in at_ends))
        return _WORDS[agreed.action](prediction, agreed)
    central = decide(prediction.curve.walltime_improvement, s.gamma, s.max_gamma)
    if (unknowns(s) and not agree) or _straddles(prediction, central, at_ends):
        return _measure_first(prediction, corners, at_ends)
    return _WORDS[central.action](prediction, central)


def _straddles(p: Prediction, central: Decision, at_ends: Sequence[Decision]) -> bool:
    """Whether the interval of the γ advised holds 1, or a γ pays at one end that is to be left."""
    if central.action == "skip":
        return any(d.action != "skip" for d in at_ends)
    low = p.curve.low
    return low is not None and float(low[central.gamma]) <= 1.0


# ── the words ────────────────────────────────────────────────────────────────────────────────


def _measure_first(
    p: Prediction, corners: Sequence[Halves], at_ends: Sequence[Decision]
) -> Verdict:
    s = p.scenario
    # What each end could reach at the γ it would choose: 1× where it would skip.
    reached = [float(h.speedup(np.array(d.gamma))) for h, d in zip(corners, at_ends, strict=True)]
    worst, best = int(np.argmin(reached)), int(np.argmax(reached))
    unknown = p.speedup.basis
    does = {
        "skip": "does not pay",
        "use": f"is right at γ={s.gamma}",
        "lower": "wants a lower γ",
        "raise": "wants a higher γ",
    }
    reason = (
        f"With {unknown}, γ={s.gamma} gives {ratio(p.speedup.low)} to {ratio(p.speedup.high)}: "
        f"at the worst end speculation {does[at_ends[worst].action]}{_at(at_ends[worst])}, "
        f"at the best end it {does[at_ends[best].action]}{_at(at_ends[best])}."
    )
    return Verdict(
        "measure", s.gamma, p.speedup.value,
        "Measure first: the answer depends on what you do not know.",
        reason,
        _what_to_measure(s),
        tuple(MEASURE_COMMANDS.items()),
    )  # fmt: skip


def _what_to_measure(s: Scenario) -> str:
    """The unknowns that a measurement ends, in words."""
    ways = []
    if s.acceptance_form == "range":
        ways.append("read acceptance off a running server")
    if s.draft_form == "range":
        ways.append("time the draft and the target")
    if s.sigma is None or s.draft_form == "hardware":
        ways.append("time a pass over γ+1 tokens beside a plain step at your batch")
    if s.c_hat is None:
        ways.append("count the parameters of both models")
    said = ", and ".join(ways)
    return f"{said[0].upper()}{said[1:]}; give what you find."


def _at(decision: Decision) -> str:
    return f" (γ={decision.gamma})" if decision.action in ("lower", "raise") else ""


def _use(p: Prediction, d: Decision) -> Verdict:
    gained = float(p.curve.walltime_improvement[d.gamma])
    reason = _per_step(p, d.gamma)
    if p.curve.walltime_improvement[p.best_gamma] > gained:
        reason += f" The best γ is {p.best_gamma}, with too little gain to move."
    headline = f"Turn it on at γ={d.gamma}: {faster(gained)}."
    return Verdict("use", d.gamma, gained, headline, reason, _holds(p, d.gamma))


def _move(p: Prediction, d: Decision) -> Verdict:
    s = p.scenario
    now, then = (float(p.curve.walltime_improvement[g]) for g in (s.gamma, d.gamma))
    if s.gamma == 0:
        headline = f"Turn it on with γ={d.gamma}: {faster(then)}."
        reason = _per_step(p, d.gamma)
    else:
        verb = "Lower" if d.action == "lower" else "Raise"
        headline = f"{verb} γ to {d.gamma}: {faster(then)} instead of {faster(now)} at γ={s.gamma}."
        reason = _why_move(p, d)
    if s.acceptance_form in MEASURED_AT and d.gamma != s.measured_gamma:
        reason += (
            f" Acceptance is known at γ={s.measured_gamma} only: this takes every position alike."
        )
    return Verdict(d.action, d.gamma, then, headline, reason, _holds(p, d.gamma))


def _why_move(p: Prediction, d: Decision) -> str:
    s, alpha = p.scenario, significant(p.alpha)
    if d.action == "lower":
        return (
            f"At α≈{alpha} the later drafted tokens seldom survive but each costs "
            f"{significant(_marginal_cost(p))} plain steps: γ={s.gamma} emits "
            f"{significant(p.tokens_per_step)} tokens in {significant(p.step_cost)} plain steps."
        )
    return (
        f"At α≈{alpha} further drafted tokens survive often enough to pay for the "
        f"{significant(_marginal_cost(p))} plain steps that each costs."
    )


def _marginal_cost(p: Prediction) -> float:
    """What one more drafted token adds to the step, plain steps (its drafting and verification)."""
    cost = p.halves.cost
    return float(cost.total(2) - cost.total(1))


def _skip(p: Prediction, d: Decision) -> Verdict:
    speedups = p.curve.walltime_improvement[1 : p.scenario.max_gamma + 1]
    best = 1 + int(np.argmax(speedups))
    reason = (
        f"No γ from 1 to {len(speedups)} beats plain decoding; the nearest is γ={best}, "
        f"{faster(float(speedups[best - 1]))}."
    )
    return Verdict("skip", 0, 1.0, "Leave it off.", reason, _would_pay(p))


_WORDS = {"use": _use, "lower": _move, "raise": _move, "skip": _skip}


def _per_step(p: Prediction, gamma: int) -> str:
    tokens, cost = (float(a[gamma]) for a in (p.curve.tokens_per_step, p.curve.step_cost))
    return f"A step emits {significant(tokens)} tokens and costs {significant(cost)} plain steps."


# ── what flips it ────────────────────────────────────────────────────────────────────────────


def breakeven(p: Prediction, gamma: int) -> tuple[float | None, float | None, float]:
    """At that γ ≥ 1: least i.i.d. α (None if none reaches 1×), largest c (None if none), least τ.

    τ ≥ s(γ) is the condition itself; α, of the steps with a draft, inverts it by Eq. 1, c solves
    s(γ) = τ for c.
    """
    cost = p.halves.cost
    needed = float(cost.total(gamma))
    alpha = float(breakeven_alpha_of(cost, gamma, p.halves.coverage))
    largest_c = cost.largest_c(gamma, float(p.curve.tokens_per_step[gamma]) - needed)
    possible = None if np.isnan(alpha) else alpha
    return possible, largest_c if largest_c is None or largest_c >= 0 else None, needed


def _holds(p: Prediction, gamma: int) -> str:
    alpha, c, tokens = breakeven(p, gamma)
    conditions = []
    if isinstance(p.halves.drafted, IidAcceptance) and alpha is not None:
        conditions.append(f"α ≥ {significant(alpha)}")
    else:
        conditions.append(f"tokens per step ≥ {significant(tokens)}")
    if c is not None:
        conditions.append(f"c ≤ {significant(c)}")
    held = f"aster than plain while {' and '.join(conditions)} (each with the other as it is)."
    low, high = p.curve.low, p.curve.high
    if low is None or high is None:
        return f"F{held} {p.speedup.basis.capitalize()}."
    least, most = ratio(float(low[gamma])), ratio(float(high[gamma]))
    if least == most:
        return f"F{held} The same over {p.speedup.basis}."
    return f"From {least} to {most} ({p.speedup.basis}). At the middle, f{held}"


def _would_pay(p: Prediction) -> str:
    """The easiest way to 1×: the γ that needs the least α, and the γ that allows the largest c."""
    top = min(p.scenario.max_gamma, p.halves.cost.reach)
    options = [(g, *breakeven(p, g)[:2]) for g in range(1, top + 1)]
    # Where even α = 1 only breaks even, no α is above it.
    alphas = [(a, g) for g, a, _ in options if a is not None and a < 1.0]
    cs = [(c, g) for g, _, c in options if c is not None and c > ROUNDING]
    ways = []
    if alphas:
        alpha, gamma = min(alphas)
        ways.append(f"α rises above {significant(alpha)} (γ={gamma})")
    if cs:
        c, gamma = max(cs)
        ways.append(f"c falls below {significant(c)} (γ={gamma})")
    return f"It would pay if {' or '.join(ways)}." if ways else "No α or c alone would make it pay."
