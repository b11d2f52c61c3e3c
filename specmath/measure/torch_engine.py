"""Models through transformers: local folders or hub names, safetensors only, no remote code.

torch and transformers are an optional extra: they are imported when a function here is called.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import copy
import importlib.util
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specmath.checks import InputError, whole
from specmath.measure.engine import FloatLogits, Tokens

__all__ = ["TorchModel", "TorchTokenizer", "load_model", "random_model", "require_torch"]

INSTALL = "pip install -r requirements-measure.txt"
DTYPES = ("auto", "float32", "bfloat16", "float16")


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
        return self.model.get_input_embeddings().weight.device

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

    def _run(self, tokens: Tokens, cache: _TorchCache, keep: int) -> Any:
        import torch

        ids = torch.from_numpy(np.ascontiguousarray(tokens)).to(self.device)
        with torch.inference_mode():
            out = self.model(
                input_ids=ids, past_key_values=cache.store, use_cache=True, logits_to_keep=keep
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
            raise InputError(f"cannot load the tokenizer of {source}: {_short(error)}") from error
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


def load_model(
    source: str, *, dtype: str = "auto", device: str | None = None, device_map: str | None = None
) -> TorchModel:
    """A model from a local folder or a hub name.

    dtype: auto (as stored), float32, bfloat16, float16. device: cpu, cuda, cuda:1; by default a GPU
    if there is one. device_map: "auto" spreads a model over several GPUs (needs accelerate).
    InputError: not found, not safetensors, needs remote code, too large for the memory there is.
    """
    require_torch()
    import torch
    from transformers import AutoModelForCausalLM

    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    device = device or default_device()
    _check_folder(source, dtype, device)
    placed = {"device_map": device_map} if device_map else {}
    wanted = "auto" if dtype == "auto" else getattr(torch, dtype)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=wanted, use_safetensors=True, trust_remote_code=False, **placed
        )
        if not device_map:
            model = model.to(device)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise InputError(f"{source} does not fit: {room(device)}") from error
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise InputError(f"cannot load {source}: {_short(error)}") from error
    return TorchModel(model, Path(source).name or source)


def random_model(
    config_file: str, *, dtype: str = "bfloat16", device: str | None = None
) -> TorchModel:
    """A model of a config.json's shape with random weights, for timing."""
    require_torch()
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    if dtype not in DTYPES[1:]:
        raise InputError(f"dtype must be one of {', '.join(DTYPES[1:])}, got {dtype!r}")
    device = device or default_device()
    config = AutoConfig.for_model(**_config(config_file))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    need = model.num_parameters() * torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    _check_room(config_file, need, device)
    try:
        model = model.to_empty(device=device)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        raise InputError(f"{config_file} does not fit: {room(device)}") from error
    for weights in model.parameters():
        with torch.no_grad():
            weights.normal_(0.0, 0.02)
    model.tie_weights()
    for module in list(model.modules()):
        for name, child in module.named_children():
            if hasattr(child, "inv_freq"):  # a buffer that to_empty left without values
                setattr(module, name, type(child)(config=config, device=device))
    path = Path(config_file)
    name = path.parent.name if path.name == "config.json" else path.stem
    return TorchModel(model, f"{name} (random weights)")


def _config(config_file: str) -> dict[str, Any]:
    try:
        config = json.loads(Path(config_file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {config_file} as a config.json: {_short(error)}") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f"{config_file} must be a JSON object with model_type")
    return {k: v for k, v in config.items() if k not in ("auto_map", "quantization_config")}


def _check_folder(source: str, dtype: str, device: str) -> None:
    """Name what is wrong with a local folder before transformers does."""
    folder = Path(source).expanduser()
    if not folder.exists():
        if source.startswith((".", "/", "~")) or source.count("/") != 1:
            raise InputError(f"no folder {source}; give a folder with config.json or a hub name")
        return
    if not (folder / "config.json").is_file():
        raise InputError(f"{source} must hold config.json, found none")
    files = list(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{source} must hold safetensors weights, found none; others are refused")
    if "auto_map" in _config(str(folder / "config.json")) and dtype:
        raise InputError(f"{source} needs code of its own (auto_map), which is never run")
    _check_room(source, sum(file.stat().st_size for file in files), device)


def free_bytes(device: str) -> int:
    """Memory that is free on a device now."""
    import torch

    if device.startswith("cuda") and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
        return int(kilobytes) * 1024
    except (OSError, StopIteration):  # not Linux: all that was built in is the best bound
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def room(device: str) -> str:
    """What fits, in words."""
    free = free_bytes(device)
    return (
        f"{free / 1e9:.1f} GB are free on {device}, enough for about {free / 2.4e9:.1f} billion "
        "parameters in bfloat16; take a smaller model, a smaller batch or context, or --device-map "
        "auto over several GPUs"
    )


def _check_room(name: str, need: int, device: str) -> None:
    if need > free_bytes(device):
        raise InputError(f"{name} needs {need / 1e9:.1f} GB for its weights; {room(device)}")


def _short(error: Exception) -> str:
    line = str(error).strip().split("\n")[0]
    return line if len(line) <= 200 else f"{line[:197]}..."
