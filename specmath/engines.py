"""What an engine adds around the forwards: host time, what speculating costs, its own kernels.

How vLLM's values at batch 1 were found (Llama-3.1-8B on an H100; tests/test_drafters.py repeats
it). vLLM issue 20780 gives 7.07 ms a plain step and for EAGLE, K = 2 to 7, s = 1.087 + 0.105 γ.

    plain step  7.07 ms   6.40 forward and sampling         0.67 host: `host`
    slope       0.74 ms   0.59 the head's forward           0.15 host: `pass_`
    intercept   0.62 ms   0.00 (v grows by 0.004 ms a γ)    0.63 host: `step`

So of EAGLE's slope four fifths are drafting, and its intercept is overhead alone. The rest of
data/engines.toml is fitted by tools/engine_fit.py, or says that it is assumed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from specmath.checks import InputError, real

__all__ = ["EIGHT_BIT_CACHE", "WITHOUT", "Engine", "catalogue", "named"]

MILLI, MICRO = 1e-3, 1e-6
_AT_LEAST_NOTHING = (
    "host", "step", "pass_", "sequence", "expert_layer", "draft_sequence", "launch",
    "communication", "fused_communication", "eight_bit_cache",
)  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """Seconds of host work and the like of one engine; ≥ 0, InputError otherwise.

    Attributes
    ----------
    host, sequence, expert_layer
        In every step: once, for each sequence of the batch, for each layer of experts.
    step, draft_sequence
        More in a step that speculates (scheduling drafts, rejection): once, and for each sequence.
    pass_
        More in each pass of the drafter.
    position
        What a verified position adds beyond the computed pass, plain steps, low and high end.
    name, label
        In options, and on screen.
    weights
        Time of reading quantised weights, by their stored dtype, over the computed one; 1 where not
        named.
    launch
        The same of everything that does not depend on the batch.
    communication, fused_communication
        The same of all-reduces and exchanges; the second on GPUs that compute in 4 bits, where
        engines fuse them with what follows.
    eight_bit_cache
        The same of reading a cache in 8 bits, on GPUs that compute in 8 bits and not in 4.
    hides_host
        Whether the host plans the next step while this one runs, so that the plain steps of a
        dense model do not wait for it, and a request that comes waits for one step more. What is
        fitted to mixtures was seen on servers that do.
    like
        The engine whose measurements stand for it; "" its own.
    rows
        Measurements behind it; 0: assumed.
    source
        Where the values are from.
    """

    host: float
    step: float
    pass_: float
    sequence: float = 0.0
    expert_layer: float = 0.0
    draft_sequence: float = 0.0
    position: tuple[float, float] = (0.0, 0.0)
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    launch: float = 1.0
    communication: float = 1.0
    fused_communication: float = 1.0
    eight_bit_cache: float = 1.0
    hides_host: bool = False
    like: str = ""
    name: str = "other"
    label: str = ""
    rows: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        for name in _AT_LEAST_NOTHING:
            real(name, getattr(self, name), 0)
        real("position", self.position, 0)
        real("weights", list(self.weights.values()), 0, low_open=True)

    @property
    def seen_as(self) -> str:
        """The name under which measurements of it are kept."""
        return self.like or self.name


def _read(name: str) -> dict[str, Any]:
    text = resources.files("specmath").joinpath("data", name).read_text(encoding="utf-8")
    return tomllib.loads(text)


def _engine(name: str, row: Mapping[str, Any], fit: Mapping[str, Any]) -> Engine:
    """An engine from what is said of it, and what was fitted to plain rows of it."""
    fitted = f"; plain step: {fit['n']} served rows of {fit['models']}" if fit else ""
    return Engine(
        name=name,
        host=fit.get("host_ms", row["host_ms"]) * MILLI,
        sequence=fit.get("sequence_ms", 0.0) * MILLI,
        expert_layer=fit.get("expert_layer_us", 0.0) * MICRO,
        step=row["step_ms"] * MILLI,
        draft_sequence=row["draft_sequence_ms"] * MILLI,
        pass_=row["pass_ms"] * MILLI,
        position=tuple(row["position"]),
        weights=fit.get("weights", {}),
        launch=fit.get("launch", 1.0),
        communication=fit.get("communication", 1.0),
        fused_communication=fit.get("fused_communication", 1.0),
        eight_bit_cache=row.get("eight_bit_cache", 1.0),
        hides_host=row.get("hides_host", False),
        like=row.get("like", ""),
        label=row["label"],
        rows=row["n"] + fit.get("n", 0),
        source=row["source"] + fitted,
    )


@cache
def catalogue() -> Mapping[str, Engine]:
    """Every engine that is known, by name."""
    fits, rows = _read("engines_fitted.toml"), _read("engines.toml")
    return {
        name: _engine(
            name, rows.get(row.get("like"), {}) | row, fits.get(row.get("like", name), {})
        )
        for name, row in rows.items()
    }


EIGHT_BIT_CACHE = (0.07, 0.13)
"""Plain steps that a verified position adds where the cache is in 8 bits and the GPU does not
compute in fp8: attention then takes a slow path. 12 rows of vLLM 0.24 on an A100 beside the same
with 16 bits (manojarulmurugan/SpecDecoding-Study-vLLM-SGLang, July 2026); one source."""

WITHOUT = " without "
"""Between an engine and the model whose rows are left out of its fit."""


@cache
def _without(name: str, model: str) -> Engine:
    """The engine as fitted to the rows of other models; itself where that model set nothing."""
    like = named(name).seen_as
    fits = _read("engines_fitted.toml").get(like, {}).get("without", {})
    if model not in fits:
        return named(name)
    rows = _read("engines.toml")
    return _engine(name, rows[like] | rows[name], fits[model])


def named(name: str) -> Engine:
    """The engine of that name; InputError names those known. "vllm without MiniMax" is vLLM as it
    is without the rows of that model, by which a row of it can be judged.

    Examples
    --------
    >>> round(named("vllm").host * 1e3, 2)
    0.67
    """
    base, _, model = name.partition(WITHOUT)
    if model and base in catalogue():
        return _without(base, model)
    if name not in catalogue():
        raise InputError(f"engine must be one of {', '.join(catalogue())}, got {name!r}")
    return catalogue()[name]
