"""Read a table of step times by operator, apply its known exclusions, score predictions on it.

The table is the reference that data/steptime.toml was fitted to: measured kernel times composed
to decode and verify steps. What it gets wrong is left out by rules its authors state, not by how
well a model fits.
"""

from __future__ import annotations

import csv
import gzip
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specmath import hardware, models
from specmath.checks import FloatArray
from specmath.steptime import step_seconds
from specmath.steptime.coefficients import Arithmetic, Coefficients, assumed
from specmath.steptime.operator_fit import OperatorRow, fit_gpu, fitted_names

__all__ = [
    "ReferenceRow",
    "Score",
    "fit_each_gpu",
    "fit_without_each_model",
    "median_fit",
    "predict",
    "read_reference",
    "score",
]

GpuFit = Mapping[Arithmetic, Coefficients]

# fp8 mixture kernels of these GPUs are 3-4 times slower than bf16 in the source tables.
_BAD_FP8_EXPERTS = ("H100 SXM", "H200 SXM")
# A verify step under this share of its own plain step is a fault of the source tables.
_LEAST_RATIO = 0.9


@dataclass(frozen=True)
class ReferenceRow:
    """One step of the reference: its inputs and operators, seconds in all, and any objection."""

    gpu: str
    operators: OperatorRow
    seconds: float
    excluded: str = ""

    @property
    def group(self) -> tuple[object, ...]:
        """What a verify step shares with its plain step."""
        o = self.operators
        head = (o.model.name, self.gpu, o.weights_in, o.tensor_parallel)
        return (*head, o.batch, o.context_tokens)


def read_reference(path: str | Path) -> list[ReferenceRow]:
    """Rows of a csv or csv.gz with the columns of reference_step_times.csv, exclusions marked."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        rows = [_row(record) for record in csv.DictReader(file)]
    plain = {row.group: row.seconds for row in rows if row.operators.tokens_per_sequence == 1}
    fastest: dict[tuple[object, ...], float] = {}
    for row in rows:
        fastest[row.group] = min(fastest.get(row.group, np.inf), row.seconds)
    return [
        ReferenceRow(row.gpu, row.operators, row.seconds, _objection(row, fastest, plain))
        for row in rows
    ]


def _row(record: Mapping[str, str]) -> ReferenceRow:
    def seconds(column: str) -> float:
        return float(record[column]) / 1e3

    operators = OperatorRow(
        model=models.find(record["model"]),
        tensor_parallel=int(record["tp"]),
        weights_in="fp8" if record["dtype"] == "fp8" else "bf16",
        batch=int(record["batch"]),
        tokens_per_sequence=int(record["tokens_per_seq"]),
        context_tokens=int(record["context"]),
        linear=seconds("gemm_ms"),
        experts=seconds("moe_ms"),
        attention=seconds("attn_ms"),
        communication=seconds("comm_ms"),
    )
    return ReferenceRow(hardware.find(record["gpu"]).name, operators, seconds("step_ms"))


def _objection(
    row: ReferenceRow,
    fastest: Mapping[tuple[object, ...], float],
    plain: Mapping[tuple[object, ...], float],
) -> str:
    o = row.operators
    if o.model.is_moe and o.weights_in == "fp8" and row.gpu in _BAD_FP8_EXPERTS:
        return "fp8 experts 3-4 times slower than bf16"
    if row.gpu == "L40S" and o.tensor_parallel >= 4:
        return "all-reduce dominates beyond belief"
    if fastest[row.group] < _LEAST_RATIO * plain[row.group]:
        return "a step of the group under 0.9 of its plain step"
    return ""


Chosen = Callable[[ReferenceRow], GpuFit | None]


def predict(rows: Sequence[ReferenceRow], coefficients: Chosen | None = None) -> FloatArray:
    """Predicted seconds of `rows`, with the coefficients that `coefficients(row)` gives."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.group[:4], []).append(i)
    result = np.empty(len(rows))
    for indices in groups.values():
        first = rows[indices[0]]
        members = [rows[i].operators for i in indices]
        result[indices] = step_seconds(
            first.operators.model,
            first.gpu,
            batch=[o.batch for o in members],
            tokens_per_sequence=[o.tokens_per_sequence for o in members],
            context_tokens=[o.context_tokens for o in members],
            tensor_parallel=first.operators.tensor_parallel,
            weight_dtype=first.operators.weights_in,
            coefficients=coefficients(first) if coefficients else None,
        )
    return result


@dataclass(frozen=True)
class Score:
    """Relative errors of `steps` steps and of the verify ratios among them."""

    steps: int
    step_error: float
    step_error_95: float
    ratio_error: float
    ratio_error_95: float


def score(rows: Sequence[ReferenceRow], predicted: Iterable[float]) -> Score:
    """Mean and 95th percentile of the absolute relative error of steps and of verify ratios."""
    guess = np.fromiter(predicted, dtype=float)
    truth = np.array([row.seconds for row in rows])
    plain = {row.group: i for i, row in enumerate(rows) if row.operators.tokens_per_sequence == 1}
    verify = [i for i, row in enumerate(rows) if row.operators.tokens_per_sequence > 1]
    base = [plain[rows[i].group] for i in verify]
    step = np.abs(guess / truth - 1)
    ratio = np.abs((guess[verify] / guess[base]) / (truth[verify] / truth[base]) - 1)
    return Score(
        len(rows),
        float(step.mean()),
        float(np.quantile(step, 0.95)),
        float(ratio.mean()),
        float(np.quantile(ratio, 0.95)),
    )


def fit_each_gpu(rows: Iterable[ReferenceRow], without: str = "") -> dict[str, GpuFit]:
    """Coefficients of each GPU in `rows`, fitted without the model of that name."""
    by_gpu: dict[str, list[OperatorRow]] = {}
    for row in rows:
        if row.operators.model.name != without:
            by_gpu.setdefault(row.gpu, []).append(row.operators)
    return {gpu: fit_gpu(own, hardware.find(gpu)) for gpu, own in by_gpu.items()}


def fit_without_each_model(rows: Sequence[ReferenceRow]) -> Chosen:
    """Fits with one whole model held out at a time: a row gets the fit that never saw its model."""
    names = {row.operators.model.name for row in rows}
    fits = {name: fit_each_gpu(rows, without=name) for name in names}
    return lambda row: fits[row.operators.model.name][row.gpu]


def median_fit(fits: Sequence[GpuFit], rows: Iterable[ReferenceRow]) -> GpuFit:
    """The middle value of each coefficient over several GPUs: what an unknown GPU is given.

    `rows` tell which coefficients were fitted at all; the others keep their assumed value, and
    fp8 takes those it does not determine from bf16.
    """
    operators = [row.operators for row in rows]
    result: dict[Arithmetic, Coefficients] = {}
    base: dict[str, float] = {}
    dtypes: tuple[Arithmetic, ...] = ("bf16", "fp8")
    for dtype in dtypes:
        own = [fit[dtype] for fit in fits if dtype in fit]
        names = fitted_names(operators, dtype)
        base |= {name: statistics.median(getattr(c, name) for c in own) for name in names}
        result[dtype] = Coefficients(**{**vars(assumed(dtype)), **base})
    return result
