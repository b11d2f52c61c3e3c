"""A served pair on a GPU: its step cost, memory, load and schedule."""

from specmath.serving.pair import ServedPair

__all__ = ["ServedPair"]
