"""Step time: limits worked by hand, identities, Monte Carlo, and published measurements."""

from __future__ import annotations

import csv
import gzip
import math
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from specmath import hardware, models
from specmath.checks import InputError
from specmath.steptime import Pace, Placement, step_seconds
from specmath.steptime.coefficients import (
    Coefficients,
    assumed,
    calibration_basis,
    coefficients_for,
    definitions,
    format_of,
)
from specmath.steptime.experts import (
    as_tabled,
    busiest_share,
    expert_seconds,
    experts_touched,
    make_curve,
    measured_kernels,
)
from specmath.steptime.operators import (
    ExpertShard,
    Rates,
    all_reduce_seconds,
    exchange_seconds,
    latent_seconds,
    linear_seconds,
    overlapped,
    padded_tokens,
    shard,
)
from specmath.steptime.prefill import prefill_seconds

DATA = Path(__file__).parent / "data"
LLAMA_1B, LLAMA_8B, LLAMA_70B = (
    models.find(name) for name in ("Llama-3.2-1B", "Llama-3.1-8B", "Llama-3.1-70B")
)
MIXTRAL, DEEPSEEK = models.find("Mixtral-8x7B"), models.find("DeepSeek-V3")
H100_BANDWIDTH, H100_PEAK = 3.35e12, 989.4e12


def ideal() -> Coefficients:
    """A GPU that loses nothing: every efficiency 1, every fixed cost 0, full overlap."""
    perfect = {}
    for name, entry in definitions().items():
        perfect[name] = 1.0 if name.endswith("efficiency") else entry.low
    return Coefficients(**perfect | {"overlap": 20.0, "cache_speedup": 1.0, "expert_spread": 1.0})


IDEAL = {"bf16": ideal(), "fp8": ideal()}


def seconds(model, gpu="h100_sxm", *, batch=1, positions=1, context=1024, **more):
    return step_seconds(
        model,
        gpu,
        batch=batch,
        tokens_per_sequence=positions,
        context_tokens=context,
        **more,
    )


# ---- limits worked by hand


def test_an_ideal_gpu_at_batch_1_takes_weights_and_cache_over_bandwidth():
    matrices = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
    head = 4096 * 128256
    cache = 2 * 32 * 8 * 128 * 1000
    # Norms and residuals 8 widths, activation 3 intermediate widths a layer, one embedded token;
    # each matrix product reads its input and writes its output.
    small = 32 * (8 * 4096 + 3 * 14336) + 4096
    inputs_outputs = 32 * (6144 + 4096 + 4096 + 4096 + 28672 + 4096 + 4096 + 14336) + 4096 + 128256
    by_hand = 2 * (matrices + head + cache + small + inputs_outputs) / H100_BANDWIDTH
    assert seconds(LLAMA_8B, context=1000, coefficients=IDEAL) == pytest.approx(by_hand, rel=1e-6)


def test_an_ideal_gpu_at_large_batch_is_bound_by_arithmetic():
    positions = 8
    step = Placement(LLAMA_8B, "h100_sxm", coefficients=IDEAL).step(4096, positions, 1)
    flops = 4096 * positions * LLAMA_8B.flops_per_token
    assert step.weights + step.arithmetic == pytest.approx(flops / H100_PEAK, rel=1e-3)


