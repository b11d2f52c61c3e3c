"""A whole decoder: parameters, bytes of weights and cache, FLOPs a token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, whole
from specmath.models.dtypes import NATIVE, Part, Quantisation, dtype_bytes, dtype_name, known
from specmath.models.layers import LayerGroup

__all__ = ["Model", "part_parameters"]

_UNQUANTISED = ("fp32", "bf16", "fp16")


def part_parameters(layers: Iterable[LayerGroup], hidden: int) -> dict[Part, int]:
    """Matrix parameters of the layers by the part that a quantisation may cover."""
    parts: dict[Part, int] = {"attention": 0, "mlp": 0, "experts": 0, "shared": 0}
    for group in layers:
        count, mlp = group.count, group.mlp
        parts["attention"] += count * group.attention.matmul_parameters(hidden)
        one = mlp.expert_parameters(hidden)
        parts["experts" if mlp.experts else "mlp"] += count * max(mlp.experts, 1) * one
        parts["shared"] += count * mlp.shared_parameters(hidden)
    return parts


@dataclass(frozen=True)
class Model:
    """A decoder-only language model, as its config.json describes it.

    `weight_dtype` and `kv_dtype` are what the model is published in (`kv_dtype`: fp8 where the
    checkpoint carries scales for such a cache); every size takes another dtype as an argument.
    Vision towers and multi-token-prediction heads are not counted; `notes` says what was left out.
    `family` is the config's `model_type`; models of one `tokenizer` have the same tokens under the
    same numbers ("" where that is not known).
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
    family: str = ""
    tokenizer: str = ""
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
    def head_parameters(self) -> int:
        """Parameters multiplied to get the logits: a table as large as the input's embeddings,
        and that table itself where tied."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters of the language model, embeddings included, a tied table once."""
        tables = self.head_parameters * (1 if self.tied_embeddings else 2)
        rest = self.position_parameters + self.final_norm_parameters
        return tables + rest + sum(group.parameters(self.hidden) for group in self.layers)

    @property
    def active_parameters(self) -> int:
        """Parameters of the modules a token passes through, both embedding tables included.

        Publishers differ: some leave out the input table (one row of it is read), some both.
        """
        h = self.hidden
        return self.parameters - sum(
            g.parameters(h) - g.parameters(h, active=True) for g in self.layers
        )

    @property
    def is_moe(self) -> bool:
        return any(group.mlp.experts for group in self.layers)

    def part_parameters(self) -> dict[Part, int]:
        """Matrix parameters by the part that a quantisation may cover."""
        parts = part_parameters(self.layers, self.hidden)
        parts["embeddings"] = self.head_parameters
        parts["head"] = 0 if self.tied_embeddings else self.head_parameters
        return parts

    def quantised_as(self, dtype: str | None = None) -> Quantisation | None:
        """How the weights are stored: as published (None, "native"), or with every linear layer in
        `dtype`."""
        if dtype is None or dtype == NATIVE:
            return self.quantisation
        name = dtype_name(dtype, "weight_dtype")
        if self.quantisation is not None and name == self.quantisation.dtype:
            return self.quantisation
        return None if name in _UNQUANTISED else Quantisation.of(name)

    def stored_in(self, dtype: str) -> Model:
        """This model as a checkpoint whose weights are in `dtype`; its name says so.

        As it is where it is published so; `dtype` as `dtypes.known` takes it.
        """
        name = dtype_name(self.weight_dtype if dtype == NATIVE else dtype, "weight_dtype")
        if name == self.weight_dtype:
            return self
        tag = known(name)
        quantised = self.quantised_as(name)
        return replace(
            self,
            name=f"{self.name}-{f'{tag}bpw' if tag[0].isdigit() else tag.upper()}",
            weight_dtype=name,
            base_dtype=self.base_dtype if quantised else name,
            kv_dtype=self.kv_dtype if quantised or self.kv_dtype != self.base_dtype else name,
            quantisation=quantised,
        )

    def weight_bytes(self, dtype: str | None = None) -> float:
        """Bytes of all weights: as published (None), or with every linear layer in `dtype`.

        Embeddings, output head, router, norms and biases keep 16 bits where `dtype` is a
        quantised format, unless the published quantisation covers them. A GGUF quantisation, and
        plain bits a weight, are means over both tables too.
        """
        quantised = self.quantised_as(dtype)
        if quantised is None:
            stored = self.weight_dtype if dtype in (None, NATIVE) else dtype
            return self.parameters * dtype_bytes(str(stored))
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
        elements = [g.count * g.attention.kv_elements(context) for g in self.layers]
        return np.asarray(sum(elements) * each + self.state_bytes())

    @property
    def flops_per_token(self) -> float:
        """2 x the matrix parameters a token is multiplied by, output head included.

        Attention over the context is not in it: see `Attention.context_flops`.
        """
        layers = sum(group.active_matmul_parameters(self.hidden) for group in self.layers)
        return 2.0 * (layers + self.head_parameters)
