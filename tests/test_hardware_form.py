"""A scenario in the hardware form: the halves from step_seconds, intervals, coverage, refusals."""

from __future__ import annotations

import csv
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmath import engines, hardware, models
from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.drafters import Eagle, Eagle3, SeparateModel, kinds
from specmath.drafters.host import catalogue, hosted
from specmath.drafts import evaluate, published_t5
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.endpoint import resolve, said_as
from specmath.scenario.files import (
    ScenarioError,
    build,
    from_link,
    from_toml,
    revised,
    to_link,
    to_toml,
)
from specmath.scenario.forms import EXAMPLE_PAIR, Hardware
from specmath.scenario.server import error_of, pair_of
from specmath.serving import ServedPair
from specmath.speculation import Speculation
from specmath.steptime import Placement, step_seconds
from specmath.tables import TABLES, alpha_gamma_table, drafters_table, gamma_table
from specmath.tables.prediction import regime_table
from specmath.words.notes import assumed, basis_words, notes
from specmath.words.verdict import verdict

DATA = Path(__file__).parent / "data"
LLAMA_8B, LLAMA_1B = models.find("Llama-3.1-8B"), models.find("Llama-3.2-1B")
PAIR: dict[str, Any] = {"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR}
NGRAM: dict[str, Any] = PAIR | {"draft": "ngram"}
BANDWIDTH, VOCAB = 3.35e12, 128256


def scenario(**changes: Any) -> Scenario:
    """Decode-only: the step alone, without other requests' prompts."""
    return build(PAIR | {"decode_only": "yes"} | changes)


# ── the halves, put together by hand from step_seconds ───────────────────────────────────────


@pytest.mark.parametrize(("batch", "context"), [(1, 1024), (32, 4096), (256, 700)])
def test_prediction_by_hand(batch: int, context: int) -> None:
    """v, d, h, c, the two times and the dollars, from forwards of both models and vLLM's host."""
    gamma, at = 4, {"batch": batch, "context_tokens": context}
    host = hosted(engines.named("vllm"), "separate")

    def target(positions: int) -> float:
        place = Placement(LLAMA_8B, "H100 SXM")
        parts = place.step(batch, positions, context)  # bf16 on one GPU: the launches alone differ
        forward = float(parts.total + (host.launch - 1) * parts.launch)
        whole = forward + host.host + batch * host.sequence
        return whole + batch * positions * VOCAB * 4 / BANDWIDTH

    one = float(step_seconds(LLAMA_1B, "H100 SXM", tokens_per_sequence=1, **at))
    one += batch * VOCAB * 4 / BANDWIDTH
    plain = target(1)
    step = target(gamma + 1) + gamma * (one + host.pass_) + host.step + batch * host.draft_sequence
    tokens = (1 - 0.8**5) / (1 - 0.8)

    s = scenario(batch=batch, context_tokens=context)
    p = predict(s)
    assert p.tpot_plain
    assert p.tpot_plain.value == pytest.approx(plain)
    assert p.speedup.value == pytest.approx(tokens * plain / step)
    assert p.tpot
    assert p.tpot.value == pytest.approx(step / tokens)
    assert p.usd
    assert p.usd.value == pytest.approx(2.95 / 3600 * step / tokens / batch * 1e6)
    cost = p.speculation.cost
    assert float(cost.verify(gamma)) == pytest.approx(target(gamma + 1) / plain)
    assert float(cost.draft(gamma)) == pytest.approx(gamma * (one + host.pass_) / plain)
    assert float(cost.extra(gamma)) == pytest.approx(
        (host.step + batch * host.draft_sequence) / plain
    )
    assert cost.c == pytest.approx(
        one / float(step_seconds(LLAMA_8B, "H100 SXM", tokens_per_sequence=1, **at))
    )
    assert cost.c_hat == LLAMA_1B.flops_per_token / LLAMA_8B.flops_per_token
    assert p.operations.value == pytest.approx((gamma * cost.c_hat + gamma + 1) / tokens)


def test_gamma_0_is_plain_decoding() -> None:
    p = predict(scenario(gamma=0))
    assert p.speedup.value == p.speedup.low == p.speedup.high == 1.0
    assert p.tpot
    assert p.tpot_plain
    assert p.tpot.value == p.tpot_plain.value
    assert p.usd
    assert p.usd_plain
    assert p.usd.value == p.usd_plain.value


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_dollars_count_every_gpu_of_the_replica(gpus: int) -> None:
    p = predict(scenario(tensor_parallel=gpus, draft_gpus=1, batch=8, usd_per_hour=3))
    assert p.usd
    assert p.tpot
    assert p.tpot_plain
    assert p.usd_plain
    assert p.usd_plain.value == pytest.approx(gpus * 3 / 3600 * p.tpot_plain.value / 8 * 1e6)
    assert p.usd.value == pytest.approx((gpus + 1) * 3 / 3600 * p.tpot.value / 8 * 1e6)


def test_the_same_draft_as_target_never_pays() -> None:
    """c ≈ 1: γ+1 passes of the target a step for at most γ+1 tokens."""
    p = predict(scenario(draft="Llama-3.1-8B", alpha=1.0, engine="none"))
    assert p.speculation.cost.c == pytest.approx(1.0, rel=0.01)
    assert np.all(p.curve.walltime_improvement[1:] < 1)


def test_more_load_less_speed_but_cheaper_tokens() -> None:
    found = [predict(scenario(batch=b)) for b in (16, 32, 64, 128, 256)]
    speedups = [p.speedup.value for p in found]
    assert speedups == sorted(speedups, reverse=True)
    dollars = [p.usd.value for p in found if p.usd]
    assert dollars == sorted(dollars, reverse=True)


# ── the interval, and how honest it is ───────────────────────────────────────────────────────


def test_interval_holds_80_of_100_draws_of_what_each_part_may_be_off_by() -> None:
    """What speculation adds to a step, and the plain step, each off within its range in 80 of 100
    cases and independent: an own Monte Carlo of lognormals with those quantiles gives the same
    ends, but for the 1 to 2.5% that 256 draws leave of a quantile."""
    p = predict(scenario(batch=32))
    error, step = error_of(pair_of(p.scenario)), p.step_cost
    random, z80 = np.random.default_rng(3), 1.2815515655446004

    def factor(low: float, high: float) -> np.ndarray:
        z = random.standard_normal(400_000) / z80
        return np.exp(np.where(z < 0, -np.log(low) * z, np.log(high) * z))

    speedups = p.tokens_per_step / (1 + factor(*error.excess) * (step - 1))
    assert (p.speedup.low, p.speedup.high) == pytest.approx(
        tuple(np.quantile(speedups, (0.1, 0.9))), rel=0.02
    )
    low, high = error.excess
    words = f"what speculation adds to a step −{1 - low:.0%} to +{high - 1:.0%}"
    assert basis_words(p.speedup.basis) == words
    assert p.tpot
    assert p.tpot_plain
    plain = p.tpot_plain.value
    assert (p.tpot_plain.low, p.tpot_plain.high) == pytest.approx(
        (plain * error.plain[0], plain * error.plain[1]), rel=0.01
    )
    times = plain * factor(*error.plain) / speedups
    assert (p.tpot.low, p.tpot.high) == pytest.approx(
        tuple(np.quantile(times, (0.1, 0.9))), rel=0.025
    )
    # Narrower than the corners of the box, which would hold far more than 80%.
    assert p.tpot.high < plain * error.plain[1] / speedups.min()
    assert len(p.endpoint.corners) == 1


@pytest.mark.parametrize("draft", ["block", "ngram", "eagle3", "Llama-3.2-1B"])
def test_another_draft_cost_starts_from_what_drafting_takes(draft: str) -> None:
    """One pass for all γ, or host time at each: at its own c the table says what the page says; at
    the largest c of the verdict nothing is gained; memory-bound is never slower than computed."""
    p = predict(scenario(draft=draft, gamma=6, batch=4))
    cost, s = p.speculation.cost, p.scenario
    own = Speculation(p.speculation.acceptance, cost.with_draft_cost(cost.c))
    np.testing.assert_allclose(own.speedup(p.curve.gamma), p.curve.walltime_improvement, rtol=1e-12)
    _, largest, _ = p.speculation.breakeven(s.gamma or 0)
    assert largest is not None
    even = Speculation(p.speculation.acceptance, cost.with_draft_cost(largest))
    assert float(even.speedup(np.array(s.gamma))) == pytest.approx(1.0)
    speeds = next(c for c in regime_table(p).columns if c.name == "walltime_improvement").values
    assert speeds[0] >= speeds[1] == pytest.approx(p.speedup.value)


def test_what_is_known_less_has_a_wider_interval() -> None:
    """A GPU or format that was not calibrated, against the same model where it was."""
    moe = {"model": "Qwen3-30B-A3B", "draft": "Qwen3-0.6B", "tensor_parallel": 2}
    for changes in ({}, moe):
        known = error_of(pair_of(scenario(**changes)))
        for less in ({"gpu": "L40"}, {"weight_dtype": "int4", "gpu": "L40"}):
            wider = error_of(pair_of(scenario(**changes | less)))
            assert wider.excess[0] < known.excess[0] < 1 < known.excess[1] < wider.excess[1]
            assert wider.plain[0] < known.plain[0] < 1 < known.plain[1] < wider.plain[1]


def test_unknown_alpha_spans_both_ends() -> None:
    s = build({"alpha_low": 0.5, "alpha_high": 0.85, "gamma": 4, **EXAMPLE_PAIR})
    p = predict(s)
    worst, best = (predict(scenario(alpha=alpha)) for alpha in (0.5, 0.85))
    assert p.speedup.low == pytest.approx(worst.speedup.low)
    assert p.speedup.high == pytest.approx(best.speedup.high)
    assert [(u.field, u.level) for u in resolve(s).unknown] == [
        ("alpha", None), ("excess", 0.8),
    ]  # fmt: skip


def _reported() -> list[dict[str, str]]:
    lines = (DATA / "reported_step_costs.csv").read_text("utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _computed_over_reported() -> dict[str, list[float]]:
    """s reported / s computed where the thread names GPU and models (8B on an H100, batch 1; 70B
    on 8 H200, 4 requests, drafts of 3 taken)."""
    pair = ServedPair(Placement(LLAMA_8B, "H100 SXM"), Eagle(), 1, 1024)
    found: dict[str, list[float]] = {"EAGLE1": [], "EAGLE3": [], "70B": []}
    for row in _reported():
        s = float(row["implied_step_cost_ratio"])
        if row["source"] == "vllm#20780":
            kind = row["config"].split()[0]
            gamma = int(row["config"].split("K=")[1].split()[0])
            head = Eagle() if kind == "EAGLE1" else Eagle3()
            found[kind].append(s / float(replace(pair, drafter=head).total(gamma)))
        if row["config"].startswith("Llama3.3-70B EAGLE3"):
            place = Placement(models.find("Llama-3.3-70B"), "H200 SXM", 8)
            big = ServedPair(place, Eagle3(), 4, 1024)
            found["70B"].append(s / float(big.total(3)))
    return found


def test_step_costs_of_servers_lie_within_the_interval() -> None:
    """EAGLE is what the overheads were fitted to, EAGLE-3 of the same thread half of what its own
    were: up to 12% dearer than computed still. The 70B on TensorRT-LLM,
    which set nothing, is met to 1%. The interval allows for all."""
    found = _computed_over_reported()
    assert len(found["EAGLE1"]) == len(found["EAGLE3"]) == 6
    assert np.max(np.abs(np.array(found["EAGLE1"]) - 1)) < 0.02
    assert min(found["EAGLE3"]) == pytest.approx(1.02, abs=0.02)
    assert max(found["EAGLE3"]) == pytest.approx(1.11, abs=0.02)
    assert found["70B"] == [pytest.approx(1.0, abs=0.02)]
    for gamma, ratio in zip(range(2, 8), found["EAGLE3"], strict=True):
        cost = ServedPair(Placement(LLAMA_8B, "H100 SXM"), Eagle3(), 1, 1024)
        rest = float(cost.draft(gamma) + cost.extra(gamma))
        top = 1.1 * float(cost.verify(gamma)) + 2 * rest
        assert ratio * float(cost.total(gamma)) < top


def test_known_biases_stand_beside_the_prediction_with_their_size() -> None:
    """The sizes in the words are those of the drafters' data and of the reference."""
    set_by = catalogue()["eagle3", "vllm"]
    assert set_by.error
    told = " ".join(notes(predict(scenario(draft="eagle3"))))
    assert f"set by {set_by.rows} measured steps ({set_by.source})" in told
    assert f"{set_by.error[0]:.2g} to {set_by.error[1]:.2g} times those computed" in told
    for draft in ("dspark", "eagle3"):
        told = " ".join(notes(predict(scenario(draft=draft, engine="sglang"))))
        assert "besides its forwards was not measured; assumed as eagle3 on vllm" in told

    lines = (DATA / "unseen_models.csv").read_text("utf-8").splitlines()
    rows = [
        row
        for row in csv.DictReader(line for line in lines if not line.startswith("#"))
        if row["model"] == "DeepSeek-V3"
    ]
    misses: dict[int, list[float]] = {}
    for row in rows:
        at = {"batch": int(row["batch"]), "context_tokens": int(row["context"])}
        found = step_seconds(
            models.find("DeepSeek-V3"), row["gpu"], tokens_per_sequence=1,
            tensor_parallel=int(row["tp"]), weight_dtype=row["dtype"], **at,
        )  # fmt: skip
        miss = 1 - float(found) * 1e3 / float(row["step_ms"])
        misses.setdefault(at["batch"], []).append(miss)
    deepseek = {"model": "DeepSeek-V3", "gpu": "H200 SXM", "tensor_parallel": 8, "draft": "mtp"}
    told = " ".join(notes(predict(scenario(**deepseek))))
    every = [miss for each in misses.values() for miss in each]
    assert f"up to {max(misses[1]):.0%} less time" in told
    assert f"{np.mean(np.abs(every)):.0%} in the mean" in told
    assert f"{np.mean(np.abs(misses[128])):.0%} at batch 128" in told
    assert "latent attention" not in " ".join(notes(predict(scenario(**deepseek, batch=128))))


def test_magicdec_step_costs_are_met_in_the_middle() -> None:
    """Rows of arXiv 2408.11049 with a draft model, which reads a cache of 512 tokens: the printed
    (draft + verify) / plain is 1% (median) above the computed s, and set none of it. 12 of 17
    lie within 10%, all within 16%: an engine of its own, with batches of 8 to 128."""
    names = {
        "Llama2-7B-32K": "Llama-2-7B",
        "Llama3.1-8B": "Llama-3.1-8B",
        "Mistral-7B-v0.3": "Mistral-7B",
        "Qwen2.5-7B": "Qwen2.5-7B",
        "Qwen2.5-32B": "Qwen2.5-32B",
        "TinyLlama-1.1B": "TinyLlama-1.1B",
        "Llama3.2-1B(S)": "Llama-3.2-1B",
    }
    lines = (DATA / "magicdec.csv").read_text("utf-8").splitlines()
    ratios = []
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        if row["draft"] not in names:
            continue
        draft, tp = models.find(names[row["draft"]]), int(row["gpus"])
        served = ServedPair(
            Placement(models.find(names[row["target"]]), row["gpu"], tp),
            SeparateModel(draft, math.gcd(tp, draft.layers[0].attention.heads)),
            int(row["batch"]),
            int(row["context"]),
        )
        short, gamma = replace(served, context_tokens=512), int(row["gamma"])
        drafting = float(short.draft(gamma)) * short.plain_seconds / served.plain_seconds
        s = float(served.verify(gamma) + served.extra(gamma)) + drafting
        printed = (float(row["draft_ms"]) + float(row["verify_ms"])) / float(row["plain_ms"])
        ratios.append(printed / s)
    assert len(ratios) == 17
    assert np.median(ratios) == pytest.approx(1.0, abs=0.03)
    assert sum(abs(r - 1) < 0.10 for r in ratios) == pytest.approx(12, abs=2)
    assert max(abs(r - 1) for r in ratios) < 0.16


# ── coverage ─────────────────────────────────────────────────────────────────────────────────


def test_coverage_by_monte_carlo() -> None:
    """One sequence, κ = 0.35: each step has a draft or not; tokens, seconds and forwarded tokens
    counted over 200,000 steps give the speedup and the arithmetic. 4 sigma."""
    coverage, gamma, alpha = 0.35, 5, 0.7
    s = build(NGRAM | {"coverage": coverage, "gamma": gamma, "alpha": alpha})
    p, rng, steps = predict(s), np.random.default_rng(11), 200_000
    host, lookup = engines.named("vllm"), 1e-4

    def forward(positions: int) -> float:
        pure = step_seconds(
            LLAMA_8B, "H100 SXM", batch=1, tokens_per_sequence=positions, context_tokens=1024
        )
        return float(pure) + positions * VOCAB * 4 / BANDWIDTH + host.host

    drafted = rng.random(steps) < coverage
    kept = np.minimum(rng.geometric(1 - alpha, steps) - 1, gamma)
    tokens = 1 + np.where(drafted, kept, 0)
    seconds = lookup + np.where(drafted, forward(gamma + 1) + host.step, forward(1))
    work = 1 + gamma * drafted
    spread = tokens.std() / np.sqrt(steps) / tokens.mean() + seconds.std() / np.sqrt(
        steps
    ) / np.mean(seconds)
    speedup = tokens.sum() * forward(1) / seconds.sum()
    assert p.speedup.value == pytest.approx(speedup, rel=4 * spread)
    assert p.tokens_per_step == pytest.approx(tokens.mean(), rel=4 * spread)
    assert p.operations.value == pytest.approx(work.sum() / tokens.sum(), rel=6 * spread)


def test_no_draft_ever_is_plain_decoding_and_a_lookup() -> None:
    """κ = 0: one token a step, no extra arithmetic, no error; only the lookup is paid."""
    p = predict(build(NGRAM | {"coverage": 0}))
    assert p.tpot_plain
    assert p.tokens_per_step == 1
    assert p.speedup.value == pytest.approx(p.tpot_plain.value / (p.tpot_plain.value + 1e-4))
    assert p.operations.value == 1
    assert p.speedup.low == pytest.approx(p.speedup.high, abs=0.03), "only the lookup is open"
    assert verdict(p).action == "skip"


def test_half_the_arithmetic_where_half_the_steps_draft() -> None:
    p = predict(build(NGRAM))
    tokens = 0.5 * (1 - 0.8**5) / 0.2 + 0.5
    assert p.operations.value == pytest.approx((0.5 * 4 + 1) / tokens)
    assert p.alpha == pytest.approx(0.8), "of the steps with a draft, as it was given"
    assert "Coverage 0.5" in assumed(p)
    assert not any(word.startswith("Coverage") for word in assumed(predict(scenario())))


@pytest.mark.parametrize("coverage", [0.2, 0.5, 1.0])
def test_at_the_alpha_of_the_verdict_nothing_is_gained(coverage: float) -> None:
    """ "Faster while α ≥ x": at x the speedup is 1, coverage counted in τ as in the cost."""
    p = predict(build(NGRAM | {"coverage": coverage, "batch": 64}))
    (row,) = [
        r for r in drafters_table(p).rows() if str(r["draft"]).startswith("N-gram")
    ]  # fmt: skip
    at = predict(
        build(NGRAM | {"coverage": coverage, "batch": 64, "alpha": row["breakeven_alpha"]})
    )
    assert at.speedup.value == pytest.approx(1.0, abs=1e-9)
    heat = alpha_gamma_table(p)
    found = {(r["alpha"], r["gamma"]): r["walltime_improvement"] for r in heat.rows()}
    assert found[0.8, 4] == pytest.approx(p.speedup.value)


def test_another_form_of_acceptance_says_the_same_under_coverage() -> None:
    """Coverage is not counted twice when α is said as tokens per step."""
    s = build(NGRAM)
    for form in ("tokens_per_step", "accepted_per_step", "accepted_share", "survival"):
        said = build(
            NGRAM | {"alpha": None, "acceptance_form": form, **said_as(s, "acceptance_form", form)}
        )
        assert predict(said).speedup.value == pytest.approx(predict(s).speedup.value, rel=2e-3), (
            form
        )


# ── drafters ─────────────────────────────────────────────────────────────────────────────────


def test_medusa_ends_at_its_heads() -> None:
    s = scenario(draft="medusa", gamma=5)
    assert predict(s).curve.gamma.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(InputError, match=r"gamma must be <= 5, what Medusa heads can draft, got 6"):
        predict(scenario(draft="medusa", gamma=6))
    leave = verdict(predict(scenario(draft="medusa", alpha=0.02, batch=256)))
    assert leave.action == "skip"
    assert "No γ from 1 to 5" in leave.reason


@pytest.mark.parametrize(
    "draft", [k for k in kinds() if k not in ("separate", "parallel_model", "mtp")]
)
@pytest.mark.parametrize(("gamma", "max_gamma"), [(0, 1), (1, 1), (4, 16), (5, 2)])
def test_every_table_of_every_drafter(draft: str, gamma: int, max_gamma: int) -> None:
    """The tables agree with the prediction, whatever drafts."""
    said = {"gamma": gamma, "max_gamma": max_gamma, "demand_tokens_per_second": 1000}
    said["prompt_tokens"] = 1024
    p = predict(scenario(draft=draft, alpha=0.6, **said))
    assert len(verdict(p).sentence()) > 20
    for name, table in TABLES.items():
        assert len(table(p)) > 0, name
    rows = {r["gamma"]: r for r in gamma_table(p).rows()}
    assert rows[gamma]["walltime_improvement"] == pytest.approx(p.speedup.value)
    assert rows[gamma]["operations_increase"] == pytest.approx(p.operations.value)


def test_mtp_only_where_the_target_has_it() -> None:
    with pytest.raises(InputError, match="multi-token-prediction"):
        predict(scenario(draft="mtp"))
    deepseek = {"model": "DeepSeek-V3", "gpu": "B200 SXM", "tensor_parallel": 8, "draft": "mtp"}
    assert predict(scenario(**deepseek)).speedup.value > 1


def test_a_draft_on_more_gpus_than_there_are() -> None:
    """Its bill would count GPUs that nobody pays."""
    with pytest.raises(InputError, match=r"draft_tensor_parallel must be <= .* = 1, got 2"):
        predict(scenario(draft_tensor_parallel=2))
    assert predict(scenario(draft_tensor_parallel=2, draft_gpus=1))
    assert predict(scenario(draft_tensor_parallel=2, tensor_parallel=2))
    assert predict(scenario(draft="eagle", draft_tensor_parallel=2)), (
        "a head has no GPUs of its own"
    )


# ── refusals, each in one sentence ───────────────────────────────────────────────────────────

CONFIG = json.loads((DATA / "model_configs" / "meta-llama--Llama-3.2-1B.json").read_text("utf-8"))


def config(**changes: Any) -> str:
    return json.dumps({k: v for k, v in (CONFIG | changes).items() if v is not ...})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 0}, ["batch must be a whole number >= 1", "got 0"]),
        ({"context_tokens": 0}, ["context_tokens must be a whole number >= 1", "got 0"]),
        ({"gpu": "H1000"}, ["'H1000'", "nearest", "H100 SXM"]),
        ({"gpu": "L41"}, ["nearest", "L40"]),
        ({"model": "Llama-3.1-80B"}, ["nearest", "Llama-3.1-70B"]),
        ({"draft": "eagel"}, ["draft", "eagle, eagle3", "'eagel'"]),
        ({"draft": "Llama-3.2-1C"}, ["draft", "nearest: Llama-3.2-1B"]),
        ({"tensor_parallel": 3}, ["tensor_parallel must divide", "got 3"]),
        ({"tensor_parallel": 4, "draft_tensor_parallel": 3}, ["draft_tensor_parallel", "got 3"]),
        ({"gpu": "L4", "model": "Llama-3.1-70B"}, ["does not fit", "GiB", "parallel 8 fits"]),
        ({"model": "{}"}, ["config lacks hidden_size"]),
        ({"model": config(num_hidden_layers=-2)}, ["num_hidden_layers", "-2"]),
        ({"model": config(vocab_size=...)}, ["config lacks vocab_size"]),
        ({"model": config(num_attention_heads=0)}, ["num_attention_heads", "got 0"]),
        ({"draft": '{"hidden_size": 1'}, ["draft", "not valid JSON"]),
        ({"model": '{"a":' * 3000}, ["nested too deeply"]),
        ({"model": '{"hidden_size": ' + "9" * 5000 + "}"}, ["not valid JSON"]),
        ({"model": "{" + " " * 20_000 + "}"}, ["model", "20000 characters"]),
        ({"sigma": 0.1}, ["draft_form=hardware computes sigma"]),
        ({"coverage": 1.5}, ["coverage", "1.5"]),
    ],
    ids=lambda v: "-".join(v)[:40] if isinstance(v, dict) else "",
)  # fmt: skip
def test_refused_in_one_sentence(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as fault:
        predict(scenario(**changes))
    message = str(fault.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (900_000, ["does not fit", "900,000 tokens", "B200 SXM"]),
        (9_000_000, ["does not fit", "tokens of context fit"]),
    ],
)
def test_a_sequence_that_does_not_fit_is_a_note_not_a_refusal(
    context: int, words: list[str]
) -> None:
    """What activations and reserve take is an estimate; servers were seen to run beyond it."""
    first = notes(predict(scenario(context_tokens=context)))
    assert any(all(word in note for word in words) for note in first), first


