"""The diagnostic checklist, the use and skip rules, and the planning ranges in circulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import IidAcceptance
from specmath.numbers import count, ratio, significant
from specmath.predict import Prediction
from specmath.scenario.fields import UNKNOWN
from specmath.speculation import Speculation
from specmath.stepcost import LinearStepCost

__all__ = ["Check", "PlanningRange", "Rule", "checklist", "planning_ranges", "rules"]

State = Literal["good", "bad", "unknown"]
Advice = Literal["use", "skip"]

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

    advice: Advice
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

Answer = tuple[State, str]

_TRAFFIC: dict[str, Answer] = {
    "planned": ("bad", "No: it is a planning range, of what others measured or of your own."),
    "my_traffic": ("good", "Yes."),
    "other_traffic": ("bad", "No, on other text: acceptance moves with the text."),
    "assumed": ("bad", "No: it is assumed."),
    UNKNOWN: ("unknown", "Not said."),
}
_COPIES: dict[str, Answer] = {
    "yes": ("good", "Worth a try: output that repeats its input suits n-gram drafts, c near 0."),
    "no": ("bad", "Unlikely: the output does not repeat its input."),
    UNKNOWN: ("unknown", "Not said: does the output repeat its input (edits, summaries)?"),
}


def checklist(prediction: Prediction) -> tuple[Check, ...]:
    """The six questions to answer before believing a prediction."""
    s = prediction.scenario
    source = "planned" if s.accepts.planned else s.acceptance_source
    answers = {
        "Bound by memory or by arithmetic?": _bound_by(prediction),
        "Was acceptance measured on your traffic?": _TRAFFIC[source],
        "At which sampling temperature?": _temperature(s.temperature),
        "Is the draft about two orders smaller?": _draft_size(prediction),
        "If compute-bound: is γ below the crossover?": _below_crossover(prediction),
        "Would a draft-free method do?": _COPIES[s.copies_input],
    }
    return tuple(Check(question, *answer) for question, answer in answers.items())


def _slope(p: Prediction) -> tuple[float | None, bool]:
    """σ at the γ in use (None: unknown), and whether it is known rather than assumed."""
    s = p.scenario
    if s.costs.computed or s.verify_costs:
        return p.speculation.cost.sigma_at(max(1, p.gamma)), True
    return s.sigma, s.sigma not in (None, 0)


def _bound_by(p: Prediction) -> Answer:
    sigma, known = _slope(p)
    if sigma is None:
        return "unknown", "Unknown: taken from memory-bound to compute-bound."
    tokens = count(p.gamma + 1, "token")
    cost = significant(float(p.speculation.cost.verify(p.gamma)))
    passes = f"a pass over {tokens} is taken to cost {cost} plain steps"
    if not known:
        return "unknown", f"Assumed memory-bound: {passes}. Time one at your batch."
    if sigma < 0.5:
        return "good", f"Nearer to memory: {passes}."
    return "bad", f"Nearer to arithmetic: {passes}; extra tokens are billed."


def _temperature(t: float | None) -> Answer:
    if t is None:
        return "unknown", "Not said; acceptance usually falls as it rises."
    if t == 0:
        return "good", "Greedy: the output equals greedy decoding of the target."
    return "good", (
        f"{t:g}. If the engine drafts greedily or accepts only exact matches, "
        "what it prints is not the paper's α."
    )


def _draft_size(p: Prediction) -> Answer:
    s, cost = p.scenario, p.speculation.cost
    c = f"c is {significant(cost.c)}"
    if s.c_low is not None and s.c_high is not None:
        c = f"c is not known, {significant(s.c_low)} to {significant(s.c_high)}"
    target, draft = (1.0, cost.c_hat) if s.costs.computed else (s.target_billions, s.draft_billions)
    if target is None or draft is None:
        return "unknown", f"Sizes not given; {c}."
    times = target / draft if draft else np.inf
    if np.isinf(times):
        return "good", f"No draft weights; {c}."
    return "good" if times >= TWO_ORDERS / 2 else "bad", (
        f"{significant(times)} times smaller; {c} (a small draft is bound by launches, "
        "so c is above the ratio of sizes)."
    )


def _below_crossover(p: Prediction) -> Answer:
    crossing = p.crossover_gamma
    where = f"arithmetic outgrows speed at γ={crossing}" if crossing else "there is no crossover"
    sigma, _ = _slope(p)
    if sigma is not None and sigma < 0.5:
        return "good", f"Not compute-bound as given; {where}."
    if sigma is not None and sigma >= 1:
        return "bad", "Compute-bound: every γ ≥ 1 costs more than it saves."
    below = not crossing or p.gamma < crossing
    return "good" if below else "bad", f"γ={p.gamma}; {where}."


# ── rules of thumb ───────────────────────────────────────────────────────────────────────────

_RULES: tuple[tuple[Advice, str, str], ...] = (
    ("use", "Predictable output", "later drafted tokens survive"),
    ("use", "Idle arithmetic (small batch)", "verifying γ+1 tokens costs about what one costs"),
    ("skip", "High entropy", "most drafted tokens are thrown away"),
    ("skip", "Large batch", "arithmetic is billed, and every rejected token costs"),
    ("skip", "Prefill-heavy or short output", "speculation shortens decoding only"),
)


def rules(prediction: Prediction) -> tuple[Rule, ...]:
    """Use and skip rules with their reasons, and whether each holds in this scenario."""
    alpha = prediction.alpha
    a, worst, best = f"α≈{significant(alpha)}", alpha, alpha
    for alpha_open in (u for u in prediction.endpoint.unknown if u.field == "alpha"):
        worst, best = alpha_open.low, alpha_open.high
        a = f"α from {significant(worst)} to {significant(best)}"
    sigma, known = _slope(prediction)
    verification = "verification cost unknown" if sigma is None else f"σ={significant(sigma)}"
    prefill = _prefill_share(prediction)
    share = "time to first token unknown"
    late: State = "unknown"
    if prefill is not None:
        share, late = f"{prefill:.0%} of a request", _holds(prefill > MOSTLY_PREFILL)
    holds = (
        (_holds(worst >= PREDICTABLE, best >= PREDICTABLE), a),
        (_holds((sigma or 0) < 0.1) if known else "unknown", verification),
        (_holds(worst < ENTROPIC, best < ENTROPIC), a),
        (_holds((sigma or 0) >= 0.5) if known else "unknown", verification),
        (late, f"first token: {share}"),
    )
    return tuple(Rule(*said, *here) for said, here in zip(_RULES, holds, strict=True))


def _holds(*ends: bool) -> State:
    """A rule holds, or does not, where the ends of a range agree."""
    return "good" if all(ends) else "unknown" if any(ends) else "bad"


def _prefill_share(p: Prediction) -> float | None:
    """TTFT over the whole request with plain decoding; None where a time is unknown."""
    if p.scenario.ttft_ms is None or p.first_token is None or p.whole_request is None:
        return None
    if p.scenario.output_tokens == 1:  # the first token is all there is, however fast it comes
        return 1.0
    return p.first_token[0].value / p.whole_request[0].value


# ── planning ranges ──────────────────────────────────────────────────────────────────────────


def planning_ranges(prediction: Prediction) -> tuple[PlanningRange, ...]:
    """Ranges in circulation among practitioners, beside Theorem 3.8 at this scenario's c.

    The ranges have no single published source; they are shown to be questioned, and where the
    formula disagrees the line says so.
    """
    own, most = prediction.speculation.cost, prediction.scenario.max_gamma
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
    case: str, claimed: tuple[float, float], alphas: tuple[float, float],
    cost: LinearStepCost, gammas: ArrayLike, inputs: str,
) -> PlanningRange:  # fmt: skip
    over = np.asarray(gammas)
    low, high = (float(Speculation(IidAcceptance(a), cost).speedup(over).max()) for a in alphas)
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
