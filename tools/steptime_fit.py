"""Fit the stored step-time coefficients to the reference table, with their held-out errors.

    python -m tools.steptime_fit > specmath/data/steptime_fitted.toml

The table times each operator separately: measured kernel times composed to decode and verify
steps. What it gets wrong is left out by rules its authors state, not by how well a model fits.
Each operator is fitted alone, by least squares on log(predicted / measured) with a soft L1 loss,
so that a coefficient says something about its operator and not about another's error.
"""

from __future__ import annotations

import csv
import gzip
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from specmath import hardware, models
from specmath.checks import FloatArray, InputError
from specmath.hardware import Gpu
from specmath.models import Model
from specmath.steptime.coefficients import FORMATS, Coefficients, Format, assumed
from specmath.steptime.experts import ExpertCurve, ExpertKernels, make_curve, measured_kernels
from specmath.steptime.operators import (
    MICRO,
    ExpertShard,
    Rates,
    all_reduce_seconds,
    attention_seconds,
    linear_seconds,
    shard,
)
from specmath.steptime.roofline import Placement
from tools.kernel_fit import (
    EXPERTS,
    FP8,
    LATENT,
    LINEAR,
    expert_values,
    fit_latents,
    fit_products,
    held_out_experts,
    latent_error,
    latents,
    minimise,
    product_error,
    products,
    shape_of,
)

TABLE = Path(__file__).parent.parent / "tests" / "data" / "reference_step_times.csv.gz"
SOURCE = (
    "steps composed from aiconfigurator 0.12's measured kernel tables (Apache-2.0, vLLM backend)"
)
HEAD = """\
# Written by tools/steptime_fit.py: do not edit. step_error: mean absolute relative error
# of a step, dense models, whole models held out (general: whole GPUs held out); of fp8_block and
# nvfp4 that of a matrix product. moe_step_error: mixtures; expert_error: a mixture layer's experts
# alone, whole shapes held out; latent_error: a layer of latent attention alone.

"""

# ── one GPU, one operator at a time ──────────────────────────────────────────────────────────────


ATTENTION = (
    "attention_launch_us",
    "kv_efficiency",
    "cached_mib",
    "cache_speedup",
    "uncached_us",
    "scan_us_per_1000_tokens",
)
LINK = ("all_reduce_us", "large_all_reduce_us", "link_efficiency", "ring_share")


@dataclass(frozen=True)
class OperatorRow:
    """Measured seconds of one step by operator; `weights_in` is "bf16" or "fp8"."""

    model: Model
    tensor_parallel: int
    weights_in: Format
    batch: int
    tokens_per_sequence: int
    context_tokens: int
    linear: float
    experts: float
    attention: float
    communication: float

    @property
    def tokens(self) -> int:
        return self.batch * self.tokens_per_sequence


def _unique(rows: Iterable[OperatorRow], key: Callable[[OperatorRow], object]) -> list[OperatorRow]:
    """One row a key: an operator does not depend on everything, and repeats would weigh double."""
    return list({key(row): row for row in rows}.values())


def _column(rows: Sequence[OperatorRow], name: str) -> FloatArray:
    return np.array([getattr(row, name) for row in rows], dtype=float)


def _stacked_linears(rows: Sequence[OperatorRow]) -> tuple[FloatArray, ...]:
    """(count, outputs, inputs, quantised) of every linear layer, one line a row."""
    layers = [shard(row.model, row.tensor_parallel).linears for row in rows]
    width = max(len(line) for line in layers)
    stacked = np.zeros((4, len(rows), width))
    stacked[1:3] = 1.0
    for i, line in enumerate(layers):
        for j, linear in enumerate(line):
            quantised = linear.part not in (None, "head")
            stacked[:, i, j] = (linear.count, linear.outputs, linear.inputs, quantised)
    return tuple(stacked)


def _rates(gpu: Gpu, dtype: str, c: Coefficients) -> Rates:
    plain = dtype == "bf16"
    return Rates(gpu.bandwidth, gpu.peak(dtype), c, 2.0 if plain else 1.0, quantised=not plain)


