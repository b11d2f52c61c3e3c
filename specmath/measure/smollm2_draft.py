"""The trained draft for SmolLM2-135M-Instruct: two layers, and a head over few of its ids.

Shipped are the layers, the last norm and the kept ids (specmath/data/smollm2_draft). The embedding
and the rows of the head are the target's own. Matrices are int8 with one scale a row.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import specmath
from specmath.checks import InputError
from specmath.measure.engine import FloatLogits, Tokens
from specmath.measure.llama import read_safetensors
from specmath.measure.torch_engine import TorchModel

__all__ = [
    "DraftWeights",
    "RestrictedModel",
    "pack",
    "read_draft",
    "trained_draft",
    "trained_draft_folder",
]

_SCALE, _KEPT = ".scale", "kept_ids"


@dataclass(frozen=True)
class DraftWeights:
    """Float32 tensors of the layers and last norm, named as transformers names those of a Llama's
    `model`, and the ids that the head is restricted to, ascending."""

    tensors: dict[str, NDArray[np.float32]]
    kept: NDArray[np.int64]

    @property
    def layers(self) -> int:
        return 1 + max(int(n.split(".")[1]) for n in self.tensors if n.startswith("layers."))


def trained_draft_folder() -> Path:
    return Path(specmath.__file__).parent / "data" / "smollm2_draft"


def pack(weights: DraftWeights) -> dict[str, NDArray[Any]]:
    """As shipped: W = int8 · scale for each row of a matrix, vectors in float32, ids in int32.

    The largest entry of a row becomes ±127, so an entry is off by at most scale/2.
    """
    found: dict[str, NDArray[Any]] = {_KEPT: weights.kept.astype(np.int32)}
    for name, values in weights.tensors.items():
        if values.ndim == 1:
            found[name] = values.astype(np.float32)
            continue
        largest = np.abs(values).max(axis=1, keepdims=True)
        scale = np.where(largest > 0, largest, 1.0).astype(np.float32) / np.float32(127)
        found[name] = np.rint(values / scale).astype(np.int8)
        found[name + _SCALE] = scale[:, 0]
    return found


def read_draft(folder: Path | None = None) -> DraftWeights:
    """The shipped weights, or those of another folder; needs numpy only.

    InputError: a damaged file; ids that are not ascending and ≥ 0.
    """
    stored = read_safetensors((folder or trained_draft_folder()) / "model.safetensors")
    if _KEPT not in stored:
        raise InputError(f"the trained draft must hold {_KEPT}, found none")
    kept = stored.pop(_KEPT).astype(np.int64)
    if not kept.size or kept[0] < 0 or np.any(np.diff(kept) <= 0):
        raise InputError(f"{_KEPT} of the trained draft must ascend from 0 or more")
    tensors = {
        name: values * stored[name + _SCALE][:, None] if name + _SCALE in stored else values
        for name, values in stored.items()
        if not name.endswith(_SCALE)
    }
    return DraftWeights(tensors, kept)


class RestrictedModel(TorchModel):
    """A model whose head knows some ids only: the logits of all others are −inf, so q = 0 there.

    `parameters` counts what each forward multiplies by: the input embedding, shared with the
    target and only looked up, is left out.
    """

    def __init__(self, model: Any, name: str, kept: NDArray[np.int64], vocabulary: int) -> None:
        super().__init__(model, name, vocabulary)
        self.kept = kept
        self.config = {**self.config, "vocab_size": len(kept), "tie_word_embeddings": False}

    @property
    def parameters(self) -> int:
        shared = self.model.get_input_embeddings().weight.numel()
        return int(self.model.num_parameters()) - int(shared)

    def forward(self, tokens: Tokens, cache: Any) -> FloatLogits:
        narrow = super().forward(tokens, cache)
        wide: FloatLogits = np.full((*narrow.shape[:-1], self.vocabulary), -np.inf, np.float32)
        wide[..., self.kept] = narrow
        return wide

    def skipping(self, layers: tuple[int, ...]) -> TorchModel:
        raise InputError("the trained draft has no layers to leave out")


def trained_draft(
    target: TorchModel, *, full_head: bool = False, folder: Path | None = None
) -> TorchModel:
    """The trained draft beside its target, whose embedding and head rows it uses.

    `full_head`: all ids of the target instead of the kept ones. InputError where the weights are
    not of this target's shapes.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    weights = read_draft(folder)
    rows = target.model.get_input_embeddings().weight
    if weights.kept[-1] >= rows.shape[0]:
        raise InputError(
            f"{_KEPT} of the trained draft must be below the target's {rows.shape[0]} ids, got "
            f"{weights.kept[-1]}"
        )
    # A head narrower than the embedding: transformers makes both alike, so it is put in after.
    config = LlamaConfig(**{**target.config, "num_hidden_layers": weights.layers})
    config.tie_word_embeddings = full_head
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.model.embed_tokens.weight = rows
    model.lm_head.weight = rows
    if not full_head:
        ids = torch.from_numpy(weights.kept)
        model.lm_head = torch.nn.Linear(rows.shape[1], len(ids), bias=False)
        model.lm_head.weight = torch.nn.Parameter(rows.detach()[ids].clone())
    given = {name: torch.from_numpy(values) for name, values in weights.tensors.items()}
    try:
        missing, unexpected = model.model.load_state_dict(given, strict=False, assign=True)
    except RuntimeError as error:
        raise InputError(f"the trained draft does not fit {target.name}: {error}") from error
    if unexpected or set(missing) - {"embed_tokens.weight"}:
        raise InputError(f"the trained draft lacks {missing} or holds {unexpected}")
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    name = f"trained draft, {weights.layers} layers"
    if full_head:
        return TorchModel(model, f"{name}, full head")
    return RestrictedModel(
        model, f"{name}, head of {len(weights.kept)} ids", weights.kept, target.vocabulary
    )
