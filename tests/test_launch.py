"""The lines that start engines keep the rules that their sources state."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from specmath import Scenario
from specmath.checks import InputError
from specmath.drafters import kinds
from specmath.engines import catalogue
from specmath.launch import Launch, engines, launch
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.schedule import GammaRange, Schedule
from specmath.words.launch import exactness, pasted

GAMMA = 3

# ── the rules, as read in the source of each version ─────────────────────────────────────────

VLLM_METHODS = {"ngram", "ngram_gpu", "suffix", "draft_model", "eagle", "eagle3", "mtp", "dflash",
                "dspark", "extract_hidden_states", "custom_class"}  # fmt: skip
VLLM_KEYS = {
    "method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max",
    "parallel_drafting", "draft_sample_method", "num_speculative_tokens_per_batch_size",
    "draft_tensor_parallel_size", "suffix_decoding_max_tree_depth",
}  # fmt: skip
OWN_CHECKPOINT = {"draft_model", "eagle", "eagle3", "dflash"}
SGLANG_ALGORITHMS = {"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO"}
SGLANG_OPTIONS = {
    "--model-path", "--tp-size", "--speculative-algorithm", "--speculative-draft-model-path",
    "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens",
    "--speculative-dflash-block-size", "--speculative-dspark-block-size",
    "--speculative-adaptive", "--speculative-adaptive-config", "--max-running-requests",
    "--enable-metrics",
}  # fmt: skip
LLAMACPP_TYPES = {"draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark",
                  "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod",
                  "ngram-cache"}  # fmt: skip
LLAMACPP_OPTIONS = {"-m", "-md", "--spec-type", "--spec-draft-n-max", "--spec-draft-ngl", "-ngl",
                    "-fa", "--metrics", "--spec-ngram-simple-size-m"}  # fmt: skip
TRTLLM_TYPES = {"Eagle3", "MTP", "Draft_Target", "NGram", "SA", "PARD", "DFlash", "DSpark", "AUTO",
                "User_Provided", "SaveState"}  # fmt: skip
TRTLLM_KEYS = {"decoding_type", "max_draft_len", "speculative_model", "max_matching_ngram_size",
               "draft_len_schedule"}  # fmt: skip
LMDEPLOY_ALGORITHMS = {"eagle", "eagle3", "deepseek_mtp", "hy3_mtp", "qwen3_5_mtp", "dflash"}


def options(command: str) -> dict[str, str]:
    """Option → its value, "" where it has none; AssertionError where one stands twice."""
    words = shlex.split(command)
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "-"], strict=True):
        if re.match(r"--?[a-z]", word):
            assert word not in found, word
            found[word] = "" if re.match(r"--?[a-z]", after) or after == "-" else after
    return found


def check_vllm(found: Launch, gamma: int) -> None:
    config = json.loads(options(found.command)["--speculative-config"])
    assert set(config) <= VLLM_KEYS
    assert config["method"] in VLLM_METHODS
    assert config["num_speculative_tokens"] == gamma
    assert ("model" in config) >= (config["method"] in OWN_CHECKPOINT)
    assert config.get("prompt_lookup_min", 1) <= config.get("prompt_lookup_max", 1)
    if config.get("parallel_drafting"):
        assert config["method"] in ("draft_model", "eagle3")


def check_sglang(found: Launch, gamma: int) -> None:
    said = options(found.command.partition("launch_server")[2])
    assert set(said) <= SGLANG_OPTIONS
    assert said["--speculative-algorithm"] in SGLANG_ALGORITHMS
    assert int(said["--max-running-requests"]) >= 1
    three = [f"--speculative-{name}" for name in ("num-steps", "eagle-topk", "num-draft-tokens")]
    if said["--speculative-algorithm"] in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
        assert [int(said[name]) for name in three] == [gamma, 1, gamma + 1]
    if "--speculative-dflash-block-size" in said:
        assert int(said["--speculative-dflash-block-size"]) == gamma + 1


def check_llamacpp(found: Launch, gamma: int) -> None:
    said = options(found.command)
    assert set(said) <= LLAMACPP_OPTIONS
    assert said["--spec-type"] in LLAMACPP_TYPES
    if said["--spec-type"].startswith("draft"):
        assert int(said["--spec-draft-n-max"]) == gamma


def check_tensorrt(found: Launch, gamma: int) -> None:
    text = found.files["speculative.yaml"]
    assert found.command.endswith("--config speculative.yaml")
    inner = re.fullmatch(r"speculative_config: \{(.*)\}", text)
    assert inner
    table = re.sub(r"\{[^}]*\}", "{}", inner[1])
    said = dict(pair.split(": ") for pair in table.split(", "))
    assert set(said) <= TRTLLM_KEYS
    assert said["decoding_type"] in TRTLLM_TYPES
    assert int(said["max_draft_len"]) == gamma
    if said["decoding_type"] in ("Eagle3", "Draft_Target", "PARD", "DFlash"):
        assert said["speculative_model"]


def check_mlx(found: Launch, gamma: int) -> None:
    said = options(found.command)
    assert set(said) == {"--model", "--draft-model", "--num-draft-tokens"}
    assert int(said["--num-draft-tokens"]) == gamma


def check_lmdeploy(found: Launch, gamma: int) -> None:
    said = options(found.command)
    assert said["--backend"] == "pytorch"
    assert said["--speculative-algorithm"] in LMDEPLOY_ALGORITHMS
    if said["--speculative-algorithm"] == "dflash":
        assert int(said["--speculative-dflash-block-size"]) == gamma + 1
    else:
        assert int(said["--speculative-num-draft-tokens"]) == gamma


RULES = {"vllm": check_vllm, "sglang": check_sglang, "llamacpp": check_llamacpp,
         "tensorrt-llm": check_tensorrt, "mlx": check_mlx, "lmdeploy": check_lmdeploy}  # fmt: skip


def served(draft: str, **more: Any) -> Endpoint:
    target = {"mtp": "DeepSeek-V3", "assistant": "Gemma-4-31B-it"}.get(draft, "Llama-3.3-70B")
    given = {"alpha": 0.7, "gpu": "H200 SXM", "model": target, "draft": draft,
             "tensor_parallel": 8, "concurrency": 32, "prompt_tokens": 512}  # fmt: skip
    return resolve(Scenario(**given | more))


DRAFTS = [
    *(kind for kind, record in kinds().items() if not record.needs_model and kind != "assistant"),
    "Llama-3.2-1B", "pard:Llama-3.2-1B",
]  # fmt: skip


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("draft", DRAFTS)
def test_every_line_keeps_its_engine_s_rules_or_says_why_there_is_none(
    draft: str, name: str
) -> None:
    endpoint = served(draft)
    assert endpoint.pair
    if endpoint.pair.drafter.kind not in engines()[name].entry["drafters"]:
        with pytest.raises(InputError, match=re.escape(engines()[name].label)):
            launch(endpoint, GAMMA, engine=name)
        return
    found = launch(endpoint, GAMMA, engine=name)
    assert "$" not in found.command
    assert endpoint.pair.place.model.name in found.command
    RULES[name](found, GAMMA)


def test_every_entry_has_rules_and_every_kind_is_a_drafter() -> None:
    assert set(RULES) == set(engines())
    for engine in engines().values():
        entry = engine.entry
        assert {*entry["drafters"], *entry.get("without", {})} <= set(kinds())
        assert not {*entry["drafters"]} & {*entry.get("without", {})}


# ── γ by batch size ──────────────────────────────────────────────────────────────────────────

FALLING = Schedule((GammaRange(1, 16, 4), GammaRange(17, 64, 2), GammaRange(65, 256, 0)))


def test_vllm_takes_a_list_of_ranges() -> None:
    """[[1, 16, 4], …]: three whole numbers each, from 1 on, no overlap; the map form is refused by
    every release that has the key."""
    found = launch(served("eagle3", engine="vllm"), GAMMA, schedule=FALLING)
    config = json.loads(options(found.command)["--speculative-config"])
    assert config["num_speculative_tokens_per_batch_size"] == [
        [1, 16, 4],
        [17, 64, 2],
        [65, 256, 0],
    ]
    assert config["num_speculative_tokens"] == 4
    assert config["method"] == "eagle3"


def test_sglang_takes_a_file_by_the_lower_edge() -> None:
    found = launch(served("eagle3", engine="sglang"), GAMMA, schedule=FALLING)
    table = json.loads(found.files["adaptive.json"])
    assert {size: each["candidate_steps"] for size, each in table.items()} == {
        "1": [4], "17": [2], "65": [0],
    }  # fmt: skip
    said = options(found.command.partition("launch_server")[2])
    assert said["--speculative-adaptive-config"] == "adaptive.json"
    assert int(said["--speculative-num-steps"]) == 4


def test_tensorrt_takes_a_map_by_the_upper_edge() -> None:
    """The smallest key's length is max_draft_len, and above the last nothing is drafted."""
    found = launch(served("eagle3", engine="tensorrt-llm"), GAMMA, schedule=FALLING)
    text = found.files["speculative.yaml"]
    assert "draft_len_schedule: {16: 4, 64: 2}}" in text
    assert "max_draft_len: 4" in text
    rising = Schedule((GammaRange(1, 4, 2), GammaRange(5, 8, 3)))
    with pytest.raises(InputError, match="falls as the batch grows"):
        launch(served("eagle3", engine="tensorrt-llm"), GAMMA, schedule=rising)


