"""report: a plan, or one scenario, as a page for a meeting."""

from __future__ import annotations

from typing import Any

import click

from specmath.checks import InputError
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.options import FILE, read_scenario, scenario_options
from specmath.cli.plan import read_plan
from specmath.cli.terminal import say
from specmath.outfile import PAGE
from specmath.plan.decided import decided
from specmath.predict import predict
from specmath.report.plan import report_bytes
from specmath.report.scenario import scenario_report_bytes

__all__ = ["report_command"]


@click.command(
    "report",
    cls=WritingCommand,
    epilog="\b\nExample: specmath report plan.toml -o report.html\n"
    "Of one scenario: specmath report --alpha 0.8 --c 0.1 -o report.html",
)
@click.argument("file", type=FILE, required=False)
@click.option("--beside", type=FILE, help="Another plan, to lay side by side with it.")
@click.option("-o", "--out", type=Destination(PAGE), required=True, help="HTML file to write.")
@scenario_options
def report_command(
    file: str | None, beside: str | None, out: str, scenario_file: str | None, **options: Any
) -> None:
    """A plan or a scenario as a page for a meeting: opens offline, prints on A4.

    FILE is a plan in TOML, as `specmath plan` reads it; without one the report is of the scenario
    that the options, or --scenario, say.
    """
    given = {name for name, value in options.items() if value is not None}
    if file is None:
        if beside is not None:
            raise InputError("--beside lays a plan beside another: give the plan's file too")
        data = scenario_report_bytes(predict(read_scenario(scenario_file, options)))
    else:
        if given or scenario_file is not None:
            raise InputError("a report is of a plan's file or of a scenario's options, got both")
        plan, other = (
            None if path is None else decided(read_plan(path)) for path in (file, beside)
        )
        assert plan is not None
        data = report_bytes(plan, beside=other)
    put(out, data)
    say(f"wrote {out} ({len(data):,} bytes)")
