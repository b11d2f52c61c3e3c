"""The record of acceptance as people meet it: words, tables, chart, command line, pages."""

from __future__ import annotations

import csv
import io
import json

import pytest
from test_pages import opens, run

from specmath import Scenario, predict
from specmath.acceptance_conditions import at_context, at_temperature
from specmath.acceptance_record import KINDS, band, bands, offered, rows
from specmath.charts.acceptance import acceptance_boxes
from specmath.cli import main
from specmath.numbers import significant
from specmath.tables.acceptance import bands_table, pairs_table, record_table
from specmath.words.acceptance import band_sentence, range_notes

SERVED = {"gpu": "H100 SXM", "model": "Qwen3-32B", "draft": "eagle3"}


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["acceptance", *words])
    return capsys.readouterr().out


# ── words ────────────────────────────────────────────────────────────────────────────────────


def test_a_range_says_its_n_sources_and_dates() -> None:
    p = predict(Scenario(acceptance_form="range", work="qa", gamma=3, **SERVED))
    (told,) = range_notes(p)
    found = band("eagle3", "qa")
    assert found is not None
    assert told == band_sentence(found)
    for part in (
        "0.459",
        "0.703",
        "18 pairs",
        "3 sources",
        "42 measurements",
        "γ 3 to 7",
        "EAGLE-3",
    ):
        assert part in told


def test_what_context_and_temperature_make_of_it_is_told() -> None:
    s = Scenario(acceptance_form="range", context_tokens=20_000, temperature=0.7, gamma=3, **SERVED)
    _, context, temperature = range_notes(predict(s))
    # speculators pull request 684, as its rows stand in the record.
    tokens = {r.context_tokens: r.tokens_per_step for r in rows()
              if "speculators PR 684" in r.source and "full attention" in r.drafter}  # fmt: skip
    assert (
        f"{tokens[2000]:.2f} tokens a step at 2,000 tokens to {tokens[20000]:.2f} at 20,000"
        in context
    )
    assert f"the low end is {significant(at_context('eagle3', 20_000).low)} of" in context
    warm = at_temperature("eagle3", 0.7)
    assert f"the low end is {significant(warm.low)} of it" in temperature
    assert f"the middle {significant(warm.middle)}, by 1 comparison" in temperature


def test_nothing_is_said_of_an_acceptance_that_was_given() -> None:
    for given in ({"alpha": 0.7}, {"alpha_low": 0.6, "alpha_high": 0.7}):
        assert range_notes(predict(Scenario(gamma=3, **given, **SERVED))) == ()


def test_what_nobody_measured_is_said() -> None:
    layers = SERVED | {"draft": "layer_skip"}
    (told,) = range_notes(predict(Scenario(acceptance_form="range", work="code", **layers)))
    assert told.startswith("Nobody measured the acceptance of Layer skipping at code")
    assert "open from 0 to 1" in told


# ── tables and chart ─────────────────────────────────────────────────────────────────────────


def test_tables_hold_the_record() -> None:
    shown = bands_table(bands()).rows()
    assert len(shown) == len({(row["kind"], row["work"]) for row in shown})
    code = next(r for r in shown if (r["kind"], r["work"]) == ("eagle3", "code"))
    assert (code["pairs"], code["ends"], code["gammas"]) == (33, "10-90%", "1 to 8")
    assert "sgl-project/SpecForge" in code["sources"]
    behind = pairs_table(offered()).rows()
    assert sum(row["measurements"] for row in behind) == sum(
        r.chain and r.for_ranges and "(all steps)" not in r.drafter for r in rows()
    )
    assert all(row["source"] for row in behind)
    assert len(record_table(rows())) == 1365


def test_the_chart_has_every_pair_once() -> None:
    figure = acceptance_boxes([p for p in offered() if p.kind in KINDS])
    assert sum(len(box.y) for box in figure.data) == sum(p.kind in KINDS for p in offered())
    assert "EAGLE-3 heads" in {box.name for box in figure.data}


# ── command line ─────────────────────────────────────────────────────────────────────────────


def test_table_csv_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--draft", "mtp", "--work", "code")
    found = json.loads(said(capsys, *words, "--format", "json"))
    (only,) = found["bands"]
    lines = list(csv.DictReader(io.StringIO(said(capsys, *words, "--format", "csv"))))
    assert float(lines[0]["alpha_low"]) == only["alpha_low"]
    assert len(found["pairs"]) == only["pairs"] == 15
    assert len(only["sources"]) > 2
    text = said(capsys, *words)
    assert "MTP modules, code: α 0.761 to 0.929" in text
    assert all(pair["source"] in text for pair in found["pairs"])


def test_without_options_every_band(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "--format", "json"))
    assert len(found["bands"]) == len(bands())
    lines = list(csv.DictReader(io.StringIO(said(capsys, "--rows", "--format", "csv"))))
    assert len(lines) == 1365
    assert "eagle3" in said(capsys)


def test_ones_own_model(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--work", "code", "--model", "Llama-3.1-8B", "--draft")
    assert "(Llama-3.2-1B) on Llama-3.1-8B, code" in said(capsys, *words, "Llama-3.2-1B")
    assert "The band is of every target" in said(capsys, *words, "eagle3")
    every = json.loads(said(capsys, "--draft", "mtp", "--model", "Qwen3.6-27B", "--format", "json"))
    targets = {row["work"]: row["target"] for row in every["bands"]}
    assert targets["code"] == "Qwen3.6-27B"


def test_not_known_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--draft", "suffix", "--work", "agentic")
    assert "Nobody measured the acceptance of suffix at agents" in said(capsys, *words)
    assert json.loads(said(capsys, *words, "--format", "json")) == {"bands": [], "pairs": []}
    assert said(capsys, *words, "--format", "csv") == ""


@pytest.mark.parametrize(
    "words", [("--work", "poetry"), ("--model", "Qwen3-8B"), ("--draft", "layer_skip", "--rows")]
)
def test_bad_input_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["acceptance", *words])
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""


# ── pages ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stem", ["what_if", "gamma", "drafts"])
@pytest.mark.parametrize("draft", ["eagle3", "layer_skip"])
def test_pages_say_where_the_range_is_from(stem: str, draft: str) -> None:
    link = SERVED | {"acceptance_form": "range", "work": "qa", "draft": draft, "gamma": "3"}
    app = run(stem, link)
    opens(app, stem)
    labels = " ".join(box.label for box in app.expander).replace("\\", "")
    captions = " ".join(box.value for box in app.caption).replace("\\", "")
    if draft == "eagle3":
        assert "Where this range of α comes from: 18 pairs, 3 sources" in labels
    else:
        assert (
            "Nobody measured the acceptance of Layer skipping at questions and answers" in captions
        )


def test_the_record_opens_on_the_page_of_drafts() -> None:
    app = run("drafts", SERVED | {"acceptance_form": "range", "work": "code", "gamma": "3"})
    app.session_state["drawer_record"] = True
    app.session_state["drawer_range"] = True
    app.run()
    opens(app, "drafts")
    told = " ".join(box.value for box in app.markdown)
    assert "Acceptance α that others measured" in told
    assert "SpecForge" in told
    app.selectbox(key="record_draft").select("medusa").run()
    opens(app, "drafts")
