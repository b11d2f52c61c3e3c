"""Which drafts a target can have: real ones, marked where not, ranked by their own band."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from specmath import models
from specmath.acceptance_record import made_for, rows
from specmath.checks import InputError
from specmath.cli import cli
from specmath.options import Options, options, told_apart
from specmath.predict import predict
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import build, to_toml
from specmath.serving.memory import Memory, draft_bytes
from specmath.tables import options_table
from specmath.tables.files import file_bytes
from specmath.vocabularies import mismatch, rules
from specmath.words.options import choice_of, options_notes, target_words

SERVED: dict[str, Any] = {
    "acceptance_form": "range", "gpu": "H200 SXM", "model": "Llama-3.3-70B", "draft": "eagle3",
    "tensor_parallel": 4, "concurrency": 16, "prompt_tokens": 1024, "output_tokens": 256,
}  # fmt: skip


def found_for(*compared: str, **changes: Any) -> Options:
    return options(resolve(build(SERVED | changes)), compared)


def labels(found: Options) -> set[str]:
    return {row.label for row in found.rows}


# ── real options ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("model", "there", "absent"),
    [
        ("Llama-3.3-70B", {"Llama-3.2-1B", "Llama-3.1-8B", "N-gram lookup", "Suffix decoding"},
         {"MTP module", "MTP assistant (Gemma 4)", "Qwen3-0.6B"}),
        ("Qwen3-32B", {"Qwen3-0.6B", "Qwen3-1.7B"}, {"MTP module", "Llama-3.2-1B", "Qwen2.5-0.5B"}),
        ("DeepSeek-V3", {"MTP module", "N-gram lookup"}, {"MTP assistant (Gemma 4)"}),
        ("GLM-4.5-Air", {"MTP module"}, set()),
        ("Qwen3-Next-80B-A3B", {"MTP module", "Qwen3-0.6B"}, set()),
        ("MiMo-V2-Flash", {"MTP module"}, set()),
        ("Gemma-4-31B", {"MTP assistant (Gemma 4)"}, {"MTP module", "Gemma-3-1B"}),
    ],
)  # fmt: skip
def test_a_target_is_offered_what_it_can_have(
    model: str, there: set[str], absent: set[str]
) -> None:
    tp = 8 if model in ("DeepSeek-V3", "MiMo-V2-Flash") else 4
    found = found_for(model=model, tensor_parallel=tp)
    assert there <= labels(found)
    assert absent.isdisjoint(labels(found))
    blocks = [label for label in labels(found) if "DFlash" in label or "DSpark" in label]
    assert len(blocks) == 1, "one band is one row"


def test_an_assistant_of_ones_own_for_another_family_is_marked() -> None:
    (own,) = [row for row in found_for(draft="assistant").rows if row.yours]
    assert target_words(own) == "not of Llama-3.3-70B"


def test_what_an_engine_does_not_take_is_left_out_with_its_reason() -> None:
    reasons = dict(found_for().left_out)
    assert reasons["Medusa heads"] == "vLLM 0.33.0 takes no Medusa heads: removed after 0.32.0"
    assert "Suffix decoding" in dict(found_for(engine="sglang").left_out)
    assert {"Medusa heads", "Layer skipping"} <= labels(found_for(engine="other")), "not read"
    # A head of one's own stays, and is not ranked.
    own = found_for(draft="medusa", alpha_low=0.5, alpha_high=0.6)
    assert own.rows[-1].yours
    assert not own.rows[-1].runs
    assert own.best is not own.rows[-1]


def test_heads_exist_where_the_record_has_one_for_the_target() -> None:
    """Counted in the file itself."""
    seen = {r.reporter for r in rows() if r.drafter_kind == "block" and r.target in
            ("Qwen3-8B", "Qwen3-8B Q4_K_M")}  # fmt: skip
    found = found_for(model="Qwen3-8B", tensor_parallel=1)
    (block,) = [row for row in found.rows if "DFlash" in row.label]
    assert block.exists
    assert {r.reporter for r in block.seen} == seen
    assert target_words(block).startswith(f"{len(seen)} sources measured one on it, α 0.")
    (none,) = [row for row in found_for().rows if "DFlash" in row.label]
    assert not none.exists
    assert target_words(none) == "if one was trained for it"
    assert made_for("eagle3", "meta-llama/Llama-3.3-70B-Instruct-FP8") == made_for(
        "eagle3", "Llama-3.3-70B"
    )


def test_fields_of_ones_own_draft_hold_for_no_other() -> None:
    """A draft of two layers on a GPU of its own: the other heads have one, and no such GPU."""
    plain = {row.label: row for row in found_for().rows if not row.yours}
    own = found_for(draft_layers=2, draft_vocab=64000)
    assert {row.label for row in own.rows if not row.yours} == plain.keys()
    for row in own.rows:
        if not row.yours:
            assert row.speedup.value == pytest.approx(plain[row.label].speedup.value)


# ── what each costs ──────────────────────────────────────────────────────────────────────────


def test_memory_of_a_draft_by_hand() -> None:
    """Llama-3.2-1B, 2.47 GB and 16 layers of 8 x 64 keys and values in 2 bytes: 32 KiB a token,
    for 16 sequences of the context, one token and γ, in blocks of 16; and the target's γ tokens
    more (80 layers of 8 x 128, 320 KiB a token over 4 GPUs), with γ rows of logits."""
    (one,) = [row for row in found_for().rows if row.label == "Llama-3.2-1B"]
    gamma, context = one.best_gamma, one.pair.context_tokens
    blocks = -(-(context + 1 + gamma) // 16) * 16
    before = -(-(context + 1) // 16) * 16
    cache = blocks * 32 * 1024 + (blocks - before) * 320 * 1024 / 4 + gamma * 128256 * 4
    weights = models.find("Llama-3.2-1B").parameters * 2
    assert one.memory == pytest.approx(weights + 16 * cache, rel=1e-9)
    assert draft_bytes(one.pair, gamma) == one.memory
    assert Memory.of(one.pair).draft_weights == weights


# ── vocabularies ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("engine", "target", "draft", "expected"),
    [
        ("vllm", "Llama-3.3-70B", "Llama-3.2-1B", None),
        ("vllm", "Qwen2.5-7B", "Qwen2.5-0.5B", ("sizes", "refuses")),
        ("llamacpp-cuda", "Qwen2.5-7B", "Qwen2.5-0.5B", None),  # 128 rows apart
        ("llamacpp-cuda", "Qwen3-8B", "Qwen2.5-0.5B", ("tokens", "refuses")),
        ("vllm", "Qwen3-8B", "Qwen2.5-0.5B", ("tokens", "goes on")),  # of one size
        ("vllm", "Mixtral-8x7B", "TinyLlama-1.1B", ("tokens", "goes on")),
        ("vllm", "Llama-3.3-70B", "Qwen3-0.6B", ("tokens", "refuses")),
        ("sglang", "Llama-3.3-70B", "Qwen3-0.6B", ("tokens", "refuses")),
        ("mlx", "Llama-3.3-70B", "Qwen3-0.6B", ("tokens", "goes on")),
        ("transformers", "Llama-3.3-70B", "Qwen3-0.6B", ("tokens", "translates")),
        ("tensorrt-llm", "Llama-3.3-70B", "Qwen3-0.6B", ("tokens", "unknown")),
        ("other", "Llama-3.3-70B", "Qwen3-0.6B", ("tokens", "unknown")),
        ("vllm", "GLM-4.7", "GLM-4.5-Air", ("unsure", "unknown")),
    ],
)
def test_another_vocabulary_by_engine(
    engine: str, target: str, draft: str, expected: tuple[str, str] | None
) -> None:
    found = mismatch(engine, models.find(target), models.find(draft))
    assert (found and (found.difference, found.does)) == expected


def test_every_engine_has_a_source_or_says_it_was_not_read() -> None:
    for rule in rules().values():
        assert rule.source
        assert (rule.source == "not read") == (rule.sizes == rule.tokens == "unknown")


def test_a_draft_with_other_tokens_is_marked_and_not_ranked() -> None:
    found = found_for("Qwen3-0.6B")
    last = found.rows[-1]
    assert (last.label, last.known, last.runs) == ("Qwen3-0.6B", False, False)
    said = target_words(last)
    assert said == ("named by you; another tokenizer (151,936 tokens for 128,256): vLLM refuses it")
    told = " ".join(options_notes(predict(build(SERVED)), found))
    assert "use_heterogeneous_vocab" in told
    assert "verify_equal_vocab_size_if_draft_model" in told
    row = next(r for r in options_table(found).rows() if r["draft"] == "Qwen3-0.6B")
    assert row["best_speedup"] is row["alpha"] is row["usd_per_million_tokens"] is None
    # transformers translates: it runs, at an acceptance that nobody measured.
    (other,) = [r for r in found_for("Qwen3-0.6B", engine="transformers").rows if r.named]
    assert (other.runs, other.known) == (True, False)
    # One's own number counts, whatever the tokens.
    own = found_for(draft="Qwen3-0.6B", engine="transformers", alpha_low=0.5, alpha_high=0.6)
    assert next(r for r in own.rows if r.yours).known


def test_bad_candidates_are_refused_or_marked() -> None:
    with pytest.raises(InputError, match=r"got 'Qwen3-0.6C'; nearest: Qwen3-0.6B"):
        found_for("Qwen3-0.6C")
    with pytest.raises(InputError, match="must be a model, got 'eagle'"):
        found_for("eagle")
    with pytest.raises(InputError, match="at most 20 drafts are compared, got 21"):
        found_for(*(f"x{i}" for i in range(21)))
    larger = found_for("Llama-3.3-70B", model="Llama-3.1-8B", tensor_parallel=4)
    (row,) = [r for r in larger.rows if r.named]
    assert target_words(row) == "named by you; not smaller than the target"
    assert not row.pays
    fits = dict(found_for("Llama-3.1-405B").left_out)
    assert "does not fit on 4 x H200 SXM" in fits["Llama-3.1-405B"]


# ── the answer ───────────────────────────────────────────────────────────────────────────────


def test_ranked_by_each_ones_own_band_the_unknown_after_the_known() -> None:
    found = found_for(engine="none")
    known = [row for row in found.rows if row.known]
    assert [row.label for row in found.rows[len(known) :] if row.known] == []
    for there in (True, False):  # what there is stands first
        speeds = [row.speedup.value for row in known if row.exists == there]
        assert speeds == sorted(speeds, reverse=True)
    assert [row.exists for row in known] == sorted((r.exists for r in known), reverse=True)
    best = found.best
    assert best is not None
    assert best.exists
    said = choice_of(found)
    assert said.headline.startswith(best.label)
    low, high = best.ends
    assert f"({low:.2f}× to {high:.2f}×)" in said.headline
    assert len(said.sentence()) < 420
    assert "if one exists for your model" in said.reason
    for row in found.near:
        assert not told_apart(best, row)


def test_told_apart_means_the_slower_one_is_seldom_faster_in_truth() -> None:
    """Two speedups drawn from their own lognormal 80% ranges, 20,000 times: at the border of what
    is told apart the slower one wins in a tenth of the draws."""
    rng = random.Random(1)

    class Row:
        def __init__(self, value: float, spread: float) -> None:
            self.speedup = type("Estimate", (), {"value": value})()
            self.ends = value / spread, value * spread

    for one, other in ((1.2, 1.1), (1.6, 1.3), (1.3, 1.3)):
        gap = math.exp(math.hypot(math.log(one), math.log(other)))
        slow, fast = Row(1.5, other), Row(1.5 * gap * 1.001, one)
        assert told_apart(fast, slow)  # type: ignore[arg-type]
        assert told_apart(slow, fast)  # type: ignore[arg-type]
        assert not told_apart(Row(1.5 * gap * 0.999, one), slow)  # type: ignore[arg-type]
        sigma = [math.log(spread) / 1.2816 for spread in (one, other)]
        draws = [
            rng.gauss(math.log(1.5 * gap), sigma[0]) < rng.gauss(math.log(1.5), sigma[1])
            for _ in range(20_000)
        ]
        assert np.mean(draws) == pytest.approx(0.1, abs=0.01)


def test_nothing_known_to_pay_is_said() -> None:
    found = found_for(concurrency=None, batch=2000, context_tokens=100, prompt_tokens=None)
    assert all(row.best_gamma == 0 for row in found.rows if row.known) == (found.best is None)
    none = Options((), ())
    assert choice_of(none).headline.startswith("No draft is known to pay")
    assert not choice_of(none).firm


# ── page, command line and file ──────────────────────────────────────────────────────────────


def ran(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["drafts", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


OPTIONS = (
    "--gpu", "h200", "--model", "Llama-3.3-70B", "--draft", "eagle3", "--tensor-parallel", "4",
    "--concurrency", "16", "--prompt-tokens", "1024", "--output-tokens", "256",
)  # fmt: skip


def test_command_line_file_and_table_say_the_same(tmp_path: Any) -> None:
    s = build(SERVED)
    found = options(resolve(s), ("Qwen3-0.6B",))
    table = options_table(found)
    as_json = json.loads(ran(*OPTIONS, "--compare", "Qwen3-0.6B", "--format", "json"))
    assert as_json == [pytest.approx(row) for row in table.rows()]
    as_csv = list(csv.DictReader(io.StringIO(ran(*OPTIONS, "--compare", "Qwen3-0.6B",
                                                 "--format", "csv"))))  # fmt: skip
    written = file_bytes(table, s, "values").decode("utf-8-sig")
    in_file = list(csv.DictReader(io.StringIO(written)))
    for printed, kept, row in zip(as_csv, in_file, table.rows(), strict=True):
        for name, value in row.items():
            if isinstance(value, float | int):
                assert float(printed[name]) == float(kept[name]) == pytest.approx(value)
            else:
                assert printed[name] == kept[name] == (value or "")
    said = ran(*OPTIONS, "--compare", "Qwen3-0.6B")
    assert said.startswith(choice_of(found).sentence())
    for note in options_notes(predict(s), found):
        assert note in said
    saved = tmp_path / "s.toml"
    saved.write_text(to_toml(s), "utf-8")
    assert ran("--scenario", str(saved)) == ran(*OPTIONS)


def test_without_a_draft_the_command_needs_none() -> None:
    without = [o for pair in zip(OPTIONS[::2], OPTIONS[1::2], strict=True) for o in pair
               if "--draft" not in pair]  # fmt: skip
    found = json.loads(ran(*without, "--format", "json"))
    assert not any("(yours)" in row["draft"] for row in found)
    assert {"EAGLE-3 head", "N-gram lookup"} <= {row["draft"] for row in found}
    assert "EAGLE-3 head" in ran(*without)
    for wrong in (["--alpha", "0.7", "--c", "0.1"], [*OPTIONS, "--compare", "nothing-like-it"]):
        refused = CliRunner().invoke(cli, ["drafts", *wrong])
        assert isinstance(refused.exception, InputError)
