"""What every drafter answers, and the register of kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from specmath import hardware
from specmath.checks import FloatArray, InputError, real, whole
from specmath.hardware import Gpu
from specmath.models import Model
from specmath.steptime import OwnCoefficients, step_seconds
from specmath.steptime.coefficients import coefficients_for
from specmath.steptime.operators import MICRO, linear_seconds

__all__ = [
    "EAGER",
    "LOGIT_BYTES",
    "Drafter",
    "Place",
    "drafter",
    "kinds",
    "register",
    "sampling_seconds",
]

LOGIT_BYTES = 4
"""Bytes of one logit when it is sampled from: engines cast logits to 32 bits."""

EAGER = (0,)
"""Capture sizes of an engine without CUDA graphs: every step is larger than the largest."""


@dataclass(frozen=True)
class Place:
    """Where a drafter runs: the target it serves, the GPUs, and how the target is stored.

    `graph_sizes`: CUDA-graph capture sizes in tokens (None: everything captured without padding;
    `EAGER`: nothing captured). `coefficients`: your own of the step-time model.
    """

    target: Model
    gpu: str | Gpu
    tensor_parallel: int = 1
    weight_dtype: str | None = "bf16"
    kv_dtype: str = "bf16"
    graph_sizes: tuple[int, ...] | None = None
    coefficients: OwnCoefficients | None = None

    def forward(
        self,
        model: Model,
        batch: ArrayLike,
        positions: ArrayLike,
        context: ArrayLike,
        *,
        tensor_parallel: int | None = None,
        weight_dtype: str | None = None,
    ) -> FloatArray:
        """Seconds of one forward of `model` here; arrays broadcast."""
        return step_seconds(
            model,
            self.gpu,
            batch=batch,
            tokens_per_sequence=positions,
            context_tokens=context,
            tensor_parallel=self.tensor_parallel if tensor_parallel is None else tensor_parallel,
            weight_dtype=weight_dtype,
            kv_dtype=self.kv_dtype,
            graph_sizes=self.graph_sizes,
            coefficients=self.coefficients,
        )

    def linear(self, outputs: float, inputs: float, tokens: ArrayLike) -> FloatArray:
        """Seconds of one 16-bit matrix product that is not part of a model, launch included."""
        gpu = hardware.find(self.gpu)
        c = (self.coefficients or {}).get("bf16") or coefficients_for(gpu.name, "bf16")
        read, extra = linear_seconds(
            outputs,
            inputs,
            tokens,
            weight_bytes=2.0,
            bandwidth=gpu.bandwidth,
            peak=gpu.peak("bf16"),
            coefficients=c,
        )
        return np.asarray(read + extra + c.linear_launch_us * MICRO)


def sampling_seconds(gpu: str | Gpu, positions: ArrayLike, vocab: ArrayLike) -> FloatArray:
    """Reading the logits once to sample: positions x vocabulary x 4 bytes / bandwidth [s].

    A floor: sorting for top-k or top-p reads them several times.
    """
    size = real("positions", positions, 0) * real("vocab", vocab, 0) * LOGIT_BYTES
    return np.asarray(size / hardware.find(gpu).bandwidth)


class Drafter(ABC):
    """Anything that proposes tokens. Frozen records; `sources` says where each default is from.

    `parallel`: one pass drafts all γ tokens; otherwise each token takes a pass. `coverage`: share
    of sequence-steps that get a draft at all.
    """

    kind: ClassVar[str]
    label: ClassVar[str]
    parallel: ClassVar[bool] = False
    sources: ClassVar[Mapping[str, str]] = {}
    coverage: float = 1.0

    def passes(self, gamma: ArrayLike) -> FloatArray:
        """Forwards of the drafter in a step of γ drafted tokens (whole, >= 0)."""
        count = whole("gamma", gamma, 0).astype(float)
        return np.minimum(count, 1.0) if self.parallel else count

    @abstractmethod
    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """Seconds of drafting γ tokens for each of `batch` sequences; 0 at γ=0. Broadcasts.

        Forwards and sampling only: what the host adds to each pass is the engine's
        (`specmath.drafters.EngineOverhead`).
        """

    @abstractmethod
    def pass_seconds(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """Seconds of one pass over `positions` a sequence, sampling included.

        At one position this over one forward of the target is the c of Theorem 3.8.
        """

    def once_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """Seconds that a step of γ >= 1 pays besides γ passes of one position; 0 for most."""
        return np.zeros(np.broadcast_shapes(np.shape(gamma), np.shape(batch), np.shape(context)))

    def tree_seconds(
        self, place: Place, widths: Sequence[int], batch: ArrayLike, context: ArrayLike
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
    def weight_bytes(self, place: Place) -> float:
        """Bytes of weights that the drafter adds to the target's, over all its GPUs."""

    def cache_model(self, target: Model) -> Model | None:
        """The model whose KV cache the drafter adds; None where it keeps none of its own."""
        return None

    def kv_bytes_per_token(self, place: Place) -> float:
        """Bytes of cache that the drafter adds for each token of a sequence."""
        model = self.cache_model(place.target)
        return 0.0 if model is None else model.kv_bytes_per_token(place.kv_dtype)

    @abstractmethod
    def flops_per_token(self, target: Model) -> float:
        """FLOPs of drafting one token, attention over the context left out (as ĉ counts)."""

    def gpus(self, place: Place) -> int:
        """GPUs that hold the drafter."""
        return place.tensor_parallel


_KINDS: dict[str, type[Drafter]] = {}
D = TypeVar("D", bound=Drafter)


def register(kind: type[D]) -> type[D]:
    """Class decorator: makes the kind known under its name."""
    _KINDS[kind.kind] = kind
    return kind


def kinds() -> dict[str, type[Drafter]]:
    """Every kind of drafter by name."""
    return dict(_KINDS)


def drafter(kind: str, **options: Any) -> Drafter:
    """A drafter of that kind; `options` are the fields of its record.

    Raises InputError for an unknown kind or option, or one that is needed and missing.
    """
    if kind not in _KINDS:
        raise InputError(f"drafter must be one of {', '.join(_KINDS)}, got {kind!r}")
    make: Any = _KINDS[kind]
    needs = {field.name: field.default is MISSING for field in fields(make)}
    unknown = sorted(set(options) - set(needs))
    if unknown:
        raise InputError(f"{kind} takes {', '.join(needs) or 'nothing'}, got {', '.join(unknown)}")
    missing = [name for name, needed in needs.items() if needed and name not in options]
    if missing:
        raise InputError(f"{kind} needs {', '.join(missing)}, got nothing")
    found: Drafter = make(**options)
    return found
