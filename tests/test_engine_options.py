"""Options of engines that our words name are options that these engines have.

What an engine has is noted from its source, with the version (tests/data/engine_options.toml); no
engine is started here. An option that is neither noted there nor one of our own commands' fails.
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import click
import pytest

from specmath.cli import COMMANDS, cli

ROOT = Path(__file__).parents[1]
NOTED = tomllib.loads((ROOT / "tests/data/engine_options.toml").read_text("utf-8"))
GONE = NOTED.pop("gone")
OPTIONS = {option for engine in NOTED.values() for option in engine["options"]}
KEYS = {key for engine in NOTED.values() for key in engine.get("keys", ())}

OTHERS = {
    "--prefix", "--color", "--no-deps", "--headless", "--server",  # kubectl, grep, pip, Streamlit
    "--tiny", "--id", "--rows", "--mode", "--learn", "--write",  # our benchmarks and tools
}  # fmt: skip
"""Of other programs, and of commands of ours outside of `specmath`."""

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9_]*(?:-[a-z0-9_]+)*")
_KEY = re.compile(
    r"\b(?:num_speculative_tokens\w*|speculative_(?:algorithm|config|eagle_\w+|num_\w+|draft_\w+)|"
    r"prompt_lookup_\w+|suffix_decoding_\w+|synthetic_acceptance_\w+|\w+_sample_method|"
    r"(?:enable_)?adaptive_\w+|parallel_drafting)\b"
)
TEXTS = sorted(
    path
    for pattern in ("specmath/words/*.py", "specmath/data/*.toml", "specmath/*.py",
                    "specmath/review/*.py", "specmath/cli/*.py", "pages/**/*.py", "docs/*.md",
                    "README.md")
    for path in ROOT.glob(pattern)
)  # fmt: skip


def own_options() -> set[str]:
    """The options of our commands."""
    commands: list[click.Command] = [cli]
    for below in COMMANDS.values():
        for _, where, _ in below:
            module, name = where.split(":")
            commands.append(getattr(import_module(f"specmath.cli.{module}"), name))
    each = (one for command in commands for one in command.params)
    return {"--help"} | {name for one in each for name in (*one.opts, *one.secondary_opts)}


OURS = own_options() | OTHERS


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_that_is_named_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not {one for one in _OPTION.findall(text) if one not in OPTIONS | OURS}
    assert not set(_KEY.findall(text)) & set(GONE["keys"])
    assert not {one for one in _KEY.findall(text) if one not in KEYS}


def test_what_an_engine_no_longer_has_is_noted_as_no_option() -> None:
    assert not set(GONE["options"]) & OPTIONS
    assert not set(GONE["keys"]) & KEYS
    assert all(engine["version"] for engine in NOTED.values())


def test_an_option_that_no_engine_has_is_found() -> None:
    """The rule itself: a spelling from a page of documents that the source does not have."""
    text = (
        'give --spec-draft-conf-min 0.5 or {"adaptive_verification": true}, not --spec-draft-p-min'
    )
    assert [one for one in _OPTION.findall(text) if one not in OPTIONS | OURS] == [
        "--spec-draft-conf-min"
    ]
    assert [one for one in _KEY.findall(text) if one not in KEYS] == ["adaptive_verification"]
