"""The script for a lent accelerator runs on a processor; its captured step is transformers' own."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (requirements-measure.txt)")
pytest.importorskip("transformers", reason="transformers is not installed")

from benchmarks.captured_step import CapturedStep  # noqa: E402
from specmath.measure.pairs import builtin_folder  # noqa: E402
from specmath.measure.torch_model import load_model  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_captured_step_computes_what_transformers_does(tokens: int, batch: int) -> None:
    """The same weights, the same cache of 20 tokens, the same logits."""
    model = load_model(str(builtin_folder() / "target"), dtype="float32", device="cpu")
    cache = model.filled_cache(batch, 20)
    step = CapturedStep(model.model, batch, 20, 6)
    for own, layer in zip(step.caches, cache.store.layers, strict=True):
        own[0, :, :, :20], own[1, :, :, :20] = layer.keys, layer.values
    ids = np.random.default_rng(0).integers(0, model.vocabulary, (batch, tokens))
    theirs = model.forward(ids, cache)
    for _ in range(2):  # its cache is written in place: once more gives the same
        ours = step.forward(torch.from_numpy(ids)).numpy()
        np.testing.assert_allclose(ours, theirs, atol=5e-4)


def test_the_prepared_script_runs_tiny(tmp_path: Path) -> None:
    out = tmp_path / "steps.csv"
    done = subprocess.run(
        [sys.executable, "benchmarks/gpu_steps.py", "--tiny", "--gpu", "h200", "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(out.open()))
    shapes = {(r["how"], r["model"], r["batch"]) for r in rows}
    for how in ("eager", "captured", "model"):
        for model in ("target", "draft"):
            assert {(how, model, "1"), (how, model, "2")} <= shapes
    assert ("draws, top-p 0.95", "target", "1") in shapes
    assert all(0 < float(r["low"]) <= float(r["seconds"]) <= float(r["high"]) for r in rows)
    said = done.stdout.split("batch 2, context 64\n")[-1]
    assert {line.split()[0] for line in said.splitlines() if "c = " in line} == {
        "eager", "captured", "model",
    }  # fmt: skip
