"""measure server costs URL: v, c, h and s of a running server, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

import specmath
from specmath.checks import InputError, plain_text
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.options import FILE, cost_scenario, format_option, load_cost_options
from specmath.cli.output import Row, ends_row, print_rows
from specmath.cli.server import server_prompts, teller
from specmath.cli.stopping import run_stoppable
from specmath.cli.terminal import say, say_each
from specmath.estimate import Estimate
from specmath.logs import Reading, read
from specmath.measure.plan import whole_numbers
from specmath.measure.report import Interval
from specmath.measure.server.client import ServerError, check_url
from specmath.measure.server.costs import ServerCosts
from specmath.measure.server.load import Load, LoadPlan, run_load
from specmath.measure.server.runs import SpeculativeRun, given_run, plain_step, run_of
from specmath.measure.server.two_requests import ReadPlan, ServerSteps, time_server
from specmath.outfile import SCENARIO
from specmath.scenario import Scenario
from specmath.scenario.files import revised, to_toml, written
from specmath.words.measured import costs_said, costs_warnings, interval_said

__all__ = ["costs_command"]

PER_RUN = click.Tuple([int, str])
ANCHORS = ("target_ms", "run_gamma", "run_ms", "run_tokens_per_step")
"""What a scenario that computes its costs takes all the same."""


@click.command("costs", cls=WritingCommand,
               epilog="\b\nExample: specmath measure server costs http://127.0.0.1:8000 "
               "--draft-url http://127.0.0.1:8001 --save costs.toml\n"
               "With forced acceptance: specmath measure server costs http://127.0.0.1:8000 "
               "--speculative 4 http://127.0.0.1:8002 --forced 4 3")  # fmt: skip
@click.argument("url", required=False)
@click.option("--draft-url", help="The draft, served by itself: gives c.")
@click.option("--gammas", default="1-8", help="γ of the two requests: 1-8 or 1,2,4.")
@click.option("--context", "cached_tokens", default=512, help="Cached tokens before the fresh.")
@click.option("--rounds", default=15, help="Of the two requests; 0 leaves them out.")
@click.option("--speculative", type=PER_RUN, multiple=True, metavar="GAMMA URL",
              help="The model served with speculation at γ: gives s. Repeatable.")  # fmt: skip
@click.option("--forced", type=click.Tuple([int, float]), multiple=True, metavar="GAMMA TAU",
              help="Tokens per step that this server makes up (forced acceptance).")  # fmt: skip
@click.option("--server-log", type=click.Tuple([int, FILE]), multiple=True, metavar="GAMMA FILE",
              help="The log of the server at that γ: llama.cpp's statistics lines, printed with "
              "-lv 4, hold its drafting times.")  # fmt: skip
@click.option("--tpot", type=click.Tuple([int, float, float]), multiple=True,
              metavar="GAMMA MS TAU", help="A run that you have timed: mean TPOT and tokens per "
              "step; 0 MS 1 is the plain one.")  # fmt: skip
@click.option("--concurrencies", help="Time the plain step at each: 1,2,4,8.")
@click.option("--prompts", "prompt_file", type=FILE,
              help="Your prompts: .txt (parted by blank lines), .json or .jsonl.")  # fmt: skip
@click.option("--requests", default=16, help="Of each run.")
@click.option("--max-tokens", default=128, help="Of each request of a run.")
@click.option("--seed", default=0)
@click.option("--head-share", type=float, help="Vocabulary × hidden size ÷ parameters: what the "
              "output head is of them. llama.cpp tells it.")  # fmt: skip
@click.option("--served-model", help="Name that the server gives its model.")
@click.option("--served-draft", help="Name that the draft's server gives it.")
@click.option("--allow-remote", is_flag=True, help="Also hosts that are not this machine.")
@click.option("--save", type=Destination(SCENARIO), help="Write the scenario with these costs.")
@load_cost_options
@format_option
def costs_command(
    style: str, url: str | None, draft_url: str | None, save: str | None, scenario_file: str | None,
    prompt_file: str | None, allow_remote: bool, **options: Any,
) -> None:  # fmt: skip
    """What a step of your server costs: v, c, h and s in plain steps, each with its interval.

    Two requests each give v (γ+1 fresh tokens behind a cached prefix, against one); the draft's
    own server gives c; a server at some γ gives s, for which its acceptance may be forced.
    """
    own = {name: options.pop(name) for name in (
        "gammas", "cached_tokens", "rounds", "speculative", "forced", "server_log", "tpot",
        "concurrencies", "requests", "max_tokens", "seed", "head_share", "served_model",
        "served_draft",
    )}  # fmt: skip
    scenario = cost_scenario(scenario_file, options)
    texts = [prompt.text for prompt in server_prompts(prompt_file)]
    urls = {
        name: check_url(at, allow_remote=allow_remote)
        for name, at in (("plain", url), ("draft", draft_url)) if at
    }  # fmt: skip
    runs = [(gamma, check_url(at, allow_remote=allow_remote)) for gamma, at in own["speculative"]]
    _check(own, urls, runs)
    costs, error = _measured(own, urls, runs, texts)
    filled = _filled(scenario, costs)
    try:
        put(save, to_toml(filled))
    finally:
        _print(style, costs, written(filled))
    if error is not None:
        raise error


def _filled(scenario: Scenario, costs: ServerCosts) -> Scenario:
    """The scenario with these costs; the acceptance of a run where it has a planning range only.

    One that computes its costs from hardware takes times; a curve only with the draft's cost.
    """
    fields = costs.fields() | (costs.acceptance() if scenario.accepts.planned else {})
    if not scenario.label and costs.steps is not None:
        fields["label"] = plain_text(f"Measured: {costs.steps.model}, {costs.steps.engine}")[:80]
    if scenario.costs.computed and costs.draft is None:
        fields = {name: fields[name] for name in ("label", *ANCHORS) if name in fields}
    return revised(scenario, fields)


def _check(own: dict[str, Any], urls: dict[str, str], runs: Sequence[tuple[int, str]]) -> None:
    """InputError for what cannot go together, before anything is asked."""
    if "plain" not in urls and (runs or "draft" in urls or own["concurrencies"]):
        raise InputError("URL must be the server without speculation, got nothing")
    if "plain" not in urls and not own["tpot"]:
        raise InputError("costs need a URL, or --tpot GAMMA MS TAU of runs that you have timed")
    if own["tpot"] and 0 not in {gamma for gamma, _, _ in own["tpot"]}:
        raise InputError("--tpot must hold the plain run too: --tpot 0 MS 1")
    ran = [gamma for gamma, _ in runs]
    for name in ("forced", "server_log"):
        if strange := sorted({gamma for gamma, _ in own[name]} - set(ran)):
            flag = name.replace("_", "-")
            raise InputError(
                f"--{flag} {strange[0]} needs --speculative {strange[0]} URL beside it"
            )
    every = ran + [gamma for gamma, _, _ in own["tpot"] if gamma]
    if len(set(every)) < len(every):
        raise InputError(f"each gamma may be run once, got {sorted(every)}")


def _measured(
    own: dict[str, Any], urls: dict[str, str], runs: Sequence[tuple[int, str]],
    texts: Sequence[str],
) -> tuple[ServerCosts, ServerError | None]:  # fmt: skip
    """What was measured, and what ended it early where something was."""
    plain_ms = {gamma: ms for gamma, ms, _ in own["tpot"]}.get(0, 0.0)
    found = [given_run(g, ms, tau, plain_ms) for g, ms, tau in own["tpot"] if g]
    plain = urls.get("plain")
    if plain is None:
        return ServerCosts(None, tuple(found)), None
    steps = _steps(own, plain, urls.get("draft"), texts) if own["rounds"] else None
    loads: dict[int, Estimate] = {}
    ended: ServerError | None = None
    try:
        if steps is not None and len(steps.plain) < own["rounds"]:
            done = f"{len(steps.plain)} of {own['rounds']} rounds"
            raise ServerError(f"ended early, after {done}")
        if runs:
            _runs(own, plain, runs, texts, found)
        if own["concurrencies"]:
            _loads(own, plain, texts, loads)
    except ServerError as error:
        if steps is None and not found and 1 not in loads:
            raise
        ended = error
    return ServerCosts(steps, tuple(sorted(found, key=lambda run: run.gamma)), loads), ended


def _steps(own: dict[str, Any], plain: str, draft: str | None, texts: Sequence[str]) -> ServerSteps:
    plan = ReadPlan(whole_numbers("--gammas", own["gammas"]), own["cached_tokens"], own["rounds"],
                    seed=own["seed"])  # fmt: skip
    return run_stoppable(time_server(
        plain, plan, texts, draft_url=draft, model=own["served_model"],
        draft_model=own["served_draft"], head=own["head_share"], tell=teller("rounds"),
    ))  # fmt: skip


def _runs(
    own: dict[str, Any], plain: str, runs: Sequence[tuple[int, str]], texts: Sequence[str],
    found: list[SpeculativeRun],
) -> None:  # fmt: skip
    alone = _load(own, plain, texts, "plain")
    forced, logs = dict(own["forced"]), dict(own["server_log"])
    for gamma, at in runs:
        load = _load(own, at, texts, f"γ={gamma}")
        log: list[Reading] = read(Path(logs[gamma])) if gamma in logs else []
        found.append(run_of(gamma, alone, load, forced=forced.get(gamma), log=log))


def _loads(
    own: dict[str, Any], plain: str, texts: Sequence[str], loads: dict[int, Estimate]
) -> None:
    for count in whole_numbers("--concurrencies", own["concurrencies"]):
        load = _load(own, plain, texts, f"{count} at a time", concurrency=count)
        loads[count] = plain_step(load)


def _load(
    own: dict[str, Any], url: str, texts: Sequence[str], name: str, concurrency: int = 1
) -> Load:
    plan = LoadPlan(
        texts, max(own["requests"], 2 * concurrency), concurrency, own["max_tokens"],
        seed=own["seed"], model=own["served_model"], chat=False,
        extra={"ignore_eos": True},  # what a forced acceptance writes may end at once
    )  # fmt: skip
    load = run_stoppable(run_load(url, plan, tell=teller(name)))
    if load.stopped:
        raise ServerError(f"stopped while {name} ran")
    return load


def _print(style: str, costs: ServerCosts, scenario: dict[str, Any]) -> None:
    rows = [_row(costs, gamma) for gamma in costs.gammas]
    if style == "csv":
        print_rows(rows, style)
        return
    steps, draft = costs.steps, costs.draft
    if style == "json":
        where = {} if steps is None else {
            "engine": steps.engine, "model": steps.model, "draft_model": steps.draft_model,
            "context_tokens": steps.context, "clock": "server" if steps.own_clock else "client",
            "prefix_cached": steps.cached, "head_share": steps.head_share,
            "rounds": len(steps.plain),
        }  # fmt: skip
        said: Row = {
            "specmath_version": specmath.__version__,
            "measured": datetime.now(UTC).isoformat(timespec="seconds"), "batch": 1, **where,
            **ends_row("plain_ms", costs.plain_ms),
            **({} if draft is None else ends_row("c", draft.c) | {"c_from": draft.found}),
            "gammas": rows,
            "concurrencies": [
                {"concurrency": count, **ends_row("step_ms", step.map(lambda s: 1e3 * s))}
                for count, step in costs.loads.items()
            ],
            "warnings": costs_warnings(costs), "scenario": scenario,
        }  # fmt: skip
        print_rows([said], style, one=True)
        return
    say_each("", costs_said(costs))
    cells = [
        {"γ": gamma, "v": _said(costs.verify_cost(gamma)), **_run_cells(costs, gamma)}
        for gamma in costs.gammas
    ]
    if cells:
        say()
        print_rows(cells, style)
    if costs.loads:
        say()
        print_rows([{"concurrency": count, "plain step, ms": _said(step.map(lambda s: 1e3 * s))}
                    for count, step in costs.loads.items()], style)  # fmt: skip
    say_each("\nNote: ", costs_warnings(costs))


def _row(costs: ServerCosts, gamma: int) -> Row:
    run = costs.run_at(gamma)
    found: Row = {"gamma": gamma}
    numbers = {
        "verify_cost": costs.verify_cost(gamma), "step_cost": run and run.step_cost,
        "overhead": costs.overhead(gamma),
    }  # fmt: skip
    for name, number in numbers.items():
        found |= ends_row(name, number) if number else dict.fromkeys(
            (name, f"{name}_low", f"{name}_high")
        )  # fmt: skip
    told = ("tokens_per_step", "tau_from", "forced", "coverage", "run_ms", "draft_seconds")
    return found | {name: None if run is None else getattr(run, name) for name in told}


def _run_cells(costs: ServerCosts, gamma: int) -> Row:
    if not costs.runs:
        return {}
    run = costs.run_at(gamma)
    if run is None:
        return dict.fromkeys(("s", "τ", "h"), "")
    tau = f"{run.tokens_per_step:.3g}, {'forced' if run.forced else run.tau_from}"
    return {"s": _said(run.step_cost), "τ": tau, "h": _said(costs.overhead(gamma))}


def _said(number: Estimate | None) -> str:
    return "" if number is None else interval_said(Interval.of(number))
