"""The answer in words: use, change γ, skip or measure first; why, and what would flip it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from specmath.acceptance import IidAcceptance
from specmath.numbers import faster, ratio, significant
from specmath.predict import Prediction
from specmath.rollout.breakeven import at_break_even
from specmath.scenario.endpoint import Endpoint
from specmath.sensitivity import Gap, Share, shares
from specmath.speculation import ROUNDING, Action
from specmath.words.notes import basis_words, load_words

__all__ = ["MEASUREMENTS", "Measurement", "Verdict", "best_at_ends", "ground_words", "verdict"]

NOISE = 1.03
"""A gain below 3% is not seen between two runs of a server."""

_ACCEPTANCE = {
    "Your own pair of models": "python -m specmath measure --target FOLDER --draft FOLDER",
    "vLLM": "curl -s http://localhost:8000/metrics | grep spec_decode",
    "SGLang": "curl -s http://localhost:30000/metrics | grep spec_",
    "llama.cpp": "curl -s http://localhost:8080/metrics | grep spec_decode",
}
"""Off a running server by engine (llama.cpp needs --metrics)."""

_TIMES = {"Your own pair of models": _ACCEPTANCE["Your own pair of models"]}


@dataclass(frozen=True)
class Measurement:
    """What ends a gap: what the number is called, how to find it, commands that do."""

    name: str
    how: str
    commands: Mapping[str, str]


MEASUREMENTS: dict[Gap, Measurement] = {
    "acceptance": Measurement(
        "acceptance", "Read it off a running server, with the rate of each position", _ACCEPTANCE
    ),
    "prompt_tokens": Measurement(
        "the prompt length", "Give the mean prompt tokens a request",
        {
            "vLLM": "curl -s http://localhost:8000/metrics | grep request_prompt_tokens_",
            "SGLang": "curl -s http://localhost:30000/metrics | grep -e prompt_tokens -e requests",
        },
    ),
    "step_cost": Measurement(
        "what a speculative step costs here",
        "Run one load with speculation and one without, at this load; give the plain time, and of "
        "the run its γ, time per token and tokens per step",
        {
            "Two servers, the plain one without speculation": "python -m specmath measure server "
            "http://127.0.0.1:8000 --plain-url http://127.0.0.1:8001 --concurrency {concurrency}"
        },
    ),
    "plain_step": Measurement(
        "the plain time per token",
        "Time the same load without speculation; give it beside the run that you timed",
        {"A server without speculation": "python -m specmath measure server "
         "http://127.0.0.1:8001 --concurrency {concurrency}"},
    ),
    "c": Measurement("the draft's cost", "Time the draft and the target", _TIMES),
    "sigma": Measurement(
        "what verification costs",
        "Time a pass over γ+1 tokens beside a plain step at your batch", _TIMES,
    ),
    "besides": Measurement(
        "what a step costs besides drafting",
        "Time one speculative step beside a plain one, or a pass over γ+1 tokens", _TIMES,
    ),
    "c_hat": Measurement(
        "the draft's arithmetic", "Count the parameters of both models", _TIMES
    ),
}  # fmt: skip

NEARLY_ALL = 0.98
FREE = 0.1
"""A share of the interval from which a number is asked for that costs nothing to look up."""


@dataclass(frozen=True)
class Verdict:
    """A decision in words: the answer, the reason, what would flip it, what its range is over, and
    the load it is for."""

    action: Action
    gamma: int
    speedup: float
    headline: str
    reason: str
    flips: str
    ground: str = ""
    load: str = ""
    commands: tuple[tuple[str, str], ...] = ()

    def sentence(self) -> str:
        """All of it, as one paragraph."""
        return " ".join(
            filter(None, (self.headline, self.reason, self.flips, self.ground, self.load))
        )


def verdict(prediction: Prediction) -> Verdict:
    """The decision of a prediction, said.

    Examples
    --------
    >>> from specmath import EXAMPLE, predict
    >>> verdict(predict(EXAMPLE)).headline
    'Turn it on at γ=5: 2.28× faster; γ=4 (2.22×) does as well.'
    """
    action, gamma = prediction.decision.action, prediction.decision.gamma
    speedup = float(prediction.curve.walltime_improvement[gamma])
    commands = _commands(prediction) if action == "measure" else ()
    said = _WORDS[action](prediction)
    around = ground_words(prediction), load_words(prediction)
    return Verdict(action, gamma, speedup, *said, *around, commands)


# ── headline, reason and what flips it, for each action ──────────────────────────────────────

Words = tuple[str, str, str]


def _use(p: Prediction) -> Words:
    gamma, cap = p.decision.gamma, p.endpoint.cap
    advised, top = (float(p.curve.walltime_improvement[g]) for g in (gamma, p.best_gamma))
    reason, why = f"{_range(p, gamma)} {_per_step(p, gamma)}", "it may not pay at all."
    if top <= NOISE * advised:
        why = "too little more for its extra arithmetic."
    elif p.best_gamma > cap:
        why = f"nothing that ran or was trained for supports advice beyond γ={cap}."
    if p.best_gamma != gamma:
        reason += f" γ={p.best_gamma} is the fastest, {ratio(top)}: {why}"
    return f"Turn it on {_at(p, gamma)}: {faster(advised)}.", reason, _holds(p, gamma)


def _at(p: Prediction, gamma: int) -> str:
    return f"at γ={gamma}" if p.scenario.tree is None else f"with the tree {p.scenario.tree}"


def _move(p: Prediction) -> Words:
    s, target = p.scenario, p.decision.gamma
    now, then = (float(p.curve.walltime_improvement[gamma]) for gamma in (p.gamma, target))
    if p.gamma == 0:
        headline = f"Turn it on with γ={target}: {faster(then)}."
        reason = _per_step(p, target)
    elif then <= NOISE * now and now > 1:
        same = f"γ={p.gamma} ({ratio(now)}) does as well"
        headline = f"Turn it on at γ={target}: {faster(then)}; {same}."
        reason = "The difference does not show between two runs of a server"
        reason += ", and fewer drafted tokens cost less arithmetic." if target < p.gamma else "."
    else:
        verb = p.decision.action.capitalize()
        headline = f"{verb} γ to {target}: {faster(then)} instead of {faster(now)} at γ={p.gamma}."
        reason = _why_move(p, target)
    if s.accepts.measured and target != s.measured_gamma:
        reason += f" Acceptance is known at γ={s.measured_gamma} only: {_positions(p, target)}."
    return headline, f"{_range(p, target)} {reason}", _holds(p, target)


def _positions(p: Prediction, gamma: int) -> str:
    """How acceptance is carried from the γ at which it was measured to another."""
    falls = any(u.field in ("past_depth", "past_measured") for u in p.endpoint.unknown)
    if falls and gamma > (p.scenario.measured_gamma or 0):
        return "past it, it falls as others measured"
    return "this takes every position alike"


def _why_move(p: Prediction, target: int) -> str:
    cost = p.speculation.cost
    # What one more drafted token adds to the step, plain steps: its drafting and verification.
    marginal = cost.total(2) - cost.total(1) if cost.reach > 1 else cost.total(1) - 1
    alpha, each = significant(p.alpha), significant(float(marginal))
    if target < p.gamma:
        return (
            f"At α≈{alpha} the last draft tokens add less than the {each} of a plain step that "
            f"each costs. {_per_step(p, p.gamma)}"
        )
    return (
        f"At α≈{alpha} further draft tokens survive often enough to pay for the {each} of a plain "
        "step that each costs."
    )


def _skip(p: Prediction) -> Words:
    over, curve = p.endpoint.advisable, p.curve.walltime_improvement
    best = int(over[np.argmax(curve[over])])
    near = faster(float(curve[best]))
    reason = (
        f"No γ from 1 to {over[-1]} beats plain decoding; the nearest is γ={best}, {near}."
        if p.scenario.tree is None
        else f"The tree {p.scenario.tree} does not beat plain decoding: {near}."
    )
    return "Leave it off.", reason, _would_pay(p)


def best_at_ends(endpoint: Endpoint) -> tuple[int, int]:
    """The γ that is best at the low end of the unknown, and the γ that is at the high end."""
    over = endpoint.advisable
    low, high = (int(over[np.argmax(ends[over])]) for ends in endpoint.curves[1:])
    return low, high


def _measure(p: Prediction) -> Words:
    (low, high), (least, most) = p.endpoint.curves[1:], best_at_ends(p.endpoint)
    if low[least] > 1:
        return _prompts_decide(p, least)
    best = f", at the best γ={most} reaches {ratio(float(high[most]))}" if most != least else ""
    reason = (
        f"γ={least}, which risks least, gives {ratio(float(low[least]))} to "
        f"{ratio(float(high[least]))}: at the worst no γ pays{best}."
        if p.scenario.tree is None
        else f"The tree {p.scenario.tree} gives {ratio(float(low[least]))} to "
        f"{ratio(float(high[most]))}."
    )
    if p.scenario.tree is None and (ours := float(high[p.gamma])) < 1:
        reason += f" γ={p.gamma} does not pay whatever it is: {faster(ours)} at best."
    headline = "Measure first: whether it pays depends on what you do not know."
    return headline, reason, _what_decides(p)


def _prompts_decide(p: Prediction, gamma: int) -> Words:
    """Tokens are faster at the worst, at the γ that risks least; requests are not."""
    least, whole = (float(a[gamma]) for a in (p.endpoint.curves[1], p.endpoint.whole))
    return (
        "Measure first: tokens come faster, whole requests do not.",
        f"At γ={gamma} each token after the first comes {faster(least)} at the worst, "
        f"and a whole request takes {1 / whole:.3g} times as long: prompts are what this "
        "server spends its time on.",
        "Run one load with speculation and one without, at this load, and compare their requests "
        "a second.",
    )


_WORDS = {"use": _use, "lower": _move, "raise": _move, "skip": _skip, "measure": _measure}


def _gaps(p: Prediction) -> tuple[Share, ...]:
    """At the γ that risks least; where nothing is open there, at the one that is known least."""
    (low, high), over = p.endpoint.curves[1:], p.endpoint.advisable
    widest = int(over[np.argmax(high[over] / low[over])])
    return shares(p.endpoint, p.decision.gamma) or shares(p.endpoint, widest)


def _what_decides(p: Prediction) -> str:
    """The one thing to find out first, and the prompt's length where that counts too."""
    first, *rest = _gaps(p)
    found = MEASUREMENTS[first.gap]
    part = "all" if first.share > NEARLY_ALL else f"{first.share:.0%}"
    said = f"What decides is {found.name}: knowing it takes {part} of that range away. {found.how}."
    free = [each.share for each in rest if each.gap == "prompt_tokens" and each.share >= FREE]
    more = [f" The prompt length, which only has to be looked up, takes {s:.0%}." for s in free]
    return said + "".join(more)


