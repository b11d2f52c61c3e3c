"""The page Read my log with every sample and capture pasted; no browser here."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[1]
SAMPLES = sorted((ROOT / "tests" / "data" / "log_samples").rglob("*.*"))
HARDWARE = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B", "alpha": "0.7",
            "gamma": "3"}  # fmt: skip
UNKNOWN = {"acceptance_form": "range", "draft_form": "range", "gamma": "4"}


def opened(link: dict[str, str]) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    app.switch_page("pages/logs.py")
    return app.run()


@pytest.mark.parametrize("link", [{}, HARDWARE, UNKNOWN], ids=["example", "hardware", "unknown"])
def test_every_sample_pasted(link: dict[str, str]) -> None:
    app = opened(link)
    for path in SAMPLES:
        app.text_area(key="log_text").set_value(path.read_text("utf-8")).run()
        assert [box.value for box in app.exception] == [], path.name
        assert app.info or app.error, path.name


def test_used_in_the_calculator() -> None:
    app = opened({})
    text = (ROOT / "tests/data/log_samples/vllm_bench_serve_result.json").read_text("utf-8")
    app.text_area(key="log_text").set_value(text).run()
    button = next(b for b in app.button if b.label == "Use in the calculator")
    button.click().run()
    taken = app.session_state["scenario"]
    assert taken.rates == pytest.approx(
        (0.8131428571428572, 0.5722857142857143, 0.3537142857142857)
    )
    assert (taken.gamma, taken.acceptance_source, taken.target_ms) == (3, "my_traffic", 40)
    assert any("Taken into the scenario" in box.value for box in app.success)


def test_markup_in_a_log_stays_text() -> None:
    app = opened({})
    app.text_area(key="log_text").set_value("![x](http://example.org/x.png) <b>y</b>").run()
    shown = app.error[0].value
    assert "![" not in shown
    assert "<b>" not in shown
