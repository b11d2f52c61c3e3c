"""How far computed numbers were off where they were measured (data/errors.toml), and what γ by
batch size costs by itself (data/switching.toml), with n and source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray

__all__ = ["Errors", "Switching", "besides", "errors_of", "switching"]

ANY = "any"

Range = tuple[float, float]
"""(low, high) of true over computed that hold 80% of the cases."""


@dataclass(frozen=True)
class Errors:
    """80% ranges of true over computed.

    Attributes
    ----------
    plain
        Seconds of a plain step.
    excess
        What a speculative step costs beyond a plain one, s − 1.
    prompts
        What a prompt takes, in plain steps.
    rows
        Measurements behind `excess`; 0: assumed.
    """

    plain: Range
    excess: Range
    prompts: Range
    rows: int


FIRST_TOKEN = (1.6, 4.5, 17.0)
"""Time to first token, true over computed, where others are served too: 10, 50 and 90% of the 1,680
published rows of plain servers. The law has no bursts, and benchmarks begin with one."""


def _read(name: str) -> dict[str, Any]:
    text = resources.files("specmath").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _tables() -> dict[str, Any]:
    return _read("errors.toml")


def _entry(table: str, **wanted: Any) -> dict[str, Any]:
    """The first entry that holds of all that is wanted; "any" holds of everything."""
    found: dict[str, Any] = next(
        row
        for row in _tables()[table]
        if all(row.get(name, ANY) in (ANY, value) for name, value in wanted.items())
    )
    return found


@cache
def besides() -> Range:
    """What is taken for v − 1 + h, plain steps, where neither was said: from none, which is Theorem
    3.8, to the 90% quantile over published speedups of τ/speedup − (1 + γc).

    Examples
    --------
    >>> besides()
    (0.0, 0.51)
    """
    return 0.0, float(_tables()["besides"]["high"])


@cache
def errors_of(*, engine: str, drafter: str, calibrated: bool, mixture: bool) -> Errors:
    """What is taken for a step of an engine and a kind of drafter, of a dense model or a mixture of
    experts, on a GPU whose steps were calibrated or not.

    Examples
    --------
    >>> taken = errors_of(engine="vllm", drafter="eagle3", calibrated=True, mixture=False)
    >>> taken.excess[0] < 1 < taken.excess[1]
    True
    """
    plain = _entry("plain", engine=engine, calibrated=calibrated, mixture=mixture)
    excess = _entry("excess", drafter=drafter, calibrated=calibrated)
    prompts = _entry("prompts", engine=engine)
    return Errors(
        (plain["low"], plain["high"]),
        (excess["low"], excess["high"]),
        (prompts["low"], prompts["high"]),
        excess["n"],
    )


@dataclass(frozen=True)
class Switching:
    """What γ by batch size costs by itself, as a share of a token's time.

    Attributes
    ----------
    batches, shares
        Where it was measured, and what it was there.
    source, measured, assumed
        Who measured it, what of a schedule it was of, and what is taken to be like it.
    """

    batches: tuple[int, ...]
    shares: tuple[float, ...]
    source: str
    measured: str
    assumed: str

    def share(self, batches: ArrayLike) -> FloatArray:
        """At other batches: linear in the logarithm of the batch between those that were measured,
        level beyond them; shape of `batches`.

        Examples
        --------
        >>> [round(float(x), 3) for x in switching().share([1, 2, 189, 512])]
        [0.066, 0.066, 0.216, 0.216]
        """
        return np.asarray(np.interp(np.log(batches), np.log(self.batches), self.shares))


@cache
def switching() -> Switching:
    """The one measurement there is."""
    found = _read("switching.toml")
    batches, shares = zip(*((t["batch"], t["share"]) for t in found["tier"]), strict=True)
    return Switching(batches, shares, found["source"], found["measured"], found["assumed"])
