"""What a transformer layer is made of: parameter counts, cache and arithmetic of one layer.

Counts are whole numbers of parameters; cache sizes are elements a sequence; FLOPs count a
multiplication and an addition as two. `hidden` is the width of the residual stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole

__all__ = ["Attention", "LayerGroup", "Mlp"]

AttentionKind = Literal["full", "sliding", "mla", "linear"]


# What each kind needs besides heads, kv_heads and head_dim.
_NEEDS: dict[AttentionKind, tuple[str, ...]] = {
    "sliding": ("window",),
    "mla": ("kv_lora_rank", "rope_head_dim", "nope_head_dim", "v_head_dim"),
    "linear": ("v_head_dim", "conv_kernel"),
}


@dataclass(frozen=True)
class Attention:
    """One attention layer.

    full, sliding: grouped-query attention, `kv_heads` of `head_dim` each for keys and values.
    mla: multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): a cached token is
        one latent of `kv_lora_rank` plus one rotary key of `rope_head_dim`, whatever the heads.
        With `index_topk` > 0 a query attends only to the `index_topk` tokens that a small indexer
        picks (DeepSeek-V3.2), and the indexer's own key of `index_head_dim` is cached as well.
    linear: gated delta net (arXiv 2412.06464): `kv_heads` key heads of `head_dim`, `heads` value
        heads of `v_head_dim`, a causal convolution, and a state whose size is constant.
    """

    kind: AttentionKind
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    nope_head_dim: int = 0
    v_head_dim: int = 0  # 0: the same as head_dim
    index_heads: int = 0
    index_head_dim: int = 0
    index_topk: int = 0
    conv_kernel: int = 0
    state_bytes_per_element: float = 2.0
    keys_are_values: bool = False
    output_gate: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    extra_parameters: int = 0  # q/k norms, sinks, decay: vectors too small to matter in time

    def __post_init__(self) -> None:
        for name in ("heads", "kv_heads", "head_dim", *_NEEDS.get(self.kind, ())):
            whole(name, getattr(self, name) or 0, 1)
        if self.heads % self.kv_heads:
            raise InputError(
                f"heads must be a multiple of kv_heads, got {self.heads} and {self.kv_heads}"
            )

    @property
    def value_dim(self) -> int:
        """Width of one value head."""
        return self.v_head_dim or self.head_dim

    def matmul_parameters(self, hidden: int) -> int:
        """Parameters of the projections: what is read, and multiplied by, for every token."""
        if self.kind == "mla":
            return self._mla_matmul(hidden)
        if self.kind == "linear":
            values = self.heads * self.value_dim
            # q, k, v and the output gate z; the decay and write strengths (one a value head each).
            return hidden * (self._convolved + values + 2 * self.heads) + values * hidden
        query = self.heads * self.head_dim * (2 if self.output_gate else 1)
        key = self.kv_heads * self.head_dim
        value = 0 if self.keys_are_values else self.kv_heads * self.value_dim
        return hidden * (query + key + value) + self.heads * self.value_dim * hidden

    def _mla_matmul(self, hidden: int) -> int:
        width, rank = self.heads * (self.nope_head_dim + self.rope_head_dim), self.q_lora_rank
        query = hidden * rank + rank * width if rank else hidden * width
        down = hidden * (self.kv_lora_rank + self.rope_head_dim)
        up = self.kv_lora_rank * self.heads * (self.nope_head_dim + self.v_head_dim)
        output = self.heads * self.v_head_dim * hidden
        index_query = (rank or hidden) * self.index_heads * self.index_head_dim
        index_rest = hidden * (self.index_head_dim + self.index_heads)
        return query + down + up + output + index_query + index_rest

    @property
    def _convolved(self) -> int:
        """Channels of the convolution of linear attention: queries, keys and values."""
        return 2 * self.kv_heads * self.head_dim + self.heads * self.value_dim

    @property
    def _state_matrix(self) -> int:
        """Elements of the state of linear attention."""
        return self.heads * self.head_dim * self.value_dim

    def parameters(self, hidden: int) -> int:
        """All parameters of the layer's attention, biases and small vectors included."""
        total = self.matmul_parameters(hidden) + self.extra_parameters
        if self.qkv_bias:
            total += self.heads * self.head_dim + self.kv_heads * (self.head_dim + self.value_dim)
        if self.output_bias:
            total += hidden
        if self.kind == "linear":
            total += self._convolved * self.conv_kernel + 2 * self.heads + self.value_dim
        return total

    @property
    def kv_elements_per_token(self) -> int:
        """Elements that one cached token occupies; 0 for linear attention.

        An indexer's key is counted like the latent (DeepSeek's code keeps it in fp8).
        """
        if self.kind == "linear":
            return 0
        if self.kind == "mla":
            return self.kv_lora_rank + self.rope_head_dim + self.index_head_dim
        return self.kv_heads * (self.head_dim + self.value_dim)

    @property
    def state_elements(self) -> int:
        """Elements of the constant-size state a sequence (linear attention); 0 otherwise.

        The last inputs of the convolution are counted in: under 5% of the whole.
        """
        if self.kind != "linear":
            return 0
        return self._state_matrix + self._convolved * (self.conv_kernel - 1)

    def cached_tokens(self, context: ArrayLike) -> FloatArray:
        """Tokens kept of `context` cached ones (>= 0): at most the window of a sliding layer."""
        tokens = real("context", context, 0)
        return tokens if self.window is None else np.minimum(tokens, float(self.window))

    def kv_elements(self, context: ArrayLike) -> FloatArray:
        """Cache elements a sequence after `context` tokens, without the constant state."""
        return self.cached_tokens(context) * self.kv_elements_per_token

    def kv_elements_read(self, context: ArrayLike) -> FloatArray:
        """Cache elements that one query reads: fewer than stored where an indexer selects."""
        tokens = self.cached_tokens(context)
        if not self.index_topk:
            return tokens * self.kv_elements_per_token
        chosen = np.minimum(tokens, float(self.index_topk))
        latent = self.kv_lora_rank + self.rope_head_dim
        return chosen * latent + tokens * self.index_head_dim

    def context_flops(self, context: ArrayLike) -> FloatArray:
        """FLOPs of one query token over `context` tokens: scores and weighted sum.

        Grouped-query: 2 heads (key + value width) a token. MLA in its absorbed form (as decoded):
        2 heads (2 latent + rotary) a token. Linear, whatever the context: 7 a state element (decay
        1; read, write and query 2 each: arXiv 2412.06464, Eq. 10) and the convolution.
        """
        tokens = self.cached_tokens(context)
        if self.kind == "linear":
            constant = 7.0 * self._state_matrix + 2.0 * self._convolved * self.conv_kernel
            return np.full_like(tokens, constant)
        if self.kind == "mla":
            per_token = 2.0 * self.heads * (2 * self.kv_lora_rank + self.rope_head_dim)
            chosen = np.minimum(tokens, float(self.index_topk)) if self.index_topk else tokens
            return chosen * per_token + tokens * 2.0 * self.index_heads * self.index_head_dim
        return tokens * (2.0 * self.heads * (self.head_dim + self.value_dim))


