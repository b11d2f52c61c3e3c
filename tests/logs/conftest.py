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
    """read() of a text or file that must hold one reading; of lanes that agree the pooled one."""

    def one(*source: object, gamma: int | None = None) -> Reading:
        readings = read(list(source), gamma=gamma)  # type: ignore[arg-type]
        lanes = {r.lane for r in readings[:-1]}
        alone = len(lanes) == len(readings) - 1 and None not in lanes and not readings[-1].lane
        assert len(readings) == 1 or alone, [(r.engine, r.format, r.lane) for r in readings]
        return readings[-1]

    return one


@pytest.fixture
def said() -> Callable[[Reading, str], bool]:
    """Whether some warning of a reading holds a text."""
    return lambda reading, text: any(text in warning for warning in reading.warnings)
