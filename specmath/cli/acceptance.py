"""acceptance: what others measured with a kind of draft at a kind of work."""

from __future__ import annotations

from typing import Any

import click

from specmath.acceptance_record import KINDS, WORKS, Band, band, bands, rows
from specmath.checks import InputError
from specmath.cli.options import format_option
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_json
from specmath.drafters import recorded
from specmath.tables.acceptance import bands_table, pairs_table, record_table
from specmath.tables.table import Table
from specmath.words.acceptance import band_sentence, not_known_words, range_not_narrowed

__all__ = ["acceptance_command"]


@click.command(
    "acceptance",
    epilog="\b\nExample: specmath acceptance --draft eagle3 --work code --model Llama-3.1-8B\n"
    "Example: specmath acceptance --draft mtp --format json",
)
@click.option(
    "--draft",
    help="A kind of draft (" + ", ".join(KINDS) + ", dflash, dspark, p-eagle, …), or the name of a "
    "draft model. Not given: every kind.",
)
@click.option("--work", type=click.Choice(WORKS), help="A kind of work. Not given: each of them.")
@click.option("--model", help="Target model: where the record has it, its own band.")
@click.option("--rows", "every", is_flag=True, help="Print the rows of the record, not its bands.")
@format_option
def acceptance_command(
    draft: str | None, work: str | None, model: str | None, every: bool, style: str
) -> None:
    """What others measured: the range of α of a draft at a kind of work.

    A band is the middle 80% of the pairs of drafter and target, each weighed once; where one is
    asked for, its pairs follow. JSON holds both.
    """
    kind, name = _kind_of(draft)
    if every:
        print_table(_rows(kind, work), style)
        return
    found = _bands(kind, name, work, model)
    if not found:
        _print_none(style, draft, work)
    elif style == "json":
        table, behind = bands_table(found), [p for b in found for p in b.found]
        lists = zip(table.rows(), found, strict=True)
        named = [row | {"sources": list(b.sources)} for row, b in lists]
        say_json({"bands": named, "pairs": pairs_table(behind).rows()})
    elif style == "csv":
        print_table(bands_table(found), "csv")
    else:
        _print(found, model)


def _kind_of(draft: str | None) -> tuple[str | None, str | None]:
    """Its kind in the record, and its own name there; a kind of the record is one as it stands."""
    if draft is None or draft in KINDS:
        return draft, None
    kind, name = recorded(draft)
    return kind, name or None


def _bands(
    kind: str | None, name: str | None, work: str | None, model: str | None
) -> tuple[Band, ...]:
    """The band of a kind and work; of each kind and work where one of them is not given."""
    if model is not None and not kind:
        raise InputError("--model needs --draft, a kind that the record has, got nothing")
    if (kind is not None and work is not None) or model is not None:
        works = WORKS if work is None else (work,)
        each = (band(kind, one, drafter=name, target=model) for one in works)
        return tuple(b for b in each if b is not None)
    return bands(kind, work)


def _rows(kind: str | None, work: str | None) -> Table:
    wanted = [r for r in rows() if kind in (None, r.drafter_kind) and work in (None, r.work)]
    if not wanted:
        raise InputError(f"no row of {kind or 'that draft'} at {work or 'any work'} in the record")
    return record_table(wanted)


def _print_none(style: str, draft: str | None, work: str | None) -> None:
    """That nobody measured it; no rows where rows were asked for."""
    if style == "json":
        say_json({"bands": [], "pairs": []})
    elif style == "table":
        say(not_known_words(draft or "any draft", work or ""))


def _print(found: tuple[Band, ...], model: str | None) -> None:
    if len(found) == 1:
        (only,) = found
        say(band_sentence(only))
        if model is not None and not only.target:
            say(range_not_narrowed(model))
        say()
        print_table(pairs_table(only.found), "table")
        return
    print_table(_short(bands_table(found)), "table")
    say("\nSources: --format csv or json, or one band: --draft and --work.")


def _short(table: Table) -> Table:
    """Without the column that no terminal is wide enough for."""
    columns: tuple[Any, ...] = tuple(c for c in table.columns if c.name != "sources")
    return Table(table.title, table.name, columns)
