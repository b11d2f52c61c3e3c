"""Drafters: sizes against published ones, limits, and step costs that users reported."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specmath import engines, hardware, models
from specmath.checks import InputError
from specmath.drafters import (
    Assistant,
    BlockHead,
    DFlash,
    Drafter,
    DSpark,
    Eagle,
    Eagle3,
    LayerSkip,
    Medusa,
    Mtp,
    NGram,
    ParallelModel,
    PEagle,
    SeparateModel,
    Suffix,
    kinds,
    named,
    sampling_seconds,
)
from specmath.serving import ServedPair
from specmath.steptime import Placement
from specmath.steptime.coefficients import coefficients_for
from specmath.steptime.operators import shard

DATA = Path(__file__).parent / "data"
LLAMA_1B, LLAMA_8B, LLAMA_70B = (
    models.find(name) for name in ("Llama-3.2-1B", "Llama-3.1-8B", "Llama-3.1-70B")
)
DEEPSEEK = models.find("DeepSeek-V3")
H100 = "H100 SXM"
PLACE = Placement(LLAMA_8B, H100)
ALL: list[Drafter] = [
    SeparateModel(LLAMA_1B),
    ParallelModel(LLAMA_1B),
    LayerSkip(),
    NGram(),
    Eagle(),
    Eagle3(),
    Medusa(heads=8),
    BlockHead(),
    DFlash(),
    DSpark(),
    PEagle(),
    Assistant(),
    Suffix(),
]
SEQUENTIAL = [d for d in ALL if not d.parallel]
MT_BENCH_CONTEXT = 400  # prompts of about 100 tokens, answers of a few hundred


def cache_bytes(which: Drafter) -> float:
    """Bytes of cache that a drafter of the 8B adds for each token of a sequence."""
    own = which.cache_model(LLAMA_8B)
    return own.kv_bytes_per_token("bf16") if own else 0.0


def reported(source: str, prefix: str) -> tuple[np.ndarray, np.ndarray, float]:
    """(γ, s, plain tokens/s) of one reported series."""
    text = (DATA / "reported_step_costs.csv").read_text(encoding="utf-8").splitlines()
    rows = [
        row
        for row in csv.DictReader(line for line in text if not line.startswith("#"))
        if row["source"] == source and row["config"].startswith(prefix)
    ]
    gammas = [int(row["config"].split("K=")[1].split()[0]) for row in rows]
    costs = [float(row["implied_step_cost_ratio"]) for row in rows]
    return np.array(gammas), np.array(costs), float(rows[0]["base_tok_s"])


# Table of models in the README of SafeAILab/EAGLE, billions, two digits. Qwen2.5 has Qwen2's shape.
EAGLE_SIZES = {
    "Llama-2-7B": 0.24,
    "Llama-2-13B": 0.37,
    "Llama-2-70B": 0.99,
    "Llama-3.1-8B": 0.25,
    "Llama-3.1-70B": 0.99,
    "Mixtral-8x7B": 0.28,
    "Qwen2.5-7B": 0.26,
    "Qwen2.5-14B": 0.33,
}


@pytest.mark.parametrize(("target", "billions"), EAGLE_SIZES.items())
def test_eagle_heads_have_the_published_size(target: str, billions: float) -> None:
    """To 0.5% beyond the rounding to two digits (Qwen2.5-14B: 0.325 against "0.33")."""
    size = Eagle().weight_bytes(Placement(models.find(target), H100)) / 2 / 1e9
    assert size == pytest.approx(billions, abs=0.005 + 0.005 * billions)


def test_eagle_head_of_qwen_72b_is_a_known_miss() -> None:
    """Published 1.05 billion; from the target's shape 1.01, 3.6% fewer."""
    size = Eagle().weight_bytes(Placement(models.find("Qwen2.5-72B"), H100)) / 2 / 1e9
    assert size / 1.05 - 1 == pytest.approx(-0.036, abs=0.003)


def test_mtp_module_of_deepseek_v3_has_the_published_size() -> None:
    """11.5 billion parameters of its own (README of DeepSeek-V3), mostly in fp8."""
    place = Placement(DEEPSEEK, "H200 SXM", 8, None)
    assert Mtp().weight_bytes(place) == pytest.approx(11.5e9, rel=0.03)


