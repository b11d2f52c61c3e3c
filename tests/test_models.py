"""Models against published parameter counts, and caches, FLOPs and bytes worked by hand."""

from __future__ import annotations

import csv
import dataclasses
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from specmath import models
from specmath.checks import InputError
from specmath.models import Attention

DATA = Path(__file__).parent / "data"
REFUSED = {"DeepSeek-V4-Flash": "compressed sparse attention"}
CONFIGS = sorted((DATA / "model_configs").glob("*.json"))
PUBLISHED = list(csv.DictReader((DATA / "published_parameters.csv").open(encoding="utf-8")))


def config(name: str) -> dict:
    return json.loads((DATA / f"model_configs/{name}.json").read_text(encoding="utf-8"))


def elements_read(model: models.Model, context: int) -> float:
    """Cache elements that one query reads in all layers."""
    return sum(g.count * float(g.attention.kv_elements_read(context)) for g in model.layers)


def attention_flops(model: models.Model, context: int) -> float:
    """FLOPs of one query's attention over the context in all layers."""
    return sum(g.count * float(g.attention.context_flops(context)) for g in model.layers)


# --- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["model"])
def test_total_parameters_match_the_published(row):
    model = models.find(row["model"])
    printed = row["total_billion"]
    half_unit = 0.5e9 * 10.0 ** -(len(printed.partition(".")[2]))  # "4" is known to a half
    within = max(0.02e9 * float(printed), half_unit)
    assert model.parameters == pytest.approx(1e9 * float(printed), abs=within)
    if row["exact_total"]:
        assert model.parameters == int(row["exact_total"])
    if row["non_embedding_billion"]:
        tables = model.vocab * model.hidden * (1 if model.tied_embeddings else 2)
        assert model.parameters - tables == pytest.approx(
            1e9 * float(row["non_embedding_billion"]), rel=0.02
        )


# Published active count not reproduced within 2%, and by how much (relative): DeepSeek-V2's paper
# prints 2.4B to two digits; counted without the input table it is 2.451B.
ACTIVE_MISSES = {"DeepSeek-V2-Lite": 0.0214}


@pytest.mark.parametrize(
    "row", [row for row in PUBLISHED if row["active_billion"]], ids=lambda row: row["model"]
)
def test_active_parameters_match_the_published(row):
    """Publishers count both embedding tables, the output one, or none: the table says which."""
    model = models.find(row["model"])
    printed = row["active_billion"]
    left_out = 0 if model.tied_embeddings else 2 - int(row["active_tables"][0])
    ours = (model.active_parameters - left_out * model.vocab * model.hidden) / 1e9
    # "3" or "10" is known to half a unit of its last digit only.
    half_unit = 0.5 * 10.0 ** -(len(printed.partition(".")[2]))
    within = max(0.02 * float(printed), half_unit)
    if row["model"] in ACTIVE_MISSES:
        assert ours / float(printed) - 1 == pytest.approx(ACTIVE_MISSES[row["model"]], abs=2e-4)
    else:
        assert ours == pytest.approx(float(printed), abs=within)


def test_published_table_covers_the_catalogue_and_cites_everything():
    # Models that share another's shape are counted with it.
    entries = tomllib.loads((DATA.parents[1] / "specmath/data/models.toml").read_text("utf-8"))
    shapes = {n for n, entry in entries.items() if not {"base", "refused"} & set(entry)}
    assert {row["model"] for row in PUBLISHED} == shapes
    for row in PUBLISHED:
        assert row["citation"]
        assert row["total_includes"]


