"""The page Read my log with every sample and capture pasted; no browser here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.command_line import invoked
from helpers.drifting import vllm_log
from streamlit.testing.v1 import AppTest

from specmath.logs import read
from specmath.tables.logs import reading_table

ROOT = Path(__file__).parents[1]
SAMPLES = sorted((ROOT / "tests" / "data" / "log_samples").rglob("*.*"))
HARDWARE = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B", "alpha": "0.7",
            "gamma": "3"}  # fmt: skip
UNKNOWN = {"acceptance_form": "range", "draft_form": "range", "gamma": "4"}


def opened(link: dict[str, str]) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=300)
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    app.switch_page("pages/logs.py")
    return app.run()


@pytest.mark.parametrize(
    "link",
    [
        {},
        pytest.param(HARDWARE, marks=pytest.mark.slow),
        pytest.param(UNKNOWN, marks=pytest.mark.slow),
    ],
    ids=["example", "hardware", "unknown"],
)
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
    assert (taken.gamma, taken.acceptance_source, taken.target_ms) == (3, "my_traffic", None)
    assert any("Taken into the scenario" in box.value for box in app.success)


def test_a_plain_run_before_and_costs_that_nobody_gave() -> None:
    """Both captures of one llama.cpp server; the scenario is still the example."""
    app = opened({})
    folder = ROOT / "tests/data/log_samples/captured_llamacpp"
    for side, name in (("before", "log_none.txt"), ("after", "log_draftself.txt")):
        app.text_area(key=f"review_{side}").set_value((folder / name).read_text("utf-8"))
    app.text_area(key="log_text").set_value(
        (folder.parent / "llamacpp_server_log_2026-08.txt").read_text("utf-8")
    )
    app.run()
    page = shown(app)
    assert "Roll back to plain decoding: this is 67% slower." in page
    assert "draft cost unknown" in page
    assert "still the example's, so it is not used here" in page
    # The way into the calculator says what it cannot hold.
    assert "The log tells of γ=4 only" in page


def test_a_plan_is_a_before_and_decides_as_the_command_line_does(tmp_path: Path) -> None:
    plan, bench = str(tmp_path / "rollout.toml"), ROOT / "tests/data/log_samples"
    after = bench / "vllm_bench_serve_result.json"
    given = ("--alpha", "0.7", "--gamma", "3", "--c", "0.3", "--target-ms", "12", "--write", plan)
    assert invoked("rollout", *given).exit_code == 0
    app = opened({})
    for side, path in (("before", Path(plan)), ("after", after)):
        app.text_area(key=f"review_{side}").set_value(path.read_text("utf-8"))
    app.run()
    assert not app.exception
    headline = invoked("review", plan, str(after)).stdout.splitlines()[0]
    assert headline.startswith("Keep it: 2.25")
    assert headline in shown(app)
    (row,) = re.findall(r"\| Tokens.per.step \|[^\n]*", shown(app))
    assert row == "| Tokens per step | 1.00 | 2.53 | 2.74 | no |"
    app.text_area(key="review_before").set_value('specmath_rollout = "1"\n[scenario]\nalpha = 7\n')
    app.run()
    assert not app.exception
    assert any("alpha" in box.value for box in app.error)


def test_what_was_read_is_one_table_on_the_page_and_in_the_terminal() -> None:
    path = ROOT / "tests/data/log_samples/vllm_bench_serve_result.json"
    (reading,) = read(path)
    app = opened({})
    app.text_area(key="log_text").set_value(path.read_text("utf-8")).run()
    page, printed = shown(app), invoked("logs", str(path)).stdout
    shown_table = reading_table(reading)
    assert shown_table is not None
    rows = shown_table.rows()
    assert [row["value"] for row in rows[:3]] == [
        reading.steps, reading.drafted, reading.accepted
    ]  # fmt: skip
    for row in rows:
        assert f"| {row['what']} | " in page
        assert str(row["what"]) in printed
    assert "mean_tpot_ms" in printed


def test_markup_in_a_log_stays_text() -> None:
    app = opened({})
    app.text_area(key="log_text").set_value("![x](http://example.org/x.png) <b>y</b>").run()
    shown = app.error[0].value
    assert "![" not in shown
    assert "<b>" not in shown


def shown(app: AppTest) -> str:
    """Everything the page says, without the escapes of markdown."""
    kinds = (app.error, app.success, app.warning, app.markdown, app.caption, app.code)
    text = "\n".join(box.value for kind in kinds for box in kind)
    return re.sub(r"\\(.)", r"\1", text.replace("\u00a0", " "))


def dumps() -> tuple[str, str]:
    folder = ROOT / "tests/data/log_samples"
    first, second = ((folder / f"vllm_v1_prometheus_t{i}.txt").read_text("utf-8") for i in (0, 1))
    return first, second


@pytest.mark.parametrize(
    ("baseline", "current", "says"),
    [
        (vllm_log([0.7] * 40), vllm_log([0.7] * 20 + [0.5] * 20), "fallen: 1.70 → 1.50"),
        (vllm_log([0.7] * 40), vllm_log([0.7] * 40), "No fall beyond chance"),
        (vllm_log([0.7] * 4), vllm_log([0.7] * 4), "windows are needed"),
        (*dumps(), "design effect"),
    ],
    ids=["fallen", "steady", "short", "totals"],
)
def test_drift_says_what_the_command_line_says(
    tmp_path: Path, baseline: str, current: str, says: str
) -> None:
    """Every line that `logs drift` prints stands on the page, word for word."""
    app = opened({})
    for key, text in (("drift_baseline", baseline), ("drift_current", current)):
        app.text_area(key=key).set_value(text)
        (tmp_path / key).write_text(text, "utf-8")
    app.run()
    assert [box.value for box in app.exception] == []
    files = [str(tmp_path / name) for name in ("drift_baseline", "drift_current")]
    printed = invoked("logs", "drift", *files).stdout  # no cost of the example in either
    lines = [line.strip().removeprefix("- ") for line in printed.splitlines() if line.strip()]
    page = shown(app)
    assert says in page
    assert [line for line in lines if line not in page] == []


def test_a_design_effect_turns_totals_into_an_assumed_answer() -> None:
    app = opened({})
    for key, text in zip(("drift_baseline", "drift_current"), dumps(), strict=True):
        app.text_area(key=key).set_value(text)
    app.run()
    assert "Cannot tell" in shown(app)
    app.number_input(key="drift_effect").set_value(2.0).run()
    assert "with a design effect of 2.00, which is assumed" in shown(app)
