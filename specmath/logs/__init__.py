"""Server telemetry: the lines and endpoints people already have, read into acceptance."""

from __future__ import annotations

from specmath.logs.detect import read, read_run
from specmath.logs.paste import read_rates, typed_reading
from specmath.logs.reading import Reading, Requests, Window
from specmath.logs.stream import LogError

__all__ = [
    "LogError",
    "Reading",
    "Requests",
    "Window",
    "read",
    "read_rates",
    "read_run",
    "typed_reading",
]
