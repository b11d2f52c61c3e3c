"""The step cost of a served pair: target, drafter, GPUs, batch and context give s(γ).

    plain = forward(1) + sampling(1) + host
    v(γ)  = [forward(γ+1) + sampling(γ+1) + host] / plain
    d(γ)  = [drafting(γ) + passes host_per_pass] / plain          h = overhead / plain if γ ≥ 1

A lookup drafts only for a share κ of the sequence-steps. The step is shared by the batch, so its
positions are B + γK with K ~ Binomial(B, κ), and every part is the expectation over K. At B=1
that is κ s + (1−κ) s₀; with `CoveredAcceptance` as the other half, τ/s is the design's
(κτ + 1−κ) / (κs + (1−κ) s₀).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray, InputError, IntArray, real, whole
from specmath.drafters import Drafter, EngineOverhead, Place, engine_overhead, sampling_seconds
from specmath.hardware import Gpu
from specmath.models import Model
from specmath.steptime import OwnCoefficients, StepBreakdown, step_breakdown

__all__ = ["CoveredAcceptance", "ServedStepCost"]


@dataclass(frozen=True)
class CoveredAcceptance(Acceptance):
    """Acceptance of all steps where only a share κ of them had a draft: s_i = κ s'_i for i ≥ 1.

    `part` is what a server prints, over the steps with a draft. τ = κτ' + 1−κ.
    """

    part: Acceptance
    coverage: float

    def __post_init__(self) -> None:
        real("coverage", self.coverage, 0, 1)

    def survival(self, gamma: int) -> FloatArray:
        found = self.part.survival(gamma) * self.coverage
        found[0] = 1.0
        return found

    def notes(self, gamma: int) -> tuple[str, ...]:
        return self.part.notes(gamma)


@dataclass(frozen=True)
class ServedStepCost:
    """s(γ) of a target and a drafter on a GPU, at one batch and context: a `StepCost`.

    `batch` sequences [>= 1], `context_tokens` each in the cache [>= 1], `tensor_parallel` GPUs of
    the target, `weight_dtype` and `kv_dtype` of the target as `step_seconds` takes them.
    `engine` names the host times of `specmath.drafters.ENGINES`; `host_seconds` (a plain step),
    `overhead_seconds` (a step that speculates, besides) and `pass_overhead_seconds` (each pass of
    the drafter, besides) replace them one by one. `graph_sizes`, `coefficients`: as
    `step_seconds`. `coverage`: share of sequence-steps with a draft; None: the drafter's own.

    Seconds and plain steps. Raises InputError: a value out of range, an unknown GPU or engine, a
    tensor_parallel that does not divide, γ beyond a drafter's heads.
    """

    target: Model
    drafter: Drafter
    gpu: str | Gpu
    batch: int
    context_tokens: int
    tensor_parallel: int = 1
    weight_dtype: str | None = "bf16"
    kv_dtype: str = "bf16"
    overhead_seconds: float | None = None
    pass_overhead_seconds: float | None = None
    host_seconds: float | None = None
    engine: str = "vllm"
    coverage: float | None = None
    graph_sizes: tuple[int, ...] | None = None
    coefficients: OwnCoefficients | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "context_tokens"):
            if whole(name, getattr(self, name), 1).ndim:
                raise InputError(f"{name} must be one number, got {getattr(self, name)!r}")
        engine_overhead(self.engine)
        for name in ("overhead_seconds", "pass_overhead_seconds", "host_seconds"):
            if getattr(self, name) is not None:
                real(name, getattr(self, name), 0)
        if self.coverage is not None:
            real("coverage", self.coverage, 0, 1)

    @property
    def place(self) -> Place:
        """Where the drafter runs."""
        return Place(
            target=self.target,
            gpu=self.gpu,
            tensor_parallel=self.tensor_parallel,
            weight_dtype=self.weight_dtype,
            kv_dtype=self.kv_dtype,
            graph_sizes=self.graph_sizes,
            coefficients=self.coefficients,
        )

    @property
    def overheads(self) -> EngineOverhead:
        """Host seconds of a plain step, of a speculative one and of a pass, as used."""
        base = engine_overhead(self.engine)
        own = (self.host_seconds, self.overhead_seconds, self.pass_overhead_seconds)
        if own == (None, None, None):
            return base
        host, step, each_pass = own
        return EngineOverhead(
            host_seconds=base.host_seconds if host is None else host,
            step_seconds=base.step_seconds if step is None else step,
            pass_seconds=base.pass_seconds if each_pass is None else each_pass,
            source=f"your own; what you left out: {base.source}",
        )

    @property
    def share(self) -> float:
        """κ: the share of sequence-steps that have a draft."""
        return self.drafter.coverage if self.coverage is None else self.coverage

    def accepts(self, acceptance: Acceptance) -> Acceptance:
        """`acceptance` of the drafted steps, counted over all steps (the same where κ = 1)."""
        return acceptance if self.share == 1 else CoveredAcceptance(acceptance, self.share)

    @cached_property
    def plain_seconds(self) -> float:
        """Seconds of a plain step: forward, sampling and host."""
        return float(self._verify_seconds(self.batch, self.context_tokens, 0))

    def verify(self, gamma: ArrayLike) -> FloatArray:
        """v(γ), plain steps."""
        seconds = self._verify_seconds(self.batch, self.context_tokens, whole("gamma", gamma, 0))
        return np.asarray(seconds / self.plain_seconds)

    def draft(self, gamma: ArrayLike) -> FloatArray:
        """d(γ), plain steps."""
        seconds = self._draft_seconds(self.batch, self.context_tokens, whole("gamma", gamma, 0))
        return np.asarray(seconds / self.plain_seconds)

    def extra(self, gamma: ArrayLike) -> FloatArray:
        """h, plain steps: 0 at γ=0."""
        return np.asarray(self._extra_seconds(self.batch, gamma) / self.plain_seconds)

    def total(self, gamma: ArrayLike) -> FloatArray:
        """s(γ) = v + d + h, plain steps."""
        return self.verify(gamma) + self.draft(gamma) + self.extra(gamma)

    def seconds(self, gamma: ArrayLike) -> FloatArray:
        """Seconds of a step of γ drafted tokens."""
        return self.total(gamma) * self.plain_seconds

    @cached_property
    def c(self) -> float:
        """One draft forward, with its sampling, over one target forward, in walltime; no host."""
        one = self.drafter.pass_seconds(self.place, 1, self.batch, self.context_tokens)
        return float(one / self._forward(self.batch, self.context_tokens, 1).total)

    @cached_property
    def c_hat(self) -> float:
        """ĉ: FLOPs of one drafted token over those of one target token."""
        return self.drafter.flops_per_token(self.target) / self.target.flops_per_token

    def sigma_at(self, gamma: ArrayLike) -> FloatArray:
        """σ = (v(γ) − 1)/γ, γ ≥ 1: 0 memory-bound, 1 compute-bound."""
        drafted = whole("gamma", gamma, 1)
        return np.asarray((self.verify(drafted) - 1.0) / drafted)

    def breakdown(self, gamma: ArrayLike) -> dict[str, FloatArray]:
        """Seconds of a step by what they are spent on; the parts add up to `seconds(gamma)`.

        weights, kv, arithmetic, elementwise, launch, communication: the target's forward, as
        `StepBreakdown`; sampling; host; drafting; overhead (all that speculation adds besides).
        """
        drafted = whole("gamma", gamma, 0)
        forwards = self._positions(self.batch, self.context_tokens, drafted)
        found = {
            field.name: self._mean(getattr(forwards, field.name), self.batch, drafted)
            for field in fields(StepBreakdown)
        }
        sampled = self.batch * (1.0 + self.share * drafted)
        passes = self._drafts(self.batch) * self.drafter.passes(drafted)
        found["sampling"] = sampling_seconds(self.gpu, sampled, self.target.vocab)
        found["host"] = np.full(drafted.shape, self.overheads.host_seconds)
        waits = passes * self.overheads.pass_seconds
        found["drafting"] = self._draft_seconds(self.batch, self.context_tokens, drafted) - waits
        found["overhead"] = self._extra_seconds(self.batch, drafted) + waits
        return found

    def seconds_grid(
        self, batches: ArrayLike, contexts: ArrayLike, gammas: ArrayLike
    ) -> FloatArray:
        """Seconds of a step, shape (batches, contexts, gammas), all else as in this record."""
        b = whole("batches", np.atleast_1d(batches), 1)[:, None, None]
        n = whole("contexts", np.atleast_1d(contexts), 1)[None, :, None]
        g = whole("gammas", np.atleast_1d(gammas), 0)[None, None, :]
        extra = self._extra_seconds(b, g)
        return self._verify_seconds(b, n, g) + self._draft_seconds(b, n, g) + extra

    def speedup_grid(
        self, acceptance: Acceptance, batches: ArrayLike, contexts: ArrayLike, gammas: ArrayLike
    ) -> FloatArray:
        """τ(γ)/s(γ), shape (batches, contexts, gammas); `acceptance` of the steps with a draft."""
        wanted = whole("gammas", np.atleast_1d(gammas), 0)
        seconds = self.seconds_grid(batches, contexts, np.append(0, wanted))
        tokens = np.asarray(self.accepts(acceptance).tokens_per_step(wanted))
        return np.asarray(tokens * seconds[..., :1] / seconds[..., 1:])

    def _forward(self, batch: ArrayLike, context: ArrayLike, positions: ArrayLike) -> StepBreakdown:
        return step_breakdown(
            self.target,
            self.gpu,
            batch=batch,
            tokens_per_sequence=positions,
            context_tokens=context,
            tensor_parallel=self.tensor_parallel,
            weight_dtype=self.weight_dtype,
            kv_dtype=self.kv_dtype,
            graph_sizes=self.graph_sizes,
            coefficients=self.coefficients,
        )

    def _positions(self, batch: ArrayLike, context: ArrayLike, gamma: IntArray) -> StepBreakdown:
        """Forwards of the target: of γ+1 positions, or (κ < 1) of 1 … γ_max+1 on a last axis."""
        if self.share == 1:
            return self._forward(batch, context, gamma + 1)
        axis = np.arange(1, int(gamma.max(initial=0)) + 2)
        return self._forward(np.asarray(batch)[..., None], np.asarray(context)[..., None], axis)

    def _mean(self, values: FloatArray, batch: ArrayLike, gamma: IntArray) -> FloatArray:
        """`values` of `_positions`, averaged over how many sequences had a draft."""
        if self.share == 1:
            return values
        return np.asarray((values * _binomial_weights(batch, gamma, self.share)).sum(axis=-1))

    def _verify_seconds(self, batch: ArrayLike, context: ArrayLike, gamma: ArrayLike) -> FloatArray:
        drafted = whole("gamma", gamma, 0)
        forward = self._mean(self._positions(batch, context, drafted).total, batch, drafted)
        sampled = np.asarray(batch) * (1.0 + self.share * drafted)
        sampling = sampling_seconds(self.gpu, sampled, self.target.vocab)
        return np.asarray(forward + sampling + self.overheads.host_seconds)

    def _draft_seconds(self, batch: ArrayLike, context: ArrayLike, gamma: ArrayLike) -> FloatArray:
        waits = self.drafter.passes(gamma) * self.overheads.pass_seconds
        forwards = self.drafter.step_seconds(self.place, gamma, batch, context)
        return np.asarray(forwards + self._drafts(batch) * waits)

    def _extra_seconds(self, batch: ArrayLike, gamma: ArrayLike) -> FloatArray:
        speculates = whole("gamma", gamma, 0) > 0
        return np.where(speculates, self._drafts(batch) * self.overheads.step_seconds, 0.0)

    def _drafts(self, batch: ArrayLike) -> FloatArray:
        """P(at least one sequence of the batch has a draft)."""
        return np.asarray(1.0 - (1.0 - self.share) ** np.asarray(batch, dtype=float))


def _binomial(count: int, share: float) -> FloatArray:
    """P(K = k), k = 0 … count, of K ~ Binomial(count, share)."""
    k = np.arange(count + 1)
    ways = special.gammaln(count + 1) - special.gammaln(k + 1) - special.gammaln(count - k + 1)
    logs = ways + special.xlogy(k, share) + special.xlog1py(count - k, -share)
    return np.asarray(np.exp(logs))


def _binomial_weights(batch: ArrayLike, gamma: IntArray, share: float) -> FloatArray:
    """Weights on 1 … γ_max+1 positions a sequence such that their sum is E f(1 + γK/B).

    K ~ Binomial(B, share); f is taken as linear between whole positions. Shape: that of batch and
    γ broadcast, then γ_max+1.
    """
    b, g = np.broadcast_arrays(np.asarray(batch), gamma)
    weights = np.zeros((*b.shape, int(gamma.max(initial=0)) + 1))
    chances = {int(count): _binomial(int(count), share) for count in np.unique(b)}
    for index in np.ndindex(b.shape):
        count, drafted = int(b[index]), int(g[index])
        place = drafted * np.arange(count + 1) / count
        low = np.minimum(np.floor(place).astype(int), drafted)
        high = np.minimum(low + 1, drafted)
        np.add.at(weights[index], low, chances[count] * (1.0 - (place - low)))
        np.add.at(weights[index], high, chances[count] * (place - low))
    return weights
