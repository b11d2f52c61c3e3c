"""The doors that foreign input comes in by: how wrong inputs for each are drawn, and taken.

configs (a model's config.json), reports (of a measurement), logs, pastes, links, scenarios (TOML
files), prompts, answers (of a server), commands (the command line), records (CSVs of measurements).
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import functools
import io
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx

from specmath import models
from specmath.checks import InputError
from specmath.cli import cli
from specmath.cli.groups import Later
from specmath.hardware import find as gpu_named
from specmath.logs import LogError, Reading, read, read_rates
from specmath.measure.into_scenario import best_gamma, step_cost, to_scenario
from specmath.measure.plan import parse_prompts, real_numbers, whole_numbers
from specmath.measure.report import read_report
from specmath.measure.server.client import check_url, get_text
from specmath.measure.server.load import identify
from specmath.measure.server.scoring import echo, generate, score
from specmath.measure.server.stream import stream_one
from specmath.published.case import cases_of
from specmath.published.rows import read as read_rows
from specmath.published.score import score as predicted
from specmath.published.summary import summarise
from specmath.scenario import SPECS
from specmath.scenario.files import from_link, from_toml, to_link, to_toml
from specmath.tables.measured import report_csv
from specmath.tables.published import rows_table
from tools.mutations import TOKENS, VALUES, bytes_of, json_of, structure_of, text_of

__all__ = ["DOORS", "REFUSALS", "Door", "Refused", "check_reading"]

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
REFUSALS = (InputError, LogError, click.ClickException)


class Refused(Exception):
    """An input that the door answered with notices instead of an error."""


@dataclass(frozen=True)
class Door:
    """`draw` makes an input of a random source; `feed` gives it to the program."""

    draw: Callable[[random.Random], Any]
    feed: Callable[[Any], None]


# ── models, reports, prompts ─────────────────────────────────────────────────────────────────

QUANTISED: tuple[dict[str, Any], ...] = (
    {},
    {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
    {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}},
    {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["x"]}},
    {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
            "ignore": ["lm_head", "model.layers.0.mlp.gate"],
        }
    },
)


@functools.cache
def configs() -> tuple[dict[str, Any], ...]:
    found = [json.loads(p.read_text("utf-8")) for p in sorted(DATA.glob("model_configs/*.json"))]
    return tuple(config | more for config in found for more in QUANTISED)


def feed_config(text: str) -> None:
    model = models.load(text)
    sizes = (model.parameters, model.active_parameters, model.weight_bytes(), model.state_bytes())
    known = (*sizes, model.kv_bytes_per_token(), model.flops_per_token, model.kv_bytes(8192))
    assert all(math.isfinite(float(value)) for value in known)
    model.name.encode()


@functools.cache
def report() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "measurement_report.json").read_text("utf-8"))
    return found


def feed_report(text: str) -> None:
    found = read_report(text)
    report_csv(found)
    best_gamma(found)
    step_cost(found)
    for acceptance in ("survival", "range"):
        to_scenario(found, acceptance=acceptance)  # type: ignore[arg-type]


PROMPTS = (
    ("p.txt", b"one\n\ntwo\r\n\r\nthree"),
    ("p.json", b'["one", {"text": "two", "segment": "code"}, {"prompt": "3", "response": "4"}]'),
    ("p.jsonl", b'{"prompt": "one"}\n{"text": "two", "segment": "all", "response": "x"}\n"3"\n'),
)


def draw_prompts(rng: random.Random) -> tuple[str, bytes]:
    name, content = rng.choice(PROMPTS)
    if name == "p.json" and rng.random() < 0.5:
        return name, json_of(rng, json.loads(content)).encode("utf-8", "surrogatepass")
    return name, bytes_of(rng, content)


# ── logs and pastes ──────────────────────────────────────────────────────────────────────────


@functools.cache
def logs() -> tuple[bytes, ...]:
    folder = DATA / "log_samples"
    paths = sorted([*folder.glob("*.*"), *folder.glob("captured_llamacpp/*.*")])
    return tuple(path.read_bytes() for path in paths if path.suffix != ".md")


@functools.cache
def documents() -> tuple[Any, ...]:
    found = []
    for data in logs():
        with contextlib.suppress(ValueError):
            found.append(json.loads(data if data.count(b"\n") < 3 else data.split(b"\n")[0]))
        with contextlib.suppress(ValueError):
            found.append(json.loads(data))
    return tuple(found)


def draw_log(rng: random.Random) -> tuple[bytes, int | None]:
    gamma = rng.choice((None, 1, 3, 200))
    if rng.random() < 0.4:
        return json_of(rng, rng.choice(documents())).encode("utf-8", "surrogatepass"), gamma
    return bytes_of(rng, rng.choice(logs()), logs())[:20_000], gamma


def feed_log(given: tuple[bytes, int | None]) -> None:
    for reading in read(given[0], gamma=given[1]):
        check_reading(reading)


def check_reading(reading: Reading) -> None:
    """The invariants of every reading."""
    json.dumps(reading.to_dict(), allow_nan=False)
    for value in (reading.tokens_per_step, reading.tokens_per_pass):
        assert value is None or (math.isfinite(value) and value >= 1.0)
    for value in (reading.alpha, reading.coverage):
        assert value is None or 0.0 <= value <= 1.0
    if reading.alpha is not None:
        assert reading.alpha_basis
    if reading.alpha_interval is not None:
        low, high = reading.alpha_interval
        assert 0.0 <= low <= high <= 1.0
        assert reading.interval_basis
        assert reading.alpha is None or low <= reading.alpha <= high
    chain = [1.0, *(reading.survival or ())]
    assert all(chain[i] >= chain[i + 1] - 1e-12 for i in range(len(chain) - 1))
    assert chain[-1] >= 0.0
    if reading.drafted is not None and reading.accepted is not None:
        assert reading.accepted <= reading.drafted
    assert reading.gamma is None or reading.gamma >= 1
    for other in reading.alternatives:
        check_reading(other)


PASTES = (
    "0.9, 0.8, 0.7", "90%, 80%", "[0.9 0.8]", "custom:8,2250,192", "custom:3.3,989,80,450", "1-8",
    "1,2,4", "0, 0.7, 1", "Per-position acceptance rate: 0.80, 0.60, 0.45", "acc per pos = (0.9)",
    "http://127.0.0.1:8000/v1", "https://[::1]:80/x",
)  # fmt: skip


def feed_paste(text: str) -> None:
    doors: tuple[Callable[[], Any], ...] = (
        lambda: read_rates(text),
        lambda: gpu_named(text),
        lambda: whole_numbers("γ", text),
        lambda: real_numbers("temperatures", text),
        lambda: models.find(text),
        lambda: httpx.URL(check_url(text, allow_remote=True)),
    )
    refused = 0
    for door in doors:
        try:
            door()
        except REFUSALS:
            refused += 1
    if refused == len(doors):
        raise Refused


# ── scenarios ────────────────────────────────────────────────────────────────────────────────

LINKS: tuple[dict[str, str], ...] = (
    {"alpha": "0.8", "gamma": "4", "c": "0.1"},
    {"accepted_per_step": "3", "measured_gamma": "4", "gamma": "4", "target_ms": "40",
     "draft_ms": "8", "verify_costs": "1.05,1.1,1.2,1.4", "usd_per_hour": "unknown"},
    {"rates": "0.8,0.6,0.45", "gamma": "3", "c_low": "0.05", "c_high": "0.2", "label": "mine"},
    {"mixture": "0.5:0.9,0.5:0.6", "gamma": "5", "c": "0.05", "sigma": "0.1", "overhead": "0.1"},
    {"alpha_low": "0.5", "alpha_high": "0.8", "gamma": "4", "c": "0.1", "c_hat": "unknown"},
    {"accepted_share": "0.6", "measured_gamma": "4", "gamma": "2", "gpu": "H100 SXM",
     "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B", "batch": "8", "context_tokens": "4096"},
    {"acceptance_form": "range", "work": "qa", "gamma": "3", "gpu": "H100 SXM",
     "model": "Qwen3-8B", "draft": "dflash", "alpha_low": "0.3"},
    {"workload": "code_or_json", "gamma": "3", "gpu": "B200 SXM", "draft": "eagle3",
     "model": '{"hidden_size": 8, "num_hidden_layers": 2}', "coverage": "0.7"},
)  # fmt: skip


def word(rng: random.Random) -> str:
    """A value as text."""
    if rng.random() < 0.5:
        return rng.choice(TOKENS).decode("utf-8", "replace")
    value = rng.choice(VALUES)
    return value if isinstance(value, str) else json.dumps(value)


def draw_link(rng: random.Random) -> dict[str, str]:
    link = dict(rng.choice(LINKS))
    for _ in range(rng.randint(1, 4)):
        name = rng.choice((*link, *SPECS, "v", "nonsense"))
        match rng.randrange(4):
            case 0:
                link.pop(name, None)
            case 1 if name in link:
                link[name] = text_of(rng, link[name])
            case _:
                link[name] = word(rng)
    return link


def feed_link(link: dict[str, str]) -> None:
    scenario, notices = from_link(link)
    assert from_link(to_link(scenario))[0] == scenario
    if notices:
        raise Refused


def toml_of(value: Any) -> str:
    """TOML as a careless hand writes it: JSON's values, and tables that may be none."""
    if not isinstance(value, dict):
        return json.dumps(value)
    lines = [f"{n} = {json.dumps(v)}" for n, v in value.items() if not isinstance(v, dict)]
    for name, inner in value.items():
        if isinstance(inner, dict):
            lines += [f"[{name}]", *(f"{key} = {json.dumps(v)}" for key, v in inner.items())]
    return "\n".join(lines).replace("NaN", "nan").replace("Infinity", "inf")


