"""A plan in sentences: what to do with each endpoint, what it costs, where one γ is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.estimate import Estimate
from specmath.evidence import switching
from specmath.numbers import count, faster, interval, ms, ratio, significant, usd
from specmath.plan.by_request import ByRequest
from specmath.plan.decided import Do, EndpointAnswer, PlanAnswer, SegmentAnswer
from specmath.predict import Prediction
from specmath.scenario import SPECS
from specmath.words.acceptance import kind_words, range_notes, work_words
from specmath.words.capacity import (
    LIMITS,
    capacity_sentence,
    fleets_words,
    gamma_words,
    promise,
)
from specmath.words.pools import pool_remarks
from specmath.words.said import Said, State
from specmath.words.verdict import verdict

__all__ = [
    "ASSUMED", "DO", "EXAMPLE_NOTE", "acceptance_short", "acceptance_words",
    "chart_sentence", "day_sentence", "do_words", "endpoint_said", "plan_notes",
    "plan_sentence", "segments_sentence", "ways_sentence",
]  # fmt: skip

DO: dict[Do, str] = {
    "off": "Off",
    "on": "On",
    "by load": "By load",
    "measure": "Measure first",
    "unmet": "Cannot be met",
}
"""What to do, in a cell."""

_STATE: dict[Do, State] = {
    "off": "bad", "on": "good", "by load": "good", "measure": "unknown", "unmet": "bad",
}  # fmt: skip

_OTHERS: dict[Do, str] = {
    "measure": "measure first for",
    "off": "leave it off for",
    "unmet": "nothing meets what is promised for",
}

SMALL = 0.01
"""A share of the time per token below which a γ of one's own is not worth a word."""

EXAMPLE_NOTE = (
    "An example of three endpoints: edit it above, open a plan, or add your scenario to it."
)

ASSUMED = (
    "Times are told of as many replicas as serve the demand without speculation (with it where "
    "none do without; or of those given), in both arms; GPUs and dollars are of as many as each "
    "arm needs within what is promised, with headroom.",
    "All segments of an endpoint fill the same steps, and draft the same γ unless its engine has "
    "one for each request. A request takes (N − 1)/τ steps of its own segment's τ, each as long as "
    "anybody's.",
    "p50 and p99 are over requests, of what is accepted, of other requests' prompts and of lengths "
    "where a segment says how they spread (output_spread, prompt_spread, or a trace); elsewhere "
    "they are all alike, and the tail is a least.",
    "A plan counts an endpoint that is to be measured first, or left off, without speculation.",
)
"""What every plan rests on."""


MORE_GPUS = (
    "It is faster a token, but in the middle of the ranges its fleet needs more GPUs within what "
    "is promised: a token's time is not what the bill follows."
)


def plan_sentence(found: PlanAnswer) -> str:
    """How many endpoints get it, and the bill of all."""
    kinds = {do: [e for e in found.endpoints if e.do == do] for do in DO}
    on = [*kinds["on"], *kinds["by load"]]
    total = len(found.endpoints)
    said = [f"Turn it on for {_names(on)}" if on else "Turn it on for none yet"]
    said += [f"{start} {_names(kinds[do])}" for do, start in _OTHERS.items() if kinds[do]]
    whole = f"{'; '.join(said)}."
    if total == 1:
        (only,) = found.endpoints
        # What to do was said; of the fleet it is at most open.
        return f"{whole} {capacity_sentence(only.capacity, only.kinds, advise=False)}"
    return f"{whole} {_bill(found)}"


def _names(answers: Sequence[EndpointAnswer]) -> str:
    named = [
        f"{e.endpoint.name} ({_gamma(e)}{', by load' if e.do == 'by load' else ''})"
        if e.do in ("on", "by load") else e.endpoint.name
        for e in answers
    ]  # fmt: skip
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _gamma(answer: EndpointAnswer) -> str:
    return gamma_words(answer.capacity.speculative)


