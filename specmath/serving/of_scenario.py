"""A scenario's hardware → the step cost of the served pair, with the error of the step times."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from specmath import hardware, models
from specmath.checks import InputError
from specmath.drafters import Drafter, SeparateModel, drafter, kinds
from specmath.models import Model
from specmath.scenario import Scenario
from specmath.serving import ServedStepCost
from specmath.serving.memory import Memory
from specmath.stepcost import TabulatedStepCost
from specmath.steptime.coefficients import calibration_basis
from specmath.steptime.shards import shard

__all__ = [
    "PLAIN_ERROR",
    "StepCostError",
    "known_biases",
    "model_of",
    "model_of_config",
    "off_by",
    "plain_error",
    "served_notes",
    "served_of",
    "step_cost_error",
    "step_time_note",
    "tabulated",
]

VERIFY_ERROR = {
    (True, False): 0.10,
    (True, True): 0.24,
    (False, False): 0.25,
    (False, True): 0.40,
}
"""(calibrated, mixture of experts) → error taken for v. Calibrated: the 95th percentile of the
verify ratio with the whole model held out (docs/steptime.md). Not calibrated: assumed; the worst
mean error of a step when a calibrated GPU was treated as unknown is 16%."""

PLAIN_ERROR = {
    (True, False): 0.20,
    (True, True): 0.43,
    (False, False): 0.35,
    (False, True): 0.55,
}
"""As VERIFY_ERROR, of a plain step in seconds: |computed / true − 1|. Calibrated: the 95th
percentile with the whole model held out (9%, 32%) and the 11% by which the reference itself may be
off. Not calibrated: assumed."""

DEARER_REST = 1.0
"""Drafting and overhead may cost up to this share more than computed: twice as much was measured
for EAGLE-3 on vLLM and for MagicDec's drafts (tests/test_hardware_form.py pins both)."""

NEEDS_A_MODEL = ("separate", "parallel_model")


@lru_cache(maxsize=256)
def model_of(text: str) -> Model:
    """A catalogue name or the text of a config.json; never a path: links carry this text.

    Raises InputError with the nearest names, or with what the config lacks.
    """
    if not text.lstrip().startswith("{"):
        return models.find(text)
    return model_of_config(text)


