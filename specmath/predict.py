"""Scenario → Prediction: τ(γ)/s(γ) over γ and at the γ in use, time, money, the decision."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import MixtureAcceptance
from specmath.checks import FloatArray, InputError
from specmath.estimate import Basis, Estimate, Unknown
from specmath.money import usd_per_million_tokens
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.scenario.parts import Part, of_kind
from specmath.speculation import Decision, Speculation

__all__ = ["Curve", "OwnGamma", "Prediction", "own_gammas", "predict", "usd_at"]


@dataclass(frozen=True)
class Curve:
    """Everything over γ = 0 … the largest considered; arrays of one shape.

    `low` and `high` are None where nothing is open.
    """

    gamma: np.ndarray
    tokens_per_step: FloatArray
    verify_cost: FloatArray
    draft_cost: FloatArray
    step_cost: FloatArray
    walltime_improvement: FloatArray
    operations_increase: FloatArray
    low: FloatArray | None
    high: FloatArray | None


@dataclass(frozen=True)
class Prediction:
    """What speculation does to one endpoint. Times in seconds, None where unknown.

    `gamma` is the γ in use: the scenario's, or the one recommended where it gives none; `speedup`,
    `operations`, `tpot` and `usd` are at it. `decision` says on or off and which γ.
    `recommended_gamma` is that γ, and where it says to measure first the γ that risks least, but 0
    where it does not pay in the middle of its interval. `best_gamma` is the fastest γ up to
    the scenario's `max_gamma`; `optimal_gamma` and `crossover_gamma` search up to γ = 10,000, but
    no further than the step cost is known.
    """

    endpoint: Endpoint
    curve: Curve
    speedup: Estimate
    operations: Estimate
    best_gamma: int
    optimal_gamma: int
    crossover_gamma: int
    tpot: Estimate | None
    usd_plain: Estimate | None
    usd: Estimate | None

    @property
    def scenario(self) -> Scenario:
        """What was asked."""
        return self.endpoint.scenario

    @property
    def speculation(self) -> Speculation:
        """Acceptance over cost, of an unknown the middle of its range."""
        return self.endpoint.speculation

    @property
    def decision(self) -> Decision:
        """On or off, and the γ."""
        return self.endpoint.decision

    @property
    def gamma(self) -> int:
        """The γ in use."""
        return self.endpoint.gamma

    @property
    def recommended_gamma(self) -> int:
        """The γ to run; see the class."""
        return self.endpoint.recommended

    @property
    def alpha(self) -> float:
        """The i.i.d. α of the steps with a draft that emits as many tokens at the γ in use."""
        return self.speculation.alpha_at(self.gamma)

    @property
    def tokens_per_step(self) -> float:
        """τ at the γ in use, over all steps."""
        return float(self.curve.tokens_per_step[self.gamma])

    @property
    def step_cost(self) -> float:
        """s at the γ in use, plain steps."""
        return float(self.curve.step_cost[self.gamma])

    @property
    def walltime_improvement(self) -> float:
        """The speedup at the γ in use, τ/s."""
        return self.speedup.value

    @property
    def tpot_plain(self) -> Estimate | None:
        """Seconds a token of plain decoding."""
        return self.endpoint.tpot_plain

    @cached_property
    def first_token(self) -> tuple[Estimate, Estimate] | None:
        """Seconds to the first token, plain and at the γ in use; None while it is not known.

        The one given, else that of the server law where the prompt's length is known: it has no
        bursts, so that it is the least (`specmath.evidence.FIRST_TOKEN`), and has no interval.
        """
        s, load, plain = self.scenario, self.endpoint.load, self.endpoint.plain
        if s.ttft_ms is not None:
            given = Estimate(s.ttft_ms / 1e3, basis=Basis("measured"))
            return given, given
        if load is None or plain is None or s.prompt_tokens is None:
            return None
        # A plain time that was measured has the prompts in it.
        step = float((load.step if s.target_ms is None else load.tpot)[0])
        before, after = (float(load.ttft[gamma]) for gamma in (0, self.gamma))
        return Estimate(before * plain.value / step), Estimate(after * plain.value / step)

    @cached_property
    def whole_request(self) -> tuple[Estimate, Estimate] | None:
        """Seconds of a whole request of the mean length, plain and at the γ in use: the first
        token, and a TPOT for each other; None while either is not known."""
        first, plain, tpot = self.first_token, self.tpot_plain, self.tpot
        if first is None or plain is None or tpot is None:
            return None
        rest = self.scenario.output_tokens - 1
        before, after = (
            begun.with_(each, lambda a, b: a + rest * b)
            for begun, each in zip(first, (plain, tpot), strict=True)
        )
        return before, after

    @property
    def plain_error(self) -> float:
        """|computed / true − 1| taken for the plain step; 0 where it was given."""
        plain = self.endpoint.plain
        return _error(plain.basis.over[0]) if plain and plain.basis.over else 0.0

    @cached_property
    def chain(self) -> Prediction | None:
        """The same drafter drafting a chain of as many tokens; None where it does not draft a
        tree, or cannot draft so long a chain."""
        s = self.scenario
        if s.tree is None:
            return None
        with suppress(InputError):
            return predict(s.model_copy(update={"tree": None}))
        return None

    @property
    def gpus(self) -> int:
        """GPUs of a replica at the γ in use: the draft's own are there only where it drafts."""
        s = self.scenario
        return s.tensor_parallel + (s.draft_gpus if self.gamma else 0)

    @property
    def gpu_ratio(self) -> float:
        """GPUs of a replica with the draft's own over those without."""
        s = self.scenario
        return (s.tensor_parallel + s.draft_gpus) / s.tensor_parallel

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name, for JSON; milliseconds and dollars as a person reads them."""
        cost, plain = self.speculation.cost, self.tpot_plain
        return {
            "alpha": self.alpha,
            "gamma": self.gamma,
            "c": cost.c,
            "c_hat": cost.c_hat,
            "sigma": cost.sigma_at(self.gamma),
            "coverage": self.speculation.coverage,
            "tokens_per_step": self.tokens_per_step,
            "verify_cost": float(cost.verify(self.gamma)),
            "step_cost": self.step_cost,
            **_named("walltime_improvement", self.speedup),
            "chain_walltime_improvement": self.chain and self.chain.walltime_improvement,
            "operations_increase": self.operations.value,
            "best_gamma": self.best_gamma,
            "recommended_gamma": self.recommended_gamma,
            "optimal_gamma": self.optimal_gamma,
            "crossover_gamma": self.crossover_gamma,
            **self._load_numbers(),
            "plain_error": self.plain_error,
            "tpot_plain_ms": None if plain is None else plain.value * 1e3,
            **_named("tpot_ms", self.tpot, 1e3),
            "usd_per_million_tokens_plain": self.usd_plain and self.usd_plain.value,
            **_named("usd_per_million_tokens", self.usd),
            "verdict": self.decision.action,
            "verdict_gamma": self.decision.gamma,
        }

    def _load_numbers(self) -> dict[str, Any]:
        """How the server is loaded, and what its prompts take; None where it is not known."""
        ours, load = self.speculation, self.endpoint.load
        found: dict[str, Any] = {
            "loop": None if load is None else load.requests.loop,
            "prefill_share_plain": ours.prefill_share(0),
            "prefill_share": ours.prefill_share(self.gamma),
        }
        times = {"ttft": self.first_token, "e2e": self.whole_request}
        for arm, (name, at) in enumerate((("_plain", 0), ("", self.gamma))):
            found[f"batch{name}"] = None if load is None else float(load.batch[at])
            for key, each in times.items():
                found[f"{key}{name}_ms"] = None if each is None else each[arm].value * 1e3
        return found


def _error(plain: Unknown) -> float:
    return max(1.0 / plain.low - 1.0, 1.0 - 1.0 / plain.high)


def _named(name: str, estimate: Estimate | None, scale: float = 1.0) -> dict[str, float | None]:
    """The value under its name and its ends beside it, None where unknown."""
    ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
    names = (name, f"{name}_low", f"{name}_high")
    return {n: None if v is None else v * scale for n, v in zip(names, ends, strict=True)}


def predict(scenario: Scenario, parts: tuple[Part, ...] = ()) -> Prediction:
    """Speedup, arithmetic, time and money of a scenario, over γ and at its γ, with the decision.

    speedup(γ) = τ(γ) / s(γ); TPOT = plain step × s/τ; USD per million tokens = price × TPOT.

    Parameters
    ----------
    scenario
        What is known of one endpoint; fields left unknown stay visibly unknown.
    parts
        The kinds of request that it serves together, where it is `parts.blended` of them.

    Returns
    -------
    Prediction
        Intervals span what is unknown (`specmath.estimate`); those of TPOT and USD from hardware
        also the error of the plain step, which cancels in ratios to plain decoding.

    Raises
    ------
    InputError
        Where σ makes the verification cost fall to 0 within the γ considered, and where the
        hardware cannot run the pair.

    Examples
    --------
    >>> found = predict(Scenario(alpha=0.8, gamma=4, c=0.1))
    >>> round(found.walltime_improvement, 4), found.decision
    (2.4011, Decision(action='raise', gamma=5))
    """
    return of_endpoint(resolve(scenario, parts=parts))


def of_endpoint(endpoint: Endpoint) -> Prediction:
    """The prediction of an endpoint that is already resolved, or was made from a log."""
    speculation, s = endpoint.speculation, endpoint.scenario
    gamma = endpoint.gamma
    speedup = endpoint.speedup_at(gamma)
    plain = endpoint.tpot_plain
    tpot = None if plain is None else plain.with_(speedup, lambda step, ratio: step / ratio)
    priced = s.usd_per_hour is not None
    return Prediction(
        endpoint=endpoint,
        curve=_curve(endpoint),
        speedup=speedup,
        operations=endpoint.operations_at(gamma),
        best_gamma=_best(endpoint),
        optimal_gamma=speculation.optimal(),
        crossover_gamma=speculation.crossover(),
        tpot=tpot,
        usd_plain=plain.map(lambda t: usd_at(endpoint, t, 0)) if plain and priced else None,
        usd=tpot.map(lambda t: usd_at(endpoint, t, gamma)) if tpot and priced else None,
    )


@dataclass(frozen=True)
class OwnGamma:
    """A kind of request of a mixture: its share of the output tokens, and the γ that would be
    fastest for it in the same steps, were all to draft as many, of those that may be advised; 0
    where none pays. `less`: how much less a token takes it then than at the γ in use, a share."""

    share: float
    gamma: int
    less: float


def own_gammas(p: Prediction) -> tuple[OwnGamma, ...]:
    """What one γ for all costs each kind of a mixture, in the middle; () where all are alike, and
    of a tree.

    Its time per token is (s + τ w) / τ_i: everybody's steps and what waits, in its own tokens.

    Examples
    --------
    >>> easy, hard = own_gammas(predict(Scenario(mixture=((0.5, 0.9), (0.5, 0.4)), c=0.1, gamma=4)))
    >>> easy.gamma > 4 > hard.gamma
    True
    """
    half = p.speculation
    if not isinstance(half.drafted, MixtureAcceptance):
        return ()
    gammas = np.array([0, *p.endpoint.advisable, p.gamma])
    step = half.cost.total(gammas) + half.tokens(gammas) * half.waits(gammas)
    found = []
    for i, share in enumerate(half.drafted.weights):
        times = step / np.asarray(of_kind(half.acceptance, i).tokens_per_step(gammas))
        best = int(np.argmin(times))
        found.append(OwnGamma(share, int(gammas[best]), float(1.0 - times[best] / times[-1])))
    return tuple(found)


def _best(endpoint: Endpoint) -> int:
    """The fastest γ considered, 0 where plain decoding is; of a tree, its nodes."""
    s = endpoint.scenario
    considered = np.arange(s.max_gamma + 1) if s.tree is None else np.array([0, s.gamma])
    considered = considered[considered < len(endpoint.gammas)]
    return int(considered[np.argmax(endpoint.curves[0][considered])])


def _curve(endpoint: Endpoint) -> Curve:
    speculation, gammas = endpoint.speculation, endpoint.gammas
    cost = speculation.cost
    centre, low, high = endpoint.curves
    return Curve(
        gamma=gammas,
        tokens_per_step=speculation.tokens(gammas),
        verify_cost=cost.verify(gammas),
        draft_cost=cost.draft(gammas) + cost.extra(gammas),
        step_cost=cost.total(gammas),
        walltime_improvement=centre,
        operations_increase=speculation.operations(gammas),
        low=low if endpoint.open else None,
        high=high if endpoint.open else None,
    )


def usd_at(endpoint: Endpoint, tpot: ArrayLike, gamma: int) -> FloatArray:
    """USD per million output tokens at a TPOT in seconds; the draft's GPUs are billed with it."""
    s = endpoint.scenario
    gpus, price = s.tensor_parallel + (s.draft_gpus if gamma else 0), s.usd_per_hour or 0.0
    each = 1.0 / endpoint.throughput(tpot, gamma)
    return usd_per_million_tokens(each, batch=1, gpus=gpus, usd_per_hour=price)