def tensors(c: dict) -> list[tuple[int, ...]]:
    """Shapes of all tensors of a Llama or Mixtral checkpoint, written down one by one."""
    h, f, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    d = c.get("head_dim") or h // heads
    found = [(c["vocab_size"], h), (h,)]
    if not c["tie_word_embeddings"]:
        found.append((c["vocab_size"], h))
    for _ in range(c["num_hidden_layers"]):
        found += [(heads * d, h), (c["num_key_value_heads"] * d, h)]
        found += [(c["num_key_value_heads"] * d, h), (h, heads * d), (h,), (h,)]
        if "num_local_experts" in c:
            found.append((c["num_local_experts"], h))
        for _ in range(c.get("num_local_experts", 1)):
            found += [(f, h), (f, h), (h, f)]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_parameters_equal_the_sum_over_tensors(seed):
    rng = np.random.default_rng(seed)
    kv_heads = int(rng.integers(1, 9))
    c = {
        "model_type": "llama",
        "hidden_size": int(rng.integers(64, 4096)),
        "intermediate_size": int(rng.integers(64, 16384)),
        "num_hidden_layers": int(rng.integers(1, 50)),
        "num_attention_heads": kv_heads * int(rng.integers(1, 8)),
        "num_key_value_heads": kv_heads,
        "head_dim": int(rng.integers(16, 256)),
        "vocab_size": int(rng.integers(1000, 200_000)),
        "tie_word_embeddings": bool(rng.integers(2)),
    }
    if seed % 2:
        c |= {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    model = models.from_config(c)
    assert model.parameters == sum(int(np.prod(shape)) for shape in tensors(c))
    # Two FLOPs for every matrix element a token meets: not the input table, not idle experts.
    idle = 6 * 3 * c["hidden_size"] * c["intermediate_size"] * c["num_hidden_layers"]
    matrices = sum(int(np.prod(shape)) for shape in tensors(c) if len(shape) == 2)
    matrices -= 0 if model.tied_embeddings else model.vocab * model.hidden
    assert model.flops_per_token == 2 * (matrices - (idle if seed % 2 else 0))


@pytest.mark.parametrize(
    ("c", "total"),
    [
        # GPT-2 small, Radford et al. 2019: 124M; learned positions, biases, tied.
        (
            {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}
            | {"n_positions": 1024, "vocab_size": 50257, "n_inner": None},
            124_439_808,
        ),
        # OPT-125M, arXiv 2205.01068; positions offset by two.
        (
            {"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12, "ffn_dim": 3072}
            | {"num_attention_heads": 12, "max_position_embeddings": 2048, "vocab_size": 50272},
            125_239_296,
        ),
        # Pythia-160M, arXiv 2304.01373: 162,322,944 parameters, untied.
        (
            {"model_type": "gpt_neox", "hidden_size": 768, "num_hidden_layers": 12}
            | {"intermediate_size": 3072, "num_attention_heads": 12, "vocab_size": 50304}
            | {"max_position_embeddings": 2048, "tie_word_embeddings": False},
            162_322_944,
        ),
        # Gemma-3-4B's text, arXiv 2503.19786, table 1: 3,209M + 675M; fields left to defaults.
        (
            {"model_type": "gemma3", "vision_config": {}}
            | {
                "text_config": {
                    "model_type": "gemma3_text",
                    "hidden_size": 2560,
                    "intermediate_size": 10240,
                    "num_hidden_layers": 34,
                    "sliding_window": 1024,
                }
            },
            pytest.approx(3_884e6, rel=0.002),
        ),
        # Llama-4-Maverick, model card: 400B (with about 0.9B of vision); every second layer dense.
        (
            {
                "text_config": config("meta-llama--Llama-4-Scout-17B-16E-Instruct")["text_config"]
                | {"num_local_experts": 128, "interleave_moe_layer_step": 2}
            },
            pytest.approx(400e9, rel=0.005),
        ),
    ],
    ids=["gpt2", "opt-125m", "pythia-160m", "gemma-3-4b", "llama-4-maverick"],
)
def test_other_families(c, total):
    assert models.from_config(c).parameters == total


def test_mtp_module_of_deepseek_v3():
    """README_WEIGHTS.md of the checkpoint: it comes with one, which is not in the 671B."""
    model = models.find("DeepSeek-V3")
    assert model.mtp_layers == 1
    assert any("multi-token-prediction" in note for note in model.notes)
    assert models.find("Llama-3.1-8B").mtp_layers == 0


def test_multimodal_config_says_what_is_not_counted():
    assert "text_config" in models.find("Gemma-4-26B-A4B").notes[0]


# --- layers -----------------------------------------------------------------------------------


def layer_kinds(model) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in model.layers:
        key = f"{group.attention.kind}/{'moe' if group.mlp.experts else 'dense'}"
        found[key] = found.get(key, 0) + group.count
    return found


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("Llama-3.1-8B", {"full/dense": 32}),
        ("DeepSeek-V3", {"mla/dense": 3, "mla/moe": 58}),
        ("Kimi-K2", {"mla/dense": 1, "mla/moe": 60}),
        ("GLM-5", {"mla/dense": 3, "mla/moe": 75}),
        ("gpt-oss-20b", {"sliding/moe": 12, "full/moe": 12}),
        ("Gemma-2-9B", {"sliding/dense": 21, "full/dense": 21}),
        ("Gemma-3-27B", {"sliding/dense": 52, "full/dense": 10}),
        ("Gemma-4-26B-A4B", {"sliding/moe": 25, "full/moe": 5}),
        ("Qwen3.5-35B-A3B", {"linear/moe": 30, "full/moe": 10}),
        ("Llama-4-Scout", {"sliding/moe": 36, "full/moe": 12}),
        ("Qwen2.5-7B", {"full/dense": 28}),  # states a window and has it off
    ],
)
def test_kinds_of_layers(name, kinds):
    assert layer_kinds(models.find(name)) == kinds


