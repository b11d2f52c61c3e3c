"""What every drafter answers, and the register of kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath import hardware
from specmath.checks import FloatArray, real, whole
from specmath.hardware import Gpu
from specmath.models import Model
from specmath.steptime import Placement

__all__ = [
    "LOGIT_BYTES",
    "Decoder",
    "Drafter",
    "Origin",
    "kinds",
    "sampling_seconds",
]

LOGIT_BYTES = 4
"""Bytes of one logit when it is sampled from: engines cast logits to 32 bits."""


def sampling_seconds(gpu: str | Gpu, positions: ArrayLike, vocab: ArrayLike) -> FloatArray:
    """Reading the logits once to sample: positions x vocabulary x 4 bytes / bandwidth [s].

    A floor: sorting for top-k or top-p reads them several times.
    """
    size = real("positions", positions, 0) * real("vocab", vocab, 0) * LOGIT_BYTES
    return np.asarray(size / hardware.find(gpu).bandwidth)


Origin = Literal["lookup", "module", "model", "trained"]
"""Nothing to fetch; part of the target's own release; a model of its own; a head or a tuning that
somebody must have trained for this target."""

_KINDS: dict[str, type[Drafter]] = {}


class Drafter(ABC):
    """Anything that proposes tokens. Frozen records; `sources` says where each default is from.

    A class that states its `kind` and `label` is registered under that name (`kinds()`).
    `parallel`: one pass drafts all γ tokens; otherwise each token takes a pass. `needs_model`: it
    is a model of its own, to be named. `coverage`: share of sequence-steps that get a draft at all.
    `recorded`: its kind in the record of measured acceptance, "" where that has none. `origin`: how
    one comes by it. A `place` is that of the target it drafts for.
    """

    kind: ClassVar[str]
    label: ClassVar[str]
    parallel: ClassVar[bool] = False
    needs_model: ClassVar[bool] = False
    recorded: ClassVar[str] = ""
    origin: ClassVar[Origin] = "trained"
    sources: ClassVar[Mapping[str, str]] = {}
    coverage: float = 1.0

    def __init_subclass__(cls, kind: str = "", label: str = "") -> None:
        if kind:
            cls.kind, cls.label, _KINDS[kind] = kind, label, cls

    @property
    def reach(self) -> float:
        """The largest γ it can draft; infinite but for one head a token."""
        return np.inf

    def trained_depth(self, target: Model) -> int | None:
        """The γ that it was trained for with this target; None where any is as good as another."""
        return None

    def suits(self, target: Model) -> bool:
        """Whether this target can have one at all."""
        return True

    def passes(self, gamma: ArrayLike) -> FloatArray:
        """Forwards of the drafter in a step of γ drafted tokens (whole, >= 0)."""
        count = whole("gamma", gamma, 0).astype(float)
        return np.minimum(count, 1.0) if self.parallel else count

    def step_seconds(
        self, place: Placement, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """Seconds of drafting γ tokens for each of `batch` sequences; 0 at γ=0. Broadcasts.

        γ passes of one position, or one of γ, and what is paid once. Forwards and sampling only:
        what the host adds to each pass is the engine's (`specmath.engines`).
        """
        drafted = whole("gamma", gamma, 0)
        passes, positions = (1, np.maximum(drafted, 1)) if self.parallel else (drafted, 1)
        spent = passes * self.pass_seconds(place, positions, batch, context)
        spent = spent + self.once_seconds(place, drafted, batch, context)
        return np.where(drafted > 0, spent, 0.0)

    @abstractmethod
    def pass_seconds(
        self, place: Placement, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """Seconds of one pass over `positions` a sequence, sampling included.

        At one position this over one forward of the target is the c of Theorem 3.8.
        """

    def once_seconds(
        self, place: Placement, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """Seconds that a step of γ >= 1 pays besides its passes; 0 for most."""
        return np.zeros(np.broadcast_shapes(np.shape(gamma), np.shape(batch), np.shape(context)))

    def tree_seconds(
        self, place: Placement, widths: Sequence[int], batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """Seconds of drafting a token tree: a pass a level over `widths` positions a sequence.

        `widths[i]` counts the nodes whose children level i+1 holds (the root: 1). A parallel
        drafter takes its one pass, whatever the widths. A chain costs what `step_seconds` does.
        """
        if self.parallel:
            return self.step_seconds(place, len(widths), batch, context)
        levels = [self.pass_seconds(place, width, batch, context) for width in widths]
        once = self.once_seconds(place, len(widths), batch, context)
        return np.asarray(sum(levels, start=once))

    @abstractmethod
    def weight_bytes(self, place: Placement) -> float:
        """Bytes of weights that the drafter adds to the target's, over all its GPUs."""

    def cache_model(self, target: Model) -> Model | None:
        """The model whose KV cache the drafter adds; None where it keeps none of its own."""
        return None

    def prefill_place(self, place: Placement) -> Placement | None:
        """What reads each prompt besides the target, where it runs; None where nothing does."""
        return None

    @property
    def own_model(self) -> Model | None:
        """The model that drafts, where it is one of its own."""
        return None

    @abstractmethod
    def flops_per_token(self, target: Model) -> float:
        """FLOPs of drafting one token, attention over the context left out (as ĉ counts)."""

    def gpus(self, place: Placement) -> int:
        """GPUs that hold the drafter."""
        return place.tensor_parallel


