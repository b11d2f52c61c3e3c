"""Goodput: the largest request rate of a replica at which most requests meet every promise.

    goodput = max λ:   P(TTFT ≤ a, TPOT ≤ b, whole request ≤ c) ≥ attainment

of requests served one by one (`specmath.simulate`), in both arms. Every rate has the same requests,
further apart or closer together, and the same draws: what differs is the rate alone.

Times f times as long make the same run at a rate of 1/f. So the range of the times asks for no
runs of slower servers: at an end f of it

    goodput_f(promises) = goodput(promises / f) / f
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from specmath import capacity as means
from specmath.arms import Server, replica_of
from specmath.capacity import Capacity, bare_server, capacity, fleet_at, promised
from specmath.carried import SLOS, Slo
from specmath.checks import FloatArray, InputError, real, whole
from specmath.estimate import Estimate, cluster_ratio_variance, wilson
from specmath.frontier import measured_over_computed
from specmath.lengths import spread_of_lengths
from specmath.predict import Prediction, predict
from specmath.scenario.endpoint import resolve
from specmath.serving.replica import By, Replica
from specmath.simulate import WARM_UP, Simulated, simulate
from specmath.traffic import Traffic, first_requests, poisson, shipped_trace

__all__ = [
    "LEAST_ATTAINMENT", "LEVELS", "MOST_ATTAINMENT", "MOST_TRIED", "Attained", "Goodput",
    "GoodputArm", "Trial", "goodput", "least_requests",
]  # fmt: skip

LEVELS = (0.5, 0.9, 0.99)
"""Quantiles that are told of each time."""

LEAST_ATTAINMENT, MOST_ATTAINMENT = 0.5, 0.999
MOST_TRIED = 200_000
"""Requests of one run."""

FEW = 10
"""Requests that may miss a promise at the least: of fewer a share says nothing."""

MOST_USUAL, TOKENS = 20_000, 5_200_000
"""Requests of one run where nobody says how many, and their output tokens together: a second."""

ALONE = 500
"""Requests that are served alone, to see whether any rate can be low enough."""

WAVES = 16
"""How often a full server lets all its sequences go while its rate is taken, at the least."""

FLOOR = 0.01
"""Of the rate at full load, below which no rate is sought."""

NEAR, NEAR_ENDS = 0.01, 0.03
"""How far a rate is open through the search; of the ends of a range."""

APART, SHARE_APART = 0.12, 0.1
"""Of full load, and of all requests: how far two neighbours of a curve are apart at most."""

RUNS = 18
"""About as many runs as an arm needs."""

BLOCKS = 20
"""Of requests that follow each other: those that miss come together."""

OVERLOAD = 2.0
"""Times the law's largest rate, at which a server is always full."""

SLACK = 1.0 + 1e-9
"""Rounding that breaks no promise."""


@dataclass(frozen=True)
class Trial:
    """What is served, and what is asked of it.

    Attributes
    ----------
    attainment
        Share of the requests that are to meet every promise, in [0.5, 0.999].
    requests
        How many come; enough for `least_requests`, at most `MOST_TRIED`. None: 20,000, or fewer
        where outputs are long. The first tenth fills an empty server and is not counted.
    seed
        Of arrivals and draws: the same seed gives the same answer.
    trace
        "" for arrivals by chance (Poisson), of lengths as the scenario has and spreads them; else
        a trace's name.
    server
        Sequences of a step, and the cache.
    """

    attainment: float = 0.99
    requests: int | None = None
    seed: int = 0
    trace: str = ""
    server: Server = field(default_factory=Server)

    def __post_init__(self) -> None:
        real("attainment", self.attainment, LEAST_ATTAINMENT, MOST_ATTAINMENT)
        whole("seed", self.seed, 0)
        if self.requests is None:
            return
        least = least_requests(self.attainment)
        whole("requests", self.requests, 1, MOST_TRIED)
        if self.requests < least:
            raise InputError(
                f"requests must be >= {least:,} at an attainment of {self.attainment:g}, so that "
                f"{FEW} of those counted may miss a promise, got {self.requests:,}"
            )

    def count(self, output_tokens: float) -> int:
        """Requests that come, of so many output tokens in the mean."""
        if self.requests is not None:
            return self.requests
        usual = min(MOST_USUAL, round(TOKENS / output_tokens))
        return max(usual, least_requests(self.attainment))


def least_requests(attainment: float) -> int:
    """The fewest of which a share means something: ten of those counted may miss a promise."""
    return math.ceil(round(FEW / (1.0 - attainment) / (1.0 - WARM_UP), 6))


