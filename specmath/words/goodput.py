"""Goodput in sentences: the rate at which most requests meet every promise, and what it needs."""

from __future__ import annotations

import numpy as np

from specmath.capacity import Arm
from specmath.carried import SLOS, Slo
from specmath.estimate import Estimate
from specmath.goodput import Goodput, GoodputArm
from specmath.numbers import count, interval, significant, usd
from specmath.serving.replica import By
from specmath.words.capacity import LIMITS, PROMISED, fleets_sentence, open_words

__all__ = [
    "NEEDS_PROMISE", "STALE", "TIMES", "arm_words", "attainment_sentence", "attainment_words",
    "chance_sentence", "goodput_limit", "goodput_notes", "goodput_sentence", "goodput_title",
    "misses_sentence", "took_words",
]  # fmt: skip

TIMES: dict[Slo, str] = {
    "ttft": "Time to first token",
    "tpot": "Time per token",
    "e2e": "Whole request",
}
"""What a quantile is of, in a cell."""

HALF = 0.5

NEEDS_PROMISE = (
    "Promise a time above, of a token, the first token or a whole request: the rate at which most "
    "requests keep within it follows."
)

STALE = "Something was changed since these requests were served: serve them anew."

_ENDS: dict[Slo | By, str] = {
    **{name: LIMITS[name] for name in SLOS},
    "memory": LIMITS["memory"],
    "max sequences": "sequences of a step",
    "compute": LIMITS["time"],
}


def attainment_words(share: float) -> str:
    """99%, 99.5%."""
    return f"{100 * share:.4g}%"


def arm_words(arm: GoodputArm) -> str:
    """What an arm is called."""
    return f"γ={arm.gamma}" if arm.gamma else "Plain decoding"


def goodput_limit(arm: GoodputArm) -> str:
    """What keeps it from a larger rate, in a cell."""
    return _ENDS[arm.limit]


def goodput_title(found: Goodput) -> str:
    """What the chart shows."""
    return f"Share of requests that take at most {_promise(found)}, over the request rate"


def _promise(found: Goodput) -> str:
    said = [
        f"{significant(1e3 * found.slo[name])} ms {PROMISED[name]}"
        for name in SLOS
        if name in found.slo
    ]
    return " and ".join(said)


def goodput_sentence(found: Goodput) -> str:
    """The rate of one replica in both arms, and the GPUs for the demand, beside those of means."""
    share = attainment_words(found.trial.attainment)
    missed = [_none(found, arm) for arm in reversed(found.arms) if not arm.rate.value]
    if len(missed) == len(found.arms):
        return " ".join(
            (f"At no rate do {share} of requests take at most {_promise(found)}.", *missed)
        )
    with_rate = [arm for arm in reversed(found.arms) if arm.rate.value]
    first, *rest = [f"up to {_ranged(arm.rate)}" for arm in with_rate]
    rates = f"{first} requests/s of one replica {_how(with_rate[0])}"
    rates += "".join(f", {of} {_how(with_rate[1])}" for of in rest)
    mean = " and ".join(significant(arm.mean.within.value) for arm in with_rate)
    said = f"{share} of requests take at most {_promise(found)} {rates}; by the mean {mean}."
    return " ".join(filter(None, (_open(found) + said, _fleets(found), *missed)))


def _how(arm: GoodputArm) -> str:
    return f"with γ={arm.gamma}" if arm.gamma else "without speculation"


def _open(found: Goodput) -> str:
    """That it is open which arm carries more, where no number of GPUs says so."""
    if found.by_mean.demand is not None or len(found.arms) < 2:
        return ""
    plain, ours = found.arms
    return open_words(ours.fleet, plain.fleet)


def _ranged(number: Estimate) -> str:
    return f"{significant(number.value)}{_range(number)}"


def _range(number: Estimate) -> str:
    return "" if number.low is None else f" ({interval(number, significant)})"


def _none(found: Goodput, arm: GoodputArm) -> str:
    """Why an arm has no rate, and the best there is."""
    asked, best, name = found.trial.attainment, arm.best, arm.best.worst
    if not best.rate:
        seconds = best.quantiles[name][-1]
        said = (
            f"{_first(arm)} {attainment_words(asked)} of requests that are alone take up to "
            f"{significant(1e3 * seconds)} ms {PROMISED[name]}."
        )
    else:
        said = (
            f"{_first(arm)} {best.share:.1%} of them do at {significant(best.rate)} requests/s, "
            f"{best.rate / arm.most:.1%} of full load: the {LIMITS[name]} is missed most."
        )
    if arm.rate.high:
        said += (
            f" At the best end of its range {significant(arm.rate.high)} requests/s do: measure "
            "what a request alone takes first."
        )
    return said


def _first(arm: GoodputArm) -> str:
    how = _how(arm)
    return f"{how[0].upper()}{how[1:]}"


def _fleets(found: Goodput) -> str:
    """GPUs and dollars for the demand, of the share and of the mean."""
    demand, with_rate = found.by_mean.demand, [a for a in reversed(found.arms) if a.rate.value]
    if demand is None:
        return ""
    share = attainment_words(found.trial.attainment)
    served = f"to keep {share} of {significant(demand.value)} requests/s within it"
    mean = " and ".join(_gpus(arm.mean) for arm in with_rate)
    if len(with_rate) == 2:
        now = fleets_sentence(found.by_share, served).removesuffix(".")
    else:
        (arm,) = with_rate
        now = f"{_gpus(arm.fleet)} {_how(arm)} {served}{_bill(arm.fleet)}"
    return f"{now}; by the mean {mean}."


