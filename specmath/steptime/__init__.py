"""Step time: seconds of one forward from GPU, model, batch and context.

`roofline` makes the sum, `operators` its terms, `experts` those of a mixture as they were measured,
`coefficients` the calibrated numbers; `calibration` fits them to a user's own steps,
tools/steptime_fit.py made the stored ones.
"""

from specmath.steptime.coefficients import calibration_basis
from specmath.steptime.roofline import (
    OwnCoefficients,
    Pace,
    Placement,
    StepBreakdown,
    step_seconds,
)

__all__ = [
    "OwnCoefficients",
    "Pace",
    "Placement",
    "StepBreakdown",
    "calibration_basis",
    "step_seconds",
]
