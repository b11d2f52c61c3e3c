"""Telemetry of no known format: names mapped by meaning, accepted only where an identity holds.

It is asked only where no known format found speculation in the text.
"""

from specmath.logs.general.read import General

__all__ = ["General"]
