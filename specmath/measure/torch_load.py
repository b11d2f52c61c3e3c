# mypy: disable-error-code="import-not-found"
"""Loading models into memory that has room for them, or saying what would fit."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specmath.checks import InputError
from specmath.measure.hub import local_folder
from specmath.measure.memory import fits, free_bytes, out_of_memory
from specmath.measure.optional import INSTALL
from specmath.measure.torch_engine import TorchModel, default_device, require_torch, short

__all__ = ["load_model", "random_model"]

DTYPES = ("auto", "float32", "bfloat16", "float16")


def load_model(
    source: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    device_map: str | Mapping[str, int | str] | None = None,
) -> TorchModel:
    """A model from a local folder or a hub name.

    dtype: auto (as stored), float32, bfloat16, float16. device: cpu, cuda, cuda:1; by default a GPU
    if there is one. device_map: "auto" spreads a model over the GPUs, what does not fit there over
    the host's memory and the disk; or a place for each module by name (needs accelerate).
    InputError: not found, not safetensors, needs remote code, too large for the memory there is.
    """
    require_torch()
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if device_map and importlib.util.find_spec("accelerate") is None:
        raise InputError(f"a device map needs accelerate, which is not installed: {INSTALL}")
    device = device or default_device()
    folder = local_folder(source)
    _check_folder(source, folder, None if device_map else device)
    placed = {"device_map": device_map} if device_map else {}
    wanted = "auto" if dtype == "auto" else getattr(torch, dtype)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=wanted, use_safetensors=True, trust_remote_code=False, **placed
        )
        if not device_map:
            model = model.to(device)
    except (MemoryError, OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        if out_of_memory(error):
            raise InputError(f"{source} does not fit: {fits(device)}") from error
        raise InputError(f"cannot load {source}: {short(error)}") from error
    return TorchModel(model, folder.name if Path(source).expanduser().exists() else source)


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
    given = _config(config_file)
    ignored = ("auto_map", "quantization_config")  # the shape counts, in the dtype asked for
    config = AutoConfig.for_model(**{k: v for k, v in given.items() if k not in ignored})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    need = model.num_parameters() * torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    _check_room(config_file, need, device)
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
    return TorchModel(model, f"{name} (random weights)")


def _config(config_file: str) -> dict[str, Any]:
    try:
        config = json.loads(Path(config_file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {config_file} as a config.json: {short(error)}") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f"{config_file} must be a JSON object with model_type")
    return config


def _check_folder(source: str, folder: Path, device: str | None) -> None:
    """Name what is wrong with a folder before transformers does; `device` must have room for it."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{source} must hold config.json, found none")
    files = list(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{source} must hold safetensors weights, found none; others are refused")
    if "auto_map" in _config(str(folder / "config.json")):
        raise InputError(f"{source} needs code of its own (auto_map), which is never run")
    if device is not None:
        _check_room(source, sum(file.stat().st_size for file in files), device)


def _check_room(name: str, need: int, device: str) -> None:
    free = free_bytes(device)
    if free is not None and need > free:
        raise InputError(f"{name} needs {need / 1e9:.1f} GB for its weights; {fits(device)}")