def draw_scenario(rng: random.Random) -> str:
    scenario = from_link(rng.choice(LINKS))[0]
    if rng.random() < 0.1:
        return text_of(rng, to_toml(scenario))
    given = scenario.model_dump(exclude_unset=True)
    values = {n: list(v) if isinstance(v, tuple) else v for n, v in given.items() if v is not None}
    whole = {"specmath": "1", "scenario": values}
    return json_of(rng, whole, toml_of)


def feed_scenario(text: str) -> None:
    scenario = from_toml(text)
    assert from_toml(to_toml(scenario)) == scenario


# ── a server's answers ───────────────────────────────────────────────────────────────────────

MODELS_LISTED = {"data": [{"id": "m", "owned_by": "vllm"}]}
ECHOED = {
    "choices": [{
        "text": "", "finish_reason": "length",
        "logprobs": {
            "tokens": ["ab", "cd", "ef"], "token_logprobs": [None, -0.5, -0.1],
            "top_logprobs": [None, {"cd": -0.5}, {"xx": -0.01, "ef": -0.1}],
            "text_offset": [0, 2, 4],
        },
    }],
}  # fmt: skip
PROMPT_LOGPROBS = {
    "choices": [{"text": "w", "prompt_logprobs": [
        None, {"5": {"logprob": -0.5, "rank": 1}}, {"7": {"logprob": -1.5, "rank": 2}}]}],
}  # fmt: skip
SGLANG = {"meta_info": {
    "input_token_logprobs": [[-0.5, 5, None], [-1.5, 7, None]],
    "input_top_logprobs": [[[-0.5, 5, None]], [[-0.1, 6, None]]],
}}  # fmt: skip
WRITTEN = {"choices": [{"text": "w", "token_ids": [3, 4], "finish_reason": "length"}]}
LLAMA = {
    "tokens": [1, 2, 3],
    "completion_probabilities": [{"top_logprobs": [{"id": 2, "logprob": -0.1}]}],
}
EVENTS = [
    {"choices": [{"delta": {"content": "x"}, "token_ids": [1]}], "usage": {"completion_tokens": 1}},
    {"choices": [{"text": "y", "logprobs": {"content": [1, 2]}}], "timings": {"predicted_n": 3}},
    {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 3}},
]


