"""The MCP server, asked by the SDK's own client: in memory, and as a process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

REASON = "the SDK of MCP is not installed (requirements-mcp.txt)"
pytest.importorskip("mcp", reason=REASON)

import anyio  # noqa: E402
from helpers.command_line import invoked  # noqa: E402
from mcp import StdioServerParameters, stdio_client  # noqa: E402
from mcp.client.client import Client  # noqa: E402
from mcp.types import CallToolResult, TextContent  # noqa: E402

import specmath  # noqa: E402
from specmath.cli import mcp_server  # noqa: E402
from specmath.cli.mcp_tools import TOOLS  # noqa: E402

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests" / "data" / "log_samples"
LOG, BENCH = (str(SAMPLES / f"vllm_{name}") for name in
              ("v1_log_current.txt", "bench_serve_result.json"))  # fmt: skip
PLAN = str(ROOT / "specmath" / "data" / "plan_example.toml")
SERVED = ("--alpha", "0.7", "--gamma", "3", "--gpu", "h100", "--model", "Llama-3.1-8B", "--draft",
          "eagle3", "--prompt-tokens", "1024")  # fmt: skip
FIELDS: dict[str, Any] = {"alpha": 0.7, "gamma": 3, "gpu": "h100", "model": "Llama-3.1-8B",
                          "draft": "eagle3", "prompt_tokens": 1024}  # fmt: skip
CALLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "predict": (FIELDS, ("predict", *SERVED)),
    "logs": ({"files": [LOG], "c": 0.1}, ("logs", LOG, "--c", "0.1")),
    "review": ({"before": BENCH, "after": BENCH, "c": 0.1}, ("review", BENCH, BENCH, "--c", "0.1")),
    "published": ({}, ("published", "--summary")),
    "capacity": (FIELDS, ("capacity", *SERVED)),
    "goodput": (FIELDS | {"slo_tpot_ms": 20, "attainment": 90, "requests": 200},
                ("goodput", *SERVED, "--slo-tpot-ms", "20", "--attainment", "90", "--requests",
                 "200")),
    "tails": (FIELDS, ("tails", *SERVED)),
    "rollout": (FIELDS | {"cv": 0.3}, ("rollout", *SERVED, "--cv", "0.3")),
    "plan": ({"file": PLAN}, ("plan", PLAN)),
}  # fmt: skip
"""Of each tool, arguments and the same on the command line."""


def asked(of: Callable[[Client], Awaitable[Any]], server: Any = None) -> Any:
    """What comes of talking to the server in memory, or to the one given."""

    async def ask() -> Any:
        async with Client(mcp_server.make_server() if server is None else server) as client:
            return await of(client)

    return anyio.run(ask)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_every_tool_has_a_call_here() -> None:
    assert CALLS.keys() == TOOLS.keys()


def test_tools_are_listed_with_their_schemas() -> None:
    listed = asked(lambda client: client.list_tools())
    assert [tool.name for tool in listed.tools] == [*TOOLS]
    for tool in listed.tools:
        assert tool.input_schema == TOOLS[tool.name].schema
        assert tool.description == TOOLS[tool.name].description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True


@pytest.mark.parametrize("name", CALLS)
def test_a_tools_json_is_the_command_lines(name: str) -> None:
    arguments, typed = CALLS[name]
    result = asked(lambda client: client.call_tool(name, arguments))
    printed = invoked(*typed, "--format", "json").stdout
    assert not result.is_error
    assert text_of(result) == printed.rstrip("\n")
    told = json.loads(printed)
    assert result.structured_content == (told if isinstance(told, dict) else None)


def test_a_fault_is_an_error_in_the_same_sentence() -> None:
    result = asked(lambda client: client.call_tool("predict", {"alpha": 2, "c": 0.1}))
    assert result.is_error
    assert text_of(result) == "alpha must be a finite number >= 0 and <= 1, got 2"
    assert "no argument of tails" in text_of(
        asked(lambda client: client.call_tool("tails", {"alfa": 1}))
    )
    assert "tool must be one of" in text_of(asked(lambda client: client.call_tool("nothing", {})))


def test_what_nobody_foresaw_is_a_sentence_and_the_server_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(name: str, arguments: Any) -> str:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(mcp_server, "call", failing)

    async def twice(client: Client) -> list[CallToolResult]:
        return [await client.call_tool("predict", {}) for _ in range(2)]

    for result in asked(twice):
        assert result.is_error
        assert "please report it: ZeroDivisionError: division by zero" in text_of(result)


def test_many_at_once_do_not_mix() -> None:
    async def at_once(client: Client) -> dict[int, str]:
        found: dict[int, str] = {}

        async def one(gamma: int) -> None:
            arguments = {"alpha": 0.8, "c": 0.1, "gamma": gamma}
            found[gamma] = text_of(await client.call_tool("predict", arguments))

        async with anyio.create_task_group() as group:
            for gamma in range(1, 9):
                group.start_soon(one, gamma)
        return found

    found = asked(at_once)
    assert {gamma: json.loads(text)["gamma"] for gamma, text in found.items()} == {
        gamma: gamma for gamma in range(1, 9)
    }


def test_as_a_process_on_standard_input_and_output() -> None:
    """Nothing but the protocol is on its standard output: the client would not understand it."""
    process = StdioServerParameters(
        command=sys.executable, args=["-m", "specmath", "mcp"], cwd=str(ROOT),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
    )  # fmt: skip

    async def talk(client: Client) -> tuple[str, str, str]:
        told = client.server_info
        one = await client.call_tool("predict", {"alpha": 0.8, "c": 0.1, "gamma": 4})
        two = await client.call_tool("logs", {"files": [LOG]})
        return told.version, text_of(one), text_of(two)

    version, one, two = asked(talk, stdio_client(process))
    assert version == specmath.__version__
    assert json.loads(one)["tokens_per_step"] == pytest.approx(3.3616)
    assert json.loads(two)["steps"] == 5187
