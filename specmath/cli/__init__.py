"""The command line: the same functions as the app. Bad input exits 2, message on stderr only.

Here stands the tree of the commands; what a command needs is imported when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

import click

import specmath
from specmath.cli.groups import DefaultGroup, Later
from specmath.cli.terminal import failing_output, prepare_streams, say, show, unforeseen

__all__ = ["main"]

UNFORESEEN = 70
"""Exit code of a fault of the program itself (EX_SOFTWARE)."""


class _Program(click.Group):
    """Output that cannot be written ends any command, and its help, in one sentence."""

    make_context = failing_output()(click.Group.make_context)
    invoke = failing_output()(click.Group.invoke)


@click.group(
    cls=_Program,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
    epilog="\b\nExample: specmath predict --target-ms 40 --draft-ms 8 "
    "--gamma 4 --accepted-per-step 3",
)
@click.version_option(specmath.__version__, package_name="specmath")
def cli() -> None:
    """What speculative decoding will do to your latency and your bill."""


@cli.group(
    "logs",
    cls=DefaultGroup,
    default="read",
    subcommand_metavar="FILE… | COMMAND [ARGS]…",
    epilog="\b\nExample: specmath logs vllm.log --baseline-itl-ms 25 --format json\n"
    "All options of `logs FILE…`: specmath logs read --help",
)
def logs_group() -> None:
    """What a server's own log says: α, γ, overhead, and whether acceptance has fallen.

    FILE is a log, a metrics page (two or more of one server, oldest first, give the change), a
    benchmark result or a response, of any engine; gzip is read as it is, - is standard input.
    """


@cli.group("measure", cls=DefaultGroup, default="pair", all_else=True)
def measure_group() -> None:
    """Measure a model pair on this machine; `measure server URL` a running server; `measure show`
    reads saved measurements again."""


@measure_group.group(
    "server",
    cls=DefaultGroup,
    default="load",
    subcommand_metavar="URL | COMMAND [ARGS]…",
    epilog="\b\nExample: specmath measure server http://127.0.0.1:8000 --concurrency 8\n"
    "All options of `server URL`: specmath measure server load --help",
)
def server_group() -> None:
    """Put a measured load on a running server, time its steps, or replay text through two.

    Only on this machine unless --allow-remote. A key is taken from the environment variable
    SPECMATH_API_KEY; it is never stored or printed.
    """


@cli.group(
    "published",
    cls=DefaultGroup,
    default="score",
    all_else=True,
    epilog="\b\nExample: specmath published --by engine",
)
def published_group() -> None:
    """What others measured, beside what is predicted for it; `published add` a row of your own."""


REVIEW = (
    "review", "logs_compare:review_command",
    "Did it work? Predicted, observed and their difference: keep, change γ or roll back.",
)  # fmt: skip
"""At home with the logs, and by itself since version one."""

COMMANDS: dict[click.Group, tuple[tuple[str, str, str], ...]] = {
    cli: (
        ("predict", "calculator:predict_command", "Speedup, cost and verdict of one scenario."),
        ("cost", "calculator:cost_command",
         "The bill with and without speculation: replicas, USD a month, a million tokens, energy."),
        ("tails", "tails:tails_command",
         "Slow requests: p50, p90 and p99 of a request's time and of its gaps, in both arms."),
        ("capacity", "capacity:capacity_command",
         "How many GPUs serve a demand within a time, in both arms, and what limits each."),
        ("goodput", "goodput:goodput_command",
         "The largest rate at which 99% of requests meet every promise, and the GPUs it takes."),
        ("plan", "plan:plan_command",
         "Which endpoints get it, with which γ, how many GPUs, and what a month costs."),
        ("report", "report:report_command",
         "A plan or a scenario as a page for a meeting: opens offline, prints on A4."),
        ("rollout", "rollout:rollout_command",
         "How to try it: what to measure before and after, on how many requests, when to stop."),
        ("deployments", "deployments:deployments_command",
         "Which GPU, how many, which draft, which γ, at which load: the best of all of them."),
        ("gamma", "calculator:gamma_command", "The table over γ: which γ to run."),
        ("crossover", "calculator:crossover_command",
         "Over α, the γ where arithmetic grows more than speed."),
        ("sweep", "calculator:sweep_command",
         "One prediction for each value (or pair of values) of one or two fields."),
        ("export", "calculator:export_command",
         "Write a table to a file that a spreadsheet opens."),
        REVIEW,
        ("steptime", "hardware:steptime_command", "Milliseconds of one forward, by operator."),
        ("batch", "hardware:batch_command", "Speedup, recommended γ and cost over batch."),
        ("simulate", "simulate:simulate_command",
         "Requests one by one, with and without speculation: means and tails, throughput."),
        ("drafts", "drafts:drafts_command",
         "Which draft? Those that a target can have, the best first."),
        ("launch", "hardware:launch_command",
         "The command that starts an engine with this speculation."),
        ("model", "hardware:model_command",
         "Sizes of a model from its config.json (or a catalogue name)."),
        ("acceptance", "acceptance:acceptance_command",
         "What others measured: the range of α of a draft at a kind of work."),
        ("serve", "serve:serve_command", "Open the app in a browser, on this machine only."),
        ("mcp", "mcp:mcp_command",
         "Serve the same answers to agents: the Model Context Protocol on standard input."),
    ),
    logs_group: (
        ("read", "logs:read_command",
         "Read logs, metrics, benchmark results and responses, and answer what they answer."),
        ("numbers", "logs:numbers_command",
         "The same answers from the few numbers at hand, where there is no log."),
        REVIEW,
        ("drift", "logs_compare:drift_command",
         "Has acceptance really fallen, since when, and what does it cost?"),
        ("watch", "watch:watch_command",
         "Follow a metrics page or a growing log: a line an interval, an alarm of a fall."),
    ),
    measure_group: (
        ("pair", "measure:measure_command", "Measure c, v and α on a model pair."),
        ("show", "measure_show:show_command",
         "Read saved measurements again, those of one pair as one."),
    ),
    published_group: (
        ("score", "published:score_command",
         "Predict every published row, and say how far off."),
        ("add", "published:add_command",
         "Turn two runs, without and with speculation, into one row of the record."),
    ),
    server_group: (
        ("load", "server:load_command", "Streamed load: TTFT, ITL, TPOT and metrics."),
        ("costs", "server_costs:costs_command",
         "What a step of your server costs: v, c, h and s in plain steps, each with its interval."),
        ("replay", "server_replay:replay_command",
         "What speculation would give on text already written, before switching it on."),
    ),
}  # fmt: skip

for group, commands in COMMANDS.items():
    for command in commands:
        group.add_command(Later(*command))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every InputError becomes exit code 2 with its message on stderr.

    Output that cannot be written, to a file or to standard output, exits 74; a fault of the
    program itself 70, in one sentence too.
    """
    prepare_streams()
    try:
        cli.main(args=arguments, prog_name="specmath", standalone_mode=False)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        with suppress(OSError):  # the exit code is left
            show(error)
        sys.exit(error.exit_code)
    except specmath.InputError as error:  # looked up, and numpy with it, only where one is raised
        with suppress(OSError):
            say(f"Error: {error}", err=True)
        sys.exit(2)
    except Exception as error:  # the net: no traceback ever reaches a user
        with suppress(OSError):
            say(f"Error: {unforeseen(error)}", err=True)
        sys.exit(UNFORESEEN)
