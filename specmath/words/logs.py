"""What a log answers, in words: is my printed rate α, which γ, which overhead, is the drafter
broken. The numbers are those of `specmath.review`."""

from __future__ import annotations

from specmath.checks import InputError
from specmath.logs.reading import Reading, Route
from specmath.numbers import count, faster, ratio, significant
from specmath.review import diagnosis
from specmath.review.comparable import OtherLoad
from specmath.review.diagnosis import Diagnosis, Finding
from specmath.review.gammas import Mixing, mixing
from specmath.review.into_scenario import (
    Shape,
    endpoint_of,
    expected_of,
    scenario_from,
    shape_of,
)
from specmath.review.observed import Speed, tokens_per_pass
from specmath.review.overhead import Overhead, overhead_of
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint
from specmath.scenario.faults import in_words
from specmath.speculation import Action
from specmath.theorems import alpha_from_accepted_share, expected_tokens
from specmath.words.notes import basis_words
from specmath.words.said import Said, State
from specmath.words.verdict import NOISE, best_at_ends

__all__ = ["GAMMA", "answer_all", "handed_on", "left_behind", "load_words", "printed_rate"]

GAMMA = "Raise or lower γ?"
OVERHEAD = "Which overhead eats the gain?"
DRAFTER = "Is the drafter broken, or the text hard?"
PRINTED = "Is my printed acceptance rate α?"


def answer_all(
    reading: Reading, base: Scenario, speed: Speed | None = None, shape: Shape | None = None, *,
    plain_given: bool = False,
) -> tuple[Said, ...]:  # fmt: skip
    """Every answer that this reading and the costs of `base` allow, in the order people ask.

    `plain_given`: the speed of a plain run is known, so that only this run's can be missing.
    """
    if reading.tokens_per_step is None and reading.drafted is None and reading.alpha is None:
        return ()
    endpoint: Endpoint | None = None
    try:
        endpoint = endpoint_of(reading, base, speed, shape)
    except InputError as error:
        gamma = Said(GAMMA, "unknown", "Not from this log.", (in_words(str(error)),))
    else:
        gamma = _gamma(reading, endpoint, speed, shape)
    overhead = _overhead(reading, base, endpoint, speed, shape, plain_given)
    judged = diagnosis.diagnose(reading)
    drafter = () if judged is None else (_drafter(judged),)
    return printed_rate(reading), gamma, overhead, *drafter


def load_words(load: OtherLoad) -> str:
    """Which of the runs at several concurrencies was taken, or that the load is another."""
    took = significant(load.took)
    if load.other is None:
        return (
            f"{load.name} holds runs at several concurrencies, and the other side does not tell "
            f"its own: {took}, the lowest, was taken"
        )
    other = significant(load.other)
    return f"Another concurrency: {load.name} {took}, the other side {other}"


def handed_on(
    reading: Reading, base: Scenario, shape: Shape | None = None, speed: Speed | None = None
) -> tuple[str, ...]:
    """What the calculator does not know of this log, to be said beside the way into it."""
    gamma = reading.gamma
    if gamma is None:
        return ("The log does not print γ: the calculator keeps the γ of the scenario",)
    scenario_from(reading, base, shape)  # refuses what cannot be handed on
    notes = () if speed is None else left_behind(reading, base, speed, shape)
    if shape_of(reading, shape) == "chain":
        return notes
    return (
        *notes,
        f"The log tells of γ={gamma} only: what the calculator says of another γ supposes that "
        "each position is accepted alike, and this log does not support it",
    )


def left_behind(
    reading: Reading, base: Scenario, speed: Speed, shape: Shape | None = None
) -> tuple[str, ...]:
    """That a scenario has no place for the cost which a plain run shows, where it is another."""
    if reading.gamma is None:
        return ()
    ours = float(endpoint_of(reading, base, None, shape).curves[0][reading.gamma])
    if abs(ours - speed.speedup) < SAME * speed.speedup:
        return ()
    return (
        f"What the plain run shows stays with the log: at the costs of the scenario γ="
        f"{reading.gamma} is {faster(ours)}, observed was {faster(speed.speedup)}",
    )


# ── is my printed X% α? ──────────────────────────────────────────────────────────────────────


