"""Any scenario of a server with a load, at random: answers or one sentence, the same everywhere;
and inputs that are wrong, one by one."""

from __future__ import annotations

import csv
import io
import json
import urllib.parse
from typing import Any

import numpy as np
import pytest
from helpers.command_line import Capture, fault, run
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath import Scenario, predict
from specmath.checks import InputError
from specmath.predict import Prediction
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import build, from_link, from_toml, to_link, to_toml
from specmath.stepcost import TabulatedStepCost
from specmath.tables import batch_table, gamma_table
from specmath.words.notes import notes
from specmath.words.verdict import verdict

MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-30B-A3B", "DeepSeek-V3", "Qwen3-0.6B")
DRAFTS = ("eagle3", "eagle", "ngram", "Qwen3-0.6B", "Llama-3.2-1B", "medusa", "suffix", "dflash")
ENGINES = ("vllm", "sglang", "tensorrt-llm", "llamacpp-cuda", "mlx", "other", "none")
ALLOWED = (
    "does not fit on",  # weights
    "must divide",  # GPUs of a replica
    "request_rate must be <",  # beyond what plain decoding carries
)
"""All that may refuse a scenario whose fields are each in their range."""


@st.composite
def loads(draw: Any) -> dict[str, Any]:
    """Fields of a load, in one of its ways."""
    said: dict[str, Any] = {"output_tokens": draw(st.integers(1, 20_000))}
    way = draw(st.sampled_from(["batch", "concurrency", "one_wave", "request_rate"]))
    if way == "request_rate":
        said["request_rate"] = 10 ** draw(st.floats(-4, 2.5))
        said["prompt_tokens"] = draw(st.integers(0, 200_000))
        return said
    if way == "one_wave":
        said["arrivals"], way = "one_wave", "concurrency"
    said[way] = draw(st.one_of(st.integers(1, 64), st.integers(1, 100_000)))
    prompt = draw(st.none() | st.integers(0, 200_000))
    return said | ({} if prompt is None else {"prompt_tokens": prompt})


@st.composite
def served(draw: Any) -> dict[str, Any]:
    """Fields of a scenario in the hardware form with a load."""
    said: dict[str, Any] = {
        "gpu": draw(st.sampled_from(["H100 SXM", "B200 SXM", "A100 SXM 80GB", "L40S"])),
        "model": draw(st.sampled_from(MODELS)),
        "draft": draw(st.sampled_from(DRAFTS)),
        "engine": draw(st.sampled_from(ENGINES)),
        "tensor_parallel": draw(st.sampled_from([1, 1, 2, 4, 8])),
        "gamma": draw(st.none() | st.integers(0, 5)),
        "max_gamma": draw(st.integers(1, 5)),
        **draw(loads()),
    }
    if draw(st.booleans()):
        said["alpha"] = draw(st.floats(0, 1))
    else:
        said["alpha_low"], said["alpha_high"] = sorted(draw(st.tuples(*[st.floats(0, 1)] * 2)))
    if draw(st.booleans()):
        said["prefix_hit"] = draw(st.floats(0, 1))
        said["prefix_hit_speculative"] = draw(st.none() | st.floats(0, 1))
        said["chunk_tokens"] = draw(st.integers(1, 65_536))
    if draw(st.booleans()):
        said["decode_only"] = "yes"
    return said


def answered(said: dict[str, Any]) -> Prediction | None:
    """The prediction; None where it was refused as it may be."""
    scenario = build(said)
    try:
        return predict(scenario)
    except InputError as error:
        words = str(error)
        assert any(each in words for each in ALLOWED), words
        assert "\n" not in words
        assert len(words) < 400
        return None


def check(found: Prediction) -> None:
    """What holds of every answer."""
    curve = found.curve
    assert curve.low is not None
    assert curve.high is not None
    for each in (curve.low, curve.walltime_improvement, curve.high):
        assert each[0] == 1
        assert np.all(np.isfinite(each))
        assert np.all(each >= 0)
    assert np.all(curve.low <= curve.walltime_improvement)
    assert np.all(curve.walltime_improvement <= curve.high)
    for number in (found.tpot, found.tpot_plain, found.usd, found.usd_plain):
        assert number is not None
        assert number.low is not None
        assert number.high is not None
        assert 0 < number.low <= number.value <= number.high
    decision, top, whole = found.decision, found.endpoint.cap, found.endpoint.whole
    assert np.all(whole > 0)
    if decision.on:
        assert 1 <= decision.gamma <= top
        assert curve.low[decision.gamma] > 1
        assert whole[decision.gamma] > 1
    elif decision.action == "skip":
        assert np.all(curve.high[1 : top + 1] <= 1 + 1e-9)
    else:
        assert np.all(np.minimum(curve.low, whole)[1 : top + 1] <= 1 + 1e-9)