# --- cache ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("Llama-3.1-8B", 32 * 2 * 8 * 128 * 2),
        ("Llama-3.1-70B", 80 * 2 * 8 * 128 * 2),
        ("Llama-3.2-1B", 16 * 2 * 8 * 64 * 2),
        ("DeepSeek-V3", 61 * (512 + 64) * 2),
        ("Kimi-K2", 61 * (512 + 64) * 2),
        ("GLM-5", 78 * (512 + 64 + 128) * 2),  # the indexer's key beside the latent
        ("Qwen3.5-35B-A3B", 10 * 2 * 2 * 256 * 2),  # only the full layers
        ("Gemma-4-26B-A4B", (25 * 2 * 8 * 256 + 5 * 2 * 2 * 512) * 2),
    ],
)
def test_kv_bytes_per_token_by_hand(name, by_hand):
    model = models.find(name)
    assert model.kv_bytes_per_token("bf16") == by_hand
    assert model.kv_bytes_per_token("fp8") == by_hand / 2


def test_known_kv_figures():
    assert models.find("Llama-3.1-8B").kv_bytes_per_token() == 131072
    assert models.find("Llama-3.1-70B").kv_bytes_per_token() == 327680
    assert models.find("DeepSeek-V3").kv_bytes_per_token() == 70272


def test_windows_stop_growing():
    model = models.find("Gemma-2-9B")
    one_layer = 2 * 8 * 256 * 2
    assert model.kv_bytes(8192) == 21 * one_layer * (8192 + 4096)
    assert model.kv_bytes(1000) == 42 * one_layer * 1000
    gpt = models.find("gpt-oss-20b")
    assert gpt.kv_bytes(100_000) == 12 * (2 * 8 * 64 * 2) * (100_000 + 128)


def test_linear_attention_has_a_constant_state():
    model = models.find("Qwen3.5-35B-A3B")
    matrix, convolution = 32 * 128 * 128, (2 * 16 * 128 + 32 * 128) * 3
    assert model.state_bytes() == 30 * 4 * (matrix + convolution)
    assert model.kv_bytes(0) == model.state_bytes()
    assert model.kv_bytes(1000) - model.kv_bytes(0) == 1000 * model.kv_bytes_per_token()


def test_layers_that_share_an_index_store_and_score_none():
    """GLM-5.2: 21 of 78 layers have an indexer; its key of 128 is cached there only."""
    model = models.find("GLM-5.2")
    own = [g.count for g in model.layers if g.attention.index_heads]
    assert (sum(own), model.layer_count) == (21, 78)
    assert model.kv_bytes(100_000) == 2 * 100_000 * (78 * 576 + 21 * 128)
    assert elements_read(model, 100_000) == 78 * 576 * 2048 + 21 * 128 * 100_000
    # An indexer: 32 queries of 128 from 2048, a key and 32 weights from 6144, two norms of 128.
    indexer = 2048 * 32 * 128 + 6144 * (128 + 32) + 2 * 128
    assert models.find("GLM-5").parameters - model.parameters == 57 * indexer


