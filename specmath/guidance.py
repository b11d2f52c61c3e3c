"""The diagnostic checklist, the use and skip rules, and the planning ranges in circulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import IidAcceptance
from specmath.halves import Halves
from specmath.predict import Prediction
from specmath.scenario.fields import UNKNOWN
from specmath.stepcost import LinearStepCost
from specmath.wording import count, ratio, significant

__all__ = ["Check", "PlanningRange", "Rule", "checklist", "planning_ranges", "rules"]

State = Literal["good", "bad", "unknown"]

TWO_ORDERS = 100.0
PREDICTABLE, ENTROPIC = 0.8, 0.5
MOSTLY_PREFILL = 0.5


@dataclass(frozen=True)
class Check:
    """One question of the checklist, answered from the scenario."""

    question: str
    state: State
    answer: str


@dataclass(frozen=True)
class Rule:
    """A rule of thumb for or against speculation, and whether it holds here."""

    advice: Literal["use", "skip"]
    when: str
    because: str
    state: State
    here: str


@dataclass(frozen=True)
class PlanningRange:
    """A range people plan with, beside what the formula gives for the same case."""

    case: str
    claim: str
    formula_low: float | None
    formula_high: float | None
    inputs: str
    agreement: str


# ── checklist ────────────────────────────────────────────────────────────────────────────────


def checklist(prediction: Prediction) -> tuple[Check, ...]:
    """The six questions to answer before believing a prediction."""
    return tuple(ask(prediction) for ask in _QUESTIONS)


def _slope(p: Prediction) -> tuple[float | None, bool]:
    """σ at the γ in use (None: unknown), and whether it is known rather than assumed."""
    s = p.scenario
    if s.draft_form == "hardware" or s.verify_form == "curve":
        return p.halves.cost.sigma_at(max(1, s.gamma)), True
    return s.sigma, s.sigma not in (None, 0)


def _bound_by(p: Prediction) -> Check:
    question, (sigma, known) = "Bound by memory or by arithmetic?", _slope(p)
    if sigma is None:
        return Check(question, "unknown", "Unknown: taken from memory-bound to compute-bound.")
    tokens = count(p.scenario.gamma + 1, "token")
    cost = significant(float(p.halves.cost.verify(p.scenario.gamma)))
    passes = f"a pass over {tokens} is taken to cost {cost} plain steps"
    if not known:
        return Check(
            question, "unknown", f"Assumed memory-bound: {passes}. Time one at your batch."
        )
    if sigma < 0.5:
        return Check(question, "good", f"Nearer to memory: {passes}.")
    return Check(question, "bad", f"Nearer to arithmetic: {passes}; extra tokens are billed.")


def _alpha_measured(p: Prediction) -> Check:
    question, s = "Was acceptance measured on your traffic?", p.scenario
    if s.acceptance_form in ("workload", "range"):
        return Check(question, "bad", "No: it is a planning range.")
    answers: dict[str, tuple[State, str]] = {
        "my_traffic": ("good", "Yes."),
        "other_traffic": ("bad", "No, on other text: acceptance moves with the text."),
        "assumed": ("bad", "No: it is assumed."),
        UNKNOWN: ("unknown", "Not said."),
    }
    return Check(question, *answers[s.acceptance_source])


def _temperature(p: Prediction) -> Check:
    question, t = "At which sampling temperature?", p.scenario.temperature
    if t is None:
        return Check(question, "unknown", "Not said; acceptance usually falls as it rises.")
    if t == 0:
        return Check(question, "good", "Greedy: the output equals greedy decoding of the target.")
    return Check(
        question,
        "good",
        f"{t:g}. If the engine drafts greedily or accepts only exact matches, "
        "what it prints is not the paper's α.",
    )


def _draft_size(p: Prediction) -> Check:
    question, s = "Is the draft about two orders smaller?", p.scenario
    c = f"c is {significant(p.halves.cost.c)}"
    if s.c_low is not None and s.c_high is not None:
        c = f"c is not known, {significant(s.c_low)} to {significant(s.c_high)}"
    if s.draft_form == "hardware":
        arithmetic = p.halves.cost.c_hat
        times = 1 / arithmetic if arithmetic else np.inf
    elif s.target_billions is None or s.draft_billions is None:
        return Check(question, "unknown", f"Sizes not given; {c}.")
    else:
        times = s.target_billions / s.draft_billions if s.draft_billions else np.inf
    if np.isinf(times):
        return Check(question, "good", f"No draft weights; {c}.")
    return Check(
        question,
        "good" if times >= TWO_ORDERS / 2 else "bad",
        f"{significant(times)} times smaller; {c} (a small draft is bound by launches, so c is "
        "above the ratio of sizes).",
    )


def _below_crossover(p: Prediction) -> Check:
    question, s = "If compute-bound: is γ below the crossover?", p.scenario
    crossing = p.crossover_gamma
    where = f"arithmetic outgrows speed at γ={crossing}" if crossing else "there is no crossover"
    sigma, _ = _slope(p)
    if sigma is not None and sigma < 0.5:
        return Check(question, "good", f"Not compute-bound as given; {where}.")
    if sigma is not None and sigma >= 1:
        return Check(question, "bad", "Compute-bound: every γ ≥ 1 costs more than it saves.")
    below = not crossing or s.gamma < crossing
    return Check(question, "good" if below else "bad", f"γ={s.gamma}; {where}.")


def _draft_free(p: Prediction) -> Check:
    question = "Would a draft-free method do?"
    answers: dict[str, tuple[State, str]] = {
        "yes": (
            "good",
            "Worth a try: output that repeats its input suits n-gram drafts, c near 0.",
        ),
        "no": ("bad", "Unlikely: the output does not repeat its input."),
        UNKNOWN: ("unknown", "Not said: does the output repeat its input (edits, summaries)?"),
    }
    return Check(question, *answers[p.scenario.copies_input])


_QUESTIONS: tuple[Callable[[Prediction], Check], ...] = (
    _bound_by,
    _alpha_measured,
    _temperature,
    _draft_size,
    _below_crossover,
    _draft_free,
)


# ── rules of thumb ───────────────────────────────────────────────────────────────────────────


def rules(prediction: Prediction) -> tuple[Rule, ...]:
    """Use and skip rules with their reasons, and whether each holds in this scenario."""
    s, alpha = prediction.scenario, prediction.alpha
    a, worst, best = f"α≈{significant(alpha)}", alpha, alpha
    if s.alpha_low is not None and s.alpha_high is not None:
        worst, best = s.alpha_low, s.alpha_high
        a = f"α from {significant(worst)} to {significant(best)}"
    sigma, known = _slope(prediction)
    verification = "verification cost unknown" if sigma is None else f"σ={significant(sigma)}"
    prefill = _prefill_share(prediction)
    share = "time to first token unknown" if prefill is None else f"{prefill:.0%} of a request"
    return (
        Rule(
            "use",
            "Predictable output",
            "later drafted tokens survive",
            _at_both(worst >= PREDICTABLE, best >= PREDICTABLE),
            a,
        ),
        Rule(
            "use",
            "Idle arithmetic (small batch)",
            "verifying γ+1 tokens costs about what one costs",
            _is((sigma or 0) < 0.1) if known else "unknown",
            verification,
        ),
        Rule(
            "skip",
            "High entropy",
            "most drafted tokens are thrown away",
            _at_both(worst < ENTROPIC, best < ENTROPIC),
            a,
        ),
        Rule(
            "skip",
            "Large batch",
            "arithmetic is billed, and every rejected token costs",
            _is((sigma or 0) >= 0.5) if known else "unknown",
            verification,
        ),
        Rule(
            "skip",
            "Prefill-heavy or short output",
            "speculation shortens decoding only",
            "unknown" if prefill is None else _is(prefill > MOSTLY_PREFILL),
            f"first token: {share}",
        ),
    )


def _is(holds: bool) -> State:
    return "good" if holds else "bad"


def _at_both(worst: bool, best: bool) -> State:
    """A rule holds, or does not, where both ends of a range agree."""
    return _is(worst) if worst == best else "unknown"


def _prefill_share(p: Prediction) -> float | None:
    """TTFT over the whole request with plain decoding; None where a time is unknown."""
    s = p.scenario
    if s.ttft_ms is None or p.tpot_plain is None:
        return None
    if s.output_tokens == 1:  # the first token is all there is, however fast it comes
        return 1.0
    decoding_ms = (s.output_tokens - 1) * p.tpot_plain * 1e3
    return s.ttft_ms / (s.ttft_ms + decoding_ms)


# ── planning ranges ──────────────────────────────────────────────────────────────────────────


def planning_ranges(prediction: Prediction) -> tuple[PlanningRange, ...]:
    """Ranges in circulation among practitioners, beside Theorem 3.8 at this scenario's c.

    The ranges have no single published source; they are shown to be questioned, and where the
    formula disagrees the line says so.
    """
    own, most = prediction.halves.cost, prediction.scenario.max_gamma
    memory, arithmetic = LinearStepCost(own.c), LinearStepCost(own.c, own.c_hat, sigma=1.0)
    best = np.arange(1, most + 1)
    here = f"at c={significant(own.c)}, best γ up to {most}"
    return (
        _range("Single stream, α ≥ 0.8", (1.8, 2.5), (0.8, 0.9), memory, best, here),
        _range("Single stream, α 0.6–0.7", (1.3, 1.7), (0.6, 0.7), memory, best, here),
        _range("Server near saturation", (0.0, 1.0), (0.6, 0.8), arithmetic, [4], "v=γ+1, γ=4"),
        _prefill_heavy(prediction),
        _range("Copied text, n-gram", (2.0, 4.0), (0.7, 0.9), LinearStepCost(0.0), [8],
               "c=0, γ=8, every step drafted"),
    )  # fmt: skip


def _range(
    case: str,
    claimed: tuple[float, float],
    alphas: tuple[float, float],
    cost: LinearStepCost,
    gammas: ArrayLike,
    inputs: str,
) -> PlanningRange:
    over = np.asarray(gammas)
    low, high = (float(Halves(IidAcceptance(a), cost).speedup(over).max()) for a in alphas)
    where = f"α {alphas[0]:g}–{alphas[1]:g}, {inputs}"
    claim = f"{claimed[0]:g}–{claimed[1]:g}×" if claimed[0] else "~1.0× or below"
    return PlanningRange(case, claim, low, high, where, _agreement(claimed, low, high))


def _prefill_heavy(p: Prediction) -> PlanningRange:
    case, claim, share = "Prefill-heavy", "~1.0×", _prefill_share(p)
    if share is None:
        inputs = "needs the time to first token and the target's time"
        return PlanningRange(case, claim, None, None, inputs, "unknown")
    whole = 1 / (share + (1 - share) / p.speedup.value)
    inputs = f"your request: {share:.0%} of it is the first token"
    agreement = _agreement((0.95, 1.05), whole, whole)
    if share <= MOSTLY_PREFILL:
        agreement = "not your case: most of your request is decoding"
    return PlanningRange(case, claim, whole, whole, inputs, agreement)


def _agreement(claimed: tuple[float, float], low: float, high: float) -> str:
    if high < claimed[0]:
        return f"contradicted: the formula stays below, at most {ratio(high)}"
    if low > claimed[1]:
        return f"contradicted: the formula starts above, at {ratio(low)}"
    if low < claimed[0] * 0.95 or high > claimed[1] * 1.05:
        return "overlaps only"
    return "agrees"
