"""What a measurement of a server has finished, kept in a file and taken from it again."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter

from specmath.checks import InputError
from specmath.foreign import json_of, of_type
from specmath.outfile import write_file

__all__ = ["Checkpoint"]

LARGEST = 200_000_000
EVERY_SECONDS = 1.0


class _File(BaseModel):
    specmath_checkpoint: int = Field(strict=True)
    plan: dict[str, Any]
    done: dict[str, Any]


_FILE = TypeAdapter(_File)


class Checkpoint:
    """Finished parts by name. Without a path nothing is kept.

    `plan` says what is measured: a file of another plan is refused (InputError), one that is not
    there is begun.
    """

    def __init__(self, path: str | None, plan: Mapping[str, Any]) -> None:
        self.path, self.plan = path, json.loads(json.dumps(plan))
        self.done: dict[str, Any] = {}
        self._written = 0.0
        if path is not None and Path(path).exists() and Path(path).stat().st_size:
            self.done = self._read(Path(path))

    def _read(self, path: Path) -> dict[str, Any]:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path.name} must have at most {LARGEST:,} bytes")
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {path.name} as UTF-8 text: {error}") from error
        found = of_type(_FILE, path.name, json_of(path.name, text))
        if found.plan != self.plan:
            raise InputError(
                f"{path.name} is the checkpoint of another measurement: name another file, or "
                "delete it"
            )
        return found.done

    def add(self, name: str, value: Any) -> None:
        """Keep a finished part; on the disk within a second of work, or at `close`."""
        self.done[name] = value
        if time.monotonic() - self._written > EVERY_SECONDS:
            self.close()

    def close(self) -> None:
        """Write what is finished, whole or not at all. OSError where it cannot be."""
        if self.path is None:
            return
        said = {"specmath_checkpoint": 1, "plan": self.plan, "done": self.done}
        write_file(self.path, json.dumps(said).encode(errors="backslashreplace"))
        self._written = time.monotonic()