class Decoder(Drafter):
    """Drafts with forwards of a decoder: a pass is one of them, and sampling from it.

    F(n), a forward of n positions a sequence, includes the projection of a head's inputs, one
    matrix product a pass, where there is one: held whole by every GPU unless
    `splits_projection`.
    """

    splits_projection: ClassVar[bool] = False

    @abstractmethod
    def decoder(self, target: Model) -> Model:
        """The layers that run in a pass, and the output table that is multiplied."""

    def decoder_place(self, place: Placement) -> Placement:
        """The decoder on the GPUs that hold it, stored as the target unless it has a format."""
        model, gpus = self.decoder(place.model), self.gpus(place)
        stored = getattr(self, "weight_dtype", place.weight_dtype)
        own = replace(place, model=model, weight_dtype=stored)
        if gpus == place.tensor_parallel:
            return own
        return replace(own, tensor_parallel=gpus, expert_parallel=1, attention_dp=1)

    def projection(self, target: Model) -> tuple[float, float]:
        """(outputs, inputs) of what joins the inputs of a pass; no outputs: nothing does."""
        return 0.0, 0.0

    def forward_seconds(
        self, place: Placement, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """F(n), seconds."""
        layers = self.decoder_place(place).step(batch, positions, context).total
        outputs, inputs = self.projection(place.model)
        if not outputs:
            return layers
        split = place.tensor_parallel if self.splits_projection else 1
        tokens = np.asarray(batch, dtype=float) * positions
        return layers + place.product_seconds(outputs / split, inputs, tokens)

    def pass_seconds(
        self, place: Placement, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        sampled = np.asarray(batch, dtype=float) * positions
        vocab = self.decoder(place.model).vocab
        forward = self.forward_seconds(place, positions, batch, context)
        return forward + sampling_seconds(place.device, sampled, vocab)

    def cache_model(self, target: Model) -> Model | None:
        return self.decoder(target)

    def prefill_place(self, place: Placement) -> Placement | None:
        keeps_a_cache = self.cache_model(place.model) is not None
        return self.decoder_place(place) if keeps_a_cache else None

    def flops_per_token(self, target: Model) -> float:
        outputs, inputs = self.projection(target)
        return self.decoder(target).flops_per_token + 2.0 * outputs * inputs


def kinds() -> dict[str, type[Drafter]]:
    """Every kind of drafter by name."""
    return dict(_KINDS)
