"""What one GPU of a tensor-parallel group computes in a forward: shapes only, no times.

Column-parallel then row-parallel as in Megatron-LM (arXiv 1909.08053): heads and intermediate
widths are divided by tp, hidden and latent widths are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from specmath.checks import FloatArray, InputError, whole
from specmath.models import Attention, LayerGroup, Mlp, Model
from specmath.models.dtypes import Part

__all__ = ["AttentionShard", "ExpertShard", "Linear", "Shard", "shard"]


@dataclass(frozen=True)
class Linear:
    """`count` matrix products of `inputs` -> `outputs` in one forward, weights of `part`."""

    count: int
    outputs: float
    inputs: float
    part: Part | None  # None: never quantised (router)


@dataclass(frozen=True)
class ExpertShard:
    """`count` mixture layers: this GPU holds a slice of `parameters` of each of `experts`."""

    count: int
    experts: int
    per_token: int
    parameters: float
    widths: float  # elements one routed token reads and writes: 2 hidden + 3 intermediate / tp


@dataclass(frozen=True)
class AttentionShard:
    """`count` attention layers, of which this GPU keeps shares of the cache and of the heads."""

    count: int
    attention: Attention
    cache_share: float
    head_share: float

    def kv_elements(self, context: FloatArray) -> FloatArray:
        """Cache elements a sequence that this GPU reads in one layer."""
        return self.attention.kv_elements_read(context) * self.cache_share

    def state_bytes(self) -> float:
        """Bytes a sequence of the constant state in one layer (linear attention; else 0)."""
        a = self.attention
        return a.state_elements * a.state_bytes_per_element * self.head_share

    def flops(self, context: FloatArray) -> FloatArray:
        """FLOPs of one query token in one layer on this GPU."""
        return self.attention.context_flops(context) * self.head_share


@dataclass(frozen=True)
class Shard:
    """One GPU's part of a model: linear layers, experts, attention, and the small kernels.

    `elements_per_token` counts what norms, residuals and activation functions read and write;
    `kernels` how many such kernels there are; `all_reduces` how many follow the layers.
    """

    linears: tuple[Linear, ...]
    experts: tuple[ExpertShard, ...]
    attention: tuple[AttentionShard, ...]
    elements_per_token: float
    kernels: int
    all_reduces: int

    @property
    def launches(self) -> int:
        """Kernels of one forward, as a host without CUDA graphs has to launch them."""
        products = sum(linear.count for linear in self.linears)
        mixtures = sum(layer.count for layer in self.experts)
        attention = sum(layer.count for layer in self.attention)
        return self.kernels + self.all_reduces + products + mixtures + attention


@lru_cache(maxsize=256)
def shard(model: Model, tensor_parallel: int) -> Shard:
    """One GPU's part of `model` split over `tensor_parallel` GPUs (whole, >= 1).

    Raises InputError where heads, key-value heads or intermediate widths do not divide.
    """
    tp = whole("tensor_parallel", tensor_parallel, 1).item()
    linears: list[Linear] = []
    experts: list[ExpertShard] = []
    attention: list[AttentionShard] = []
    elements, kernels = float(model.hidden), 1  # the embedding's look-up
    for group in model.layers:
        linears += _attention_linears(group, model.hidden, tp)
        attention.append(_attention_shard(group, tp))
        linears += _mlp_linears(group, model.hidden, tp)
        experts += _experts(group, model.hidden, tp)
        # Two norms with their residuals, 4 widths each: two read, two written.
        width = _dense_width(group.mlp) / tp
        elements += group.count * (8.0 * model.hidden + 3.0 * width)
        kernels += group.count * (3 if width else 2)
    linears.append(Linear(1, math.ceil(model.vocab / tp), model.hidden, "head"))
    # One after each half of a layer, one after the embedding (its table is split too).
    reduces = 2 * model.layer_count + 1
    return Shard(tuple(linears), tuple(experts), tuple(attention), elements, kernels, reduces)


def _divides(name: str, value: int, tp: int) -> int:
    if value % tp:
        choices = ", ".join(str(d) for d in range(1, 17) if value % d == 0)
        raise InputError(
            f"tensor_parallel must divide {name} = {value} (for example {choices}), got {tp}"
        )
    return value // tp


def _attention_shard(group: LayerGroup, tp: int) -> AttentionShard:
    a = group.attention
    _divides("heads", a.heads, tp)
    if a.kind == "mla":  # every GPU needs the whole latent
        return AttentionShard(group.count, a, 1.0, 1.0 / tp)
    if a.kv_heads % tp and tp % a.kv_heads:
        raise InputError(
            "tensor_parallel must divide kv_heads or be a multiple of it, got "
            f"{tp} with kv_heads = {a.kv_heads}"
        )
    return AttentionShard(group.count, a, 1.0 / min(tp, a.kv_heads), 1.0 / tp)


def _attention_linears(group: LayerGroup, hidden: int, tp: int) -> list[Linear]:
    a, count = group.attention, group.count
    heads = _divides("heads", a.heads, tp)

    def one(outputs: float, inputs: float) -> Linear:
        return Linear(count, outputs, inputs, "attention")

    if a.kind == "mla":
        query = heads * (a.nope_head_dim + a.rope_head_dim)
        latent = a.kv_lora_rank + a.rope_head_dim
        down = [one(a.q_lora_rank + latent, hidden)]
        up = [one(query, a.q_lora_rank or hidden)]
        # The absorbed up-projections (DeepSeek-V2, section 2.1.2), one small product a head.
        absorbed = [
            one(a.kv_lora_rank, heads * a.nope_head_dim),
            one(heads * a.v_head_dim, a.kv_lora_rank),
        ]
        index = []
        if a.index_topk:
            index = [
                one(a.index_heads * a.index_head_dim, a.q_lora_rank or hidden),
                one(a.index_head_dim + a.index_heads, hidden),
            ]
        return [*down, *up, *absorbed, *index, one(hidden, heads * a.v_head_dim)]
    kv_heads = max(a.kv_heads / tp, 1.0)
    values = heads * a.value_dim
    if a.kind == "linear":
        into = 2 * kv_heads * a.head_dim + 2 * values + 2 * heads
    else:
        key_value = a.head_dim + (0 if a.keys_are_values else a.value_dim)
        into = heads * a.head_dim * (2 if a.output_gate else 1) + kv_heads * key_value
    return [one(into, hidden), one(hidden, values)]


def _dense_width(mlp: Mlp) -> int:
    """Width of the network that every token passes: the dense one, or the shared experts."""
    return mlp.shared_intermediate if mlp.experts else mlp.intermediate


def _mlp_linears(group: LayerGroup, hidden: int, tp: int) -> list[Linear]:
    mlp, count = group.mlp, group.count
    found = []
    if mlp.experts:
        found.append(Linear(count, mlp.experts, hidden, None))
    if _dense_width(mlp):
        part: Part = "shared" if mlp.experts else "mlp"
        width = _divides("intermediate", _dense_width(mlp), tp)
        found.append(Linear(count, (mlp.matrices - 1) * width, hidden, part))
        found.append(Linear(count, hidden, width, part))
    return found


def _experts(group: LayerGroup, hidden: int, tp: int) -> list[ExpertShard]:
    mlp = group.mlp
    if not mlp.experts:
        return []
    _divides("intermediate", mlp.intermediate, tp)
    parameters = mlp.expert_parameters(hidden) / tp
    widths = 2.0 * hidden + 3.0 * mlp.intermediate / tp
    return [ExpertShard(group.count, mlp.experts, mlp.experts_per_token, parameters, widths)]