def test_overlap_goes_from_sum_to_maximum():
    assert overlapped(3.0, 4.0, 1.0) == pytest.approx(7.0)
    assert overlapped(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert overlapped(3.0, 4.0, 200.0) == pytest.approx(4.0)
    assert overlapped(0.0, 0.0, 2.0) == 0.0


def test_quantised_weights_halve_the_reading_of_layers_but_not_of_the_head():
    read = {
        dtype: Placement(LLAMA_8B, "h100_sxm", weight_dtype=dtype, coefficients=IDEAL)
        .step(1, 1, 1)
        .weights
        for dtype in ("bf16", "fp8")
    }
    saved = (LLAMA_8B.parameters - 2 * LLAMA_8B.head_parameters) / H100_BANDWIDTH
    assert read["bf16"] - read["fp8"] == pytest.approx(saved, rel=1e-3)


def test_small_all_reduce_by_hand():
    c = replace(ideal(), all_reduce_us=5.0)
    # 7 peers' 64 KiB over a 450 GB/s link, and 5 us.
    by_hand = 5e-6 + 7 * 65536 / 450e9
    assert all_reduce_seconds(65536, 8, 450e9, c) == pytest.approx(by_hand)
    assert all_reduce_seconds(65536, 1, 450e9, c) == 0.0


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_an_all_reduce_of_more_bytes_never_takes_less(gpus):
    size = np.geomspace(1e3, 1e9, 500)
    taken = all_reduce_seconds(size, gpus, 450e9, assumed("bf16"))
    assert (np.diff(taken) >= 0).all()


# ---- experts


@pytest.mark.parametrize(
    ("experts", "per_token", "tokens"),
    [(8, 2, 1), (8, 2, 5), (128, 8, 20), (256, 8, 200), (4, 4, 3)],
)
def test_experts_touched_is_uniform_routing_by_monte_carlo(experts, per_token, tokens):
    rng = np.random.default_rng(7)
    # The standard error of the mean is at most 0.25% of it: 4 of them are 1%.
    runs = 600_000 // (tokens * experts)
    order = rng.random((runs, tokens, experts)).argsort(axis=2)[:, :, :per_token]
    hit = np.zeros((runs, experts), dtype=bool)
    hit[np.arange(runs)[:, None], order.reshape(runs, -1)] = True
    assert experts_touched(experts, per_token, tokens) == pytest.approx(
        hit.sum(axis=1).mean(), rel=0.01
    )


def test_experts_touched_limits_and_spread():
    assert experts_touched(8, 2, 0) == 0.0
    assert experts_touched(8, 2, 1) == pytest.approx(2.0)
    assert experts_touched(8, 2, 1e6) == pytest.approx(8.0)
    # 1 + 0.5 (9 - 1) = 5 independent tokens.
    assert experts_touched(8, 2, 9, spread=0.5) == pytest.approx(float(experts_touched(8, 2, 5)))


@pytest.mark.parametrize(("balance", "share"), [(0.0, 1.0), (0.5, 8**-0.5), (1.0, 1 / 8)])
def test_the_busiest_gpu_has_between_all_and_an_eighth_of_the_work(balance, share):
    assert busiest_share(8, balance) == pytest.approx(share)
    assert busiest_share(1, balance) == 1.0


def test_the_busiest_of_four_groups_has_a_third_more_than_the_mean():
    """Captured from a server: 1.35 times the mean. The tables' routing is less even than that."""
    for gpu in ("H100 SXM", "B200 SXM"):
        c = coefficients_for(gpu, "bf16")
        assert 4 * busiest_share(4, c.expert_balance) == pytest.approx(1.35, abs=0.02)
        assert c.tabled_balance < c.expert_balance


def test_an_ideal_mixture_layer_by_hand():
    """128 experts, 8 a token, on 4 GPUs with experts of their own, evenly: 32 each, 2 a token."""
    layer = ExpertShard(1, 128, 8, 2048, 768, slices=1, groups=4)
    c = replace(ideal(), expert_overlap=20.0, expert_balance=1.0)
    rates = Rates(H100_BANDWIDTH, H100_PEAK, c)
    read, extra = expert_seconds(layer, np.array([1.0, 1e6]), rates)
    one_expert = 3 * 2048 * 768 * 2
    assert read[0] == pytest.approx(2 * one_expert / H100_BANDWIDTH)
    assert read[1] == pytest.approx(32 * one_expert / H100_BANDWIDTH)
    flops = 2 * 3 * 2048 * 768 * 2e6
    moved = 2 * (2 * 2048 + 3 * 768) * 2e6 / H100_BANDWIDTH
    assert read[1] + extra[1] == pytest.approx(flops / H100_PEAK + moved, rel=1e-3)


# ---- experts as they were measured


def known(gpu="H100 SXM", kernels="bf16"):
    found = measured_kernels(gpu, kernels)
    assert found is not None
    return found


def curve_of(layer, gpu="H100 SXM", kernels="bf16", left_out=False):
    record, of = hardware.find(gpu), known(gpu, kernels)
    size = {"bf16": 2.0, "mxfp4": (4 + 8 / 32) / 8}[kernels]
    c = coefficients_for(gpu, kernels)
    rates = as_tabled(Rates(record.bandwidth, record.peak("bf16"), c, size))
    if left_out:
        of = of.without((layer.experts, layer.per_token, layer.hidden, layer.intermediate))
    return make_curve(layer, rates, of, of.log_miss(rates))


@pytest.mark.parametrize(
    ("gpu", "kernels"), [("H100 SXM", "bf16"), ("H100 SXM", "mxfp4"), ("B200 SXM", "bf16")]
)
def test_a_shape_of_the_table_takes_what_was_measured(gpu, kernels):
    of = known(gpu, kernels)
    miss = [
        np.abs(curve_of(layer, gpu, kernels).total(of.tokens) / taken - 1.0)
        for layer, taken in zip(of.layers, of.seconds, strict=True)
    ]
    assert np.nanmedian(miss) < 0.002  # what is left is where more tokens were measured as faster
    assert np.nanmean(miss) < 0.015


def test_a_shape_that_is_left_out_is_found_from_those_like_it():
    """8.5% against 12.4% for the formula alone, of all bf16 layers of an H100."""
    of, worse = known(), []
    for layer, taken in zip(of.layers, of.seconds, strict=True):
        worse.append(np.abs(curve_of(layer, left_out=True).total(of.tokens) / taken - 1.0))
    assert np.nanmean(worse) < 0.10


def test_more_tokens_never_take_an_expert_layer_less():
    tokens = np.unique(np.geomspace(1, 1e6, 400).astype(int)).astype(float)
    for kernels in ("bf16", "mxfp4"):
        for layer in known(kernels=kernels).layers[::7]:
            assert (np.diff(curve_of(layer, kernels=kernels).total(tokens)) >= 0).all()


def test_the_parts_of_an_expert_layer_are_its_total():
    curve, tokens = curve_of(known().layers[3]), np.array([1.0, 3.0, 300.0, 1e5])
    parts = curve.parts(tokens)
    assert all((part >= 0).all() for part in parts)
    np.testing.assert_allclose(sum(parts), curve.total(tokens), rtol=1e-12)


def test_the_table_of_experts_is_read_for_mixtures_only():
    code = """
from specmath import models
from specmath.steptime import experts, step_seconds
take = dict(batch=1, tokens_per_sequence=1, context_tokens=1)
step_seconds(models.find("Llama-3.1-8B"), "h100", **take)
assert not experts._stored.cache_info().currsize
step_seconds(models.find("Mixtral-8x7B"), "h100", tensor_parallel=2, **take)
assert experts._stored.cache_info().currsize == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


def test_gpt_oss_experts_reach_the_share_of_bandwidth_that_was_measured():
    """mxfp4 at the 20b shape, all experts read: 0.70 of an H100's bandwidth, 0.51 H200, 0.33 B200,
    0.76 L40S, as read off the same tables by an independent hand."""
    oss = models.find("gpt-oss-20b")
    for gpu, share in {"h100": 0.70, "h200": 0.51, "b200": 0.33, "l40s": 0.76}.items():
        place = Placement(oss, gpu, weight_dtype=None)
        (layer,) = shard(oss, 1).experts[:1]
        size = layer.experts * layer.parameters * (4 + 8 / 32) / 8
        reached = [size / (place.expert_curve(layer).total(np.array([t])) * place.device.bandwidth)
                   for t in (32.0, 64.0)]  # fmt: skip
        assert min(reached) <= share * 1.15, gpu
        assert max(reached) >= share * 0.80, gpu


# ---- experts and sequences on GPUs of their own


def test_whole_experts_and_slices_are_the_same_weights():
    for model, gpus in ((MIXTRAL, 8), (DEEPSEEK, 8)):
        sliced, whole_ones = (shard(model, gpus, 1, groups).experts[0] for groups in (1, gpus))
        assert sliced.experts * sliced.parameters == pytest.approx(
            whole_ones.experts / whole_ones.groups * whole_ones.parameters
        )


def test_the_latent_of_a_sequence_is_held_once_where_sequences_are_shared_out():
    """DeepSeek on 8 GPUs: a latent cannot be split, so each of 8 holds all of it, or an eighth of
    the sequences."""
    sizes = {"weight_dtype": None, "coefficients": IDEAL}
    together = Placement(DEEPSEEK, "h200", 8, **sizes)
    apart = Placement(DEEPSEEK, "h200", 8, **sizes, expert_parallel=8, attention_dp=8)
    taken = [float(place.step(256, 1, 32768).kv) for place in (together, apart)]
    assert taken[1] == pytest.approx(taken[0] / 8)


def test_a_group_that_holds_one_sequence_more_is_the_one_timed():
    place = Placement(DEEPSEEK, "h200", 8, None, expert_parallel=8, attention_dp=8)
    kv = [float(place.step(batch, 1, 8192).kv) for batch in (8, 9, 16)]
    assert kv[0] < kv[1] == kv[2]


def test_exchanges_by_hand():
    c = replace(ideal(), exchange_us=10.0)
    # 7/8 of 1 MiB over a 450 GB/s link and 10 us, there and back.
    by_hand = 2 * (10e-6 + 2**20 * 7 / 8 / 450e9)
    assert exchange_seconds(2**20, 8, 450e9, c) == pytest.approx(by_hand)
    assert exchange_seconds(2**20, 1, 450e9, c) == 0.0


def test_sequences_of_their_own_replace_all_reduces_by_exchanges():
    together, apart = shard(DEEPSEEK, 8), shard(DEEPSEEK, 8, 8, 8)
    assert (together.all_reduces, together.exchanges) == (2 * 61 + 1, 0)
    assert (apart.all_reduces, apart.exchanges) == (2 * 61 + 1 - 58, 58)  # 3 dense layers first
    assert shard(DEEPSEEK, 8, 1, 8).exchanges == 0  # tokens are on every GPU already


def test_a_draft_without_experts_goes_with_its_target_s_groups():
    """On 8 GPUs in 4 groups of their own sequences, a dense model is 4 replicas on 2 GPUs each."""
    dense = {"batch": 32, "positions": 3}
    grouped = seconds(LLAMA_8B, tensor_parallel=8, attention_dp=4, expert_parallel=8, **dense)
    assert grouped == seconds(LLAMA_8B, tensor_parallel=2, positions=3, batch=8)


def test_a_prompt_s_latent_attention_is_that_of_heads_of_their_own():
    """128 heads of 192 + 128 a cached token where decoding has 512 + 64 + 512: 3.4 times fewer. The
    tenth thousand tokens of a prompt against the first: 61 layers of attention over 9,000 more."""
    place = Placement(DEEPSEEK, "h200", 8, None)
    late, early = (prefill_seconds(place, done + 1000, 0, cached_tokens=done) for done in (9000, 0))
    efficiency = coefficients_for("H200 SXM", "bf16").attention_arithmetic_efficiency
    flops = 61 * 1000 * 9000 * 2 * (128 / 8) * (128 + 64 + 128)
    assert float(late - early) == pytest.approx(flops / (H100_PEAK * efficiency), rel=1e-3)


def test_groups_read_prompts_side_by_side():
    """Attention of a prompt is a rank's own: eight prompts at once on eight ranks cost each other
    an eighth of what one costs a rank, as its heads split over eight GPUs do."""
    together, apart = (
        Placement(DEEPSEEK, "h200", 8, None, expert_parallel=8, attention_dp=ranks)
        for ranks in (1, 8)
    )
    long, short = (
        [float(prefill_seconds(p, 8000 + done, 64, cached_tokens=done)) for p in (together, apart)]
        for done in (24000, 0)
    )
    assert long[0] - short[0] == pytest.approx(long[1] - short[1], rel=1e-6)


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (MIXTRAL, {"expert_parallel": 3}, "expert_parallel must divide tensor_parallel = 8, got 3"),
        (MIXTRAL, {"attention_dp": 5}, "attention_dp must divide tensor_parallel = 8, got 5"),
        (LLAMA_8B, {"attention_dp": 5}, "attention_dp must divide tensor_parallel = 8, got 5"),
        (MIXTRAL, {"attention_dp": 0}, "attention_dp must be a whole number >= 1, got 0"),
    ],
)
def test_groups_that_do_not_divide_are_refused(model, changes, words):
    with pytest.raises(InputError, match=words):
        seconds(model, tensor_parallel=8, **changes)


def test_more_groups_than_experts_are_refused():
    with pytest.raises(InputError, match="expert_parallel must divide experts = 8, got 16"):
        seconds(MIXTRAL, tensor_parallel=16, expert_parallel=16)


# ---- identities


CASES = [
    (LLAMA_8B, 1, "bf16"),
    (LLAMA_70B, 4, "fp8"),
    (MIXTRAL, 2, "bf16"),
    (DEEPSEEK, 8, "fp8"),
    (models.find("gpt-oss-20b"), 1, None),
]


@pytest.mark.parametrize(("model", "tp", "dtype"), CASES)
def test_parts_are_not_negative_and_add_up_to_the_step(model, tp, dtype):
    inputs = {
        "batch": np.array([1, 16, 256])[:, None, None],
        "tokens_per_sequence": np.array([1, 5])[:, None],
        "context_tokens": np.array([512, 4096, 32768]),
    }
    step = Placement(model, "h200_sxm", tp, dtype).step(**inputs)
    parts = [getattr(step, field.name) for field in fields(step)]
    assert all(part.shape == (3, 2, 3) and (part >= 0).all() for part in parts)
    np.testing.assert_array_equal(sum(parts[1:], start=parts[0]), step.total)
    seconds = step_seconds(model, "h200_sxm", tensor_parallel=tp, weight_dtype=dtype, **inputs)
    np.testing.assert_array_equal(step.total, seconds)


def test_an_array_gives_what_its_elements_give():
    grid = seconds(LLAMA_8B, batch=[[1], [64]], positions=[1, 3, 9])
    for i, batch in enumerate((1, 64)):
        for j, positions in enumerate((1, 3, 9)):
            assert grid[i, j] == seconds(LLAMA_8B, batch=batch, positions=positions)


@pytest.mark.parametrize("model", [LLAMA_8B, MIXTRAL, DEEPSEEK])
@pytest.mark.parametrize("gpu", ["h100_sxm", "a100_sxm", "b200_sxm", "l40s", "L4"])
def test_more_work_never_takes_less_time_in_bf16(model, gpu):
    grid = seconds(
        model,
        gpu,
        batch=np.arange(1, 200, 7)[:, None, None],
        positions=np.arange(1, 10)[:, None],
        context=np.geomspace(100, 1e5, 20).astype(int),
        tensor_parallel=4,
    )
    for axis in range(3):
        assert (np.diff(grid, axis=axis) >= -1e-12).all()


def test_the_cache_is_read_once_a_sequence_whatever_gamma():
    one, nine = (Placement(LLAMA_8B, "h100_sxm").step(8, t, 32768).kv for t in (1, 9))
    assert one == nine


def test_cache_heads_split_over_gpus_but_a_latent_does_not():
    def kv(model, tp):
        place = Placement(model, "h200_sxm", tp, coefficients=IDEAL)
        return float(place.step(256, 1, 32768).kv)

    assert kv(LLAMA_70B, 8) == pytest.approx(kv(LLAMA_70B, 1) / 8)
    assert kv(LLAMA_70B, 16) == pytest.approx(kv(LLAMA_70B, 8))  # 8 key-value heads
    assert kv(DEEPSEEK, 8) == pytest.approx(kv(DEEPSEEK, 1))


def test_a_window_caps_the_cache_that_is_read():
    windowed = models.from_config(
        {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 32000,
            "sliding_window": 4096,
        }
    )
    assert seconds(windowed, context=4096) == seconds(windowed, context=100_000)
    assert seconds(windowed, context=4096) > seconds(windowed, context=1024, batch=1)


def test_absorbed_latent_attention_is_bound_by_arithmetic_where_grouped_heads_are_not():
    """At long context a GQA step grows little with γ; an MLA step grows with every position."""

    def attention(model, positions):
        place = Placement(model, "h200_sxm")
        long, short = (place.step(64, positions, context).total for context in (65536, 1))
        return float(long - short)

    assert attention(LLAMA_8B, 5) == pytest.approx(attention(LLAMA_8B, 1), rel=0.01)
    assert attention(DEEPSEEK, 5) > 3.0 * attention(DEEPSEEK, 1)


def test_latent_attention_is_as_fast_as_it_was_measured():
    """SGLang's kernels at DeepSeek's widths, a cache in 16 bits: 7.7% (H200), 8.2% (H100), 13.3%
    (B200) of one layer, from 8 to 128 heads and 256 tokens to 131,071."""
    expected = {"H200 SXM": 0.077, "H100 SXM": 0.082, "B200 SXM": 0.133}
    text = gzip.decompress((DATA / "latent_attention.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(text.splitlines()))
    for gpu, error in expected.items():
        own = [{k: float(v) for k, v in row.items() if k != "gpu"} for row in rows
               if row["gpu"] == gpu]  # fmt: skip
        heads, batch, context, taken = (
            np.array([row[name] for row in own])
            for name in ("heads", "batch", "context", "microseconds")
        )
        record, c = hardware.find(gpu), coefficients_for(gpu, "bf16")
        rates = Rates(record.bandwidth, record.peak("bf16"), c)
        (attention,) = {layer.attention for layer in DEEPSEEK.layers}
        size = 2.0 * batch * attention.kv_elements_read(context)
        flops = batch * attention.context_flops(context) * heads / attention.heads
        layer = sum(latent_seconds(size, flops, context, rates)) + c.latent_launch_us * 1e-6
        assert np.abs(layer / (taken * 1e-6) - 1.0).mean() == pytest.approx(error, abs=0.004)


def test_unpacking_int4_pays_at_batch_1_and_costs_at_large_batch():
    assert seconds(LLAMA_8B, weight_dtype="int4") < 0.6 * seconds(LLAMA_8B)
    large = {"batch": 512, "positions": 9}
    assert seconds(LLAMA_8B, weight_dtype="int4", **large) > seconds(LLAMA_8B, **large)


def test_tokens_pad_to_the_capture_size_and_run_eager_beyond_the_largest():
    np.testing.assert_array_equal(padded_tokens([1, 8, 9, 16, 17], [8, 16]), [8, 8, 16, 16, 17])
    padded = seconds(LLAMA_8B, batch=65, graph_sizes=[64, 128])
    assert padded > seconds(LLAMA_8B, batch=65)
    # The cache of 65 sequences, the linear layers of 128 tokens.
    assert padded < seconds(LLAMA_8B, batch=128)
    # 1B: 16 layers of 2 + 2 matrix products, attention and 3 small kernels, head and embedding, all
    # launched by the host at 5 us each.
    launches = 16 * (4 + 1 + 3) + 2
    eager = seconds(LLAMA_1B, batch=9, graph_sizes=[8])
    assert eager >= launches * 5e-6
    free = replace(assumed("bf16"), eager_kernel_us=0.0)
    own = {"bf16": free, "fp8": free}
    assert seconds(LLAMA_1B, batch=9, graph_sizes=[8], coefficients=own) == seconds(
        LLAMA_1B, batch=9, coefficients=own
    )


def test_fp8_is_slow_just_past_a_tile_size():
    c = assumed("fp8")
    tokens = np.array([256.0, 257.0, 512.0])
    rates = Rates(H100_BANDWIDTH, 2 * H100_PEAK, c, weight_bytes=1.0, quantised=True)
    memory, extra = linear_seconds(8192, 8192, tokens, rates)
    at, past, at_next = memory + extra
    assert past > 1.2 * at
    assert past < 1.2 * at_next


# ---- what the issue asks to hold


def verify_cost(model, batch, context, gamma, **more):
    plain, verify = seconds(model, batch=batch, positions=[1, gamma + 1], context=context, **more)
    return verify / plain


def test_a_long_context_keeps_verification_near_one_plain_step():
    v = verify_cost(LLAMA_70B, 8, 32768, 4, tensor_parallel=4)
    assert v == pytest.approx(1.07, abs=0.03)


def test_the_batch_cliff_of_an_8b_with_a_1b_draft():
    """Against the reference table: 1.585, 1.317, 1.122 at 64, 128, 256."""
    tau = (1 - 0.8**5) / (1 - 0.8)
    batch = np.array([64, 128, 256])
    plain = seconds(LLAMA_8B, batch=batch)
    verify = seconds(LLAMA_8B, batch=batch, positions=5)
    draft = seconds(LLAMA_1B, batch=batch)
    speedup = tau * plain / (verify + 4 * draft)
    np.testing.assert_allclose(speedup, [1.585, 1.317, 1.122], rtol=0.06)
    assert draft[0] / plain[0] == pytest.approx(0.23, abs=0.02)  # launches, not 1/6.5


def test_long_context_reverses_the_batch_cliff():
    """MagicDec, section 3: at large batch v falls with context, because the cache is read once."""
    assert verify_cost(LLAMA_8B, 128, 16384, 4) < verify_cost(LLAMA_8B, 128, 1024, 4) - 0.3


# ---- MagicDec


def magicdec():
    lines = (DATA / "magicdec.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _llama(name, hidden, layers, heads, kv_heads, width, vocab):
    """A Llama-shaped config; sizes from each model's published config.json."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": width,
        "vocab_size": vocab,
    }
    return models.from_config(config, name=name)


