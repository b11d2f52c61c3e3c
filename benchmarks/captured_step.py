"""A Llama's step as a server runs it: fused projections, a cache that is written in place, and on
CUDA the whole forward captured as one graph. The weights are those of a transformers model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

__all__ = ["CapturedStep"]


class CapturedStep:
    """Forwards of one batch after one context. `forward` gives the logits of all its tokens."""

    def __init__(self, model: Any, batch: int, context: int, most: int) -> None:
        """`model`: a `LlamaForCausalLM`; `most`: tokens of the widest forward."""
        inner, config = model.model, model.config
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.width, self.eps = inner.layers[0].self_attn.head_dim, config.rms_norm_eps
        self.batch, self.context = batch, context
        self.embedding, self.norm = inner.embed_tokens.weight, inner.norm.weight
        self.head = model.lm_head.weight
        self.layers = [self._layer(layer) for layer in inner.layers]
        weight = self.embedding
        shape = (2, batch, self.groups, context + most, self.width)
        self.caches = [torch.randn(shape, dtype=weight.dtype, device=weight.device)
                       for _ in self.layers]  # fmt: skip
        rates = inner.rotary_emb.inv_freq.to(weight.device).float()
        angles = torch.arange(context, context + most, device=weight.device)[:, None] * rates
        twice = torch.cat((angles, angles), dim=-1)
        self.cosine, self.sine = twice.cos().to(weight.dtype), twice.sin().to(weight.dtype)

    @staticmethod
    def _layer(layer: Any) -> dict[str, Any]:
        attention, mlp = layer.self_attn, layer.mlp
        qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
        return {
            "norm": layer.input_layernorm.weight, "out": attention.o_proj.weight,
            "qkv": torch.cat([part.weight for part in qkv]),
            "mlp_norm": layer.post_attention_layernorm.weight, "down": mlp.down_proj.weight,
            "gate_up": torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
        }  # fmt: skip

    def _scaled(self, x: Any, weight: Any) -> Any:
        return F.rms_norm(x, (x.shape[-1],), weight, self.eps)

    def _turned(self, x: Any, tokens: int) -> Any:
        left, right = x.chunk(2, dim=-1)
        crossed = torch.cat((-right, left), dim=-1)
        return x * self.cosine[:tokens] + crossed * self.sine[:tokens]

    @torch.inference_mode()
    def forward(self, ids: Any) -> Any:
        """Logits (batch, tokens, vocabulary) of tokens right after the context."""
        tokens, end = ids.shape[1], self.context + ids.shape[1]
        x = F.embedding(ids, self.embedding)
        mask = None if tokens == 1 else causal_lower_right(tokens, end)
        for layer, cache in zip(self.layers, self.caches, strict=True):
            qkv = F.linear(self._scaled(x, layer["norm"]), layer["qkv"])
            each = qkv.view(self.batch, tokens, -1, self.width).transpose(1, 2)
            q, k, v = each.split((self.heads, self.groups, self.groups), dim=1)
            cache[0, :, :, self.context : end] = self._turned(k, tokens)
            cache[1, :, :, self.context : end] = v
            mixed = F.scaled_dot_product_attention(
                self._turned(q, tokens), cache[0, :, :, :end], cache[1, :, :, :end],
                attn_mask=mask, enable_gqa=True,
            )  # fmt: skip
            x = x + F.linear(mixed.transpose(1, 2).flatten(2), layer["out"])
            gate, up = F.linear(self._scaled(x, layer["mlp_norm"]), layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        return F.linear(self._scaled(x, self.norm), self.head)

    def captured(self, tokens: int) -> Callable[[], Any]:
        """A call that runs a forward of so many random tokens: on CUDA a graph's replay."""
        device, rows = self.embedding.device, self.embedding.shape[0]
        ids = torch.randint(0, rows, (self.batch, tokens), device=device)
        if device.type != "cuda":
            return lambda: self.forward(ids)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.forward(ids)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.forward(ids)
        return graph.replay
