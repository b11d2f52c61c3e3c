"""Server telemetry: the lines and endpoints people already have, read into acceptance."""

from __future__ import annotations

from specmath.logs.detect import read
from specmath.logs.errors import LogError
from specmath.logs.paste import read_rates
from specmath.logs.record import Reading, Requests, Window

__all__ = ["LogError", "Reading", "Requests", "Window", "read", "read_rates"]
