"""The report: its numbers are the plan's, it restores the plan, and nothing of it is fetched."""

from __future__ import annotations

import base64
import datetime
import json
import re
import tomllib
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import tomli_w
from helpers.pages_of_html import Page, ends, number

from specmath import Scenario, predict
from specmath.capacity import aggregated, capacity
from specmath.estimate import Estimate
from specmath.outfile import PAGE
from specmath.plan.decided import PlanAnswer, decided
from specmath.plan.files import from_toml, to_toml
from specmath.plan.record import plan_of
from specmath.report.plan import report_bytes
from specmath.report.scenario import scenario_report_bytes
from specmath.scenario.files import from_link
from specmath.scenario.files import from_toml as scenario_from_toml
from specmath.tables.plan_compared import compared_plans_table
from specmath.tables.provenance import endpoint_inputs_table, scenario_inputs_table

EXAMPLE = Path(__file__).parents[1] / "specmath" / "data" / "plan_example.toml"
DAY = datetime.date(2026, 1, 31)
SMALL = {"gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3", "prompt_tokens": 1024,
         "demand_requests_per_second": 20.0}  # fmt: skip
HOSTILE = (
    "</script><script>alert(1)</script>", "<img src=http://evil.example/x onerror='f()'>",
    "\"quoted\" 'too' & <a href=\"http://evil.example\">here</a>", "long" * 200,
    "\u202eturned\u200b",
)  # fmt: skip


@pytest.fixture(scope="module")
def found() -> PlanAnswer:
    return decided(from_toml(EXAMPLE.read_text("utf-8")))


@pytest.fixture(scope="module")
def page(found: PlanAnswer) -> Page:
    return Page(report_bytes(found, date=DAY))


def reads(text: str, value: float, decimals: int) -> bool:
    return abs(number(text) - value) <= 0.5 * 10.0**-decimals * (1.0 + 1e-9)


def reads_as(cell: tuple[str, str], estimate: Estimate | None, decimals: int, unit: float) -> bool:
    """Whether a cell is the estimate in its unit, with its ends."""
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    low, high = ends(cell[1])
    return (
        reads(cell[0], unit * estimate.value, decimals)
        and abs(low - unit * estimate.low) <= 0.5000001 * 10.0**-decimals
        and abs(high - unit * estimate.high) <= 0.5000001 * 10.0**-decimals
    )


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


def test_page_one_has_each_endpoint_with_its_numbers(found: PlanAnswer, page: Page) -> None:
    *rows, total = page.rows("plan")
    assert [row["endpoint"][0] for row in rows] == ["Chat", "Summaries", "Agents"]
    for row, answer in zip(rows, found.endpoints, strict=True):
        assert row["do"][0] == f"On, γ={answer.gamma}"
        for level, name in ((0.5, "p50"), (0.99, "p99")):
            plain, ours = answer.tpot[level]
            assert reads_as(row[f"tpot_{name}_ms_plain"], plain, 1, 1e3)
            assert reads_as(row[f"tpot_{name}_ms"], ours, 1, 1e3)
        capacity, arm = answer.capacity, answer.arm
        assert reads_as(row["gpus_plain"], capacity.plain.all_gpus, 0, 1.0)
        assert reads_as(row["gpus"], arm.all_gpus, 0, 1.0)
        assert reads_as(row["usd_per_month_plain"], capacity.plain.usd_per_month, 0, 1.0)
        assert reads_as(row["usd_per_month"], arm.usd_per_month, 0, 1.0)
    # The bill is its parts, and a GPU costs its price for 730 hours.
    for name in ("gpus_plain", "gpus", "usd_per_month_plain", "usd_per_month"):
        parts, whole = [row[name] for row in rows], total[name]
        assert number(whole[0]) == sum(number(value) for value, _ in parts)
        spans = [ends(span) for _, span in parts]
        assert ends(whole[1]) == tuple(map(sum, zip(*spans, strict=True)))
    for row, price in zip(rows, (2.5, 1.0, 3.5), strict=True):
        assert number(row["usd_per_month"][0]) == 730 * price * number(row["gpus"][0])


