"""Reading config.json: every published config, every way to say a thing, and every wrong one."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from specmath import models
from specmath.checks import InputError
from specmath.models import Model, Quantisation

FOLDER = Path(__file__).parent / "data/model_configs"
CONFIGS = sorted(FOLDER.glob("*.json"))


def config(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


LLAMA = config("meta-llama--Meta-Llama-3.1-8B")
MIXTRAL = config("mistralai--Mixtral-8x7B-v0.1")
DEEPSEEK = config("deepseek-ai--DeepSeek-V3")


def count(model: Model, kind: str, *, moe: bool) -> int:
    """Layers of that attention, with or without experts."""
    return sum(
        group.count
        for group in model.layers
        if group.attention.kind == kind and bool(group.mlp.experts) == moe
    )


def test_ways_to_say_which_layers_are_sparse():
    qwen = config("Qwen--Qwen3-30B-A3B")

    def sparse(**fields) -> int:
        return count(models.from_config(qwen | fields), "full", moe=True)

    assert sparse() == 48
    assert sparse(decoder_sparse_step=2) == 24
    assert sparse(mlp_only_layers=[0, 47]) == 46
    assert sparse(first_k_dense_replace=3) == 45
    assert sparse(moe_layer_freq=2) == 24
    assert sparse(moe_layer_freq=[0] * 8 + [1] * 40) == 40
    assert sparse(mlp_layer_types=["dense"] + ["sparse"] * 47) == 47
    assert sparse(num_experts=0) == 0


def test_sliding_window_rules():
    def sliding(**fields) -> int:
        return count(models.from_config(LLAMA | fields), "sliding", moe=False)

    assert sliding(sliding_window=None) == 0
    assert sliding(model_type="mistral", sliding_window=4096) == 32
    assert sliding(model_type="qwen2", sliding_window=4096) == 0
    qwen = {"model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 28}
    assert sliding(**qwen, use_sliding_window=True) == 4
    assert sliding(sliding_window=512, sliding_window_pattern=4) == 24


@pytest.mark.parametrize(
    ("stated", "dtype", "size"),
    [
        ({"quant_method": "fp8"}, "fp8", 1.0),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", (4 + 20 / 128) / 8),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", 1.0),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 4.5 / 8),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", 4.5 / 8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}
                },
            },
            "int4",
            (4 + 20 / 32) / 8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
            1.0,
        ),
    ],
)
def test_quantisation_formats(stated, dtype, size):
    found = models.from_config(LLAMA | {"quantization_config": stated}).quantisation
    assert found == Quantisation(dtype, size)


@pytest.mark.parametrize(
    ("skipped", "left"),
    [
        (["lm_head"], set()),
        (["model.layers.*.self_attn", "model.layers.*.mlp.router"], {"attention"}),
        (["re:.*self_attn.*", "re:.*shared_experts.*"], {"attention", "shared"}),
        ([r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"], {"mlp"}),
        (["re:.*mlp.gate$", "model.layers.3.input_layernorm"], set()),
        ([f"model.layers.{i}.self_attn.q_proj" for i in range(61)], {"attention"}),
        (["model.layers.0.self_attn.q_proj"], set()),  # one layer of 61
        (["re:.*mlp"], {"mlp", "experts", "shared"}),
    ],
)
def test_quantisation_lists_of_what_stays(skipped, left):
    stated = {"quant_method": "fp8", "modules_to_not_convert": skipped}
    found = models.from_config(DEEPSEEK | {"quantization_config": stated}).quantisation
    assert found is not None
    assert {"attention", "mlp", "experts", "shared"} - found.parts == left


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shared_config_reads_or_says_why_not(path):
    if path.stem == "deepseek-ai--DeepSeek-V4-Flash":
        with pytest.raises(InputError, match="cannot model: compressed sparse attention"):
            models.load(path)
        return
    model = models.load(path)
    assert model.name == path.stem
    assert model.parameters > 1e8
    assert models.load(path.read_text(encoding="utf-8")).parameters == model.parameters
    assert pickle.loads(pickle.dumps(model)) == model
    assert {model: 1}[model] == 1


def test_a_folder_with_a_config(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert models.load(folder).name == "my-model"
    assert models.load(str(folder)).parameters == 8_030_261_248


def test_missing_fields_are_all_named():
    with pytest.raises(InputError) as error:
        models.from_config({})
    for field in (
        "hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads",
        "intermediate_size",
    ):  # fmt: skip
        assert field in str(error.value)
    short = {k: v for k, v in DEEPSEEK.items() if k not in ("v_head_dim", "num_experts_per_tok")}
    with pytest.raises(InputError, match=r"config lacks v_head_dim, num_experts_per_tok$"):
        models.from_config(short)


@pytest.mark.parametrize(
    ("base", "fields", "message"),
    [
        (LLAMA, {"num_hidden_layers": -1}, "num_hidden_layers must be .*>= 1.* got -1"),
        (LLAMA, {"num_hidden_layers": 0}, "num_hidden_layers must be .*>= 1.* got 0"),
        (LLAMA, {"num_hidden_layers": 10**6}, "num_hidden_layers must be <= 10000, got 1000000"),
        (LLAMA, {"hidden_size": "4096"}, "hidden_size must be a whole number >= 1, got '4096'"),
        (LLAMA, {"hidden_size": 4096.5}, "hidden_size must be a whole number.* got 4096.5"),
        (LLAMA, {"hidden_size": True}, "hidden_size must be a whole number, got True"),
        (LLAMA, {"vocab_size": float("nan")}, "vocab_size must be a whole number.* got nan"),
        (LLAMA, {"vocab_size": 10**30}, "vocab_size must be a whole number"),
        (LLAMA, {"num_key_value_heads": 5}, "num_key_value_heads must divide .* = 32, got 5"),
        (LLAMA, {"hidden_size": 4100}, "num_attention_heads must divide hidden_size"),
        (LLAMA, {"intermediate_size": [1, 2]}, "cannot model: layers of different sizes"),
        (LLAMA, {"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false"),
        (LLAMA, {"torch_dtype": "int7"}, "torch_dtype must be one of .* got 'int7'"),
        (LLAMA, {"layer_types": ["full_attention"]}, "layer_types must have .* = 32 .* got 1"),
        (LLAMA, {"layer_types": "full"}, "layer_types must be a list, got 'full'"),
        (LLAMA, {"layer_types": [["x"]]}, "layer_types.0 must be text"),
        (LLAMA, {"hidden_size": 10**400}, "hidden_size must be a whole number, got 1000"),
        (LLAMA, {"model_type": ["llama"]}, "model_type must be text"),
        (LLAMA, {"moe_layer_freq": {"a": 1}}, "moe_layer_freq"),
        (MIXTRAL, {"moe_layers": ["0"]}, "moe_layers.0 must be a whole number, got '0'"),
        (LLAMA, {"layer_types": ["sliding_attention"] * 32}, "config lacks sliding_window"),
        (LLAMA, {"full_attention_interval": 4}, "config lacks linear_num_key_heads"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "num_experts_per_tok must be <= .* = 8, got 9"),
        (MIXTRAL, {"num_experts_per_tok": None}, "config lacks num_experts_per_tok"),
        (MIXTRAL, {"mlp_only_layers": [32]}, "mlp_only_layers must list layer numbers"),
        (DEEPSEEK, {"first_k_dense_replace": 62}, "first_k_dense_replace must be <= .* got 62"),
        (DEEPSEEK, {"kv_lora_rank": 0}, "kv_lora_rank must be a whole number >= 1.* got 0"),
        (DEEPSEEK, {"qk_rope_head_dim": None}, "config lacks qk_rope_head_dim"),
        (DEEPSEEK, {"quantization_config": "fp8"}, "quantization_config must be a JSON object"),
        (
            DEEPSEEK,
            {"quantization_config": {"quant_method": "awq", "group_size": 0}},
            "quantization_config.group_size must be .* got 0",
        ),
        (
            LLAMA,
            {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": [1]}},
            "quantization_config.config_groups must be a JSON object",
        ),
        (
            LLAMA,
            {"quantization_config": {"quant_method": "awq", "bits": [4]}},
            "quantization_config.bits must be a whole number",
        ),
    ],
)
def test_bad_fields(base, fields, message):
    with pytest.raises(InputError, match=message):
        models.from_config(base | fields)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model_type": "t5"}, r"encoder-decoder \(field model_type = t5\)"),
        ({"is_encoder_decoder": True}, r"encoder-decoder \(field is_encoder_decoder\)"),
        ({"model_type": "mamba2"}, "state-space layers"),
        ({"mamba_d_state": 16}, r"state-space layers \(Mamba\) \(field mamba_d_state\)"),
        ({"layer_types": ["mamba"] * 32}, r"layers of type 'mamba' \(field layer_types\)"),
        ({"_diffusers_version": "0.30"}, "diffusion"),
        ({"model_type": "llada"}, "diffusion"),
        ({"attn_type_list": [0] * 31 + [1]}, "lightning attention"),
        ({"model_type": "kimi_linear"}, "Kimi delta attention"),
        ({"cross_attention_layers": [3]}, "cross-attention"),
        ({"num_kv_shared_layers": 15}, "layers that share one cache"),
        ({"hidden_size_per_layer_input": 256}, "per-layer embeddings"),
        ({"block_configs": [{}]}, "layers of different sizes"),
        ({"word_embed_proj_dim": 512}, "embeddings narrower"),
        ({"draft_vocab_size": 32000}, "a drafter, not a model"),
        ({"sparse_attention_config": {"a": 1}}, "block-sparse attention"),
        ({"attention_other_setting": {"a": 1}}, "windowed layers with heads of their own"),
        (
            {
                "indexer_types": ["x"] * 61,
                "index_topk": 1,
                "index_n_heads": 1,
                "index_head_dim": 1,
                "kv_lora_rank": 1,
                "qk_nope_head_dim": 1,
                "qk_rope_head_dim": 1,
                "v_head_dim": 1,
                "num_hidden_layers": 61,
            },
            "an index of type 'x'",
        ),
        ({"quantization_config": {"quant_method": "hqq"}}, "weights quantised by hqq"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "3-bit integer weights"),
    ],
)
def test_what_cannot_be_modelled_is_refused_by_name(fields, reason):
    with pytest.raises(InputError, match=f"cannot model: .*{reason}"):
        models.from_config(LLAMA | fields)


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        ({"index_topk_freq": 4}, 21), ({"index_topk_pattern": "FFS" * 26}, 52),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, 21),
        ({"indexer_types": ["full", "shared"] * 39}, 39), ({}, 78),
    ],
)  # fmt: skip
def test_ways_to_say_which_layers_share_an_index(fields, own):
    model = models.from_config(config("zai-org--GLM-5") | fields)
    assert sum(g.count for g in model.layers if g.attention.index_heads) == own
    assert all(g.attention.index_topk == 2048 for g in model.layers)


SCHEME = {"num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("stated", "dtype"),
    [
        ({"quant_method": "fp8", "kv_cache_scheme": SCHEME}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": None}, "bf16"),
        ({"quant_method": "fp8", "kv_cache_scheme": None}, "bf16"),
    ],
)
def test_the_cache_that_a_checkpoint_declares(stated, dtype):
    assert models.from_config(LLAMA | {"quantization_config": stated}).kv_dtype == dtype
    assert models.load(FOLDER / "nvidia--Gemma-4-31B-IT-NVFP4.json").kv_dtype == "fp8"


def test_a_checkpoint_of_several_formats_has_the_mean_of_its_parts():
    stated = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            f"model.layers.{i}.{module}": {"quant_algo": algorithm}
            for i in range(32)
            for module, algorithm in (
                ("self_attn.q_proj", "FP8"), ("self_attn.o_proj", "FP8"),
                ("mlp.up_proj", "W4A16_NVFP4"),
            )
        },
    }  # fmt: skip
    model = models.from_config(LLAMA | {"quantization_config": stated})
    sizes = model.part_parameters()
    held = sizes["attention"] + sizes["mlp"] * 4.5 / 8
    rest = model.parameters - sizes["attention"] - sizes["mlp"]
    assert model.weight_dtype == "nvfp4"
    assert model.weight_bytes() == pytest.approx(held + 2 * rest)


def test_what_lies_beside_the_config_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    beside = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    model = models.load(tmp_path)
    assert (model.weight_dtype, model.kv_dtype) == ("fp8", "fp8")
    (tmp_path / "hf_quant_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="hf_quant_config"):
        models.load(tmp_path)


def test_unknown_family_is_read_and_says_so():
    model = models.from_config(LLAMA | {"model_type": "brand_new"})
    assert model.parameters == 8_030_261_248
    assert "'brand_new'" in model.notes[0]
    assert models.from_config(LLAMA).notes == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config is not JSON"),
        ("[" * 100_000, "config is not JSON"),
        ("[1, 2]", "config must be a JSON object, got list"),
        ("no-such-file.json", "config cannot be read from 'no-such-file.json'"),
        ("null\0byte", "config cannot be read"),
        ("", "config cannot be read"),
        ("x" * 5000, "config cannot be read"),
    ],
)
def test_unreadable_input(text, message):
    with pytest.raises(InputError, match=message):
        models.load(text)


WRONG = [None, -1, 0, 3, 7.5, "x", "", [], ["x"], {}, 1e30, float("nan"), True, 10**30]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_any_field_gone_wrong_is_read_or_refused(path):
    """Never another exception than InputError, whatever stands in whatever field."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    places = [(whole, key) for key in whole]
    for value in whole.values():
        places += [(value, key) for key in value] if isinstance(value, dict) else []
    for part, key in places:
        before = part[key]
        for wrong in WRONG:
            part[key] = wrong
            try:
                model = models.from_config(copy.deepcopy(whole))
            except InputError:
                continue
            assert model.parameters > 0
            assert model.weight_bytes() > 0
        part[key] = before
