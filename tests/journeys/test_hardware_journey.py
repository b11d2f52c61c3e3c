"""From a GPU, a config.json and a draft to the cliff over batch, and to the schedule to paste."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from driver import Visitor, is_said, until

from specmath import hardware, models
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.convert import EXAMPLE_PAIR
from specmath.scenario.files import build, revised, to_link
from specmath.serving.study import load_study
from specmath.serving.words import load_sentence, memory_sentence, roof_sentence
from specmath.views import drafters_table
from specmath.wording import ms, significant

pytestmark = pytest.mark.browser

CONFIGS = Path(__file__).parents[1] / "data" / "model_configs"
QWEN = json.dumps(json.loads((CONFIGS / "Qwen--Qwen3-8B.json").read_text("utf-8")))
SERVED = build({"alpha": 0.8, "gamma": 4, "batch": 32, "context_tokens": 4096, **EXAMPLE_PAIR})


def paste_button(visitor: Visitor) -> None:
    visitor.page.get_by_test_id("stPopover").get_by_role("button").click()


def paste_config(visitor: Visitor, whose: str, text: str) -> None:
    paste_button(visitor)
    visitor.paste(f"config.json of the {whose}", text)
    visitor.page.keyboard.press("Escape")


def check_page(visitor: Visitor, scenario: Scenario) -> None:
    """The cliff, the heat map, the operators, the words and the schedule are the library's."""
    study = load_study(scenario)
    figures = visitor.figures()
    assert len(figures) == 3
    lines, _, bars = figures
    batches = [str(b) for b in study.batches]
    for i, context in enumerate(study.contexts):
        (name,) = [n for n in lines if n and n.startswith(f"Context {context // 1024}k")]
        assert lines[name]["x"] == batches
        assert lines[name]["y"] == pytest.approx(study.at_gamma[:, i].tolist(), rel=1e-12)
    step = np.array(study.speculative_operators["weights"]) / study.plain_seconds
    assert bars["Weights"]["y"] == pytest.approx(step.tolist())
    visitor.says(load_sentence(study))
    text = visitor.page.get_by_test_id("stMain").inner_text()
    for sentence in (roof_sentence(study), memory_sentence(study)):
        assert sentence in text
    shown = visitor.page.get_by_test_id("stCode").first.inner_text()
    assert json.loads(shown) == json.loads(study.schedule.vllm_config())
    assert visitor.prediction().speedup.basis.startswith("verification ±10%")
    assert "mean error of a step 3% with the model held out" in text


def test_from_a_config_to_the_cliff_to_the_schedule(visitor: Visitor) -> None:
    visitor.open()
    visitor.choose("Draft cost: what you know", "From GPU, models and batch")
    taken = revised(EXAMPLE, EXAMPLE_PAIR)
    is_said(visitor, taken)
    visitor.choose("GPU", "H200 SXM")
    visitor.choose("Draft", "EAGLE-3 head")
    visitor.type_number("Batch", "64")
    paste_config(visitor, "target", QWEN)

    def all_taken() -> None:
        s = visitor.scenario()
        assert (s.gpu, s.draft, s.batch, s.model) == ("H200 SXM", "eagle3", 64, QWEN)

    until(all_taken)
    visitor.settle()
    # The price follows the GPU; the caption is the library's.
    p = visitor.prediction()
    assert p.scenario.usd_per_hour == hardware.find("H200 SXM").usd_per_hour
    text = visitor.page.get_by_test_id("stMain").inner_text()
    assert f"plain step {ms(p.tpot_plain)}" in text
    assert f"c = {significant(p.halves.cost.c)}" in text
    # A pasted config is the model of the catalogue.
    named = visitor.scenario().model_copy(update={"model": "Qwen3-8B"})
    assert load_study(named).at_gamma == pytest.approx(load_study(p.scenario).at_gamma)
    assert models.find("Qwen3-8B").parameters == models.from_config(json.loads(QWEN)).parameters

    visitor.go_to("batch")
    until(lambda: check_page(visitor, visitor.scenario()))
    # A longer context moves the cliff.
    before = load_sentence(load_study(visitor.scenario()))
    visitor.type_number("Context L", "16384")
    longer = visitor.scenario().model_copy(update={"context_tokens": 16384})
    is_said(visitor, longer)
    until(lambda: check_page(visitor, longer))
    assert load_sentence(load_study(visitor.scenario())) != before

    visitor.go_to("drafts")
    rows = drafters_table(visitor.prediction()).rows()
    shown = visitor.table("Break-even α")
    assert len(shown) == len(rows)
    for cells, row in zip(shown.values(), rows, strict=True):
        assert float(cells[0]) == pytest.approx(row["c"], abs=6e-5)
        assert float(cells[4]) == pytest.approx(row["breakeven_alpha"], abs=6e-4)


