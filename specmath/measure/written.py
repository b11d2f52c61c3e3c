"""Lists of numbers as people write them."""

from __future__ import annotations

import math

from specmath.checks import InputError

__all__ = ["real_numbers", "whole_numbers"]


def whole_numbers(name: str, text: str) -> tuple[int, ...]:
    """'1-8' or '1,2,4' → whole numbers in order; InputError for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()) or len(first + last) > 12:
            raise InputError(f"{name} must be whole numbers such as 1-8 or 1,2,4, got {text!r}")
        start, stop = int(first), int(last)
        if stop - start > 1000:
            raise InputError(f"{name} must list at most 1000 numbers, got {text!r}")
        found.update(range(start, stop + 1))
    if not found:
        raise InputError(f"{name} must go from the smaller to the larger number, got {text!r}")
    return tuple(sorted(found))


def real_numbers(name: str, text: str) -> tuple[float, ...]:
    """'0, 0.7, 1' → finite numbers in order, each once; InputError for anything else."""
    try:
        found = {float(part) for part in text.split(",")}
    except ValueError:
        found = {math.nan}
    if not all(map(math.isfinite, found)):
        raise InputError(f"{name} must be numbers such as 0, 0.7, 1, got {text!r}")
    return tuple(sorted(found))
