"""What every drafter answers, and the register of kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from specmath import hardware
from specmath.checks import FloatArray, InputError, real, whole
from specmath.coefficients import coefficients_for
from specmath.hardware import Gpu
from specmath.models import Model
from specmath.operators import MICRO, linear_seconds
from specmath.steptime import OwnCoefficients, step_seconds

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
    of sequence-steps that get a draft at all. `shares_cache`: reads the target's KV cache and
    keeps none of its own.
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

    def forward_seconds(self, place: Place, batch: ArrayLike, context: ArrayLike) -> FloatArray:
        """Seconds of the first drafted token alone, one position a sequence: the c of Theorem 3.8
        is this over one forward of the target."""
        return self.step_seconds(place, 1, batch, context)

    @abstractmethod
    def weight_bytes(self, place: Place) -> float:
        """Bytes of weights that the drafter adds to the target's, over all its GPUs."""

    @abstractmethod
    def kv_bytes_per_token(self, place: Place) -> float:
        """Bytes of cache that the drafter adds for each token of a sequence, over all its GPUs."""

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

    Raises InputError for an unknown kind or option.
    """
    if kind not in _KINDS:
        raise InputError(f"drafter must be one of {', '.join(_KINDS)}, got {kind!r}")
    make: Callable[..., Drafter] = _KINDS[kind]
    fields = set(getattr(make, "__dataclass_fields__", {}))
    unknown = sorted(set(options) - fields)
    if unknown:
        raise InputError(f"{kind} takes {', '.join(sorted(fields))}, got {', '.join(unknown)}")
    return make(**options)
