"""Refit specmath/data/steptime_fitted.toml to the reference table, with its held-out errors.

python -m benchmarks.fit_step_times > specmath/data/steptime_fitted.toml
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from specmath.steptime.coefficients import Arithmetic, Coefficients
from specmath.steptime.operator_fit import fitted_names
from specmath.steptime.reference_table import (
    Chosen,
    ReferenceRow,
    fit_each_gpu,
    fit_without_each_model,
    median_fit,
    predict,
    read_reference,
    score,
)

TABLE = Path(__file__).parent.parent / "tests" / "data" / "reference_step_times.csv.gz"
SOURCE = (
    "steps composed from aiconfigurator 0.12's measured kernel tables (Apache-2.0, vLLM backend)"
)
HEAD = """\
# Written by benchmarks/fit_step_times.py: do not edit. step_error: mean absolute relative error
# of a step, dense models, whole models held out (general: whole GPUs held out).

"""


def entry(
    rows: Sequence[ReferenceRow], choose: Chosen, fitted: Coefficients, dtype: Arithmetic
) -> dict[str, Any]:
    """Errors of held-out predictions on `rows`, and the values that were fitted."""
    found: dict[str, Any] = {}
    for key, moe in (("step_error", False), ("moe_step_error", True)):
        own = [row for row in rows if row.operators.model.is_moe == moe]
        if own:
            found[key] = round(score(own, predict(own, choose)).step_error, 4)
    names = fitted_names([row.operators for row in rows], dtype)
    values = {name: round(getattr(fitted, name), 4) for name in names}
    return found | {"rows": len(rows), "values": values}


def main() -> None:
    rows = [row for row in read_reference(TABLE) if not row.excluded]
    full = fit_each_gpu(rows)
    others = {
        gpu: median_fit([fit for other, fit in full.items() if other != gpu], rows) for gpu in full
    }
    held_out = fit_without_each_model(rows)
    general = median_fit(list(full.values()), rows)

    out: dict[str, Any] = {
        "source": SOURCE,
        "median": "the median of the calibrated GPUs",
        "general": {},
        "gpu": {gpu: {} for gpu in sorted(full)},
    }
    for dtype, c in general.items():
        own = [row for row in rows if row.operators.weights_in == dtype]
        out["general"][dtype] = entry(own, lambda row: others[row.gpu], c, dtype)
        for gpu, sections in out["gpu"].items():
            mine = [row for row in own if row.gpu == gpu]
            if mine:
                sections[dtype] = entry(mine, held_out, full[gpu][dtype], dtype)
    sys.stdout.write(HEAD + tomli_w.dumps(out))


if __name__ == "__main__":
    main()
