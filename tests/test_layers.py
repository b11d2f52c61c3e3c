"""The house: who may import whom. Every arrow counts, type-only and in-function ones too."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import specmath

HOUSE = Path(specmath.__file__).parent

FLOORS = (
    "checks", "palette", "outfile", "foreign", "rates", "spelling", "theorems", "gamma", "money",
    "estimate", "numbers", "lengths", "spread", "acceptance", "stepcost", "replay", "trees",
    "renewal", "speculation",
    "evidence", "engines", "hardware", "models", "vocabularies", "steptime", "drafters", "serving",
    "acceptance_record", "acceptance_conditions", "scenario", "sensitivity",
    "predict", "tails", "traffic", "simulate", "arms", "frontier", "schedule", "load", "launch",
    "carried", "bill", "prefill_pool", "attainment", "capacity", "goodput", "plan", "rollout",
    "drafts", "options", "deployments", "logs", "review", "measure", "published", "words", "tables",
    "charts", "report", "cli",
)  # fmt: skip
"""From bottom to top: a module imports from its own floor and those below."""

BREACHES: set[tuple[str, str]] = set()
"""Arrows upward that are still there, (from, to); the list may only shrink."""


def arrows() -> set[tuple[str, str]]:
    """(importing floor, imported floor) of every import in the package."""
    found = set()
    for path in HOUSE.rglob("*.py"):
        if (path.name == "__init__.py" and path.parent == HOUSE) or path.name == "__main__.py":
            continue  # the public names
        here = path.relative_to(HOUSE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative imports hide the floor"
                module = node.module or ""
                names = [module]
                if module == "specmath":
                    names = [f"specmath.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [a.name for a in node.names]
            for name in names:
                parts = name.split(".")
                if parts[0] == "specmath" and len(parts) > 1 and parts[1] in FLOORS:
                    found.add((here, parts[1]))
    return found


def test_every_room_has_its_floor() -> None:
    rooms = {p.relative_to(HOUSE).parts[0].removesuffix(".py") for p in HOUSE.rglob("*.py")}
    assert rooms - {"__init__", "__main__"} == set(FLOORS)


def test_no_arrow_points_up() -> None:
    floor = {name: i for i, name in enumerate(FLOORS)}
    up = {(a, b) for a, b in arrows() if floor[b] > floor[a]}
    assert up == BREACHES


def test_the_floors_as_documented_are_these() -> None:
    page = HOUSE.parent / "docs" / "architecture.md"
    table = page.read_text(encoding="utf-8").split("\n## Floors\n", 1)[1]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ")][1:]
    assert tuple(name for row in rows for name in re.findall(r"`(\w+)`", row)) == FLOORS
