"""How a row's own spellings become the inputs of a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from specmath import Scenario
from specmath.published.case import Case, Table, said_of, shipped
from specmath.published.nearest import coverage_of, nearest
from specmath.published.scenario import Unscorable, from_served, gpu_of
from specmath.published.score import score
from specmath.words.published import coverage_words, nearest_sentence

CASE = Case(
    id="a", kind="speculative", source="us", citation="us", model="Llama-3.1-8B",
    hardware="H100", engine="vLLM", measured={"speedup": 2.0}, cells={}, drafter="eagle3",
    tau=2.5, gamma=3, concurrency=4, prompt_tokens=1000, output_tokens=100,
)  # fmt: skip


@pytest.mark.parametrize(
    ("written", "name", "count"),
    [
        ("H100", "H100 SXM", None),
        ("8xH100", "H100 SXM", 8),
        ("1x H200", "H200 SXM", 1),
        ("MI355X TP4", "MI355X", 4),
        ("2xA100-80GB TP2 BF16", "A100 80GB SXM", 2),
        ("RTX 5090 (400 W cap)", "RTX 5090", None),
        ("A100-SXM4-80GB", "A100 80GB SXM", None),
        ("b200_sxm", "B200 SXM", None),
    ],
)
def test_hardware_as_written(written: str, name: str, count: int | None) -> None:
    assert gpu_of(written) == (name, count)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("", "no gpu"),
        ("not seen", "no gpu"),
        ("1-thread CPU", "gpu"),
        ("A100 / RTX3090 (paper)", "gpu"),
        ("2x Tesla P40 (tensor split)", "split"),
        ("RTX 5060 Laptop 8GB (offload)", "split"),
        ("4xSM80 PCIe2 x4, PP=4", "split"),
    ],
)
def test_hardware_that_cannot_be_computed(written: str, code: str) -> None:
    with pytest.raises(Unscorable) as caught:
        gpu_of(written)
    assert caught.value.reason.code == code


def test_the_inputs_of_a_row() -> None:
    fields = from_served(replace(CASE, gpus=2, precision="fp8"))
    assert fields["tokens_per_step"] == 2.5
    assert (fields["gamma"], fields["measured_gamma"]) == (3, 3)
    assert (fields["gpu"], fields["model"], fields["draft"]) == (
        "H100 SXM", "Llama-3.1-8B", "eagle3",
    )  # fmt: skip
    assert (fields["tensor_parallel"], fields["weight_dtype"]) == (2, "fp8")
    Scenario(**fields)


@pytest.mark.parametrize(
    ("begins", "engine", "cache"),
    [
        ("2026_04_06_llama_3_1_70b_h100_sxm", "vllm", "fp8"),  # 70b_fp8_h100_slurm.sh
        ("2026_04_06_llama_3_1_70b_b200_sxm", "tensorrt-llm", "fp8"),  # 70b_fp4_b200_trt_slurm.sh
        ("2026_03_25_deepseek_r1_h200_sxm", "sglang", "bf16"),  # dsr1_fp8_h200.sh
        ("2026_03_25_deepseek_r1_h200_sxm", "tensorrt-llm", "fp8"),  # dsr1_fp8_h200_trt.sh
        ("2026_03_25_minimax_m2_5_h100_sxm", "vllm-async", "bf16"),  # minimaxm2.5_fp8_h100.sh
        ("qwen3_5_b200_sglang_bf16", "sglang", "bf16"),  # qwen3.5_bf16_b200.sh
    ],
)
def test_servers_of_inferencex_ran_as_their_scripts_say(
    begins: str, engine: str, cache: str
) -> None:
    """The cache as it was launched; lengths drawn from 0.8 to 1 of those named, 0.9 in the mean."""
    rows = [case for case in shipped() if case.id.startswith(begins)]
    found = [(case, from_served(case)) for case in rows]
    found = [(case, fields) for case, fields in found if fields["engine"] == engine]
    assert len(found) > 5
    for case, fields in found:
        assert fields["kv_dtype"] == cache, case.id
        for name in ("prompt_tokens", "output_tokens"):
            assert fields[name] == pytest.approx(0.9 * getattr(case, name), abs=0.5)


def test_a_row_of_ones_own_is_as_it_says() -> None:
    fields = from_served(replace(CASE, cells={"id": "2026_05_01_mine"}, precision="fp8"))
    assert (fields["kv_dtype"], fields["prompt_tokens"]) == ("bf16", 1000)
    bare = replace(CASE, prompt_tokens=None, cells={"id": "dsr1_mine"})
    assert from_served(bare)["output_tokens"] == 90


@pytest.mark.parametrize(
    ("model", "precision", "stored"),
    [
        ("Llama-3.1-8B", "", "native"),
        ("Llama-3.1-8B", "bf16", "native"),
        ("Llama-3.1-8B", "fp8", "fp8"),
        ("gpt-oss-120b", "bf16", "native"),  # its own storage, mxfp4, wins
        ("gpt-oss-120b", "fp8", "native"),
        ("DeepSeek-V3", "fp8", "native"),
        ("DeepSeek-V3", "fp8_block", "native"),
    ],
)
def test_a_checkpoints_own_storage_wins(model: str, precision: str, stored: str) -> None:
    assert from_served(replace(CASE, model=model, precision=precision))["weight_dtype"] == stored


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tau": None}, "no acceptance"),
        ({"gamma": None}, "no gamma"),
        ({"depth": 5}, "tree"),
        ({"concurrency": None, "load": "QPS=2"}, "load"),
        ({"drafter": "hydra"}, "drafter"),
        ({"drafter": "draft-model", "draft_model": "T5-small"}, "draft model"),
        ({"model": "Chinchilla 70B"}, "model"),
        ({"model": "not seen"}, "no model"),
        ({"source": "MagicDec, Table 1"}, "sparse draft cache"),
        ({"tau": 9.0}, "refused"),
        ({"precision": "q2"}, "refused"),
    ],
)
def test_what_is_not_known_is_named(change: dict[str, object], code: str) -> None:
    case = replace(CASE, **change)  # type: ignore[arg-type]
    with pytest.raises(Unscorable) as caught:
        from_served(case)
    assert caught.value.reason.code == code


def test_every_table_of_sources_matches_a_row() -> None:
    """An entry that no row of the record needs is stale."""
    for table in get_args(Table):
        assert len({said_of(table, case) for case in shipped()}) > 1, table


# ── nearest ──────────────────────────────────────────────────────────────────────────────────

ASKED = Scenario(alpha=0.7, gamma=3, gpu="H100 SXM", model="Llama-3.1-8B", draft="eagle")


def test_the_nearest_row_is_the_same_pair_where_there_is_one() -> None:
    near = nearest(ASKED)
    assert near[0].scored.case.drafter == "eagle"
    assert near[0].scored.case.gamma == 3
    assert near[0].distance == 0
    assert [n.distance for n in near] == sorted(n.distance for n in near)
    assert len({n.scored.case.source for n in near}) == len(near)
    said = nearest_sentence(near)
    assert said.startswith("Closest measured case: Llama-3.1-8B-Instruct with eagle, γ=3 on H100")
    assert f"{near[0].scored.measured:.2f}× measured" in said


def test_without_hardware_nothing_is_near() -> None:
    own = Scenario(alpha=0.7, gamma=3, c=0.1)
    assert nearest(own) == ()
    assert nearest_sentence(()) == ""
    assert coverage_of(own, []) is None


def test_covered_extrapolated_refused() -> None:
    found = score(case for case in shipped() if case.speculates)
    covered = coverage_of(ASKED, found)
    assert covered is not None
    assert covered.state == "covered"
    other_gpu = coverage_of(ASKED.model_copy(update={"gpu": "L4"}), found)
    assert other_gpu is not None
    assert (other_gpu.state, other_gpu.rows) == ("extrapolated", 0)
    nobody = coverage_of(ASKED.model_copy(update={"draft": "layer_skip"}), found)
    assert nobody is not None
    assert (nobody.state, nobody.drafter) == ("refused", 0)
    for each, word in ((covered, "Covered"), (other_gpu, "Extrapolated"), (nobody, "Not measured")):
        assert coverage_words(each).startswith(word)


@pytest.mark.parametrize(
    ("written", "engine"),
    [
        ("vLLM 0.24.0 H100", "vllm"),
        ("trtllm 1.0.0rc3", "tensorrt-llm"),
        ("llama.cpp RTX 3090", "llamacpp-cuda"),
        ("llama.cpp RX 7900 GRE 16GB (Vulkan)", "llamacpp-vulkan"),
        ("llama.cpp Mac Studio M3 Ultra 96GB (Metal)", "llamacpp-metal"),
        ("mlx_lm Apple M4 16GB", "mlx"),
        ("a server of our own", "other"),
        ("", "other"),
    ],
)
def test_engines_as_written(written: str, engine: str) -> None:
    fields = from_served(replace(CASE, engine=written))
    assert fields["engine"] == engine
    Scenario(**fields)
