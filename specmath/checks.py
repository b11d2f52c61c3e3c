"""Range checks shared by every formula: one message, with the name, the value and the bounds."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["InputError", "plain_text", "real", "short", "whole"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_LARGEST_FLOAT = float(np.finfo(np.float64).max)
# The largest float64 that int64 can hold: 2^63 itself does not fit.
_LARGEST_INT64 = 2.0**63 - 1024


# Controls (of a terminal too), what turns the direction of text or has no width, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]+"
)


class InputError(ValueError):
    """A value outside the range in which a formula means anything."""


def plain_text(text: str) -> str:
    """Foreign text on one line, without what a screen or a terminal would obey instead of show:
    control, direction and zero-width characters are left out, runs of blanks are one blank."""
    return " ".join(_UNSEEN.sub("", " ".join(text.split())).split())


def short(value: object, longest: int = 60, *, quoted: bool = False) -> str:
    """A value as it stands in a message: at most `longest` characters on one line."""
    try:
        text = repr(value) if quoted else str(value)
    except (ValueError, RecursionError):  # integers of more than 4,300 digits; deep nesting
        return "a value too long to print"
    text = plain_text(text[: 4 * longest + 1])
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _bounds(low: float, high: float, low_open: bool) -> str:
    left = f"{'>' if low_open else '>='} {low:g}"
    return left if high == np.inf else f"{left} and <= {high:g}"


def _first(values: NDArray[np.generic], bad: NDArray[np.bool_]) -> object:
    """The first offending value, as Python prints it."""
    return values[bad].flat[0].item() if values.ndim else values.item()


def _within(array: NDArray[np.generic], low: float, high: float) -> bool:
    """Whether all of `array` is within [low, high]; nan is not, and an empty array is."""
    if array.size == 1:  # most of what is checked: a tenth of two reductions
        return bool(low <= array.item() <= high)
    # Two reductions and no temporary: the check of 10⁷ elements costs less than one formula.
    return array.size == 0 or bool(array.min() >= low and array.max() <= high)


def real(
    name: str, value: ArrayLike, low: float, high: float = np.inf, *, low_open: bool = False
) -> FloatArray:
    """`value` as float64, every element finite and within [low, high] ((low, high] if low_open).

    Raises InputError naming the first element that is not a finite number within the bounds.
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be a number, got {short(value, quoted=True)}") from error
    least = np.nextafter(low, np.inf) if low_open else low
    if not _within(array, least, min(high, _LARGEST_FLOAT)):
        good = np.isfinite(array) & (array <= high) & (array >= least)
        found = _first(array, ~good)
        raise InputError(
            f"{name} must be a finite number {_bounds(low, high, low_open)}, got {found}"
        )
    return array


def whole(name: str, value: ArrayLike, low: int, high: float = np.inf) -> IntArray:
    """`value` as int64, every element a whole number within [low, high].

    Floats that are whole (4.0) pass; 4.5, nan, booleans and what int64 cannot hold do not.
    """
    try:
        array = np.asarray(value)
        numbers = array if array.dtype.kind in "iu" else array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise _not_whole(name, value) from error
    if array.dtype == np.bool_:
        raise _not_whole(name, value)
    if _within(numbers, low, min(high, _LARGEST_INT64)):
        integers = numbers.astype(np.int64, copy=False)
        if numbers.dtype.kind in "iu" or np.array_equal(integers, numbers):
            return integers
    good = np.isfinite(numbers) & (numbers == np.floor(numbers))
    good &= (numbers >= low) & (numbers <= high)
    if good.all():
        high, good = _LARGEST_INT64, numbers <= _LARGEST_INT64
    found = _first(array, ~good)
    raise InputError(f"{name} must be a whole number {_bounds(low, high, False)}, got {found}")


def _not_whole(name: str, value: object) -> InputError:
    return InputError(f"{name} must be a whole number, got {short(value, quoted=True)}")
