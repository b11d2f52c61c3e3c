"""Straight lines between knots as formulas: a template names no function that looks them up."""

from __future__ import annotations

import numpy as np

from specmath.plan.peak import Line

__all__ = ["drawn", "number"]


def number(value: float) -> str:
    """The number in a template, in which none has a sign."""
    return f"{value:.15g}" if value >= 0.0 else f"(0-{-value:.15g})"


def drawn(line: Line, name: str) -> str:
    """The line over the cell of that name: its first value, then how it bends at each knot.

    Examples
    --------
    >>> drawn(Line((1.0, 3.0), (0.0, 1.0)), "x")
    '0+0.5*({x}-1)*({x}>1)-0.5*({x}-3)*({x}>3)'
    """
    x, y = np.array([float(f"{each:.15g}") for each in line.x]), np.array(line.y)
    slopes = np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]])
    text = number(float(y[0]))
    for knot, bend in zip(x, np.diff(slopes), strict=True):
        if bend:
            sign, at = "+" if bend > 0.0 else "-", number(float(knot))
            text += f"{sign}{abs(bend):.15g}*({{{name}}}-{at})*({{{name}}}>{at})"
    return text
