"""One file an engine. A module here that defines ENGINE is found and used: nothing to register."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from specmath.logs.engine import Engine

__all__ = ["ENGINES"]

ENGINES: tuple[Engine, ...] = tuple(
    import_module(f"{__name__}.{module.name}").ENGINE
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
)
