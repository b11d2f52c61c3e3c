"""A whole decoder: parameters, bytes of weights and cache, FLOPs a token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole
from specmath.models.dtypes import Part, Quantisation, dtype_bytes, dtype_name
from specmath.models.layers import LayerGroup

__all__ = ["Model"]

_UNQUANTISED = ("fp32", "bf16", "fp16")


@dataclass(frozen=True)
class Model:
    """A decoder-only language model, as its config.json describes it.

    `weight_dtype` and `kv_dtype` are what the model is published in; every size takes another
    dtype as an argument. Vision towers and multi-token-prediction heads are not counted; `notes`
    says what was left out.
    """

    name: str
    hidden: int
    vocab: int
    layers: tuple[LayerGroup, ...]
    tied_embeddings: bool
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    base_dtype: str = "bf16"  # of the parts that a quantised model leaves alone
    quantisation: Quantisation | None = None
    max_context: int | None = None
    position_parameters: int = 0  # learned position embeddings
    final_norm_parameters: int = 0
    mtp_layers: int = 0  # multi-token-prediction layers that come with it, not counted
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole("hidden", self.hidden, 1)
        whole("vocab", self.vocab, 1)
        if not self.layers:
            raise InputError("layers must hold at least one group, got none")

    @property
    def layer_count(self) -> int:
        return sum(group.count for group in self.layers)

    @property
    def embedding_parameters(self) -> int:
        """The table that turns a token into a vector; also the output head where tied."""
        return self.vocab * self.hidden

    @property
    def head_parameters(self) -> int:
        """Parameters multiplied to get the logits; a table of its own unless tied."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters of the language model, embeddings included, a tied table once."""
        tables = self.embedding_parameters * (1 if self.tied_embeddings else 2)
        rest = self.position_parameters + self.final_norm_parameters
        return tables + rest + sum(group.parameters(self.hidden) for group in self.layers)

    @property
    def active_parameters(self) -> int:
        """Parameters of the modules a token passes through, both embedding tables included.

        Publishers differ: some leave out the input table (one row of it is read), some both.
        """
        layers = sum(group.active_parameters(self.hidden) for group in self.layers)
        return self.parameters - sum(g.parameters(self.hidden) for g in self.layers) + layers

    @property
    def is_moe(self) -> bool:
        return any(group.mlp.experts for group in self.layers)

    def part_parameters(self) -> dict[Part, int]:
        """Matrix parameters by the part that a quantisation may cover."""
        parts: dict[Part, int] = {"attention": 0, "mlp": 0, "experts": 0, "shared": 0}
        for group in self.layers:
            count, mlp = group.count, group.mlp
            parts["attention"] += count * group.attention.matmul_parameters(self.hidden)
            one = mlp.expert_parameters(self.hidden)
            parts["experts" if mlp.experts else "mlp"] += count * max(mlp.experts, 1) * one
            parts["shared"] += count * mlp.shared_parameters(self.hidden)
        parts["head"] = 0 if self.tied_embeddings else self.head_parameters
        return parts

    def quantised_as(self, dtype: str | None = None) -> Quantisation | None:
        """How the weights are stored: as published, or with every linear layer in `dtype`."""
        if dtype is None:
            return self.quantisation
        name = dtype_name(dtype, "weight_dtype")
        if self.quantisation is not None and name == self.quantisation.dtype:
            return self.quantisation
        return None if name in _UNQUANTISED else Quantisation.of(name)

    def weight_bytes(self, dtype: str | None = None) -> float:
        """Bytes of all weights: as published (None), or with every linear layer in `dtype`.

        Embeddings, output head, router, norms and biases keep 16 bits where `dtype` is a
        quantised format, unless the published quantisation covers them.
        """
        quantised = self.quantised_as(dtype)
        if quantised is None:
            return self.parameters * dtype_bytes(dtype or self.weight_dtype)
        base = dtype_bytes(self.base_dtype)
        saved = base - quantised.bytes_per_parameter
        parts = self.part_parameters()
        return self.parameters * base - saved * sum(parts[part] for part in quantised.parts)

    def kv_bytes_per_token(self, dtype: str | None = None) -> float:
        """Cache bytes that one more token takes in all layers, no window being full."""
        each = dtype_bytes(dtype or self.kv_dtype, "kv_dtype")
        return each * sum(g.count * g.attention.kv_elements_per_token for g in self.layers)

    def state_bytes(self) -> float:
        """Bytes a sequence of the constant-size states (linear attention)."""
        return sum(
            g.count * g.attention.state_elements * g.attention.state_bytes_per_element
            for g in self.layers
        )

    def kv_bytes(self, context: ArrayLike, dtype: str | None = None) -> FloatArray:
        """Bytes held for a sequence of `context` tokens (>= 0), windows and states honoured."""
        each = dtype_bytes(dtype or self.kv_dtype, "kv_dtype")
        total = np.zeros_like(real("context", context, 0))
        for group in self.layers:
            total = total + group.count * group.attention.kv_elements(context)
        return total * each + self.state_bytes()

    @property
    def flops_per_token(self) -> float:
        """2 x the matrix parameters a token is multiplied by, output head included.

        Attention over the context is not in it: see `Attention.context_flops`.
        """
        layers = sum(group.active_matmul_parameters(self.hidden) for group in self.layers)
        return 2.0 * (layers + self.head_parameters)
