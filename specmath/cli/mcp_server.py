"""The server of `specmath mcp`, by the official SDK: lists the tools and calls them one by one."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.to_thread
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

import specmath
from specmath.checks import InputError
from specmath.cli.mcp_tools import TOOLS, call
from specmath.cli.terminal import unforeseen

__all__ = ["make_server", "serve"]

INSTRUCTIONS = (
    "What speculative decoding will do to latency and cost. predict: from what is known "
    "(acceptance and costs, or GPU, model and draft) the speedup with its interval and a verdict. "
    "logs: what a server's own log says. review: two runs. capacity, tails, rollout: GPUs, slow "
    "requests, a trial. plan: several endpoints. published: how far off it was on what "
    "others measured."
)


def make_server() -> Server[Any]:
    """A server of all tools; a fault of the input is an error in one sentence."""
    one_at_a_time = anyio.Lock()

    async def list_tools(_: Any, params: Any) -> types.ListToolsResult:
        hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name, description=tool.description, input_schema=tool.schema,
                    annotations=hints,
                )
                for tool in TOOLS.values()
            ]
        )  # fmt: skip

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        async with one_at_a_time:
            text, fault = await anyio.to_thread.run_sync(
                _answer, params.name, params.arguments or {}
            )
        found = None if fault else json.loads(text)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=found if isinstance(found, dict) else None,
            is_error=fault,
        )

    return Server(
        "specmath", version=specmath.__version__, instructions=INSTRUCTIONS,
        on_list_tools=list_tools, on_call_tool=call_tool,
    )  # fmt: skip


def _answer(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """(what the command prints or what is wrong, whether something is)."""
    try:
        return call(name, arguments), False
    except InputError as error:
        return str(error), True
    except Exception as error:  # the net, as of the command line
        return unforeseen(error), True


def serve() -> None:
    """Answer on standard input and output until the client closes them."""
    anyio.run(_over_stdio)


async def _over_stdio() -> None:
    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