WHOLE = {
    "models": MODELS_LISTED, "echo": ECHOED, "vllm": PROMPT_LOGPROBS, "sglang": SGLANG,
    "llama.cpp": LLAMA, "generate": WRITTEN,
}  # fmt: skip
"""A right answer to each question; the engines' are to the question how likely tokens are."""


def draw_answer(rng: random.Random) -> tuple[str, str]:
    """(what was asked, the body of the answer)."""
    kind = rng.choice(("stream", *WHOLE))
    if kind == "stream":
        events = structure_of(rng, EVENTS)
        listed = events if isinstance(events, list) else [events]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in listed) + "data: [DONE]\n\n"
        return kind, text_of(rng, text) if rng.random() < 0.3 else text
    return kind, json_of(rng, WHOLE[kind])


def feed_answer(given: tuple[str, str]) -> None:
    kind, body = given

    async def ask() -> None:
        transport = httpx.MockTransport(
            lambda _: httpx.Response(
                200, stream=httpx.ByteStream(body.encode("utf-8", "surrogatepass"))
            )
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            if kind == "models":
                await identify(client)
                await get_text(client, "/metrics")
            elif kind == "stream":
                found = await stream_one(client, "/v1/completions", {})
                if found is not None:
                    known = (found.ttft, found.total, found.tpot or 0.0, *found.timings.values())
                    assert all(map(math.isfinite, known))
                    assert found.itl_token is None or found.itl_token.size < 10**7
            elif kind == "generate":
                await generate(client, "vllm", "m", [1, 2], temperature=0.0, max_tokens=4, seed=0)
            elif kind == "echo":
                await echo(client, "m", "ab", "cdef")
            else:
                await score(client, kind, "m", [1, 5, 7], 1)

    asyncio.run(ask())


# ── the command line ─────────────────────────────────────────────────────────────────────────

SAMPLES = DATA / "log_samples"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("predict", "--target-ms", "40", "--draft-ms", "8", "--gamma", "4", "--accepted-per-step", "3"),
    ("predict", "--alpha-low", "0.5", "--alpha-high", "0.8", "--gamma", "4", "--c", "0.1"),
    ("predict", "--alpha", "0.7", "--gamma", "4", "--gpu", "h200", "--model", "Llama-3.1-8B",
     "--draft", "eagle3", "--batch", "32"),
    ("gamma", "--rates", "0.8,0.6,0.45", "--c", "0.1", "--format", "json"),
    ("crossover", "--c", "0", "--format", "csv"),
    ("sweep", "--over", "alpha=0.5:0.9:0.1", "--gamma", "4", "--c", "0.1"),
    ("export", "--alpha", "0.8", "--c", "0.1", "--gamma", "4", "--kind", "values", "-o", "f.csv"),
    ("steptime", "--gpu", "h100", "--model", "Llama-3.1-8B", "--batch", "1,8", "--tokens", "1,5"),
    ("batch", "--alpha", "0.8", "--gamma", "4", "--gpu", "h100", "--model", "Llama-3.1-8B",
     "--draft", "Llama-3.2-1B"),
    ("model", str(DATA / "model_configs" / "Qwen--Qwen3-8B.json")),
    ("logs", str(SAMPLES / "vllm_v1_log_current.txt"), "--baseline-itl-ms", "25", "--c", "0.1"),
    ("logs", str(SAMPLES / "llamacpp_server_log_2026-08.txt"), "--gamma", "4", "--format", "csv"),
    ("logs", "drift", str(SAMPLES / "vllm_v1_log_history.txt"),
     str(SAMPLES / "vllm_v1_log_current.txt")),
    ("review", str(SAMPLES / "vllm_bench_serve_result.json"),
     str(SAMPLES / "vllm_bench_serve_result.json"), "--c", "0.1"),
    ("rollout", "--target-ms", "40", "--draft-ms", "8", "--gamma", "4", "--alpha", "0.7",
     "--cv", "0.3", "--power", "0.9"),
)  # fmt: skip


