"""A Llama decoder in numpy: enough to run the built-in pair without torch.

Root-mean-square norm, rotary positions (half rotation), grouped-query attention, gated SiLU MLP,
tied or separate output head (Touvron et al. 2023, arXiv 2302.13971; Ainslie et al. 2023, arXiv
2305.13245), in float32. Reads config.json and model.safetensors as transformers writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from specmath.checks import FloatArray, InputError, whole
from specmath.measure.draws import Draws, HostDraws
from specmath.measure.language_model import FloatLogits, Tokens
from specmath.measure.tokenizer import read_json

__all__ = ["ArrayCache", "NumpyLlama", "read_safetensors"]

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "<i1", "I32": "<i4"}
_LARGEST_HEADER = 100_000_000
_NEGATIVE = np.float32(-1e30)


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Tensors of a .safetensors file as float32 arrays; InputError where the file is damaged.

    Layout: 8 bytes length, that many bytes of JSON {name: {dtype, shape, data_offsets}}, data.
    BF16 is widened by hand, as numpy has no such type.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror}") from error
    try:
        size = int.from_bytes(data[:8], "little")
        if not 0 < size <= min(_LARGEST_HEADER, len(data)):
            raise ValueError("header length out of range")
        header = json.loads(data[8 : 8 + size])
        return {
            name: _tensor(data, 8 + size, entry)
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} is not a whole safetensors file: {error}") from error


def _tensor(data: bytes, base: int, entry: Mapping[str, Any]) -> np.ndarray:
    start, stop = entry["data_offsets"]
    raw = data[base + start : base + stop]
    if entry["dtype"] == "BF16":
        wide = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(entry["shape"])
    return np.frombuffer(raw, _DTYPES[entry["dtype"]]).astype(np.float32).reshape(entry["shape"])


class ArrayCache:
    """Keys and values in arrays that double when full."""

    def __init__(self, layers: int, batch: int, heads: int, width: int) -> None:
        self._store = np.zeros((2, layers, batch, heads, 64, width), np.float32)
        self.length = 0

    def reserve(self, tokens: int) -> None:
        room = self._store.shape[4]
        if self.length + tokens > room:
            extra = max(room, self.length + tokens - room)
            pad = [(0, 0)] * 4 + [(0, extra), (0, 0)]
            self._store = np.pad(self._store, pad)

    def write(self, layer: int, keys: FloatArray, values: FloatArray) -> tuple[Any, Any]:
        """Append behind `length` and give all of this layer's; `length` moves after the pass."""
        stop = self.length + keys.shape[2]
        self._store[0, layer, :, :, self.length : stop] = keys
        self._store[1, layer, :, :, self.length : stop] = values
        return self._store[0, layer, :, :, :stop], self._store[1, layer, :, :, :stop]

    def fill(self, tokens: int) -> None:
        self.reserve(tokens)
        rng = np.random.default_rng(0)
        shape = (*self._store.shape[:4], tokens, self._store.shape[5])
        self._store[..., :tokens, :] = rng.standard_normal(shape, np.float32)
        self.length = tokens

    def truncate(self, length: int) -> None:
        self.length = int(whole("length", length, 0, self.length))


_LAYER = {
    "norm": ["input_layernorm"], "out": ["self_attn.o_proj"],
    "qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "mlp_norm": ["post_attention_layernorm"], "down": ["mlp.down_proj"],
    "gate_up": ["mlp.gate_proj", "mlp.up_proj"],
}  # fmt: skip
"""Weights of a layer: projections of the same input lie side by side, input first."""


