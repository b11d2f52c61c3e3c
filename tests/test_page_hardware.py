"""The pages on drafts, load and cost: what they promise is what the library says elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specmath.acceptance_record import band
from specmath.bill import bill
from specmath.drafters import kinds
from specmath.drafts import Listed
from specmath.options import options
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import build, from_link, from_toml, to_link, to_toml
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.tables import drafters_table, essential, in_words, options_table, regime_table
from specmath.words.answers import cost_sentence
from specmath.words.bill import AT_A_RATE, bill_sentence
from specmath.words.options import choice_of
from specmath.words.verdict import verdict

ROOT = Path(__file__).parents[1]


def opened(page: str, scenario: Scenario) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    for name, value in to_link(scenario).items():
        app.query_params[name] = value
    app.run()
    app.switch_page(f"pages/{page}.py")
    app.run()
    assert [box.value for box in app.exception] == []
    return app


def served(**changes: Any) -> Scenario:
    return build({"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, **changes})


def said(app: AppTest) -> str:
    """All text of the page, without the marks that keep markdown from reading it."""
    parts = (*app.info, *app.success, *app.warning, *app.error, *app.markdown, *app.caption)
    return " ".join(part.value for part in parts).replace("\\", "")


SMALL = ("T-small", 0.75, 0.02, 7, 3.4)


def with_rows(page: AppTest, *rows: Any) -> AppTest:
    """The page once these rows are typed."""
    page.session_state["drafts"] = Listed(rows).to_dict()
    page.session_state["candidates_box"] = 99
    page.run()
    assert [box.value for box in page.exception] == []
    return page


def test_the_draft_used_is_the_draft_promised() -> None:
    """v of 5 tokens = 3: γ=9 and 3.20× must not be promised where γ=1 is best."""
    app = opened("drafts", build({"alpha": 0.8, "gamma": 4, "c": 0.1, "sigma": 0.5}))
    with_rows(app, SMALL)
    assert "At your verification cost (a pass over 5 tokens costs 3.00 plain steps)" in said(app)
    assert "(at your verification cost: a pass over 5 tokens costs 3.00 plain steps)" in said(app)
    (button,) = [b for b in app.button if b.key == "use_draft"]
    assert button.label == "Use it with γ=1"
    button.click().run()
    taken = app.session_state["scenario"]
    assert (taken.alpha, taken.c, taken.gamma, taken.sigma) == (0.75, 0.02, 1, 0.5)
    assert verdict(predict(taken)).action == "use"
    plain = with_rows(opened("drafts", build({"alpha": 0.8, "gamma": 4, "c": 0.1})), SMALL)
    assert "memory-bound, Theorem 3.8" in said(plain)


def test_the_published_example_never_stands_among_ones_own() -> None:
    """Its sentences are said where it was opened, with a caption of its own, and nowhere else."""
    app = with_rows(opened("drafts", build({"alpha": 0.8, "gamma": 4, "c": 0.1})), SMALL)
    assert "T5" not in said(app)
    assert "Leviathan" not in said(app)
    before = [box.value for box in app.info]
    app.session_state["drawer_t5"] = True
    app.run()
    assert "T5-base is fastest by the theorem" in said(app)
    assert "misses the measured speedups and ranks T5-base first" in said(app)
    assert [box.value for box in app.info] == before


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("x", 1.2, 0.1, 3.0, None), "draft 'x': alpha must be"),
        (("x", None, 0.1, 3.0, None), "draft 'x' needs alpha, got nothing"),
        (("x", 0.8, 0.1, 2.5, None), "draft 'x': gamma must be a whole number"),
    ],
)
def test_a_row_that_is_wrong_has_no_answer(row: Any, words: str) -> None:
    app = opened("drafts", build({"alpha": 0.8, "gamma": 4, "c": 0.1}))
    with_rows(app, SMALL, row)
    assert any(words in box.value.replace("\\", "") for box in app.error)
    assert "T-small is fastest" not in said(app)
    assert Listed.from_dict(app.session_state["drafts"]).rows == (SMALL, row), "kept to be mended"


def test_with_hardware_the_answer_is_about_its_drafts() -> None:
    s = served(model="Llama-3.1-70B", draft="eagle3", tensor_parallel=4, batch=8)
    app = opened("drafts", s)
    found = options(predict(s).endpoint)
    (first,) = [box.value.replace("\\", "") for box in (*app.success, *app.info)]
    assert first.startswith(f"**{choice_of(found).headline}**")
    assert "EAGLE-3 head (yours)" in said(app)
    assert "T5" not in said(app)
    told = said(app)
    assert told.count("EAGLE-3 head: on a server whose rows set none") == 1
    # What the terminal and the file say is what stands in the table.
    shown = options_table(found)
    for row in in_words(essential(shown)):
        assert str(row["Draft"]) in told.replace("\u2011", "-").replace("\u00a0", " ")


def test_what_cannot_be_compared_is_said_and_the_rest_stands() -> None:
    s = served(model="Llama-3.1-70B", draft="eagle3", tensor_parallel=4, batch=8)
    app = opened("drafts", s)
    compared = next(box for box in app.multiselect if str(box.key).startswith("compared"))
    compared.set_value(["Qwen3-0.6B", "Qwen3-0.6C", "eagle"]).run()
    assert [box.value for box in app.exception] == []
    errors = " ".join(box.value.replace("\\", "") for box in app.error)
    assert "got 'Qwen3-0.6C'; nearest: Qwen3-0.6B" in errors
    assert "a draft to be compared must be a model, got 'eagle'" in errors
    told = said(app).replace("\u2011", "-").replace("\u00a0", " ")
    assert "another tokenizer (151,936 tokens for 128,256): vLLM refuses it" in told
    assert app.success or app.info


@pytest.mark.parametrize("rates", [None, (0.8, 0.6, 0.4)])
def test_the_speedup_of_each_drafter_is_its_own_prediction(rates: Any) -> None:
    s = served(
        batch=16, max_gamma=9, engine="none",
        **({} if rates is None else {"alpha": None, "rates": rates}),
    )  # fmt: skip
    labels = {record.label: kind for kind, record in kinds().items()}
    labels["Block head: DFlash, DSpark or P-EAGLE"] = "dflash"
    rows = drafters_table(predict(s)).rows()
    assert len(rows) >= 6
    unknown = {row["draft"] for row in rows if row["best_speedup"] is None}
    assert unknown == {"Layer skipping", "Medusa heads"}
    for row in rows:
        yours = str(row["draft"]).endswith(" (yours)")
        kind = s.draft if yours else labels[str(row["draft"])]
        if row["draft"] in unknown:
            assert row["evidence"] == "nobody"
            continue
        of: dict[str, Any] = {"draft": kind, "gamma": row["best_gamma"]}
        if not yours:  # what others measured of it
            of |= {"acceptance_form": "range", "alpha": None, "rates": ()}
        own = predict(s.model_copy(update=of))
        assert own.speedup.value == pytest.approx(row["best_speedup"])
        assert own.recommended_gamma == row["best_gamma"]
        assert (own.speedup.low or own.speedup.value) == pytest.approx(row["best_speedup_low"])
        assert own.usd is not None
        assert own.usd.value == pytest.approx(row["usd_per_million_tokens"])
        assert own.step_cost == pytest.approx(row["best_step_cost"])


def test_each_drafter_is_ranked_by_its_own_band() -> None:
    """Whatever the scenario's own α: the others do not move with it, and their ends are the
    record's."""
    low, high = (
        {row["draft"]: row for row in drafters_table(predict(served(batch=8, alpha=a))).rows()}
        for a in (0.3, 0.9)
    )
    for name, row in low.items():
        if "(yours)" in str(name):
            assert row["best_speedup"] < high[name]["best_speedup"]
            assert (row["alpha"], row["evidence"]) == (pytest.approx(0.3), "you")
        else:
            assert row["best_speedup"] == high[name]["best_speedup"]
    eagle = band("eagle3", None)
    assert eagle is not None
    found = low["EAGLE-3 head"]
    assert (found["alpha_low"], found["alpha_high"]) == (eagle.low, eagle.high)
    assert f"{eagle.pairs} pairs" in str(found["evidence"])