def test_what_is_wrong_is_said_once_and_changes_nothing(visitor: Visitor) -> None:
    visitor.open("batch", **to_link(SERVED))
    until(lambda: check_page(visitor, SERVED))
    quiet = len(visitor.messages())

    def refused(words: str) -> None:
        visitor.says(words)
        faults = [m for m in visitor.messages() if "last valid scenario" in m]
        assert len(faults) == 1
        assert len(visitor.messages()) == quiet + 1
        assert visitor.scenario() == SERVED
        check_page(visitor, SERVED)

    def right_again() -> None:
        assert len(visitor.messages()) == quiet

    for label, wrong, right, words in (
        ("Batch", "0", "32", "batch must be a whole number ≥ 1"),
        ("Context L", "0", "4096", "“Context L (tokens)” must be a whole number ≥ 1"),
        ("Context L", "900000", "4096", "does not fit on 1 x H100 SXM"),
    ):
        visitor.type_number(label, wrong)
        until(lambda words=words: refused(words))
        visitor.type_number(label, right)
        until(right_again)
    visitor.choose("Target model", "Llama-3.1-70B")
    until(lambda: refused("“GPUs a replica” 2 fits"))
    visitor.choose("Target model", "Llama-3.1-8B")
    until(right_again)
    visitor.type_choice("GPU", "GB300")
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


def test_a_gpu_that_no_catalogue_has_is_typed_by_its_numbers(visitor: Visitor) -> None:
    visitor.open("batch", **to_link(SERVED))
    visitor.type_choice("GPU", "custom:8,2500,288")
    own = revised(SERVED, {"gpu": "custom:8,2500,288", "usd_per_hour": 2.5})
    is_said(visitor, own)
    until(lambda: visitor.says(load_sentence(load_study(own))))
    visitor.type_number("GPUs a replica", "2")
    is_said(visitor, revised(own, {"tensor_parallel": 2}))


def test_a_link_with_hardware_opens_on_a_server_that_nobody_has_visited(
    first_visitor: Visitor,
) -> None:
    visitor = first_visitor
    pasted = revised(SERVED, {"model": QWEN, "usd_per_hour": 3.3})
    visitor.open("batch", **to_link(pasted))
    assert visitor.dialogs_seen() == []
    assert visitor.scenario() == pasted
    until(lambda: check_page(visitor, pasted))


def test_a_link_with_wrong_hardware_says_so_and_keeps_the_rest(visitor: Visitor) -> None:
    for wrong, words in (
        ({"gpu": "H1000"}, "gpu must be in the catalogue, got 'H1000'; nearest: H100 SXM"),
        ({"model": '{"model_type": "llama"}'}, "config lacks hidden_size"),
        ({"model": "Llama-3.1-70B"}, "does not fit on 1 x H100 SXM"),
    ):
        visitor.open("batch", **to_link(SERVED) | wrong)
        visitor.says(words)
        assert len([m for m in visitor.messages() if words in m]) == 1
        found = visitor.scenario()
        assert (found.alpha, found.gamma, found.batch) == (0.8, 4, 32)
        assert (found.draft_form, found.draft_ms) == ("times", 8)
    # And from here one click leads back.
    visitor.page.get_by_role("button", name="Start from a GPU").click()
    back = revised(found, EXAMPLE_PAIR)
    is_said(visitor, back)
    until(lambda: check_page(visitor, back))
