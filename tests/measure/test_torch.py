"""The torch engine against the numpy engine, and our loop against transformers' own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

REASON = "torch and transformers are not installed (requirements-measure.txt)"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

from specmath.checks import InputError  # noqa: E402
from specmath.measure.drafts import ModelDraft, NgramDraft  # noqa: E402
from specmath.measure.draws import HostDraws, Proposal  # noqa: E402
from specmath.measure.language_model import Sampling  # noqa: E402
from specmath.measure.machine import steady  # noqa: E402
from specmath.measure.numpy_model import NumpyLlama  # noqa: E402
from specmath.measure.pairs import (  # noqa: E402
    builtin_folder,
    builtin_pair,
    builtin_prompts,
    load_pair,
)
from specmath.measure.plan import Plan, Prompt  # noqa: E402
from specmath.measure.report import read_report, write_report  # noqa: E402
from specmath.measure.run import measure  # noqa: E402
from specmath.measure.score import replay_of  # noqa: E402
from specmath.measure.speculate import generate  # noqa: E402
from specmath.measure.timing import time_steps  # noqa: E402
from specmath.measure.torch_draws import TorchDraws  # noqa: E402
from specmath.measure.torch_model import load_model, random_model  # noqa: E402
from specmath.words.measured import check_said  # noqa: E402

TARGET, DRAFT = (str(builtin_folder() / part) for part in ("target", "draft"))
PROMPTS = [next(p for p in builtin_prompts() if p.segment == s) for s in ("code", "json")]


@pytest.fixture(scope="module")
def pair():  # type: ignore[no-untyped-def]
    torch.set_num_threads(1)
    return load_pair(TARGET, DRAFT, dtype="float32", device="cpu")


def test_numpy_and_torch_give_the_same_logits_and_ids(pair) -> None:  # type: ignore[no-untyped-def]
    own = builtin_pair()
    for prompt in builtin_prompts():
        assert pair.tokenizer.encode(prompt.text) == own.tokenizer.encode(prompt.text)
    tokens = np.array([own.tokenizer.encode(PROMPTS[0].text)])
    for mine, theirs in ((own.target, pair.target), (own.draft_model, pair.draft_model)):
        assert mine.parameters == theirs.parameters
        np.testing.assert_allclose(
            mine.forward(tokens, mine.new_cache()),
            theirs.forward(tokens, theirs.new_cache()),
            atol=5e-4,
        )


def test_cache_is_cut_back(pair) -> None:  # type: ignore[no-untyped-def]
    tokens = np.arange(1, 41)[None]
    whole = pair.target.forward(tokens, pair.target.new_cache())
    cache = pair.target.new_cache()
    pair.target.read(tokens[:, :20], cache)
    pair.target.read(tokens[:, 3:9], cache)
    cache.truncate(20)
    np.testing.assert_allclose(pair.target.forward(tokens[:, 20:], cache), whole[:, 20:], atol=5e-4)


def test_layer_skip_is_the_smaller_model(pair) -> None:  # type: ignore[no-untyped-def]
    skipped = (1, 3, 4)
    tokens = np.arange(1, 31)[None]
    mine = NumpyLlama.load(Path(TARGET)).skipping(skipped)
    theirs = pair.target.skipping(skipped)
    cache = theirs.new_cache()
    theirs.read(tokens[:, :10], cache)
    found = theirs.forward(tokens[:, 10:], cache)
    np.testing.assert_allclose(found, mine.forward(tokens, mine.new_cache())[:, 10:], atol=5e-4)
    assert theirs.layers == 3
    assert pair.target.layers == 6
    whole = NumpyLlama.load(Path(TARGET))
    np.testing.assert_allclose(
        pair.target.forward(tokens, pair.target.new_cache()),
        whole.forward(tokens, whole.new_cache()),
        atol=5e-4,
    )


class CountingForward:
    """Counts the target's passes and their widths inside transformers' generation."""

    def __init__(self, model) -> None:  # type: ignore[no-untyped-def]
        self.widths: list[int] = []
        self.handle = model.model.embed_tokens.register_forward_hook(
            lambda module, inputs, output: self.widths.append(inputs[0].shape[1])
        )


@pytest.mark.parametrize("gamma", [1, 3, 5])
@pytest.mark.parametrize("kind", ["model", "n-gram"])
def test_transformers_assisted_generation_agrees(pair, kind: str, gamma: int) -> None:  # type: ignore[no-untyped-def]
    """An independent engine: the same greedy text, and with a model draft as many passes."""
    limit = 40
    for prompt in PROMPTS:
        tokens = pair.tokenizer.encode(prompt.text)
        draft = pair.draft if kind == "model" else NgramDraft(3)
        mine = generate(
            pair.target, draft, tokens, gamma=gamma, limit=limit, sampling=Sampling(0),
            rng=np.random.default_rng(0), stop_ids=pair.tokenizer.stop_ids,
        )  # fmt: skip
        target, assistant = pair.target.model, pair.draft.model.model
        how = {"prompt_lookup_num_tokens": gamma}
        if kind == "model":
            assistant.generation_config.num_assistant_tokens = gamma
            assistant.generation_config.num_assistant_tokens_schedule = "constant"
            assistant.generation_config.assistant_confidence_threshold = 0.0
            how = {"assistant_model": assistant}
        counter = CountingForward(target)
        out = target.generate(
            torch.tensor([tokens]), do_sample=False, max_new_tokens=limit, pad_token_id=0, **how
        )
        counter.handle.remove()
        assert out[0, len(tokens) :].tolist() == mine.tokens
        if kind == "model":
            # Its first pass reads the prompt together with the first draft.
            assert abs(len(counter.widths) - mine.steps) <= 1


def test_replay_of_transformers_sampled_text_predicts_our_runs(pair) -> None:  # type: ignore[no-untyped-def]
    """Text sampled by transformers, replayed; runs of ours on the same prompts; 3.5 sigma."""
    torch.manual_seed(3)
    tokens = pair.tokenizer.encode(PROMPTS[1].text)
    many = torch.tensor([tokens] * 48)
    out = pair.target.model.generate(
        many, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, min_new_tokens=40,
        max_new_tokens=40, pad_token_id=0,
    )  # fmt: skip
    texts = [(tokens, row[len(tokens) :].tolist()) for row in out]
    counts = replay_of(pair.target, pair.draft, texts, Sampling(1.0), 4).steps(4)
    own = builtin_pair()
    steps = []
    for seed in range(48):
        run = generate(
            own.target, own.draft, tokens, gamma=4, limit=40, sampling=Sampling(1.0),
            rng=np.random.default_rng(seed),
        )  # fmt: skip
        steps.append(run.steps)
    away = np.mean(steps) - counts.mean.mean()
    error = np.sqrt((np.var(steps, ddof=1) + counts.mean.var(ddof=1)) / 48)
    assert abs(away) < 3.5 * error


def test_measurement_through_torch(pair) -> None:  # type: ignore[no-untyped-def]
    plan = Plan(
        prompts=tuple(PROMPTS), temperatures=(0.0,), gammas=(0, 2), run_gammas=(2,),
        output_tokens=12, timing_rounds=3,
    )  # fmt: skip
    found = measure(pair, plan)
    assert found.status == "complete"
    assert "torch" in found.machine.software
    assert (found.machine.engine, found.machine.accelerator) == ("transformers", "")
    (said,) = (check_said(check) for check in found.checks if check.code == "eager")
    assert said.startswith("Eager transformers, batch 1: acceptance carries over")


def test_random_weights_of_a_config_are_timed(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = random_model(str(Path(DRAFT) / "config.json"), dtype="bfloat16", device="cpu")
    times = time_steps(model, None, gammas=[2], batches=[2], contexts=[30], rounds=2)
    assert {t.tokens for t in times.forwards} == {1, 3}
    logits = model.forward(np.ones((1, 4), np.int64), model.new_cache())
    assert np.isfinite(logits).all()
    config = json.loads((Path(DRAFT) / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"quantization_config": {"quant_method": "fp8"}})
    )
    with pytest.raises(InputError, match=r"of quantised weights \(fp8\).*--dtype bfloat16"):
        random_model(str(tmp_path / "config.json"), device="cpu")
    asked = random_model(str(tmp_path / "config.json"), dtype="float32", device="cpu")
    assert asked.dtype == "float32"
    huge = json.loads((Path(DRAFT) / "config.json").read_text())
    huge |= {"hidden_size": 65536, "intermediate_size": 262144, "num_hidden_layers": 200}
    (tmp_path / "config.json").write_text(json.dumps(huge | {"head_dim": 64}))
    with pytest.raises(InputError, match=r"needs .* GB for its weights; .* GB are free"):
        random_model(str(tmp_path / "config.json"), device="cpu")


def test_command_times_shapes_alone() -> None:
    from click.testing import CliRunner

    from specmath.cli.measure import measure_command

    done = CliRunner().invoke(
        measure_command,
        ["--timing-only", "--target", f"{TARGET}/config.json", "--draft", f"{DRAFT}/config.json",
         "--gammas", "1,4", "--batch", "1,2", "--context", "32", "--rounds", "2",
         "--device", "cpu", "--format", "json"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert {(r["model"], r["batch"], r["tokens"]) for r in rows} == {
        (model, batch, tokens)
        for batch in (1, 2)
        for model, tokens in (("target", 1), ("target", 2), ("target", 5), ("draft", 1))
    }
    assert all(r["plain_steps"] == 1 for r in rows if (r["model"], r["tokens"]) == ("target", 1))


@pytest.mark.parametrize("sampling", [Sampling(0), Sampling(0.8), Sampling(1.2, 0.7)], ids=str)
@pytest.mark.parametrize("certain", [True, False])
def test_draws_on_the_device_are_those_of_the_host(sampling: Sampling, certain: bool) -> None:
    """The same logits and the same random numbers: token by token the same, to double rounding."""
    rng = np.random.default_rng(5)
    for seed in range(60):
        rows = rng.normal(0, 2, (4, 50)).astype(np.float32)
        near = rows[:3] + rng.normal(0, 0.5, (3, 50)).astype(np.float32)
        made = []
        for draws, of in ((HostDraws(), np.asarray), (TorchDraws(), torch.from_numpy)):
            own = np.random.default_rng(seed)
            proposed = [draws.propose(of(row), Sampling(1.1), own) for row in near]
            tokens = [token for token, _ in proposed]
            given = None if certain or sampling.greedy else [q for _, q in proposed]
            made.append((tokens, draws.verify(of(rows), Proposal(tokens, given), sampling, own)))
            assert draws.best(of(rows)) == rows.argmax(axis=-1).tolist()
        assert made[0] == made[1]


def test_a_head_of_few_ids_draws_only_these() -> None:
    kept, rng = np.array([2, 5, 7]), np.random.default_rng(0)
    draws = TorchDraws(kept, 9)
    rows = torch.tensor([[0.0, 3.0, 1.0]])
    assert draws.best(rows) == [5]
    drawn = {draws.propose(rows[0], Sampling(2.0), rng)[0] for _ in range(100)}
    assert drawn == {2, 5, 7}
    found = draws.probabilities(rows[0], Sampling(1.0)).numpy()
    np.testing.assert_array_equal(np.flatnonzero(found), kept)
    np.testing.assert_allclose(found[kept], np.exp([0, 3, 1]) / np.exp([0, 3, 1]).sum())


def _copy(tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(DRAFT, tmp_path / name))


def test_different_tokenizers_are_refused_with_the_reason(tmp_path) -> None:  # type: ignore[no-untyped-def]
    other = _copy(tmp_path, "other")
    data = json.loads((other / "tokenizer.json").read_text())
    first, second = list(data["model"]["vocab"])[300:302]
    vocabulary = data["model"]["vocab"]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"tokenizers differ .*2 have another id"):
        load_pair(TARGET, str(other), device="cpu")


def test_one_token_more_in_a_tokenizer_is_one_sentence(tmp_path) -> None:  # type: ignore[no-untyped-def]
    other = _copy(tmp_path, "other")
    data = json.loads((other / "tokenizer.json").read_text())
    data["model"]["vocab"]["wombat"] = max(data["model"]["vocab"].values()) + 1
    (other / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"1 is in one only, such as 'wombat'.*one vocabulary$"):
        load_pair(TARGET, str(other), device="cpu")


def _tensors(tmp_path: Path, name: str, change) -> str:  # type: ignore[no-untyped-def]
    """A copy of the draft whose tensors were changed."""
    from safetensors.torch import load_file, save_file

    folder = _copy(tmp_path, name)
    found = load_file(folder / "model.safetensors")
    change(found)
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


QUERY = "model.layers.0.self_attn.q_proj.weight"


def test_a_checkpoint_that_would_run_on_random_values_is_refused(tmp_path, capfd) -> None:  # type: ignore[no-untyped-def]
    lacking = _tensors(tmp_path, "lacking", lambda t: t.pop(QUERY))
    with pytest.raises(InputError, match=f"lacks the tensor {QUERY}: it would run on random"):
        load_model(lacking, device="cpu")
    short = _tensors(tmp_path, "short", lambda t: t.update({QUERY: t[QUERY][:8].contiguous()}))
    with pytest.raises(InputError, match=f"holds in another shape the tensor {QUERY}"):
        load_model(short, device="cpu")
    more = _tensors(tmp_path, "more", lambda t: t.update({"visual.w": t[QUERY].clone()}))
    notes = load_pair(TARGET, more, dtype="float32", device="cpu").notes
    assert [(n.code, n.values) for n in notes] == [("unread tensors", {"count": 1})]
    assert capfd.readouterr().err == "", "the loader's own report is not printed beside ours"


@pytest.mark.parametrize(
    ("config", "tensor", "said"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "", "is an EAGLE head"),
        ({"architectures": ["EagleLlamaForCausalLM"]}, "", "is an EAGLE head"),
        ({}, "fc.weight", "is an EAGLE head"),
        ({}, "d2t", "is an EAGLE head"),
        ({"medusa_num_heads": 4}, "", "is a Medusa head"),
        ({"speculators_model_type": "eagle3"}, "", "is a"),
        ({"model_type": "mamba"}, "", "a mamba, a hybrid or recurrent model"),
        ({"model_type": "qwen3_next"}, "", "a qwen3_next, a hybrid or recurrent model"),
        ({"model_type": "lfm2", "layer_types": ["conv"]}, "", r"a lfm2, .*layers of kind conv"),
        ({"layer_types": [["x"]]}, "", r"config\.json of .*layer_types.0 must be text"),
        ({"hidden_size": 10**30}, "", r"hidden_size"),
        ({"num_hidden_layers": "2"}, "", r"num_hidden_layers must be a whole number, got '2'"),
    ],
)
def test_what_is_no_model_by_itself_is_refused_by_name(tmp_path, config, tensor, said) -> None:  # type: ignore[no-untyped-def]
    folder = _tensors(
        tmp_path, "other", lambda t: t.update({tensor: torch.zeros(2)} if tensor else {})
    )
    file = Path(folder) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    with pytest.raises(InputError, match=said) as caught:
        load_model(folder, device="cpu")
    assert "\n" not in str(caught.value)
    if "head" not in said and said != "is a":
        with pytest.raises(InputError, match=said):
            random_model(str(file), device="cpu")


@pytest.mark.parametrize(
    "config",
    [{"output_hidden_states": "x"}, {"return_dict": []}, {"rms_norm_eps": "x"},
     {"num_key_value_heads": 3}, {"rope_parameters": [1]}, {"hidden_act": {}}, {"head_dim": 7},
     {"max_position_embeddings": 10**400}, {"vocab_size": -1}, {"layer_types": ["moon"]}],
    ids=str,
)  # fmt: skip
def test_a_config_of_any_types_runs_or_is_one_sentence(tmp_path, config, capfd) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads((Path(DRAFT) / "config.json").read_text()) | config))
    said = ""
    try:
        model = random_model(str(file), dtype="float32", device="cpu")
        time_steps(model, None, gammas=[1], contexts=[8], rounds=1)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 600
    assert capfd.readouterr().err == ""


def test_a_larger_draft_is_allowed_and_said() -> None:
    found = load_pair(DRAFT, TARGET, dtype="float32", device="cpu")
    assert [(n.code, n.values["draft"] > n.values["target"]) for n in found.notes] == [
        ("larger draft", True)
    ]
    assert isinstance(found.draft, ModelDraft)


def test_folders_that_cannot_be_loaded(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="no folder"):
        load_model("./nowhere", device="cpu")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"must hold config\.json"):
        load_model(str(tmp_path / "empty"), device="cpu")
    pickled = _copy(tmp_path, "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(InputError, match="must hold safetensors weights"):
        load_model(str(pickled), device="cpu")
    remote = _copy(tmp_path, "remote")
    config = json.loads((remote / "config.json").read_text())
    (remote / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "x.Y"}}))
    with pytest.raises(InputError, match="code of its own"):
        load_model(str(remote), device="cpu")
    damaged = _copy(tmp_path, "damaged")
    (damaged / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(InputError, match="cannot load"):
        load_model(str(damaged), device="cpu")
    with pytest.raises(InputError, match="dtype must be one of"):
        load_model(TARGET, dtype="int3", device="cpu")


# ── names of the hub ─────────────────────────────────────────────────────────────────────────

ROOT = Path(__file__).parents[2]
HUB_SCRIPT = """
import contextlib, io, json, sys
from specmath.checks import InputError
from specmath.cli import main
from specmath.measure.pairs import load_pair

