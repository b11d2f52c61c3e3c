"""The figures of groups, the ranges, another tool's predictions: each from rows made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specmath.checks import InputError
from specmath.published.case import Case, Reason
from specmath.published.claims import weighed, worst
from specmath.published.score import Scored, judge
from specmath.published.summary import Why, band_of, others, summarise
from specmath.tables.published import others_table
from specmath.words.published import claim_verdict, headline, miss_words

CASE = Case(
    id="a", kind="speculative", source="us", citation="us", model="m", hardware="H100",
    engine="vLLM 0.9", measured={"speedup": 2.0}, cells={}, drafter="mtp", concurrency=1,
)  # fmt: skip


def row(name: str, predicted: float, measured: float, **more: object) -> Scored:
    case = replace(CASE, id=name, measured={"speedup": measured})
    found = Scored(case, "speedup", "hardware", measured, predicted)
    return replace(found, **more)  # type: ignore[arg-type]


# Errors −0.2, 0, 0.1, 0.5; one on the wrong side of 1; two of three intervals hold.
ROWS = [
    row("a", 1.6, 2.0, low=1.4, high=1.9),
    row("b", 2.0, 2.0, low=1.9, high=2.1),
    row("c", 1.1, 1.0, low=0.9, high=1.2),
    row("d", 1.2, 0.8),
]


def test_figures_by_hand() -> None:
    (group,) = summarise(ROWS).by("method")
    errors = np.array([0.2, 0.0, 0.1, 0.5])
    assert group.n == 4
    assert group.median == pytest.approx(0.15)
    assert group.p90 == pytest.approx(np.quantile(errors, 0.9))
    assert group.bias == pytest.approx(0.05)
    assert (group.within_10, group.within_20) == (0.5, 0.75)
    assert group.sign_right == 0.75, "a measured 1.0 is on neither side"
    assert group.coverage == pytest.approx(2 / 3)
    assert group.intervals == 3


def test_rows_used_before_or_written_twice_are_not_counted() -> None:
    told = summarise([*ROWS, row("e", 9, 1, sets="a number"), row("f", 9, 1, repeats="a")])
    assert told.by("method")[0].n == 4
    assert (told.cases, told.scored, told.set_aside) == (6, 6, 2)


def test_a_row_counts_once_whatever_methods_score_it() -> None:
    refused = Scored(CASE, "speedup", "hardware", 2.0, reason=Reason("gpu", "X"))
    by_theorem = Scored(CASE, "speedup", "theorem", 2.0, 2.1)
    other = replace(refused, case=replace(CASE, id="z"))
    told = summarise([by_theorem, refused, other])
    assert (told.cases, told.scored, told.reasons) == (2, 1, (Why("gpu", 1, "z", "X"),))
    assert "1 of 2 published rows" in headline(told)


@pytest.mark.parametrize(
    ("concurrency", "band"),
    [(None, "not said"), (1, "1"), (2, "2-8"), (8, "2-8"), (9, "9-32"), (33, "33-128"),
     (128, "33-128"), (129, "129 and more")],
)  # fmt: skip
def test_bands(concurrency: int | None, band: str) -> None:
    assert band_of(concurrency) == band


# ── another tool ─────────────────────────────────────────────────────────────────────────────

TWO = [
    replace(CASE, id="a", measured={"speedup": 2.0, "tpot_ms": 5.0}),
    replace(CASE, id="b", measured={"speedup": 1.5}, doubt=Reason("lossy")),
]


def test_their_predictions_are_judged_as_ours() -> None:
    found = judge(TWO, "id,quantity,predicted,low,high\na,,2.2,2.0,2.4\na,tpot_ms,4,,\n", "t.csv")
    assert [(s.quantity, s.predicted, s.held) for s in found[:2]] == [
        ("speedup", 2.2, True), ("tpot_ms", 4.0, None),
    ]  # fmt: skip
    assert found[0].error == pytest.approx(0.1)
    assert found[2].reason == Reason("lossy")


def test_a_row_that_they_left_out_keeps_its_reason() -> None:
    found = judge(TWO[:1], "id,predicted\na,2.2\n", "t.csv")
    assert found[1].reason == Reason("theirs")


def test_a_row_that_measured_nothing_may_be_predicted_too() -> None:
    empty = replace(CASE, id="z", measured={})
    found = judge([*TWO[:1], empty], "id,predicted\na,2.2\nz,3\n", "t.csv")
    assert [(s.case.id, s.predicted) for s in found] == [("a", 2.2), ("a", None), ("z", None)]
    assert found[2].reason == Reason("not measured")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,value\na,2\n", "must have the columns id, predicted (predictions), got id, value"),
        ("id,predicted\nq,2\n", "row 2 (q): id must be one of the record, got 'q'"),
        ("id,predicted\na,2\na,3\n", "row 3 (a): speedup of 'a' is predicted twice"),
        ("id,predicted\na,2x\n", "row 2 (a): predicted must be a number > 0"),
        ('id,predicted\na,"2,5"\n', "with a decimal point, got '2,5'"),
        ("id,predicted,quantity\na,2,fun\n", "quantity must be one of speedup, tpot_ms"),
    ],
)
def test_bad_predictions_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        judge(TWO, text, "t.csv")
    assert said in str(caught.value)


def test_other_tools_on_the_rows_that_both_predict() -> None:
    cells = [{"x_itl_mean": 11.0, "y_itl_mean": None}, {"x_itl_mean": 8.0, "y_itl_mean": 9.0}]
    case = replace(CASE, kind="open loop", measured={"itl_mean_ms": 10.0})
    rows = [
        Scored(replace(case, id=str(i), cells=c), "itl_mean_ms", "fixed point", 10.0, 10.5)
        for i, c in enumerate(cells)
    ]
    (found,) = others(rows)
    assert (found.tool, found.quantity, found.n) == ("x", "itl_mean_ms", 2)
    assert (found.theirs, found.ours) == (pytest.approx(0.15), pytest.approx(0.05))
    assert others_table([found]).rows()[0]["tool"] == "x"


# ── claims and misses ────────────────────────────────────────────────────────────────────────


def test_a_claim_beside_rows_made_by_hand() -> None:
    rows = [row(f"r{i}", 2.0, value) for i, value in enumerate((1.0, 1.9, 2.0, 2.4, 3.0))]
    single = next(f for f in weighed(rows) if f.claim.name == "single stream")
    assert (single.n, single.inside, single.sources) == (5, 0.6, 1)
    assert single.measured is not None
    assert single.measured[1] == 2.0
    assert "60% of 5 rows from 1 source" in claim_verdict(single)


def test_the_best_gamma_is_that_of_rows_that_differ_in_gamma_alone() -> None:
    speeds = {1: 1.5, 2: 1.9, 4: 2.1, 8: 1.7}
    rows = [
        replace(row(f"g{g}", 1 + g / 10, s), case=replace(CASE, id=f"g{g}", gamma=g))
        for g, s in speeds.items()
    ]
    best = next(f for f in weighed(rows) if f.claim.name == "best gamma")
    assert (best.n, best.measured, best.predicted) == (1, (4, 4, 4), (8, 8, 8))


def test_the_largest_miss_comes_first_and_alone_of_its_kind() -> None:
    found = worst(ROWS, "speedup")
    assert [miss.scored.case.id for miss in found] == ["d"]
    assert found[0].rows == 2, "a, off by −0.2, is as far off as half of d"
    assert all(miss_words(miss) for miss in found)