@dataclass(frozen=True)
class Attained:
    """What the counted requests met at one rate; seconds.

    Attributes
    ----------
    rate
        Requests a second; 0: each alone.
    share, low, high
        Of the requests that met every promise, and its 95% interval by chance.
    missed
        Share that missed each promise.
    quantiles
        Of each time at `LEVELS` and last at the attainment; a time without meaning is left out.
    requests
        How many were counted.
    """

    rate: float
    share: float
    low: float
    high: float
    missed: Mapping[Slo, float]
    quantiles: Mapping[Slo, tuple[float, ...]]
    requests: int

    @property
    def worst(self) -> Slo:
        """The promise that most requests missed."""
        return max(self.missed, key=lambda name: self.missed[name])


@dataclass(frozen=True)
class GoodputArm:
    """One arm of a replica.

    Attributes
    ----------
    gamma, gpus
        γ; GPUs of a replica.
    rate
        The goodput, requests a second, at the joint points of the arm's times; 0: none.
    by_chance
        Between which it lies by the chance of so many requests alone, 95%.
    limit
        What keeps it from more: the promise that most requests miss just above it; at full load
        what ends it.
    most
        Requests a second at full load.
    at
        At that rate; None where there is none.
    alone
        Requests that meet nobody.
    able
        Whether they reach the share, but for chance.
    curve
        Every rate that was run, ascending.
    fleet
        As `capacity` has it, of this rate: the replicas and the bill of the demand.
    mean
        The same of means, by the server law.
    """

    gamma: int
    gpus: int
    rate: Estimate
    by_chance: tuple[float, float]
    limit: Slo | By
    most: float
    at: Attained | None
    alone: Attained
    able: bool
    curve: tuple[Attained, ...]
    fleet: means.Arm
    mean: means.Arm

    @property
    def best(self) -> Attained:
        """At the goodput; where there is none what comes nearest, alone or at the least rate."""
        if self.at is not None:
            return self.at
        return self.curve[0] if self.able else self.alone


@dataclass(frozen=True, eq=False)
class Goodput:
    """Both arms; `speculative` None without speculation. `slo`: what is promised, seconds.

    `by_mean`: of requests as long as these are, by mean and spread.
    """

    trial: Trial
    slo: Mapping[Slo, float]
    plain: GoodputArm
    speculative: GoodputArm | None
    by_mean: Capacity

    @property
    def by_share(self) -> Capacity:
        """As `capacity` has both arms, of the rates found here."""
        plain, ours = self.arms[0], self.arms[-1]
        return replace(self.by_mean, plain=plain.fleet, speculative=ours.fleet)

    @property
    def arms(self) -> tuple[GoodputArm, ...]:
        """The plain one first."""
        return (self.plain, *([self.speculative] if self.speculative else []))


Told = Callable[[int, int], None]


def goodput(
    prediction: Prediction,
    trial: Trial = Trial(),
    *,
    traffic: Traffic | None = None,
    told: Told | None = None,
) -> Goodput:
    """The largest rate of a replica at which a share of the requests meets every promise.

    Parameters
    ----------
    prediction
        Of a scenario in the hardware form that promises something; at whatever load. Its γ is
        served. Times that were measured move all steps of their arm alike.
    trial
        The share, and what is served.
    traffic
        A trace of one's own under the trial's name for it: its lengths replace the scenario's, and
        its arrivals are stretched in time to each rate.
    told
        Called with requests served and about all of them.

    Returns
    -------
    Goodput
        Of the largest rate looked at up to which the share is reached; the next one that was
        looked at, at most 1% above, misses it.

    Raises
    ------
    InputError
        As `capacity` and `simulate`; nothing promised; several kinds of request; a promise about
        prompts that are read elsewhere; a trace of too few requests.

    References
    ----------
    Goodput: DistServe, Zhong et al. 2024, OSDI, Section 2.3. The rate at full load is that of a
    server that always has somebody waiting, which is the border of stability (Baccelli and Foss
    1995, saturation rule).

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> asked = Scenario(alpha=0.7, gamma=3, gpu="h100", model="Llama-3.1-8B", draft="eagle3",
    ...                  prompt_tokens=1024, slo_ttft_ms=150)
    >>> found = goodput(predict(asked), Trial(attainment=0.9, requests=2000))
    >>> found.plain.limit, found.plain.at.share >= 0.9, found.plain.rate.value < found.plain.most
    ('ttft', True, True)
    """
    slo = _promises(prediction)
    unit = _requests(prediction, trial, traffic)
    asked = prediction if not trial.trace else _as_long(prediction, unit)
    by_mean = capacity(asked)
    base = resolve(bare_server(asked).model_copy(update={"gamma": asked.gamma}))
    arms = [(by_mean.plain, 0)] + ([(by_mean.speculative, asked.gamma)] if asked.gamma else [])
    factors, found = measured_over_computed(asked), []
    progress = _Progress(told, RUNS * len(unit) * len(arms))
    for mean, gamma in arms:
        replica = _slower(replica_of(base, gamma, unit, trial.server), factors[gamma > 0])
        runs = _Runs(replica, unit, slo, trial, progress)
        found.append(_arm(runs, by_mean, mean))
        progress.reached(RUNS * len(unit) * len(found))
    plain, *ours = found
    return Goodput(trial, slo, plain, ours[0] if ours else None, by_mean)


