"""drafts: which draft a target can have, each on the hardware and with its own acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from specmath.cli.options import (
    config_text,
    format_option,
    read_scenario,
    read_text,
    scenario_options,
)
from specmath.cli.output import print_rows, print_table
from specmath.cli.terminal import say, say_each
from specmath.drafts import Listed
from specmath.options import options
from specmath.predict import of_endpoint, predict
from specmath.scenario.files import drafts_in
from specmath.scenario.forms import HALVES
from specmath.tables import essential, in_words, options_table
from specmath.words.options import choice_of, options_notes

__all__ = ["drafts_command"]

IN_PLACE = "ngram"
"""A draft that every target can have, where none is given: the scenario needs one."""


def _listed(path: str | None) -> tuple[str, ...]:
    """The models that a scenario file lists to be compared."""
    if path is None:
        return ()
    return Listed.from_dict(drafts_in(read_text(Path(path)))).compared


@click.command(
    "drafts",
    epilog="\b\nExample: specmath drafts --gpu h100 --model Llama-3.3-70B --tensor-parallel 4 "
    "--concurrency 16",
)
@click.option("--compare", multiple=True, metavar="DRAFT",
              help="Another draft model, by name or config.json; may be given again.")  # fmt: skip
@scenario_options
@format_option
def drafts_command(
    style: str, scenario_file: str | None, compare: Sequence[str], **given: Any
) -> None:
    """Which draft? Those that a target can have, the best first.

    Each with the acceptance that others measured of its kind at your --work; with --draft and an
    acceptance, yours with that.
    """
    named = {name for name, value in given.items() if value not in (None, ())}
    if scenario_file is None:
        if HALVES["acceptance"].isdisjoint(named):
            given["acceptance_form"] = "range"
        if "model" in named:
            given["draft"] = given["draft"] or IN_PLACE
    prediction = predict(read_scenario(scenario_file, given))
    yours = scenario_file is not None or "draft" in named
    compared = [*_listed(scenario_file), *(config_text(one) or one for one in compare)]
    found = options(prediction.endpoint, compared, yours=yours)
    table = options_table(found)
    if style != "table":
        print_table(table, style)
        return
    say(choice_of(found).sentence())
    say()
    print_rows(in_words(essential(table)), style)
    if not yours and found.rows:
        prediction = of_endpoint(found.rows[0].endpoint)
    say_each("\nNote: ", options_notes(prediction, found))
