"""The step cost of a served pair: target, drafter, GPUs, batch and context give s(γ).

    plain = forward(1) + sampling(1) + host
    v(γ)  = [forward(γ+1) + sampling(γ+1) + host + states(γ)] / plain
    d(γ)  = [drafting(γ) + passes host_per_pass] / plain          h = overhead / plain if γ ≥ 1

states: what an engine moves of the state of linear attention for each verified position beyond
what the forward counts. Drafts that stop early, going on after each token with chance q, cost
what drafts of the mean length Σ q^i do, and the pass that found the end.

A lookup drafts only for a share κ of the sequence-steps. The step is shared by the batch, so its
positions are B + γK with K ~ Binomial(B, κ), and every part is the expectation over K. At B=1
that is κ s + (1−κ) s₀; with `CoveredAcceptance` as the other half, τ/s is the design's
(κτ + 1−κ) / (κs + (1−κ) s₀).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from specmath import engines
from specmath.acceptance import Acceptance, CoveredAcceptance
from specmath.checks import FloatArray, InputError, IntArray, real, whole
from specmath.drafters import Drafter, sampling_seconds
from specmath.drafters.host import hosted, next_choice_share, state_passes
from specmath.engines import EIGHT_BIT_CACHE, Engine
from specmath.models import Model, dtype_bytes
from specmath.steptime import Pace, Placement, StepBreakdown
from specmath.theorems import expected_tokens
from specmath.trees import TreeAcceptance, TreeShape

__all__ = ["ServedPair"]

VLLM = engines.named("vllm")

ROUNDING = 1e-9


@dataclass(frozen=True)
class ServedPair:
    """s(γ) of a target and a drafter on a GPU, at one batch and context.

    Seconds and plain steps. Raises InputError: a value out of range, an unknown GPU, a
    tensor_parallel that does not divide, γ beyond a drafter's heads.

    Attributes
    ----------
    place
        The target where it runs.
    batch, context_tokens
        Sequences, >= 1, and tokens each has in the cache, >= 1.
    engine
        What it adds around the forwards: of `specmath.engines`, or your own.
    coverage
        Share of sequence-steps with a draft; None: the drafter's own.
    continues
        q, the chance that a draft goes on after each token, in [0, 1].
    tree
        The outline of a token tree; γ counts its nodes. None: chains.

    Examples
    --------
    >>> from specmath import drafters, engines, models
    >>> place = Placement(models.find("Llama-3.1-8B"), "h100")
    >>> draft, bare = drafters.named("Llama-3.2-1B"), engines.named("none")
    >>> pair = ServedPair(place, draft, batch=8, context_tokens=1024, engine=bare)
    >>> pair.total([0, 4])
    array([1.   , 1.9...])
    """

    place: Placement
    drafter: Drafter
    batch: int
    context_tokens: int
    engine: Engine = VLLM
    coverage: float | None = None
    continues: float = 1.0
    tree: TreeShape | None = None

    def __post_init__(self) -> None:
        real("continues", self.continues, 0, 1)
        for name in ("batch", "context_tokens"):
            if whole(name, getattr(self, name), 1).ndim:
                raise InputError(f"{name} must be one number, got {getattr(self, name)!r}")
        if self.coverage is not None:
            real("coverage", self.coverage, 0, 1)
        if self.tree is not None:
            if self.share < 1:
                raise InputError(f"a tree needs a draft in every step, got coverage {self.share:g}")
            whole("depth of the tree", self.tree.depth, 1, self.drafter.reach)

    @property
    def target(self) -> Model:
        """The model that is served."""
        return self.place.model

    @property
    def share(self) -> float:
        """κ: the share of sequence-steps that have a draft."""
        return self.drafter.coverage if self.coverage is None else self.coverage

    @cached_property
    def hosted(self) -> Engine:
        """The engine as it runs this kind of drafter."""
        return hosted(self.engine, self.drafter.kind)

    @property
    def trained_depth(self) -> int | None:
        """The γ that the drafter was trained for; None where any is as good as another."""
        return self.drafter.trained_depth(self.target)

    @property
    def reach(self) -> float:
        """The largest γ that can be drafted; of a tree, the largest number of nodes."""
        return np.inf if self.tree else self.drafter.reach

    def accepts(self, acceptance: Acceptance) -> Acceptance:
        """`acceptance` of a drafted chain, counted over all steps and of the tree where one is."""
        if self.tree is not None:
            outline = self.tree.depth, self.tree.children
            return TreeAcceptance(acceptance, *outline, next_choice_share())
        return acceptance if self.share == 1 else CoveredAcceptance(acceptance, self.share)

    @cached_property
    def plain_seconds(self) -> float:
        """Seconds of a plain step: forward, sampling and host."""
        return float(self._verify_seconds(self.batch, self.context_tokens, 0))

    def verify(self, gamma: ArrayLike) -> FloatArray:
        """v(γ), plain steps; 1 at γ=0 by definition, whatever a quotient of two sums rounds to."""
        drafted = whole("gamma", gamma, 0)
        seconds = self._verify_seconds(self.batch, self.context_tokens, drafted)
        return np.where(drafted == 0, 1.0, seconds / self.plain_seconds)

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
        return float(one / self.place.step(self.batch, 1, self.context_tokens).total)

    @cached_property
    def c_hat(self) -> float:
        """ĉ: FLOPs of one drafted token over those of one target token."""
        return self.drafter.flops_per_token(self.target) / self.target.flops_per_token

    def breakdown(self, gamma: ArrayLike) -> dict[str, FloatArray]:
        """Seconds of a step by what they are spent on; the parts add up to `seconds(gamma)`.

        weights, kv, arithmetic, elementwise, launch, communication: the target's forward, as
        `StepBreakdown`; sampling; host; drafting; overhead (all that speculation adds besides).
        """
        drafted = whole("gamma", gamma, 0)

        def part(name: str) -> FloatArray:
            def full(count: IntArray) -> FloatArray:
                forwards = self._positions(self.batch, self.context_tokens, count)
                return self._mean(getattr(forwards, name), self.batch, count)

            return self._at_mean(full, self.verified(drafted), drafted)

        found = {field.name: part(field.name) for field in fields(StepBreakdown)}
        verified = self.batch * self.share * self.verified(drafted)
        waits = self._drafts(self.batch) * self._passes(drafted) * self.hosted.pass_
        drafting = self._draft_seconds(self.batch, self.context_tokens, drafted)
        found["kv"] = found["kv"] + verified * self._state_seconds
        found["sampling"] = sampling_seconds(
            self.place.device, self.batch + verified, self.target.vocab
        )
        found["host"] = np.full(drafted.shape, self._host_seconds(self.batch))
        found["drafting"] = drafting - waits
        found["overhead"] = self._extra_seconds(self.batch, drafted) + waits
        return found

    def seconds_grid(
        self, batches: ArrayLike, contexts: ArrayLike, gammas: ArrayLike
    ) -> FloatArray:
        """Seconds of a step, shape (batches, contexts, gammas), all else as in this record."""
        verify, rest = self._grids(batches, contexts, gammas)
        return verify + rest

    def cost_grids(
        self, batches: ArrayLike, contexts: ArrayLike, gammas: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """v and d + h in plain steps of each batch and context, (batches, contexts, gammas)."""
        drafted = np.atleast_1d(gammas)
        verify, rest = self._grids(batches, contexts, np.append(0, drafted))
        plain = verify[..., :1]
        return np.where(drafted == 0, 1.0, verify[..., 1:] / plain), rest[..., 1:] / plain

    def parts_grid(
        self, batches: ArrayLike, contexts: ArrayLike, gammas: ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Seconds of verification, drafting and overhead, each (batches, contexts, gammas)."""
        b = whole("batches", np.atleast_1d(batches), 1)[:, None, None]
        n = whole("contexts", np.atleast_1d(contexts), 1)[None, :, None]
        g = whole("gammas", np.atleast_1d(gammas), 0)[None, None, :]
        shape = np.broadcast_shapes(b.shape, n.shape, g.shape)
        parts = (
            self._verify_seconds(b, n, g), self._draft_seconds(b, n, g), self._extra_seconds(b, g)
        )  # fmt: skip
        return tuple(np.broadcast_to(part, shape) for part in parts)  # type: ignore[return-value]

    def _grids(
        self, batches: ArrayLike, contexts: ArrayLike, gammas: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Seconds of verification, and of drafting with overhead."""
        verify, draft, extra = self.parts_grid(batches, contexts, gammas)
        return verify, draft + extra

    def _positions(self, batch: ArrayLike, context: ArrayLike, gamma: IntArray) -> StepBreakdown:
        """Forwards of the target: of γ+1 positions, or (κ < 1) of 1 … γ_max+1 on a last axis."""
        if self.share == 1:
            return self.place.step(batch, gamma + 1, context, self.pace)
        axis = np.arange(1, int(gamma.max(initial=0)) + 2)
        one, length = np.asarray(batch)[..., None], np.asarray(context)[..., None]
        return self.place.step(one, axis, length, self.pace)

    def _mean(self, values: FloatArray, batch: ArrayLike, gamma: IntArray) -> FloatArray:
        """`values` of `_positions`, averaged over how many sequences had a draft."""
        if self.share == 1:
            return values
        return np.asarray((values * _binomial_weights(batch, gamma, self.share)).sum(axis=-1))

    def _verify_seconds(self, batch: ArrayLike, context: ArrayLike, gamma: ArrayLike) -> FloatArray:
        drafted = whole("gamma", gamma, 0)

        def full(count: IntArray) -> FloatArray:
            return self._mean(self._positions(batch, context, count).total, batch, count)

        verified = self.share * self.verified(drafted)
        forward = self._at_mean(full, self.verified(drafted), drafted)
        states = np.asarray(batch) * verified * self._state_seconds
        sampled = np.asarray(batch) * (1.0 + verified)
        sampling = sampling_seconds(self.place.device, sampled, self.target.vocab)
        return np.asarray(forward + states + sampling + self._host_seconds(batch))

    @cached_property
    def _state_seconds(self) -> float:
        """What is moved of linear attention's states for one verified position of a sequence,
        besides what the forward counts."""
        moved = state_passes(self.engine) * self.target.state_bytes() / self.place.tensor_parallel
        return moved / (self.place.device.bandwidth * self.place.memory_efficiency)

    def verified(self, drafted: IntArray) -> FloatArray:
        """Mean drafted tokens that are verified, Σ q^i, of whole drafts ≥ 0."""
        if self.continues == 1.0:
            return drafted.astype(float)
        return expected_tokens(self.continues, drafted) - 1.0

    def _passes(self, drafted: IntArray) -> FloatArray:
        """Mean passes of the drafter: one more than tokens where it finds that it must stop; of a
        tree, one a level."""
        if self.tree is not None:
            return np.where(drafted > 0, self.drafter.passes(self.tree.depth), 0.0)
        if self.continues == 1.0 or self.drafter.parallel:
            return self.drafter.passes(drafted)
        before = expected_tokens(self.continues, np.maximum(drafted - 1, 0))
        return np.where(drafted > 0, before, 0.0)

    def _at_mean(
        self, seconds: Callable[[IntArray], FloatArray], mean: FloatArray, drafted: IntArray
    ) -> FloatArray:
        """`seconds` of whole drafts at their mean length, linear between whole ones."""
        if self.continues == 1.0:
            return seconds(drafted)
        low = np.minimum(np.floor(mean + ROUNDING).astype(int), drafted)
        share = np.clip(mean - low, 0.0, 1.0)
        high = np.minimum(low + 1, drafted)
        return np.asarray((1.0 - share) * seconds(low) + share * seconds(high))

    @property
    def positions(self) -> tuple[float, float]:
        """What a verified position adds beyond the computed pass, plain steps: low and high end."""
        low, high = self.engine.position
        if dtype_bytes(self.place.kv_dtype) > 1 or self.place.device.computes_in("fp8"):
            return low, high
        return low + EIGHT_BIT_CACHE[0], high + EIGHT_BIT_CACHE[1]

    @cached_property
    def pace(self) -> Pace:
        """This engine's kernels over those that the step time was fitted to."""
        engine, place, gpu = self.engine, self.place, self.place.device
        four_bits = gpu.computes_in("fp4")
        eight_bit_cache = dtype_bytes(place.kv_dtype) <= 1 and gpu.computes_in("fp8")
        return Pace(
            weights=engine.weights.get(place.stored_dtype, 1.0),
            launch=engine.launch,
            communication=engine.fused_communication if four_bits else engine.communication,
            cache=engine.eight_bit_cache if eight_bit_cache and not four_bits else 1.0,
        )

    def _host_seconds(self, batch: ArrayLike) -> FloatArray:
        layers = sum(group.count for group in self.target.layers if group.mlp.experts)
        if self.engine.hides_host and not layers:
            return np.zeros(np.shape(batch))
        once = self.engine.host + self.engine.expert_layer * layers
        return np.asarray(once + self.engine.sequence * np.asarray(batch))

    def _draft_seconds(self, batch: ArrayLike, context: ArrayLike, gamma: ArrayLike) -> FloatArray:
        drafted = whole("gamma", gamma, 0)

        def full(count: IntArray) -> FloatArray:
            return self.drafter.step_seconds(self.place, count, batch, context)

        waits = self._drafts(batch) * self._passes(drafted) * self.hosted.pass_
        if self.tree is not None:
            widths = self.tree.pass_widths
            levels = self.drafter.tree_seconds(self.place, widths, batch, context)
            return np.where(drafted > 0, levels + waits, 0.0)
        if self.drafter.parallel:  # all positions are drafted, and fewer verified
            return np.asarray(full(drafted) + waits)
        return np.asarray(self._at_mean(full, self._passes(drafted), drafted) + waits)

    def _extra_seconds(self, batch: ArrayLike, gamma: ArrayLike) -> FloatArray:
        speculates = whole("gamma", gamma, 0) > 0
        once = self.hosted.step + self.hosted.draft_sequence * np.asarray(batch)
        return np.where(speculates, self._drafts(batch) * once, 0.0)

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
    wide = int(gamma.max(initial=0)) + 1
    weights = np.zeros((*b.shape, wide))
    for count in np.unique(b).tolist():
        at = b == count
        drafted = g[at][:, None]
        place = drafted * np.arange(count + 1) / count
        low = np.minimum(np.floor(place).astype(int), drafted)
        high, beyond = np.minimum(low + 1, drafted), place - low
        row = np.arange(len(drafted))[:, None] * wide
        chances = _binomial(count, share)
        found = sum(
            np.bincount((row + to).ravel(), (chances * part).ravel(), len(drafted) * wide)
            for to, part in ((low, 1.0 - beyond), (high, beyond))
        )
        weights[at] = np.reshape(found, (len(drafted), wide))
    return weights
