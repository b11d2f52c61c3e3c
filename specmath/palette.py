"""One colour a meaning, on every page, in every file; each reads on light and on dark."""

__all__ = ["COST", "LOSS", "PLAIN", "SPECULATION", "shade"]

PLAIN = "#8a919e"
SPECULATION = "#3b82f6"
COST = "#d97706"
LOSS = "#ef4444"


def shade(color: str, opacity: float) -> str:
    """The colour as rgba(), for bands behind a line."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