MAGICDEC_MODELS = {
    "Llama2-7B-32K": _llama("Llama2-7B", 4096, 32, 32, 32, 11008, 32000),
    "Llama3.1-8B": LLAMA_8B,
    "Mistral-7B-v0.3": _llama("Mistral-7B", 4096, 32, 32, 8, 14336, 32768),
    "Qwen2.5-7B": _llama("Qwen2.5-7B", 3584, 28, 28, 4, 18944, 152064),
    "Qwen2.5-32B": _llama("Qwen2.5-32B", 5120, 64, 40, 8, 27648, 152064),
    "TinyLlama-1.1B": _llama("TinyLlama", 2048, 22, 32, 4, 5632, 32000),
    "Llama3.2-1B(S)": LLAMA_1B,
}


def test_magicdec_timings_give_its_speedups():
    """τ T_AR / (γT_D + T_V), all measured, against the printed speedup: median miss <= 3.5%."""
    miss = [
        float(row["tau"])
        * float(row["plain_ms"])
        / (float(row["draft_ms"]) + float(row["verify_ms"]))
        / float(row["speedup"])
        - 1
        for row in magicdec()
    ]
    assert len(miss) == 46
    assert np.median(np.abs(miss)) <= 0.035
    assert np.max(np.abs(miss)) < 0.08


