"""What is read of a CSV of measurements, and what is refused in a sentence."""

from __future__ import annotations

import csv
from importlib import resources

import pytest

from specmath.checks import InputError
from specmath.published.case import FILES
from specmath.published.rows import KINDS, read

DATA = resources.files("specmath").joinpath("data/published")
HEADS = {
    "speedup": "id,target_model,measured_speedup,c,gamma,alpha",
    "plain": "id,model,tpot_ms,gpu,concurrency",
    "speculative": "id,target,kind,speedup,tau,gamma",
    "open loop": "id,model,requests_per_second,ttft_mean_ms",
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_kind_is_told_by_its_columns(kind: str) -> None:
    cells = ",".join(["a", "m", "1.5", *[""] * (HEADS[kind].count(",") - 2)])
    if kind == "speculative":
        cells = "a,m,mtp,1.5,,"
    found = read(f"{HEADS[kind]}\n{cells}\n", "mine.csv")
    assert found.kind.name == kind
    assert found.cells[0]["id"] == "a"
    assert {*found.cells[0]} == {*found.kind.columns}, "columns left out are empty, not missing"


@pytest.mark.parametrize("name", FILES)
def test_the_record_is_read_to_the_last_row(name: str) -> None:
    text = DATA.joinpath(f"{name}.csv").read_text("utf-8")
    found = read(text, name)
    assert [row["id"] for row in found.cells] == [
        r["id"] for r in csv.DictReader(text.splitlines())
    ]


def test_columns_that_nothing_reads_are_named() -> None:
    found = read("id,model,tpot_ms,concurency\na,m,5,8\n", "mine.csv")
    assert found.unread == ("concurency",)
    assert found.cells[0]["concurrency"] is None


def test_a_mark_of_byte_order_blank_lines_and_blanks_are_no_matter() -> None:
    found = read("\ufeffid, model ,tpot_ms\n\n a ,m, 5.5 \n", "mine.csv")
    assert found.cells[0]["tpot_ms"] == 5.5
    assert found.cells[0]["id"] == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must have a header and at least 1 row, got 0 lines"),
        ("id,model,tpot_ms\n", "must have a header and at least 1 row, got 1 lines"),
        ("id,model,gpu\na,m,h100\n", "or id, model, tpot_ms (plain); or"),
        (
            "name,target_model,measured_speedup\na,m,2\n",
            "must have the columns id, target_model, measured_speedup (speedup)",
        ),
        ("id;model;tpot_ms\na;m;5,5\n", "must separate its cells by commas, got semicolons"),
        ("id,model,tpot_ms\na,m,5\na,m,6\n", "must have unique ids, got 'a' in rows 2 and 3"),
        ("id,model,tpot_ms\n,m,5\n", "row 2 must have an id of 1 to 200"),
        ("id,model,tpot_ms,tpot_ms\na,m,5,6\n", "must name each column once, got 'tpot_ms' twice"),
        ('id,model,tpot_ms\na,m,"5,5"\n', "tpot_ms must be a number > 0, with a decimal point"),
        ("id,model,tpot_ms\na,m,5,5\n", "row 2 must have 3 cells as the header has, got 4"),
        ("id,model,tpot_ms\na,m,0\n", "row 2 (a): tpot_ms must be a number > 0, got '0'"),
        ("id,model,tpot_ms\na,m,-3\n", "must be a number > 0, got '-3'"),
        ("id,model,tpot_ms\na,m,nan\n", "must be a number > 0, got 'nan'"),
        ("id,model,tpot_ms\na,m,inf\n", "must be a number > 0, got 'inf'"),
        ("id,model,tpot_ms\na,m,1_0\n", "must be a number > 0, got '1_0'"),
        ("id,model,tpot_ms\na,m,5 ms\n", "must be a number > 0, got '5 ms'"),
        ("id,model,tpot_ms,concurrency\na,m,5,1.5\n", "concurrency must be a whole number >= 0"),
        ("id,target_model,measured_speedup,alpha\na,m,2,1.2\n", "alpha must be a number from 0"),
        ('id,model,tpot_ms\na,"m,5\n', "is no CSV that can be read"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, "mine.csv")
    assert said in str(caught.value)
    assert str(caught.value).startswith("mine.csv")
    assert "\n" not in str(caught.value)


def test_no_two_kinds_share_their_marks() -> None:
    for kind in KINDS:
        assert [other.name for other in KINDS if {*other.marks} <= {*kind.marks}] == [kind.name]
