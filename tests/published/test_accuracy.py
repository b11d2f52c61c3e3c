"""The figures of the record in README and docs are those of the record."""

from __future__ import annotations

import pytest

from specmath.published.kept import kept
from tools.accuracy import BEGIN, DOCUMENTS, END, table, written


def test_a_section_goes_between_its_marks_and_nothing_else_moves() -> None:
    text = f"a\n{BEGIN}\nold\n{END}\nb\n"
    assert written(text, "new") == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    assert written(written(text, "new"), "old") == text
    with pytest.raises(ValueError, match="once each"):
        written("a", "new")


def test_a_column_that_no_row_has_is_left_out() -> None:
    assert table(("a", "b"), [("1", ""), ("2", "")]) == "| a |\n| --- |\n| 1 |\n| 2 |"


def test_every_document_has_its_marks() -> None:
    for path in DOCUMENTS:
        assert path.read_text("utf-8").count(BEGIN) == 1, path.name


def test_the_figures_are_those_of_the_kept_record() -> None:
    for path, made in DOCUMENTS.items():
        text = path.read_text("utf-8")
        assert text == written(text, made(kept())), "run: python -m tools.accuracy"