def _bill(found: PlanAnswer) -> str:
    (before, now), (plain, planned) = found.gpus, found.usd_per_month
    if before is None or now is None:
        return "GPUs of the whole plan are not known: an endpoint has none within its promise."
    gpus = f"{_span(now)} GPUs instead of {_span(before)} without speculation"
    if plain is None or planned is None:
        return f"In all {gpus}; dollars are unknown until each GPU hour has its price."
    return f"In all {gpus}: {interval(planned, usd)} a month instead of {interval(plain, usd)}."


def _span(number: Estimate) -> str:
    return interval(number, lambda value: "unknown" if value is None else f"{value:,.0f}")


# ── one endpoint ─────────────────────────────────────────────────────────────────────────────


def endpoint_said(answer: EndpointAnswer) -> Said:
    """What to do with one endpoint, and why."""
    p, name = answer.prediction, answer.endpoint.name
    if answer.do == "unmet":
        limit = LIMITS[answer.capacity.plain.limit]
        return Said(name, "bad", f"Nothing meets its {limit} as promised",
                    (capacity_sentence(answer.capacity, answer.kinds),))  # fmt: skip
    before, after = answer.tpot[0.99]
    does = _off_as_given(answer) or f"{_gamma(answer)} is {_speed(p.speedup)} a token"
    because = [f"At {_load(answer)}: {does}."]
    if before is not None and after is not None:
        now = "" if answer.looked else f"{interval(after, ms)} instead of "
        because.append(f"p99 of a request's time per token {now}{interval(before, ms)}.")
    if answer.do == "measure":
        because.append(MORE_GPUS if answer.more_gpus else verdict(p).reason)
    because.append(_fleets(answer))
    heads = {
        "on": f"On, with {_gamma(answer)}",
        "off": "Off, as given" if answer.looked else "Off",
        "by load": f"{_gamma(answer)} below {significant(answer.capacity.crossover)} requests/s "
        "of a replica, off above",
        "measure": "Measure first",
    }
    return Said(name, _STATE[answer.do], heads[answer.do], tuple(filter(None, because)))


def _load(answer: EndpointAnswer) -> str:
    """The rate at which times are told, and of how many replicas."""
    found, replicas = answer.capacity, count(answer.replicas, "replica")
    if answer.endpoint.replicas is not None:
        many = f"{replicas}, as many as were given"
    elif found.plain.within.value:
        many = f"{replicas}, as many as serve it without speculation"
    else:
        many = f"{replicas}, as many as serve it with {_gamma(answer)} (none do without)"
    return f"{significant(answer.rate)} requests/s on each of {many}"


def _off_as_given(answer: EndpointAnswer) -> str:
    """That γ = 0 was given, and what would be looked at; "" where it was not."""
    if answer.looked is None:
        return ""
    gamma, gain = answer.looked
    return (
        f"speculation is off as given (γ=0); were it not, γ={gamma} would be looked at, "
        f"{_speed(gain)} a token"
    )


def _fleets(answer: EndpointAnswer) -> str:
    found = answer.capacity
    if found.gamma == 0 or not (found.plain.within.value and found.speculative.within.value):
        return capacity_sentence(found, answer.kinds)
    said = fleets_words(found, f"to serve {significant(answer.endpoint.demand)} requests/s"
                               f"{promise(found)}")  # fmt: skip
    return f"{said}."


def do_words(answer: EndpointAnswer) -> str:
    """What to do, in a cell."""
    return f"{DO[answer.do]}{f', {_gamma(answer)}' if answer.do in ('on', 'by load') else ''}"


def _speed(speedup: Estimate) -> str:
    low, high = speedup.low, speedup.high
    if low is None or high is None:
        return faster(speedup.value)
    if low >= 1.0:
        return f"{ratio(low)} to {ratio(high)} faster"
    return f"{faster(low)} to {faster(high)}"


def acceptance_words(p: Prediction) -> str:
    """Where the acceptance of one kind of request is from, in a cell."""
    s, found = p.scenario, p.endpoint.band
    if s.accepts.nobodys(s):
        return "Nobody measured it"
    if found is not None:
        return (
            f"Others: {kind_words(found.kind)}, {work_words(found.work)}, "
            f"{count(found.pairs, 'pair')}"
        )
    source = SPECS["acceptance_source"].label_of(s.acceptance_source)
    given = SPECS["acceptance_form"].label_of(s.acceptance_form)
    return f"Given: {given}" if s.acceptance_source == "unknown" else source


