"""From a GPU, a config.json and a draft to the cliff over load, and to the line to paste."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from driver import AGAIN, GAMMA, Visitor, is_said, says_now, shows, until
from playwright.sync_api import expect

from pages.ui.state import PINS, start
from specmath import hardware, models
from specmath.frontier import frontier
from specmath.launch import launch
from specmath.load import load_study
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import build, from_toml, revised, to_link
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.tables import drafters_table
from specmath.words.load import (
    load_sentence,
    memory_sentence,
    roof_sentence,
    schedule_sentence,
    single_sentence,
    switching_sentence,
)

pytestmark = pytest.mark.browser

CONFIGS = Path(__file__).parents[1] / "data" / "model_configs"
QWEN = json.dumps(json.loads((CONFIGS / "Qwen--Qwen3-8B.json").read_text("utf-8")))
SERVED = build({"alpha": 0.8, "gamma": 4, "batch": 32, "context_tokens": 4096, **EXAMPLE_PAIR})


def unfold(visitor: Visitor, name: str) -> None:
    """Open a popover of the bar."""
    buttons = visitor.page.get_by_test_id("stPopoverButton")
    buttons.and_(visitor.page.get_by_role("button", name=re.compile(f"^{name}"))).click()
    visitor.page.wait_for_timeout(300)
    visitor.settle()  # it is filled once it is open


def paste_config(visitor: Visitor, whose: str, text: str) -> None:
    unfold(visitor, "More")
    visitor.paste(f"config.json of the {whose}", text)
    visitor.page.keyboard.press("Escape")


def check_page(visitor: Visitor, scenario: Scenario) -> None:
    """The cliff, throughput, operators, words and the line to paste are the library's."""
    endpoint = resolve(scenario)
    study, over = load_study(endpoint), frontier(endpoint)
    figures = visitor.figures()
    assert len(figures) == 5
    speedups, both, _, _, bars = figures
    line = speedups[f"Speedup at γ={over.gamma}"]
    assert line["x"] == [f"{p.load:,g}" for p in over.points]
    assert line["y"] == pytest.approx([p.speedup.value for p in over.points], rel=1e-12)
    for arm, name in enumerate(("Plain decoding", "Speculation")):
        assert both[name]["x"] == pytest.approx([p.user[arm].value for p in over.points])
        assert both[name]["y"] == pytest.approx([p.gpu[arm].value for p in over.points])
    step = np.array(study.speculative_operators["weights"]) / study.plain_seconds
    assert bars["Weights"]["y"] == pytest.approx(step.tolist())
    assert any(load_sentence(over, study) in m for m in visitor.messages())
    text = visitor.page.get_by_test_id("stMain").text_content() or ""  # what is folded too
    choice = study.choice
    said = roof_sentence(study), memory_sentence(study), single_sentence(choice)
    for sentence in (*said, schedule_sentence(choice), switching_sentence(choice)):
        assert sentence in text
    shown = visitor.page.get_by_test_id("stCode").first.inner_text()
    schedule = choice.schedule if choice.advised else None
    command = launch(endpoint, choice.gamma, schedule=schedule).command
    assert "".join(shown.split()) == "".join(command.split())
    assert "excess" in {u.field for u in visitor.prediction().speedup.basis.over}
    assert "mean error of a step 3% with the model held out" in text


def said_of(scenario: Scenario) -> str:
    """The answer of the page."""
    endpoint = resolve(scenario)
    return load_sentence(frontier(endpoint), load_study(endpoint))


