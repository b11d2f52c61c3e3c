"""Inputs as people have them: pasted rates and log lines, things not known, a scenario file."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import GAMMA, Visitor, is_said, says_now, until
from playwright.sync_api import expect

from pages.ui.state import start
from specmath.logs import read
from specmath.predict import predict
from specmath.review.into_scenario import scenario_from
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import build, from_toml, revised, to_toml
from specmath.words.verdict import verdict

pytestmark = pytest.mark.browser

SAMPLES = Path(__file__).parents[1] / "data" / "log_samples"
RATES = "Rates, first position first"
VLLM_LINE = (
    "INFO 05-07 10:01:12 [metrics.py:86] SpecDecoding metrics: Mean acceptance length: 2.61, "
    "Accepted throughput: 48.42 tokens/s, Drafted throughput: 90.33 tokens/s, Accepted: 4842 "
    "tokens, Drafted: 9033 tokens, Per-position acceptance rate: 0.771, 0.527, 0.311, "
    "Avg Draft acceptance rate: 53.6%"
)
PASTES = ("0.8, 0.6, 0.45", "90%, 80%, 75%, 71%")
REFUSED = {
    "0.5, 0.8": "0.8", "hello, world": "got 'hello, world'", "1.5, 0.2": "1.5", "0.9, nan": "nan",
}  # fmt: skip


@pytest.mark.parametrize(
    "many", [pytest.param(1, id="few"), pytest.param(4, id="all", marks=pytest.mark.slow)]
)
def test_pasted_rates_give_a_gamma(many: int, visitor: Visitor) -> None:
    visitor.open_example()
    visitor.choose("Acceptance: what you know", "Per-position rates or a log line")
    costs = {"gamma": 4, "target_ms": 40, "draft_ms": 8}
    for pasted in (*PASTES[:many], VLLM_LINE):
        visitor.paste(RATES, pasted)
        expected = build(costs | {"rates": pasted, "acceptance_form": "survival"})
        answer = verdict(predict(expected))
        visitor.says(answer.headline)
        is_said(visitor, expected)
        lines = until(lambda: visitor.figures()[0])
        curve = predict(expected).curve.walltime_improvement.tolist()
        until(lambda curve=curve: _curve_is(visitor, curve))
        assert any((name or "").startswith(f"yours γ={expected.gamma}") for name in lines)
    # By hand for the vLLM line: τ(1) = 1.771 in 1.2 plain steps, τ(2) = 2.298 in 1.4,
    # τ(3) = 2.609 in 1.6: the second drafted token pays, the third does not.
    visitor.says("Lower γ to 2: 1.64× faster")

    kept = visitor.link()
    visitor.type_number(GAMMA, "2.7")  # neither cut nor rounded
    until(lambda: _refuses(visitor, "“Drafted γ” must be a whole number ≥ 0 and ≤ 1000, got 2.7"))
    assert visitor.link() == kept
    visitor.has_no_answer()
    visitor.type_number(GAMMA, "4")
    visitor.says("Lower γ to 2: 1.64× faster")
    for refused, named in list(REFUSED.items())[:many]:
        before = len(visitor.messages())
        visitor.paste(RATES, refused)
        until(lambda named=named: _refuses(visitor, named))
        # The state is kept, and there is no answer: not that of another scenario either.
        assert visitor.link() == kept
        until(visitor.has_no_answer)
        visitor.paste(RATES, VLLM_LINE)
        visitor.says("Lower γ to 2: 1.64× faster")
        until(lambda before=before: _count_is(visitor, before))


def _refuses(visitor: Visitor, named: str) -> None:
    said = "There is no answer until this is mended"
    assert [named in m for m in visitor.messages() if said in m] == [True]


@pytest.mark.slow
def test_any_log_pasted_sets_what_it_carries(visitor: Visitor) -> None:
    """SGLang prints a mean length, no rates: 2.47 tokens a step at γ=3 stay that; a log without
    its draft length is refused with the reason, and nothing moves."""
    visitor.open_example()
    visitor.choose("Acceptance: what you know", "Per-position rates or a log line")
    visitor.paste(RATES, (SAMPLES / "llamacpp_server_log_2024-11.txt").read_text("utf-8"))
    visitor.says("this log prints a mean without its draft length")
    assert "rates" in visitor.link()
    reading = read(SAMPLES / "sglang_log.txt")[-1]
    visitor.paste(RATES, (SAMPLES / "sglang_log.txt").read_text("utf-8"))
    visitor.says("Read from the log (sglang")
    until(lambda: _took(visitor, "tokens_per_step"))
    until(lambda: _has(visitor, scenario_from(reading, EXAMPLE)))


def _has(visitor: Visitor, scenario: Scenario) -> None:
    assert visitor.scenario() == scenario


def _took(visitor: Visitor, field: str) -> None:
    assert field in visitor.link()


def _curve_is(visitor: Visitor, curve: list[float]) -> None:
    assert visitor.figures()[0]["Speedup"]["y"] == curve


def _count_is(visitor: Visitor, count: int) -> None:
    assert len(visitor.messages()) == count


def test_unknown_inputs_say_measure_first(visitor: Visitor) -> None:
    visitor.open_example()
    visitor.choose("Acceptance: what you know", "I don't know: a range of α")
    visitor.start_from("Unknown c")
    until(lambda: _ranges_are(visitor, None, 0.25))
    # By hand, γ=1 at the worst of both: 1.55/(1 + 0.25 + 0.51) = 0.88; whether it pays is open.
    visitor.says("Measure first")
    visitor.type_number("c at worst", "0.6")
    visitor.says("Measure first")
    until(lambda: _ranges_are(visitor, None, 0.6))
    visitor.settle()
    p = visitor.prediction()
    low, high = visitor.table("Speculative")["Speed"][1].split(" to ")
    assert float(low.rstrip("×")) == pytest.approx(p.speedup.low, abs=0.005)
    assert float(high.rstrip("×")) == pytest.approx(p.speedup.high, abs=0.005)
    visitor.says("What decides is the draft's cost")
    # What measures it is one click away.
    visitor.unfold("How to measure")
    expect(visitor.page.get_by_text("specmath measure --target").first).to_be_visible()


def _ranges_are(visitor: Visitor, alpha_low: float | None, c_high: float) -> None:
    scenario = visitor.scenario()
    assert (scenario.alpha_low, scenario.c_high) == (alpha_low, c_high)


def test_scenario_saved_and_opened_again(visitor: Visitor, tmp_path: Path) -> None:
    visitor.open("gamma", alpha="0.7", gamma="3", c="0.1", target_ms="30")
    visitor.unfold("Save, open, share")
    visitor.type_number(GAMMA, "5")
    mine = build({"alpha": 0.7, "gamma": 5, "c": 0.1, "target_ms": 30})
    is_said(visitor, mine)
    visitor.settle()
    name, data = visitor.download(visitor.page.get_by_role("button", name="Save scenario"))
    assert name == "scenario.toml"
    # What is saved is what is on the page, not what was there one edit before.
    assert from_toml(data.decode()) == mine

    back = visitor.page.get_by_role("button", name="Start again")
    visitor.press(back, lambda: says_now(visitor, start()))
    is_said(visitor, start())
    files = visitor.page.locator("input[type=file]")
    files.set_input_files(files=[{"name": name, "mimeType": "text/plain", "buffer": data}])
    is_said(visitor, mine)
    expect(visitor.box(GAMMA)).to_have_value("5")

    for bad, expected in {
        b"[scenario]\nalpha = 0.7\ngama = 3\n": "unknown field gama; did you mean gamma?",
        b"[scenario\nalpha": "not a TOML file",
        b"\xff\xfe\x00": "not UTF-8",
        to_toml(revised(mine, {"gamma": 5})).replace("0.7", "7").encode(): "alpha must be",
    }.items():
        files.set_input_files([{"name": "bad.toml", "mimeType": "text/plain", "buffer": bad}])
        until(lambda expected=expected: _is_the_only_fault(visitor, expected))
        assert visitor.scenario() == mine


def _is_the_only_fault(visitor: Visitor, text: str) -> None:
    faults = [m for m in visitor.messages() if "keeps its state" in m]
    assert [("bad.toml" in m, text in m) for m in faults] == [(True, True)]