@pytest.mark.parametrize(
    ("engine", "draft"), [("llamacpp-cuda", "eagle3"), ("sglang", "ngram"), ("vllm", "suffix")]
)
def test_a_schedule_is_refused_where_the_engine_takes_none(engine: str, draft: str) -> None:
    with pytest.raises(InputError, match="takes no γ by batch"):
        launch(served(draft, engine=engine), GAMMA, schedule=FALLING)


# ── what a person types ──────────────────────────────────────────────────────────────────────


def test_a_name_cannot_end_the_command() -> None:
    """Links and pasted configs carry names: nothing of them is read by a shell."""
    evil = json.dumps({
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 128256, "torch_dtype": "bfloat16",
        "_name_or_path": "a'; rm -rf \"$HOME\" #`id`",
    })  # fmt: skip
    command = launch(served("ngram", model=evil, tensor_parallel=1), GAMMA).command
    words = shlex.split(command)
    assert words[:2] == ["vllm", "serve"]
    assert re.fullmatch(r"[\w./-]+", words[2])
    assert words[3] == "--speculative-config"
    assert len(words) == 5


def test_without_models_there_is_no_line() -> None:
    with pytest.raises(InputError, match="give all three"):
        launch(resolve(Scenario(alpha=0.8, gamma=4, c=0.1)), GAMMA)


def test_an_engine_that_was_not_read_is_named() -> None:
    with pytest.raises(InputError, match="'transformers'"):
        launch(served("ngram", engine="transformers"), GAMMA)


def test_what_stands_to_be_pasted() -> None:
    found = launch(served("suffix", engine="vllm"), GAMMA)
    assert pasted(found).startswith("# first: pip install arctic-inference==0.1.1\nvllm serve ")
    found = launch(served("eagle3", engine="tensorrt-llm"), GAMMA)
    assert pasted(found).startswith("# speculative.yaml\nspeculative_config: ")


@pytest.mark.parametrize("name", catalogue())
def test_exactness_is_said_of_every_engine(name: str) -> None:
    assert re.search(r"keeps the target's|distribution of the target", exactness(name))
