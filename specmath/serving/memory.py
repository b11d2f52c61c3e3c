"""GPU memory: weights and KV of both models, lookahead slots, activations; the largest batch.

Per GPU, in bytes:  utilisation memory = weights + draft weights + activations + batch x sequence
    sequence = KV of the target and of the drafter for context + 1 + γ tokens + logits of γ+1 rows
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from specmath import hardware
from specmath.acceptance import Acceptance
from specmath.checks import InputError, real, whole
from specmath.drafters import Drafter, Place
from specmath.drafters.base import LOGIT_BYTES
from specmath.hardware import Gpu
from specmath.models import Model, dtype_bytes
from specmath.serving import ServedStepCost
from specmath.steptime.shards import shard

__all__ = ["DraftTax", "Memory", "draft_tax"]

GIB = 2.0**30
_MOST_GPUS = 64


def _cache_bytes(model: Model, tokens: int, gpus: int, dtype: str) -> float:
    """Bytes one GPU of `gpus` holds for a sequence of `tokens`; MLA's latent is on every GPU."""
    count = np.asarray(float(tokens))
    total = 0.0
    for layer in shard(model, gpus).attention:
        stored = float(layer.attention.kv_elements(count)) * layer.cache_share
        total += layer.count * (stored * dtype_bytes(dtype, "kv_dtype") + layer.state_bytes())
    return total


def _activation_elements(model: Model, gpus: int) -> float:
    """Elements alive at once a token in a layer: residual, norm, and the widest of the rest."""
    widest = 0.0
    for group in model.layers:
        mlp = group.mlp
        width = mlp.experts_per_token * mlp.intermediate if mlp.experts else mlp.intermediate
        widest = max(widest, 3.0 * (width + mlp.shared_intermediate) / gpus)
    return 2.0 * model.hidden + widest