@pytest.mark.parametrize("field", Hardware.alone)
def test_what_only_the_step_time_model_reads_is_refused_elsewhere(field: str) -> None:
    values = {"context_tokens": 99, "weight_dtype": "fp8", "kv_dtype": "fp8"}
    values |= {"draft_tensor_parallel": 2, "engine": "none", "concurrency": 8, "request_rate": 2}
    values |= {"prompt_tokens": 99, "prefix_hit": 0.5, "prefix_hit_speculative": 0.5}
    values |= {"draft_weight_dtype": "fp8", "draft_layers": 2, "draft_vocab": 99}
    values |= {"drafted_per_step": 2, "tree": "2:2:4", "expert_parallel": 2, "attention_dp": 2}
    values |= {"chunk_tokens": 512, "arrivals": "one_wave", "decode_only": "yes",
                   "prompt_spread": 1}  # fmt: skip
    with pytest.raises(ScenarioError, match=f"draft_form=ratio does not use {field}"):
        build({"alpha": 0.8, "gamma": 4, "c": 0.1, field: values[field]})


def test_mutilated_configs_never_do_worse_than_a_message() -> None:
    """Any one field of three configs missing or absurd: an InputError or a prediction."""
    absurd = (None, -1, 0, 1.5, "x", [], {}, True, 1e308, float("nan"))
    names = ("Qwen--Qwen3-0.6B", "deepseek-ai--DeepSeek-V3", "google--gemma-4-26B-A4B")
    outcomes = {True: 0, False: 0}
    for name in names:
        given = json.loads((DATA / "model_configs" / f"{name}.json").read_text("utf-8"))
        for field, value in itertools.product(list(given), absurd):
            try:
                found = models.from_config(given | {field: value})
            except InputError:
                outcomes[False] += 1
                continue
            outcomes[True] += 1
            assert found.parameters > 0, (name, field, value)
            assert math.isfinite(found.weight_bytes()), (name, field, value)
    assert min(outcomes.values()) > 50


