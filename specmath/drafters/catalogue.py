"""Drafters that are models, shares of the target or look-ups, and every kind by its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specmath import models
from specmath.checks import FloatArray, InputError, real, whole
from specmath.drafters.base import Decoder, Drafter, Origin, kinds
from specmath.models import LayerGroup, Model
from specmath.steptime import Placement
from specmath.steptime.operators import shard

__all__ = [
    "LayerSkip",
    "NGram",
    "ParallelModel",
    "SeparateModel",
    "Suffix",
    "named",
    "recorded",
]


# ── a model, or a share of the target ────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SeparateModel(Decoder, kind="separate", label="Separate draft model"):
    """A smaller model with its own weights and KV cache: γ forwards one after another.

    d = γ (forward of one position a sequence + sampling), each re-reading its own weights and KV:
    Leviathan et al. 2023 (arXiv 2211.17192), section 2.3. `tensor_parallel` is its own, usually 1:
    the target's other GPUs wait. `weight_dtype` None: as published.
    """

    model: Model
    tensor_parallel: int = 1
    weight_dtype: str | None = None

    needs_model: ClassVar[bool] = True
    recorded: ClassVar[str] = "draft_model"
    origin: ClassVar[Origin] = "model"
    sources: ClassVar[Mapping[str, str]] = {
        "tensor_parallel": "one GPU: a small model split over GPUs pays more in all-reduces than "
        "it gains; vLLM's draft_tensor_parallel_size is 1 or the target's",
        "coverage": "a model always has a draft",
    }

    def __post_init__(self) -> None:
        whole("tensor_parallel", self.tensor_parallel, 1)

    def decoder(self, target: Model) -> Model:
        return self.model

    def weight_bytes(self, place: Placement) -> float:
        return self.model.weight_bytes(self.weight_dtype)

    @property
    def own_model(self) -> Model:
        return self.model

    def gpus(self, place: Placement) -> int:
        return self.tensor_parallel


@dataclass(frozen=True)
class ParallelModel(SeparateModel, kind="parallel_model", label="Parallel draft model"):
    """A separate model trained to draft all γ tokens in one forward of γ positions (PARD,
    arXiv 2504.18583, section 3)."""

    parallel: ClassVar[bool] = True
    recorded: ClassVar[str] = ""


@lru_cache(maxsize=64)
def _first_layers(target: Model, share: float) -> Model:
    """The target cut after a share of its layers (at least one), with its output head."""
    wanted = max(1, round(share * target.layer_count))
    groups: tuple[LayerGroup, ...] = ()
    for group in target.layers:
        if taken := min(group.count, wanted - sum(g.count for g in groups)):
            groups += (replace(group, count=taken),)
    return replace(target, name=f"{target.name}, {wanted} layers", layers=groups)


@dataclass(frozen=True)
class LayerSkip(Decoder, kind="layer_skip", label="Layer skipping"):
    """Self-speculation: the target's first layers and its output head draft, γ times.

    d = γ (forward of `share` of the layers + head), on the target's GPUs; no weights and no cache
    of its own, for the drafted layers' keys and values are the target's. Elhoushi et al. 2024
    (arXiv 2404.16710), section 4.3. They also reuse the drafted layers' activations when
    verifying; that saving is not counted, so the cost is an upper bound.
    """

    share: float = 0.25

    sources: ClassVar[Mapping[str, str]] = {
        "share": "LayerSkip (arXiv 2404.16710) drafts with the first 8 of Llama-2-7B's 32 layers",
        "coverage": "a model always has a draft",
    }

    def __post_init__(self) -> None:
        real("share", self.share, 0, 1, low_open=True)

    def decoder(self, target: Model) -> Model:
        return _first_layers(target, self.share)

    def weight_bytes(self, place: Placement) -> float:
        return 0.0

    def cache_model(self, target: Model) -> None:
        return None


# ── look-ups ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class NGram(Drafter, kind="ngram", label="N-gram lookup"):
    """Prompt lookup: copies what followed the last tokens before.

    Only a share κ = `coverage` of the sequence-steps find a match and get a draft; the lookup,
    `lookup_seconds` once a step, is paid whether or not one is found. No weights, no cache.
    Servers count acceptance over the steps that had a draft only.
    """

    coverage: float = 0.5
    lookup_seconds: float = 1e-4

    parallel: ClassVar[bool] = True
    recorded: ClassVar[str] = "ngram"
    origin: ClassVar[Origin] = "lookup"
    sources: ClassVar[Mapping[str, str]] = {
        "coverage": "assumed: low where nothing repeats, high in edits of given text; measure it "
        "as steps with a draft over all steps",
        "lookup_seconds": "vLLM issue 22408: 5-8% of the step of OPT-125M and 0.9% of that of "
        "Llama 4 Scout, both about 0.1 ms; it grows with context and batch where the host "
        "searches one sequence after another",
    }

    def __post_init__(self) -> None:
        real("coverage", self.coverage, 0, 1)
        real("lookup_seconds", self.lookup_seconds, 0)

    def passes(self, gamma: ArrayLike) -> FloatArray:
        return np.zeros(np.shape(whole("gamma", gamma, 0)))

    def pass_seconds(
        self, place: Placement, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        return np.asarray(self.lookup_seconds)

    def weight_bytes(self, place: Placement) -> float:
        return 0.0

    def flops_per_token(self, target: Model) -> float:
        return 0.0


@dataclass(frozen=True)
class Suffix(NGram, kind="suffix", label="Suffix decoding"):
    """Suffix decoding: a suffix tree of the prompt and of earlier outputs, searched on the host.

    arXiv 2411.04975. Drafts are as long as the match is sure: give `drafted_per_step`.
    """

    coverage: float = 0.5
    lookup_seconds: float = 1e-4

    recorded: ClassVar[str] = "suffix"
    sources: ClassVar[Mapping[str, str]] = {
        "coverage": "assumed: 12% of the steps of MT-Bench chats (vLLM pull request 24852), most "
        "steps of agents that repeat themselves; measure it as steps with a draft over all steps",
        "lookup_seconds": "assumed as n-gram lookup: tens of microseconds a sequence on the host "
        "(arXiv 2411.04975)",
    }


# ── by name ──────────────────────────────────────────────────────────────────────────────────

PARALLEL = "pard:"
"""Before a model's name: it drafts all tokens in one pass."""