found = load_pair("org/target", "org/draft", device="cpu")
print(json.dumps([found.target.name, found.target.parameters, found.draft.name]))
for target, draft in (("org/none", "ngram"), ("org/target", "org/none"), ("none", "ngram"),
                      ("a/b/c", "ngram"), ("a b/c", "ngram"), ("org/pickled", "ngram")):
    try:
        load_pair(target, draft, device="cpu")
    except InputError as error:
        print(json.dumps(str(error)))
for target in ("org/target", "org/none"):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(["measure", "--target", target, "--draft", "org/draft", "--prompts", sys.argv[1],
                "--tokens", "8", "--gammas", "2", "--temperature", "0", "--rounds", "2",
                "--device", "cpu", "--format", "json"])
        except SystemExit as done:
            code = done.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def _cached(home: Path, name: str, folder: Path) -> None:
    """What a download of this model leaves in the cache of the hub."""
    own = home / "hub" / f"models--{name.replace('/', '--')}"
    (own / "refs").mkdir(parents=True)
    (own / "refs" / "main").write_text("0" * 40)
    shutil.copytree(folder, own / "snapshots" / ("0" * 40))


@pytest.mark.parametrize("offline", ["1", "0"])
def test_names_of_the_hub_come_from_its_cache(tmp_path: Path, offline: str) -> None:
    """In a process of its own: the hub's client reads its settings once. Without a network both
    ways must end at once, with the cached model or with one sentence."""
    home, prompts = tmp_path / "home", tmp_path / "prompts.json"
    _cached(home, "org/target", Path(TARGET))
    _cached(home, "org/draft", Path(DRAFT))
    pickled = _copy(tmp_path, "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    _cached(home, "org/pickled", pickled)
    prompts.write_text(json.dumps(["def f(x):"]))
    # A closed port instead of the hub: this test never leaves the machine.
    env = os.environ | {
        "HF_HOME": str(home), "HF_HUB_OFFLINE": offline, "HF_ENDPOINT": "http://127.0.0.1:9",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", HUB_SCRIPT, str(prompts)], env=env, cwd=tmp_path, timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded, *messages, ran, refused = map(json.loads, done.stdout.splitlines())
    assert loaded == ["org/target", builtin_pair().target.parameters, "org/draft"]
    why = "HF_HUB_OFFLINE is set" if offline == "1" else "may be no network"
    for message, part in zip(messages, [why, why, why, "no folder a/b/c", "cannot be a hub name",
                                        "must hold safetensors"], strict=True):  # fmt: skip
        assert part in message
        assert "\n" not in message
    assert (ran[0], json.loads(ran[1])[0]["gamma"]) == (0, 2)
    assert refused[:2] == [2, ""]
    assert why in refused[2]
    assert "Traceback" not in refused[2]


# ── where the weights lie, in which numbers, and memory that runs out ────────────────────────

LAYERS = 6


def _spread(first: str, second: str) -> dict[str, str]:
    places = {f"model.layers.{n}": first if n < 3 else second for n in range(LAYERS)}
    outside = ("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head")
    return places | dict.fromkeys(outside, first)


@pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed"
)
@pytest.mark.parametrize(
    "device_map",
    [{"": "cpu"}, "auto", _spread("cpu", "disk"), _spread("disk", "cpu")],
    ids=["cpu", "auto", "half on disk", "embedding on disk"],
)
def test_a_device_map_changes_no_logit(pair, device_map) -> None:  # type: ignore[no-untyped-def]
    found = load_model(TARGET, dtype="float32", device_map=device_map)
    tokens = np.arange(1, 31)[None]
    cache = found.new_cache()
    found.read(tokens[:, :20], cache)
    cache.truncate(15)
    whole = pair.target.forward(tokens, pair.target.new_cache())
    np.testing.assert_allclose(found.forward(tokens[:, 15:], cache), whole[:, 15:], atol=5e-4)
    split = isinstance(device_map, dict) and len(set(device_map.values())) > 1
    if split:
        with pytest.raises(InputError, match="layer-skip needs a model in one place"):
            found.skipping((1,))
    else:
        assert found.skipping((1,)).layers == LAYERS - 1


def test_a_pair_spread_over_memory_and_disk_is_measured(pair) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    spread = load_pair(TARGET, DRAFT, dtype="float32", device_map="auto")
    halved = load_model(TARGET, dtype="float32", device_map=_spread("cpu", "disk"))
    plan = _small_plan()
    found = measure(replace(spread, target=halved), plan)
    wanted = measure(pair, plan)
    assert found.status == "complete"
    alphas = [[row.alpha.value for row in each.acceptance] for each in (found, wanted)]
    assert alphas[0] == pytest.approx(alphas[1], abs=1e-3)


def test_without_accelerate_a_device_map_gives_the_install_command(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "accelerate" else real(n, *a)
    )
    with pytest.raises(InputError, match=r"needs accelerate, .* pip install -r requirements"):
        load_model(TARGET, device_map="auto")


def test_a_device_map_that_is_none_is_refused() -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    with pytest.raises(InputError, match="cannot load"):
        load_model(TARGET, device_map="nonsense")


def _small_plan() -> Plan:
    return Plan(
        prompts=tuple(PROMPTS), temperatures=(0.0, 1.0), gammas=(0, 3), run_gammas=(3,),
        output_tokens=12, timing_rounds=3,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_on_a_processor(pair, dtype: str) -> None:  # type: ignore[no-untyped-def]
    """Finite numbers all the way, logits near those of float32, the file reads back."""
    half = load_pair(TARGET, DRAFT, dtype=dtype, device="cpu")
    tokens = np.arange(1, 31)[None]
    mine = half.target.forward(tokens, half.target.new_cache())
    theirs = pair.target.forward(tokens, pair.target.new_cache())
    # 8 bits of mantissa over 6 layers: a few steps of 2^-8 of the largest logit.
    np.testing.assert_allclose(mine, theirs, atol=0.03 * np.abs(theirs).max())
    found = measure(half, _small_plan())
    assert (found.status, found.pair.dtype) == ("complete", dtype)
    assert read_report(write_report(found)) == found  # refuses what is not finite
    assert all(0 < row.alpha.value <= 1 for row in found.acceptance)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp] can't allocate memory: you tried to ..."),
        MemoryError(),
    ],
    ids=["cuda", "cpu", "python"],
)
def test_out_of_memory_half_way_keeps_what_is_done(monkeypatch, error: Exception) -> None:  # type: ignore[no-untyped-def]
    """The second prompt is too long for the memory: the first one's acceptance stays."""
    small = load_pair(TARGET, DRAFT, dtype="float32", device="cpu")
    too_long = Prompt(PROMPTS[0].text * 3, "json")
    limit = 2 * len(small.tokenizer.encode(PROMPTS[0].text))
    run = small.target._run

    def forward(tokens, cache, keep):  # type: ignore[no-untyped-def]
        if tokens.shape[1] >= limit:
            raise error
        return run(tokens, cache, keep)

    monkeypatch.setattr(small.target, "_run", forward)
    found = measure(small, replace(_small_plan(), prompts=(PROMPTS[0], too_long)))
    assert found.status == "partial"
    assert re.search(r"out of memory half-way; .* GB are free on cpu; take .*shorter", found.reason)
    assert [row.texts for row in found.acceptance] == [1]
    assert found.comparison
    assert found.costs is not None