def test_a_gpu_of_ones_own_numbers_everywhere() -> None:
    """Kept by link, file and row; the page opens on it, and the numbers are the library's."""
    own = "custom:8,2500,288"
    given = served(gpu=own)
    assert from_link(to_link(given)) == (given, [])
    assert from_toml(to_toml(given)) == given
    app = opened("batch", given)
    found = app.session_state["scenario"]
    assert found == given
    assert app.selectbox(key="field_gpu").value == own
    told = said(app)
    assert "no calibration for custom:8,2500,288" in told
    assert "interconnect as 800 GB/s (assumed)" in told
    assert found.usd_per_hour == 2.5
    assert "Price of one GPU hour 2.5 USD" in told
    # Faster memory than the H100's, 8 against 3.35 TB/s.
    own_step, h100 = (predict(s).tpot_plain for s in (found, served()))
    assert own_step
    assert h100
    assert own_step.value < h100.value


def test_a_target_that_does_not_fit_leads_to_the_field_that_mends_it() -> None:
    app = opened("what_if", served())
    app.selectbox(key="field_model").set_value("Llama-3.1-70B").run()
    assert "with Llama-3.2-1B does not fit on 1 x H100 SXM" in said(app)
    assert "“GPUs (TP)” 2 fits" in said(app)
    (box,) = [b for b in app.main.number_input if b.label == "GPUs (TP)"]
    box.set_value(2).run()
    found = app.session_state["scenario"]
    assert (found.model, found.tensor_parallel) == ("Llama-3.1-70B", 2)
    assert "does not fit" not in said(app)


def test_the_bill_of_computed_steps_is_shown_as_a_range() -> None:
    s = served(model="Llama-3.1-70B", tensor_parallel=4, batch=16, demand_tokens_per_second=20_000)
    found = bill(predict(s))
    assert found
    plain, ours = found.plain.replicas, found.speculative.replicas
    told = said(opened("cost", s)).replace("\u00a0", " ")
    shown = [f"{n.low:.0f} to {n.high:.0f}" for n in (plain, ours)]
    assert f"| Replicas | {shown[0]} | {shown[1]} |" in told


