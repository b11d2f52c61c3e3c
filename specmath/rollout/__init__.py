"""Trying speculation out: what to measure before and after, on how many requests, when to stop."""

from specmath.rollout.plan import QUANTITIES, Expected, Name, Rollout, rollout

__all__ = ["QUANTITIES", "Expected", "Name", "Rollout", "rollout"]
