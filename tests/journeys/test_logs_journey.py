"""Paste a log, get an answer and a γ; two runs, get a decision. In a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driver import PHONE, Visitor, until
from playwright.sync_api import expect

from specmath.logs import read

pytestmark = pytest.mark.browser

SAMPLES = Path(__file__).parents[1] / "data" / "log_samples"
LOG = (SAMPLES / "vllm_v1_log_current.txt").read_text("utf-8")
BENCH = json.loads((SAMPLES / "vllm_bench_serve_result.json").read_text("utf-8"))
BOX = "Paste what your server printed"


def plain_run(tpot_ms: float) -> str:
    slow = {k: v for k, v in BENCH.items() if not k.startswith("spec")}
    return json.dumps(slow | {"mean_tpot_ms": tpot_ms})


def test_paste_a_log_get_an_answer_and_gamma(visitor: Visitor) -> None:
    (reading,) = read(LOG)
    visitor.open("logs")
    visitor.says("2.91 tokens a step")  # the example's
    visitor.paste(BOX, LOG)
    visitor.says("2.63 tokens a step, bonus token included, α = 0.704.")
    # c = 0.2 of the example: 1.782/1.2, 2.315/1.4 = 1.654, 2.630/1.6 = 1.643.
    visitor.says("Keep γ=3: 1.64× faster.")
    expect(visitor.page.get_by_text("No: 54.3% is accepted ÷ drafted.")).to_be_visible()

    def survival_is_drawn() -> None:
        measured = visitor.figures()[0]["measured"]
        assert measured["y"] == [1.0, *(reading.survival or ())]

    until(survival_is_drawn)
    visitor.page.get_by_role("button", name="Use in the calculator").click()
    visitor.says("Taken into the scenario")
    visitor.go_to("what_if")
    scenario = visitor.scenario()
    assert scenario.rates == pytest.approx(reading.survival, abs=1e-6)
    assert scenario.gamma == 3
    assert scenario.acceptance_source == "my_traffic"
    assert visitor.prediction().tokens_per_step == pytest.approx(reading.tokens_per_step, abs=2e-3)
    # Back on the page the pasted text is still there.
    visitor.go_to("logs")
    visitor.says("2.63 tokens a step")


def test_a_plain_run_beside_the_log_names_the_overhead(visitor: Visitor) -> None:
    visitor.open("logs")
    visitor.paste(BOX, LOG)
    visitor.says("2.63 tokens a step")
    visitor.settle()
    visitor.unfold("Beside the log")
    visitor.type_number("Plain: ms per token", "25")
    visitor.type_number("This run: ms per token", "50")
    # 2.629 × 50/25 = 5.26 plain steps, more than the γ+1 = 4 tokens of a full draft.
    text = visitor.page.get_by_text("A pass costs 5.26 plain steps. Break-even is out of reach")
    expect(text).to_be_visible()


def test_files_and_a_gamma_that_is_not_printed(visitor: Visitor) -> None:
    visitor.open("logs")
    upload = visitor.page.get_by_test_id("stFileUploader").first.locator("input")
    upload.set_input_files(SAMPLES / "llamacpp_server_log_2024-11.txt")
    visitor.says("α unknown.")
    visitor.settle()
    visitor.unfold("Beside the log")
    visitor.type_number("γ", "4")
    visitor.says("α = 0.777.")


def test_what_cannot_be_read_is_said(visitor: Visitor) -> None:
    visitor.open("logs")
    visitor.paste(BOX, "hello ![x](http://example.org/x.png) <b>there</b> $5")
    visitor.says("no speculation found")
    assert visitor.page.locator("[data-testid=stAlert] img").count() == 0


def test_before_and_after_lead_to_a_decision(visitor: Visitor) -> None:
    visitor.open("logs")
    visitor.page.get_by_role("tab", name="Did it work?").click()
    visitor.says("Give both sides.")
    visitor.page.get_by_role("textbox", name="Before", exact=True).fill(plain_run(11.0))
    visitor.page.get_by_role("textbox", name="Before", exact=True).blur()
    visitor.page.get_by_role("textbox", name="After", exact=True).fill(json.dumps(BENCH))
    visitor.page.get_by_role("textbox", name="After", exact=True).blur()
    visitor.says("Keep it: 2.06× faster.")

    def beside_each_other() -> None:
        rows = visitor.table("Interval")
        # The example's costs are nobody's: 2.739/(1+3c) for c from 0.02 to 0.25; observed 11/5.330.
        assert rows["Predicted speedup"][1] == "1.57× to 2.58×"
        assert rows["Observed speedup, by time per token"][0] == "2.06×"

    until(beside_each_other)
    visitor.page.get_by_role("textbox", name="Before", exact=True).fill(plain_run(4.0))
    visitor.page.get_by_role("textbox", name="Before", exact=True).blur()
    visitor.says("Roll back to plain decoding: this is 25% slower.")
    visitor.says("The seed is not printed")


def intervals(*stretches: tuple[int, int]) -> str:
    """Minutes of a server at γ=1: (how many, about how many of 500 drafted tokens accepted)."""
    counts = [around + (3 * i) % 7 - 3 for many, around in stretches for i in range(many)]
    return "\n".join(
        f"INFO 09-14 10:{minute:02}:00 [metrics.py:100] SpecDecoding metrics: Mean acceptance "
        f"length: {1 + count / 500:.2f}, Accepted throughput: 1.00 tokens/s, Drafted throughput: "
        f"1.00 tokens/s, Accepted: {count} tokens, Drafted: 500 tokens, Per-position acceptance "
        f"rate: {count / 500:.3f}, Avg Draft acceptance rate: {count / 5:.1f}%"
        for minute, count in enumerate(counts)
    )


def test_baseline_and_current_tell_whether_it_has_fallen(visitor: Visitor) -> None:
    visitor.open("logs")
    visitor.page.get_by_role("tab", name="Has it fallen?").click()
    visitor.says("Give both logs.")
    visitor.paste("Baseline", intervals((40, 350)))
    visitor.paste("Current", intervals((20, 350), (20, 250)))
    # 1.7 → 1.5 tokens in a step of 40 + 8 ms: 28.2 → 32.0 ms, at the example's $2.50 an hour.
    visitor.says("Acceptance has fallen: 1.70 → 1.50 tokens per step (−12%) since 09-14 10:20:00")
    visitor.says("28.2 ms → 32.0 ms, $19.6 → $22.2 per million tokens")
    expect(visitor.page.get_by_text("Check, likeliest first:")).to_be_visible()
    visitor.settle()
    rule = visitor.unfold("A Prometheus rule")
    expect(rule.get_by_text("alert: SpeculativeAcceptanceFell")).to_be_visible()
    upload = visitor.page.get_by_role("tabpanel").locator("input[type=file]:not([disabled])")
    visitor.paste("Current", intervals((40, 350)))
    visitor.says("No fall beyond chance: 1.70 → 1.70 tokens per step")
    files = [SAMPLES / f"vllm_v1_prometheus_t{i}.txt" for i in (0, 1)]
    for side, file in zip((-2, -1), files, strict=True):
        upload.nth(side).set_input_files(file)
        visitor.settle()
    visitor.says("Cannot tell whether acceptance has fallen (2.74 → 2.65 tokens per step)")
    visitor.says("metrics scraped at least 7 times")


def test_on_a_phone_nothing_is_wider_than_the_screen(visitor: Visitor) -> None:
    visitor.page.set_viewport_size(PHONE)
    visitor.open("logs")
    width = visitor.page.evaluate(
        "document.querySelector('[data-testid=stMain]').scrollWidth"
    )  # fmt: skip
    assert width <= PHONE["width"]