def test_what_is_not_known_reads_so() -> None:
    bare = SMALL | {"alpha": 0.8}
    endpoints = [bare | {"name": "never", "slo_tpot_ms": 0.01}, bare | {"name": "free"}]
    found = decided(plan_of([*endpoints, bare | {"name": "short", "output_tokens": 1}]))
    never, free, short, total = Page(report_bytes(found, date=DAY)).rows("plan")
    assert never["gpus"][0] == total["gpus"][0] == total["usd_per_month"][0] == "unknown"
    assert number(free["gpus"][0]) >= 1
    # A request of one token has no time between tokens, and a plan no mean of them.
    assert short["tpot_p50_ms"][0] == "unknown"
    assert total["tpot_p50_ms"][0] == ""


def test_segments_are_those_of_the_plan(found: PlanAnswer, page: Page) -> None:
    whole, *parts = page.tables["segments"]
    assert [row["segment"][0] for row in whole] == [
        segment.name for answer in found.endpoints for segment in answer.segments
    ]
    shown = [row for rows in parts for row in rows]
    segments = [segment for answer in found.endpoints for segment in answer.segments]
    for row, segment in zip(shown, segments, strict=True):
        assert row["segment"][0] == segment.name
        assert reads_as(row["tpot_ms"], segment.prediction.tpot, 1, 1e3)
        assert reads_as(row["walltime_improvement"], segment.prediction.speedup, 2, 1.0)
    assert sum(number(row["share"][0]) for row in parts[0]) == pytest.approx(100.0)


def test_each_endpoint_says_what_the_plan_says(page: Page) -> None:
    assert page.texts["title"] == page.texts["h1"] == ["Three endpoints"]
    assert page.texts["p"][0].startswith("2026-01-31 · specmath ")
    assert page.texts["p"][1].startswith("Turn it on for Chat (γ=5)")
    assert page.texts["h2"][:3] == ["Chat", "Summaries", "Agents"]
    # A chart of the plan, one an endpoint over its rate, and one of the day that Chat has.
    assert len([1 for tag, given in page.tags if given.get("class") == "chart"]) == 5


def test_notes_that_hold_of_all_are_said_once(page: Page) -> None:
    notes = [text for text in page.texts["li"] if not text.endswith("vllm")]
    said_of_all = [note for note in notes if note.startswith("A server that is slower")]
    assert len(said_of_all) == 1
    assert len([note for note in notes if note.startswith("Chat, talk: EAGLE-3")]) == 1


def test_equal_arguments_give_equal_bytes_with_the_mark_of_a_page(found: PlanAnswer) -> None:
    once, again = (report_bytes(found, date=DAY) for _ in range(2))
    assert once == again
    assert PAGE.search(once[: 1 << 16])


# ── the way back ─────────────────────────────────────────────────────────────────────────────


def test_the_file_in_the_page_restores_the_plan(found: PlanAnswer, page: Page) -> None:
    (text,) = page.texts["pre"]
    assert from_toml(text) == found.plan
    (href,) = [given["href"] for tag, given in page.tags if tag == "a"]
    data = href.removeprefix("data:application/toml;base64,")
    assert from_toml(base64.b64decode(data).decode("utf-8")) == found.plan


def test_each_link_restores_its_scenario(found: PlanAnswer, page: Page) -> None:
    links = [from_link(dict(parse_qsl(text.removeprefix("?")))) for text in page.texts["code"]]
    scenarios = [s.prediction.scenario for answer in found.endpoints for s in answer.segments]
    assert links == [(scenario, []) for scenario in scenarios]


# ── nothing from elsewhere, and nothing obeyed ───────────────────────────────────────────────


def hostile_plan() -> PlanAnswer:
    data = tomllib.loads(EXAMPLE.read_text("utf-8"))
    data["plan"]["name"] = HOSTILE[0]
    for endpoint, name in zip(data["endpoints"], HOSTILE[1:], strict=False):
        endpoint["name"] = name
    data["endpoints"][0]["segments"][0]["name"] = HOSTILE[4]
    data["endpoints"][0]["segments"][1]["name"] = HOSTILE[0]
    return decided(from_toml(tomli_w.dumps(data)))