def _fit_linears(
    rows: Sequence[OperatorRow], gpu: Gpu, start: Coefficients, bf16: Coefficients | None
) -> Coefficients:
    """Linear layers; with `bf16` given, `start` is for fp8 and the head is timed with `bf16`."""
    chosen = _unique(rows, lambda r: (r.model.name, r.tensor_parallel, r.tokens))
    count, outputs, inputs, quantised = _stacked_linears(chosen)
    tokens = _column(chosen, "tokens")[:, None]

    def each(c: Coefficients, dtype: str) -> FloatArray:
        read, extra = linear_seconds(outputs, inputs, tokens, _rates(gpu, dtype, c))
        total: FloatArray = read + extra + c.linear_launch_us * MICRO
        return total

    head = each(bf16, "bf16") if bf16 is not None else None

    def predict(c: Coefficients) -> FloatArray:
        if head is None:
            return np.asarray((count * each(c, "bf16")).sum(axis=1))
        return np.asarray((count * np.where(quantised > 0, each(c, "fp8"), head)).sum(axis=1))

    names = LINEAR if bf16 is None else LINEAR + FP8
    return minimise(start, names, predict, _column(chosen, "linear"))


def _fit_attention(rows: Sequence[OperatorRow], gpu: Gpu, start: Coefficients) -> Coefficients:
    chosen = _unique(rows, lambda r: (r.model.name, r.tensor_parallel, r.batch, r.context_tokens))
    shards = [shard(row.model, row.tensor_parallel) for row in chosen]
    if any(len(s.attention) != 1 for s in shards):
        raise InputError("rows must be of models with one kind of attention layer")
    layers = np.array([s.attention[0].count for s in shards], dtype=float)
    context = _column(chosen, "context_tokens")
    share = np.array([s.attention[0].kv_elements(np.asarray(1.0)) for s in shards])
    size = 2.0 * _column(chosen, "batch") * context * share

    def predict(c: Coefficients) -> FloatArray:
        read, _ = attention_seconds(size, 0.0, context, _rates(gpu, "bf16", c))
        return np.asarray(layers * (read + c.attention_launch_us * MICRO))

    measured = _column(chosen, "attention")
    # The size of the cache is a corner in the curve: start on both sides of it.
    starts = [replace(start, cached_mib=size) for size in (20.0, 35.0, 60.0)]
    found = [minimise(s, ATTENTION, predict, measured) for s in starts]
    return min(found, key=lambda c: float(np.abs(np.log(predict(c) / measured)).mean()))


def _fit_link(rows: Sequence[OperatorRow], gpu: Gpu, start: Coefficients) -> Coefficients:
    dense = [row for row in rows if row.tensor_parallel > 1 and not row.model.is_moe]
    chosen = _unique(dense, lambda r: (r.model.name, r.tensor_parallel, r.tokens))
    if not chosen:
        return start
    gpus = _column(chosen, "tensor_parallel")
    counts = [shard(row.model, row.tensor_parallel).all_reduces for row in chosen]
    size = 2.0 * _column(chosen, "tokens") * np.array([row.model.hidden for row in chosen])

    def predict(c: Coefficients) -> FloatArray:
        return np.array(counts) * all_reduce_seconds(size, gpus, gpu.interconnect, c)

    return minimise(start, LINK, predict, _column(chosen, "communication"))


def fit_arithmetic(
    rows: Sequence[OperatorRow],
    gpu: Gpu,
    weights_in: Format,
    bf16: Coefficients | None = None,
) -> Coefficients:
    """Coefficients of `gpu` for weights in `weights_in` ("bf16", or "fp8" given those of bf16).

    Attention and all-reduces do not depend on the weights: they are fitted with bf16 and kept.
    """
    own = [row for row in rows if row.weights_in == weights_in]
    dense = [row for row in own if not row.model.is_moe]
    if len(dense) < len(LINEAR + FP8):
        raise InputError(f"rows must hold at least {len(LINEAR + FP8)} of dense models, got fewer")
    start = assumed(weights_in)
    if weights_in == "bf16":
        c = _fit_linears(dense, gpu, start, None)
        return _fit_link(own, gpu, _fit_attention(own, gpu, c))
    shared = {name: getattr(bf16, name) for name in ATTENTION + LATENT + LINK}
    return _fit_linears(dense, gpu, replace(start, **shared), bf16)


