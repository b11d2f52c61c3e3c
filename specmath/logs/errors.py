"""The one error that reading telemetry raises."""

from __future__ import annotations

__all__ = ["LogError", "start_of"]


class LogError(ValueError):
    """Telemetry that cannot be read: the message says what was expected and what was found."""


def start_of(text: str, length: int = 60) -> str:
    """The first characters of `text` on one line, as a message shows them."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= length else flat[:length] + "…")
