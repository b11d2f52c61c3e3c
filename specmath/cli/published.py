"""published: the public record beside what is predicted for it; and a row to add to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from specmath.cli.logs import LOG, read_files
from specmath.cli.options import FILE, format_option, read_text
from specmath.cli.output import print_table
from specmath.cli.terminal import progress, progress_ended, say, say_json
from specmath.published.case import cases_of, shipped
from specmath.published.kept import kept
from specmath.published.rows import read
from specmath.published.score import Scored, judge, score
from specmath.published.submission import GIVEN, as_csv, submission
from specmath.published.summary import BY, Summary, summarise
from specmath.tables.published import filled, groups_table, reasons_table, rows_table
from specmath.words.published import code_words, row_words, set_aside_words

__all__ = ["add_command", "score_command"]

EVERY = 200
"""Rows between two progress lines."""


@click.command(
    "score",
    epilog="\b\nExample: specmath published --by engine\n"
    "Example: specmath published --file mine.csv --format json",
)
@click.option(
    "--file", "file", type=FILE,
    help="Score this CSV instead of the record that comes with specmath; its kind is told by the "
    "names of its columns, those of specmath/data/published.",
)  # fmt: skip
@click.option(
    "--predictions", type=FILE,
    help="Judge another tool: a CSV with id and predicted, and where known quantity, low and high.",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(BY), default="method", show_default=True,
    help="What the figures of the table are grouped by.",
)  # fmt: skip
@click.option("--rows", "every", is_flag=True, help="Print every row, not the figures.")
@click.option("--summary", "short", is_flag=True, help="JSON of the figures alone, without rows.")
@format_option
def score_command(
    file: str | None, predictions: str | None, by: str, every: bool, short: bool, style: str
) -> None:
    """Predict every published row, and say how far off.

    Each row by every method that its known inputs allow; a row that cannot be predicted keeps its
    reason. CSV prints the rows, JSON the rows and the summary.
    """
    found = _scored(file, predictions)
    table = rows_table(found)
    if style == "csv" or (every and style == "table"):
        print_table(table if style == "csv" else filled(table), style)
        return
    told = summarise(found)
    if style == "json":
        reasons = [{"reason": code_words(w.code), "cases": w.cases} for w in told.reasons]
        rows = {} if short else {"rows": table.rows()}
        say_json(rows | {"summary": asdict(told) | {"reasons": reasons}})
        return
    _print(told, by)


def _scored(file: str | None, predictions: str | None) -> list[Scored]:
    if file is None:
        if predictions is None:
            return list(kept())
        cases = shipped()
    else:
        path = Path(file)
        rows = read(read_text(path), path.name)
        cases = cases_of(rows, path.parent)
        if rows.unread:
            say(f"Columns not read: {', '.join(rows.unread)}", err=True)
    if predictions is not None:
        path = Path(predictions)
        return judge(cases, read_text(path), path.name)

    def told(done: int) -> None:
        if done % EVERY == 0:
            progress(f"{done:,} of {len(cases):,} rows")

    found = score(cases, told=told)
    progress_ended()
    return found


def _print(told: Summary, by: str) -> None:
    say(f"{told.scored:,} of {told.cases:,} rows are predicted by some method.")
    if groups := told.by(by):
        say()
        print_table(groups_table(groups), "table")
    if aside := set_aside_words(told):
        say(f"\n{aside}")
    if told.reasons:
        say()
        print_table(reasons_table(told), "table")


CELLS = {
    "id": "A name for the row that no other has",
    "source": "Who measured",
    "url": "Where it can be read",
    "date": "When it ran",
    "target": "The model that was served",
    "weights": "Its format: bf16, fp8, int4",
    "kv_dtype": "The format of its cache",
    "drafter": "The name of the draft model or head",
    "kind": "How it drafts: eagle3, mtp, ngram, medusa, draft model",
    "gamma": "Drafted tokens a step",
    "hardware": "The GPU, H100 or 8xH100",
    "gpus": "GPUs of one replica",
    "engine": "Engine and version",
    "workload": "What was asked of it",
    "isl": "Prompt tokens of a request, in the mean",
    "osl": "Output tokens of a request, in the mean",
    "temperature": "At which tokens were drawn",
    "concurrency": "Requests in flight",
    "notes": "What else should be known",
}
assert tuple(CELLS) == GIVEN


def _given_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option a cell that a person may say beside the two runs."""
    for name in reversed(GIVEN):
        said = f"{CELLS[name]}."
        command = click.option(f"--{name.replace('_', '-')}", name, help=said)(command)
    return command


@click.command(
    "add",
    epilog="\b\nExample: specmath published add plain.json mtp.json --id mine --kind mtp \\\n"
    '  --hardware H100 --source "our bench, 2026-11"',
)
@click.argument("before", type=LOG)
@click.argument("after", type=LOG)
@_given_options
def add_command(before: str, after: str, **given: str | None) -> None:
    """Turn two runs, without and with speculation, into one row of the record.

    BEFORE and AFTER are benchmark results, metrics pages or logs, as `review` takes them. The row
    is printed as CSV; score it with `published --file`, and send it to this project.
    """
    cells = {name: value for name, value in given.items() if value is not None}
    draft = given.get("gamma")
    gamma = int(draft) if draft and draft.isdigit() and 0 < int(draft) <= 256 else None
    plain, spec = read_files([before], None, plain=True), read_files([after], gamma, plain=True)
    row = submission(plain, spec, cells)
    say(as_csv(row), nl=False)
    engines = sorted({reading.engine for reading in (*plain, *spec)})
    if len(engines) > 1:
        say(f"Two engines are compared: {' and '.join(engines)}", err=True)
    for each in score(cases_of(read(as_csv(row), "the row"))):
        say(row_words(each), err=True)
    blank = [name for name in NEEDED if not row[name]]
    if blank:
        say(f"Not known, and worth adding: {', '.join(blank)}", err=True)


NEEDED = ("source", "hardware", "drafter", "gamma", "tau", "concurrency", "isl", "osl", "weights")
"""Cells without which a row can hardly be predicted, or believed."""