def fitted_names(gpu: str, kernels: Format) -> tuple[str, ...]:
    """The coefficients that the rows and tables of a GPU determine; others stay as they were."""
    experts = EXPERTS if measured_kernels(gpu, kernels) else ()
    if kernels == "bf16":
        latent = LATENT if gpu in latents() else ()
        return LINEAR + ATTENTION + latent + LINK + experts
    timed = kernels == "fp8" or (gpu, kernels) in products()
    return (LINEAR + FP8 if timed else ()) + experts


def fit_gpu(
    rows: Sequence[OperatorRow], gpu: Gpu, without: tuple[int, ...] = ()
) -> dict[Format, Coefficients]:
    """Coefficients by format from all rows of one GPU, and from what was measured of its kernels
    but for the experts of the shape `without`."""
    plain = fit_arithmetic(rows, gpu, "bf16")
    if gpu.name in latents():
        plain = fit_latents(latents()[gpu.name], gpu, plain)
    found: dict[Format, Coefficients] = {"bf16": plain}
    if any(row.weights_in == "fp8" for row in rows):
        found["fp8"] = fit_arithmetic(rows, gpu, "fp8", found["bf16"])
    for kernels in FORMATS:
        like = (
            found.get("fp8", found["bf16"]) if kernels in ("fp8_block", "nvfp4") else found["bf16"]
        )
        c = found.get(kernels, like)
        timed = products().get((gpu.name, kernels))
        if timed:
            c = fit_products(timed, gpu, kernels, c)
        if measured_kernels(gpu.name, kernels):
            c = replace(c, **expert_values(gpu.name, kernels, without))
            found[kernels] = c
    return found


# ── the table ────────────────────────────────────────────────────────────────────────────────────


GpuFit = Mapping[Format, Coefficients]

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
Known = Callable[[str, Format, tuple[int, ...]], ExpertKernels | None]
"""What may be known of a GPU's kernels in a format when the experts of one shape are predicted."""


@lru_cache(maxsize=64)
def own_shape_left_out(gpu: str, kernels: Format, shape: tuple[int, ...]) -> ExpertKernels | None:
    """Everything but the shape that is predicted."""
    known = measured_kernels(gpu, kernels)
    return known and known.without(shape)


def nothing_known(gpu: str, kernels: Format, shape: tuple[int, ...]) -> None:
    """A GPU whose kernels were not measured."""


@dataclass(frozen=True)
class HeldOut(Placement):
    """A placement whose experts are predicted from `known` alone."""

    known: Known = nothing_known

    def expert_curve(self, layer: ExpertShard) -> ExpertCurve:
        kernels, rates = self.expert_kernels
        known = self.known(self.device.name, kernels, shape_of(layer))
        return make_curve(layer, rates, known, known.log_miss(rates) if known else None)