def _promises(p: Prediction) -> dict[Slo, float]:
    """What is promised, seconds; InputError where it is nothing, or of no request served here."""
    if not p.scenario.costs.computed:
        raise InputError(
            "goodput needs gpu, model and draft (draft_form=hardware), "
            f"got draft_form={p.scenario.draft_form}"
        )
    if p.endpoint.parts:
        raise InputError(
            "goodput serves requests of one kind, got several segments: ask for each by itself"
        )
    slo: dict[Slo, float] = {each.name: each.seconds for each in promised(p)}
    if not slo:
        raise InputError(
            "goodput needs a promise: give at least one of slo_tpot_ms, slo_ttft_ms, slo_e2e_ms"
        )
    if p.scenario.decode_only == "yes" and (beyond := {*slo} - {"tpot"}):
        names = ", ".join(f"slo_{name}_ms" for name in SLOS if name in beyond)
        raise InputError(
            f"{names} is about prompts, which decode_only=yes reads elsewhere: goodput of the "
            "workers that decode takes slo_tpot_ms alone"
        )
    return slo


def _requests(p: Prediction, trial: Trial, traffic: Traffic | None) -> Traffic:
    """What comes, of the trial or the trace."""
    s = p.scenario
    if not trial.trace:
        if s.prompt_tokens is None and s.decode_only != "yes":
            raise InputError("goodput needs prompt_tokens, or a trace; got none")
        return poisson(1.0, s.prompt_tokens or 0, s.output_tokens,
                       requests=trial.count(s.output_tokens), seed=trial.seed,
                       spreads=(s.prompt_spread, s.output_spread))  # fmt: skip
    every = shipped_trace(trial.trace) if traffic is None else traffic
    found = first_requests(every, trial.count(float(every.output_tokens.mean())), None)
    least = least_requests(trial.attainment)
    if len(found) < least:
        raise InputError(
            f"a trace must hold at least {least:,} requests at an attainment of "
            f"{trial.attainment:g}, got {len(found):,} of {trial.trace}"
        )
    if not np.isfinite(found.rate):
        raise InputError(f"a trace must take some time, got all of {trial.trace} at once")
    return found


def _as_long(p: Prediction, traffic: Traffic) -> Prediction:
    """The prediction of requests as long as these, by mean and spread, at the γ in use."""
    prompts = float(traffic.prompt_tokens.mean())
    lengths: dict[str, float | None] = {
        "prompt_tokens": round(prompts),
        "output_tokens": max(1, round(float(traffic.output_tokens.mean()))),
        "prompt_spread": spread_of_lengths(traffic.prompt_tokens),
        "output_spread": spread_of_lengths(traffic.output_tokens),
        "gamma": p.gamma,
    }
    if traffic.prefix_tokens is not None and prompts:
        hit = float(traffic.prefix_tokens.mean()) / prompts
        lengths |= {"prefix_hit": hit, "prefix_hit_speculative": None}
    return predict(p.scenario.model_copy(update=lengths))


def _slower(replica: Replica, times: float) -> Replica:
    """Every step as many times as long."""
    return replace(
        replica, steps=times * replica.steps, reads=times * replica.reads,
        forward=times * replica.forward, attention=times * replica.attention,
    )  # fmt: skip


# ── the search ───────────────────────────────────────────────────────────────────────────────


