"""How far computed numbers are said to be off: the file, the lookup, and the record held to it."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

import numpy as np
import pytest

from specmath import drafters, engines
from specmath.evidence import errors_of
from specmath.published.case import shipped
from specmath.published.score import Scored, score
from specmath.published.summary import judged, value_of

TABLES: dict[str, list[dict[str, Any]]] = tomllib.loads(
    resources.files("specmath").joinpath("data/errors.toml").read_text("utf-8")
)
ANY = "any"
BY = {"plain": ("engine", "mixture"), "excess": ("drafter",), "prompts": ("engine",)}


# ── the file ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("table", BY)
def test_each_range_holds_one_and_says_where_it_is_from(table: str) -> None:
    for row in TABLES[table]:
        assert 0 < row["low"] <= 1 <= row["high"] < 10
        assert row["source"]
        assert row["n"] >= 0
        assert row["n"] > 0 or "assumed" in row["source"]
        assert set(row) == {*BY[table], "low", "high", "n", "source"} | (
            set() if table == "prompts" else {"calibrated"}
        )


def test_names_are_those_of_engines_and_drafters() -> None:
    known = {*engines.catalogue(), ANY}
    assert {row["engine"] for row in TABLES["plain"]} <= known
    assert {row["drafter"] for row in TABLES["excess"]} <= {*drafters.kinds(), "separate", ANY}


@pytest.mark.parametrize("table", ["plain", "excess"])
def test_the_general_entry_stands_last_and_uncalibrated_ones_are_wider(table: str) -> None:
    names = BY[table]
    for calibrated in (True, False):
        rows = [row for row in TABLES[table] if row["calibrated"] is calibrated]
        general = [all(row[name] == ANY for name in names) for row in rows]
        assert general == [False] * (len(rows) - 1) + [True]
        # It is of all rows together (those of engines and kinds that have no range are in it).
        assert rows[-1]["n"] >= sum(row["n"] for row in rows[:-1])
    known = {tuple(row[n] for n in names): row for row in TABLES[table] if row["calibrated"]}
    for row in TABLES[table]:
        if not row["calibrated"]:
            mine = known[tuple(row[n] for n in names)]
            assert row["low"] < mine["low"]
            assert row["high"] > mine["high"]


def test_the_most_specific_entry_is_taken() -> None:
    def stated(table: str, **wanted: Any) -> tuple[float, float]:
        found = [r for r in TABLES[table] if all(r.get(k) == v for k, v in wanted.items())]
        assert len(found) == 1
        return found[0]["low"], found[0]["high"]

    for engine in ("vllm", "sglang", "tensorrt-llm"):
        for mixture in (True, False):
            for calibrated in (True, False):
                taken = errors_of(
                    engine=engine, drafter="eagle3", calibrated=calibrated, mixture=mixture
                )
                same = {"engine": engine, "mixture": mixture, "calibrated": calibrated}
                assert taken.plain == stated("plain", **same)
                assert taken.excess == stated("excess", drafter="eagle3", calibrated=calibrated)
    for engine in ("mlx", "llamacpp-cuda", "none", "other"):
        taken = errors_of(engine=engine, drafter="p-eagle", calibrated=True, mixture=False)
        assert taken.plain == stated("plain", engine=ANY, calibrated=True)
        assert taken.excess == stated("excess", drafter=ANY, calibrated=True)
    assert taken.prompts == stated("prompts", engine=ANY)
    assert taken.rows == next(r["n"] for r in TABLES["excess"] if r["drafter"] == ANY)


def test_few_rows_are_never_narrow() -> None:
    """Of a kind with fewer than eight rows its own quantiles say little."""
    for row in TABLES["excess"]:
        if row["calibrated"] and row["n"] < 8:
            assert row["low"] <= 0.7
            assert row["high"] >= 1.5


# ── the record held to it ────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def record() -> list[Scored]:
    """Every fair row: it set no number, and stands in the record once."""
    return judged(score(shipped()))


def held(rows: Iterable[Scored]) -> tuple[float, int]:
    """Share of the intervals that hold what was measured, and how many there are."""
    found = [row.held for row in rows if row.held is not None]
    return float(np.mean(found)) if found else np.nan, len(found)


def median_error(rows: Iterable[Scored]) -> float:
    return float(np.median([abs(row.error) for row in rows if row.error is not None]))


def grouped(rows: Iterable[Scored], key: Callable[[Scored], Any]) -> dict[Any, list[Scored]]:
    found: dict[Any, list[Scored]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def chosen(record: list[Scored], quantity: str, method: str, *kinds: str) -> list[Scored]:
    return [
        r for r in record if (r.quantity, r.method) == (quantity, method) and r.case.kind in kinds
    ]


@pytest.mark.slow
def test_eighty_percent_of_plain_times(record: list[Scored]) -> None:
    """Stated 80%; each row by an engine that its own model did not set. Within 70 to 90% in all,
    within 60 to 95% of every engine and band of load with twenty rows. Known miss: vLLM's ranges
    hold 95% of 589, and 96% at 2 to 8 and 33 to 128 in flight: too wide."""
    rows = chosen(record, "tpot_ms", "hardware", "plain")
    share, count = held(rows)
    print(f"\nplain times: {share:.0%} of {count}, median error {median_error(rows):.1%}")
    assert count > 1500
    assert 0.70 <= share <= 0.90
    assert median_error(rows) == pytest.approx(0.082, abs=0.02)
    assert np.median([r.error for r in rows if r.error is not None]) == pytest.approx(0, abs=0.04)
    for by in (("engine",), ("engine", "concurrency"), ("concurrency",)):
        for key, group in grouped(rows, lambda r: tuple(value_of(r, b) for b in by)).items():  # noqa: B023
            share, count = held(group)
            print(f"  {' '.join(key)}: {share:.0%} of {count}, {median_error(group):.1%}")
            if count >= 20:
                most = 0.965 if key[0] == "vllm" else 0.955
                assert 0.60 <= share <= most, key


@pytest.mark.slow
def test_plain_times_by_engine(record: list[Scored]) -> None:
    """Median errors as known numbers, models left out whole."""
    known = {"vllm": 0.050, "sglang": 0.136, "tensorrt-llm": 0.093}
    rows = grouped(chosen(record, "tpot_ms", "hardware", "plain"), lambda r: value_of(r, "engine"))
    assert set(rows) == set(known)
    for engine, error in known.items():
        assert median_error(rows[engine]) == pytest.approx(error, abs=0.02), engine


@pytest.mark.slow
@pytest.mark.parametrize(("method", "error"), [("hardware", 0.065), ("anchored", 0.032)])
def test_speedups_of_speculative_rows(record: list[Scored], method: str, error: float) -> None:
    """Of rows that set no cost: the side of 1 right in 85% at least. Known miss: the interval holds
    96%, where 80% is stated, and all of 18 rows of MTP on llama.cpp: few sources set each kind's
    range, and it is kept wide. The one row of MTP on vLLM lies outside."""
    rows = chosen(record, "speedup", method, "speculative", "speedup")
    share, count = held(rows)
    sides = [
        np.sign(r.predicted - 1) == np.sign(r.measured - 1)
        for r in rows
        if r.predicted is not None and r.measured is not None and abs(r.measured - 1) > 0.005
    ]
    print(
        f"\n{method}: {share:.0%} of {count} held, side right {np.mean(sides):.0%}, "
        f"median error {median_error(rows):.1%}"
    )
    for by in (("engine", "drafter"), ("concurrency",)):
        for key, group in grouped(rows, lambda r: tuple(value_of(r, b) for b in by)).items():  # noqa: B023
            print(f"  {' '.join(key)}: {held(group)[0]:.0%} of {len(group)}")
            if len(group) >= 20:
                assert held(group)[0] >= 0.60, key
    assert count >= 20
    assert 0.70 <= share <= 0.97
    assert np.mean(sides) >= 0.85
    assert median_error(rows) == pytest.approx(error, abs=0.02)


@pytest.mark.slow
def test_no_firm_answer_of_the_record_was_wrong(record: list[Scored]) -> None:
    """A firm yes to somebody who got slower is the worst: of computed rows none, nor a firm no to
    somebody who gained. Known miss: one row of α and c alone (zero07, 1.07 to 1.28, measured 0.99),
    whose steps took more besides than nine in ten do."""
    wrong = set()
    for row in record:
        if row.quantity != "speedup" or row.low is None or row.high is None:
            continue
        assert row.measured is not None
        if (row.low > 1 and row.measured < 0.995) or (row.high < 1 and row.measured > 1.005):
            wrong.add((row.case.id, row.method))
    assert wrong <= {("zero07", "theorem")}


@pytest.mark.slow
def test_times_with_speculation(record: list[Scored]) -> None:
    """Of rows that set no cost: within 7% in the middle, with their plain time given within 3%."""
    hardware = chosen(record, "tpot_ms", "hardware", "speculative")
    anchored = chosen(record, "tpot_ms", "anchored", "speculative")
    assert median_error(hardware) == pytest.approx(0.073, abs=0.025)
    assert median_error(anchored) == pytest.approx(0.027, abs=0.02)
    assert median_error(anchored) < median_error(hardware)


@pytest.mark.slow
def test_the_open_loop_of_the_record(record: list[Scored]) -> None:
    """Eight stages of a real server: ITL and E2E within 3%, TTFT within 13% in the median."""
    for quantity, known in (
        ("itl_mean_ms", 0.033),
        ("e2e_mean_ms", 0.033),
        ("ttft_mean_ms", 0.131),
    ):
        rows = chosen(record, quantity, "fixed point", "open loop")
        assert len(rows) == 8
        assert median_error(rows) == pytest.approx(known, abs=0.03), quantity


@pytest.mark.slow
def test_first_tokens_of_closed_loops_are_a_known_miss(record: list[Scored]) -> None:
    """Benchmarks send all their first requests at once, so that the mean first token waits for a
    share of a whole wave; the law's traffic has come for ever. TTFT is 4 times too short."""
    rows = chosen(record, "ttft_mean_ms", "hardware", "plain")
    errors = [r.error for r in rows if r.error is not None]
    assert np.median(errors) == pytest.approx(-0.78, abs=0.06)


@pytest.mark.slow
def test_the_file_is_what_the_record_gives() -> None:
    """`python -m tools.errors_fit` anew: each range to what a few rows do to a quantile."""
    from tools import errors_fit

    rows = errors_fit.endpoints()
    found = {
        "plain": errors_fit.entries(errors_fit.plain_ratios(rows), BY["plain"]),
        "excess": errors_fit.entries(errors_fit.excess_ratios(rows), BY["excess"]),
    }
    for table, made in found.items():
        for new, old in zip(errors_fit.with_calibration(made), TABLES[table], strict=True):
            assert new == pytest.approx(old, abs=0.03), (table, new)