def chart_sentence(found: PlanAnswer) -> str:
    """How many of the endpoints' slow requests get faster for sure."""
    known = [a.tpot[0.99] for a in found.endpoints]
    pairs = [(before, after) for before, after in known if before and after]
    gains = [before.with_(after, lambda a, b: a / b) for before, after in pairs]
    sure = sum((gain.value if gain.low is None else gain.low) > 1.0 for gain in gains)
    return (
        f"p99 gets shorter over all of its range at {sure} of {count(len(gains), 'endpoint')}; "
        "bars are 80% ranges, of which what both arms share cancels in the comparison."
    )


def acceptance_short(answer: EndpointAnswer) -> str:
    """The same of all its segments, in a narrow cell."""
    told = []
    for segment in answer.segments:
        p = segment.prediction
        if p.scenario.accepts.nobodys(p.scenario):
            told.append("nobody")
        elif p.endpoint.band is not None:
            told.append(f"others, {count(p.endpoint.band.pairs, 'pair')}")
        else:
            told.append("given")
    return "; ".join(dict.fromkeys(told))


def segments_sentence(answer: EndpointAnswer) -> str:
    """What one γ for all costs, and for whom it is wrong."""
    segments = answer.segments
    if len(segments) == 1:
        return "All its requests are alike: give it segments where some differ."
    gamma = answer.ways[0].gammas[0]
    off = [each for each in segments if each.own_gamma != gamma and each.lost.value > 1.0 + SMALL]
    if not off:
        given = f"γ={gamma}" if gamma else "Plain decoding"
        return f"{given} is within {SMALL:.0%} of the best of each segment."
    each = "; ".join(_alone(one) for one in off)
    if answer.looked:
        return f"Off as given for all: {each}."
    return (
        f"One γ={gamma} for all costs {100.0 * answer.lost:.1f}% of the mean time per token, "
        f"beside each segment at its own γ on dedicated replicas. {each}."
    )


def _alone(one: SegmentAnswer) -> str:
    own = f"γ={one.own_gamma}" if one.own_gamma else "plain decoding"
    less = 100.0 * (1.0 - 1.0 / one.lost.value)
    gain = f"{one.name} by itself would take {own}, {less:.0f}% less a token"
    if one.split is None:
        return gain
    if one.split.more_per_month is None:
        return f"{gain}, on {count(one.split.replicas, 'replica')}, its own and the others'"
    more = one.split.more_per_month
    price = (
        "at the same bill" if more == 0.0
        else f"for {usd(abs(more))} a month {'more' if more > 0.0 else 'less'}"
    )  # fmt: skip
    return f"{gain}, {price} ({count(one.split.replicas, 'replica')}, its own and the others')"


def ways_sentence(answer: EndpointAnswer) -> str:
    """What a γ for each request does beside one for all, and what it may cost; "" where it is not
    told."""
    found = answer.by_request
    if found is None:
        return ""
    one = f"one γ={found.one} for all" if found.one else "plain decoding"
    if found.gain - 1.0 < LITTLE:
        return f"A γ for each request, in steps that all share, would do no better than {one}."
    gain, free = 100.0 * (found.gain - 1.0), f"{100.0 * found.break_even:.1f}% of a step"
    each = ", ".join(
        f"{one.name} γ={gamma}" if gamma else f"{one.name} none"
        for one, gamma in zip(answer.segments, found.gammas, strict=True)
    )
    does = (
        f"carries {gain:.1f}% more requests{promise(answer.capacity)}" if found.aim == "rate"
        else f"is {gain:.1f}% faster a token in the mean"
    )  # fmt: skip
    start = "A γ for each request" if answer.each else "An engine with a γ for each request"
    return (
        f"{start} ({each}) {does} than {one}, at most: where choosing costs nothing, and each "
        f"request's kind is known at once. It breaks even where choosing costs {free}: then it "
        f"gains nothing. {_tax(answer, found)}"
    )


