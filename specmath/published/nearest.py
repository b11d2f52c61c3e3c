"""Which published rows are nearest to a scenario, and what the record holds of its kind at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from specmath import drafters, hardware
from specmath.models import named
from specmath.published.case import Case, engine_of, shipped
from specmath.published.scenario import Unscorable, drafter_of, gpu_of, model_of
from specmath.published.score import Scored, score
from specmath.published.summary import band_of
from specmath.scenario import Scenario

__all__ = ["Coverage", "Near", "coverage_of", "nearest"]

NOT_SAID = 1.0
"""Distance of what a row does not say."""
OCTAVE = (1.0, 0.5, 0.5)
"""Of twice the active parameters, the bandwidth, the load."""
OTHER = (0.25, 2.0, 0.5)
"""Of another GPU however alike, since kernels differ; of another kind of drafter; of another
engine."""
FARTHEST = 4.0
"""A row beyond this is no neighbour."""


class _Place(NamedTuple):
    """What two cases are compared by; None is not known. `active`: parameters a token passes
    through; `bandwidth`: bytes/s of all GPUs of the replica."""

    active: float | None
    bandwidth: float | None
    load: int | None
    gpu: str | None
    drafter: str | None
    engine: str | None
    gamma: int | None


@dataclass(frozen=True, slots=True)
class Near:
    """A published row, how far it is from what was asked, and what is predicted for it (by
    hardware, or by its own costs where it has no prediction from hardware)."""

    scored: Scored
    distance: float


def nearest(scenario: Scenario, count: int = 3) -> tuple[Near, ...]:
    """The published speedups nearest to a scenario in the hardware form, nearest first.

    The distance adds: |log2| of the ratio of active parameters, half that of the replica's
    bandwidth (and 0.25 for another GPU), 2 for another kind of drafter, 0.5 for another engine, a
    quarter of the difference in γ, a half of |log2| of the ratio of the loads. What a row does not
    say counts 1.

    Parameters
    ----------
    scenario
        In another form than hardware nothing is compared, and nothing is near.
    count
        So many rows at most; of each source one.

    Examples
    --------
    >>> asked = Scenario(alpha=0.7, gamma=3, gpu="H100 SXM", model="Llama-3.1-8B", draft="eagle")
    >>> [near.scored.case.model for near in nearest(asked, 1)]
    ['Llama-3.1-8B-Instruct']
    """
    if not scenario.costs.computed:
        return ()
    return _nearest(_place_of(scenario), count)


@lru_cache(maxsize=64)
def _nearest(asked: _Place, count: int) -> tuple[Near, ...]:
    found = sorted((_distance(asked, place), i) for i, (_, place) in enumerate(_places()))
    taken: dict[str, Near] = {}
    for distance, i in found:
        case = _places()[i][0]
        if len(taken) == count or distance > FARTHEST:
            break
        if case.source not in taken and (best := _best(case)) is not None:
            taken[case.source] = Near(best, distance)
    return tuple(taken.values())


def _best(case: Case) -> Scored | None:
    """The row's speedup by the method that is nearest to what was asked; None where by none."""
    by = {s.method: s for s in score([case]) if s.quantity == "speedup" and s.error is not None}
    methods = ("hardware", "anchored", "step timings", "theorem")
    return next((by[method] for method in methods if method in by), None)


@lru_cache(maxsize=1)
def _places() -> tuple[tuple[Case, _Place], ...]:
    """The rows with a measured speedup that may be scored, and where they stand."""
    fit = (c for c in shipped() if c.speculates and "speedup" in c.measured and c.doubt is None)
    return tuple((case, _place_of_case(case)) for case in fit)


def _place_of_case(case: Case) -> _Place:
    gpu, count, model = None, None, None
    with suppress(Unscorable):
        gpu, count = gpu_of(case.hardware)
    with suppress(Unscorable):
        model = model_of(case.model, case.config)[0]
    return _Place(
        active=None if model is None else float(model.active_parameters),
        gpu=gpu,
        bandwidth=hardware.find(gpu).bandwidth * (case.gpus or count or 1) if gpu else None,
        drafter=drafter_of(case),
        engine=engine_of(case.engine),
        gamma=case.gamma or case.depth,
        load=case.concurrency,
    )


def _place_of(s: Scenario) -> _Place:
    gpu, draft = hardware.find(str(s.gpu)), str(s.draft)
    return _Place(
        active=float(named(str(s.model)).active_parameters),
        gpu=gpu.name,
        bandwidth=gpu.bandwidth * s.tensor_parallel,
        drafter=draft if draft in drafters.kinds() else "model",
        engine=s.engine,
        gamma=s.gamma,
        load=None if s.request_rate is not None else s.in_flight,
    )


def _distance(a: _Place, b: _Place) -> float:
    sizes = sum(w * _octaves(x, y) for w, x, y in zip(OCTAVE, a[:3], b[:3], strict=True))
    kinds = sum(w * (x != y) for w, x, y in zip(OTHER, a[3:6], b[3:6], strict=True))
    if a.gamma is None:
        return sizes + kinds
    return sizes + kinds + (NOT_SAID if b.gamma is None else abs(a.gamma - b.gamma) / 4)


def _octaves(a: float | None, b: float | None) -> float:
    return NOT_SAID if not a or not b else abs(math.log2(a / b))


# ── what the record holds of a kind ──────────────────────────────────────────────────────────

State = Literal["covered", "extrapolated", "refused"]
ENOUGH = 3
"""Rows alike in everything from which a combination counts as measured."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the record holds of an engine × drafter × GPU × band of load.

    state
        "covered": at least three scored rows are alike in all four; "extrapolated": the drafter's
        kind was measured, but not on that engine, GPU or load together; "refused": of that
        drafter the record holds nothing that can be scored.
    rows
        Rows alike in all four.
    alike
        Rows alike in the drafter and in each of "engine", "gpu", "load" by itself.
    drafter
        Rows of that kind of drafter.
    """

    state: State
    rows: int
    alike: tuple[tuple[str, int], ...]
    drafter: int


def coverage_of(scenario: Scenario, found: Sequence[Scored]) -> Coverage | None:
    """What a scored record holds of a scenario in the hardware form; None in another form, which
    brings its own costs.

    Parameters
    ----------
    scenario
        What is asked.
    found
        The record as scored: rows that no method predicts cover nothing.
    """
    if not scenario.costs.computed:
        return None
    asked = _place_of(scenario)
    held = {s.case.id: s.case for s in found if s.quantity == "speedup" and s.error is not None}
    places = (_place_of_case(case) for case in held.values())
    kin = [place for place in places if place.drafter == asked.drafter]
    same = {
        "engine": [place.engine == asked.engine for place in kin],
        "gpu": [place.gpu == asked.gpu for place in kin],
        "load": [band_of(place.load) == band_of(asked.load) for place in kin],
    }
    rows = sum(all(each) for each in zip(*same.values(), strict=True))
    alike = tuple((name, sum(each)) for name, each in same.items())
    state: State = "covered" if rows >= ENOUGH else "extrapolated" if kin else "refused"
    return Coverage(state, rows, alike, len(kin))