def printed_rate(reading: Reading) -> Said:
    """Accepted ÷ drafted beside α, and τ with the bonus token said."""
    share = reading.accepted_share
    because = []
    if reading.tokens_per_step is not None:
        because.append(
            f"Tokens per step {significant(reading.tokens_per_step)}, the bonus or correction "
            f"token included; {significant(reading.tokens_per_step - 1)} accepted drafts without it"
        )
    if reading.alpha is None:
        said = "" if share is None else f" from {share:.1%} accepted ÷ drafted"
        why = "a token tree has no single α" if reading.tree else "α follows once γ is given"
        if reading.alpha_interval is not None:
            low, high = (significant(end) for end in reading.alpha_interval)
            why = f"drafts stop early, and what is counted allows α from {low} to {high}"
            because.append(str(reading.interval_basis))
        return Said(PRINTED, "unknown", f"Unknown{said}: {why}.", tuple(because))
    because += [*_apart(reading), *_inverted(reading, share)]
    because.append(f"α obtained {_HOW.get(reading.alpha_route, f'by: {reading.alpha_basis}')}")
    if reading.alpha_interval is not None:
        low, high = (significant(end) for end in reading.alpha_interval)
        because.append(f"α from {low} to {high} ({reading.interval_basis})")
    elif reading.interval_basis is not None:
        because.append(f"How far α may be off: {reading.interval_basis}")
    alpha = significant(reading.alpha)
    state: State = "info"
    if share is None:
        text = f"α ≈ {alpha}; no rate is printed here."
    elif reading.alpha_route == "per token":
        text = f"Nearly: this engine prints a per-token rate, α ≈ {alpha}."
    elif abs(share - reading.alpha) < 0.005:
        state, text = "good", f"Here yes: accepted ÷ drafted is {share:.1%} and α is {alpha}."
    else:
        text = f"No: {share:.1%} is accepted ÷ drafted. α is {alpha}."
    return Said(PRINTED, state, text, tuple(because))


_HOW: dict[Route | None, str] = {
    "per position": "from the per-position rates: accepted ÷ (accepted + rejected)",
    "histogram": "from the histogram: accepted ÷ (accepted + rejected)",
    "per token": "from the printed per-token rate",
}


def _apart(reading: Reading) -> list[str]:
    """What α would make of every position alike, where the log's own count is another."""
    tokens, gamma = reading.tokens_per_step, reading.gamma
    if reading.survival or reading.alpha is None or tokens is None or gamma is None:
        return []
    alike = float(expected_tokens(reading.alpha, gamma))
    if abs(alike - tokens) < 0.01 * tokens:
        return []
    return [
        f"This α, alike at every position, would give {significant(alike)} tokens per step at "
        f"γ={gamma}; the answers below and the calculator take the {significant(tokens)} that the "
        "log counts"
    ]


def _inverted(reading: Reading, share: float | None) -> list[str]:
    full = reading.drafted_per_step in (None, reading.gamma)
    if share is None or not reading.gamma or not full or reading.alpha_route == "share":
        return []
    inverted = float(alpha_from_accepted_share(share, reading.gamma))
    return [
        f"Inverted from the share alone, as if every position were alike: α = "
        f"{significant(inverted)} at γ={reading.gamma}"
    ]


# ── raise or lower γ? ────────────────────────────────────────────────────────────────────────

COST_OPEN = "Acceptance is known from the log; time both models, or give the plain run's ITL"
COST_SPLIT = (
    "The plain run tells the whole pass; time both models to know what a further token costs"
)
SAME = 0.005
"""Ends closer than this share are one number on screen."""

NEARLY_ALL = 0.9995
"""A coverage beyond it is written as 100%: every step had a draft."""

_STATES: dict[Action, State] = {
    "use": "good", "skip": "bad", "measure": "unknown", "lower": "info", "raise": "info",
}  # fmt: skip

NO_OTHER_GAMMA: dict[Shape, str] = {
    "chain": "",
    "tree": "a token tree: another size grows another tree, so its rates say nothing of it",
    "parallel": "all positions come from one pass, and its training fits one block length: a "
    "shorter block is another draft",
    "stops": "drafts stop early (confidence, or nothing more found): a position that was not "
    "tried counts as lost, so the rates understate the text at that position",
}