# ── what is said beside the numbers ──────────────────────────────────────────────────────────


def test_a_batch_beyond_memory_is_said_first() -> None:
    first = notes(predict(scenario(batch=5000)))
    said = "Batch 5,000 does not fit: memory holds 333 sequences"
    assert any(note.startswith(said) for note in first[:2])
    assert not any("does not fit" in note for note in notes(predict(scenario(batch=333))))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"context_tokens": 131_072}, None),
        ({"context_tokens": 131_073, "gpu": "B200 SXM"}, "131,072 tokens Llama-3.1-8B is made for"),
        ({"draft": "TinyLlama-1.1B", "context_tokens": 2049}, "2,048 tokens TinyLlama-1.1B"),
    ],
)  # fmt: skip
def test_a_context_beyond_the_model_is_said(changes: dict[str, Any], says: str | None) -> None:
    said = [note for note in notes(predict(scenario(**changes))) if "is made for" in note]
    assert any(says in note for note in said) if says else not said


def test_the_error_of_the_step_times_stands_beside_them() -> None:
    known, unknown = (" ".join(notes(predict(scenario(gpu=gpu)))) for gpu in ("H100 SXM", "L40"))
    assert "mean error of a step 3% with the model held out" in known
    assert "6–11% off independent measurements" in known
    assert "general coefficients" in unknown


