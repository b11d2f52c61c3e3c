"""Commands as tools for agents: their options as JSON, and the JSON that they print.

A tool is a command with `--format json`: its arguments are the command's options under their names
with underscores, its answer is what the command prints. A new one is an entry of `TOOLS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import cleandoc
from typing import Any

import click

from specmath.checks import InputError, short
from specmath.cli.destination import Destination
from specmath.cli.groups import Later
from specmath.cli.options import help_of
from specmath.cli.terminal import captured
from specmath.scenario import SPECS, Scenario

__all__ = ["TOOLS", "Tool", "call"]

FILE_HELP = "Path of a file on this machine."
LEFT_OUT = {"format", "force", "help", "kind", "delimiter", "decimal"}
"""Options that no agent needs: the answer is JSON, and nothing is written."""


@dataclass(frozen=True)
class Tool:
    """The command of that path, under that name; `given`: what is taken where nothing is said.

    `terse`: scenario fields without their help, which stands in `predict`.
    """

    name: str
    path: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    terse: bool = True

    @cached_property
    def command(self) -> click.Command:
        """The command itself."""
        from specmath.cli import cli  # its tree names this module's command

        found: click.Command = cli
        for word in self.path:
            assert isinstance(found, click.Group)
            found = found.commands[word]
        return found.load() if isinstance(found, Later) else found

    @property
    def description(self) -> str:
        """The command's own help, and where the fields are explained."""
        said = cleandoc(self.command.help or "").replace("\b\n", "")
        fields = any(_is_field(name, each) for name, each in self.parameters.items())
        more = " Fields of the scenario are explained in the tool predict." if fields else ""
        words = " ".join(self.path)
        return f"{said}\n\nThe JSON of: specmath {words} … --format json.{more * self.terse}"

    @cached_property
    def parameters(self) -> dict[str, click.Parameter]:
        """Options and arguments by the names under which an agent gives them."""
        return {
            name: each
            for each in self.command.params
            if (name := _name(each)) not in LEFT_OUT and not isinstance(each.type, Destination)
        }

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        properties = {name: self._property(name, each) for name, each in self.parameters.items()}
        needed = [name for name, each in self.parameters.items() if each.required]
        return {
            "type": "object",
            "properties": properties,
            "required": needed,
            "additionalProperties": False,
        }

    def _property(self, name: str, each: click.Parameter) -> dict[str, Any]:
        found = _kind(name, each)
        text = each.help if isinstance(each, click.Option) else FILE_HELP
        if self.terse and _is_field(name, each):
            text = SPECS[name].label + (f" [{SPECS[name].unit}]" if SPECS[name].unit else "")
        if text:
            found["description"] = text
        default = self.given.get(name, each.default)
        if isinstance(default, bool | int | float | str) and (default or name in self.given):
            found["default"] = default
        return found


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("predict", ("predict",), terse=False),
        Tool("logs", ("logs", "read")),
        Tool("review", ("review",)),
        Tool("published", ("published", "score"), {"summary": True}),
        Tool("capacity", ("capacity",)),
        Tool("goodput", ("goodput",)),
        Tool("tails", ("tails",)),
        Tool("rollout", ("rollout",)),
        Tool("plan", ("plan",)),
    )
}
"""What agents are offered, by name."""


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """The JSON that the command prints for these arguments.

    Raises InputError with the sentence that the command line prints of a fault.
    """
    if name not in TOOLS:
        raise InputError(f"tool must be one of {', '.join(TOOLS)}, got {short(name, quoted=True)}")
    tool = TOOLS[name]
    words = [*_words(tool, {**tool.given, **arguments})]
    with captured() as said:
        try:
            tool.command.main(args=words, prog_name=f"specmath {name}", standalone_mode=False)
        except SystemExit:  # an exit code that answers: the JSON says the same
            pass
        except click.ClickException as error:
            raise InputError(error.format_message()) from error
    return "".join(said).rstrip("\n")


# ── arguments ────────────────────────────────────────────────────────────────────────────────


def _name(parameter: click.Parameter) -> str:
    """As it is typed, without dashes; a file by its place."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len).lstrip("-").replace("-", "_")
    return str(parameter.name)


def _is_field(name: str, each: click.Parameter) -> bool:
    """Whether it is a field of the scenario, and no option of the command's own."""
    return name in SPECS and getattr(each, "help", None) == help_of(SPECS[name])


def _kind(name: str, each: click.Parameter) -> dict[str, Any]:
    """The JSON type of a parameter; a field of a scenario may also be written as in a form."""
    if isinstance(each.type, click.Choice):
        return {"enum": [*each.type.choices]}
    if isinstance(each, click.Option) and each.is_flag:
        return {"type": "boolean"}
    if each.nargs == -1 or each.multiple:
        return {"type": "array", "items": {"type": "string"}, "minItems": 1}
    if isinstance(each.type, click.types.IntParamType):
        return {"type": "integer"}
    if isinstance(each.type, click.types.FloatParamType):
        return {"type": "number"}
    if name in SPECS and isinstance(Scenario.model_fields[name].default, tuple):
        return {"type": ["string", "array"]}
    number = name in SPECS and SPECS[name].low is not None
    return {"type": ["number", "string"] if number else "string"}


def _words(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[str]:
    """The words of the command line; files stand last, after --."""
    for name in arguments:
        if name not in tool.parameters:
            raise InputError(f"{short(name, quoted=True)} is no argument of {tool.name}")
    yield "--format=json"
    files: list[str] = []
    for name, each in tool.parameters.items():
        value = arguments.get(name)
        if value is None:
            continue
        if isinstance(each, click.Argument):
            files += [_file(name, one) for one in (value if isinstance(value, list) else [value])]
        elif isinstance(each, click.Option) and each.is_flag:
            if not isinstance(value, bool):
                raise InputError(f"{name} must be true or false, got {short(value, quoted=True)}")
            if value:
                yield each.opts[0]
        else:
            yield f"--{name.replace('_', '-')}={_text(name, value)}"
    yield "--"
    yield from files


def _file(name: str, value: Any) -> str:
    if not isinstance(value, str) or value == "-":
        raise InputError(f"{name} must be the path of a file, got {short(value, quoted=True)}")
    return value


def _text(name: str, value: Any) -> str:
    """As it would be typed: lists comma-joined, pairs with a colon."""
    if isinstance(value, list):
        return ",".join(
            ":".join(_text(name, part) for part in one)
            if isinstance(one, list)
            else _text(name, one)
            for one in value
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float | str):
        return str(value)
    raise InputError(f"{name} must be a number or a text, got {short(value, quoted=True)}")
