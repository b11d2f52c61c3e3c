"""Command-line options made from the fields, and the scenario that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from specmath import models, rates
from specmath.checks import InputError
from specmath.scenario import SPECS, Scenario
from specmath.scenario.fields import FieldSpec
from specmath.scenario.files import build, from_toml, revised
from specmath.scenario.forms import HALVES

__all__ = [
    "FILE", "config_text", "cost_options", "cost_scenario", "format_option", "help_of",
    "load_cost_options", "read_scenario", "read_text", "scenario_options",
]  # fmt: skip

FILE = click.Path(exists=True, dir_okay=False)


def help_of(spec: FieldSpec) -> str:
    unit = f" [{spec.unit}]" if spec.unit else ""
    bounds = "" if spec.choices and not spec.open else f" {spec.bounds[0].upper()}{spec.bounds[1:]}"
    unknown = ", or unknown" if spec.unknown else ""
    said = f"{spec.help}{bounds}{unknown}".rstrip(".")
    return f"{spec.label.rstrip('?')}{unit}. {said}."


def _field_options(names: Iterable[str], said: str) -> Callable[[Callable[..., Any]], Any]:
    """One option a field, and --scenario FILE to start from a saved scenario.

    Text wherever the record reads text: the record itself checks kind and bounds.
    """

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(list(names)):
            spec, flag = SPECS[name], f"--{name.replace('_', '-')}"
            listed = spec.choices and not spec.open
            kind = click.Choice([c.value for c in spec.choices]) if listed else click.STRING
            command = click.option(flag, name, type=kind, help=help_of(spec))(command)
        return click.option("--scenario", "scenario_file", type=FILE, help=said)(command)

    return with_options


scenario_options = _field_options(
    SPECS, "A scenario saved as TOML; options given beside it replace its fields."
)
_COSTS = [name for name in SPECS if name not in {*HALVES["acceptance"], "gamma"}]
_COSTS_FILE = "A scenario saved as TOML: the costs, and what was planned."
cost_options = _field_options(_COSTS, _COSTS_FILE)
"""Without the acceptance and γ, which a log gives."""
load_cost_options = _field_options([n for n in _COSTS if n != "concurrency"], _COSTS_FILE)
"""Without the concurrency, which a measured load has of its own."""

format_option = click.option(
    "--format", "style", type=click.Choice(["table", "csv", "json"]), default="table"
)


def read_scenario(scenario_file: str | None, options: dict[str, Any], **defaults: Any) -> Scenario:
    """The file with the options given, or these alone over the defaults."""
    given = {name: value for name, value in options.items() if value is not None}
    if "rates" in given and given.get("acceptance_form", "survival") == "survival":
        given["rates"] = _rates(given["rates"])
    for name in {"model", "draft"} & given.keys():
        given[name] = config_text(given[name]) or given[name]
    if scenario_file is None:
        return build(defaults | given)
    return revised(from_toml(read_text(Path(scenario_file))), given)


def cost_scenario(scenario_file: str | None, options: dict[str, Any]) -> Scenario:
    """The scenario of the costs given; while c is not given it is the cited range."""
    costs = {name for name in HALVES["draft cost"] if options.get(name) is not None}
    cited = {} if costs - {"coverage"} else {"draft_form": "range"}
    return read_scenario(scenario_file, options, acceptance_form="range", **cited)


def _rates(text: str) -> str | tuple[float, ...]:
    """A list as it was typed; of any other log the survival that it carries."""
    if rates.read_rates(text) is not None:
        return text
    from specmath.logs.paste import read_rates  # a list, the usual case, needs no reader of logs

    return read_rates(text)


def config_text(name: str) -> str | None:
    """The text of a config.json of that path; None where the name is no path of a file.

    Raises InputError where there is no such file, or it is no config.json.
    """
    if models.is_config(name):  # a config.json itself
        return None
    with suppress(OSError):  # too long for a path
        if Path(name).is_file():
            text = read_text(Path(name))
            models.parsed(text)
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