class _Progress:
    """Requests served in all runs, of about so many."""

    def __init__(self, told: Told | None, every: int) -> None:
        self.told, self.every, self.done, self.said = told, every, 0, 0

    def of_run(self, done: int, of: int) -> None:
        """As `simulate` tells it; the last word of a run is `reached`."""
        self._say(self.done + done)

    def ran(self, requests: int) -> None:
        self.reached(self.done + requests)

    def reached(self, done: int) -> None:
        self.done = done
        self._say(done)

    def _say(self, done: int) -> None:
        self.said = min(max(done, self.said), self.every)
        if self.told is not None:
            self.told(self.said, self.every)


class _Runs:
    """One arm at many rates, each run once."""

    def __init__(
        self, replica: Replica, unit: Traffic, slo: Mapping[Slo, float], trial: Trial,
        progress: _Progress,
    ) -> None:  # fmt: skip
        self.replica, self.unit, self.slo, self.trial = replica, unit, slo, trial
        self.progress = progress
        self.found: dict[float, Simulated] = {}

    def at(self, rate: float) -> Simulated:
        """The same requests at that mean rate."""
        if rate not in self.found:
            seconds = self.unit.seconds * (self.unit.rate / rate)
            self.found[rate] = self._run(replace(self.unit, seconds=seconds))
        return self.found[rate]

    def _run(self, traffic: Traffic, warm_up: float = WARM_UP) -> Simulated:
        found = simulate(self.replica, traffic, seed=self.trial.seed, warm_up=warm_up,
                         told=self.progress.of_run)  # fmt: skip
        self.progress.ran(len(traffic))
        return found

    def attained(self, rate: float, slower: float = 1.0) -> Attained:
        """What is met at that rate of promises that are as many times shorter."""
        slo = {name: each / slower for name, each in self.slo.items()}
        return _attained(rate, self.at(rate), slo, self._meant(), self.trial.attainment)

    def _meant(self) -> tuple[Slo, ...]:
        """Times that mean something: prompts that are read elsewhere have no first token here."""
        return SLOS if self.replica.forward.any() else ("tpot",)

    def goodput(self, top: float, slower: float, near: float) -> tuple[float, float | None]:
        """`largest` for the share that is asked for; (0, 0) where requests alone fall short of it
        by more than chance."""
        asked = self.trial.attainment
        if self.alone(slower).high < asked:
            return 0.0, 0.0
        return self.largest(top, lambda rate: self.attained(rate, slower).share >= asked, near)

    def alone(self, slower: float = 1.0) -> Attained:
        """What is met by requests so far apart that none meets another."""
        slo = {name: each / slower for name, each in self.slo.items()}
        return _attained(0.0, self._apart, slo, self._meant(), self.trial.attainment)

    @cached_property
    def _apart(self) -> Simulated:
        r, some = self.replica, first_requests(self.unit, ALONE, None)
        longest = float((some.prompt_tokens + some.output_tokens).max())
        prompt = r.prompt_seconds(float(some.prompt_tokens.max()), 0.0, 0)
        steps = float(some.output_tokens.max()) + 2.0
        apart = 2.0 * (prompt + steps * (r.steps[:2].max() + r.reads[1] * longest))
        return self._run(replace(some, seconds=np.arange(len(some)) * apart), warm_up=0.0)

    def full(self) -> tuple[float, By]:
        """Requests a second of a server at which somebody always waits, and what ends it."""
        u, r = self.unit, self.replica
        prompt, output = float(u.prompt_tokens.mean()), float(u.output_tokens.mean())
        own = None if u.prefix_tokens is None else float(u.prefix_tokens.mean())
        limit = r.limit(prompt, output, own)
        held = min(r.most_sequences, 1 + int(r.kv_tokens / (prompt + output / 2.0)))
        # All of them twice or more: between the quarters each length comes as often, and requests
        # have had the time to bunch as they do.
        every = max(2, math.ceil(WAVES * held / len(u))) * len(u)
        crowd = Traffic(
            np.arange(every) / (OVERLOAD * limit.rate),
            np.resize(u.prompt_tokens, every), np.resize(u.output_tokens, every),
            None if u.prefix_tokens is None else np.resize(u.prefix_tokens, every),
        )  # fmt: skip
        found = self._run(crowd, warm_up=0.0)
        ends = np.sort(found.arrival + found.e2e)
        first, last = every // 4, every - every // 4 - 1
        return float((last - first) / (ends[last] - ends[first])), limit.by

    def fill(self, low: float, high: float) -> None:
        """Run rates between, so that none whose shares differ are further apart than a curve
        shows."""
        while True:
            rates = [rate for rate in sorted(self.found) if low <= rate <= high]
            gap = next(
                (
                    (a + b) / 2.0
                    for a, b in pairwise(rates)
                    if b - a > APART * high
                    and self.attained(a).share - self.attained(b).share > SHARE_APART
                ),
                None,
            )
            if gap is None:
                return
            self.at(gap)

    def largest(
        self, top: float, meets: Callable[[float], bool], near: float
    ) -> tuple[float, float | None]:
        """The largest rate up to `top` at which it is met and all those below that were run, 0
        where none is; and the next above at which it is not, None where there is none."""
        if meets(top):
            return top, None
        low, high = 0.0, top
        for rate in sorted(self.found):
            if rate >= high:
                break
            if not meets(rate):
                high = rate
                break
            low = rate
        while low == 0.0 or high > low * (1.0 + near):
            middle = high / 2.0 if low == 0.0 else (low + high) / 2.0
            if middle < FLOOR * top:
                return 0.0, high
            if meets(middle):
                low = middle
            else:
                high = middle
        return low, high