def test_eagle3_head_by_hand() -> None:
    """h = 4096, 8 KV heads of 128, width 14336, 32000 rows: layer, 3h→h, 2h inputs, table."""
    h, kv, width = 4096, 2 * 8 * 128, 14336
    layer = h * h + h * kv + h * h + 3 * h * width
    wider, fusion, table = h * (h + kv), 3 * h * h, 32000 * h
    assert Eagle3().weight_bytes(PLACE) == 2 * (layer + wider + fusion + table)
    assert Eagle3().flops_per_token(LLAMA_8B) == 2 * (layer + wider + table)
    assert cache_bytes(Eagle3()) == 2 * kv


def test_medusa_and_block_heads_by_hand() -> None:
    h, vocab = LLAMA_8B.hidden, LLAMA_8B.vocab
    assert Medusa(heads=3).weight_bytes(PLACE) == 2 * 3 * (h * h + h * vocab)
    assert cache_bytes(Medusa()) == 0
    two, four = (BlockHead(layers=n).weight_bytes(PLACE) for n in (2, 4))
    assert four == 2 * two
    assert cache_bytes(BlockHead(layers=5)) == 5 * cache_bytes(Eagle())


def test_layers_and_vocabulary_of_a_head_by_hand() -> None:
    """One more layer is one more of the target's; a table of n rows is 2nh bytes a pass less."""
    h, layer = LLAMA_8B.hidden, 218_103_808
    one, two = Eagle3(), named("eagle3", layers=2)
    assert two.weight_bytes(PLACE) - one.weight_bytes(PLACE) == 2 * layer
    assert cache_bytes(two) == 2 * cache_bytes(one)
    wide = named("eagle3", draft_vocab=128256)
    saved = wide.pass_seconds(PLACE, 1, 1, 1024) - one.pass_seconds(PLACE, 1, 1, 1024)
    table = 2 * h * (128256 - 32000) / hardware.find(H100).bandwidth
    assert table < float(saved) < 1.6 * table
    cut = named("eagle", draft_vocab=32000)
    assert cut.weight_bytes(PLACE) == Eagle().weight_bytes(PLACE) + 2 * h * 32000
    assert named("eagle", weight_dtype="fp8").weight_bytes(PLACE) == pytest.approx(
        Eagle().weight_bytes(PLACE) / 2
    )


def test_a_draft_vocabulary_of_qwen3_8b() -> None:
    """152k → 32k rows took the γ=2 step of Qwen3-8B on an H100 from 8.92 to 8.26 ms, 0.66 less:
    two passes over a table of 119,936 rows fewer. To 10% of the difference."""
    place = Placement(models.find("Qwen3-8B"), H100)
    small, wide = (
        ServedPair(place, named("eagle3", draft_vocab=rows), 1, 1024) for rows in (32000, 151936)
    )
    less = float(wide.seconds(2) - small.seconds(2)) * 1e3
    assert less == pytest.approx(0.66, rel=0.1)


def test_block_heads_of_2026_by_hand() -> None:
    """DFlash: five layers and 5h→h. DSpark: a table that embeds the token before, and one that
    turns a rank of 256 into logits. P-EAGLE: four layers, 3h→h, 32,000 rows."""
    h, vocab, layer = LLAMA_8B.hidden, LLAMA_8B.vocab, 218_103_808
    assert DFlash().weight_bytes(PLACE) == 2 * (5 * layer + 5 * h * h)
    more = DSpark().weight_bytes(PLACE) - DFlash().weight_bytes(PLACE)
    assert more == 2 * 256 * 2 * vocab
    assert PEagle().weight_bytes(PLACE) == 2 * (4 * layer + 3 * h * h + 32000 * h)
    seconds = {g: float(DSpark().step_seconds(PLACE, g, 1, 1024)) for g in (1, 8)}
    flash = {g: float(DFlash().step_seconds(PLACE, g, 1, 1024)) for g in (1, 8)}
    markov = 2 * 256 * vocab / hardware.find(H100).bandwidth
    assert 7 * markov < seconds[8] - seconds[1] - (flash[8] - flash[1]) < 7 * (markov + 20e-6)
    # makora-ai/gemma4-26b-a4b-dspark: about 1.2 billion with a vocabulary of 32,000.
    gemma = Placement(models.find("Gemma-4-26B-A4B"), H100)
    size = named("dspark", draft_vocab=32000).weight_bytes(gemma) / 2 / 1e9
    assert 0.5 < size < 1.2


