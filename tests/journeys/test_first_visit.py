"""The first page: the example, the first screen, and the numbers that follow the inputs."""

from __future__ import annotations

import pytest
from driver import ANSWER, GAMMA, WIDE, Visitor, is_said, shows, until
from playwright.sync_api import expect

from pages.ui.state import start
from specmath.estimate import Estimate
from specmath.launch import launch
from specmath.scenario import EXAMPLE
from specmath.scenario.files import revised, to_link

pytestmark = pytest.mark.browser


def ends_of(number: Estimate, scale: float = 1.0) -> tuple[float, float]:
    """The ends of its interval; twice the number where it has none."""
    if number.low is None or number.high is None:
        return number.value * scale, number.value * scale
    return number.low * scale, number.high * scale


def check_numbers(visitor: Visitor) -> None:
    """The table of numbers and the chart hold what the library computes for the address."""
    p = visitor.prediction()
    shown = visitor.table("Speculative")
    assert p.tpot is not None
    assert p.usd is not None
    assert p.tpot_plain is not None
    assert p.usd_plain is not None
    expected = {
        "Time per token": (p.tpot_plain.value * 1e3, ends_of(p.tpot, 1e3)),
        "Cost per 1M tokens": (p.usd_plain.value, ends_of(p.usd)),
        "Speed": (1.0, ends_of(p.speedup)),
        "Arithmetic per token": (1.0, ends_of(p.operations)),
    }
    for name, (plain, ends) in expected.items():
        assert shows(shown[name][0], plain), (name, shown)
        changes = [100 * (end / plain - 1) for end in ends]
        for cell, values in ((shown[name][1], ends), (shown[name][2], changes)):
            texts = cell.split(" to ")
            both = texts if len(texts) == 2 else texts * 2  # ends that print alike are one
            assert all(map(shows, both, values)), (name, shown)
    figures = visitor.figures()
    assert len(figures) == 2, "a chart is being drawn anew"
    speedup, arithmetic = figures
    assert speedup["Speedup"]["x"] == list(range(len(p.curve.gamma)))
    assert speedup["Speedup"]["y"] == p.curve.walltime_improvement.tolist()
    assert arithmetic["Arithmetic per token"]["y"] == p.curve.operations_increase.tolist()
    large_speed_is(visitor, p.speedup.value)


def large_speed_is(visitor: Visitor, speedup: float) -> None:
    large = visitor.page.locator(".st-key-answer_card .large > div").first
    text = [line for line in large.inner_text().split("\n") if line.strip()]
    assert text[0] == "Speed"
    assert shows(text[1], speedup)


def test_from_hardware_to_an_answer_and_a_line_to_paste_in_four_choices(visitor: Visitor) -> None:
    """A 70B on four GPUs: the bare address opens on hardware; another engine, load and draft."""
    visitor.open()
    page = visitor.page
    expect(page.get_by_text("Example: replace these values")).to_be_visible()
    assert visitor.scenario() == start()
    visitor.page_says("specmath: what speculative decoding")
    visitor.type_choice("Target model", "Qwen2.5-72B")
    visitor.choose("Engine", "SGLang")
    visitor.type_number("Concurrency", "32")
    visitor.choose("Draft", "N-gram lookup")
    expected = revised(start(), {
        "model": "Qwen2.5-72B", "engine": "sglang", "concurrency": 32, "draft": "ngram",
    })  # fmt: skip
    is_said(visitor, expected)
    p = visitor.prediction()
    until(lambda: large_speed_is(visitor, p.speedup.value))
    line = launch(p.endpoint, p.decision.gamma or p.gamma or 1).command
    code = page.get_by_test_id("stCode").filter(has_text="sglang.launch_server")
    expect(code).to_have_text(line)
    visitor.page_says("SGLang 0.5.23 by default keeps the target's distribution")
    # The inputs take a third of the screen at most, and the answer is on it.
    bar = page.locator(".st-key-bar").bounding_box()
    answer = page.locator(ANSWER).first.bounding_box()
    assert bar
    assert answer
    assert bar["height"] <= WIDE["height"] / 3 + 1
    assert answer["y"] + answer["height"] <= WIDE["height"]


