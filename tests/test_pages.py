"""Every page's script runs, with the example and with what a link may say; no browser here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.navigation import PAGES
from specmath.scenario import EXAMPLE
from specmath.scenario.files import to_link

ROOT = Path(__file__).parents[1]
STEMS = [page.stem for page in PAGES]
LINKS: dict[str, dict[str, str]] = {
    "example": {},
    "alpha 0": {"alpha": "0", "gamma": "4", "c": "0.1"},
    "alpha 1, c 0": {"alpha": "1", "gamma": "16", "c": "0"},
    "gamma 0": {"alpha": "0.7", "gamma": "0", "c": "0.1", "target_ms": "30"},
    "gamma 1000": {"alpha": "0.99", "gamma": "1000", "c": "0.001"},
    "rates": {"rates": "0.8,0.6,0.4", "gamma": "7", "target_ms": "40", "draft_ms": "5"},
    "mixture": {"mixture": "0.5:0.9,0.5:0.4", "gamma": "4", "c": "0.05"},
    "nothing known": {"acceptance_form": "range", "draft_form": "range", "gamma": "4"},
    "compute-bound": {"alpha": "0.8", "gamma": "4", "c": "0.1", "sigma": "1", "target_ms": "9"},
    "demand": {"alpha": "0.8", "gamma": "4", "c": "0.1", "target_ms": "9",
               "demand_tokens_per_second": "100000"},
    "measured curve": {"alpha": "0.8", "gamma": "2", "c": "0.1", "target_ms": "9",
                       "verify_costs": "1.6,1.9,1.5"},
    "a band": {"acceptance_form": "range", "work": "code", "gamma": "6", "gpu": "H100 SXM",
               "model": "Llama-3.1-8B", "draft": "eagle3", "batch": "4"},
    "nobody's": {"acceptance_form": "range", "work": "json", "gpu": "H100 SXM",
                 "model": "Llama-3.1-8B", "draft": "layer_skip"},
    "a module past its depth": {"alpha": "0.8", "gamma": "3", "gpu": "H200 SXM", "draft": "mtp",
                                "model": "DeepSeek-V3", "tensor_parallel": "8"},
}  # fmt: skip
BAD_LINKS = {
    "alpha": "7", "gamma": "-1", "c": "nan", "sigma": "inf", "rates": "0.2,0.9",
    "batch": "0", "usd_per_hour": "free", "acceptance_form": "guess", "colour": "red",
    "v": "99", "label": "\u0000",
}  # fmt: skip


def run(stem: str, link: dict[str, str]) -> AppTest:
    """The page's script, as the first visit of a link."""
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    for name, value in link.items():
        app.query_params[name] = value
    # The page that the address names; AppTest switches pages only once the app has run.
    app.run()
    if stem != "what_if":
        app.switch_page(f"pages/{stem}.py")
        app.run()
    return app


def opens(app: AppTest, stem: str) -> None:
    assert [box.value for box in app.exception] == []
    question = next(page.question for page in PAGES if page.stem == stem)
    assert [head.value for head in app.header] == [question]


OFTEN = {"example", "nothing known", "measured curve"}
"""Links that every page is opened with by default; the first page is opened with all, and at
length every page that shows an answer."""
ANSWERED = {page.stem for page in PAGES if not page.own_inputs}


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        pytest.param(stem, name, marks=() if often else pytest.mark.slow, id=f"{stem}-{name}")
        for stem in STEMS
        for name in LINKS
        if stem in ANSWERED or name in OFTEN
        for often in [stem == "what_if" or name in OFTEN]
    ],
)
def test_every_page_opens(stem: str, name: str) -> None:
    app = run(stem, LINKS[name])
    opens(app, stem)
    faults = [box.value for box in (*app.error, *app.warning) if "got " in box.value]
    assert faults == []
    # Something stands below the title and the inputs: an answer, or what to give for one.
    assert len(app.main) > 2


@pytest.mark.parametrize("name", BAD_LINKS)
def test_a_bad_value_in_a_link_is_named_and_the_page_lives(name: str) -> None:
    given = {"alpha": "0.7", "gamma": "3", "c": "0.1"} | {name: BAD_LINKS[name]}
    app = run("what_if", given)
    opens(app, "what_if")
    # The page shows it as written: marks of markdown are escaped.
    said = " ".join(box.value for box in app.warning).replace("\\", "")
    word = {"v": "link version", "colour": "colour"}.get(name, name)
    assert word in said
    # What the link gives otherwise is kept.
    kept: dict[str, Any] = {"gamma": 3, "alpha": 0.7, "c": 0.1}
    halves = {"rates": "alpha", "acceptance_form": "alpha"}
    for field in kept.keys() - {name, halves.get(name)}:
        assert getattr(app.session_state["scenario"], field) == kept[field], field


@pytest.mark.parametrize("stem", STEMS)
def test_all_bad_values_together_keep_every_page_alive(stem: str) -> None:
    app = run(stem, BAD_LINKS)
    opens(app, stem)


@pytest.mark.parametrize(
    ("link", "left"),
    [
        ({}, {"draft cost"}),
        (to_link(EXAMPLE), {"acceptance", "draft cost", "target time"}),
        ({"alpha": "0.7", "gamma": "3"}, {"draft cost", "target time"}),
        ({"alpha": "0.7", "gamma": "3", "target_ms": "30", "draft_ms": "3"}, set()),
    ],
)
def test_what_nobody_gave_is_still_called_the_examples(
    link: dict[str, str], left: set[str]
) -> None:
    app = run("what_if", link)
    assert app.session_state["examples"] == left
    if left == {"acceptance", "draft cost", "target time"}:
        box = next(b for b in app.number_input if b.label == "Draft (ms)")
        box.set_value(4.0).run()
        assert app.session_state["examples"] == {"acceptance", "target time"}
