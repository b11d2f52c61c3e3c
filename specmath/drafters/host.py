"""What a kind of drafter costs an engine besides the forwards: data/drafters.toml, n and source.

    h = step + B sequence + passes · pass_

An engine's own values are those of EAGLE's first head on it. Where a kind was measured on the
engine, its values stand in their place; where it was measured elsewhere only, the larger of the
two; where it was measured nowhere, those of the kind it is nearest to, said to be assumed.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from specmath.engines import MILLI, Engine

__all__ = [
    "Host",
    "catalogue",
    "fall_past_depth",
    "falls_seen",
    "host_of",
    "hosted",
    "next_choice_share",
    "state_passes",
]

ANY = "any"
"""The engine of a row for those where its kind was not measured."""


@dataclass(frozen=True)
class Host:
    """Host seconds of one kind of drafter on one engine, ≥ 0.

    Attributes
    ----------
    step, sequence
        More in a step that speculates: once, and for each sequence.
    pass_
        More in each pass of the drafter.
    rows
        Measured steps behind it; 0: assumed.
    error
        10 and 90% quantiles of measured over computed step with the row's source left out; None
        where there is but one source.
    source
        Which rows set it.
    """

    step: float
    pass_: float
    sequence: float
    rows: int
    error: tuple[float, float] | None
    source: str


@cache
def _data() -> dict[str, Any]:
    text = resources.files("specmath").joinpath("data/drafters.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def catalogue() -> dict[tuple[str, str], Host]:
    """What is known, by kind and engine ("any": where the kind was not measured)."""
    return {
        (row["kind"], row["engine"]): Host(
            step=row["step_ms"] * MILLI,
            pass_=row["pass_ms"] * MILLI,
            sequence=row["sequence_ms"] * MILLI,
            rows=row["n"],
            error=tuple(row["error"]) if "error" in row else None,
            source=row["source"],
        )
        for row in _data()["host"]
    }


def host_of(engine: str, kind: str) -> Host | None:
    """What is known of that kind on that engine, else on any; None where nothing is."""
    return catalogue().get((kind, engine)) or catalogue().get((kind, ANY))


@lru_cache(maxsize=256)
def hosted(engine: Engine, kind: str) -> Engine:
    """The engine as it runs that kind of drafter; one of your own, and `none`, as it is.

    Examples
    --------
    >>> from specmath import engines
    >>> hosted(engines.named("none"), "eagle3").pass_
    0.0
    """
    found = host_of(engine.seen_as, kind) if engine.name and engine.host else None
    if found is None:
        return engine
    least = Host(0.0, 0.0, 0.0, 0, None, "")
    if (kind, engine.seen_as) not in catalogue():
        least = replace(least, step=engine.step, pass_=engine.pass_, sequence=engine.draft_sequence)
    return replace(
        engine,
        step=max(found.step, least.step),
        pass_=max(found.pass_, least.pass_),
        draft_sequence=max(found.sequence, least.sequence),
    )


def state_passes(engine: Engine) -> float:
    """How often an engine moves the state of linear attention for each verified position beyond
    the once that the step-time model counts."""
    if not engine.host:
        return 0.0
    return float(_data()["state"]["passes"].get(engine.seen_as, 0.0))


def fall_past_depth() -> float:
    """By which share the chance of a position falls for each position past the trained depth."""
    return float(_data()["depth"]["fall"])


def falls_seen() -> tuple[float, float]:
    """The least and the largest of such a fall that was measured."""
    low, high = _data()["depth"]["range"]
    return float(low), float(high)


def next_choice_share() -> float:
    """Of what the choices before it missed, the share that a node's next choice catches."""
    return float(_data()["tree"]["share"])
