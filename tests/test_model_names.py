"""Names of checkpoints as people write them, and search by any part of a name."""

from __future__ import annotations

import pytest

from specmath import models
from specmath.checks import InputError
from specmath.models.names import readings


@pytest.mark.parametrize(
    ("text", "name", "weights"),
    [
        ("deepseek-ai/DeepSeek-R1-0528", "DeepSeek-R1", "fp8"),
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", "DeepSeek-R1-NVFP4", "nvfp4"),
        ("nvidia/DeepSeek-V3.1-NVFP4", "DeepSeek-V3.1-NVFP4", "nvfp4"),
        ("DeepSeek-V3.2-Exp", "DeepSeek-V3.2", "fp8"),
        ("Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen3-235B-A22B-FP8", "fp8"),
        ("Qwen/Qwen3-8B-AWQ", "Qwen3-8B-INT4", "int4"),
        ("Qwen/Qwen3-8B-GPTQ-Int8", "Qwen3-8B-INT8", "int8"),
        ("Qwen2.5-7B-Instruct-4bit", "Qwen2.5-7B-4.5bpw", "4.5"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "Llama-3.1-8B-FP8", "fp8"),
        ("org/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "Llama-3.1-8B-INT4", "int4"),
        ("Llama-3.3-70B-NVFP4", "Llama-3.3-70B-NVFP4", "nvfp4"),
        ("unsloth/Qwen3.6-27B-GGUF:UD-Q4_K_XL", "Qwen3.6-27B-Q4_K_XL", "q4_k_xl"),
        ("Qwen3.6-27B Q5_K_M", "Qwen3.6-27B-Q5_K_M", "q5_k_m"),
        ("Qwen3.8-27B class (Q4_K_M)", "Qwen3.8-27B-Q4_K_M", "q4_k_m"),
        ("Llama-3.1-8B-Instruct.Q4_K_M.gguf", "Llama-3.1-8B-Q4_K_M", "q4_k_m"),
        ("llama3.1:8b-instruct-q4_K_M", "Llama-3.1-8B-Q4_K_M", "q4_k_m"),
        ("gemma-4-31b-it-qat-q4_0-gguf", "Gemma-4-31B-Q4_0", "q4_0"),
        ("gpt-oss:120b", "gpt-oss-120b", "mxfp4"),
        ("openai/gpt-oss-20b-MXFP4", "gpt-oss-20b", "mxfp4"),
        ("moonshotai/Kimi-K2-Instruct-0905", "Kimi-K2", "fp8"),
        ("zai-org/GLM-4.7-FP8", "GLM-4.7-FP8", "fp8"),
        ("MiniMaxAI/MiniMax-M2.5", "MiniMax-M2.5", "fp8"),
        ("google/gemma-4-31B-it", "Gemma-4-31B", "bf16"),
        ("Qwen3-8B-exl2-4.65bpw", "Qwen3-8B-4.65bpw", "4.65"),
        ("Qwen3-8B-bf16", "Qwen3-8B", "bf16"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B", "fp16"),
        ("R1", "DeepSeek-R1", "fp8"),
        ("llama 8b", "Llama-3.1-8B", "bf16"),
        ("mistral nemo", "Mistral-Nemo-12B", "bf16"),
    ],
)
def test_names_as_people_write_them(text, name, weights):
    model = models.find(text)
    assert (model.name, model.weight_dtype) == (name, weights)
    assert models.find(name) == model, "its name says it all: it survives a link and a file"


@pytest.mark.parametrize("dtype", ["fp8", "nvfp4", "q4_k_m", "5.5", "bf16"])
def test_a_stored_model_is_found_by_its_own_name(dtype):
    for each in models.catalogue().values():
        model = each.stored_in(dtype)
        found = models.find(model.name)
        assert models.known(found.weight_dtype) == dtype, model.name
        assert found.parameters == model.parameters, model.name


def test_nvidia_s_own_checkpoints_declare_an_fp8_cache():
    own, other = models.find("nvidia/Llama-3.1-8B-Instruct-FP8"), models.find("Llama-3.1-8B-FP8")
    assert (own.kv_dtype, other.kv_dtype) == ("fp8", "bf16")
    assert own.weight_bytes() == other.weight_bytes()
    assert models.find(own.name) == own
    assert models.find("nvidia/Qwen3-235B-A22B-NVFP4").kv_dtype == "fp8"


def test_a_suffix_of_the_published_format_changes_nothing():
    assert models.find("DeepSeek-R1-FP8") is models.find("DeepSeek-R1")
    assert models.find("Kimi-K2.5-INT4").quantisation == models.find("Kimi-K2.5").quantisation


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DeepSeek-V4-Flash", r"cannot model: compressed sparse attention \(DeepSeek-V4-Flash\)"),
        ("MiniMaxAI/MiniMax-M3", "cannot model: block-sparse attention"),
        ("moonshotai/Kimi-K3", "cannot model: Kimi delta attention"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "cannot model: state-space layers"),
        ("llama 70", "it may mean: .*Llama-3.3-70B"),
        ("qwen 8b", "it may mean: Qwen3-8B, Qwen3-VL-8B"),
        ("not seen", "it holds"),
    ],
)
def test_what_is_not_one_model_says_what_it_may_be(text, message):
    with pytest.raises(InputError, match=message):
        models.find(text)


def test_search_by_any_part():
    assert set(models.search("llama 70")) == {"Llama-3.1-70B", "Llama-3.3-70B", "Llama-2-70B"}
    assert models.search("R1")[0] == "DeepSeek-R1"
    assert models.search("qwen 27")[:3] == ["Qwen3.5-27B", "Qwen3.6-27B", "Qwen3.8-27B"]
    assert models.search("Qwen/Qwen3-8B-AWQ")[0] == "Qwen3-8B"
    assert models.search("gema 3 27b")[0] == "Gemma-3-27B"


@pytest.mark.parametrize(
    "text", ["", "/", "-", "---", "-fp8", "fp8", "Q4_K_M", "a" * 5000, "()", "x/"]
)
def test_a_name_of_suffixes_alone_is_refused(text):
    assert list(readings(text))
    with pytest.raises(InputError, match="model must be one of the catalogue"):
        models.find(text)