def model_of_config(text: str) -> Model:
    """The text of a config.json; InputError where it is no JSON object or lacks something."""
    try:
        config = json.loads(text)
    except RecursionError as error:
        raise InputError("config.json is not valid JSON: nested too deeply") from error
    except ValueError as error:  # its syntax, or an integer too long for Python
        raise InputError(f"config.json is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"config.json must be an object {{ … }}, got {text.strip()[:20]!r}")
    return models.from_config(config)


@lru_cache(maxsize=256)
def _drafter_of(text: str, tensor_parallel: int) -> Drafter:
    free = [kind for kind in kinds() if kind not in NEEDS_A_MODEL]
    if text in free:
        return drafter(text)
    if not text.lstrip().startswith("{") and difflib.get_close_matches(
        text.lower(), free, cutoff=0.7
    ):
        raise InputError(f"draft must be a model or one of {', '.join(free)}, got {text!r}")
    try:
        found = SeparateModel(model_of(text), tensor_parallel)
    except InputError as error:
        raise InputError(f"draft must be a model or one of {', '.join(free)}: {error}") from error
    try:
        shard(found.model, tensor_parallel)
    except InputError as error:
        raise InputError(f"draft_{error}") from error
    return found


@lru_cache(maxsize=256)
def _served(
    gpu: str, model: str, draft: str, batch: int, context: int, tensor_parallel: int,
    draft_tensor_parallel: int, weight_dtype: str | None, kv_dtype: str, engine: str,
    coverage: float | None,
) -> ServedStepCost:  # fmt: skip
    return ServedStepCost(
        target=model_of(model),
        drafter=_drafter_of(draft, draft_tensor_parallel),
        gpu=hardware.find(gpu),
        batch=batch,
        context_tokens=context,
        tensor_parallel=tensor_parallel,
        weight_dtype=weight_dtype,
        kv_dtype=kv_dtype,
        engine=engine,
        coverage=coverage,
    )


def served_of(scenario: Scenario, *, draft: str | None = None) -> ServedStepCost:
    """The served pair of a scenario in the hardware form; `draft` looks at another drafter.

    Raises InputError for an unknown model or drafter, a tensor_parallel that does not divide, a
    draft on more GPUs than the replica has, a dtype that the GPU lacks.
    """
    s = scenario
    if s.draft_form != "hardware":
        raise InputError(
            "step times need gpu, model and draft (draft_form=hardware), "
            f"got draft_form={s.draft_form}"
        )
    served = _served(
        str(s.gpu), str(s.model), str(draft or s.draft), s.batch, s.context_tokens,
        s.tensor_parallel, s.draft_tensor_parallel,
        None if s.weight_dtype == "native" else s.weight_dtype, s.kv_dtype, s.engine,
        s.coverage if draft in (None, s.draft) else None,
    )  # fmt: skip
    gpus = s.tensor_parallel + s.draft_gpus
    if isinstance(served.drafter, SeparateModel) and s.draft_tensor_parallel > gpus:
        raise InputError(
            f"draft_tensor_parallel must be <= tensor_parallel + draft_gpus = {gpus}, "
            f"got {s.draft_tensor_parallel}"
        )
    return served


@lru_cache(maxsize=256)
def tabulated(served: ServedStepCost, top: int) -> TabulatedStepCost:
    """Its step cost at γ = 0 … top (fewer where the drafter has fewer heads)."""
    # Only drafters with one head a token stop at some γ.
    gammas = np.arange(min(top, getattr(served.drafter, "heads", top)) + 1)
    return TabulatedStepCost(
        tuple(served.verify(gammas).tolist()),
        tuple(served.draft(gammas).tolist()),
        tuple(served.extra(gammas).tolist()),
        served.c,
        served.c_hat,
    )


def _calibration_key(served: ServedStepCost) -> tuple[bool, bool]:
    dtype = served.weight_dtype or served.target.weight_dtype
    return calibration_basis(served.gpu, dtype).calibrated, served.target.is_moe


def off_by(low: float, high: float, error: float) -> tuple[float, float]:
    """Where the true number may lie if |computed / true − 1| ≤ error < 1."""
    return low / (1 + error), high / (1 - error)


@dataclass(frozen=True)
class StepCostError:
    """Errors taken for a computed step: |computed / true − 1| of v up to `verify`; drafting and
    overhead are dearer by up to the share `rest`, or cheaper as v. Steps without any draft have
    none: they are plain steps."""

    verify: float
    rest: float

    def words(self) -> str:
        """The two, as they stand beside a prediction."""
        return (
            f"verification ±{self.verify:.0%}, drafting and overhead −{self.verify:.0%} to "
            f"+{self.rest:.0%}"
        )


def plain_error(served: ServedStepCost) -> float:
    """|computed / true − 1| taken for the seconds of a plain step; see PLAIN_ERROR."""
    return PLAIN_ERROR[_calibration_key(served)]


def step_cost_error(served: ServedStepCost) -> StepCostError:
    """What is taken for this pair; see VERIFY_ERROR and DEARER_REST."""
    drafts = 1.0 - (1.0 - served.share) ** served.batch
    return StepCostError(VERIFY_ERROR[_calibration_key(served)] * drafts, DEARER_REST * drafts)


@lru_cache(maxsize=256)
def largest_batch(served: ServedStepCost, gamma: int) -> int:
    """Sequences that fit beside both models at the served context; InputError where none does,
    saying by how much and what would fit."""
    return Memory.of(served).largest_batch(served.context_tokens, gamma)


def served_notes(served: ServedStepCost, gamma: int) -> list[str]:
    """What the reader must know of a served pair: memory, step times, overheads, coverage."""
    fits, gpu = largest_batch(served, gamma), hardware.find(served.gpu)
    notes = [
        *known_biases(served),
        step_time_note(served),
        "Drafting and overhead took up to twice the time computed where servers were measured "
        "(EAGLE-3 on vLLM, MagicDec): the interval allows for it. Measure yours to narrow it.",
        f"Engine overhead: {served.overheads.source}.",
    ]
    if served.batch > fits:
        notes.insert(
            0,
            f"Batch {served.batch:,} does not fit: memory holds {fits:,} sequences of "
            f"{served.context_tokens:,} tokens beside both models.",
        )
    if gpu.name.startswith(hardware.CUSTOM):
        notes.append(
            f"GPU of your own numbers: fp8 is taken as twice the bf16 rate, its interconnect as "
            f"{gpu.interconnect / 1e9:,.0f} GB/s ({gpu.interconnect_kind}), and until you give a "
            f"price {gpu.usd_per_hour:.2f} USD an hour."
        )
    if served.share < 1:
        notes.append(
            f"A draft is there in {served.share:.0%} of the steps; the acceptance given is taken "
            "as that of the steps with a draft."
        )
    own = (served.drafter.model,) if isinstance(served.drafter, SeparateModel) else ()
    for model in (served.target, *own):
        if model.max_context is not None and served.context_tokens > model.max_context:
            notes.insert(
                0,
                f"Context {served.context_tokens:,} is more than the {model.max_context:,} tokens "
                f"{model.name} is made for: what it drafts or writes there is not to be trusted.",
            )
    return notes + list(served.target.notes)


def known_biases(served: ServedStepCost) -> list[str]:
    """Misses of one sign that were measured for this kind of pair (docs/steptime.md)."""
    found = []
    if served.drafter.kind == "eagle3":
        found.append(
            "Expect less: with EAGLE-3 heads whole steps were 18–39% dearer than computed here "
            "(8B on an H100, batch 1, vLLM issue 20780), so a speedup 15–28% lower than the one "
            "in the middle."
        )
    latent = any(layer.attention.kind == "mla" for layer in served.target.layers)
    dtype = served.weight_dtype or served.target.weight_dtype
    if latent and served.target.is_moe and dtype == "fp8" and served.batch < 128:
        found.append(
            "Computed too fast: plain steps of a mixture with latent attention in fp8 "
            "(DeepSeek-V3 on 8 H200) took up to 39% less time here than in the reference at batch "
            "1, 23% in the mean, 2% at batch 128. Read times and prices as a sketch."
        )
    return found


def step_time_note(served: ServedStepCost) -> str:
    """Where the step times come from and how wrong they may be, in words."""
    basis = calibration_basis(served.gpu, served.weight_dtype or served.target.weight_dtype)
    mean = basis.expected_moe_error if served.target.is_moe else basis.expected_error
    error = "" if mean is None else f", mean error of a step {mean:.0%} with the model held out"
    return (
        f"Step times: computed, {basis.basis}{error}; the reference itself is 6–11% off "
        "independent measurements. Times and prices therefore take the plain step as off by up to "
        f"{plain_error(served):.0%}. Calibrate on your own steps to replace it."
    )
