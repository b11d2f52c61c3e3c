"""Range checks shared by every formula: one message, with the name, the value and the bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["InputError", "real", "whole"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class InputError(ValueError):
    """A value outside the range in which a formula means anything."""


def _bounds(low: float, high: float, low_open: bool) -> str:
    left = f"{'>' if low_open else '>='} {low:g}"
    return left if high == np.inf else f"{left} and <= {high:g}"


def _first(values: NDArray[np.generic], bad: NDArray[np.bool_]) -> object:
    """The first offending value, as Python prints it."""
    return values[bad].flat[0].item() if values.ndim else values.item()


def real(
    name: str, value: ArrayLike, low: float, high: float = np.inf, *, low_open: bool = False
) -> FloatArray:
    """`value` as float64, every element finite and within [low, high] ((low, high] if low_open).

    Raises InputError naming the first element that is not a finite number within the bounds.
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, got {value!r}") from error
    good = np.isfinite(array) & (array <= high) & ((array > low) if low_open else (array >= low))
    if not good.all():
        found = _first(array, ~good)
        raise InputError(
            f"{name} must be a finite number {_bounds(low, high, low_open)}, got {found}"
        )
    return array


def whole(name: str, value: ArrayLike, low: int, high: float = np.inf) -> IntArray:
    """`value` as int64, every element a whole number within [low, high].

    Floats that are whole (4.0) pass; 4.5, nan and booleans do not.
    """
    try:
        array = np.asarray(value)
        as_float = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a whole number, got {value!r}") from error
    if array.dtype == np.bool_:
        raise InputError(f"{name} must be a whole number, got {value!r}")
    good = np.isfinite(as_float) & (as_float == np.floor(as_float))
    good &= (as_float >= low) & (as_float <= high)
    if not good.all():
        found = _first(array, ~good)
        raise InputError(f"{name} must be a whole number {_bounds(low, high, False)}, got {found}")
    return array.astype(np.int64)