def test_out_of_memory_while_loading_says_what_fits(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def full(*given, **more):  # type: ignore[no-untyped-def]
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(InputError, match=r"does not fit: .* enough for about .* billion"):
        load_model(TARGET, device="cpu")


def test_out_of_memory_while_timing_names_the_shape(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    small = load_model(DRAFT, dtype="float32", device="cpu")
    run = small._run

    def forward(tokens, cache, keep):  # type: ignore[no-untyped-def]
        if len(tokens) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return run(tokens, cache, keep)

    monkeypatch.setattr(small, "_run", forward)
    times = time_steps(small, None, gammas=[2], batches=[1, 4], contexts=[16], rounds=2)
    assert {timed.batch for timed in times.forwards} == {1}
    assert times.left_out == ((4, 16),)


# ── threads and the clock ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("alone", "together", "chosen"), [(1, 5, 1), (5, 1, 2)])
def test_threads_are_chosen_by_trial(
    pair,
    monkeypatch,
    alone: int,
    together: int,
    chosen: int,  # type: ignore[no-untyped-def]
) -> None:
    """A pass takes so many ms on one thread and on two; what was allowed comes back after it."""
    monkeypatch.setattr(
        pair.target, "compute",
        lambda *given: time.sleep((alone if torch.get_num_threads() == 1 else together) / 1e3),
    )  # fmt: skip
    torch.set_num_threads(2)
    try:
        with steady(pair.target) as clock:
            assert torch.get_num_threads() == chosen
            assert clock.kind == ("thread" if chosen == 1 and sys.platform == "linux" else "wall")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