# ── files, links, other forms ────────────────────────────────────────────────────────────────

FULL: dict[str, Any] = PAIR | {
    "context_tokens": 8192,
    "batch": 24,
    "tensor_parallel": 2,
    "weight_dtype": "fp8",
    "kv_dtype": "fp8",
    "engine": "vllm-eager-draft",
    "coverage": 0.9,
    "usd_per_hour": 3.1,
    "model": config(),
}


def test_files_and_links_keep_it_all() -> None:
    s = build(FULL)
    assert from_toml(to_toml(s)) == s
    assert from_link(to_link(s)) == (s, [])
    assert predict(from_link(to_link(s))[0]).speedup == predict(s).speedup


def test_a_pasted_config_is_the_model() -> None:
    """The config of the catalogue's own draft in its place changes nothing."""
    pasted = predict(scenario(draft=config()))
    assert pasted.speedup.value == pytest.approx(predict(scenario()).speedup.value)


def test_the_price_follows_the_gpu_unless_it_was_given() -> None:
    for name, gpu in hardware.catalogue().items():
        assert scenario(gpu=name).usd_per_hour == gpu.usd_per_hour
    assert scenario(gpu="L4", usd_per_hour=9).usd_per_hour == 9
    given = {**to_link(scenario(usd_per_hour=2.5))}
    assert from_link(given)[0].usd_per_hour == 2.5