@dataclass
class NumpyLlama:
    """See the module. `load` makes one from a folder; it satisfies `LanguageModel`."""

    name: str
    config: Mapping[str, Any]
    embedding: np.ndarray
    stack: tuple[Mapping[str, np.ndarray], ...]
    norm: np.ndarray
    head: np.ndarray

    @classmethod
    def load(cls, folder: Path) -> NumpyLlama:
        """From config.json and model.safetensors; InputError where this code cannot run them."""
        config = read_json(folder, "config.json")
        _runnable(config)
        tensors = read_safetensors(folder / "model.safetensors")
        try:
            layers = tuple(_layer(tensors, n) for n in range(config["num_hidden_layers"]))
            embedding = tensors["model.embed_tokens.weight"]
            head = tensors.get("lm_head.weight", embedding)
            norm = tensors["model.norm.weight"]
            return cls(folder.name, config, embedding, layers, norm, np.ascontiguousarray(head.T))
        except KeyError as error:
            raise InputError(f"{folder.name}: model.safetensors lacks {error}") from error

    def __post_init__(self) -> None:
        self.draws: Draws = HostDraws()
        self.vocabulary, self.layers = len(self.embedding), len(self.stack)
        self.context_limit = int(self.config["max_position_embeddings"])
        held = [self.embedding, self.norm, *(w for layer in self.stack for w in layer.values())]
        if not self.config.get("tie_word_embeddings"):
            held.append(self.head)
        self.parameters = sum(int(array.size) for array in held)
        self._heads = int(self.config["num_attention_heads"])
        self._groups = int(self.config["num_key_value_heads"])
        self._width = int(self.config.get("head_dim") or self.config["hidden_size"] // self._heads)

    def new_cache(self, batch: int = 1) -> ArrayCache:
        return ArrayCache(self.layers, batch, self._groups, self._width)

    def filled_cache(self, batch: int, context: int) -> ArrayCache:
        cache = self.new_cache(batch)
        cache.fill(context)
        return cache

    def skipping(self, layers: tuple[int, ...]) -> NumpyLlama:
        kept = tuple(layer for n, layer in enumerate(self.stack) if n not in layers)
        config = {**self.config, "num_hidden_layers": len(kept)}
        name = f"{self.name} less {len(layers)} layers"
        return replace(self, name=name, config=config, stack=kept)

    def forward(self, tokens: Tokens, cache: ArrayCache) -> FloatLogits:
        return self.compute(tokens, cache)

    def compute(self, tokens: Tokens, cache: ArrayCache, last: bool = False) -> FloatLogits:
        x = self.read(tokens, cache)[:, -1 if last else 0 :]
        return np.asarray(self._scaled(x, self.norm) @ self.head)

    def finish(self) -> None:
        """What was asked is done when a call returns."""

    def read(self, tokens: Tokens, cache: ArrayCache) -> np.ndarray:
        new = tokens.shape[1]
        cache.reserve(new)
        x = self.embedding[tokens]
        cosine, sine = self._rotation(cache.length, new)
        for number, layer in enumerate(self.stack):
            qkv = self._scaled(x, layer["norm"]) @ layer["qkv"]
            x = x + self._attention(qkv, number, cosine, sine, cache) @ layer["out"]
            gate, up = np.split(self._scaled(x, layer["mlp_norm"]) @ layer["gate_up"], 2, axis=-1)
            x = x + (gate / (1.0 + np.exp(-gate)) * up) @ layer["down"]
        cache.length += new
        return np.asarray(x)

    def _scaled(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        power = np.einsum("bnd,bnd->bn", x, x)[..., None] / np.float32(x.shape[-1])
        scaled = x * (1.0 / np.sqrt(power + np.float32(self.config["rms_norm_eps"])))
        return np.asarray(scaled * weight)

    def _rotation(self, start: int, new: int) -> tuple[np.ndarray, np.ndarray]:
        rates = _theta(self.config) ** (-np.arange(0, self._width, 2) / self._width)
        angles = np.arange(start, start + new)[:, None] * rates
        twice = np.concatenate((angles, angles), axis=-1)
        return np.cos(twice).astype(np.float32), np.sin(twice).astype(np.float32)

    def _attention(
        self, qkv: np.ndarray, layer: int, cosine: np.ndarray, sine: np.ndarray, cache: ArrayCache
    ) -> np.ndarray:
        batch, new = qkv.shape[:2]
        width, groups, heads = self._width, self._groups, self._heads
        each = qkv.reshape(batch, new, heads + 2 * groups, width).swapaxes(1, 2)
        turned = each[:, : heads + groups]
        half = width // 2
        crossed = np.concatenate((-turned[..., half:], turned[..., :half]), axis=-1)
        turned = turned * cosine + crossed * sine
        keys, values = cache.write(layer, turned[:, heads:], each[:, heads + groups :])
        queries = turned[:, :heads].reshape(batch, groups, -1, width)  # heads of a group, by token
        scores = queries @ keys.swapaxes(-1, -2) * np.float32(width**-0.5)
        if new > 1:
            later = np.arange(keys.shape[2]) > np.arange(cache.length, cache.length + new)[:, None]
            hidden = np.where(later, _NEGATIVE, np.float32(0))
            scores = scores + np.tile(hidden, (heads // groups, 1))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores @ values) / scores.sum(axis=-1, keepdims=True)
        mixed = mixed.reshape(batch, heads, new, width).swapaxes(1, 2)
        return np.asarray(mixed.reshape(batch, new, -1))


def _theta(config: Mapping[str, Any]) -> float:
    nested = config.get("rope_parameters") or {}
    return float(nested.get("rope_theta", config.get("rope_theta", 10_000.0)))


def _runnable(config: Mapping[str, Any]) -> None:
    """Refuse by name what this code would compute wrongly."""
    kind = config.get("model_type")
    if kind != "llama":
        raise InputError(f"the numpy engine runs model_type llama, got {kind!r}; use torch")
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    rope, activation = scaling.get("rope_type", "default"), config.get("hidden_act", "silu")
    absent = {
        f"rope type {rope!r}": rope != "default", "attention_bias": config.get("attention_bias"),
        "mlp_bias": config.get("mlp_bias"), f"{activation}": activation != "silu",
    }  # fmt: skip
    if asked := [part for part, needed in absent.items() if needed]:
        raise InputError(f"the numpy engine has no {asked[0]}; use torch")


def _layer(tensors: Mapping[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    def beside(names: list[str]) -> np.ndarray:
        weights = [tensors[f"model.layers.{number}.{name}.weight"] for name in names]
        return np.ascontiguousarray(np.concatenate(weights).T)

    return {own: beside(names) for own, names in _LAYER.items()}
