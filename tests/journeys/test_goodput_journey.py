"""How many GPUs? The drawer that serves requests one by one: its answer, tables, chart and file."""

from __future__ import annotations

import csv
import io

import pytest
from driver import Visitor, until

from specmath.attainment import Trial
from specmath.goodput import Goodput, goodput
from specmath.numbers import significant
from specmath.predict import predict
from specmath.scenario import SPECS, Scenario
from specmath.scenario.files import build, revised, to_link
from specmath.tables.goodput import goodput_table, quantile_table
from specmath.words.goodput import NEEDS_PROMISE, STALE, goodput_sentence, misses_sentence

pytestmark = pytest.mark.browser

SERVED = build({
    "alpha": 0.7, "gamma": 3, "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3",
    "prompt_tokens": 1024, "output_tokens": 64, "slo_tpot_ms": 12,
    "demand_requests_per_second": 100,
})  # fmt: skip
TRIAL = Trial(attainment=0.9, requests=1000)
TITLE = "Serve them one by one"


def _answer(visitor: Visitor) -> str:
    return " ".join(visitor.messages())


def _shows(visitor: Visitor, found: Goodput) -> None:
    """The answer, both tables and the curves of that trial."""
    assert goodput_sentence(found) in _answer(visitor)
    cells = visitor.table("Rate by mean (requests/s)")
    for name, arm in zip(("Plain decoding", "γ=3"), found.arms, strict=True):
        assert cells[name][0].startswith(f"{arm.rate.value:.2f}")
    assert "γ=3" in visitor.table("Missed by")
    curve = visitor.figures()[-1]["Plain decoding"]
    shares = [100 * at.share for at in (found.plain.alone, *found.plain.curve)]
    assert curve["y"] == pytest.approx(shares)


def _found(scenario: Scenario) -> Goodput:
    return goodput(predict(scenario), TRIAL)


def test_requests_are_served_and_the_answer_is_withdrawn_with_a_change(visitor: Visitor) -> None:
    visitor.open("capacity", **to_link(SERVED))
    box = visitor.unfold(TITLE)
    visitor.type_number("Requests", str(TRIAL.requests))
    visitor.says("requests must be ≥ 1,112 at an attainment of 0.99")
    visitor.choose("Share of requests", "90%")
    found = _found(SERVED)
    serve = box.get_by_role("button", name="Serve them")
    visitor.press(serve, lambda: _shows(visitor, found), again=30.0)
    visitor.page_says(misses_sentence(found))
    name, data = visitor.download(box.get_by_role("button", name="CSV", exact=True).first)
    assert name == "specmath-goodput.csv"
    text = data.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text[text.index("arm") :])))
    table = goodput_table(found)
    assert [row["arm"] for row in rows[:2]] == list(table.column("arm").values)
    for column in ("rate", "attained", "tpot_p99_ms", "gpus", "mean_rate"):
        told = [float(row[column]) for row in rows[:2]]
        assert told == pytest.approx(list(table.column(column).values), rel=1e-6)
    looser = revised(SERVED, {"slo_tpot_ms": 14})
    visitor.type_number(SPECS["slo_tpot_ms"].title, "14")
    until(lambda: visitor.page.get_by_text(STALE).wait_for(timeout=1000))
    assert goodput_sentence(found) not in _answer(visitor)
    visitor.press(serve, lambda: _shows(visitor, _found(looser)), again=30.0)


def test_without_a_promise_it_asks_for_one(visitor: Visitor) -> None:
    visitor.open("capacity", **to_link(revised(SERVED, {"slo_tpot_ms": None})))
    visitor.unfold(TITLE)
    visitor.page_says(NEEDS_PROMISE)


def test_what_nothing_keeps_is_said(visitor: Visitor) -> None:
    strict = revised(SERVED, {"slo_ttft_ms": 3})
    visitor.open("capacity", **to_link(strict))
    box = visitor.unfold(TITLE)
    found = goodput(predict(strict))
    serve = box.get_by_role("button", name="Serve them")
    visitor.press(serve, lambda: visitor.says(goodput_sentence(found)), again=30.0)
    assert until(lambda: visitor.table("Missed by")["Plain decoding"])
    assert significant(1e3 * found.plain.alone.quantiles["ttft"][-1]) in goodput_sentence(found)
    assert quantile_table(found).column("rate").values[0] == 0.0