def test_an_unknown_gpu_in_a_link_keeps_the_rest() -> None:
    link = to_link(scenario(batch=8)) | {"gpu": "H1000"}
    found, notices = from_link(link)
    assert notices[0].startswith("gpu must be in the catalogue, got 'H1000'; nearest: H100 SXM")
    assert (found.alpha, found.batch, found.draft_form) == (0.8, 8, "times")


def test_hardware_can_be_taken_up_and_left_from_any_scenario() -> None:
    served = revised(EXAMPLE, EXAMPLE_PAIR)
    assert served.draft_form == "hardware"
    assert served.target_ms is None, "computed now, no longer given"
    assert revised(served, {"context_tokens": 4096}).gpu == "H100 SXM"
    left = revised(revised(served, {"context_tokens": 4096, "coverage": 0.5}), {"c": 0.1})
    assert left.draft_form == "ratio"
    assert (left.context_tokens, left.coverage) == (None, None)
    candidate = evaluate(published_t5())[0].candidate
    assert (
        revised(served, {"alpha": candidate.alpha, "c": candidate.c, "gamma": 7}).c == candidate.c
    )


def test_c_said_from_hardware_is_the_computed_one() -> None:
    s = scenario(batch=16)
    assert said_as(s, "draft_form", "ratio") == {"c": round(resolve(s).speculation.cost.c, 4)}
    assert IidAcceptance(0.8) == predict(s).speculation.drafted


