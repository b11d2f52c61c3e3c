"""GPU memory: weights and KV of both models, lookahead slots, activations; the largest batch.

Per GPU, in bytes:  utilisation memory = weights + draft weights + activations + batch x sequence
    sequence = KV of the target and of the drafter for context + 1 + γ tokens + logits of γ+1 rows
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from specmath import hardware
from specmath.acceptance import Acceptance
from specmath.checks import InputError, real, whole
from specmath.drafters import Drafter
from specmath.drafters.base import LOGIT_BYTES
from specmath.models import Model, dtype_bytes
from specmath.serving import ServedPair
from specmath.steptime import Placement
from specmath.steptime.operators import shard

__all__ = ["DraftTax", "Memory", "draft_bytes", "draft_tax", "largest_batch"]

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

    A drafter on fewer GPUs than the target makes those the fullest.

    Attributes
    ----------
    place
        The target where it runs.
    drafter
        None: plain decoding.
    utilisation
        In (0, 1]: the share of the memory that the engine may use; 0.9 is the default of vLLM's
        `--gpu-memory-utilization`, and the rest is left for CUDA, NCCL and graphs.
    prefill_tokens
        Tokens of the largest forward, 8192 being vLLM's `max_num_batched_tokens` for a server on a
        large GPU.
    block_tokens
        Tokens of a KV block, 16 in vLLM.

    Examples
    --------
    >>> from specmath import models
    >>> Memory(Placement(models.find("Llama-3.1-8B"), "h100")).largest_batch(1024)
    439
    """

    place: Placement
    drafter: Drafter | None = None
    utilisation: float = 0.9
    prefill_tokens: int = 8192
    block_tokens: int = 16

    def __post_init__(self) -> None:
        real("utilisation", self.utilisation, 0, 1, low_open=True)
        whole("prefill_tokens", self.prefill_tokens, 1)
        whole("block_tokens", self.block_tokens, 1)
        self.place.part  # noqa: B018 - refuses what does not divide
        hardware.find(self.place.gpu)

    @classmethod
    def of(cls, served: ServedPair) -> Memory:
        """The memory of a served pair."""
        return cls(served.place, served.drafter)

    @property
    def usable(self) -> float:
        """What the engine may use of one GPU."""
        return self.utilisation * self.place.device.memory

    @property
    def _group(self) -> int:
        """GPUs that hold one sequence."""
        return self.place.tensor_parallel // self.place.attention_dp

    @cached_property
    def weights(self) -> float:
        """The target's weights."""
        place = self.place
        total = place.model.weight_bytes(place.weight_dtype) / place.tensor_parallel
        if place.attention_dp == 1:
            return total
        # Every group holds all but the routed experts.
        parts = place.model.part_parameters()
        routed = parts["experts"] / place.model.parameters
        return total * (routed + (1.0 - routed) * place.attention_dp)

    @cached_property
    def draft_weights(self) -> float:
        """The drafter's weights."""
        if self.drafter is None:
            return 0.0
        return self.drafter.weight_bytes(self.place) / self.drafter.gpus(self.place)

    @cached_property
    def activations(self) -> float:
        """Activations of the largest forward, in 16 bits: an estimate, within a factor of 2."""
        elements = _activation_elements(self.place.model, self._group)
        return 2.0 * self.prefill_tokens * elements

    @cached_property
    def _left(self) -> float:
        """What is left for sequences; below 0 where weights and activations do not fit."""
        return self.usable - self.weights - self.draft_weights - self.activations

    def kv_bytes(self, tokens: int) -> float:
        """Cache of a sequence of `tokens`, in whole blocks, target's and drafter's."""
        held = -(-tokens // self.block_tokens) * self.block_tokens
        place, drafter = self.place, self.drafter
        total = _cache_bytes(place.model, held, self._group, place.kv_dtype)
        own = drafter and drafter.cache_model(place.model)
        if drafter and own:
            total += _cache_bytes(own, held, drafter.gpus(place), place.kv_dtype)
        return total

    def sequence_bytes(self, context_tokens: int, gamma: int = 0) -> float:
        """A sequence at its largest: cache of context + 1 + γ tokens, logits of γ+1 positions.

        `context_tokens` ≥ 1, `gamma` ≥ 0 (0 without a drafter).
        """
        context = int(whole("context_tokens", context_tokens, 1))
        drafted = int(whole("gamma", gamma, 0, np.inf if self.drafter else 0))
        logits = (drafted + 1) * self.place.model.vocab * LOGIT_BYTES
        return self.kv_bytes(context + 1 + drafted) + logits

    def largest_batch(self, context_tokens: int, gamma: int = 0) -> int:
        """Sequences of `context_tokens` that fit at once; 0 where by this estimate not one does.

        Activations are known within a factor of 2 and the reserve is a setting: servers run where
        they leave nothing. InputError only where the weights alone exceed the memory.
        """
        one = self.sequence_bytes(context_tokens, gamma)
        self.require_weights()
        return max(0, int(self._left // one)) * self.place.attention_dp

    def require_weights(self) -> None:
        """InputError where the weights alone exceed the memory: by how much, what would do."""
        if self.weights + self.draft_weights > self.place.device.memory:
            raise InputError(self.misfit())

    def require_a_sequence(self, context_tokens: int, gamma: int = 0) -> None:
        """InputError where by this estimate not one sequence fits: by how much, what would do."""
        if self._left < self.sequence_bytes(context_tokens, gamma):
            raise InputError(self.misfit(context_tokens, gamma))

    def misfit(self, context_tokens: int = 0, gamma: int = 0) -> str:
        """By how much weights, activations and one sequence exceed what is usable; what would do.

        `context_tokens` 0: of the weights and activations alone.
        """
        what, missing = "weights and activations", -self._left
        if missing < 0 and context_tokens:
            what = f"weights, activations and one sequence of {context_tokens:,} tokens"
            missing += self.sequence_bytes(context_tokens, gamma)
        place = self.place
        own = self.drafter and self.drafter.own_model
        name = own.name if own else self.drafter and self.drafter.label
        draft = f" with {name}" if name else ""
        return (
            f"{place.model.name}{draft} does not fit on {place.tensor_parallel} x "
            f"{place.device.name}: {what} go {missing / GIB:.1f} GiB a GPU beyond the "
            f"{self.usable / GIB:.1f} GiB usable; {self._remedy(context_tokens, gamma)}"
        )

    def _moved(self, **changes: Any) -> Memory:
        return replace(self, place=replace(self.place, **changes))

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
        for gpu in sorted(hardware.catalogue().values(), key=lambda gpu: gpu.memory):
            larger = gpu.memory > self.place.device.memory
            if larger and self._moved(gpu=gpu)._fits(context, gamma):
                size = gpu.memory / GIB
                found.append(f"{self.place.tensor_parallel} x {gpu.name} ({size:.0f} GiB) fits")
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
        for count in range(self.place.tensor_parallel + 1, _MOST_GPUS + 1):
            try:
                if self._moved(tensor_parallel=count)._fits(context, gamma):
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


def draft_tax(served: ServedPair, acceptance: Acceptance, gamma: int) -> DraftTax:
    """The largest batch at the served context, with and without the drafter, and its tokens/s.

    tokens/s = batch / plain step, and batch τ / speculative step, each at its own largest batch.
    γ ≥ 1. Raises InputError where not even one sequence fits.
    """
    drafted = int(whole("gamma", gamma, 1))
    both = Memory.of(served)
    alone = replace(both, drafter=None)
    context = served.context_tokens
    both.require_a_sequence(context, drafted)
    plain, batch = alone.largest_batch(context), both.largest_batch(context, drafted)
    seconds = served.seconds_grid([plain, batch], [context], [0, drafted])[:, 0, :]
    tokens = float(served.accepts(acceptance).tokens_per_step(drafted))
    return DraftTax(
        plain_batch=plain,
        speculative_batch=batch,
        plain_tokens_per_second=plain / float(seconds[0, 0]),
        speculative_tokens_per_second=batch * tokens / float(seconds[1, 1]),
    )


def draft_bytes(served: ServedPair, gamma: int) -> float:
    """Bytes that a drafter adds on its fullest GPU at the served batch and context: its weights,
    its cache, and room for γ ≥ 0 tokens and their logits in the target's."""
    both = Memory.of(served)
    alone = replace(both, drafter=None)
    context = served.context_tokens
    each = both.sequence_bytes(context, gamma) - alone.sequence_bytes(context)
    return both.draft_weights + served.batch / served.place.attention_dp * each


@lru_cache(maxsize=256)
def largest_batch(served: ServedPair, gamma: int) -> int:
    """Sequences that fit beside both models at the served context, 0 where not one does;
    InputError where the weights alone do not fit, saying by how much and what would."""
    return Memory.of(served).largest_batch(served.context_tokens, gamma)