def test_nothing_is_loaded_from_elsewhere(page: Page) -> None:
    for tag, given in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "form")
        assert {"src", "srcset", "action", "style"} & given.keys() <= {"style"}
        assert "url(" not in given.get("style", "")
        assert given.get("href", "data:").startswith("data:")
    assert not re.search(r"url\(|@import", page.texts["style"][0])
    (policy,) = [given["content"] for _, given in page.tags
                 if given.get("http-equiv") == "Content-Security-Policy"]  # fmt: skip
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_names_are_shown_and_not_obeyed(page: Page) -> None:
    hostile = hostile_plan()
    other = Page(report_bytes(hostile, date=DAY))
    # The same page: no name has made a tag, nor an attribute.
    assert [(t, sorted(a)) for t, a in other.tags] == [(t, sorted(a)) for t, a in page.tags]
    assert other.texts["h1"] == [HOSTILE[0]]
    assert other.texts["h2"][:2] == list(HOSTILE[1:3])
    segments = [row["segment"][0] for row in other.rows("segments", 1)]
    assert segments == ["turned", HOSTILE[0]]
    (text,) = other.texts["pre"]
    assert from_toml(text) == hostile.plan
    for figure in other.texts["figure"]:
        told = json.loads(figure[figure.index('{"data"') :])
        labels = told["layout"]["xaxis"].get("ticktext", [])
        assert not any("<" in label.replace("<br>", "") for label in labels)


# ── where inputs are from ────────────────────────────────────────────────────────────────────


def from_of(rows: list[dict[str, object]]) -> dict[tuple[object, object], tuple[object, object]]:
    return {(row.get("segment", ""), row["input"]): (row["value"], row["basis"]) for row in rows}


def test_inputs_say_whether_they_were_given(found: PlanAnswer) -> None:
    chat, _, agents = (endpoint_inputs_table(answer) for answer in found.endpoints)
    said = from_of(chat.rows())
    # That of the file is also what specmath would assume: it is given all the same.
    assert said["", "Price of one GPU hour"] == ("2.50", "Given")
    assert said["", "Headroom"] == ("0.200", "Assumed")
    assert said["", "Requests a second to serve"] == ("20.0", "Given")
    assert said["talk", "Prompt tokens a request"] == ("800", "Given")
    assert said["code", "Acceptance"] == ("0.820", "Given")
    assert said["talk", "Acceptance α"][1] == "Published"
    assert ("", "Prompt tokens a request") not in said
    assert ("", "Context") not in said
    price = next(r for r in agents.rows() if r["input"] == "Price of one GPU hour")
    assert (price["value"], price["basis"]) == ("3.50", "Assumed")
    assert price["source"] == "Not given: what specmath takes for H200"


def test_what_a_segment_leaves_out_is_that_of_the_others() -> None:
    kinds = [{"name": "short", "share": 0.5, "output_tokens": 50}, {"name": "usual", "share": 0.5}]
    said = SMALL | {"name": "served", "output_tokens": 300, "segments": kinds}
    (answer,) = decided(plan_of([said])).endpoints
    rows = from_of(endpoint_inputs_table(answer).rows())
    assert rows["", "Output tokens a request"] == ("300", "Given")
    assert rows["short", "Output tokens a request"] == ("50", "Given")
    assert ("usual", "Output tokens a request") not in rows


def test_an_acceptance_of_ones_own_traffic_is_measured() -> None:
    said = SMALL | {"alpha": 0.7, "acceptance_source": "my_traffic"}
    (answer,) = decided(plan_of([said])).endpoints
    assert from_of(endpoint_inputs_table(answer).rows())["", "Acceptance"] == ("0.700", "Measured")


def test_inputs_of_a_scenario() -> None:
    prediction = predict(Scenario(alpha=0.8, target_ms=40, draft_ms=8, draft_form="times"))
    rows = from_of(scenario_inputs_table(prediction).rows())
    assert rows["", "Target"] == ("40.0", "Measured")
    assert rows["", "Acceptance"] == ("0.800", "Given")
    # What is open has no value.
    assert ("", "Verification slope") not in rows


# ── one scenario ─────────────────────────────────────────────────────────────────────────────


def test_report_of_a_scenario() -> None:
    scenario = Scenario(label="<b>mine</b>", alpha=0.8, c=0.1, gamma=4)
    prediction = predict(scenario)
    page = Page(scenario_report_bytes(prediction, date=DAY))
    assert page.texts["h1"] == ["<b>mine</b>"]
    speed = next(row for row in page.rows("numbers") if row["quantity"][0] == "Speed")
    # Theorem 3.8, at the end where verification and overhead are free.
    best = (1 - 0.8**5) / (1 - 0.8) / 1.4
    assert number(speed["speculative"][0]) == pytest.approx(best, abs=5e-3)
    time = next(row for row in page.rows("numbers") if row["quantity"][0] == "Time per token")
    assert time["plain"][0] == "unknown"
    assert scenario_from_toml(page.texts["pre"][0]) == scenario
    link = dict(parse_qsl(page.texts["code"][0].removeprefix("?")))
    assert from_link(link) == (scenario, [])


