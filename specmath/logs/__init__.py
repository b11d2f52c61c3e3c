"""Server telemetry: the lines and endpoints people already have, read into acceptance."""

from __future__ import annotations

from specmath.logs.errors import LogError
from specmath.logs.paste import read_rates

__all__ = ["LogError", "read_rates"]