@functools.cache
def options(*names: str) -> tuple[click.Option, ...]:
    """The options of a command, but those that would write over a file of ours."""
    command: click.Command = cli
    for name in names:
        command = getattr(command, "commands", {}).get(name, command)
    command = getattr(command, "commands", {}).get(getattr(command, "default", ""), command)
    if isinstance(command, Later):
        command = command.load()
    found = (each for each in command.params if isinstance(each, click.Option))
    return tuple(each for each in found if not {"--out", "--save", "--write"} & {*each.opts})


def option_words(rng: random.Random, option: click.Option) -> list[str]:
    """An option with a value that is often one that it takes."""
    name = rng.choice(option.opts)
    if option.is_flag or rng.random() < 0.05:
        return [name]
    if isinstance(option.type, click.Choice) and rng.random() < 0.8:
        return [name, str(rng.choice(list(option.type.choices)))]
    return [name, plain_word(rng)]


def draw_command(rng: random.Random) -> list[str]:
    """A command with one to three options added, values replaced, or words lost."""
    arguments = list(rng.choice(COMMANDS))
    own = options(*(word for word in arguments[:2] if word.isalpha()))
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(1, len(arguments))
        if arguments[at - 1] in ("-o", "--out"):
            continue
        match rng.randrange(10):
            case 0:
                del arguments[at : at + 1]
            case 1:
                arguments[at:at] = [rng.choice(rng.choice(COMMANDS)[1:])]
            case 2 | 3 if arguments[at - 1].startswith("--"):
                arguments[at : at + 1] = [plain_word(rng)]
            case _:
                arguments += option_words(rng, rng.choice(own))
    return arguments


