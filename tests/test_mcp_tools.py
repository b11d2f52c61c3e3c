"""Commands as tools: the JSON of the command line, its sentences, and arguments of any shape."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import Capture, fault, invoked, run
from jsonschema import Draft202012Validator

import specmath
from specmath.checks import InputError
from specmath.cli.mcp_tools import TOOLS, Tool, call
from specmath.cli.options import help_of
from specmath.cli.terminal import captured, say, say_json
from specmath.scenario import SPECS

SAMPLES = Path(__file__).parent / "data" / "log_samples"
LOG, BENCH = (str(SAMPLES / f"vllm_{name}") for name in
              ("v1_log_current.txt", "bench_serve_result.json"))  # fmt: skip
PLAN = str(Path(specmath.__file__).parent / "data" / "plan_example.toml")
SERVED: dict[str, Any] = {"alpha": 0.7, "gamma": 3, "gpu": "h100", "model": "Llama-3.1-8B",
                          "draft": "eagle3", "prompt_tokens": 1024}  # fmt: skip
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("predict", {"alpha": 0.8, "c": 0.1, "gamma": 4}),
    ("predict", {"rates": [0.8, 0.6, 0.45], "acceptance_form": "survival", "c": 0.1}),
    ("predict", {"mixture": [[0.5, 0.9], [0.5, 0.4]], "acceptance_form": "mixture", "c": "0.1"}),
    ("predict", SERVED | {"concurrency": 32, "temperature": 0.0, "decode_only": "no"}),
    ("logs", {"files": [LOG], "baseline_itl_ms": 25, "tpot_ms": 14, "c": 0.05}),
    ("logs", {"files": [str(SAMPLES / "sglang_log.txt")]}),
    ("review", {"before": BENCH, "after": BENCH, "c": 0.1}),
    ("capacity", SERVED | {"by": "rate"}),
    ("tails", SERVED | {"concurrency": 32}),
    ("rollout", SERVED | {"concurrency": 32, "cv": 0.3, "power": 0.9}),
    ("plan", {"file": PLAN, "by": "segment"}),
)  # fmt: skip


FILES = ("files", "before", "after", "file")


def words(name: str, arguments: dict[str, Any]) -> list[str]:
    """The command line of these arguments, as a person would type it."""
    given = [arguments.get(key, []) for key in FILES]
    files = [path for each in given for path in (each if isinstance(each, list) else [each])]
    typed = [*TOOLS[name].path, *files]
    for key, value in arguments.items():
        if key in FILES or value is None:
            continue
        text = value
        if isinstance(value, list):
            text = ",".join(":".join(map(str, v)) if isinstance(v, list) else str(v) for v in value)
        typed += [f"--{key.replace('_', '-')}", str(text)]
    return typed


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_a_tool_says_what_the_command_prints(name: str, arguments: dict[str, Any]) -> None:
    printed = invoked(*words(name, arguments), "--format", "json")
    assert printed.stderr == ""
    assert call(name, arguments) == printed.stdout.rstrip("\n")
    assert json.loads(printed.stdout)
    assert [*Draft202012Validator(TOOLS[name].schema).iter_errors(arguments)] == []


def test_the_record_is_summed_up_unless_rows_are_asked_for(capsys: Capture) -> None:
    short = json.loads(call("published", {}))
    assert short.keys() == {"summary"}
    whole = json.loads(call("published", {"summary": False}))
    assert whole["summary"] == short["summary"]
    assert len(whole["rows"]) > 1000
    assert json.loads(run(capsys, "published", "--summary", "--format", "json")) == short
    assert json.loads(run(capsys, "published", "--format", "json")) == whole


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("predict", {"alpha": 2, "c": 0.1}),
        ("predict", {"alpha": 0.8, "c": 0.1, "gamma": "x"}),
        ("predict", {"alpha": -1, "c": 0.1}),
        ("capacity", {"alpha": 0.8, "c": 0.1}),
        ("tails", {"alpha": 0.8, "c": 0.1, "output_tokens": 1}),
        ("rollout", {"alpha": 0.8, "c": 0.1, "gamma": 0}),
        ("rollout", {"alpha": 0.8, "c": 0.1, "gamma": 4, "power": 2}),
        ("logs", {"files": [__file__]}),
    ],
)
def test_a_fault_is_the_command_lines_sentence(
    capsys: Capture, name: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as caught:
        call(name, arguments)
    assert fault(capsys, *words(name, arguments)) == f"Error: {caught.value}\n"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("predict", {"alfa": 0.8}, "'alfa' is no argument of predict"),
        ("predict", {"format": "csv"}, "'format' is no argument"),
        ("predict", {"alpha": {"value": 1}}, "alpha must be a number or a text"),
        ("rollout", {"write": "x.toml"}, "'write' is no argument"),
        ("logs", {"files": ["-"]}, "files must be the path of a file"),
        ("logs", {"files": [3]}, "files must be the path of a file"),
        ("logs", {"files": ["no such file"]}, "does not exist"),
        ("logs", {"files": []}, "Missing argument"),
        ("logs", {"files": "--help"}, "does not exist"),
        ("review", {"before": BENCH}, "Missing argument 'AFTER'"),
        ("published", {"rows": "yes"}, "rows must be true or false"),
        ("published", {"by": "luck"}, "'luck' is not one of"),
        ("serve", {}, "tool must be one of predict, logs"),
    ],
)
def test_what_no_command_line_would_say(name: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        call(name, arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_option_is_an_argument_with_a_type_and_nothing_is_written(tool: Tool) -> None:
    Draft202012Validator.check_schema(tool.schema)
    properties = tool.schema["properties"]
    assert not {"format", "write", "out", "force", "help"} & properties.keys()
    assert len(properties) == len({*tool.command.params}) - len(
        {"--format", "--write", "--out", "--force", "--kind", "--delimiter", "--decimal"}
        & {flag for each in tool.command.params for flag in each.opts}
    )
    for name, each in properties.items():
        assert {"type", "enum"} & each.keys(), name
        assert each["description"], name
    assert tool.description.startswith(tool.command.get_short_help_str(1000)[:20])


def test_fields_are_explained_once_and_named_everywhere() -> None:
    told = TOOLS["predict"].schema["properties"]
    assert all(told[name]["description"] == help_of(spec) for name, spec in SPECS.items())
    assert TOOLS["tails"].schema["properties"]["target_ms"]["description"] == "Target [ms]"
    assert "explained in the tool predict" in TOOLS["tails"].description
    own = TOOLS["logs"].schema["properties"]["gamma"]["description"]
    assert own.startswith("Draft length")


def test_what_is_captured_is_not_printed(capsys: Capture) -> None:
    with captured() as said:
        say("a\x1b[31m", nl=False)
        say_json({"σ": 1})
        say("to standard error", err=True)
    say("after")
    assert "".join(said) == 'a{\n  "σ": 1\n}\n'
    assert capsys.readouterr() == ("after\n", "to standard error\n")


def test_without_the_sdk_it_says_how_to_get_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "specmath.cli.mcp_server", raising=False)
    for name in [n for n in sys.modules if n.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert "pip install 'specmath[mcp]'" in fault(capsys, "mcp")
