"""measure server URL: load on a running server, with and without speculation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import click
from pydantic import TypeAdapter

import specmath
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.options import (
    FILE,
    cost_scenario,
    format_option,
    load_cost_options,
)
from specmath.cli.output import Row, print_rows
from specmath.cli.stopping import run_stoppable
from specmath.cli.terminal import progress, progress_ended, say, say_each
from specmath.foreign import json_of, of_type
from specmath.logs import Reading, read
from specmath.measure.pairs import smollm2_prompts
from specmath.measure.plan import Prompt, read_prompts
from specmath.measure.server.checkpoint import Checkpoint
from specmath.measure.server.client import ServerError, check_url
from specmath.measure.server.load import Kept, Load, LoadPlan, run_load
from specmath.measure.server.runs import read_metrics
from specmath.measure.server.stream import Streamed
from specmath.numbers import significant
from specmath.outfile import BENCHMARK, CHECKPOINT
from specmath.review.before_after import Review, review
from specmath.words.measured import claims_said, load_said
from specmath.words.review import review_said, review_warnings

__all__ = ["FIRST", "REMOTE", "digest", "load_command", "server_prompts", "teller"]

_OBJECT = TypeAdapter(dict[str, Any])
LOAD_OPTIONS = ("requests", "concurrency", "max_tokens", "seed", "seconds")
"""Options that a plan of load has by the same name."""

SPEC_FIELDS = {
    "spec_decode_acceptance_length": "tokens_per_step",
    "spec_decode_num_drafts": "steps",
    "spec_decode_draft_tokens": "drafted",
    "spec_decode_accepted_tokens": "accepted",
}
"""Speculative fields of a saved benchmark, and of a reading."""

FIRST = "; the first listed if not given."
REMOTE = click.option("--allow-remote", is_flag=True, help="Also hosts that are not this machine.")


@click.command("load", cls=WritingCommand,
               epilog="\b\nExample: specmath measure server http://127.0.0.1:8000 "
               "--plain-url http://127.0.0.1:8001 --concurrency 4")  # fmt: skip
@click.argument("url")
@click.option("--prompts", "prompt_file", type=FILE,
              help="Your prompts: .txt (parted by blank lines), .json or .jsonl.")  # fmt: skip
@click.option("--requests", type=int, default=16)
@click.option("--concurrency", type=int, default=1, help="Requests at a time.")
@click.option("--max-tokens", type=int, default=128)
@click.option("--load-temperature", type=float, default=0.0)
@click.option("--seed", type=int, default=0)
@click.option("--seconds", type=float, default=600.0, help="No request starts later than this.")
@click.option("--completions", is_flag=True, help="Raw completions instead of chat.")
@click.option("--body", help="JSON merged into each request.")
@click.option("--plain-url", help="The same model served without speculation: run first.")
@click.option("--plain-body", help="JSON that switches speculation off for one request, if the "
              "server allows it: run first.")  # fmt: skip
@click.option("--save", type=Destination(BENCHMARK), help="Write the result for review.")
@click.option("--checkpoint", type=Destination(CHECKPOINT), help="Keep finished requests there, "
              "and take those that stand there already.")  # fmt: skip
@click.option("--served-model", help=f"Name that the server gives its model{FIRST}")
@REMOTE
@load_cost_options
@format_option
def load_command(
    style: str, url: str, prompt_file: str | None, completions: bool, load_temperature: float,
    body: str | None, plain_url: str | None, plain_body: str | None, save: str | None,
    checkpoint: str | None, served_model: str | None, allow_remote: bool,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Streamed load: TTFT, ITL, TPOT and metrics. With and without speculation."""
    base = check_url(url, allow_remote=allow_remote)
    plan = LoadPlan(
        prompts=[prompt.text for prompt in server_prompts(prompt_file)],
        temperature=load_temperature, model=served_model, chat=not completions,
        extra=_object("body", body),
        **{name: options.pop(name) for name in LOAD_OPTIONS},
    )  # fmt: skip
    if options.get("gpu"):  # computed costs are those of this load
        options["concurrency"] = plan.concurrency
    scenario = cost_scenario(scenario_file, options)
    arms: dict[str, tuple[str, LoadPlan]] = {}
    if plain_url or plain_body:
        other = check_url(plain_url, allow_remote=allow_remote) if plain_url else base
        without = replace(plan, extra={**plan.extra, **_object("plain-body", plain_body)})
        arms["plain"] = (other, without)
    arms["speculative" if arms else "load"] = (base, plan)
    loads, error = _loads(arms, checkpoint)
    *before, found = loads
    readings = read_metrics(found)
    row = found.summary() | spec_fields(readings)
    decision, false = None, []
    if before:
        false = claims_said(before[0], found)
        if not false:
            reading = _as_reading(before[0].summary())
            decision = review([reading], [_as_reading(row, readings)], scenario)
    stamped = {"specmath_version": specmath.__version__} | row
    try:
        put(save, json.dumps(stamped, indent=2, ensure_ascii=False) + "\n")
    finally:
        _print_load(style, row, before, decision, found, false)
    if error is not None:
        raise error