def test_what_speculation_adds_is_counted_from_its_own_batch() -> None:
    """At a fixed rate a faster arm has a smaller batch, here with a step of half a plain one: so
    many times s − 1 < 0 made a step last less than nothing. The excess multiplies what is added to
    a plain step of that batch, so that a step of any draw lasts at least as long."""
    found = answered(
        {
            "gpu": "H100 SXM", "model": "Qwen3-0.6B", "draft": "ngram", "engine": "vllm",
            "max_gamma": 5, "output_tokens": 618, "request_rate": 5.6234, "prompt_tokens": 4756,
            "alpha": 1.0,
        }
    )  # fmt: skip
    assert found is not None
    check(found)
    cost = found.speculation.cost
    steps = cost.points(np.arange(6), np.array([0.0, 1.0, 2.0]))
    assert isinstance(cost, TabulatedStepCost)
    assert cost.bases is not None
    assert max(cost.bases) < 0.8
    np.testing.assert_allclose(steps[0], [1.0, *cost.bases])
    np.testing.assert_allclose(steps[1], cost.total(np.arange(6)))
    np.testing.assert_allclose(steps[2] - steps[1], steps[1] - steps[0])
    assert np.all(np.diff(steps, axis=0)[:, 1:] > 0)


@pytest.mark.parametrize("gamma", [0, 3, 16])
def test_no_firm_yes_where_only_tokens_are_faster(gamma: int) -> None:
    """Four requests of 100,000 tokens at a time: the server reads prompts for nine tenths of its
    time. Fewer decode at once, so that tokens are faster, and whole requests are not."""
    found = answered(
        {
            "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B", "alpha": 0.7,
            "gamma": gamma, "concurrency": 4, "prompt_tokens": 100_000,
        }
    )  # fmt: skip
    assert found is not None
    assert found.curve.low is not None
    assert found.curve.low[3] > 1.2
    assert found.endpoint.whole[3] < 0.95
    assert found.decision.action == "measure"
    said = verdict(found)
    assert said.headline == "Measure first: tokens come faster, whole requests do not."
    assert "requests a second" in said.flips


@given(served())
@settings(max_examples=80)
def test_an_answer_holds_together_or_is_refused_in_one_sentence(said: dict[str, Any]) -> None:
    found = answered(said)
    if found is not None:
        check(found)
        assert all(note.strip() for note in notes(found))


@pytest.mark.slow
@given(served())
@settings(max_examples=400)
def test_many_answers_hold_together(said: dict[str, Any]) -> None:
    found = answered(said)
    if found is not None:
        check(found)


@given(served())
@settings(max_examples=60)
def test_files_and_links_give_the_load_back(said: dict[str, Any]) -> None:
    scenario = build(said)
    assert from_toml(to_toml(scenario)) == scenario
    link = urllib.parse.urlencode(to_link(scenario))
    assert from_link(dict(urllib.parse.parse_qsl(link, True))) == (scenario, [])


@given(served())
@settings(max_examples=30)
def test_the_tables_say_what_the_prediction_says(said: dict[str, Any]) -> None:
    """The row of γ, and the row of the batch where one is held, are the prediction's own."""
    found = answered(said)
    if found is None:
        return
    row = next(r for r in gamma_table(found).rows() if r["gamma"] == found.gamma)
    assert row["walltime_improvement"] == pytest.approx(found.speedup.value)
    assert row["walltime_improvement_low"] == pytest.approx(found.speedup.low)
    assert row["walltime_improvement_high"] == pytest.approx(found.speedup.high)
    s = found.scenario
    if s.concurrency is None and s.request_rate is None and s.prompt_tokens is not None:
        rows = batch_table(found).rows()
        row = next(r for r in rows if r["batch"] == s.batch)
        # A prompt keeps its share of the context, rounded to whole tokens.
        assert row["walltime_improvement"] == pytest.approx(found.speedup.value, rel=1e-6)
        assert found.tpot is not None
        assert row["tokens_per_second"] == pytest.approx(s.batch / found.tpot.value, rel=1e-6)
        assert row["recommended_gamma"] == found.recommended_gamma


SERVER = (
    "--gpu", "H100 SXM", "--model", "Llama-3.1-8B", "--draft", "eagle3", "--alpha", "0.7",
)  # fmt: skip
CASES = (
    ("--concurrency", "32", "--prompt-tokens", "2000"),
    ("--request-rate", "2", "--prompt-tokens", "2000", "--prefix-hit", "0.3"),
    ("--batch", "16", "--prompt-tokens", "1000", "--target-ms", "12"),
    ("--concurrency", "8", "--prompt-tokens", "512", "--arrivals", "one_wave"),
)