@pytest.mark.slow
def test_a_gpu_that_nobody_knows_is_typed_and_the_answer_is_to_measure(visitor: Visitor) -> None:
    """Neither the machine nor the engine was calibrated: no firm answer."""
    visitor.open()
    visitor.type_choice("GPU", "RTX 6090")
    visitor.says("such as custom:8,2500,288")
    until(visitor.has_no_answer)
    visitor.type_choice("GPU", "custom:1.8,400,32")
    visitor.choose("Target model", "Llama-3.1-8B")
    visitor.type_number("GPUs (TP)", "1")
    visitor.choose("Engine", "Another engine")
    until(lambda: _is_unknown_everywhere(visitor))
    visitor.says("Measure first: whether it pays depends on what you do not know.")
    visitor.says("What decides is what a speculative step costs here")
    visitor.unfold("How to measure")
    expect(visitor.page.get_by_text("specmath measure server").first).to_be_visible()


def _is_unknown_everywhere(visitor: Visitor) -> None:
    s = visitor.scenario()
    assert (s.gpu, s.engine, s.tensor_parallel) == ("custom:1.8,400,32", "other", 1)


@pytest.mark.slow
def test_the_door_of_two_times_opens_on_the_example(visitor: Visitor) -> None:
    visitor.open()
    visitor.start_from("Two times")
    is_said(visitor, EXAMPLE)
    visitor.says("Turn it on at γ=5: 2.28× faster; γ=4 (2.22×) does as well.")
    visitor.start_from("GPU and models")
    is_said(visitor, start())


def test_the_example_is_in_one_screen(visitor: Visitor) -> None:
    visitor.open_example()
    page = visitor.page
    visitor.says("Turn it on at γ=5: 2.28× faster; γ=4 (2.22×) does as well.")
    expect(page.get_by_text("Example: replace these values")).to_be_visible()
    assert visitor.scenario() == EXAMPLE
    until(lambda: check_numbers(visitor))
    shown = visitor.table("Speculative")
    # By hand: 4 tokens in a step of 40 + 4×8 = 72 ms; 2.50 dollars an hour over 25 tokens/s.
    # What it costs besides is open to 0.51 plain steps: 92.4 ms, 23.1 a token.
    assert shown["Time per token"] == ["40.0 ms", "18.0 to 23.1 ms", "−55% to −42%"]
    assert shown["Cost per 1M tokens"] == ["$27.8", "$12.5 to $16.0", "−55% to −42%"]
    parts = {
        "title": page.get_by_role("heading", name="Should I turn it on?"),
        "acceptance": visitor.box("Accepted a step"),
        "gamma": visitor.box(GAMMA),
        "draft": visitor.box("Draft (ms)"),
        "verdict": page.locator(ANSWER).first,
        "time per token": page.locator(".large > div").filter(has_text="Time per token"),
    }

    def all_on_the_screen() -> None:
        for name, part in parts.items():
            box = part.bounding_box()
            assert box, name
            assert box["y"] >= 0, name
            assert box["y"] + box["height"] <= WIDE["height"], name
        chart = page.locator(".js-plotly-plot").first.bounding_box()
        assert chart
        # Its legend and the highest of its curve.
        assert chart["y"] + 120 <= WIDE["height"]

    until(all_on_the_screen)


def test_half_a_token_accepted_means_measure_first_as_the_keyboard_does(visitor: Visitor) -> None:
    visitor.open_example()
    before = visitor.figures()[0]["Speedup"]["y"]
    visitor.type_number("Accepted a step", "0.5")
    visitor.says("Measure first")
    is_said(visitor, revised(EXAMPLE, {"accepted_per_step": 0.5, "measured_gamma": 4}))
    until(lambda: check_numbers(visitor))
    assert visitor.figures()[0]["Speedup"]["y"] != before
    # 1.5 tokens in 72 to 92.4 ms: 60/92.4 to 60/72.
    assert visitor.table("Speculative")["Speed"] == ["1.00×", "0.649× to 0.833×", "−35% to −17%"]
    expect(visitor.page.get_by_text("Example: replace these values")).not_to_be_visible()

    slider = visitor.page.get_by_role("slider", name="Drafted γ")
    for gamma in (3, 2, 1):
        slider.press("ArrowLeft")
        until(lambda gamma=gamma: _uses_gamma(visitor, gamma))
        until(lambda: check_numbers(visitor))
    visitor.says("Measure first")
    # γ moved; the γ at which acceptance was measured did not.
    assert visitor.box(GAMMA).input_value() == "1"
    assert visitor.box("at γ").input_value() == "4"


def _uses_gamma(visitor: Visitor, gamma: int) -> None:
    assert visitor.scenario().gamma == gamma
    drawn = visitor.figures()[0]
    (mark,) = [
        trace for name, trace in drawn.items() if (name or "").startswith(("yours", "advised"))
    ]
    assert mark["x"] == [gamma]


