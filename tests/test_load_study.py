"""The study over batch and context: single records, memory, money; the table over batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specmath import models
from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.drafters import SeparateModel
from specmath.load import BATCHES, CONTEXTS, LoadStudy, load_study
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.serving import ServedPair
from specmath.serving.memory import Memory
from specmath.steptime import Placement
from specmath.tables import batch_table

MOE: dict[str, Any] = {"model": "Qwen3-30B-A3B", "draft": "Qwen3-0.6B"}


def study_of(s: Scenario) -> LoadStudy:
    return load_study(resolve(s))


BASE = {"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, "batch": 24, "decode_only": "yes"}


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{**BASE, **changes})


STUDY = study_of(scenario())


def test_the_cliff_of_the_issue() -> None:
    """8B, 1B draft, H100, 1k, α=0.8, γ=4: "about 1.6x at batch 64, about 1.1x at 256". Known miss:
    1.50 and 1.15 without an engine's host; it falls as it should, and to about 1 on vLLM."""
    bare = study_of(scenario(engine="none"))
    at = dict(zip(bare.batches.tolist(), bare.at_gamma[:, bare.own], strict=True))
    assert at[64] == pytest.approx(1.6, rel=0.09)
    assert at[256] == pytest.approx(1.1, rel=0.06)
    assert at[512] < at[256] < at[128] < at[64] < at[16]
    vllm = dict(zip(STUDY.batches.tolist(), STUDY.at_gamma[:, STUDY.own], strict=True))
    assert vllm[256] == pytest.approx(1.0, abs=0.08)
    assert vllm[256] < vllm[64] < at[64]


@pytest.mark.parametrize("draft", ["Llama-3.2-1B", "eagle3", "ngram"])
def test_each_cell_is_a_prediction_of_its_own(draft: str) -> None:
    s = scenario(draft=draft, max_gamma=6)
    study = study_of(s)
    limit = Memory.of(study.served).largest_batch(1024, 4)
    assert study.batches.tolist() == sorted({*BATCHES, 24, limit})
    assert study.fits[study.batches.tolist().index(limit), study.own]
    assert study.contexts.tolist() == sorted(CONTEXTS)
    for i, j in ((0, 0), (5, 1), (len(study.batches) - 1, 2)):
        at = {"batch": int(study.batches[i]), "context_tokens": int(study.contexts[j])}
        served = replace(study.served, **at)
        for gamma in range(7):
            tokens = served.accepts(IidAcceptance(0.8)).tokens_per_step(gamma)
            expected = float(tokens) / float(served.total(gamma))
            assert study.speedup[i, j, gamma] == pytest.approx(expected)


def test_the_own_point_is_the_prediction() -> None:
    p = predict(scenario())
    row = int(np.flatnonzero(STUDY.batches == 24)[0])
    assert STUDY.at_gamma[row, STUDY.own] == pytest.approx(p.speedup.value)
    assert STUDY.plain_seconds[row] == pytest.approx(p.tpot_plain and p.tpot_plain.value)
    assert STUDY.recommended_gamma[row, STUDY.own] == p.recommended_gamma


def test_operators_add_up_to_the_step() -> None:
    plain = sum(STUDY.plain_operators.values())
    step = sum(STUDY.speculative_operators.values())
    tokens = (1 - 0.8**5) / 0.2
    np.testing.assert_allclose(plain, STUDY.plain_seconds)
    np.testing.assert_allclose(tokens * plain / step, STUDY.at_gamma[:, STUDY.own])


