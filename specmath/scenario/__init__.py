"""The scenario: every input in one validated record, in the forms people know them in."""

from specmath.scenario.record import EXAMPLE, SPECS, Scenario

__all__ = ["EXAMPLE", "SPECS", "Scenario"]
