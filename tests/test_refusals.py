"""Ordinary scenarios are answered: what a served pair may be refused for, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from helpers.command_line import Capture, run
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath import hardware, models
from specmath.checks import InputError
from specmath.drafters import kinds
from specmath.load import load_study
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.words.verdict import verdict

REASONS = (
    r"does not fit on .* (fits|needed)$",  # weights larger than the memory, and what would do
    r"tensor_parallel must (divide|be)",
    r"gamma must be <= \d+, what Medusa heads can draft",
    r"target must have a multi-token-prediction module",
)
"""All that a served pair may be refused for."""


@st.composite
def served(draw: Any) -> dict[str, Any]:
    """A pair on a GPU of the catalogue as anyone may ask for it."""
    drafts = [kind for kind, record in kinds().items() if not record.needs_model]
    return {
        "gpu": draw(st.sampled_from(sorted(hardware.catalogue()))),
        "model": draw(st.sampled_from(sorted(models.catalogue()))),
        "draft": draw(st.sampled_from([*drafts, "Llama-3.2-1B", "Qwen3-0.6B"])),
        "tensor_parallel": draw(st.sampled_from([1, 2, 4, 8])),
        "weight_dtype": draw(st.sampled_from(["native", "bf16", "fp8", "int8", "int4"])),
        "kv_dtype": draw(st.sampled_from(["bf16", "fp8"])),
        "batch": draw(st.integers(1, 200)),
        "context_tokens": draw(st.integers(1, 100_000)),
        "alpha": draw(st.floats(0, 1)),
        "gamma": draw(st.integers(0, 8)),
    }


@settings(max_examples=200, deadline=None)
@given(served())
def test_a_served_pair_is_refused_only_in_plain_words_for_what_cannot_run(
    values: dict[str, Any],
) -> None:
    fault = ""
    try:
        p = predict(Scenario(**values))
    except InputError as refused:
        fault = str(refused)
    if fault:
        assert any(re.search(reason, fault) for reason in REASONS), fault
        return
    assert p.curve.step_cost[0] == p.curve.walltime_improvement[0] == 1.0
    assert verdict(p).headline


@pytest.mark.parametrize("draft", ["eagle3", "ngram", "Llama-3.2-1B"])
@pytest.mark.parametrize("gpu", ["H200 SXM", "L40S"])
def test_no_batch_empties_the_study(gpu: str, draft: str) -> None:
    """One unlucky rounding among the batches once took the whole page with it."""
    s = Scenario(alpha=0.7, gamma=4, gpu=gpu, model="Llama-3.1-8B", draft=draft, batch=32)
    study = load_study(resolve(s))
    assert np.all(study.speedup[:, :, 0] == 1.0)
    assert np.all(np.isfinite(study.speedup))


@pytest.mark.parametrize("command", ["predict", "gamma", "batch", "sweep"])
def test_every_command_answers_the_batch_whose_quotient_is_not_1(
    command: str, capsys: Capture
) -> None:
    """Llama-3.1-8B with EAGLE-3 on an H200 at batch 32: v(0) came out as 1 − 2⁻⁵²."""
    options = "--alpha 0.7 --gamma 4 --gpu h200 --model Llama-3.1-8B --draft eagle3 --batch 32"
    more = ["--over", "batch=31,32,33"] if command == "sweep" else []
    assert run(capsys, command, *options.split(), *more)