# ── how people write it ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("typed", "gpu", "count"),
    [
        ("4090 x2", "RTX 4090", 2), ("2x 4090", "RTX 4090", 2), ("4090x2", "RTX 4090", 2),
        ("8xH100", "H100 SXM", 8), ("2 × RTX 3090", "RTX 3090", 2),
        ("MI300X", "MI300X", 1), ("M3 Ultra", "Apple M3 Ultra", 1), ("custom:8,2500,288", None, 1),
    ],
)  # fmt: skip
def test_a_number_of_cards_is_not_dropped(typed: str, gpu: str | None, count: int) -> None:
    """Eight H100 in the name once were one in the answer."""
    found = scenario(gpu=typed)
    assert found.tensor_parallel == count
    assert gpu is None or hardware.find(str(found.gpu)).name.startswith(gpu)
    same = scenario(gpu=hardware.counted(typed)[0], tensor_parallel=count)
    assert predict(found).to_dict() == predict(same).to_dict()


def test_two_numbers_of_cards_are_refused() -> None:
    with pytest.raises(InputError, match=r"gpu names 2 cards, got '2x H100', and .* is 4"):
        scenario(gpu="2x H100", tensor_parallel=4)
    assert scenario(gpu="4x H100", tensor_parallel=4).tensor_parallel == 4


def test_a_config_as_python_prints_it() -> None:
    """`print(config.to_dict())` and `print(config)` say the same as the file."""
    config = json.dumps(
        {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
         "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
         "rope_scaling": None, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    file = models.named(config)
    assert models.named(str(json.loads(config))) == file
    assert models.named(f"LlamaConfig {config}\n") == file
    with pytest.raises(InputError, match="not valid JSON"):
        models.named("{'hidden_size': __import__('os').getpid()}")


def test_a_comma_in_a_number_is_told_how_to_write_it() -> None:
    with pytest.raises(InputError, match=r"usd_per_hour .* got 2,50; with a point: 2\.50"):
        scenario(usd_per_hour="2,50")
    with pytest.raises(InputError, match=r"prompt_tokens .* got 1,024; without a comma: 1024"):
        scenario(prompt_tokens="1,024")
