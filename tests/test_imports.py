"""`import specmath` stays light: numpy, scipy, pydantic and the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("streamlit", "plotly", "pandas", "torch", "click", "xlsxwriter", "tabulate", "matplotlib")
CORE = (
    "specmath", "specmath.acceptance", "specmath.stepcost", "specmath.theorems", "specmath.gamma",
    "specmath.predict", "specmath.verdict", "specmath.scenario", "specmath.steptime",
    "specmath.hardware", "specmath.models", "specmath.cost", "specmath.guidance",
    "specmath.candidates", "specmath.scenario.convert", "specmath.views",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("modules", [CORE[:1], CORE], ids=["package", "every core module"])
def test_the_library_loads_no_screen(modules: tuple[str, ...]) -> None:
    lines = [f"import {module}" for module in (*modules, "sys")]
    code = "; ".join([*lines, f"print([m for m in {HEAVY} if m in sys.modules])"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    import specmath

    for name in specmath.__all__:
        assert getattr(specmath, name) is not None
    assert specmath.walltime_improvement(0.8, 5, 0.1) > 1
    assert specmath.verdict(specmath.predict(specmath.EXAMPLE)).action == "use"


def test_pages_hold_no_arithmetic_library_of_their_own() -> None:
    """Pages call the library; what they may import shows that nothing is computed twice."""
    for path in (ROOT / "pages").rglob("*.py"):
        assert "import scipy" not in path.read_text("utf-8"), path.name
        assert "import torch" not in path.read_text("utf-8"), path.name