def _gpus(arm: Arm) -> str:
    return "none" if arm.all_gpus is None else count(round(arm.all_gpus.value), "GPU")


def _bill(arm: Arm) -> str:
    return "" if arm.usd_per_month is None else f": {usd(arm.usd_per_month.value)} a month"


def misses_sentence(found: Goodput) -> str:
    """What limits each arm, and who misses it."""
    said = []
    for arm in reversed(found.arms):
        if arm.at is None:
            continue
        name = next((each for each in SLOS if each == arm.limit), None)
        if name is not None:
            longest = significant(1e3 * arm.at.quantiles[name][-1])
            said.append(
                f"{_first(arm)} the {LIMITS[name]} is missed first: "
                f"{attainment_words(found.trial.attainment)} of requests take up to {longest} ms "
                f"{PROMISED[name]} there, at {arm.rate.value / arm.most:.0%} of full load."
            )
        else:
            said.append(
                f"{_first(arm)} a replica is full before any promise is missed: "
                f"{arm.at.share:.1%} of requests keep within it at {significant(arm.most)} "
                f"requests/s, and its limit is {_ENDS[arm.limit]}."
            )
    return " ".join(said)


def chance_sentence(found: Goodput) -> str:
    """How far the rate is open by the number of requests that were served."""
    parts = []
    for arm in reversed(found.arms):
        if arm.at is None:
            continue
        ends = dict.fromkeys(map(significant, arm.by_chance))
        left = f", which leaves the rate open from {' to '.join(ends)} requests/s"
        parts.append(
            f"{_how(arm)} {arm.at.share:.1%} ({100 * arm.at.low:.1f} to {100 * arm.at.high:.1f}%) "
            f"keep within it{left if len(ends) > 1 else ''}"
        )
    if not parts:
        return ""
    first, *rest = parts
    counted = next(arm.at.requests for arm in reversed(found.arms) if arm.at is not None)
    return (
        f"By chance of {counted:,} requests counted, 95%, of which those that miss come together: "
        f"{'; '.join((first, *rest))}."
    )


def goodput_notes(found: Goodput) -> tuple[str, ...]:
    """What it rests on, and what is not in it."""
    trial, s = found.trial, found.by_mean.scenario
    notes = [
        "Requests are served one by one, and each is judged by itself: its own mean time per "
        "token, its first token, its whole time. One that misses any promise misses.",
        "A range is that of the times of its arm, by as much as its time per token alone is open: "
        "prompts and steps are longer together, as often as the draft is accepted less.",
        f"By the mean is the server law, which knows no limit of sequences but memory; here a step "
        f"has at most {count(trial.server.most_sequences, 'sequence')}.",
        "Not in it: the HTTP front end and the network, batches padded to captured sizes, how long "
        "blocks stay in the prefix cache.",
    ]
    if trial.trace:
        notes.append(
            f"Arrivals are those of {trial.trace}, stretched in time to each rate; its lengths "
            f"stand for the scenario's, in the mean {s.prompt_tokens:,} prompt and "
            f"{s.output_tokens:,} output tokens. Its bursts keep their size, and last as much "
            "longer or shorter; what it has at one instant comes at once at any rate."
        )
    elif s.prompt_spread or s.output_spread:
        notes.append(
            "Requests come by chance, of lengths that spread as the scenario says: those of a "
            "trace come in bursts as well, which costs more."
        )
    else:
        notes.append(
            "Requests come by chance and are all of one length: those of a trace come in bursts, "
            "and differ, which costs more."
        )
    if s.decode_only == "yes":
        notes.append(
            "Workers that decode alone are served one by one: the first token and the whole "
            "request depend on those that read the prompts, and are left out. GPUs count those "
            "workers as by the mean."
        )
    if found.by_mean.demand is not None:
        notes.append(
            f"Of each replica's rate {s.headroom:.0%} is kept free in both; requests are spread "
            "evenly over replicas."
        )
    return tuple(notes)


def attainment_sentence(found: Goodput) -> str:
    """What is seen in the chart: where only half are left."""
    said = []
    for arm in reversed(found.arms):
        rates = np.array([at.rate for at in arm.curve if at.rate >= arm.rate.value])
        shares = np.array([at.share for at in arm.curve if at.rate >= arm.rate.value])
        if arm.at is not None and shares[-1] < HALF:
            half = float(np.interp(-HALF, -np.minimum.accumulate(shares), rates))
            said.append(f"{significant(half)} requests/s {_how(arm)}")
    band = "The band is what chance leaves open."
    if not said:
        return f"Each point is the same requests at another rate. {band}"
    return f"Only half of the requests keep within it at {' and '.join(said)}. {band}"


def took_words(found: Goodput, seconds: float) -> str:
    """How many rates were run, and how long it took."""
    rates = count(sum(len(arm.curve) for arm in found.arms), "rate")
    return f"{rates} in {seconds:.1f} s; the same inputs give the same answer."