def test_from_a_config_to_the_cliff_to_the_schedule(visitor: Visitor) -> None:
    visitor.open_example()
    visitor.start_from("GPU and models")
    is_said(visitor, start())
    visitor.choose("GPU", "H200 SXM")
    visitor.choose("Draft", "EAGLE-3 head")
    visitor.type_number("Concurrency", "64")
    visitor.type_number("Prompt", "896")
    paste_config(visitor, "target", QWEN)

    def all_taken() -> None:
        s = visitor.scenario()
        assert (s.gpu, s.draft, s.model) == ("H200 SXM", "eagle3", QWEN)
        assert (s.batch, s.concurrency, s.prompt_tokens) == (1, 64, 896)

    until(all_taken)
    visitor.settle()
    # The price follows the GPU.
    p = visitor.prediction()
    assert p.scenario.usd_per_hour == hardware.find("H200 SXM").usd_per_hour
    # A pasted config is the model of the catalogue.
    named = visitor.scenario().model_copy(update={"model": "Qwen3-8B"})
    assert load_study(resolve(named)).at_gamma == pytest.approx(
        load_study(resolve(p.scenario)).at_gamma
    )
    assert models.find("Qwen3-8B").parameters == models.from_config(json.loads(QWEN)).parameters

    visitor.go_to("batch")
    until(lambda: check_page(visitor, visitor.scenario()))
    # A longer context moves the cliff.
    before = said_of(visitor.scenario())
    visitor.unfold("Load")
    visitor.type_number("Context L (tokens)", "16384")
    longer = visitor.scenario().model_copy(update={"context_tokens": 16384})
    is_said(visitor, longer)
    until(lambda: check_page(visitor, longer))
    assert said_of(visitor.scenario()) != before

    visitor.go_to("drafts")
    rows = drafters_table(visitor.prediction()).rows()

    def compared() -> None:
        shown = visitor.table("For your model")
        assert [*shown] == [row["draft"] for row in rows]
        for cells, row in zip(shown.values(), rows, strict=True):
            assert cells[-1] == row["for_target"]
            for cell, name in ((cells[0], "best_speedup"), (cells[4], "memory_gib")):
                assert row[name] is None or shows(cell, row[name])  # type: ignore[arg-type]

    until(compared)


@pytest.mark.slow
def test_what_is_wrong_is_said_once_and_changes_nothing(visitor: Visitor) -> None:
    visitor.open("batch", **to_link(SERVED))
    until(lambda: check_page(visitor, SERVED))
    quiet = len(visitor.messages())
    visitor.unfold("Load")

    def refused(words: str) -> None:
        assert [words in m for m in visitor.messages()] == [True]
        assert visitor.scenario() == SERVED
        visitor.has_no_answer()

    def right_again() -> None:
        assert len(visitor.messages()) == quiet
        check_page(visitor, SERVED)

    for label, wrong, right, words in (
        ("Concurrency", "0", "", "“Concurrency C” must be a whole number ≥ 1"),
        ("Context L (tokens)", "0", "4096", "“Context L (tokens)” must be a whole number ≥ 1"),
    ):
        visitor.type_number(label, wrong)
        until(lambda words=words: refused(words))
        visitor.type_number(label, right)
        until(right_again)
    # The memory is an estimate: what it says of the cache is a warning, and the page goes on.
    visitor.type_number("Context L (tokens)", "900000")
    visitor.says("does not fit on 1 x H100 SXM: weights, activations and one sequence")
    assert visitor.scenario() == revised(SERVED, {"context_tokens": 900000})
    visitor.type_number("Context L (tokens)", "4096")
    until(right_again)
    visitor.choose("Target model", "Llama-3.1-70B")
    until(lambda: refused("“GPUs (TP)” 2 fits"))
    visitor.choose("Target model", "Llama-3.1-8B")
    until(right_again)
    visitor.type_choice("GPU", "GB900")
    until(lambda: refused("such as custom:8,2500,288"))
    visitor.choose("GPU", "H100 SXM")
    until(right_again)
    for text, words in (
        ("{}", "config lacks hidden_size"),
        ('{"hidden_size": ', "not valid JSON"),
        ('{"a":' * 3000, "nested too deeply"),
    ):
        paste_config(visitor, "target", text)
        until(lambda words=words: refused(words))
    visitor.choose("Target model", "Llama-3.1-8B")
    until(right_again)
    assert visitor.link() == to_link(SERVED)


@pytest.mark.slow
def test_a_gpu_that_no_catalogue_has_is_typed_by_its_numbers(visitor: Visitor) -> None:
    visitor.open("batch", **to_link(SERVED))
    visitor.type_choice("GPU", "custom:8,2500,288")
    own = revised(SERVED, {"gpu": "custom:8,2500,288", "usd_per_hour": 2.5})
    is_said(visitor, own)
    until(lambda: visitor.says(said_of(own)))
    visitor.type_number("GPUs (TP)", "2")
    is_said(visitor, revised(own, {"tensor_parallel": 2}))
    visitor.type_choice("GPU", "4x H100")
    four = {"gpu": "H100", "tensor_parallel": 4}
    is_said(visitor, revised(own, four | {"usd_per_hour": hardware.find("H100").usd_per_hour}))
    expect(visitor.box("GPUs (TP)")).to_have_value("4")


