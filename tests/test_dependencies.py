"""What the sources import is what the requirements install, at one pinned version each."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
OURS = {"specmath", "pages"}


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def pinned(file: str) -> dict[str, str]:
    """Package → version of one requirements file; every line must pin."""
    lines = (ROOT / file).read_text("utf-8").splitlines()
    found = [line for line in lines if line and not line.startswith(("#", "-r "))]
    pairs = [line.split("==") for line in found]
    assert all(len(pair) == 2 for pair in pairs), found
    return {_name(name): number for name, number in pairs}


def project() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for: "" for the core, then each extra."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = {"": table["dependencies"], **table["optional-dependencies"]}
    return {group: [Requirement(line) for line in lines] for group, lines in groups.items()}


def imported(*folders: str) -> Iterator[tuple[str, str]]:
    """(module, file) of every import of another project, wherever in the file it stands."""
    for folder in folders:
        for path in [ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                for name in {name.split(".")[0] for name in names}:
                    if name not in sys.stdlib_module_names | OURS:
                        yield name, str(path.relative_to(ROOT))


def test_app_and_library_import_only_what_is_required() -> None:
    installs = packages_distributions()
    optional = {_name(r.name) for group in project().values() for r in group}
    # Part of pydantic, and pinned by it.
    allowed = set(pinned("requirements.txt")) | optional | {"pydantic-core"}
    for module, file in imported("specmath", "pages", "app.py"):
        # A module that is not installed here, such as torch, is named as its package is.
        assert {_name(name) for name in installs.get(module, [module])} & allowed, (module, file)


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_pinned_versions_are_what_is_tested(file: str) -> None:
    assert {name: version(name) for name in pinned(file)} == pinned(file)


def test_pins_satisfy_the_ranges_of_the_project() -> None:
    pins = pinned("requirements.txt")
    core = project()[""]
    assert {_name(requirement.name) for requirement in core} == pins.keys(), (
        "the app runs installed"
    )
    for requirement in core:
        assert requirement.specifier.contains(pins[_name(requirement.name)]), str(requirement)