def test_an_assistant_reads_the_targets_cache() -> None:
    gemma = models.find("Gemma-4-26B-A4B")
    place, own = Placement(gemma, H100), Assistant()
    assert own.cache_model(gemma) is None
    assert own.prefill_place(place) is None
    layers = own.decoder(gemma)
    assert (layers.hidden, layers.layer_count, layers.vocab) == (1024, 4, gemma.vocab)
    assert layers.layers[-1].attention == gemma.layers[-1].attention
    near, far = (float(own.pass_seconds(place, 1, 16, n)) for n in (1024, 65536))
    assert far > near


def test_a_quantised_draft_reads_fewer_bytes() -> None:
    four, sixteen = named("Llama-3.2-1B", weight_dtype="int4"), named("Llama-3.2-1B")
    assert four.weight_bytes(PLACE) < 0.6 * sixteen.weight_bytes(PLACE)
    assert float(four.pass_seconds(PLACE, 1, 1, 1024)) < float(
        sixteen.pass_seconds(PLACE, 1, 1, 1024)
    )


def test_what_shares_the_targets_weights_adds_none() -> None:
    for shares in (LayerSkip(), NGram()):
        assert shares.weight_bytes(PLACE) == 0
        assert cache_bytes(shares) == 0


@pytest.mark.parametrize("which", ALL, ids=lambda d: d.kind)
def test_no_draft_costs_nothing_and_arrays_equal_scalars(which: Drafter) -> None:
    gamma, batch, context = np.arange(9), np.array([[1], [33]]), np.array([[[64]], [[9000]]])
    grid = which.step_seconds(PLACE, gamma, batch, context)
    assert grid.shape == (2, 2, 9)
    assert np.all(grid[..., 0] == 0)
    assert np.all(grid[..., 1:] > 0)
    for index in ((0, 0, 3), (1, 1, 8), (1, 0, 1)):
        i, j, k = index
        one = which.step_seconds(PLACE, gamma[k], batch[j, 0], context[i, 0, 0])
        assert float(one) == pytest.approx(float(grid[index]), rel=1e-12)


@pytest.mark.parametrize("which", SEQUENTIAL, ids=lambda d: d.kind)
def test_sequential_drafters_pay_every_token(which: Drafter) -> None:
    """Each further token costs one pass; at batch 1 the wider first pass is nearly free."""
    seconds = which.step_seconds(PLACE, np.arange(1, 9), 1, 1024)
    one = float(which.pass_seconds(PLACE, 1, 1, 1024))
    np.testing.assert_allclose(np.diff(seconds), one, rtol=0.01)


def test_parallel_drafters_pay_one_pass() -> None:
    for which in (ParallelModel(LLAMA_1B), BlockHead()):
        seconds = which.step_seconds(PLACE, np.array([1, 8]), 1, 1024)
        assert seconds[1] == pytest.approx(seconds[0], rel=0.02)
        assert which.passes(8) == 1
    assert NGram().passes(8) == 0


def test_medusa_reads_a_table_a_head() -> None:
    """One pass, but γ output tables of 2hV bytes: no faster than the bandwidth allows."""
    seconds = Medusa().step_seconds(PLACE, np.array([1, 4]), 1, 1024)
    table = 2 * LLAMA_8B.hidden * LLAMA_8B.vocab / hardware.find(H100).bandwidth
    assert seconds[1] == pytest.approx(4 * seconds[0])
    assert table < seconds[0] < 1.6 * table
    with pytest.raises(InputError, match="gamma must be a whole number >= 0 and <= 5, got 6"):
        Medusa(heads=5).step_seconds(PLACE, 6, 1, 1024)


def test_a_separate_model_is_its_own_plain_step() -> None:
    expected = Placement(LLAMA_1B, H100).step(4, 1, 2000).total
    expected = expected + sampling_seconds(H100, 4, LLAMA_1B.vocab)
    found = SeparateModel(LLAMA_1B).step_seconds(PLACE, 3, 4, 2000)
    assert float(found) == pytest.approx(3 * float(expected))


def test_the_draft_keeps_its_own_tensor_parallel() -> None:
    wide = replace(PLACE, model=LLAMA_70B, tensor_parallel=4)
    alone = SeparateModel(LLAMA_1B)
    assert alone.gpus(wide) == 1
    assert float(alone.step_seconds(wide, 4, 8, 1024)) == float(
        alone.step_seconds(PLACE, 4, 8, 1024)
    )
    assert SeparateModel(LLAMA_1B, tensor_parallel=2).gpus(wide) == 2


