"""Step time: limits worked by hand, identities, Monte Carlo, and published measurements."""

from __future__ import annotations

import csv
import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from specmath import models
from specmath.checks import InputError
from specmath.serving.of_scenario import PLAIN_ERROR
from specmath.steptime import step_breakdown, step_seconds
from specmath.steptime.coefficients import Coefficients, assumed, calibration_basis, definitions
from specmath.steptime.operators import (
    all_reduce_seconds,
    experts_touched,
    linear_seconds,
    overlapped,
    padded_tokens,
)

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
    step = step_breakdown(
        LLAMA_8B,
        "h100_sxm",
        batch=4096,
        tokens_per_sequence=positions,
        context_tokens=1,
        coefficients=IDEAL,
    )
    flops = 4096 * positions * LLAMA_8B.flops_per_token
    assert step.weights + step.arithmetic == pytest.approx(flops / H100_PEAK, rel=1e-3)


def test_overlap_goes_from_sum_to_maximum():
    assert overlapped(3.0, 4.0, 1.0) == pytest.approx(7.0)
    assert overlapped(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert overlapped(3.0, 4.0, 200.0) == pytest.approx(4.0)
    assert overlapped(0.0, 0.0, 2.0) == 0.0


def test_quantised_weights_halve_the_reading_of_layers_but_not_of_the_head():
    read = {
        dtype: step_breakdown(
            LLAMA_8B,
            "h100_sxm",
            batch=1,
            tokens_per_sequence=1,
            context_tokens=1,
            weight_dtype=dtype,
            coefficients=IDEAL,
        ).weights
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
    runs = 2000
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
        "tensor_parallel": tp,
        "weight_dtype": dtype,
    }
    step = step_breakdown(model, "h200_sxm", **inputs)
    parts = [getattr(step, field.name) for field in fields(step)]
    assert all(part.shape == (3, 2, 3) and (part >= 0).all() for part in parts)
    np.testing.assert_array_equal(sum(parts[1:], start=parts[0]), step.total)
    np.testing.assert_array_equal(step.total, step_seconds(model, "h200_sxm", **inputs))


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
    one, nine = (
        step_breakdown(
            LLAMA_8B, "h100_sxm", batch=8, tokens_per_sequence=t, context_tokens=32768
        ).kv
        for t in (1, 9)
    )
    assert one == nine


def test_cache_heads_split_over_gpus_but_a_latent_does_not():
    def kv(model, tp):
        step = step_breakdown(
            model,
            "h200_sxm",
            batch=256,
            tokens_per_sequence=1,
            context_tokens=32768,
            tensor_parallel=tp,
            coefficients=IDEAL,
        )
        return float(step.kv)

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
        step = step_breakdown(
            model,
            "h200_sxm",
            batch=64,
            tokens_per_sequence=positions,
            context_tokens=65536,
            tensor_parallel=1,
        )
        short = step_breakdown(
            model,
            "h200_sxm",
            batch=64,
            tokens_per_sequence=positions,
            context_tokens=1,
            tensor_parallel=1,
        )
        return float(step.total - short.total)

    assert attention(LLAMA_8B, 5) == pytest.approx(attention(LLAMA_8B, 1), rel=0.01)
    assert attention(DEEPSEEK, 5) > 3.0 * attention(DEEPSEEK, 1)


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
    memory, extra = linear_seconds(
        8192,
        8192,
        tokens,
        weight_bytes=1.0,
        bandwidth=H100_BANDWIDTH,
        peak=2 * H100_PEAK,
        coefficients=c,
        quantised_arithmetic=True,
    )
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
    assert np.sum(np.abs(plain) <= PLAIN_ERROR[True, False]) == pytest.approx(34, abs=3)
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
        ({"gpu": "a100_sxm", "weight_dtype": "fp8"}, "got 'fp8'"),
        ({"gpu": "a100_sxm", "kv_dtype": "fp8"}, "got 'fp8'"),
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
