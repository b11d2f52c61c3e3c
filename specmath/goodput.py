"""Goodput: the largest request rate of a replica at which most requests meet every promise.

    goodput = max λ:   P(TTFT ≤ a, TPOT ≤ b, whole request ≤ c) ≥ attainment

of requests served one by one (`specmath.attainment`), in both arms.

Times f times as long make the same run at a rate of 1/f. So the range of the times asks for no
runs of slower servers: at an end f of it

    goodput_f(promises) = goodput(promises / f) / f
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from specmath import capacity as means
from specmath.arms import replica_of
from specmath.attainment import USUAL, Attained, Progress, Runs, Told, Trial, least_requests
from specmath.capacity import Capacity, bare_server, capacity, fleet_at, promised
from specmath.carried import SLOS, Slo
from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.frontier import measured_over_computed
from specmath.lengths import spread_of_lengths
from specmath.predict import Prediction, predict
from specmath.scenario.endpoint import resolve
from specmath.serving.replica import By, Replica
from specmath.traffic import Traffic, first_requests, poisson, shipped_trace

__all__ = ["Goodput", "GoodputArm", "goodput"]

NEAR, NEAR_ENDS = 0.01, 0.03
"""How far a rate is open through the search; of the ends of a range."""

RUNS = 18
"""About as many runs as an arm needs."""


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


def goodput(
    prediction: Prediction,
    trial: Trial = USUAL,
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
    >>> from specmath.attainment import Trial
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
    progress = Progress(told, RUNS * len(unit) * len(arms))
    for mean, gamma in arms:
        replica = _slower(replica_of(base, gamma, unit, trial.server), factors[gamma > 0])
        runs = Runs(replica, unit, slo, trial, progress)
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
        chunks = (s.prompt_tokens or 0) * (1.0 - s.prefix_hit) / s.chunk_tokens
        return poisson(1.0, s.prompt_tokens or 0, s.output_tokens,
                       requests=trial.count(s.output_tokens, chunks), seed=trial.seed,
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


def _arm(runs: Runs, by_mean: Capacity, mean: means.Arm) -> GoodputArm:
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


def _ranged(runs: Runs, most: float, found: float, mean: means.Arm) -> Estimate:
    """The rate at the joint points of the arm's times: between its ends and the middle, a line."""
    times = mean.alone.tpot
    if times.points is None or times.low is None or times.high is None:
        return Estimate(found)
    faster, slower = times.low / times.value, times.high / times.value
    high, low = (runs.goodput(most, each, NEAR_ENDS)[0] / each for each in (faster, slower))
    rates = max(high, found), found, min(low, found)
    points = np.interp(times.points / times.value, (faster, 1.0, slower), rates)
    return Estimate(found, points, times.basis)
