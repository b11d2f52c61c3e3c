"""Step time: seconds of one forward from GPU, model, batch and context.

`roofline` makes the sum, `operators` and `shards` its terms, `coefficients` the calibrated
numbers; `calibration` fits them to a user's own steps, `operator_fit` made the stored ones from
`reference_table`.
"""

from specmath.steptime.coefficients import calibration_basis
from specmath.steptime.operators import experts_touched
from specmath.steptime.roofline import (
    OwnCoefficients,
    StepBreakdown,
    step_breakdown,
    step_seconds,
)

__all__ = [
    "OwnCoefficients",
    "StepBreakdown",
    "calibration_basis",
    "experts_touched",
    "step_breakdown",
    "step_seconds",
]
