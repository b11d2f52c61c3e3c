"""Samples by name, and the one reading of a text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specmath.logs import Reading, read

FOLDER = Path(__file__).parents[1] / "data" / "log_samples"


@pytest.fixture
def sample() -> Callable[[str], Path]:
    """The path of a sample (captured/… for real llama.cpp output)."""
    return lambda name: FOLDER / name.replace("captured/", "captured_llamacpp/")


@pytest.fixture
def only() -> Callable[..., Reading]:
    """read() of a text or file that must hold exactly one reading."""

    def one(*source: object, gamma: int | None = None) -> Reading:
        readings = read(list(source), gamma=gamma)  # type: ignore[arg-type]
        assert len(readings) == 1, [(r.engine, r.format) for r in readings]
        return readings[0]

    return one


@pytest.fixture
def said() -> Callable[[Reading, str], bool]:
    """Whether some warning of a reading holds a text."""
    return lambda reading, text: any(text in warning for warning in reading.warnings)
