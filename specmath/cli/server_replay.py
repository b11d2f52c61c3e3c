"""measure server replay TARGET DRAFT: speculation foretold from two servers that score text."""

from __future__ import annotations

from typing import Any

import click

from specmath.cli.destination import Destination, WritingCommand
from specmath.cli.options import FILE, cost_options, cost_scenario, format_option
from specmath.cli.output import Row, ends_row, print_rows
from specmath.cli.server import FIRST, REMOTE, digest, server_prompts, teller
from specmath.cli.stopping import run_stoppable
from specmath.cli.terminal import say, say_each
from specmath.measure.report import Interval
from specmath.measure.score import estimate_tokens
from specmath.measure.server.checkpoint import Checkpoint
from specmath.measure.server.client import check_url
from specmath.measure.server.replay_endpoints import Mode, Replayed, replay_servers
from specmath.numbers import significant
from specmath.outfile import CHECKPOINT
from specmath.scenario.endpoint import resolve
from specmath.speculation import Speculation, speedup
from specmath.words.measured import replay_warnings

__all__ = ["replay_command"]

LARGEST_GAMMA = 16
REPLAY_OPTIONS = ("target_model", "draft_model", "max_tokens", "seed", "chat")
"""Options that a replay has by the same name."""


@click.command("replay", cls=WritingCommand, epilog="\b\nExample: specmath measure server replay "
               "http://127.0.0.1:8000 http://127.0.0.1:8001 --texts sent.jsonl --c 0.1",
               )  # fmt: skip
@click.argument("target_url", metavar="TARGET")
@click.argument("draft_url", metavar="DRAFT")
@click.option(
    "--texts", "prompt_file", type=FILE,
    help='Texts as {"prompt": …, "response": …} a line; a missing response is written by TARGET.',
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["greedy", "sampled", "argmax"]), default="greedy",
    help="greedy: text of temperature 0. sampled: of temperature 1 without "
    "top-p, the draft sampled too. argmax: the same text, the draft greedy (llama.cpp).",
)  # fmt: skip
@click.option("--max-tokens", type=int, default=128)
@click.option("--seed", type=int, default=0)
@click.option("--chat", is_flag=True, help="Wrap each prompt in TARGET's chat template.")
@click.option("--checkpoint", type=Destination(CHECKPOINT), help="Keep scored texts there, and "
              "take those that stand there already.")  # fmt: skip
@click.option("--served-target", "target_model", help=f"Name of the served target{FIRST}")
@click.option("--served-draft", "draft_model", help=f"Name of the served draft{FIRST}")
@REMOTE
@cost_options
@format_option
def replay_command(
    style: str, target_url: str, draft_url: str, prompt_file: str | None, mode: Mode,
    checkpoint: str | None, allow_remote: bool, scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """What speculation would give on text already written, before switching it on.

    Both servers score the tokens of the text (log-probabilities). TARGET must be the model that
    wrote it. Costs come from the scenario's options (--c, or --gpu --model --draft).
    """
    target, draft = (check_url(url, allow_remote=allow_remote) for url in (target_url, draft_url))
    how = {name: options.pop(name) for name in REPLAY_OPTIONS}
    scenario = cost_scenario(scenario_file, options)
    texts = [(prompt.text, prompt.response) for prompt in server_prompts(prompt_file)]
    kept = Checkpoint(checkpoint, {"replay": digest([target, draft, texts, mode, how])})
    done = {int(number): record for number, record in kept.done.items()}
    try:
        found = run_stoppable(replay_servers(
            target, draft, texts, mode, tell=teller("texts"), kept=done,
            keep=lambda number, record: kept.add(str(number), record), **how,
        ))  # fmt: skip
    finally:
        kept.close()
    _print_replay(style, found, _replayed(found, resolve(scenario).speculation))


def _replayed(found: Replayed, costs: Speculation) -> list[Row]:
    """τ and speedup of every γ, with their intervals."""
    texts, share = found.acceptance.alphas, costs.coverage
    rows: list[Row] = []
    for gamma in range(
        min(LARGEST_GAMMA, costs.reach, int(found.acceptance.lengths.max()) - 1) + 1
    ):
        spent, waits = costs.cost.total(gamma), costs.waits(gamma)
        tokens = estimate_tokens(texts, gamma).map(lambda tau: share * tau + 1.0 - share)
        faster = tokens.map(
            lambda tau, s=spent, w=waits: speedup(tau, s, w, costs.plain_waiting)  # type: ignore[misc]
        )
        rows.append({
            "gamma": gamma, **ends_row("tokens_per_step", tokens), "step_cost": float(spent),
            **ends_row("walltime_improvement", faster),
        })  # fmt: skip
    return rows


def _print_replay(style: str, found: Replayed, rows: list[Row]) -> None:
    alpha, basis = Interval.of(found.alpha), found.alpha.basis.source
    tokens, texts = int(found.acceptance.lengths.sum()), found.acceptance.texts
    warnings = replay_warnings(found)
    if style == "json":
        said: Row = {
            "mode": found.mode, **ends_row("alpha", alpha), "alpha_basis": basis, "tokens": tokens,
            "texts": texts, "own_share": found.own_share, "warnings": warnings, "gammas": rows,
        }  # fmt: skip
        print_rows([said], style, one=True)
    elif style == "csv":
        print_rows(rows, style)
    else:
        value, low, high = map(significant, ends_row("alpha", alpha).values())
        said_of = f"{tokens:,} tokens of {texts} texts, {found.mode}"
        say(f"α = {value} ({low} to {high}, {basis}), {said_of}\n")
        print_rows([
            {"γ": row["gamma"], "τ": _between(row, "tokens_per_step"),
             "s": significant(row["step_cost"]), "speedup": _between(row, "walltime_improvement")}
            for row in rows
        ], style)  # fmt: skip
        say_each("\nNote: ", warnings)


def _between(row: Row, name: str) -> str:
    value, low, high = (significant(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return f"{value} ({low} to {high})"