@pytest.mark.slow
def test_a_link_with_hardware_opens_on_a_server_that_nobody_has_visited(
    first_visitor: Visitor,
) -> None:
    visitor = first_visitor
    load = {"batch": 1, "concurrency": 32, "prompt_tokens": 3000}
    pasted = revised(SERVED, {"model": QWEN, "usd_per_hour": 3.3, **load})
    visitor.open("batch", **to_link(pasted))
    assert visitor.dialogs_seen() == []
    assert visitor.scenario() == pasted
    until(lambda: check_page(visitor, pasted))
    expect(visitor.box("Concurrency")).to_have_value("32")
    visitor.go_to("what_if")
    visitor.page_says("Closed loop of 32 requests in flight; prompts of 3,000 tokens")


def test_what_was_measured_narrows_the_answer(visitor: Visitor) -> None:
    """A plain time, then one run; one below what the memory allows is refused in a sentence."""
    loop = {"batch": 1, "concurrency": 32, "prompt_tokens": 3000}
    loaded = revised(SERVED, loop)
    visitor.open("what_if", **to_link(loaded))
    assert " to " in visitor.table("Speculative")["Speed"][1]
    unfold(visitor, "More")
    visitor.type_number("Plain time per token (ms)", "0.5")
    visitor.says("what H100 SXM takes to read the weights and the cache once")
    until(visitor.has_no_answer)
    assert visitor.scenario() == loaded
    visitor.type_number("Plain time per token (ms)", "16")
    anchored = revised(loaded, {"target_ms": 16})
    is_said(visitor, anchored)
    visitor.type_number("A measured run's γ", "4")
    visitor.says("as well, got nothing")
    visitor.type_number("A measured run's time per token (ms)", "12.5")
    is_said(visitor, revised(anchored, {"run_gamma": 4, "run_ms": 12.5}))

    p = visitor.prediction()
    assert p.speedup.value == pytest.approx(16 / 12.5)

    def measured() -> None:
        assert visitor.table("Speculative")["Time per token"][:2] == ["16.0 ms", "12.5 ms"]

    until(measured)
    wide, narrow = (each.speedup for each in (predict(loaded), p))
    assert narrow.high / narrow.low - 1 < (wide.high / wide.low - 1) / 2


def _is_said_once(visitor: Visitor, words: str) -> None:
    assert sum(words in m for m in visitor.messages()) == 1


@pytest.mark.slow
def test_a_link_with_wrong_hardware_says_so_and_keeps_the_rest(visitor: Visitor) -> None:
    for wrong, words in (
        ({"gpu": "H1000"}, "gpu must be in the catalogue, got 'H1000'; nearest: H100 SXM"),
        ({"model": '{"model_type": "llama"}'}, "config lacks hidden_size"),
        ({"model": "Llama-3.1-70B"}, "does not fit on 1 x H100 SXM"),
    ):
        visitor.open("batch", **to_link(SERVED) | wrong)
        until(lambda words=words: _is_said_once(visitor, words))
        found = visitor.scenario()
        assert (found.alpha, found.gamma, found.batch) == (0.8, 4, 32)
        assert (found.draft_form, found.draft_ms) == ("times", 8)
    # Nothing is answered for what stands in their place, until somebody has looked.
    visitor.has_no_answer()
    seen = visitor.page.get_by_role("button", name="The inputs are right as they stand")
    begin = visitor.page.get_by_role("button", name="Start from a GPU")
    visitor.press(seen, lambda: begin.wait_for(timeout=AGAIN * 1e3))
    # And from here one click leads back.
    back = revised(found, EXAMPLE_PAIR)
    visitor.press(begin, lambda: says_now(visitor, back))
    is_said(visitor, back)
    until(lambda: check_page(visitor, back))