@dataclass(frozen=True)
class Memory:
    """What one replica holds; every size is bytes on its fullest GPU.

    `drafter` None: plain decoding. A drafter on fewer GPUs than the target makes those the
    fullest. `utilisation` in (0, 1]: the share of the memory that the engine may use; 0.9 is the
    default of vLLM's `--gpu-memory-utilization`, and the rest is left for CUDA, NCCL and graphs.
    `prefill_tokens`: tokens of the largest forward, 8192 being vLLM's `max_num_batched_tokens`
    for a server on a large GPU. `block_tokens`: tokens of a KV block, 16 in vLLM.
    """

    target: Model
    gpu: str | Gpu
    drafter: Drafter | None = None
    tensor_parallel: int = 1
    weight_dtype: str | None = "bf16"
    kv_dtype: str = "bf16"
    utilisation: float = 0.9
    prefill_tokens: int = 8192
    block_tokens: int = 16

    def __post_init__(self) -> None:
        real("utilisation", self.utilisation, 0, 1, low_open=True)
        whole("prefill_tokens", self.prefill_tokens, 1)
        whole("block_tokens", self.block_tokens, 1)
        shard(self.target, self.tensor_parallel)
        hardware.find(self.gpu)

    @classmethod
    def of(cls, served: ServedStepCost, *, utilisation: float = 0.9) -> Memory:
        """The memory of a served pair."""
        return cls(
            served.target,
            served.gpu,
            served.drafter,
            served.tensor_parallel,
            served.weight_dtype,
            served.kv_dtype,
            utilisation,
        )

    @property
    def _place(self) -> Place:
        return Place(self.target, self.gpu, self.tensor_parallel, self.weight_dtype, self.kv_dtype)

    @property
    def usable(self) -> float:
        """What the engine may use of one GPU."""
        return self.utilisation * hardware.find(self.gpu).memory

    @property
    def weights(self) -> float:
        """The target's weights."""
        return self.target.weight_bytes(self.weight_dtype) / self.tensor_parallel

    @property
    def draft_weights(self) -> float:
        """The drafter's weights."""
        if self.drafter is None:
            return 0.0
        return self.drafter.weight_bytes(self._place) / self.drafter.gpus(self._place)

    @property
    def activations(self) -> float:
        """Activations of the largest forward, in 16 bits: an estimate, within a factor of 2."""
        return 2.0 * self.prefill_tokens * _activation_elements(self.target, self.tensor_parallel)

    @property
    def free(self) -> float:
        """What is left for sequences. Raises InputError, saying what would fit, if nothing is."""
        self._require(0.0, "weights and activations")
        return self._left

    @property
    def _left(self) -> float:
        return self.usable - self.weights - self.draft_weights - self.activations

    def kv_bytes(self, tokens: int) -> float:
        """Cache of a sequence of `tokens`, in whole blocks, target's and drafter's."""
        held = -(-tokens // self.block_tokens) * self.block_tokens
        total = _cache_bytes(self.target, held, self.tensor_parallel, self.kv_dtype)
        own = None if self.drafter is None else self.drafter.cache_model(self.target)
        if self.drafter is not None and own is not None:
            total += _cache_bytes(own, held, self.drafter.gpus(self._place), self.kv_dtype)
        return total

    def sequence_bytes(self, context_tokens: int, gamma: int = 0) -> float:
        """A sequence at its largest: cache of context + 1 + γ tokens, logits of γ+1 positions.

        `context_tokens` ≥ 1, `gamma` ≥ 0 (0 without a drafter).
        """
        context = int(whole("context_tokens", context_tokens, 1))
        drafted = int(whole("gamma", gamma, 0, np.inf if self.drafter else 0))
        logits = (drafted + 1) * self.target.vocab * LOGIT_BYTES
        return self.kv_bytes(context + 1 + drafted) + logits

    def largest_batch(self, context_tokens: int, gamma: int = 0) -> int:
        """Sequences of `context_tokens` that fit at once. InputError where not even one does."""
        one = self.sequence_bytes(context_tokens, gamma)
        self._require(0.0, "weights and activations")
        self._require(
            one, f"weights, activations and one sequence of {context_tokens} tokens",
            context_tokens, gamma,
        )  # fmt: skip
        return int(self._left // one)

    def use(self, batch: int, context_tokens: int, gamma: int = 0) -> dict[str, float]:
        """Bytes by what they hold; the parts add up to the GPU's memory, `free` being the rest.

        `free` is negative where the batch does not fit.
        """
        count = int(whole("batch", batch, 1))
        memory = hardware.find(self.gpu).memory
        plain = replace(self, drafter=None)
        target_kv = plain.kv_bytes(context_tokens + 1)
        sequence = self.sequence_bytes(context_tokens, gamma)
        both_kv = self.kv_bytes(context_tokens + 1)
        found = {
            "weights": self.weights,
            "draft_weights": self.draft_weights,
            "kv": count * target_kv,
            "draft_kv": count * (both_kv - target_kv),
            "lookahead": count * (sequence - both_kv),
            "activations": self.activations,
            "reserve": memory - self.usable,
        }
        return found | {"free": memory - sum(found.values())}

    def _require(self, needed: float, what: str, context: int = 0, gamma: int = 0) -> None:
        """InputError unless `needed` bytes fit besides the weights: by how much, what would do."""
        missing = needed - self._left
        if missing < 0 or (missing == 0 and needed):
            return
        gpu = hardware.find(self.gpu)
        own = getattr(self.drafter, "model", None)
        name = self.drafter and (own.name if isinstance(own, Model) else self.drafter.label)
        draft = f" with {name}" if name else ""
        raise InputError(
            f"{self.target.name}{draft} does not fit on {self.tensor_parallel} x {gpu.name}: "
            f"{what} take {missing / GIB:.1f} GiB a GPU more than the {self.usable / GIB:.1f} GiB "
            f"usable; {self._remedy(context, gamma)}"
        )

    def _fits(self, context: int, gamma: int) -> bool:
        try:
            one = self.sequence_bytes(context, gamma) if context else 0.0
        except InputError:  # the drafter does not split over so many GPUs
            return False
        return self._left > one

    def _remedy(self, context: int, gamma: int) -> str:
        """Which tensor_parallel, or which GPU of the catalogue, would do."""
        found = []
        tp = self._fitting_tp(context, gamma)
        if tp is not None:
            found.append(f"tensor_parallel {tp} fits")
        memory = hardware.find(self.gpu).memory
        for gpu in sorted(hardware.catalogue().values(), key=lambda gpu: gpu.memory):
            if gpu.memory > memory and replace(self, gpu=gpu)._fits(context, gamma):
                size = gpu.memory / GIB
                found.append(f"{self.tensor_parallel} x {gpu.name} ({size:.0f} GiB) fits")
                break
        if not found and context:
            fits = self._fitting_context(context, gamma)
            return f"{fits} tokens of context fit" if fits else "a smaller model is needed"
        return "; ".join(found) or "a smaller model or fewer bytes a weight are needed"

    def _fitting_context(self, context: int, gamma: int) -> int:
        """The longest context below `context` of which one sequence fits; 0 where none does."""
        low, high = 0, context
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(middle, gamma) else (low, middle)
        return low

    def _fitting_tp(self, context: int, gamma: int) -> int | None:
        for count in range(self.tensor_parallel + 1, _MOST_GPUS + 1):
            try:
                if replace(self, tensor_parallel=count)._fits(context, gamma):
                    return count
            except InputError:  # heads or widths do not divide by it
                continue
        return None


@dataclass(frozen=True)
class DraftTax:
    """What a drafter's memory costs: the largest batch and its tokens/s, without and with it."""

    plain_batch: int
    speculative_batch: int
    plain_tokens_per_second: float
    speculative_tokens_per_second: float

    @property
    def sequences(self) -> int:
        """Sequences that no longer fit."""
        return self.plain_batch - self.speculative_batch

    @property
    def throughput_ratio(self) -> float:
        """Tokens/s at the largest batch with speculation over that without."""
        return self.speculative_tokens_per_second / self.plain_tokens_per_second


def draft_tax(
    served: ServedStepCost, acceptance: Acceptance, gamma: int, *, utilisation: float = 0.9
) -> DraftTax:
    """The largest batch at the served context, with and without the drafter, and its tokens/s.

    tokens/s = batch / plain step, and batch τ / speculative step, each at its own largest batch.
    γ ≥ 1. Raises InputError where not even one sequence fits.
    """
    drafted = int(whole("gamma", gamma, 1))
    both = Memory.of(served, utilisation=utilisation)
    alone = replace(both, drafter=None)
    context = served.context_tokens
    plain, batch = alone.largest_batch(context), both.largest_batch(context, drafted)
    seconds = served.seconds_grid([plain, batch], [context], [0, drafted])[:, 0, :]
    tokens = float(served.accepts(acceptance).tokens_per_step(drafted))
    return DraftTax(
        plain_batch=plain,
        speculative_batch=batch,
        plain_tokens_per_second=plain / float(seconds[0, 0]),
        speculative_tokens_per_second=batch * tokens / float(seconds[1, 1]),
    )