@lru_cache(maxsize=256)
def named(
    text: str,
    tensor_parallel: int = 1,
    *,
    weight_dtype: str | None = None,
    layers: int | None = None,
    draft_vocab: int | None = None,
) -> Drafter:
    """The drafter of that name, with what is known of it in place of the kind's defaults.

    Parameters
    ----------
    text
        A kind that needs no model of its own; or a model's name or config.json, with "pard:"
        before it where it drafts all tokens in one pass.
    tensor_parallel
        GPUs of a model of its own.
    weight_dtype, layers, draft_vocab
        Fields of the kind that has them; None: its default.

    Returns
    -------
    Drafter

    Raises
    ------
    InputError
        With the kinds and the nearest names; or with what the kind has no use for.

    Examples
    --------
    >>> named("eagle3", draft_vocab=151936).draft_vocab
    151936
    """
    given = {"weight_dtype": weight_dtype, "layers": layers, "draft_vocab": draft_vocab}
    options = {name: value for name, value in given.items() if value is not None}
    free = {kind: record for kind, record in kinds().items() if not record.needs_model}
    if text in free:
        return _with(free[text](), options)
    if not models.is_config(text) and difflib.get_close_matches(text.lower(), free, cutoff=0.7):
        raise InputError(f"draft must be a model or one of {', '.join(free)}, got {text!r}")
    record = ParallelModel if text.lower().startswith(PARALLEL) else SeparateModel
    try:
        own = models.named(text[len(PARALLEL) :] if record is ParallelModel else text)
    except InputError as error:
        raise InputError(f"draft must be a model or one of {', '.join(free)}: {error}") from error
    found = _with(record(own, tensor_parallel), options)
    try:
        shard(own, tensor_parallel)
    except InputError as error:
        raise InputError(f"draft_{error}") from error
    return found


def recorded(text: str) -> tuple[str, str]:
    """(kind, name) of a draft in the record of measured acceptance; "" for what that has not, and
    for the name of what is no model of its own.

    Examples
    --------
    >>> recorded("dflash"), recorded("Llama-3.2-1B"), recorded("layer_skip")
    (('block', ''), ('draft_model', 'Llama-3.2-1B'), ('', ''))
    """
    record = kinds().get(text)
    if record is not None and not record.needs_model:
        return record.recorded, ""
    if text.lower().startswith(PARALLEL):
        return ParallelModel.recorded, ""
    return SeparateModel.recorded, "" if models.is_config(text) else text


def _with(drafter: Drafter, options: dict[str, Any]) -> Drafter:
    """The drafter with those fields; InputError where its kind has none of that name."""
    known = {field.name for field in fields(drafter)}  # type: ignore[arg-type]
    unused = [name for name in options if name not in known]
    if unused:
        said = ", ".join(name if name.startswith("draft_") else f"draft_{name}" for name in unused)
        raise InputError(f"draft={drafter.kind} does not use {said}: leave it out")
    return replace(drafter, **options) if options else drafter  # type: ignore[type-var]