def _gamma(reading: Reading, endpoint: Endpoint, speed: Speed | None, stated: Shape | None) -> Said:
    """Which γ the log advises; at the γ that ran, what a plain run beside it showed."""
    shape, ran = shape_of(reading, stated), reading.gamma
    if ran is None:
        return _without_gamma(endpoint)
    seen = speed is not None
    if shape != "chain":
        return _only(endpoint, ran, shape, seen=seen)
    action, gamma = endpoint.decision.action, endpoint.decision.gamma
    costs = _costs(endpoint, ran) if seen else []
    if action == "measure":
        open_end = COST_SPLIT if seen else COST_OPEN
        because = [_ends(endpoint, ran, seen=seen), *costs, open_end]
    else:
        because = [_why(endpoint, ran, gamma), *costs]
        if endpoint.open and not (seen and gamma == ran):
            because.append(f"γ={gamma}: {_span(endpoint, gamma)}")
    if gamma > ran:
        because.append(
            f"Extrapolated: the log ends at γ={ran}; each further token is taken to be "
            "accepted as the last one was. Go up one or two at a time and review"
        )
    elif 0 < gamma < ran and reading.survival:
        because.append(f"Read off the log: the rates measured at γ={ran}, cut at γ={gamma}")
    if not reading.survival:
        because.append(
            "This log has no per-position rates: every position is taken to be accepted alike, "
            "and later ones seldom are, so a larger γ is worth less than it looks"
        )
    if gamma != ran and (mixed := mixing(reading)) is not None:
        because.append(_mixed(mixed))
    if (share := endpoint.speculation.coverage) < NEARLY_ALL:
        here, part = _here(endpoint, ran, seen=seen), significant(100 * share)
        because.append(f"{part}% of the steps had a draft: over all steps {here}")
    return Said(GAMMA, _STATES[action], _headline(endpoint, ran, seen=seen), (*because,))


def _only(endpoint: Endpoint, ran: int, shape: Shape, *, seen: bool) -> Said:
    """A draft of which no other γ follows: what is known of the γ that ran."""
    said = f"Only γ={ran} can be judged from this log: {_here(endpoint, ran, seen=seen)}."
    state: State = "good"
    if not seen:
        state, said = "unknown", f"{said} Run the other γ and review."
    elif endpoint.curves[0][ran] < 1:
        state, said = "bad", f"{said} Leave it off, or run another γ and review."
    return Said(GAMMA, state, said, (f"Refused for {NO_OTHER_GAMMA[shape]}",))


def _without_gamma(endpoint: Endpoint) -> Said:
    """α alone, as a per-token rate: no γ ran that could be raised or lowered."""
    action, gamma = endpoint.decision.action, endpoint.recommended
    because = ["Every position is taken to be accepted alike, and later ones seldom are"]
    if action == "measure":
        text = "Which γ is best depends on the draft cost."
        because.insert(0, _ends(endpoint, None, seen=False))
    elif action == "skip":
        text = "By α alone no γ beats plain decoding."
    else:
        text = f"By α alone γ={gamma} would do best: {_span(endpoint, gamma)}."
    return Said(GAMMA, "unknown", f"The γ that ran is not printed: give it. {text}", (*because,))


def _headline(endpoint: Endpoint, ran: int, *, seen: bool) -> str:
    action, gamma = endpoint.decision.action, endpoint.decision.gamma
    (centre, low, _), observed = endpoint.curves, ", as observed" if seen else ""
    now, then = faster(float(centre[ran])), faster(float(centre[gamma]))
    if action == "use":
        return f"Keep γ={ran}: {now}{observed}."
    if action == "skip":
        return f"Leave it off: γ={ran} is {now}{observed}."
    if action == "measure":
        if seen:
            return f"γ={ran} is {now}{observed}; of another γ the log does not tell enough."
        return "Measure first: the answer depends on what you do not know."
    if low[ran] > 1 and centre[gamma] <= NOISE * centre[ran]:
        return (
            f"Keep γ={ran} or run γ={gamma}: {now}{observed}, and {then}, which two runs do not "
            "tell apart."
        )
    return f"{action.capitalize()} γ to {gamma}: {then} instead of {now} at γ={ran}{observed}."


def _why(endpoint: Endpoint, ran: int, gamma: int) -> str:
    ours = endpoint.speculation

    def at(gamma: int) -> str:
        tokens, cost = (significant(float(of(gamma))) for of in (ours.tokens, ours.cost.total))
        return f"{tokens} tokens in {cost} plain steps at γ={gamma}"

    parts = map(at, dict.fromkeys((ran, gamma or ran)))
    return f"A pass emits {', '.join(parts)}: it pays while it emits more than it costs"


def _costs(endpoint: Endpoint, ran: int) -> list[str]:
    """Where the cost of a pass comes from once a plain run tells it."""
    cost = endpoint.speculation.cost
    implied = float(cost.total(ran))
    rest = implied - float(cost.verify(ran) + cost.draft(ran))
    how = "scaled down, because this run cost less than the scenario says"
    if rest >= 0:
        how = (
            "the scenario's verification and drafting of that γ, plus the "
            f"{significant(rest)} that they leave unexplained at γ={ran}"
        )
    return [
        f"Cost of a pass: {significant(implied)} plain steps at γ={ran}, as observed; at another "
        f"γ {how}"
    ]