def _commands(p: Prediction) -> tuple[tuple[str, str], ...]:
    """What measures the thing that decides."""
    found = MEASUREMENTS[_gaps(p)[0].gap].commands
    load = p.scenario.in_flight
    return tuple((where, command.format(concurrency=load)) for where, command in found.items())


def _per_step(p: Prediction, gamma: int) -> str:
    tokens, cost = (float(a[gamma]) for a in (p.curve.tokens_per_step, p.curve.step_cost))
    what = f"A step of γ={gamma}" if p.scenario.tree is None else "A step"
    return (
        f"{what} emits {significant(tokens)} tokens and takes {significant(cost)} times as long as "
        "a plain one."
    )


def _range(p: Prediction, gamma: int) -> str:
    """The ends of the speedup at γ, or that it has none."""
    if p.curve.low is None or p.curve.high is None:
        return f"{basis_words(p.speedup.basis).capitalize()}."
    least, most = (ratio(float(ends[gamma])) for ends in (p.curve.low, p.curve.high))
    return f"From {least} to {most}." if least != most else "The same whatever is open."


def ground_words(p: Prediction) -> str:
    """What the range of the speedup is over; empty where it has none."""
    if p.curve.low is None:
        return ""
    return f"The range is over what is not known: {basis_words(p.speedup.basis)}."