def _magicdec_from_hardware():
    """(plain, v, draft, speedup), predicted / printed, from models, GPUs, batch, context and τ.

    Drafts read a sparse cache of 512 tokens, the paper's StreamingLLM setting: believed for the
    SnapKV rows.
    """
    found = []
    for row in magicdec():
        target = MAGICDEC_MODELS[row["target"]]
        drafter = MAGICDEC_MODELS.get(row["draft"], target)
        gamma, tp = int(row["gamma"]), int(row["gpus"])
        common = {"gpu": row["gpu"], "batch": int(row["batch"])}
        plain, verify = 1e3 * seconds(
            target,
            positions=[1, gamma + 1],
            context=int(row["context"]),
            tensor_parallel=tp,
            **common,
        )
        draft_tp = math.gcd(tp, drafter.layers[0].attention.heads)
        draft = 1e3 * gamma * seconds(drafter, context=512, tensor_parallel=draft_tp, **common)
        speedup = float(row["tau"]) * plain / (verify + draft)
        found.append(
            (
                plain / float(row["plain_ms"]),
                verify / plain / (float(row["verify_ms"]) / float(row["plain_ms"])),
                draft / float(row["draft_ms"]),
                speedup / float(row["speedup"]),
            )
        )
    return np.array(found).T - 1