def predict(
    rows: Sequence[ReferenceRow],
    coefficients: Chosen | None = None,
    known: Known = own_shape_left_out,
) -> FloatArray:
    """Predicted seconds of `rows`: as stored, or with the coefficients that `coefficients(row)`
    gives and only what is `known` of experts."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.group[:4], []).append(i)
    result = np.empty(len(rows))
    for indices in groups.values():
        first = rows[indices[0]]
        o = first.operators
        place = Placement(o.model, first.gpu, o.tensor_parallel, o.weights_in)
        if coefficients:
            own = coefficients(first)
            place = HeldOut(**{**vars(place), "coefficients": own, "known": known})
        members = [rows[i].operators for i in indices]
        step = place.step(
            [o.batch for o in members],
            [o.tokens_per_sequence for o in members],
            [o.context_tokens for o in members],
        )
        result[indices] = step.total
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
    shape: tuple[int, ...] = ()
    for row in rows:
        model = row.operators.model
        if model.name != without:
            by_gpu.setdefault(row.gpu, []).append(row.operators)
        elif model.is_moe:
            shape = shape_of(shard(model, 1).experts[0])
    return {gpu: fit_gpu(own, hardware.find(gpu), shape) for gpu, own in by_gpu.items()}


def fit_without_each_model(rows: Sequence[ReferenceRow]) -> Chosen:
    """Fits with one whole model held out at a time: a row gets the fit that never saw its model."""
    names = {row.operators.model.name for row in rows}
    fits = {name: fit_each_gpu(rows, without=name) for name in names}
    return lambda row: fits[row.operators.model.name][row.gpu]


def median_fit(fits: Mapping[str, GpuFit], without: str = "") -> GpuFit:
    """The middle value of each coefficient over the GPUs but for `without`: what an unknown GPU is
    given. A coefficient that no GPU determines is taken from the format that it is like, or is
    assumed."""
    result: dict[Format, Coefficients] = {}
    for kernels in FORMATS:
        like = "bf16" if kernels in ("fp8", "mxfp4", "int4") else "fp8"
        base = {} if kernels == "bf16" else vars(result[like])
        values = vars(assumed(kernels)) | base
        for name, others in _fitted_values(fits, kernels, without).items():
            values[name] = statistics.median(others)
        result[kernels] = Coefficients(**values)
    return result


def _fitted_values(
    fits: Mapping[str, GpuFit], kernels: Format, without: str = ""
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for gpu, fit in fits.items():
        if gpu != without and kernels in fit:
            for name in fitted_names(gpu, kernels):
                found.setdefault(name, []).append(getattr(fit[kernels], name))
    return found


# ── the stored values ────────────────────────────────────────────────────────────────────────────


def step_errors(
    rows: Sequence[ReferenceRow], choose: Chosen, known: Known = own_shape_left_out
) -> dict[str, Any]:
    """Errors of held-out predictions on `rows`."""
    found: dict[str, Any] = {}
    for key, moe in (("step_error", False), ("moe_step_error", True)):
        own = [row for row in rows if row.operators.model.is_moe == moe]
        if own:
            found[key] = round(score(own, predict(own, choose, known)).step_error, 4)
    return found | {"rows": len(rows)}


def kernel_errors(gpu: str, kernels: Format, c: Coefficients) -> dict[str, float]:
    """Errors of single kernels: of products where no step was composed, of experts held out."""
    found: dict[str, float] = {}
    timed = products().get((gpu, kernels))
    if timed:
        found["step_error"] = round(product_error(timed, hardware.find(gpu), kernels, c), 4)
    if kernels == "bf16" and gpu in latents():
        found["latent_error"] = round(latent_error(latents()[gpu], hardware.find(gpu), c), 4)
    if measured_kernels(gpu, kernels):
        found["expert_error"] = round(held_out_experts(gpu, kernels), 4)
    return found


def _values(c: Coefficients, names: Iterable[str]) -> dict[str, float]:
    return {name: round(getattr(c, name), 4) for name in names}


def main() -> None:
    rows = [row for row in read_reference(TABLE) if not row.excluded]
    full = fit_each_gpu(rows)
    others = {gpu: median_fit(full, without=gpu) for gpu in full}
    held_out = fit_without_each_model(rows)
    general = median_fit(full)

    out: dict[str, Any] = {
        "source": SOURCE,
        "median": "the median of the calibrated GPUs",
        "general": {},
        "gpu": {gpu: {} for gpu in sorted(full)},
    }
    for kernels, c in general.items():
        own = [row for row in rows if row.operators.weights_in == kernels]
        errors = step_errors(own, lambda row: others[row.gpu], nothing_known) if own else {}
        names = _fitted_values(full, kernels)
        out["general"][kernels] = errors | {"values": _values(c, names)}
        for gpu, sections in out["gpu"].items():
            if kernels not in full[gpu]:
                continue
            mine = [row for row in own if row.gpu == gpu]
            found = kernel_errors(gpu, kernels, full[gpu][kernels])
            found |= step_errors(mine, held_out) if mine else {}
            values = _values(full[gpu][kernels], fitted_names(gpu, kernels))
            sections[kernels] = found | {"values": values}
    sys.stdout.write(HEAD + tomli_w.dumps(out))


if __name__ == "__main__":
    main()