@pytest.mark.parametrize("load", CASES)
def test_the_command_the_rows_and_a_file_say_the_same(
    capsys: Capture, load: Any, tmp_path: Any
) -> None:
    told = json.loads(run(capsys, "predict", *SERVER, *load, "--gamma", "3", "--format", "json"))
    line = next(csv.DictReader(io.StringIO(
        run(capsys, "predict", *SERVER, *load, "--gamma", "3", "--format", "csv")
    )))  # fmt: skip
    rows = json.loads(run(capsys, "gamma", *SERVER, *load, "--gamma", "3", "--format", "json"))
    row = next(r for r in rows if r["gamma"] == 3)
    names = ("walltime_improvement", "walltime_improvement_low", "walltime_improvement_high")
    for name in names:
        assert told[name] == pytest.approx(row[name])
        assert float(line[name]) == pytest.approx(told[name], rel=1e-3)
    options = dict(zip(load[::2], load[1::2], strict=True))
    fields = {name[2:].replace("-", "_"): value for name, value in options.items()}
    scenario = build({
        "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.7, "gamma": 3,
        **fields,
    })  # fmt: skip
    place = tmp_path / "scenario.toml"
    place.write_text(to_toml(scenario), "utf-8")
    again = json.loads(run(capsys, "predict", "--scenario", str(place), "--format", "json"))
    assert again == told
    assert predict(scenario).speedup.value == pytest.approx(told["walltime_improvement"])


# ── wrong inputs, one by one ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (("--concurrency", "0"), "concurrency must be a whole number >= 1"),
        (("--concurrency", "8", "--batch", "8"), "must be one of them"),
        (("--concurrency", "8", "--request-rate", "1", "--prompt-tokens", "9"), "must be one of"),
        (("--request-rate", "1"), "request_rate needs prompt_tokens"),
        (("--request-rate", "0", "--prompt-tokens", "9"), "request_rate must be"),
        (("--request-rate", "1000", "--prompt-tokens", "1000"), "request_rate must be < "),
        (("--target-ms", "1"), "target_ms must be >= 4."),
        (("--target-ms", "8", "--run-gamma", "3", "--run-ms", "60"), "contradicts the rest"),
        (("--target-ms", "8", "--run-gamma", "3"), "run_ms"),
        (("--prompt-tokens", "-1"), "prompt_tokens must be a whole number >= 0"),
        (("--concurrency", "4", "--prefix-hit", "40"), "prefix_hit must be"),
        (("--chunk-tokens", "0"), "chunk_tokens must be a whole number >= 1"),
        (
            ("--request-rate", "1", "--prompt-tokens", "9", "--arrivals", "one_wave"),
            "arrivals must be sustained",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(capsys: Capture, load: Any, words: str) -> None:
    said = fault(capsys, "predict", *SERVER, *load)
    assert words in said, said
    assert len(said.strip().splitlines()) == 1
    assert len(said) < 400


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({"prompt_tokens": 131_072 - 256}, None),
        ({"prompt_tokens": 131_072}, "A request of 131,328 tokens is more than the 131,072"),
        (
            {"prompt_tokens": 200_000, "context_tokens": 1000, "concurrency": 4},
            "A request of 200,256 tokens is more than the 131,072 tokens Llama-3.1-8B is made for",
        ),
    ],
)
def test_a_request_longer_than_the_model_is_said(load: dict[str, Any], says: str | None) -> None:
    said = {
        "gpu": "B200 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.7, "gamma": 3,
    }  # fmt: skip
    told = [n for n in notes(predict(Scenario(**said, **load))) if "is made for" in n]
    assert any(says in note for note in told) if says else not told


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({"batch": 8, "prompt_tokens": 500}, "A batch held at 8; prompts of 500 tokens"),
        ({"concurrency": 1200, "prompt_tokens": 9}, "Closed loop of 1,200 requests in flight"),
        ({"request_rate": 1.5, "prompt_tokens": 9}, "Open loop of 1.5 requests a second"),
        ({"concurrency": 9, "prompt_tokens": 9, "arrivals": "one_wave"}, "One wave of 9 requests"),
        ({"concurrency": 9, "decode_only": "yes"}, "prompts are read by other workers"),
        ({"concurrency": 9}, "prompts of unknown"),
        (
            {"concurrency": 128, "prompt_tokens": 8000, "chunk_tokens": 2048},
            "The first token then takes",
        ),
        (
            {"request_rate": 26, "prompt_tokens": 500, "alpha": 0.05},
            "at γ=3 one replica carries",
        ),
    ],
)  # fmt: skip
def test_every_answer_names_its_loop(load: dict[str, Any], says: str) -> None:
    said = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.7, "gamma": 3}
    told = notes(predict(Scenario(**said | load)))
    assert any(says in note for note in told), told


def test_gamma_0_is_plain_decoding_at_every_load() -> None:
    said = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.7, "gamma": 0}
    for load in (
        {"concurrency": 32, "prompt_tokens": 2000}, {"batch": 8}, {"target_ms": 9, "batch": 8},
        {"request_rate": 1, "prompt_tokens": 500}, {"target_ms": 9, "run_gamma": 2, "run_ms": 7},
    ):  # fmt: skip
        found = predict(Scenario(**said, **load))
        assert found.speedup.value == found.speedup.low == found.speedup.high == 1
        assert found.tpot is not None
        assert found.tpot_plain is not None
        assert found.tpot.value == found.tpot_plain.value
        assert resolve(found.scenario).points[:, :, 0] == pytest.approx(1)
