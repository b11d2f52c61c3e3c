"""What is imported when: the library alone, the help of the command line, one command."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from specmath.cli.groups import Later

HEAVY = ("streamlit", "plotly", "pandas", "torch", "click", "xlsxwriter", "tabulate", "matplotlib")
CORE = (
    "specmath", "specmath.acceptance", "specmath.stepcost", "specmath.theorems", "specmath.gamma",
    "specmath.predict", "specmath.words.verdict", "specmath.scenario", "specmath.steptime",
    "specmath.hardware", "specmath.models", "specmath.money", "specmath.words.guidance",
    "specmath.drafts", "specmath.scenario.endpoint", "specmath.tables",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]


def loaded(code: str) -> set[str]:
    """The modules that a fresh Python has after the code."""
    ending = "import sys; print('\\n' + '\\n'.join(sys.modules))"
    command = [sys.executable, "-c", f"{code}\n{ending}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def packages(modules: set[str]) -> set[str]:
    """Their packages: "numpy", and of ours "specmath.logs"."""
    return {
        ".".join(name.split(".")[: 2 if name.startswith("specmath.") else 1]) for name in modules
    }


def test_the_library_loads_no_screen() -> None:
    assert not packages(loaded(f"import {', '.join(CORE)}")) & {*HEAVY}


def test_the_package_alone_loads_nothing() -> None:
    found = packages(loaded("import specmath"))
    assert {name for name in found if name.startswith("specmath")} == {"specmath"}
    assert not found & {"numpy", "scipy", "pydantic", *HEAVY}


@pytest.mark.parametrize("arguments", [["--help"], ["logs", "--help"], ["measure", "server"]])
def test_help_of_a_group_loads_the_command_line_alone(arguments: list[str]) -> None:
    code = (
        f"import contextlib\nfrom specmath.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({[*arguments, '--help']})"
    )
    found = packages(loaded(code))
    assert {name for name in found if name.startswith("specmath")} == {"specmath", "specmath.cli"}
    assert not found & {"numpy", "scipy", "pydantic", "tabulate"}


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        (["predict", "--alpha", "0.8", "--c", "0.1", "--gamma", "4"], {"measure", "server"}),
        (["model", "Llama-3.1-8B"], {"measure", "server"}),
        (["logs", "tests/data/log_samples/vllm_v1_log_current.txt"], {"measure", "server"}),
        (["measure", "pair", "--help"], {"server", "charts"}),
    ],
)
def test_a_command_loads_what_it_uses(arguments: list[str], others: set[str]) -> None:
    code = (
        f"import contextlib\nfrom specmath.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({arguments})"
    )
    modules = loaded(code)
    found = packages(modules)
    assert not found & {f"specmath.{name}" for name in others}
    assert not found & {"streamlit", "plotly", "pandas", "torch", "httpx", "xlsxwriter"}
    assert "scipy.stats" not in modules


def test_help_says_of_a_command_what_the_command_says_of_itself() -> None:
    from specmath.cli import COMMANDS

    for group in COMMANDS:
        for command in group.commands.values():
            if isinstance(command, Later):
                assert command.short_help == command.load().get_short_help_str(1000), command.name


def test_a_function_is_not_hidden_by_the_module_of_its_name() -> None:
    code = "import specmath\nfrom specmath.predict import predict as f\nimport specmath.predict\n"
    loaded(f"{code}assert specmath.predict is f")
    loaded("from specmath import predict\nassert callable(predict)")


def test_a_package_calls_no_function_by_the_name_of_its_own_module() -> None:
    """`from specmath.tails import tails` in a package that has a module `tails` is that module as
    soon as anybody loads it."""
    for init in (ROOT / "specmath").glob("*/**/__init__.py"):
        package = ".".join(init.parent.relative_to(ROOT).parts)
        own = {path.stem for path in init.parent.iterdir()}
        taken = {
            alias.asname or alias.name
            for node in ast.walk(ast.parse(init.read_text()))
            if isinstance(node, ast.ImportFrom) and not str(node.module).startswith(package)
            for alias in node.names
        }
        assert not own & taken, init


def test_modules_are_found_and_nothing_else() -> None:
    code = (
        "import specmath\nassert specmath.steptime.step_seconds\nassert 'predict' in dir(specmath)"
    )
    loaded(
        f"{code}\nassert not hasattr(specmath, 'nothing')\nfrom specmath import *\npredict(EXAMPLE)"
    )


def test_every_public_name_is_there() -> None:
    import specmath

    for name in specmath.__all__:
        assert getattr(specmath, name) is not None
    assert specmath.walltime_improvement(0.8, 5, 0.1) > 1
    assert specmath.verdict(specmath.predict(specmath.EXAMPLE)).action == "raise"


def test_pages_hold_no_arithmetic_library_of_their_own() -> None:
    """Pages call the library; what they may import shows that nothing is computed twice."""
    for path in (ROOT / "pages").rglob("*.py"):
        assert "import scipy" not in path.read_text("utf-8"), path.name
        assert "import torch" not in path.read_text("utf-8"), path.name