def test_what_fits_is_what_memory_says() -> None:
    """Largest batch by hand at 1k: 90% of the H100 less both models' weights and activations, over
    the caches of 1,024 + 5 tokens in blocks of 16 and the logits of 5 positions."""
    memory = Memory.of(STUDY.served)
    one = 1040 * (131_072 + 32_768) + 5 * 128_256 * 4
    free = memory.usable - memory.weights - memory.draft_weights - memory.activations
    assert STUDY.tax
    assert STUDY.tax.speculative_batch == int(free // one) == 333
    for j, context in enumerate(STUDY.contexts):
        limit = memory.largest_batch(int(context), 4)
        assert STUDY.fits[:, j].tolist() == (STUDY.batches <= limit).tolist()
    assert not STUDY.fits[-1].any()
    assert STUDY.fits[0].all()


def test_a_context_that_does_not_fit_has_no_batch() -> None:
    """Llama-70B on two H100 leaves room for 1k, none for 32k."""
    s = scenario(model="Llama-3.1-70B", draft="eagle", tensor_parallel=2)
    study = study_of(s)
    assert study.fits[0, 0]
    assert not study.fits[:, 2].any()


def test_the_memory_tax_by_two_studies_of_their_own() -> None:
    """Tokens/s at each largest batch: B / plain step without, B τ / step with the draft."""
    tax = STUDY.tax
    assert tax
    assert tax.sequences == tax.plain_batch - tax.speculative_batch > 0
    plain = replace(STUDY.served, batch=tax.plain_batch)
    spec = replace(STUDY.served, batch=tax.speculative_batch)
    assert tax.plain_tokens_per_second == pytest.approx(tax.plain_batch / plain.plain_seconds)
    tokens = (1 - 0.8**5) / 0.2
    assert tax.speculative_tokens_per_second == pytest.approx(
        tax.speculative_batch * tokens / float(spec.seconds(4))
    )


def test_a_mixture_pays_least_at_small_batch() -> None:
    """Verifying touches more experts: with the batch they are touched anyhow and the speedup rises,
    until arithmetic takes it (the MoE penalty)."""
    study = study_of(scenario(alpha=0.7, **MOE))
    speeds = dict(zip(study.batches.tolist(), study.at_gamma[:, study.own], strict=True))
    assert speeds[1] < speeds[4]
    assert speeds[4] < speeds[16] < speeds[32]
    assert speeds[512] < 1


def test_gamma_beyond_the_heads_is_not_studied() -> None:
    study = study_of(scenario(draft="medusa", gamma=5))
    assert study.speedup.shape[2] == 6
    assert study.gamma == 5


@pytest.mark.parametrize(
    "changes",
    [
        {}, MOE, {"draft": "ngram", "usd_per_hour": None}, {"decode_only": "no"},
        {"decode_only": "no", "prompt_tokens": 4000, "output_tokens": 500},
        {"engine": "mlx"}, {"draft": "eagle3", "tree": "5:4:15", "gamma": None},
        {"kv_dtype": "fp8", "gpu": "A100 SXM 80GB"}, {"drafted_per_step": 2},
        {"model": "DeepSeek-V3", "draft": "mtp", "gpu": "B200 SXM", "tensor_parallel": 8},
    ],
)  # fmt: skip
def test_table_over_batch(changes: dict[str, Any]) -> None:
    """Each row by a prediction at that batch."""
    s = scenario(**changes)
    limit = Memory.of(study_of(s).served).largest_batch(s.context, s.gamma or 0)
    for row in batch_table(predict(s)).rows():
        p = predict(s.model_copy(update={"batch": row["batch"]}))
        assert row["fits_memory"] == ("yes" if p.scenario.batch <= limit else "no")
        # One γ: the table's is that of the verdict at that batch.
        assert row["recommended_gamma"] == p.recommended_gamma
        assert row["recommended_speedup"] == pytest.approx(
            p.curve.walltime_improvement[p.recommended_gamma]
        )
        assert p.tpot
        assert p.tpot_plain
        assert row["walltime_improvement"] == pytest.approx(p.speedup.value)
        if row["batch"] > 1 or p.scenario.prompt_tokens is not None:
            assert row["walltime_improvement_low"] == pytest.approx(p.speedup.low)
            assert row["walltime_improvement_high"] == pytest.approx(p.speedup.high)
        assert p.endpoint.plain
        assert row["plain_step_ms"] == pytest.approx(p.endpoint.plain.value * 1e3)
        assert row["tokens_per_second"] == pytest.approx(row["batch"] / p.tpot.value)
        if p.usd:
            assert row["usd_per_million_tokens"] == pytest.approx(p.usd.value)
            assert row["usd_per_million_tokens_plain"] == pytest.approx(
                p.usd_plain and p.usd_plain.value
            )


def test_a_mixed_acceptance_and_a_given_one() -> None:
    rates = scenario(alpha=None, rates=(0.8, 0.6, 0.4))
    study = study_of(rates)
    place = Placement(models.find("Llama-3.1-8B"), "H100 SXM")
    pair = ServedPair(place, SeparateModel(models.find("Llama-3.2-1B")), 8, 1024)
    row = int(np.flatnonzero(study.batches == 8)[0])
    assert study.speedup[row, study.own, 3] == pytest.approx(2.8 / float(pair.total(3)))


@pytest.mark.parametrize("times", [0.8, 1.5])
def test_a_plain_time_counts_in_the_study_too(times: float) -> None:
    """At its own batch what the prediction says; elsewhere the same seconds a step besides."""
    load = {"decode_only": "no", "prompt_tokens": 1000, "engine": "vllm"}
    before = predict(scenario(**load)).tpot_plain
    assert before
    s = scenario(**load, target_ms=before.value * 1e3 * times)
    p, study = predict(s), study_of(s)
    row = int(np.flatnonzero(study.batches == 24)[0])
    assert study.at_gamma[row, study.own] == pytest.approx(p.speedup.value)
    assert study.tpot_plain[row, study.own] == pytest.approx(before.value * times)
    assert study.low[row, study.own, 4] == pytest.approx(p.speedup.low)
    assert study.high[row, study.own, 4] == pytest.approx(p.speedup.high)
    free = study_of(scenario(**load))
    more = study.plain_seconds - free.plain_seconds
    if times > 1:
        np.testing.assert_allclose(more, more[0])
    else:
        ratio = study.plain_seconds / free.plain_seconds
        np.testing.assert_allclose(ratio, 0.8)
        np.testing.assert_allclose(study.speedup, free.speedup)


@pytest.mark.parametrize("more", [{}, {"target_ms": 14.0}, {"engine": "other"}])
@pytest.mark.parametrize("times", [0.9, 1.3])
def test_a_run_counts_in_the_study_too(more: dict[str, Any], times: float) -> None:
    """At its own batch what the prediction says; elsewhere the same overhead in plain steps, or,
    where the step was cheaper than expected, the same share of what it exceeds a plain one by."""
    load = {"decode_only": "no", "prompt_tokens": 1000, "engine": "vllm", **more}
    free = predict(scenario(**load))
    assert free.tpot is not None
    ran = {"run_gamma": 4, "run_ms": free.tpot.value * 1e3 * times}
    p, study = predict(scenario(**load, **ran)), study_of(scenario(**load, **ran))
    row = int(np.flatnonzero(study.batches == 24)[0])
    found = [each[row, study.own] for each in (study.speedup, study.low, study.high)]
    assert [each[4] for each in found] == pytest.approx(
        [p.speedup.value, p.speedup.low, p.speedup.high]
    )
    before = study_of(scenario(**load))
    if times > 1:
        moved = study.cost[..., 1:] - before.cost[..., 1:]
    else:
        moved = (study.cost[..., 1:] - 1) / (before.cost[..., 1:] - 1)
    np.testing.assert_allclose(moved, moved[0, 0, 0])
    assert study.recommended_gamma.max() == 0 or not np.array_equal(study.cost, before.cost)


def test_a_run_of_one_request_counts_where_others_prompts_are_open() -> None:
    """Alone nobody's prompt is waited for; at larger batches its length is open."""
    alone = {"decode_only": "no", "batch": 1, "prompt_tokens": None}
    free = predict(scenario(**alone))
    assert free.tpot is not None
    ran = scenario(**alone, run_gamma=4, run_ms=free.tpot.value * 1.2e3)
    study, p = study_of(ran), predict(ran)
    row = int(np.flatnonzero(study.batches == 1)[0])
    assert study.at_gamma[row, study.own] == pytest.approx(p.speedup.value)
    assert study.low[-1, study.own, 4] < study.high[-1, study.own, 4]


def test_no_hardware_no_study() -> None:
    with pytest.raises(InputError, match="need gpu, model and draft"):
        study_of(EXAMPLE)


def test_a_run_of_one_request_moves_every_batch() -> None:
    """Alone it waits for no prompts; at other batches their length is open."""
    said = {
        "alpha": 0.78,
        "gamma": 3,
        **EXAMPLE_PAIR,
        "target_ms": 9,
        "run_gamma": 3,
        "run_ms": 6.5,
    }
    s = Scenario(**said)
    study, p = study_of(s), predict(s)
    assert study.at_gamma[0, study.own] == pytest.approx(p.speedup.value)
    assert np.all(study.at_gamma[1:, study.own] < p.speedup.value * 1.05)
