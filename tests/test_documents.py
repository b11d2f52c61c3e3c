"""What is written about the project is what it does: schemas, glossary, examples, picture."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from golden.make import GOLDEN
from jsonschema import Draft202012Validator

from specmath import Scenario, predict
from specmath.scenario import SPECS
from specmath.tables.columns import COLUMNS
from tools.glossary import GLOSSARY, glossary
from tools.schemas import SCHEMAS, schemas, text_of

ROOT = Path(__file__).parents[1]
ANSWERS = json.loads(gzip.decompress(GOLDEN.read_bytes()))
OUTPUTS = {
    "predict": [a["out"] for c, a in ANSWERS.items() if c.startswith("predict ") and a["out"]],
    "logs": [a["out"] for c, a in ANSWERS.items() if re.match(r"logs (?!drift)", c) and a["out"]],
    "measure": [json.loads((ROOT / "tests/data/measurement_report.json").read_text("utf-8"))],
}


# ── schemas ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", OUTPUTS)
def test_schema_is_that_of_the_records(name: str) -> None:
    written = (SCHEMAS / f"{name}.json").read_text("utf-8")
    assert written == text_of(schemas()[name]), "run: python -m tools.schemas"


@pytest.mark.parametrize("name", OUTPUTS)
def test_real_output_is_as_its_schema_says(name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert OUTPUTS[name]
    for output in OUTPUTS[name]:
        assert [error.message for error in validator.iter_errors(output)] == []


def test_every_key_of_a_prediction_is_described() -> None:
    described = schemas()["predict"]["properties"]
    assert set().union(*OUTPUTS["predict"]) <= described.keys()
    assert all(field["description"] for field in described.values())


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("predict", lambda found: found.pop("verdict")),
        ("predict", lambda found: found.update(walltime_improvement="2×")),
        ("logs", lambda found: found.update(steps="many")),
        ("logs", lambda found: found.pop("gammas")),
        ("measure", lambda found: found.update(schema_version="0")),
    ],
)
def test_output_of_another_shape_is_refused(name: str, spoil: Callable[[Any], None]) -> None:
    output = json.loads(json.dumps(next(o for o in OUTPUTS[name] if isinstance(o, dict))))
    validator = Draft202012Validator(schemas()[name])
    assert validator.is_valid(output)
    spoil(output)
    assert not validator.is_valid(output)


# ── glossary ─────────────────────────────────────────────────────────────────────────────────


def test_glossary_is_current_and_has_every_field_and_column() -> None:
    text = GLOSSARY.read_text("utf-8")
    assert text == glossary(), "run: python -m tools.glossary"
    for name in (*SPECS, *COLUMNS):
        assert f"\n| `{name}` |" in text


# ── examples ─────────────────────────────────────────────────────────────────────────────────


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    import_module(f"docs.examples.{name}").main()
    return capsys.readouterr().out


def numbers(pattern: str, text: str) -> dict[int, float]:
    """γ or batch → the number beside it."""
    return {int(at): float(value) for at, value in re.findall(pattern, text)}


def test_log_to_gamma(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("log_to_gamma", capsys)
    speedups = numbers(r"γ=(\d+) .* ([\d.]+)×", text)
    tokens = numbers(r"γ=(\d+)  ([\d.]+) tokens", text)
    # Over the lines of the log: accepted drafts and steps of γ=4; c = 0.1.
    lines = import_module("docs.examples.log_to_gamma").EXAMPLE.read_text("utf-8")
    accepted, drafted = (
        sum(map(int, re.findall(rf"{word}: (\d+) tokens", lines)))
        for word in ("Accepted", "Drafted")
    )
    assert tokens[4] == pytest.approx(1 + accepted / (drafted / 4), abs=1e-3)
    assert f"accepted ÷ drafted {accepted / drafted:.3f}" in text
    for gamma, speedup in speedups.items():
        assert speedup == pytest.approx(tokens[gamma] / (1 + 0.1 * gamma), abs=1e-3)
    assert "Turn it on at γ=3" in text


def test_batch_cliff(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("batch_cliff", capsys)
    speedups = numbers(r"batch +(\d+)  γ=4 ([\d.]+)×", text)
    config = import_module("docs.examples.batch_cliff").CONFIG
    base = Scenario(
        alpha=0.7, gamma=4, gpu="h100", model=config, draft="Llama-3.2-1B", context_tokens=2048
    )
    for batch in (1, 32, 512):
        alone = predict(base.model_copy(update={"batch": batch}))
        assert speedups[batch] == pytest.approx(alone.walltime_improvement, abs=1e-3)
    assert speedups[1] > speedups[64] > speedups[512]
    words = shlex.split(text.splitlines()[-1])
    assert json.loads(words[words.index("--speculative-config") + 1])["num_speculative_tokens"] == 3


def expected_steps(accepted: np.ndarray, gamma: int) -> float:
    """Steps to the end of a text, by recursion over where a step begins."""
    left = np.zeros(len(accepted) + 1)
    for start in range(len(accepted) - 1, -1, -1):
        left[start], reached = 1.0, 1.0
        for ahead in range(gamma + 1):
            here = start + ahead
            if here == len(accepted):
                break
            goes_on = accepted[here] if ahead < gamma else 0.0
            left[start] += reached * (1 - goes_on) * left[here + 1]
            reached *= goes_on
    return float(left[0])


def test_replay(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("replay", capsys)
    p, q = import_module("docs.examples.replay").distributions()
    accepted = np.minimum(p, q).sum(axis=-1)
    assert f"α {accepted.mean():.4f}" in text
    speedups = numbers(r"γ=(\d+)  ([\d.]+)× by replay", text)
    for gamma, speedup in speedups.items():
        tokens = len(accepted) / expected_steps(accepted, gamma)
        assert speedup == pytest.approx(tokens / (1 + 0.1 * gamma), abs=1e-4)


# ── the picture ──────────────────────────────────────────────────────────────────────────────


def test_the_picture_names_rooms_that_are_there() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "architecture.svg")
    named = [text for text in picture.getroot().itertext() if text.strip().startswith("specmath/")]
    assert named
    for room in named:
        assert (ROOT / room.strip()).exists(), room