def test_at_a_request_rate_a_token_costs_the_same_and_the_bill_does_not() -> None:
    s = served(
        model="Llama-3.1-70B", tensor_parallel=4, request_rate=1.0, prompt_tokens=500, replicas=8
    )
    told = said(opened("cost", s))
    assert AT_A_RATE in told
    p = predict(s)
    assert bill_sentence(p, bill(p)) in told
    assert "(±0%)" in cost_sentence(p)


def test_a_regime_has_dollars_only_where_cost_follows_time() -> None:
    """A closed loop earns while prompts are read too: its dollars are those of the bill."""
    held, loop = (
        regime_table(predict(served(prompt_tokens=500, **load)))
        for load in ({"batch": 16}, {"concurrency": 16})
    )
    assert "usd_per_million_tokens" in held.rows()[0]
    assert "usd_per_million_tokens" not in loop.rows()[0]


def test_a_tree_brings_its_gamma_and_takes_it_along() -> None:
    app = opened("what_if", served(draft="eagle3", gamma=None))
    app.session_state["drawer_Drafter"] = True
    app.run()
    box = next(box for box in app.sidebar.text_input if box.label == "Token tree")
    box.set_value("5:4:15").run()
    assert [each.value for each in app.exception] == []
    assert "with the tree 5:4:15" in said(app)
    next(box for box in app.sidebar.text_input if box.label == "Token tree").set_value("").run()
    assert "tree" not in said(app)


def box_of(app: AppTest, label: str) -> Any:
    (found,) = [box for box in app.main.number_input if box.label == label]
    return found


def test_one_way_to_say_the_load_makes_room_for_another() -> None:
    """Concurrency in the bar, batch and request rate in the sidebar: the last one given counts."""
    app = opened("what_if", served(batch=16, prompt_tokens=512))
    app.session_state["drawer_Load"] = True
    app.run()

    def given() -> tuple[Any, ...]:
        s = app.session_state["scenario"]
        return s.batch, s.concurrency, s.request_rate

    assert "batch 16" in [box.placeholder for box in app.main.number_input]
    box_of(app, "Concurrency").set_value(32).run()
    assert given() == (1, 32, None)
    assert "Closed loop of 32 requests in flight; prompts of 512 tokens" in said(app)

    def drawer(label: str) -> Any:
        (found,) = [box for box in app.sidebar.number_input if box.label == label]
        return found

    drawer("Request rate λ (requests/s)").set_value(1.5).run()
    assert given() == (1, None, 1.5)
    assert "Open loop of 1.5 requests a second" in said(app)
    drawer("Sequences decoded together B").set_value(8).run()
    assert given() == (8, None, None)
    assert box_of(app, "Concurrency").value is None
    assert not app.error
    box_of(app, "Concurrency").set_value(0).run()
    assert "“Concurrency C” must be a whole number" in said(app)
    box_of(app, "Concurrency").set_value(None).run()
    assert given() == (8, None, None)
    assert not app.error


def test_what_was_measured_narrows_the_answer_and_a_slip_is_refused() -> None:
    s = served(concurrency=32, prompt_tokens=1000, gamma=3)
    app = opened("what_if", s)
    before = predict(s)
    box_of(app, "Plain time per token (ms)").set_value(12.0).run()
    anchored = app.session_state["scenario"]
    assert anchored.target_ms == 12.0
    assert "12.0 ms" in said(app).replace("\u00a0", " ")
    box_of(app, "Plain time per token (ms)").set_value(0.5).run()
    assert "must be >= " in said(app) or "must be ≥ " in said(app)
    assert app.session_state["scenario"] == anchored, "what was valid stays"
    box_of(app, "Plain time per token (ms)").set_value(12.0).run()
    box_of(app, "A measured run's γ").set_value(3).run()
    assert "a measured run needs “A measured run's time per token (ms)” as well" in said(app)
    box_of(app, "A measured run's time per token (ms)").set_value(9.5).run()
    found = predict(app.session_state["scenario"])
    assert not app.error
    assert found.speedup.low == pytest.approx(12 / 9.5, rel=0.1)

    def width(p: Any) -> float:
        return p.speedup.high / p.speedup.low

    assert width(found) < 1 + (width(before) - 1) / 2


def test_both_drawers_of_a_served_pair_can_be_open() -> None:
    app = opened("what_if", served())
    for name in ("Load", "Hardware", "Drafter", "Money", "Traffic", "Step details"):
        app.session_state[f"drawer_{name}"] = True
    app.run()
    assert [each.value for each in app.exception] == []


def test_the_examples_own_time_is_no_measurement_of_the_pair() -> None:
    """From the example to hardware: its 40 ms belong to no GPU."""
    app = opened("what_if", EXAMPLE)
    app.button_group(key="field_draft_form|door").set_value("hardware").run()
    assert [each.value for each in app.exception] == []
    found = app.session_state["scenario"]
    assert (found.gpu, found.target_ms) == (EXAMPLE_PAIR["gpu"], None)
    assert "draft cost" in app.session_state["examples"]