# ── what flips it ────────────────────────────────────────────────────────────────────────────


def _holds(p: Prediction, gamma: int) -> str:
    """The break-evens at γ, each beside what it is now."""
    alpha, c, least = _break_even(p, gamma)
    tokens = float(p.curve.tokens_per_step[gamma])
    limits = [f"{significant(least)} tokens per step ({significant(tokens)} now)"]
    if isinstance(p.speculation.drafted, IidAcceptance) and alpha is not None:
        limits = [f"α = {significant(alpha)} ({significant(p.alpha)} now)"]
    limits[0] = f"below {limits[0]}"
    if c is not None:
        limits.append(f"above c = {significant(c)} ({significant(p.speculation.cost.c)} now)")
    turns = f"t turns slower {' or '.join(limits)}."
    return f"I{turns}" if p.curve.low is None else f"{_centre(p.endpoint)} i{turns}"


def _break_even(p: Prediction, gamma: int) -> tuple[float | None, float | None, float]:
    """As `Speculation.breakeven`; in an open loop, whose load follows the speed, of the state in
    which both arms take equally long: a slower arm has more requests in a step."""
    load = p.endpoint.load
    if load is None or load.requests.loop != "open":
        return p.speculation.breakeven(gamma)
    equal = at_break_even(p.endpoint, gamma).speculation
    alpha, _, least = equal.breakeven(gamma)
    left = 1.0 + equal.plain_waiting - float(equal.waits(gamma))
    c = equal.cost.largest_c(gamma, (float(p.curve.tokens_per_step[gamma]) - least) * left)
    return alpha, c if c is None or c >= 0 else None, least


def _centre(endpoint: Endpoint) -> str:
    """Where in what is open the speedup stands that is said first."""
    bare = "where a step costs nothing besides drafting"
    fields = {unknown.field for unknown in endpoint.unknown}
    if "besides" not in fields:
        return "At the centre of the range"
    if fields == {"besides"}:
        return f"{bare.capitalize()},"
    return f"At the centre of the range, and {bare},"


def _would_pay(p: Prediction) -> str:
    """The easiest way to 1×: the γ that needs the least α, and the γ that allows the largest c."""
    if p.scenario.tree is not None:
        tokens = p.speculation.breakeven(p.gamma)[2]
        return f"It would pay above {significant(tokens)} tokens a step."
    top = min(p.scenario.max_gamma, p.speculation.reach)
    options = [(g, *p.speculation.breakeven(g)[:2]) for g in range(1, top + 1)]
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
