"""What to paste to start an engine, and whether its default keeps the target's text."""

from __future__ import annotations

from specmath.launch import Engine, Launch, engine_of

__all__ = ["exactness", "origin", "pasted"]


def exactness(name: str) -> str:
    """Whether the default of a scenario's engine keeps the target's distribution, in a sentence.

    Examples
    --------
    >>> exactness("mlx")
    'Whether mlx-lm keeps the distribution of the target was not read in its source.'
    """
    found = engine_of(name)
    if found is None:
        return "Whether this engine keeps the distribution of the target is not known here."
    if not found.exact:
        return (
            f"Whether {found.label} keeps the distribution of the target was not read in its "
            "source."
        )
    return f"{found.label} {found.version} by default {found.exact}."


def origin(engine: Engine) -> str:
    """Where an engine's options were read."""
    return f"{engine.label} {engine.version}: options as in {engine.source}; not run here."


def pasted(found: Launch) -> str:
    """The command, and the files that it names, as one text."""
    parts = [f"# {name}\n{text}\n" for name, text in found.files.items()]
    if found.needs:
        parts.append(f"# first: {found.needs}")
    return "\n".join([*parts, found.command])