def test_magicdec_from_hardware_alone_is_a_known_miss():
    """Verification is predicted within 4% (median), plain steps 11% too fast, drafts 43% too fast.

    The draft times hold sampling and host work of another engine that the model does not know; the
    speedup that follows is 20% too high. This pins the size of the miss, it does not excuse it.
    """
    plain, v, draft, speedup = _magicdec_from_hardware()
    assert np.median(np.abs(v)) <= 0.05
    assert np.median(plain) == pytest.approx(-0.11, abs=0.03)
    assert np.median(draft) == pytest.approx(-0.43, abs=0.05)
    assert np.median(speedup) == pytest.approx(0.20, abs=0.05)


def test_magicdec_plain_steps_beyond_the_error_taken_are_a_known_miss():
    """34 of 46 within 20%; the others are 20 to 37% slower than a pure forward: the host time of
    their engine, which a prediction adds only for the engines it knows."""
    plain, *_ = _magicdec_from_hardware()
    assert np.sum(np.abs(plain) <= 0.20) == pytest.approx(34, abs=3)
    assert plain.min() == pytest.approx(-0.37, abs=0.03)
    assert plain.max() < 0.05


# ---- where coefficients come from


def test_a_gpu_without_calibration_says_so():
    known, unknown = calibration_basis("h100_sxm"), calibration_basis("L4")
    assert known.calibrated
    assert not unknown.calibrated
    assert "aiconfigurator" in known.basis
    assert "general" in unknown.basis
    assert known.expected_error < unknown.expected_error <= 0.25
    assert calibration_basis("h100_sxm", "fp8").calibrated
    assert calibration_basis("h100_sxm", "fp8").expected_moe_error is None
    int4 = calibration_basis("h100_sxm", "int4")
    assert not int4.calibrated
    assert "unpacked to bf16" in int4.basis