def plain_word(rng: random.Random) -> str:
    """A value that an operating system can hand over: no null byte, no unpaired surrogate."""
    return rng.choice((word(rng)[:200], str(rng.randint(0, 40)), f"{rng.random():.3g}"))


def feed_command(arguments: list[str]) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            cli.main([a.replace("\x00", "") for a in arguments], standalone_mode=False)
        except click.exceptions.Exit:
            return
        except SystemExit as stop:
            if stop.code not in (None, 0, 1, 2, 3):
                raise AssertionError(f"exit code {stop.code}") from stop
    assert "Traceback" not in stderr.getvalue()


# ── the public record ────────────────────────────────────────────────────────────────────────


@functools.cache
def record_lines() -> dict[str, list[str]]:
    """Header and some rows of each file of the record."""
    folder = Path(models.__file__).parents[1] / "data" / "published"
    texts = {path.stem: path.read_text("utf-8").splitlines() for path in folder.glob("*.csv")}
    return {name: lines[:200] for name, lines in sorted(texts.items())}


def draw_record(rng: random.Random) -> str:
    """A few rows of one file, as they are or with cells, columns or characters spoilt."""
    header, *lines = rng.choice(list(record_lines().values()))
    rows = [header, *rng.sample(lines, min(3, len(lines)))]
    if rng.random() < 0.3:
        return "\n".join(rows) + "\n"
    cells = list(csv.reader(rows))
    for _ in range(rng.randint(1, 4)):
        row = rng.choice(cells[1:] if rng.random() < 0.8 else cells)
        row[rng.randrange(len(row))] = str(rng.choice((*VALUES, *TOKENS)))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(cells)
    return text_of(rng, out.getvalue()) if rng.random() < 0.3 else out.getvalue()


def feed_record(text: str) -> None:
    found = predicted(cases_of(read_rows(text, "rows.csv"), DATA))
    for each in found:
        assert (each.predicted is None) == (each.reason is not None)
        assert each.predicted is None or each.predicted > 0
    rows_table(found)
    summarise(found)


DOORS: dict[str, Door] = {
    "configs": Door(lambda rng: json_of(rng, rng.choice(configs())), feed_config),
    "reports": Door(lambda rng: json_of(rng, report()), feed_report),
    "logs": Door(draw_log, feed_log),
    "pastes": Door(lambda rng: text_of(rng, rng.choice(PASTES)), feed_paste),
    "links": Door(draw_link, feed_link),
    "scenarios": Door(draw_scenario, feed_scenario),
    "prompts": Door(draw_prompts, lambda given: void(parse_prompts(*given))),
    "answers": Door(draw_answer, feed_answer),
    "commands": Door(draw_command, feed_command),
    "records": Door(draw_record, feed_record),
}


def void(_: object) -> None:
    """For doors of which only the refusal matters."""