def _loads(
    arms: Mapping[str, tuple[str, LoadPlan]], path: str | None
) -> tuple[list[Load], ServerError | None]:
    """The arms in order; what ended them early, where something was finished."""
    asked = {name: [url, asdict(plan)] for name, (url, plan) in arms.items()}
    checkpoint = Checkpoint(path, {"load": digest(asked)})
    loads: list[Load] = []
    for name, (url, plan) in arms.items():
        try:
            loads.append(_run(url, plan, name, checkpoint))
        except ServerError as error:
            if not loads:
                raise
            said = f"the {name} run failed; shown and saved is the one before it: {error}"
            return loads, ServerError(said)
        if loads[-1].stopped:
            break
    return loads, None


def digest(asked: Any) -> str:
    """Of what is measured: whoever asks for something else gets another one."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _run(base: str, plan: LoadPlan, name: str, checkpoint: Checkpoint) -> Load:
    lead = f"{name}:"
    done = {
        int(key.removeprefix(lead)): Streamed.of(value)
        for key, value in checkpoint.done.items() if key.startswith(lead)
    }  # fmt: skip
    kept = Kept(done, lambda number, stream: checkpoint.add(f"{lead}{number}", stream.record()))
    try:
        return run_stoppable(run_load(base, plan, tell=teller(name), kept=kept))
    finally:
        checkpoint.close()


def teller(name: str) -> Callable[[int, int], None]:
    """Who hears of progress, and says it on the screen."""

    def told(done: int, total: int) -> None:
        progress(f"{name}: {done}/{total}")
        if done == total:
            progress_ended()

    return told


def server_prompts(path: str | None) -> list[Prompt]:
    """The prompts of the file; without one those that are shipped."""
    return read_prompts(path) if path else smollm2_prompts()


def _object(name: str, text: str | None) -> dict[str, Any]:
    return {} if text is None else of_type(_OBJECT, name, json_of(name, text))


def spec_fields(readings: list[Reading]) -> Row:
    """The speculative fields of a saved benchmark, from the metrics."""
    for r in readings:
        if r.drafted and r.accepted is not None:
            row: Row = {"spec_decode_acceptance_rate": 100.0 * r.accepted / r.drafted}
            row |= {name: getattr(r, field) for name, field in SPEC_FIELDS.items()}
            row["spec_decode_per_position_acceptance_rates"] = list(r.survival or ())
            return {name: value for name, value in row.items() if value not in (None, [])}
    return {}


def _as_reading(row: Mapping[str, Any], metrics: list[Reading] | None = None) -> Reading:
    (found,) = read(json.dumps(row))
    if metrics:
        return replace(metrics[0], facts=found.facts)
    return replace(found, engine=str(row["backend"]))


def _print_load(
    style: str, row: Row, plain: Sequence[Load], decision: Review | None, found: Load,
    false: list[str],
) -> None:  # fmt: skip
    other = {"plain": plain[0].summary()} if plain else {}
    said = None if decision is None else review_said(decision)
    if style != "table":
        ends = ({"review": said.headline} if said else {}) | ({"false": false} if false else {})
        print_rows([row | other | ends], style, one=True)
        return
    columns = {"this run": row} | other
    names = [name for name in row if name not in ("backend", "model_id", "request_rate")]
    say(f"{row['backend']}, {row['model_id']}\n")
    cells = [{"": n} | {c: _cell(columns[c].get(n)) for c in columns} for n in names]
    print_rows(cells, style)
    if decision is not None and said is not None:
        say(f"\n{said.headline}")
        say_each("  - ", (*said.because, *review_warnings(decision)))
    say_each("\nNo comparison: ", false)
    say(f"\n{load_said(found)}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(significant(item) for item in value)
    return significant(value) if isinstance(value, float) else str(value)