def test_every_coefficient_has_a_unit_a_meaning_and_a_source():
    for name, entry in definitions().items():
        assert entry.unit, name
        assert entry.meaning, name
        assert entry.source, name
        assert entry.low <= entry.value <= entry.high, name
        if name.endswith("efficiency"):
            assert 0 < entry.low < entry.high == 1, name


# ---- bad input


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 0}, "batch must be a whole number >= 1, got 0"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"context": 0}, "context_tokens must be a whole number >= 1, got 0"),
        ({"positions": 0}, "tokens_per_sequence must be a whole number >= 1"),
        ({"tensor_parallel": 3}, "tensor_parallel must divide heads = 32"),
        ({"tensor_parallel": 0}, "tensor_parallel must be a whole number >= 1"),
        ({"gpu": "h10 sxm"}, "nearest: H100 SXM"),
        ({"weight_dtype": "fp7"}, "weight_dtype must be one of"),
        ({"weight_dtype": "fp32"}, "weight_dtype must be bf16"),
        ({"kv_dtype": "int4"}, "kv_dtype must be one of"),
        ({"graph_sizes": []}, "at least one capture size"),
    ],
)
def test_bad_input_names_the_value_and_its_bounds(changes, words):
    with pytest.raises(InputError, match=words):
        seconds(LLAMA_8B, **changes)