def test_layer_skip_approaches_the_target() -> None:
    whole_target = LayerSkip(share=1.0).pass_seconds(PLACE, 1, 1, 1024)
    plain = PLACE.step(1, 1, 1024).total
    assert float(whole_target - sampling_seconds(H100, 1, LLAMA_8B.vocab)) == float(plain)
    assert LayerSkip(1.0).flops_per_token(LLAMA_8B) == LLAMA_8B.flops_per_token
    # Llama-2-7B, 8 of 32 layers and the head: (8 layers + head) / (32 layers + head).
    llama2 = models.find("Llama-2-7B")
    layer = sum(g.active_matmul_parameters(llama2.hidden) for g in llama2.layers) / 32
    head = llama2.head_parameters
    share = LayerSkip().flops_per_token(llama2) / llama2.flops_per_token
    assert share == pytest.approx((8 * layer + head) / (32 * layer + head))


def test_a_one_layer_head_is_not_1_over_32() -> None:
    """Trap 5: c of an EAGLE head on an 8B was measured at 0.10-0.14; the forward alone has 0.09."""
    cost = ServedPair(PLACE, Eagle(), 1, MT_BENCH_CONTEXT)
    assert 2.5 / 32 < cost.c < 0.105
    assert cost.c_hat == pytest.approx((2 * (218.1e6 + 33.6e6 + 525.3e6)) / 15.0e9, rel=0.02)


def test_fit_of_the_reported_eagle_series() -> None:
    for prefix, intercept, slope in (("EAGLE1", 1.087, 0.105), ("EAGLE3", 1.181, 0.144)):
        gammas, costs, _ = reported("vllm#20780", prefix)
        fitted = np.polyfit(gammas, costs, 1)
        np.testing.assert_allclose(fitted, [slope, intercept], atol=5e-4)
        assert np.abs(costs - np.polyval(fitted, gammas)).max() < 0.045


def eagle_parts(which: Drafter, prefix: str) -> dict[str, float]:
    """Reported slope and intercept in ms, what the roofline gives of them, and what is left."""
    gammas, costs, per_second = reported("vllm#20780", prefix)
    slope, intercept = np.polyfit(gammas, costs, 1) * 1e3 / per_second
    forwards = ServedPair(PLACE, which, 1, MT_BENCH_CONTEXT, engines.named("none"))
    drawn = (forwards.seconds(gammas) - forwards.plain_seconds) * 1e3
    roof_slope, roof_intercept = np.polyfit(gammas, drawn, 1)
    return {
        "host": 1e3 / per_second - forwards.plain_seconds * 1e3,
        "drafting": float(roof_slope),
        "pass": float(slope - roof_slope),
        "step": float(intercept - 1e3 / per_second - roof_intercept),
    }


def test_overheads_of_vllm_are_what_eagle_leaves_unexplained() -> None:
    """Of EAGLE's slope (0.74 ms) four fifths are the head's forwards; the intercept is overhead."""
    parts, used = eagle_parts(Eagle(), "EAGLE1"), engines.named("vllm")
    assert parts["drafting"] / (parts["drafting"] + parts["pass"]) == pytest.approx(0.8, abs=0.05)
    assert parts["host"] == pytest.approx(used.host * 1e3, abs=0.08)
    assert parts["pass"] == pytest.approx(used.pass_ * 1e3, abs=0.04)
    assert parts["step"] == pytest.approx(used.step * 1e3, abs=0.05)


def test_eagle_is_reproduced_and_eagle3_is_a_known_miss() -> None:
    """EAGLE within 1.5% (it set its own overheads). EAGLE-3 up to 11% too cheap here: a later vLLM
    on an A100, where the same head cost next to nothing, pulls the other way. Both heads ran in
    CUDA graphs. Known miss, not tuned away.
    """
    gammas, costs, _ = reported("vllm#20780", "EAGLE1")
    own = ServedPair(PLACE, Eagle(), 1, MT_BENCH_CONTEXT).total(gammas)
    np.testing.assert_allclose(own, costs, rtol=0.015)

    gammas, costs, _ = reported("vllm#20780", "EAGLE3")
    predicted = ServedPair(PLACE, Eagle3(), 1, MT_BENCH_CONTEXT).total(gammas)
    miss = predicted / costs - 1
    assert miss.min() == pytest.approx(-0.10, abs=0.02)
    assert miss.max() == pytest.approx(-0.02, abs=0.02)


