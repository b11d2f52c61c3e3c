"""Refit data/steptime_fitted.toml to the reference table, with its held-out errors.

python -m benchmarks.fit_step_times > specmath/data/steptime_fitted.toml
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import tomli_w

from specmath import hardware
from specmath.coefficients import Arithmetic, Coefficients, assumed
from specmath.operator_fit import fit_gpu, fitted_names
from specmath.reference_table import ReferenceRow, predict, read_reference, score

TABLE = Path(__file__).parent.parent / "tests" / "data" / "reference_step_times.csv.gz"
SOURCE = (
    "steps composed from aiconfigurator 0.12's measured kernel tables (Apache-2.0, vLLM backend)"
)
MEDIAN = "the median of the calibrated GPUs"
Fit = dict[Arithmetic, Coefficients]


def held_out_by_model(rows: list[ReferenceRow]) -> dict[tuple[str, str], Fit]:
    """For each GPU and model, the coefficients fitted without that model."""
    found = {}
    for gpu in {row.gpu for row in rows}:
        own = [row for row in rows if row.gpu == gpu]
        for model in {row.operators.model.name for row in own}:
            rest = [row.operators for row in own if row.operators.model.name != model]
            found[gpu, model] = fit_gpu(rest, hardware.find(gpu))
    return found


def median(fits: list[Fit], names: dict[Arithmetic, tuple[str, ...]]) -> Fit:
    """The middle value of each coefficient over several GPUs."""
    result: Fit = {}
    for dtype, chosen in names.items():
        own = [fit[dtype] for fit in fits if dtype in fit]
        values = {name: statistics.median(getattr(c, name) for c in own) for name in chosen}
        base = result.get("bf16", assumed(dtype))
        result[dtype] = Coefficients(**{**base.__dict__, **assumed_fp8(dtype), **values})
    return result


def assumed_fp8(dtype: Arithmetic) -> dict[str, float]:
    names = ("ragged_stall", "quantise_efficiency")
    return {name: getattr(assumed("fp8"), name) for name in names} if dtype == "fp8" else {}


def errors(rows: list[ReferenceRow], choose) -> dict[str, float]:
    """Mean absolute errors of dense models and of mixtures."""
    result = {}
    for key, moe in (("step_error", False), ("moe_step_error", True)):
        own = [row for row in rows if row.operators.model.is_moe == moe]
        if own:
            result[key] = round(score(own, predict(own, choose)).step_error, 4)
    return result


def main() -> None:
    rows = [row for row in read_reference(TABLE) if not row.excluded]
    gpus = sorted({row.gpu for row in rows})
    by_gpu = {gpu: [row for row in rows if row.gpu == gpu] for gpu in gpus}
    full = {gpu: fit_gpu([r.operators for r in by_gpu[gpu]], hardware.find(gpu)) for gpu in gpus}
    held = held_out_by_model(rows)
    everything = [row.operators for row in rows]
    names = {dtype: fitted_names(everything, dtype) for dtype in ("bf16", "fp8")}

    out: dict = {"source": SOURCE, "median": MEDIAN, "general": {}, "gpu": {}}
    for dtype, c in median(list(full.values()), names).items():
        own = [row for row in rows if row.operators.weights_in == dtype]
        others = {g: median([full[o] for o in gpus if o != g], names) for g in gpus}
        values = {name: round(getattr(c, name), 4) for name in names[dtype]}
        found = errors(own, lambda r, others=others: others[r.gpu])
        out["general"][dtype] = found | {"values": values}
    for gpu in gpus:
        out["gpu"][gpu] = {}
        for dtype, c in full[gpu].items():
            own = [row for row in by_gpu[gpu] if row.operators.weights_in == dtype]
            chosen = fitted_names([r.operators for r in own], dtype)
            values = {name: round(getattr(c, name), 4) for name in chosen}
            found = errors(own, lambda r: held[r.gpu, r.operators.model.name])
            out["gpu"][gpu][dtype] = found | {"rows": len(own), "values": values}
    sys.stdout.write(
        "# Written by benchmarks/fit_step_times.py: do not edit. step_error: mean absolute\n"
        "# relative error of a step, whole models held out (general: whole GPUs held out).\n\n"
    )
    sys.stdout.write(tomli_w.dumps(out))


if __name__ == "__main__":
    main()