@pytest.mark.slow
def test_what_is_pinned_stands_beside_what_is_now(visitor: Visitor) -> None:
    few = revised(SERVED, {"batch": 1, "concurrency": 16, "prompt_tokens": 900})
    many = revised(few, {"concurrency": 128})
    visitor.open("what_if", **to_link(few))
    pin = visitor.page.get_by_role("button", name="Pin this scenario to compare")
    visitor.press(pin, lambda: visitor.table("Decision")["Pinned 1"])
    visitor.type_number("Concurrency", "128")

    def compared() -> None:
        rows = visitor.table("Decision")
        assert [rows[name][0] for name in ("Pinned 1", "Now")] == ["16", "128"]
        for name, each in (("Pinned 1", few), ("Now", many)):
            low = predict(each).speedup.low
            assert any(cell.startswith(f"{low:.2f} to") for cell in rows[name]), (low, rows[name])

    until(compared)
    visitor.settle()
    visitor.page.reload()
    visitor.arrived("what_if")
    until(compared)
    back = visitor.page.get_by_role("button", name="Back to pinned 1")
    visitor.press(back, lambda: says_scenario(visitor, few))


def says_scenario(visitor: Visitor, scenario: Scenario) -> None:
    assert visitor.scenario() == scenario


def test_all_follows_gamma_though_it_draws_only_what_is_below(visitor: Visitor) -> None:
    visitor.open()
    visitor.page_says("Example: replace these values")
    visitor.type_number(GAMMA, "5")
    is_said(visitor, revised(start(), {"gamma": 5}))
    visitor.page_says("Example values left")
    # Beside another input that is wrong it stays to be typed, and is taken once that is mended.
    visitor.type_number("Concurrency", "-3")
    until(visitor.has_no_answer)
    visitor.type_number(GAMMA, "-1")
    until(lambda: _says_faults(visitor, "-3", "-1"))
    visitor.type_number(GAMMA, "7")
    until(lambda: _says_faults(visitor, "-3"))
    visitor.settle()  # the slider is drawn after the faults, and would go back with the next edit
    assert visitor.scenario().gamma == 5
    visitor.type_number("Concurrency", "16")
    is_said(visitor, revised(start(), {"gamma": 7}))
    # The file that is saved, from a drawer opened before the move and after it.
    visitor.unfold("Save, open, share")
    save = visitor.page.get_by_role("button", name="Save scenario")
    expect(save).to_be_visible()
    for gamma in (3, 4):
        visitor.type_number(GAMMA, str(gamma))
        is_said(visitor, revised(start(), {"gamma": gamma}))
        saved = from_toml(visitor.download(save)[1].decode("utf-8"))
        assert saved == revised(start(), {"gamma": gamma})
    visitor.unfold("Save, open, share")
    expect(save).to_be_hidden()
    visitor.type_number(GAMMA, "2")
    is_said(visitor, revised(start(), {"gamma": 2}))
    visitor.unfold("Save, open, share")
    expect(save).to_be_visible()
    saved = from_toml(visitor.download(save)[1].decode("utf-8"))
    assert saved == revised(start(), {"gamma": 2})
    # What is below changes what is above: back to a scenario pinned before.
    visitor.unfold("Save, open, share")
    visitor.page.get_by_role("button", name="Pin this scenario to compare").click()
    visitor.page_says("Side by side")
    visitor.type_number("Output", "300")
    until(lambda: noted_beside(visitor, {"gamma": 2, "output_tokens": 300}))
    visitor.type_number(GAMMA, "1")
    until(lambda: noted_beside(visitor, {"gamma": 1, "output_tokens": 300}))
    visitor.press(
        visitor.page.get_by_role("button", name="Back to pinned 1"), lambda: back(visitor)
    )


def noted_beside(visitor: Visitor, changed: dict[str, int]) -> None:
    """The address says the scenario that one begins with, so changed, beside what is pinned."""
    link = {name: value for name, value in visitor.link().items() if name != PINS}
    assert link == to_link(revised(start(), changed))


def back(visitor: Visitor) -> None:
    noted_beside(visitor, {"gamma": 2})
    assert visitor.box("Output").input_value() == "256"
    assert visitor.box(GAMMA).input_value() == "2"


def _says_faults(visitor: Visitor, *got: str) -> None:
    faults = [said for said in visitor.messages() if "There is no answer until" in said]
    assert len(faults) == len(got)
    assert all(any(f"got {each}" in said for said in faults) for each in got)
