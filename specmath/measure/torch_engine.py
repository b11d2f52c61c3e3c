"""Models through transformers: local folders or hub names, safetensors only, no remote code.

torch and transformers are an optional extra: they are imported when a function here is called.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import copy
import importlib.util
import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specmath.checks import InputError, whole
from specmath.measure.engine import FloatLogits, Tokens
from specmath.measure.optional import INSTALL

__all__ = ["TorchModel", "TorchTokenizer", "default_device", "require_torch", "short"]


def require_torch() -> None:
    """InputError with the install command unless torch and transformers are there."""
    missing = [n for n in ("torch", "transformers") if importlib.util.find_spec(n) is None]
    if missing:
        raise InputError(
            f"this needs {' and '.join(missing)}, which are not installed: {INSTALL}. The built-in "
            "pair runs without them."
        )


def default_device() -> str:
    """ "cuda" where torch sees a GPU, else "cpu"."""
    require_torch()
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class _TorchCache:
    """transformers' growing cache; cut back by slicing, which all its full layers allow."""

    store: Any
    batch: int

    @property
    def length(self) -> int:
        return int(self.store.get_seq_length())

    def truncate(self, length: int) -> None:
        length = int(whole("length", length, 0, self.length))
        for layer in self.store.layers:
            if layer.is_initialized:
                layer.keys = layer.keys[..., :length, :]
                layer.values = layer.values[..., :length, :]


class TorchModel:
    """A causal language model of transformers as a `LanguageModel`."""

    def __init__(self, model: Any, name: str, vocabulary: int | None = None) -> None:
        self.model = model.eval()
        self.name = name
        self.config: Mapping[str, Any] = model.config.to_dict()
        self.vocabulary: int = vocabulary or int(model.config.vocab_size)
        # Renamed in transformers 5.24; earlier versions know only the old name.
        named = inspect.signature(type(model).forward).parameters
        self._cache_argument = "cache" if "cache" in named else "past_key_values"

    @property
    def context_limit(self) -> int:
        return int(getattr(self.model.config, "max_position_embeddings", None) or 1_000_000)

    @property
    def parameters(self) -> int:
        return int(self.model.num_parameters())

    @property
    def layers(self) -> int:
        return int(self.model.config.num_hidden_layers)

    @property
    def device(self) -> Any:
        first = self.model.get_input_embeddings()
        if first.weight.device.type != "meta":
            return first.weight.device
        import torch

        # On disk until it is needed: accelerate's hook knows where it then goes.
        return torch.device(first._hf_hook.execution_device)

    @property
    def folder(self) -> str:
        """Where it was loaded from."""
        return str(self.model.name_or_path)

    @property
    def dtype(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    def new_cache(self, batch: int = 1) -> _TorchCache:
        from transformers import DynamicCache

        return _TorchCache(DynamicCache(), batch)

    def filled_cache(self, batch: int, context: int) -> _TorchCache:
        """One token is read to learn the shapes of keys and values; the rest is noise."""
        import torch

        cache = self.new_cache(batch)
        self.read(np.zeros((batch, 1), np.int64), cache)
        for layer in cache.store.layers:
            for name in ("keys", "values"):
                held = getattr(layer, name)
                shape = (*held.shape[:-2], context, held.shape[-1])
                setattr(layer, name, torch.randn(shape, dtype=held.dtype, device=held.device))
        return cache

    def forward(self, tokens: Tokens, cache: _TorchCache) -> FloatLogits:
        found: FloatLogits = self._run(tokens, cache, 0).float().cpu().numpy()
        return found

    def read(self, tokens: Tokens, cache: _TorchCache) -> None:
        self._run(tokens, cache, 1)

    def compute(self, tokens: Tokens, cache: _TorchCache) -> None:
        self._run(tokens, cache, 0)

    def _run(self, tokens: Tokens, cache: _TorchCache, keep: int) -> Any:
        import torch

        ids = torch.from_numpy(np.ascontiguousarray(tokens)).to(self.device)
        with torch.inference_mode():
            out = self.model(
                input_ids=ids,
                use_cache=True,
                logits_to_keep=keep,
                **{self._cache_argument: cache.store},
            )
        return out.logits[..., : self.vocabulary]

    def skipping(self, layers: tuple[int, ...]) -> TorchModel:
        """Weights are shared; each kept attention gets its new number, which places its cache."""
        import torch

        try:
            stack = self.model.model.layers
        except AttributeError as error:
            raise InputError(
                f"layer-skip needs a decoder whose layers are model.layers; "
                f"{type(self.model).__name__} has none"
            ) from error
        if any(hasattr(module, "_hf_hook") for module in stack.modules()):
            raise InputError(
                "layer-skip needs a model in one place, got one spread by a device map"
            )
        kept = [_renumbered(layer, n) for n, layer in enumerate(_without(stack, layers))]
        inner, outer = copy.copy(self.model.model), copy.copy(self.model)
        inner._modules = {**self.model.model._modules, "layers": torch.nn.ModuleList(kept)}
        outer._modules = {**self.model._modules, "model": inner}
        config = copy.deepcopy(self.model.config)
        config.num_hidden_layers = len(kept)
        if getattr(config, "layer_types", None):
            config.layer_types = _without(config.layer_types, layers)
        inner.config = outer.config = config
        return TorchModel(outer, f"{self.name} less {len(layers)} layers", self.vocabulary)

    def seconds(self, call: Callable[[], object]) -> float:
        """CUDA events on a GPU, else the clock."""
        if self.device.type != "cuda":
            begun = time.perf_counter()
            call()
            return time.perf_counter() - begun
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1000.0


def _without(items: Any, skipped: tuple[int, ...]) -> list[Any]:
    return [item for n, item in enumerate(items) if n not in skipped]


def _renumbered(layer: Any, number: int) -> Any:
    fresh = copy.copy(layer)
    fresh._modules = dict(layer._modules)
    for name, module in layer._modules.items():
        if hasattr(module, "layer_idx"):
            fresh._modules[name] = copy.copy(module)
            fresh._modules[name].layer_idx = number
    return fresh


class TorchTokenizer:
    """A tokenizer of transformers as a `Tokenizer`; with `chat` a prompt is one user message."""

    def __init__(self, source: str, *, chat: bool = False, stop_ids: tuple[int, ...] = ()) -> None:
        from transformers import AutoTokenizer

        try:
            self._inner = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot load the tokenizer of {source}: {short(error)}") from error
        if chat and not self._inner.chat_template:
            raise InputError(f"{source} has no chat template; measure without one")
        self._chat = chat
        own = self._inner.eos_token_id
        self._stops = tuple({*stop_ids, *(() if own is None else (int(own),))})

    @property
    def vocabulary(self) -> dict[str, int]:
        return {token: int(number) for token, number in self._inner.get_vocab().items()}

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return self._stops

    def encode(self, text: str) -> list[int]:
        if self._chat:
            text = self._inner.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
        return list(self._inner(text, add_special_tokens=not self._chat).input_ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._inner.decode(ids, skip_special_tokens=True))


def short(error: Exception) -> str:
    """The first line of a message of another library, cut to 200 characters."""
    line = str(error).strip().split("\n")[0]
    return line if len(line) <= 200 else f"{line[:197]}..."