def test_windowed_layers_with_heads_of_their_own():
    """MiMo-V2-Flash: 9 full layers of 4 key heads, 39 with 8 and a window of 128; keys 192 wide,
    values 128."""
    model = models.find("MiMo-V2-Flash")
    assert model.kv_bytes(10_000) == 2 * (192 + 128) * (9 * 4 * 10_000 + 39 * 8 * 128)


def test_sparse_index_reads_less_than_it_stores():
    model = models.find("GLM-5")
    assert model.kv_bytes(100_000) == 78 * 2 * 704 * 100_000
    assert elements_read(model, 100_000) == 78 * (576 * 2048 + 128 * 100_000)
    assert 2 * elements_read(model, 1000) == model.kv_bytes(1000)
    llama = models.find("Llama-3.1-8B")
    assert 2 * elements_read(llama, 5000) == llama.kv_bytes(5000)


@pytest.mark.parametrize("name", sorted(models.catalogue()))
def test_context_broadcasts_and_nothing_shrinks(name):
    model = models.find(name)
    context = np.array([[0, 1, 127], [5000, 131072, 10**6]])
    functions = [model.kv_bytes]
    for group in model.layers:
        functions += [group.attention.kv_elements_read, group.attention.context_flops]
    for of_context in functions:
        values = of_context(context)
        assert values.shape == context.shape
        assert (np.diff(values.ravel()) >= 0).all()
        assert values[1, 0] == of_context(5000)


def test_attention_flops_by_hand():
    # Two products (scores, weighted sum), a multiplication and an addition for each element.
    assert attention_flops(models.find("Llama-3.1-8B"), 1000) == 32 * 4 * 32 * 128 * 1000
    # Absorbed MLA: 128 heads score 576 and sum 512 elements of every cached token.
    assert attention_flops(models.find("DeepSeek-V3"), 1000) == 61 * 2 * 128 * (576 + 512) * 1000
    # Linear: 7 for each element of the state, 2 for each tap of the convolution, at any context.
    state, taps = 32 * 128 * 128, (2 * 16 * 128 + 32 * 128) * 4
    qwen = models.find("Qwen3.5-35B-A3B")
    assert attention_flops(qwen, 0) == 30 * (7 * state + 2 * taps)
    assert attention_flops(qwen, 100) - attention_flops(qwen, 0) == 10 * 4 * 16 * 256 * 100
    # Sparse index: 32 heads score 128 elements of every token, attention only the best 2048.
    glm = attention_flops(models.find("GLM-5"), 10_000)
    assert glm == 78 * 2 * (32 * 128 * 10_000 + 64 * (576 + 512) * 2048)
    gemma = models.find("Gemma-2-9B")
    assert attention_flops(gemma, 10_000) == 21 * 4 * 16 * 256 * (10_000 + 4096)


# --- bytes of weights -------------------------------------------------------------------------


def test_weight_bytes_of_checkpoints():
    # Sizes printed in the gpt-oss model card (arXiv 2508.10925, table 1): 12.8 and 60.8 GiB.
    assert models.find("gpt-oss-20b").weight_bytes() / 2**30 == pytest.approx(12.8, abs=0.05)
    assert models.find("gpt-oss-120b").weight_bytes() / 2**30 == pytest.approx(60.8, abs=0.05)
    # Everything in 16 bits.
    llama = models.find("Llama-3.1-8B")
    assert llama.weight_bytes() == 2 * 8_030_261_248
    assert llama.weight_bytes("fp16") == llama.weight_bytes()


def test_what_a_quantisation_leaves_alone():
    llama = models.find("Llama-3.1-8B")
    tables = 2 * llama.vocab * llama.hidden
    norms = (2 * 32 + 1) * llama.hidden
    matrices = llama.parameters - tables - norms
    assert llama.weight_bytes("fp8") == 2 * (tables + norms) + matrices
    # AWQ: 4 bits, and a 16-bit scale and a 4-bit zero a group of 128.
    assert llama.weight_bytes("int4") == 2 * (tables + norms) + matrices * (4 + 20 / 128) / 8
    deepseek = models.find("DeepSeek-V3")
    assert deepseek.weight_dtype == "fp8"
    assert deepseek.weight_bytes("bf16") == 2 * deepseek.parameters


