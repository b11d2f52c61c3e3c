"""A reading from its numbers, by the names of its fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from specmath.logs import Reading, counts
from specmath.logs.estimate import Alpha
from specmath.logs.reading import Channel, Counts, Extras

KINDS = (Channel, Counts, Extras)


def make_reading(engine: str, form: str, alpha: Alpha | None = None, **told: Any) -> Reading:
    """What `engine` would give for these fields of a Channel, of Counts and of Extras."""
    told |= {"engine": engine, "format": form}
    names = [[field.name for field in fields(kind)] for kind in KINDS]
    assert set(told) <= {name for mine in names for name in mine}
    parts = ({name: told[name] for name in mine if name in told} for mine in names)
    channel, counted, extras = (kind(**part) for kind, part in zip(KINDS, parts, strict=True))
    return counts.make_reading(channel, counted, extras, alpha=alpha)