def _ends(endpoint: Endpoint, ran: int | None, *, seen: bool) -> str:
    """What the γ that risks least gives at each end of the unknown, and the best of all."""
    (low, high), (least, most) = endpoint.curves[1:], best_at_ends(endpoint)
    worst = ratio(float(low[least])) if low[least] > 1 else "no γ pays"
    best = f"γ={most} gives {ratio(float(high[most]))}"
    if ran is None or seen:
        return f"With {basis_words(endpoint.basis)}: at the worst {worst}, at the best {best}"
    return f"γ={ran} gives {_span(endpoint, ran)}: at the worst {worst}, at the best {best}"


def _span(endpoint: Endpoint, gamma: int) -> str:
    centre, low, high = (float(curve[gamma]) for curve in endpoint.curves)
    if high - low < SAME * high:
        return faster(centre)
    return f"{ratio(low)} to {ratio(high)} ({basis_words(endpoint.basis)})"


def _here(endpoint: Endpoint, ran: int, *, seen: bool) -> str:
    """The speedup over all steps at the γ that ran."""
    if seen:
        return f"{faster(float(endpoint.curves[0][ran]))}, as observed"
    return _span(endpoint, ran)


def _mixed(found: Mixing) -> str:
    if found.gain is None:
        return (
            "Later tokens are accepted more often than the first: easy and hard text are mixed, "
            "and a smaller γ does somewhat better than the cut rates say"
        )
    return (
        f"Requests are mixed (tokens per step {significant(found.p10)} to "
        f"{significant(found.p90)}): a smaller γ does up to {found.gain:.0%} better than the cut "
        "rates say"
    )


# ── which overhead eats the gain? ────────────────────────────────────────────────────────────

REST = (
    "the rest is what neither covers: scheduling, rejection sampling, host gaps between draft and "
    "target, a draft that runs eagerly, or a verification dearer than the scenario says"
)


def _overhead(
    reading: Reading, base: Scenario, endpoint: Endpoint | None, speed: Speed | None,
    stated: Shape | None, plain_given: bool,
) -> Said:  # fmt: skip
    if speed is None:
        need = tokens_per_pass(reading)
        text = "Give the plain run beside it: its tokens per second or its ITL."
        if plain_given:
            text = (
                "Give this run's own time per token or tokens per second as well: the log does not "
                "tell it in the unit of the plain run."
            )
        if need is not None:
            text += f" It pays while a decode pass costs less than {significant(need)} plain steps."
        return Said(OVERHEAD, "unknown", text)
    seen = f"Observed: {faster(speed.speedup)} ({speed.basis})"
    if endpoint is None:
        return Said(OVERHEAD, "unknown", f"{seen}.")
    try:
        expected = expected_of(reading, base, stated, step_seen=True)
        found = overhead_of(reading, expected, speed)
    except InputError as error:
        return Said(OVERHEAD, "unknown", f"{seen}.", (in_words(str(error)),))
    chain = shape_of(reading, stated) == "chain"
    reach = _reachable(endpoint, found, reading.gamma or 0, chain=chain)
    state: State = "good" if speed.speedup > 1 else "bad"
    headline = f"A pass costs {significant(found.implied)} plain steps. {reach}"
    return Said(OVERHEAD, state, headline, (seen, *_split(endpoint, found)))


def _split(endpoint: Endpoint, found: Overhead) -> list[str]:
    where = "expected by the scenario's c and verification cost"
    if endpoint.pair:
        where = f"expected on {endpoint.scenario.gpu}"
    rest, *ends = map(_signed, (found.rest, found.rest_low, found.rest_high))
    if found.rest_high - found.rest_low >= 1e-9:
        rest += f" ({' to '.join(ends)} over what the scenario leaves unknown)"
    because = [
        f"{significant(found.tokens)} tokens a pass ÷ {ratio(found.speed.speedup)} = "
        f"{significant(found.implied)} plain steps",
        f"verification {significant(found.verification)} and drafting with overhead "
        f"{significant(found.drafting)} {where}; unexplained {rest} plain steps",
    ]
    if found.drafting_measured is not None:
        because.append(
            f"the engine's own drafting time is {significant(found.drafting_measured)} plain steps"
        )
    cheaper = "cheaper than the scenario says: its c or verification cost is too high"
    within = "within what the scenario leaves unknown: nothing is left to explain"
    because.append(
        REST if found.rest_low > 0.05 else cheaper if found.rest_high < -0.05 else within
    )
    return because


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{significant(abs(value))}"