def test_heads_that_cannot_be_shared_out_are_refused():
    six = models.from_config(
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 1536,
            "num_hidden_layers": 2,
            "num_attention_heads": 24,
            "num_key_value_heads": 6,
            "intermediate_size": 4096,
            "vocab_size": 32000,
        }
    )
    with pytest.raises(InputError, match="kv_heads or be a multiple of it"):
        seconds(six, tensor_parallel=4)


def test_a_format_that_the_gpu_does_not_multiply_in_is_storage():
    """fp8 on an A100 is weight-only: half the bytes to read, arithmetic at the bf16 rate less the
    unpacking, so a memory-bound step is up to twice as fast and a compute-bound one never is."""
    for dtype in ("fp8", "int4"):
        plain, packed = (Placement(LLAMA_8B, "a100_sxm", weight_dtype=d) for d in ("bf16", dtype))
        assert packed.step(1, 1, 1).weights < plain.step(1, 1, 1).weights
        assert packed.step(512, 8, 1).total >= plain.step(512, 8, 1).total
    assert not calibration_basis("a100_sxm", "fp8").calibrated
    assert "unpacked to bf16" in calibration_basis("a100_sxm", "fp8").basis
    wide, narrow = (Placement(LLAMA_8B, "a100_sxm", kv_dtype=d) for d in ("bf16", "fp8"))
    assert narrow.step(64, 1, 8192).kv < wide.step(64, 1, 8192).kv