def test_fp32_checkpoints_are_counted_in_16_bits():
    model = models.find("Llama-68M")
    assert model.weight_bytes() == 2 * model.parameters
    assert "fp32" in model.notes[0]


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        # Files as their publishers list them. llama.cpp's own table for Llama-3.1-8B is in GiB.
        ("Llama-3.1-8B-Q4_K_M", 4.58 * 1.0737), ("Llama-3.1-8B-Q8_0", 7.95 * 1.0737),
        ("Llama-3.1-8B-IQ2_XXS", 2.23 * 1.0737), ("Llama-3.1-8B-Q2_K", 2.95 * 1.0737),
        # The same README: 43.1 GB and 249.1 GB, of files with 70.55 and 405.85 billion weights.
        ("Llama-3.1-70B-Q4_K_M", 43.1), ("Llama-3.1-405B-Q4_K_M", 249.1),
        # unsloth/Qwen3.8-27B-GGUF in GiB; its MTP layer (0.4B) is in the file, not in ours.
        ("Qwen3.8-27B-Q4_K_M", 15.3 * 1.0737), ("Qwen3.8-27B-UD-Q3_K_XL", 12.2 * 1.0737),
        # Checkpoints on Hugging Face: the sum of their files.
        ("Qwen3-8B-AWQ", 6.1), ("Qwen2.5-7B-Instruct-4bit", 4.29), ("Qwen3-8B-FP8", 9.4),
        ("Kimi-K2.5", 595.0), ("DeepSeek-V3", 676.0), ("GLM-5-FP8", 756.0),
    ],
)  # fmt: skip
def test_weight_bytes_are_those_of_published_files(name, gigabytes):
    assert models.find(name).weight_bytes() / 1e9 == pytest.approx(gigabytes, rel=0.025)


def test_a_gguf_quantisation_covers_both_tables():
    llama = models.find("Llama-3.1-8B")
    assert llama.weight_bytes("q4_k_m") == pytest.approx(llama.parameters * 4.8944 / 8, rel=1e-3)
    assert llama.weight_bytes("5.5") == pytest.approx(llama.parameters * 5.5 / 8, rel=1e-3)
    tied = models.find("Qwen3-0.6B")
    assert tied.weight_bytes("q8_0") == pytest.approx(tied.parameters * 8.5008 / 8, rel=1e-3)
    assert llama.weight_bytes("native") == llama.weight_bytes()


@pytest.mark.parametrize(
    ("text", "name", "bits"),
    [
        ("torch.bfloat16", "bf16", 16), ("NVFP4", "nvfp4", 4.5), ("mxfp4", "mxfp4", 4.25),
        ("W4A16", "int4", 4.15625), ("W8A16", "int8", 8), ("AWQ", "int4", 4.15625),
        ("Q4_K_M", "q4_k_m", 4.8944), ("UD-IQ2_XXS", "iq2_xxs", 2.3824), ("Q8", "q8_0", 8.5008),
        ("5.5", "5.5", 5.5), ("4.85 bpw", "4.85", 4.85), ("4bit", "4.5", 4.5),
        ("8-bit", "8.5", 8.5),
    ],
)  # fmt: skip
def test_storage_formats_and_their_bits(text, name, bits):
    assert models.known(text) == name
    assert models.known(name) == name
    assert 8 * models.dtype_bytes(name) == pytest.approx(bits, abs=1e-9)


@pytest.mark.parametrize(
    "names",
    [
        "iq1_s iq2_xxs iq2_m iq3_xxs iq3_m iq4_xs",
        "q2_k q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m q6_k q8_0",
    ],
)
def test_bits_of_gguf_order_as_their_names(names):
    bits = [models.dtype_bytes(name) for name in names.split()]
    assert bits == sorted(bits)


def test_unknown_dtype():
    llama = models.find("Llama-3.1-8B")
    with pytest.raises(InputError, match=r"weight_dtype must be one of .*bf16.*, got 'fp7'"):
        llama.weight_bytes("fp7")
    with pytest.raises(InputError, match=r"weight_dtype, in bits a weight, must be .* got 20"):
        models.known("20")
    with pytest.raises(InputError, match="kv_dtype must be one of"):
        llama.kv_bytes(1, "q9_0")
    with pytest.raises(InputError, match=r"context must be .* got -1"):
        llama.kv_bytes(-1)


