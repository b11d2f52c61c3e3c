"""A served pair on a GPU: its step cost, memory, load and schedule."""

from specmath.serving.pair import CoveredAcceptance, ServedStepCost

__all__ = ["CoveredAcceptance", "ServedStepCost"]
