"""The documentation of the public functions: each example runs, each parameter named is one."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

DOCUMENTED = (
    "theorems", "gamma", "acceptance", "stepcost", "speculation", "estimate", "replay", "trees",
    "spelling", "hardware", "models.config", "models.catalogue", "models.names", "models.dtypes",
    "steptime.roofline", "drafters.catalogue", "drafters.host", "serving.pair", "serving.memory",
    "scenario.files", "scenario.endpoint", "sensitivity", "predict", "words.verdict", "money",
    "bill", "drafts", "load", "schedule", "evidence", "logs.detect", "review.before_after",
    "review.drift", "review.diagnosis", "review.into_scenario", "review.observed", "published.rows",
    "published.case", "published.nearest", "published.submission", "tables.prediction",
    "tables.files", "acceptance_record", "renewal", "tails", "capacity", "goodput",
    "rollout.samples", "rollout.plan", "rollout.breakeven", "rollout.file",
)  # fmt: skip
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECTION = re.compile(
    r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.MULTILINE | re.DOTALL
)


def module(name: str) -> ModuleType:
    return import_module(f"specmath.{name}")


def documented(of: ModuleType) -> Iterator[Callable[..., Any]]:
    """The module's own functions, classes and methods that have a docstring."""
    own = [thing for thing in vars(of).values() if getattr(thing, "__module__", "") == of.__name__]
    for thing in own:
        if inspect.isclass(thing):
            yield from (m for m in vars(thing).values() if inspect.isfunction(m) and m.__doc__)
        if callable(thing) and thing.__doc__:
            yield thing


def names_in(text: str) -> list[str]:
    """What a Parameters or Attributes section names: its lines that are not indented."""
    heads = [line for line in text.splitlines() if line and not line.startswith(" ")]
    return [name.lstrip("*") for head in heads for name in head.split(", ")]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_example_runs(name: str) -> None:
    found = doctest.testmod(module(name), optionflags=FLAGS)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_parameter_named_is_one(name: str) -> None:
    for thing in documented(module(name)):
        section = SECTION.search(inspect.getdoc(thing) or "")
        if section is not None:
            taken = inspect.signature(thing).parameters
            assert set(names_in(section.group(2))) <= set(taken), thing.__qualname__


@pytest.mark.parametrize("name", ["theorems", "gamma"])
def test_every_formula_has_parameters_source_and_example(name: str) -> None:
    for function in module(name).__all__:
        text = inspect.getdoc(getattr(module(name), function)) or ""
        for section in ("Parameters", "Returns", "Raises", "References", "Examples"):
            assert f"\n{section}\n{'-' * len(section)}\n" in text, (function, section)
