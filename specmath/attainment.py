"""The share of requests that meet every promise, of one arm of a replica at many rates.

Every rate has the same requests, further apart or closer together, and the same draws: what differs
is the rate alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from specmath.arms import Server
from specmath.carried import SLOS, Slo
from specmath.checks import FloatArray, InputError, real, whole
from specmath.estimate import cluster_ratio_variance, wilson
from specmath.serving.replica import By, Replica
from specmath.simulate import WARM_UP, Simulated, simulate
from specmath.traffic import Traffic, first_requests

__all__ = [
    "LEAST_ATTAINMENT",
    "LEVELS",
    "MOST_ATTAINMENT",
    "MOST_TRIED",
    "USUAL",
    "Attained",
    "Progress",
    "Runs",
    "Told",
    "Trial",
    "least_requests",
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

APART, SHARE_APART = 0.12, 0.1
"""Of full load, and of all requests: how far two neighbours of a curve are apart at most."""

BLOCKS = 20
"""Of requests that follow each other: those that miss come together."""

OVERLOAD = 2.0
"""Times the law's largest rate, at which a server is always full."""

SLACK = 1.0 + 1e-9
"""Rounding that breaks no promise."""


Told = Callable[[int, int], None]


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

    def count(self, output_tokens: float, chunks: float = 1.0) -> int:
        """Requests that come, of so many output tokens in the mean, and of prompts that so many
        steps read."""
        if self.requests is not None:
            return self.requests
        usual = round(min(MOST_USUAL / max(chunks, 1.0), TOKENS / output_tokens))
        return max(usual, least_requests(self.attainment))


USUAL = Trial()
"""99% of as many requests as take seconds, by chance."""


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


# ── one arm at many rates ─────────────────────────────────────────────────────────────────────


class Progress:
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


class Runs:
    """One arm at many rates, each run once."""

    def __init__(
        self, replica: Replica, unit: Traffic, slo: Mapping[Slo, float], trial: Trial,
        progress: Progress,
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
