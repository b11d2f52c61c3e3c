"""Commands that are loaded when they run, and a group whose first argument may be no command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

__all__ = ["DefaultGroup", "Later"]


class Later(click.Command):
    """A command known by name and first sentence; its module is imported when it is run.

    `place` is "module:attribute" within `specmath.cli`. A group's help loads none of its commands.
    """

    def __init__(self, name: str, place: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self.place = place

    def load(self) -> click.Command:
        module, _, attribute = self.place.partition(":")
        command: click.Command = getattr(import_module(f"specmath.cli.{module}"), attribute)
        return command

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        return self.load().make_context(*given, **named)


class DefaultGroup(click.Group):
    """`logs FILE` runs the command named `default`; `logs drift` the command drift.

    With `all_else`, no argument and --help go to that command too.
    """

    def __init__(
        self, *given: Any, default: str = "", all_else: bool = False, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self.default, self.all_else = default, all_else

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else "--help"
        asked = first in ("-h", "--help")
        if first not in self.commands and (self.all_else or not asked):
            args = [self.default, *args]
        return super().parse_args(ctx, args)