def _arm(runs: _Runs, by_mean: Capacity, mean: means.Arm) -> GoodputArm:
    asked = runs.trial.attainment
    most, ends_it = runs.full()
    found, above = runs.goodput(most, 1.0, NEAR)
    by_chance = found, found
    if found:
        chances = [
            runs.largest(most, meets, NEAR_ENDS)[0]
            for meets in (lambda r: runs.attained(r).low >= asked,
                          lambda r: runs.attained(r).high >= asked)
        ]  # fmt: skip
        by_chance = min(chances[0], found), max(chances[1], found)
    limit: Slo | By = ends_it
    if above is not None:
        limit = (runs.attained(above) if above else runs.alone()).worst
    rate = _ranged(runs, most, found, mean)
    if found:
        runs.fill(found, most)
    return GoodputArm(
        gamma=mean.gamma, gpus=mean.gpus, rate=rate, by_chance=by_chance, limit=limit, most=most,
        at=runs.attained(found) if found else None, alone=runs.alone(), able=above != 0.0,
        curve=tuple(runs.attained(each) for each in sorted(runs.found)),
        fleet=fleet_at(by_mean, mean, rate), mean=mean,
    )  # fmt: skip


def _ranged(runs: _Runs, most: float, found: float, mean: means.Arm) -> Estimate:
    """The rate at the joint points of the arm's times: between its ends and the middle, a line."""
    times = mean.alone.tpot
    if times.points is None or times.low is None or times.high is None:
        return Estimate(found)
    faster, slower = times.low / times.value, times.high / times.value
    high, low = (runs.goodput(most, each, NEAR_ENDS)[0] / each for each in (faster, slower))
    rates = max(high, found), found, min(low, found)
    points = np.interp(times.points / times.value, (faster, 1.0, slower), rates)
    return Estimate(found, points, times.basis)


def _attained(
    rate: float, found: Simulated, slo: Mapping[Slo, float], meant: Iterable[Slo],
    attainment: float,
) -> Attained:  # fmt: skip
    each = _times(found)
    late = {name: each[name] > seconds * SLACK for name, seconds in slo.items()}
    met = ~np.any(np.stack(list(late.values())), axis=0)
    share, count = float(met.mean()), len(met)
    low, high = wilson(share, _effective(met))
    levels = (*LEVELS, attainment)
    told: dict[Slo, tuple[float, ...]] = {}
    for name in meant:
        values = found.tpot if name == "tpot" else each[name]
        if len(values):
            told[name] = tuple(map(float, np.quantile(values, levels)))
    missed = {name: float(those.mean()) for name, those in late.items()}
    return Attained(rate, share, float(low), float(high), missed, told, count)


def _times(found: Simulated) -> dict[Slo, FloatArray]:
    """Of every counted request; a request of one token has no time per token, and keeps it."""
    after = np.maximum(found.output_tokens - 1, 1)
    return {"tpot": (found.e2e - found.ttft) / after, "ttft": found.ttft, "e2e": found.e2e}


def _effective(met: np.ndarray) -> float:
    """As many independent requests as say as much as these, of which those that miss come
    together: p (1 − p) over the variance that blocks of neighbours show, at most their number."""
    share, blocks = float(met.mean()), np.array_split(met, BLOCKS)
    sizes = np.array([float(len(block)) for block in blocks])
    variance = float(
        cluster_ratio_variance(np.array([float(block.sum()) for block in blocks]), sizes)
    )
    if variance <= 0.0:
        return float(len(met))
    return min(float(len(met)), max(share * (1.0 - share) / variance, 1.0))