@pytest.mark.slow
def test_verification_cost_joins_the_two_theorems(visitor: Visitor) -> None:
    visitor.open_example()
    # v = γ+1: compute-bound, every γ costs more arithmetic than it saves.
    visitor.type_number("v of 5 tokens, typed", "5")
    visitor.says("Leave it off.")
    until(lambda: check_numbers(visitor))
    p = visitor.prediction()
    assert p.walltime_improvement == pytest.approx(1 / p.operations.value, rel=1e-12)


@pytest.mark.slow
def test_verification_measured_at_every_gamma(visitor: Visitor) -> None:
    """4 tokens in v + 0.8 plain steps at γ=4; the curve, not a line, is drawn over γ."""
    visitor.open_example()
    visitor.choose("Verification: what you know", "Measured: v at every γ")
    box = visitor.page.get_by_role("textbox", name="v of 2, 3, 4 … tokens")
    # Nothing was measured yet: no number looks as if it were, and the line stays in use.
    expect(box).to_have_value("")
    expect(visitor.page.get_by_text("Until you give them, v stays on the line.")).to_be_visible()
    assert visitor.scenario() == EXAMPLE
    visitor.paste("v of 2, 3, 4 … tokens", "1.6, 1.9, 1.5, 1.7, 1.75")
    measured = revised(EXAMPLE, {"verify_costs": (1.6, 1.9, 1.5, 1.7, 1.75)})
    is_said(visitor, measured)
    until(lambda: check_numbers(visitor))
    assert visitor.prediction().walltime_improvement == pytest.approx(4 / (1.7 + 0.8))
    drawn = visitor.figures()[0]["Speedup"]
    assert drawn["x"] == [0, 1, 2, 3, 4, 5]
    assert drawn["y"] == pytest.approx(visitor.prediction().curve.walltime_improvement.tolist())
    # Beyond what was measured nothing is predicted, and the page keeps what it had.
    visitor.type_number(GAMMA, "6")
    visitor.says("“Drafted γ” must be ≤ 5")
    until(visitor.has_no_answer)
    assert visitor.link() == to_link(measured)


@pytest.mark.parametrize(
    "gap", [0, *(pytest.param(gap, marks=pytest.mark.slow) for gap in (0.1, 0.25))]
)
def test_edits_in_quick_succession_are_all_kept(visitor: Visitor, gap: float) -> None:
    """A second edit reaches the server before the browser knows the address of the first."""
    edits = {"Accepted a step": "0.5", "Draft (ms)": "5", "Target (ms)": "50", GAMMA: "3"}
    visitor.open_example()
    for label, value in edits.items():
        visitor.type_number(label, value)
        visitor.page.wait_for_timeout(1000 * gap)
    changes = {"accepted_per_step": 0.5, "measured_gamma": 4, "draft_ms": 5, "target_ms": 50}
    is_said(visitor, revised(EXAMPLE, changes | {"gamma": 3}))
    for label, value in edits.items():
        expect(visitor.box(label)).to_have_value(value)


STEP_UP_AT_ONCE = """
new MutationObserver((_, watch) => {
    const box = document.querySelector('input[aria-label="Draft (ms)"]');
    if (!box) return;
    watch.disconnect();
    box.focus();
    box.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp', keyCode: 38, bubbles: true}));
}).observe(document, {childList: true, subtree: true});
"""


def test_a_step_in_the_first_moment_counts_from_the_value(visitor: Visitor) -> None:
    """Streamlit draws a widget at its default before it reads the session's value into it."""
    visitor.page.add_init_script(STEP_UP_AT_ONCE)
    visitor.open_example()
    is_said(visitor, revised(EXAMPLE, {"draft_ms": 8.1}))


def test_an_emptied_box_is_unknown_and_never_zero(visitor: Visitor) -> None:
    visitor.open_example()
    visitor.unfold("Money")
    visitor.type_number("Price of one GPU hour (USD)", "")
    is_said(visitor, revised(EXAMPLE, {"usd_per_hour": None}))
    until(lambda: _cost_is_unknown(visitor))
    visitor.type_number("v of 5 tokens, typed", "")
    is_said(visitor, revised(EXAMPLE, {"usd_per_hour": None, "sigma": None}))
    visitor.page_says("σ from 0 to 1")
    # What must be given goes back to what it was.
    visitor.type_number("Draft (ms)", "")
    visitor.box("Draft (ms)").blur()
    expect(visitor.box("Draft (ms)")).to_have_value("8")
    assert visitor.scenario().draft_ms == 8


def _cost_is_unknown(visitor: Visitor) -> None:
    assert visitor.table("Speculative")["Cost per 1M tokens"] == ["unknown"] * 3