def _slower(answer: EndpointAnswer) -> str:
    """For whom a γ for each request is worse than one for all, as planned: "y takes 5% longer a
    token than with γ=2"."""
    times = [
        (one.name, one.with_each.value / one.with_one.value - 1.0)
        for one in answer.segments
        if one.with_each is not None and one.with_one is not None
    ]
    worse = [f"{name} takes {100.0 * more:.0f}% longer a token" for name, more in times
             if more > SMALL]  # fmt: skip
    return f"{' and '.join(worse)} than with γ={answer.ways[0].gammas[0]}" if worse else ""


LITTLE = 5e-4
"""A gain below which a γ for each request is no better."""


def _tax(answer: EndpointAnswer, found: ByRequest) -> str:
    """What choosing costs, as given, and which numbers have it; where it was not, that nobody
    measured it. Whom it slows down is told at that cost."""
    given, slower = f"{100.0 * found.tax:g}%", _slower(answer)
    if found.tax:
        beyond = ", more than that," if found.tax >= found.break_even else ""
        where = (
            "in fleet and times" if answer.each
            else "in the row of a γ for each request alone: the plan has one γ for all"
        )  # fmt: skip
        then = f" With it {slower}." if slower else ""
        return f"The {given} of a step that was given{beyond} is {where}.{then}"
    shares = switching().shares
    but = f"But {slower}. " if slower else ""
    return (
        f"{but}Nobody measured what choosing costs, and {given} is taken; having γ by batch size "
        f"on took {100.0 * min(shares):.0f}% to {100.0 * max(shares):.0f}% of a token's time in "
        "one engine."
    )


def day_sentence(answer: EndpointAnswer) -> str:
    """What the hours of a day make of it: times on a fixed fleet, GPU hours of one that follows."""
    day = answer.day
    assert day is not None
    never, always, by_load = day.policies
    hours = sum(by_load.on)
    drafting = f"drafting pays in {hours} of 24 hours" if 0 < hours < 24 else (
        "drafting pays at every hour" if hours else "drafting pays at no hour")  # fmt: skip
    fixed = f"on {count(answer.replicas, 'replica')} at all hours"
    times = [
        f"{ms(policy.mean_tpot)} {words}"
        for words, policy in (("never drafting", never), ("always drafting", always),
                              ("by load", by_load))
        if policy.mean_tpot == policy.mean_tpot
    ]  # fmt: skip
    mean = f"; a mean token takes {', '.join(times)}" if times else ""
    told = f"{answer.endpoint.name}, {fixed}: {drafting}{mean}."
    if never.gpu_hours is None or always.gpu_hours is None:
        return told
    return (
        f"{told} On replicas that follow the hours instead: {_span(always.gpu_hours)} GPU hours a "
        f"day with {_gamma(answer)}, {_span(never.gpu_hours)} without."
    )


UNLIKE = 1.5
"""Standard deviation over mean of prompts beyond which long ones crowd the others out of memory."""

UNLIKE_KINDS = (
    "prompts of its segments are so unlike that long ones crowd the others out of memory, which a "
    "mean context does not know: near full load replicas carry less than said, without speculation "
    "first. Serve the mix as a trace: specmath simulate --trace."
)


def plan_notes(found: PlanAnswer) -> tuple[str, ...]:
    """What the plan rests on, and what each segment's acceptance does."""
    notes = list(ASSUMED)
    for answer in found.endpoints:
        notes += [f"{answer.endpoint.name}: {said}" for said in pool_remarks(answer.capacity)]
        if len(answer.segments) > 1 and answer.endpoint.scenario.prompt_spread > UNLIKE:
            notes.append(f"{answer.endpoint.name}: {UNLIKE_KINDS}")
        for segment in answer.segments:
            called = answer.endpoint.name
            if len(answer.segments) > 1:
                called = f"{called}, {segment.name}"
            notes += [f"{called}: {note}" for note in range_notes(segment.prediction)[:1]]
    return tuple(notes)
