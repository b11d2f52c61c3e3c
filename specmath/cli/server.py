"""measure server URL, measure server replay TARGET DRAFT: a running server, measured."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import specmath
from specmath.checks import InputError
from specmath.cli.groups import DefaultGroup
from specmath.cli.logs import cost_options, cost_scenario
from specmath.cli.measure import measure_command
from specmath.cli.options import format_option
from specmath.cli.output import Row, print_rows
from specmath.halves import step_cost_of
from specmath.logs import LogError, Reading, read
from specmath.logs.review import Review, review
from specmath.measure.prompts import Prompt, read_prompts
from specmath.server.client import check_url
from specmath.server.load import Load, LoadPlan, run_load
from specmath.server.replay import Mode, Replayed, replay_servers
from specmath.wording import significant

__all__ = ["measure_group"]

PROMPTS = Path(specmath.__file__).parent / "data" / "smollm2_prompts.json"
LARGEST_GAMMA = 16


class _Group(DefaultGroup):
    default = "load"


class _MeasureGroup(DefaultGroup):
    default, all_else = "pair", True


@click.group("measure", cls=_MeasureGroup)
def measure_group() -> None:
    """Measure a model pair on this machine; `measure server URL` a running server."""


measure_group.add_command(measure_command, "pair")


@measure_group.group(
    "server",
    cls=_Group,
    subcommand_metavar="URL | COMMAND [ARGS]…",
    epilog="\b\nExample: specmath measure server http://127.0.0.1:8000 --concurrency 8\n"
    "All options of `server URL`: specmath measure server load --help",
)
def server_group() -> None:
    """Put a measured load on a running server, or replay text through two of them.

    Only on this machine unless --allow-remote. A key is taken from the environment variable
    SPECMATH_API_KEY; it is never stored or printed.
    """


_PROMPTS = click.option(
    "--prompts", "prompt_file", type=click.Path(exists=True, dir_okay=False),
    help="Your prompts: .txt (parted by blank lines), .json or .jsonl.",
)  # fmt: skip
_REMOTE = click.option("--allow-remote", is_flag=True, help="Also hosts that are not this machine.")
_MODEL = click.option(
    "--served-model", help="Name that the server gives its model; the first listed if not given."
)


@server_group.command("load", epilog="\b\nExample: specmath measure server http://127.0.0.1:8000 "
                      "--plain-url http://127.0.0.1:8001 --concurrency 4")  # fmt: skip
@click.argument("url")
@_PROMPTS
@click.option("--requests", type=int, default=16, show_default=True)
@click.option("--concurrency", type=int, default=1, show_default=True, help="Requests at a time.")
@click.option("--max-tokens", type=int, default=128, show_default=True)
@click.option("--load-temperature", type=float, default=0.0, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--seconds", type=float, default=600.0, show_default=True,
              help="No request starts later than this.")  # fmt: skip
@click.option("--completions", is_flag=True, help="Raw completions instead of chat.")
@click.option("--body", help="JSON merged into each request.")
@click.option("--plain-url", help="The same model served without speculation: run first.")
@click.option("--plain-body", help="JSON that switches speculation off for one request, if the "
              "server allows it: run first.")  # fmt: skip
@click.option("--save", type=click.Path(dir_okay=False), help="Write the result for review.")
@_MODEL
@_REMOTE
@cost_options
@format_option
def load_command(
    style: str, url: str, prompt_file: str | None, requests: int, concurrency: int,
    max_tokens: int, load_temperature: float, seed: int, seconds: float, completions: bool,
    body: str | None, plain_url: str | None, plain_body: str | None, save: str | None,
    served_model: str | None, allow_remote: bool, scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Streamed load: TTFT, ITL and TPOT, metrics before and after, with and without speculation."""
    base = check_url(url, allow_remote=allow_remote)
    plan = LoadPlan(
        prompts=[prompt.text for prompt in _prompts(prompt_file)], requests=requests,
        concurrency=concurrency, max_tokens=max_tokens, temperature=load_temperature, seed=seed,
        model=served_model, chat=not completions, seconds=seconds, extra=_object("body", body),
    )  # fmt: skip
    scenario = cost_scenario(scenario_file, options)
    plain: Load | None = None
    if plain_url or plain_body:
        other = check_url(plain_url, allow_remote=allow_remote) if plain_url else base
        without = replace(plan, extra={**plan.extra, **_object("plain-body", plain_body)})
        plain = _run(other, without, "plain")
    found = _run(base, plan, "speculative" if plain else "load")
    readings = read_metrics(found)
    row = found.summary() | spec_fields(readings)
    decision = None
    if plain is not None:
        before = _as_reading(plain.summary())
        decision = review([before], [_as_reading(row, readings)], scenario)
    if save:
        _write(save, row)
    _print_load(style, row, plain, decision, found)


def _run(base: str, plan: LoadPlan, name: str) -> Load:
    return asyncio.run(run_load(base, plan, tell=_teller(name)))


