"""The pages on drafts, load and cost: what they promise is what the library says elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specmath.bill import bill, bill_ends
from specmath.drafters import kinds
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.convert import EXAMPLE_PAIR
from specmath.scenario.files import build, from_csv, from_link, from_toml, to_csv, to_link, to_toml
from specmath.verdict import verdict
from specmath.views import drafters_table

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


def test_the_draft_used_is_the_draft_promised() -> None:
    """v of 5 tokens = 3: γ=9 and 3.20× must not be promised where γ=1 is best."""
    app = opened("drafts", build({"alpha": 0.8, "gamma": 4, "c": 0.1, "sigma": 0.5}))
    assert "At your verification cost (a pass over 5 tokens costs 3.00 plain steps)" in said(app)
    assert "(at your verification cost: a pass over 5 tokens costs 3.00 plain steps)" in said(app)
    (button,) = [b for b in app.button if b.key == "use_draft"]
    assert button.label == "Use it with γ=1"
    button.click().run()
    taken = app.session_state["scenario"]
    assert (taken.alpha, taken.c, taken.gamma, taken.sigma) == (0.75, 0.02, 1, 0.5)
    assert verdict(predict(taken)).action == "use"
    plain = opened("drafts", build({"alpha": 0.8, "gamma": 4, "c": 0.1}))
    assert "memory-bound, Theorem 3.8" in said(plain)


def test_with_hardware_the_answer_is_about_its_drafters() -> None:
    s = served(model="Llama-3.1-70B", draft="eagle3", tensor_parallel=4, batch=8)
    app = opened("drafts", s)
    rows = drafters_table(predict(s)).rows()
    fastest = max(rows, key=lambda row: row["best_speedup"])  # type: ignore[arg-type,return-value]
    first = app.info[0].value.replace("\\", "")
    assert f"{fastest['draft']} would be fastest" in first
    assert "EAGLE-3 head (yours)" in first
    assert "T5" not in first
    # A bias stands beside the ranking whoever is in use, once.
    told = [said(app), said(opened("drafts", served(batch=8)))]
    assert [text.count("with EAGLE-3 heads whole steps were 18–39% dearer") for text in told] == [
        1,
        1,
    ]
    heads = [head.value for head in app.subheader]
    assert heads.index("Drafters on your hardware") < heads.index(
        "Published example, or drafts of your own by α and c"
    )


@pytest.mark.parametrize("rates", [None, (0.8, 0.6, 0.4)])
def test_the_speedup_of_each_drafter_is_its_own_prediction(rates: Any) -> None:
    s = served(batch=16, max_gamma=9, **({} if rates is None else {"alpha": None, "rates": rates}))
    labels = {record.label: kind for kind, record in kinds().items()}
    rows = drafters_table(predict(s)).rows()
    assert len(rows) >= 6
    for row in rows:
        kind = labels.get(str(row["draft"]), s.draft)
        own = predict(s.model_copy(update={"draft": kind, "gamma": row["best_gamma"]}))
        assert own.speedup.value == pytest.approx(row["best_speedup"])
        assert own.best_gamma == row["best_gamma"]


def test_a_gpu_of_ones_own_numbers_everywhere() -> None:
    """Kept by link, file and row; the page opens on it, and the numbers are the library's."""
    own = "custom:8,2500,288"
    given = served(gpu=own)
    assert from_link(to_link(given)) == (given, [])
    assert from_toml(to_toml(given)) == given
    assert from_csv(to_csv([given])) == [given]
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
    assert predict(found).tpot_plain < predict(served()).tpot_plain  # type: ignore[operator]


def test_a_target_that_does_not_fit_leads_to_the_field_that_mends_it() -> None:
    app = opened("what_if", served())
    app.selectbox(key="field_model").set_value("Llama-3.1-70B").run()
    assert "with Llama-3.2-1B does not fit on 1 x H100 SXM" in said(app)
    assert "“GPUs a replica” 2 fits" in said(app)
    (box,) = [b for b in app.main.number_input if b.label == "GPUs a replica"]
    box.set_value(2).run()
    found = app.session_state["scenario"]
    assert (found.model, found.tensor_parallel) == ("Llama-3.1-70B", 2)
    assert "does not fit" not in said(app)


def test_the_bill_of_computed_steps_is_shown_as_a_range() -> None:
    s = served(model="Llama-3.1-70B", tensor_parallel=4, batch=16, demand_tokens_per_second=20_000)
    ends, middle = bill_ends(predict(s)), bill(predict(s))
    assert middle
    plain = sorted({each.plain.replicas for each in ends})
    told = said(opened("cost", s))
    assert f"| Replicas | {plain[0]} to {plain[-1]} |" in told
    assert f"in the middle {middle.plain.replicas} and {middle.speculative.replicas}" in told
