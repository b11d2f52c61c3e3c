"""mcp: the same answers for agents, over the Model Context Protocol."""

from __future__ import annotations

import click

from specmath.checks import InputError

__all__ = ["mcp_command"]


@click.command("mcp", epilog="\b\nExample: specmath mcp")
def mcp_command() -> None:
    """Serve the same answers to agents: the Model Context Protocol on standard input.

    Tools are the commands of this program; each answers with the JSON of `--format json`. Files are
    read on this machine and nothing is written. Needs the optional extra mcp.
    """
    try:
        from specmath.cli.mcp_server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "anyio"):
            raise
        raise InputError(
            "mcp needs the Model Context Protocol's SDK, which is not installed: "
            "pip install 'specmath[mcp]'"
        ) from error
    serve()