def test_eagle3_on_a_mixture_is_a_known_miss() -> None:
    """SpecForge issue 339, Qwen3-30B-A3B, 3 steps of a chain at batch 1 in SGLang: s = 2.59.

    The GPU is not named; as an H100 with vLLM's overheads this says 1.9, 27% too cheap: verifying
    and drafting for a mixture cost that server far more than its forwards do.
    """
    cost = ServedPair(Placement(models.find("Qwen3-30B-A3B"), H100), Eagle3(), 1, 1024)
    assert float(cost.total(3)) / 2.59 - 1 == pytest.approx(-0.27, abs=0.05)


def test_eager_head_before_it_was_captured() -> None:
    """vLLM pull request 16035: K = 2 and 4 on the 8B, head not compiled. Two points set three
    numbers, so this checks the arithmetic of the record, no more. To 2%."""
    rows = {2: 1.385, 4: 1.615}
    cost = ServedPair(PLACE, Eagle(), 1, MT_BENCH_CONTEXT, engines.named("vllm-eager-draft"))
    assert 1 / cost.plain_seconds == pytest.approx(128.64, rel=0.01)
    np.testing.assert_allclose(cost.total(np.array([2, 4])), list(rows.values()), rtol=0.02)


def test_without_cuda_graphs_launches_bound_the_draft_from_below() -> None:
    """At 50 us a kernel a 1B draft takes launches x 50 us, however fast the GPU; at the default
    5 us its forward is longer than that, and capturing makes no difference."""
    slow_host = {"bf16": replace(coefficients_for(H100, "bf16"), eager_kernel_us=50.0)}
    eager = replace(PLACE, graph_sizes=(0,), coefficients=slow_host)
    kernels = shard(LLAMA_1B, 1).launches
    sampling = float(sampling_seconds(H100, 1, LLAMA_1B.vocab))
    small = SeparateModel(LLAMA_1B)
    found = float(small.pass_seconds(eager, 1, 1, 1024))
    assert found == pytest.approx(kernels * 50e-6 + sampling)
    captured = float(small.pass_seconds(PLACE, 1, 1, 1024))
    assert kernels * 5e-6 < captured < found / 2
    default = float(small.pass_seconds(replace(PLACE, graph_sizes=(0,)), 1, 1, 1024))
    assert default == pytest.approx(captured)


def test_every_default_has_a_source() -> None:
    for kind in kinds().values():
        assert kind.sources["coverage"]
        assert all(text for text in kind.sources.values())
    assert all(overhead.source for overhead in engines.catalogue().values())
    assert set(kinds()) == {
        "separate", "parallel_model", "layer_skip", "ngram", "suffix", "eagle", "eagle3", "mtp",
        "assistant", "medusa", "block", "dflash", "dspark", "p-eagle",
    }  # fmt: skip


def test_names_find_their_drafter_or_the_nearest() -> None:
    assert named("eagle3") == Eagle3()
    assert named("Llama-3.2-1B", 2) == SeparateModel(LLAMA_1B, 2)
    assert named("pard:Llama-3.2-1B") == ParallelModel(LLAMA_1B)
    assert named("p-eagle", layers=2) == PEagle(layers=2)
    with pytest.raises(InputError, match=r"draft=suffix does not use draft_layers"):
        named("suffix", layers=2)
    with pytest.raises(InputError, match=r"draft=separate does not use draft_vocab"):
        named("Llama-3.2-1B", draft_vocab=32000)
    with pytest.raises(InputError, match=r"draft must be a model or one of .*eagle3.*'eagle4'"):
        named("eagle4")
    with pytest.raises(InputError, match=r"draft_tensor_parallel must divide heads"):
        named("Llama-3.2-1B", 3)
    with pytest.raises(InputError, match=r"engine must be one of vllm, .*, got 'ollama'"):
        engines.named("ollama")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("layer_skip", {"share": 0.0}),
        ("layer_skip", {"share": 1.5}),
        ("ngram", {"coverage": -0.1}),
        ("ngram", {"lookup_seconds": -1.0}),
        ("medusa", {"heads": 0}),
        ("block", {"layers": 0}),
        ("eagle", {"weight_dtype": "bf17"}),
        ("eagle3", {"draft_vocab": 0}),
        ("separate", {"model": LLAMA_1B, "tensor_parallel": 0}),
    ],
)
def test_bad_options_are_refused_by_name(kind: str, options: dict[str, object]) -> None:
    name = next(key for key in reversed(options))
    with pytest.raises(InputError, match=name):
        kinds()[kind](**options)


def test_mtp_needs_a_target_that_has_one() -> None:
    with pytest.raises(InputError, match=r"Llama-3.1-8B with none"):
        Mtp().step_seconds(PLACE, 2, 1, 1024)