def _teller(name: str) -> Callable[[int, int], None]:
    """Progress on standard error, where it disturbs no output."""

    def tell(done: int, total: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{name}: {done}/{total}", err=True, nl=done == total)

    return tell


def _prompts(path: str | None) -> list[Prompt]:
    return read_prompts(path or PROMPTS)


def _object(name: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError(f"{name} must be a JSON object, got {text[:60]!r}") from error
    if not isinstance(found, dict):
        raise InputError(f"{name} must be a JSON object, got {text[:60]!r}")
    return found


def read_metrics(load: Load) -> list[Reading]:
    """What the metrics say of the load alone: the change between the two scrapes."""
    before, after = load.metrics
    if before is None or after is None:
        return []
    try:
        return read([before, after])
    except LogError:
        return []


def spec_fields(readings: list[Reading]) -> Row:
    """The speculative fields of a saved benchmark, from the metrics."""
    for r in readings:
        if r.drafted and r.accepted is not None:
            row: Row = {
                "spec_decode_acceptance_rate": 100.0 * r.accepted / r.drafted,
                "spec_decode_acceptance_length": r.tokens_per_step,
                "spec_decode_num_drafts": r.steps,
                "spec_decode_draft_tokens": r.drafted,
                "spec_decode_accepted_tokens": r.accepted,
                "spec_decode_per_position_acceptance_rates": list(r.survival or ()),
            }
            return {name: value for name, value in row.items() if value}
    return {}


def _as_reading(row: Mapping[str, Any], metrics: list[Reading] | None = None) -> Reading:
    (found,) = read(json.dumps(row))
    engine = str(row["backend"])
    if metrics:
        facts = tuple(found.facts)
        return replace(metrics[0], facts=facts)
    return replace(found, engine=engine)


def _write(path: str, row: Row) -> None:
    try:
        Path(path).write_text(json.dumps(row, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def _print_load(
    style: str, row: Row, plain: Load | None, decision: Review | None, found: Load
) -> None:
    if style != "table":
        more: Row = {}
        if plain is not None and decision is not None:
            more = {"plain": plain.summary(), "review": decision.headline}
        print_rows([row | more], style, one=True)
        return
    columns = {"this run": row} | ({"plain": plain.summary()} if plain else {})
    names = [name for name in row if name not in ("backend", "model_id", "request_rate")]
    click.echo(f"{row['backend']}, {row['model_id']}\n")
    print_rows(
        [{"": name} | {c: _cell(columns[c].get(name)) for c in columns} for name in names], style
    )
    if decision is not None:
        click.echo(f"\n{decision.headline}")
        for reason in (*decision.because, *decision.warnings):
            click.echo(f"  - {reason}")
    click.echo(f"\n{_said(found)}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(significant(item) for item in value)
    return significant(value) if isinstance(value, float) else str(value)


def _said(load: Load) -> str:
    """Which ITL this is, and what failed."""
    text = "itl: gaps between the chunks a client receives"
    if load.exact_tokens:
        text += "; itl_token: between tokens, 0 within a chunk"
    else:
        text += "; the server does not say how many tokens a chunk holds, TPOT counts all of them"
    if load.failed:
        text += f". {len(load.failed)} requests failed, the first: {load.failed[0]}"
    return f"{text}."


@server_group.command(
    "replay",
    epilog="\b\nExample: specmath measure server replay http://127.0.0.1:8000 "
    "http://127.0.0.1:8001 --texts sent.jsonl --c 0.1",
)
@click.argument("target_url", metavar="TARGET")
@click.argument("draft_url", metavar="DRAFT")
@click.option(
    "--texts", "prompt_file", type=click.Path(exists=True, dir_okay=False),
    help='Texts as {"prompt": …, "response": …} a line; a missing response is written by TARGET.',
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["greedy", "sampled", "argmax"]), default="greedy",
    show_default=True, help="greedy: text of temperature 0. sampled: of temperature 1 without "
    "top-p, the draft sampled too. argmax: the same text, the draft greedy (llama.cpp).",
)  # fmt: skip
@click.option("--max-tokens", type=int, default=128, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--served-target", help="Name of the served target; the first listed if not given.")
@click.option("--served-draft", help="Name of the served draft; the first listed if not given.")
@_REMOTE
@cost_options
@format_option
def replay_command(
    style: str, target_url: str, draft_url: str, prompt_file: str | None, mode: Mode,
    max_tokens: int, seed: int, served_target: str | None, served_draft: str | None,
    allow_remote: bool,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """What speculation would give on text already written, before switching it on.

    Both servers score the tokens of the text (log-probabilities). TARGET must be the model that
    wrote it. Costs come from the scenario's options (--c, or --gpu --model --draft).
    """
    addresses = [check_url(url, allow_remote=allow_remote) for url in (target_url, draft_url)]
    scenario = cost_scenario(scenario_file, options)
    found = asyncio.run(
        replay_servers(
            addresses[0], addresses[1], [(p.text, p.response) for p in _prompts(prompt_file)], mode,
            target_model=served_target, draft_model=served_draft, max_tokens=max_tokens, seed=seed,
            tell=_teller("texts"),
        )
    )  # fmt: skip
    cost = step_cost_of(scenario)
    rows: list[Row] = []
    for gamma in range(min(LARGEST_GAMMA, cost.reach) + 1):
        tokens = float(found.acceptance.tokens_per_step(gamma))
        step = float(cost.total(gamma))
        rows.append({"gamma": gamma, "tokens_per_step": tokens, "step_cost": step,
                     "walltime_improvement": tokens / step})  # fmt: skip
    _print_replay(style, found, rows)


def _print_replay(style: str, found: Replayed, rows: list[Row]) -> None:
    a = found.alpha
    if style == "json":
        said: Row = {
            "mode": found.mode, "alpha": a.value, "alpha_low": a.low, "alpha_high": a.high,
            "alpha_basis": a.basis, "tokens": a.tokens, "texts": a.texts,
            "own_share": found.own_share, "warnings": list(found.warnings()), "gammas": rows,
        }  # fmt: skip
        print_rows([said], style, one=True)
        return
    if style == "csv":
        print_rows(rows, style)
        return
    click.echo(
        f"α = {significant(a.value)} ({significant(a.low)} to {significant(a.high)}, {a.basis}), "
        f"{a.tokens:,} tokens of {a.texts} texts, {found.mode}\n"
    )
    print_rows([{k: _cell(v) for k, v in row.items()} for row in rows], style)
    for warning in found.warnings():
        click.echo(f"\nNote: {warning}")
