"""Memory: whether it ran out, how much is free, and what fits into that."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from specmath.measure.language_model import LanguageModel

__all__ = ["fits", "free_bytes", "out_of_memory", "room"]

_WORDS = ("out of memory", "allocate memory", "not enough memory", "alloc_failed")
"""How CUDA, its libraries and torch on a CPU say it, in lower case."""


def out_of_memory(error: Exception) -> bool:
    """Whether this is a MemoryError, or a RuntimeError of torch that means one."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(words in said for words in _WORDS)


def free_bytes(device: str) -> int | None:
    """Memory that is free on a device now; None where the system does not say."""
    torch: Any = sys.modules.get("torch")  # without it nothing runs on a GPU
    if device.startswith("cuda") and torch is not None and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
        return int(kilobytes) * 1024
    except (OSError, StopIteration):
        pass
    try:  # not Linux: all that was built in is the best bound
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def fits(device: str) -> str:
    """What fits on a device, in words."""
    free = _free(device, ", enough for about {:.1f} billion parameters in bfloat16")
    smaller = "take a smaller model, a smaller batch or context"
    return f"{free}{smaller}, or --device-map auto over several GPUs"


def room(model: LanguageModel) -> str:
    """What fits where a model runs that is loaded already, in words."""
    free = _free(str(getattr(model, "device", "cpu")))
    return f"{free}take a smaller batch, shorter prompts or a smaller model"


def _free(device: str, enough: str = "") -> str:
    free = free_bytes(device)
    if free is None:
        return ""
    return f"{free / 1e9:.1f} GB are free on {device}{enough.format(free / 2.4e9)}; "
