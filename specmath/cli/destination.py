"""Options that name a file to write: refused before the command runs, written whole after it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from specmath.checks import InputError
from specmath.cli.terminal import OutputError
from specmath.outfile import refuse, write_file

__all__ = ["Destination", "WritingCommand", "put"]


class Destination(click.ParamType[str]):
    """The type of such an option. What stands there is replaced where it has the mark."""

    name = "file"

    def __init__(self, mark: re.Pattern[bytes]) -> None:
        self.mark = mark


class WritingCommand(click.Command):
    """A command with options of that type: it has --force, and writes over no file it reads."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        said = "Replace files that this command did not write."
        self.params.append(click.Option(["--force"], is_flag=True, help=said))

    def invoke(self, ctx: click.Context) -> Any:
        force = ctx.params.pop("force")
        given = [(option.type, ctx.params.get(str(option.name))) for option in self.params]
        writes = [(path, kind.mark) for kind, path in given
                  if isinstance(kind, Destination) and path is not None]  # fmt: skip
        others = [value for kind, value in given if not isinstance(kind, Destination)]
        each = (value if isinstance(value, tuple) else (value,) for value in others)
        reads = [text for values in each for text in values if isinstance(text, str)]
        places: list[Path] = []
        for path, mark in writes:
            if any(_is_file(path, text) for text in reads):
                raise InputError(f"{path} is read by this command and cannot be written by it")
            refuse(path, mark, force=force)
            place = Path(path).resolve()
            if place in places:
                raise InputError(f"{path} cannot be written twice")
            if place.is_file() or not place.exists():  # no device
                places.append(place)
        return super().invoke(ctx)


def _is_file(path: str, text: str) -> bool:
    """Whether the text names the existing file of that path."""
    try:
        return Path(path).is_file() and Path(text).is_file() and Path(path).samefile(text)
    except (OSError, ValueError):  # too long for a path: a text
        return False


def put(path: str | None, data: str | bytes) -> None:
    """Write text as UTF-8, or bytes; nothing where no path was given. OutputError says why not."""
    if path is None:
        return
    try:
        # A server's reply may hold half a character, which JSON escapes and UTF-8 cannot write.
        write_file(path, data.encode(errors="backslashreplace") if isinstance(data, str) else data)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