@dataclass(frozen=True)
class Mlp:
    """The feed-forward part of a layer: dense (`experts` = 0) or a mixture of experts.

    `intermediate` is the width of the dense network or of ONE expert; `shared_intermediate` the
    total width of what every token passes through besides its experts (0: nothing).
    `matrices`: 3 where gated (SwiGLU, GeGLU), 2 where not.
    """

    intermediate: int
    experts: int = 0
    experts_per_token: int = 0
    shared_intermediate: int = 0
    matrices: int = 3
    bias: bool = False
    extra_parameters: int = 0  # router biases, gate of the shared expert, scales

    def __post_init__(self) -> None:
        whole("intermediate", self.intermediate, 1)
        whole("experts", self.experts, 0)
        whole("experts_per_token", self.experts_per_token, min(self.experts, 1), self.experts)
        whole("shared_intermediate", self.shared_intermediate, 0)
        whole("matrices", self.matrices, 2, 3)

    def expert_parameters(self, hidden: int) -> int:
        """Matrix parameters of one expert; of the dense network where there are no experts."""
        return self.matrices * hidden * self.intermediate

    def shared_parameters(self, hidden: int) -> int:
        """Matrix parameters of the shared expert(s), used by every token."""
        return self.matrices * hidden * self.shared_intermediate

    def _networks(self, active: bool) -> int:
        """Networks of `intermediate` width, or of them those that one token passes through."""
        return (self.experts_per_token if active else self.experts) or 1

    def matmul_parameters(self, hidden: int, *, active: bool = False) -> int:
        """All matrices: every expert (active: those of one token), the shared part, the router."""
        routed = self._networks(active) * self.expert_parameters(hidden)
        return routed + self.shared_parameters(hidden) + hidden * self.experts

    def parameters(self, hidden: int, *, active: bool = False) -> int:
        """All parameters (active: those that one token uses), biases included."""
        bias = (self.matrices - 1) * self.intermediate + hidden if self.bias else 0
        matrices = self.matmul_parameters(hidden, active=active)
        return matrices + self._networks(active) * bias + self.extra_parameters


@dataclass(frozen=True)
class LayerGroup:
    """`count` equal layers; `norm_parameters` are those of one layer's norms on the residual."""

    count: int
    attention: Attention
    mlp: Mlp
    norm_parameters: int = 0

    def __post_init__(self) -> None:
        whole("count", self.count, 1)

    def parameters(self, hidden: int, *, active: bool = False) -> int:
        """All parameters of the group (active: those that one token uses)."""
        one = self.attention.parameters(hidden) + self.mlp.parameters(hidden, active=active)
        return self.count * (one + self.norm_parameters)

    def active_matmul_parameters(self, hidden: int) -> int:
        """Matrix parameters of the group that one token is multiplied by."""
        mlp = self.mlp.matmul_parameters(hidden, active=True)
        return self.count * (self.attention.matmul_parameters(hidden) + mlp)