def _reachable(endpoint: Endpoint, found: Overhead, ran: int, *, chain: bool) -> str:
    """Whether this γ, or for a chain any γ, breaks even at the costs that the run showed."""
    if found.speed.speedup > 1:
        return "It pays."
    better = endpoint.recommended if chain else 0
    if better and endpoint.curves[2][better] > 1:
        centre, low, high = (float(curve[better]) for curve in endpoint.curves)
        gives = faster(centre)
        if high - low > 0.01:
            gives = f"{ratio(low)} to {ratio(high)} with what is unknown"
        return f"Break-even may be reachable: γ={better} should give {gives}."
    if found.ceiling <= 1:
        return (
            f"Break-even is out of reach at γ={ran}: it would not pay if every drafted "
            "token were accepted. Cut the overhead, or leave it off."
        )
    all_kept = f"Every drafted token accepted at γ={ran} would give {ratio(found.ceiling)}."
    if not chain:
        return f"It does not pay at γ={ran}. {all_kept}"
    return (
        "No γ breaks even with this overhead and this acceptance; the nearest is "
        f"γ={found.best_gamma}, {faster(found.best_speedup)}. {all_kept}"
    )


# ── is the drafter broken? ───────────────────────────────────────────────────────────────────

_JUDGED: dict[Finding, tuple[State, str]] = {
    "sound": ("good", "The drafter works"),
    "broken": ("bad", "The drafter looks broken"),
    "later positions": ("info", "Sound at the first token, poor after it"),
    "hard text": ("info", "The drafter works; part of the text is hard"),
    "weak": ("bad", "A weak drafter for this text"),
    "too little": ("unknown", "Too few drafts to tell sound from weak or broken"),
}

REASONS: dict[Finding, str] = {
    "broken": (
        f"below {diagnosis.BROKEN}: 0–2% is what was reported where the draft did not fit its "
        "target (another tokenizer or chat template, wrong or quantised head weights, hidden "
        "states of the wrong layer), or where greedy drafts meet sampling (vLLM 41789 and 58080, "
        "omlx 3370, llama.cpp 26750). Hard text does not do that: even a draft of 10M parameters "
        "reached 0.23"
    ),
    "later positions": (
        f"the conditional rate falls below {diagnosis.COLLAPSE} of the first position's: a "
        "head trained for one token and applied again on its own output does that; each position "
        "of a sound draft loses a little"
    ),
    "weak": (
        f"below {diagnosis.WEAK}: the lowest α that Leviathan et al. 2023 (Table 2) measured for a "
        "small separate draft model is 0.53, and a 2-layer draft of 10M parameters had 0.23. A "
        f"lookup is counted as weak below {diagnosis.WEAK_LOOKUP} (n-gram drafts measured 0.15 to "
        "0.70)"
    ),
    "hard text": (
        f"the same drafter does {diagnosis.SOUND} or better on part of this traffic: it works, and "
        "the rest of the text is hard for it"
    ),
    "sound": f"at least {diagnosis.WEAK} of the tried tokens are accepted: nothing points to a "
    "fault",
    "too little": (
        "the interval, steps taken as independent, reaches over a bound between findings (broken "
        f"below {diagnosis.BROKEN}, weak below {diagnosis.WEAK}, for a lookup "
        f"{diagnosis.WEAK_LOOKUP}): give a longer log"
    ),
}


_LEVELS = {
    "first position": "first position accepted", "alpha": "α", "at least": "α at least",
    "share": "accepted ÷ drafted",
}  # fmt: skip


def _drafter(found: Diagnosis) -> Said:
    state, text = _JUDGED[found.finding]
    return Said(DRAFTER, state, f"{text}: {_seen(found)}.", (REASONS[found.finding],))


def _seen(found: Diagnosis) -> str:
    seen = f"{_LEVELS[found.level]} {significant(found.value)}"
    if found.drafted is not None and found.interval is not None:
        low, high = (significant(end) for end in found.interval)
        return f"{count(found.drafted, 'drafted token')}, {seen} (95% from {low} to {high})"
    if found.position is not None:
        worst = significant(found.rate)
        return f"{seen}, position {found.position} given the one before {worst}"
    if found.best is None:
        return seen
    best = significant(found.best.value)
    if found.best.measure is None:
        return f"{seen}, but {best} in its best window"
    measure = found.best.measure.replace("_", " ")
    return f"{seen}, but a tenth of the requests have {measure} ≥ {best}"