# --- catalogue and records --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Llama-3.1-8B", "Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3.1-8B", "Llama-3.1-8B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("llama 3.1 8b", "Llama-3.1-8B"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-R1"),
        ("Qwen3-30B-A3B", "Qwen3-30B-A3B"),
    ],
)
def test_find(spelling, name):
    assert models.find(spelling).name == name


def test_unknown_model_offers_the_nearest():
    with pytest.raises(InputError, match=r"got 'Llama-3\.1-9B'; nearest: Llama-3\.1-8B"):
        models.find("Llama-3.1-9B")
    with pytest.raises(InputError, match=r"got ''; it holds \d+, such as Llama-3.2-1B"):
        models.find("")


def test_catalogue_has_what_the_reference_times_are_for_and_sources():
    needed = {"Llama-3.2-1B", "Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B", "Mixtral-8x7B"}
    needed |= {"Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-8B", "Qwen3-30B-A3B"}
    catalogue = models.catalogue()
    assert needed <= set(catalogue)
    for name, model in catalogue.items():
        assert model.name == name
        assert model.source
        assert model.max_context


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_catalogue_entries_equal_the_configs_they_were_taken_from(path):
    """The entries keep only the fields that shape a model: dropping the rest changed nothing."""
    name = path.stem.split("--")[1]
    if name in REFUSED:
        with pytest.raises(InputError, match=f"cannot model: {REFUSED[name]}"):
            models.find(name)
        return
    read = models.load(path)
    known = models.find(name)
    # A config names no tokenizer, and not every one its modules.
    same = {"name": read.name, "source": read.source, "tokenizer": ""}
    if name == "MiMo-V2-Flash":
        same["mtp_layers"] = 0
    assert dataclasses.replace(known, **same) == read


def test_models_of_one_tokenizer_have_tables_of_nearly_one_size() -> None:
    """Padding differs, by 128 rows at most; no two families were given one name."""
    sizes: dict[str, set[int]] = {}
    families: dict[str, set[str]] = {}
    for model in models.catalogue().values():
        if model.tokenizer:
            sizes.setdefault(model.tokenizer, set()).add(model.vocab)
            families.setdefault(model.tokenizer, set()).add(model.family.rstrip("_moe")[:4])
    assert all(max(each) - min(each) <= 128 for each in sizes.values()), sizes
    assert all(len(each) == 1 for name, each in families.items() if name != "mistral-v3"), families


def test_kin_of_a_target_by_hand() -> None:
    """1.24 and 3.21 billion are a tenth and 40% of 8.03; 30B-A3B passes a token through 3.3."""
    kin = {n: [m.name for m in models.smaller_kin(models.find(n))] for n in (
        "Llama-3.1-8B", "meta-llama/Llama-3.3-70B-Instruct-FP8", "Qwen3-32B", "DeepSeek-V3",
        "Mixtral-8x22B",
    )}  # fmt: skip
    assert kin["Llama-3.1-8B"] == ["Llama-3.2-1B"]
    assert kin["meta-llama/Llama-3.3-70B-Instruct-FP8"] == [
        "Llama-3.2-1B", "Llama-3.2-3B", "Llama-3.1-8B"
    ]  # fmt: skip
    assert kin["Qwen3-32B"][:3] == ["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-30B-A3B"]
    assert not any("VL" in name for name in kin["Qwen3-32B"]), "one a shape"
    assert kin["DeepSeek-V3"] == kin["Mixtral-8x22B"] == []


def test_records_are_checked():
    with pytest.raises(InputError, match="heads must be a multiple of kv_heads"):
        Attention("full", heads=8, kv_heads=3, head_dim=64)
    with pytest.raises(InputError, match=r"window must be .* got 0"):
        Attention("sliding", heads=8, kv_heads=8, head_dim=64)
    with pytest.raises(InputError, match=r"experts_per_token must be .* got 9"):
        models.Mlp(64, experts=8, experts_per_token=9)
    with pytest.raises(InputError, match="matrices must be"):
        models.Mlp(64, matrices=1)
    with pytest.raises(InputError, match="count must be"):
        dataclasses.replace(models.find("Qwen3-8B").layers[0], count=0)
    with pytest.raises(InputError, match="layers must hold"):
        dataclasses.replace(models.find("Qwen3-8B"), layers=())
