"""One file or folder an engine. A parser in it that has marks is found: nothing to register."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from specmath.logs.engines.base import Parser

__all__ = ["ENGINES"]

ENGINES: tuple[type[Parser], ...] = tuple(
    kind
    for module in sorted(pkgutil.walk_packages(__path__, f"{__name__}."), key=lambda one: one.name)
    for kind in vars(import_module(module.name)).values()
    if isinstance(kind, type) and issubclass(kind, Parser) and kind.__module__ == module.name
    if kind.marks
)
