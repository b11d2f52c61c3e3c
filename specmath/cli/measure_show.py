"""measure show: saved measurements read again, those of one pair as one."""

from __future__ import annotations

from pathlib import Path

import click

from specmath.charts.measured_page import measured_page
from specmath.checks import InputError
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.measured import print_report
from specmath.cli.options import FILE, format_option, read_text
from specmath.measure.into_scenario import to_scenario
from specmath.measure.merge import merged
from specmath.measure.report import LARGEST_FILE, Report, read_report, write_report
from specmath.outfile import COMPARISON, PAGE, REPORT, SCENARIO
from specmath.scenario.files import to_toml
from specmath.tables.measured import report_csv

__all__ = ["show_command"]


@click.command("show", cls=WritingCommand,
               epilog="Example: specmath measure show report.json --html report.html")  # fmt: skip
@click.argument("measurements", nargs=-1, required=True, type=FILE)
@click.option("--out", type=Destination(REPORT), help="Write the measurement, merged, as JSON.")
@click.option("--csv", "csv_out", type=Destination(COMPARISON), help="Write the comparison.")
@click.option("--html", "html_out", type=Destination(PAGE),
              help="Write a page of HTML that needs no network.")  # fmt: skip
@click.option("--scenario-out", type=Destination(SCENARIO),
              help="Write a scenario for the calculator.")  # fmt: skip
@format_option
def show_command(
    measurements: tuple[str, ...], out: str | None, csv_out: str | None, html_out: str | None,
    scenario_out: str | None, style: str,
) -> None:  # fmt: skip
    """Read saved measurements again, those of one pair as one.

    MEASUREMENTS are files that `measure --out` wrote. Several must be of one pair on one machine:
    their texts are pooled, their speeds averaged.
    """
    report = merged([_read(path) for path in measurements])
    try:
        put(out, write_report(report))
        put(csv_out, report_csv(report))
        put(html_out, measured_page(report) if html_out else "")
        put(scenario_out, to_toml(to_scenario(report)) if scenario_out else "")
    finally:
        print_report(report, style)


def _read(path: str) -> Report:
    file = Path(path)
    if file.stat().st_size > LARGEST_FILE:
        raise InputError(f"{path} must have at most {LARGEST_FILE:,} bytes")
    try:
        return read_report(read_text(file))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
