"""The torch engine against the numpy engine, and our loop against transformers' own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

REASON = "torch and transformers are not installed (requirements-measure.txt)"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

from specmath.checks import InputError  # noqa: E402
from specmath.measure.drafts import ModelDraft, NgramDraft  # noqa: E402
from specmath.measure.llama import NumpyLlama  # noqa: E402
from specmath.measure.pairs import (  # noqa: E402
    builtin_folder,
    builtin_pair,
    builtin_prompts,
    load_pair,
)
from specmath.measure.plan import Plan  # noqa: E402
from specmath.measure.run import measure  # noqa: E402
from specmath.measure.sampling import Sampling  # noqa: E402
from specmath.measure.score import replay_of  # noqa: E402
from specmath.measure.speculate import generate  # noqa: E402
from specmath.measure.timing import time_steps  # noqa: E402
from specmath.measure.torch_load import load_model, random_model  # noqa: E402

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


def test_random_weights_of_a_config_are_timed(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = random_model(str(Path(DRAFT) / "config.json"), dtype="bfloat16", device="cpu")
    times = time_steps(model, None, gammas=[2], batches=[2], contexts=[30], rounds=2)
    assert {t.tokens for t in times.forwards} == {1, 3}
    logits = model.forward(np.ones((1, 4), np.int64), model.new_cache())
    assert np.isfinite(logits).all()
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


def test_a_larger_draft_is_allowed_and_said() -> None:
    found = load_pair(DRAFT, TARGET, dtype="float32", device="cpu")
    assert any("larger than the target" in note for note in found.notes)
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
