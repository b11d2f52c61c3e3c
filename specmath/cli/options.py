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

__all__ = ["format_option", "help_of", "read_scenario", "read_text", "scenario_options"]

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
    if scenario_file is None:
        return build(defaults | given)
    return revised(from_toml(read_text(Path(scenario_file))), given)


def read_text(path: Path) -> str:
    """A file as UTF-8 text; InputError where it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path.name} as UTF-8 text: {error}") from error
