"""Command-line options made from the fields, and the scenario that they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from specmath.checks import InputError
from specmath.scenario import SPECS, Scenario
from specmath.scenario.fields import FieldSpec
from specmath.scenario.files import build, from_toml, revised
from specmath.serving.of_scenario import model_of_config

__all__ = [
    "config_text",
    "format_option",
    "help_of",
    "read_scenario",
    "read_text",
    "scenario_options",
]

FORMATS = ("table", "csv", "json")


def type_of(spec: FieldSpec) -> click.ParamType[Any] | None:
    """Text wherever the record reads text: the record itself checks kind and bounds."""
    if spec.choices:
        return click.Choice([c.value for c in spec.choices])
    return click.STRING


def help_of(spec: FieldSpec) -> str:
    unit = f" [{spec.unit}]" if spec.unit else ""
    bounds = "" if spec.choices else f" {spec.bounds[0].upper()}{spec.bounds[1:]}"
    unknown = ", or unknown" if spec.unknown else ""
    said = f"{spec.help}{bounds}{unknown}".rstrip(".")
    return f"{spec.label.rstrip('?')}{unit}. {said}."


def scenario_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option a field, and --scenario FILE to start from a saved scenario."""
    for name, spec in reversed(SPECS.items()):
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, name, type=type_of(spec), help=help_of(spec))(command)
    return click.option(
        "--scenario", "scenario_file", type=click.Path(exists=True, dir_okay=False),
        help="A scenario saved as TOML; options given beside it replace its fields.",
    )(command)  # fmt: skip


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--format table|csv|json."""
    return click.option(
        "--format", "style", type=click.Choice(FORMATS), default="table", show_default=True
    )(command)


def read_scenario(scenario_file: str | None, options: dict[str, Any], **defaults: Any) -> Scenario:
    given = {name: value for name, value in options.items() if value is not None}
    for name in {"model", "draft"} & given.keys():
        given[name] = config_text(given[name]) or given[name]
    if scenario_file is None:
        return build(defaults | given)
    return revised(from_toml(read_text(Path(scenario_file))), given)


def config_text(name: str) -> str | None:
    """The text of a config.json of that path; None where the name is no path of a file.

    Raises InputError where there is no such file, or it is no config.json.
    """
    if name.lstrip().startswith("{"):  # a config.json itself
        return None
    try:
        found = Path(name).is_file()
    except OSError:  # too long for a path
        found = False
    if found:
        text = read_text(Path(name))
        model_of_config(text)
        return text
    if name.endswith(".json"):
        raise InputError(f"no file {name}")
    return None


def read_text(path: Path) -> str:
    """A file as UTF-8 text; InputError where it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path.name} as UTF-8 text: {error}") from error