@pytest.mark.parametrize("gpu", ["a100_sxm", "h100_sxm", "l40s", "b200_sxm", "RTX 3090", "MI300X"])
@pytest.mark.parametrize("model", [LLAMA_8B, MIXTRAL])
def test_every_stored_format_computes_on_every_gpu(gpu, model):
    """Formats are storage; a GPU without the arithmetic unpacks them, and its bars say so."""
    plain = seconds(model, gpu)
    for dtype in ("fp8", "int8", "int4", "nvfp4", "mxfp4"):
        for kv_dtype in ("bf16", "fp8", "int8"):
            found = seconds(model, gpu, weight_dtype=dtype, kv_dtype=kv_dtype)
            assert 0 < found < plain * 1.05, (dtype, kv_dtype)
        place = Placement(model, gpu, weight_dtype=dtype)
        if place.calibration.calibrated:
            assert hardware.find(gpu).computes_in(dtype) or model.is_moe
    assert not calibration_basis(gpu, "int8").calibrated


def test_which_kernels_multiply_a_format():
    h100, a100, b200 = (hardware.find(name) for name in ("h100", "a100", "b200"))
    assert format_of(h100, "fp8") == "fp8"
    # Times of an H100's experts in fp8 with one scale a tensor cannot be believed.
    assert format_of(h100, "fp8", experts=True) == "fp8_block"
    assert format_of(b200, "fp8", experts=True) == "fp8"
    assert format_of(b200, "fp8", experts=True, blocks=True) == "fp8_block"
    assert format_of(a100, "fp8", experts=True) == "bf16"
    assert (format_of(b200, "nvfp4"), format_of(h100, "nvfp4")) == ("nvfp4", "bf16")
    assert format_of(h100, "nvfp4", experts=True) == "mxfp4"
    assert (format_of(h100, "int4"), format_of(h100, "int4", experts=True)) == ("bf16", "int4")


def test_a_mixture_is_calibrated_where_its_experts_were_measured():
    for gpu, dtype in (("h100", "mxfp4"), ("h200", "fp8"), ("b200", "nvfp4"), ("b200", "mxfp4")):
        found = calibration_basis(gpu, dtype, mixture=True)
        assert found.calibrated, (gpu, dtype)
        assert found.expected_moe_error < 0.3
    assert not calibration_basis("a100", "mxfp4", mixture=True).calibrated
    assert not calibration_basis("L4", "bf16", mixture=True).calibrated
    assert not calibration_basis("h100", "mxfp4").calibrated  # a dense model's layers in mxfp4


# ── an engine's own kernels ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "part", "place"),
    [
        ("weights", "weights", Placement(models.find("Llama-3.1-70B"), "B200", 4, "nvfp4")),
        ("launch", "launch", Placement(models.find("Qwen3-30B-A3B"), "H100", 2)),
        ("communication", "communication", Placement(models.find("DeepSeek-R1"), "B200", 8, None)),
        ("cache", "kv", Placement(models.find("Llama-3.1-8B"), "H200", 1, "fp8", "fp8")),
    ],
)
def test_a_pace_moves_its_part_alone_and_linearly(name: str, part: str, place: Placement) -> None:
    """Twice the factor adds what the factor takes; all else stays."""
    at = 16, 3, 2048
    none, once, twice = (vars(place.step(*at, Pace(**{name: x}))) for x in (0.0, 1.0, 2.0))
    assert once == vars(place.step(*at))
    for each in once:
        step = once[each] - none[each]
        assert twice[each] - once[each] == pytest.approx(float(step))
        assert (step > 0) == (each == part)


def test_a_pace_leaves_weights_that_are_unpacked_or_not_quantised() -> None:
    """What is computed in 16 bits reads its weights as 16-bit products do."""
    slow = Pace(weights=2.0)
    for place in (
        Placement(models.find("Llama-3.1-8B"), "H100"),
        Placement(models.find("Llama-3.1-8B"), "A100", weight_dtype="fp8"),
    ):
        assert place.step(1, 1, 1, slow).total == place.step(1, 1, 1).total
    # The output head stays in 16 bits: less than twice the time.
    packed = Placement(models.find("Llama-3.1-8B"), "H100", weight_dtype="fp8")
    assert 1.5 < packed.step(1, 1, 1, slow).weights / packed.step(1, 1, 1).weights < 2
    with pytest.raises(InputError, match="launch must"):
        Pace(launch=-1)