def test_report_of_a_served_scenario_has_its_gpus() -> None:
    prediction = predict(Scenario(alpha=0.7, draft_form="hardware", **SMALL))
    page = Page(scenario_report_bytes(prediction, date=DAY))
    plain, ours, *_ = page.rows("capacity")
    assert number(plain["gpus"][0]) >= number(ours["gpus"][0]) >= 1
    assert "pools" not in page.tables


def test_report_of_two_pools_lays_them_beside_one() -> None:
    asked = SMALL | {"demand_requests_per_second": 300.0}
    prediction = predict(Scenario(alpha=0.7, draft_form="hardware", decode_only="yes", **asked))
    page, fleet = Page(scenario_report_bytes(prediction, date=DAY)), capacity(prediction)
    plain, _ = page.rows("capacity")
    assert reads_as(plain["gpus"], fleet.plain.all_gpus, 0, 1.0)
    together = aggregated(prediction, fleet)
    for row, arm in zip(page.rows("pools"), (fleet.plain, together.plain, fleet.speculative,
                                             together.speculative), strict=True):  # fmt: skip
        assert reads_as(row["gpus"], arm.all_gpus, 0, 1.0)
    assert any("moves between the pools" in text for text in page.texts["li"])


# ── two plans ────────────────────────────────────────────────────────────────────────────────


def test_a_plan_beside_itself_differs_in_nothing(found: PlanAnswer) -> None:
    for row in compared_plans_table(found, found).rows():
        assert row["usd_per_month_more"] == 0
        for name in ("do", "gamma", "tpot_p99_ms", "gpus", "usd_per_month"):
            assert row[f"{name}_a"] == row[f"{name}_b"]


def test_endpoints_are_matched_by_name_and_the_dearer_costs_its_price_more(
    found: PlanAnswer,
) -> None:
    data = tomllib.loads(to_toml(found.plan))
    _, summaries, agents = data["endpoints"]
    summaries["usd_per_hour"] *= 3
    added = SMALL | {"name": "Added"}
    other = decided(plan_of([added, agents, summaries], "Dearer"))
    rows = {row["endpoint"]: row for row in compared_plans_table(found, other).rows()}
    assert list(rows) == ["Chat", "Summaries", "Agents", "Added", "All endpoints"]
    assert rows["Summaries"]["usd_per_month_more"] == pytest.approx(
        2 * rows["Summaries"]["usd_per_month_a"]
    )
    assert rows["Agents"]["usd_per_month_more"] == 0
    for name, missing in (("Chat", "b"), ("Added", "a")):
        assert rows[name][f"gpus_{missing}"] is rows[name]["usd_per_month_more"] is None
    total = rows["All endpoints"]
    bills = [row for name, row in rows.items() if name != "All endpoints"]
    for suffix in "ab":
        parts = [row[f"usd_per_month_{suffix}"] or 0.0 for row in bills]
        assert total[f"usd_per_month_{suffix}"] == pytest.approx(sum(parts))
    assert total["usd_per_month_more"] == pytest.approx(
        total["usd_per_month_b"] - total["usd_per_month_a"]
    )


def test_a_plan_that_leaves_it_off_is_compared_as_plain_decoding(found: PlanAnswer) -> None:
    slow = SMALL | {"name": "Chat", "draft": "Llama-3.2-3B", "alpha": 0.1}
    other = decided(plan_of([slow]))
    row = compared_plans_table(found, other).rows()[0]
    (answer,) = other.endpoints
    plain = answer.tpot[0.99][0]
    assert plain is not None
    assert (row["do_b"], row["gamma_b"]) == ("Off", 0)
    assert row["tpot_p99_ms_b"] == pytest.approx(1e3 * plain.value)
    assert row["gpus_b"] == answer.capacity.plain.gpus * answer.capacity.plain.replicas.value


def test_the_report_of_two_plans_has_both(found: PlanAnswer) -> None:
    other = decided(plan_of([SMALL | {"name": "Chat"}], "Smaller"))
    page = Page(report_bytes(found, beside=other, date=DAY))
    rows = page.rows("plans")
    assert [row["endpoint"][0] for row in rows] == [
        "Chat", "Summaries", "Agents", "All endpoints",
    ]  # fmt: skip
    assert rows[1]["gpus_b"][0] == ""
    assert number(rows[-1]["usd_per_month_more"][0]) < 0
    assert [from_toml(text) for text in page.texts["pre"]] == [found.plan, other.plan]
