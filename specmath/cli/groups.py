"""A command group whose first argument may be something else than a command."""

from __future__ import annotations

import click

__all__ = ["DefaultGroup"]


class DefaultGroup(click.Group):
    """`logs FILE` runs the command named `default`; `logs drift` the command drift.

    With `all_else`, no argument and --help go to that command too.
    """

    default = ""
    all_else = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else "--help"
        asked = first in ("-h", "--help")
        if first not in self.commands and (self.all_else or not asked):
            args = [self.default, *args]
        return super().parse_args(ctx, args)
