"""Every page wide and on a phone, light and dark: nothing hangs over, the answer is there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from driver import ANSWER, GAMMA, PHONE, QUESTIONS, WIDE, Visitor, until

from specmath.scenario import EXAMPLE, SPECS
from specmath.scenario.files import build, to_link
from specmath.scenario.forms import EXAMPLE_PAIR

pytestmark = pytest.mark.browser

OVERFLOWS = "document.documentElement.scrollWidth > window.innerWidth"
MAIN_WIDTH = "document.querySelector('[data-testid=stMain]').scrollWidth"
BACKGROUND = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"


# Both sizes and both colours; their other pairs are run with the slow tests.
LOOKS = [("wide", "light"), ("phone", "dark")], [("wide", "dark"), ("phone", "light")]


@pytest.mark.parametrize("stem", QUESTIONS)
@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(LOOKS[0], id="by day wide"),
        pytest.param(LOOKS[1], id="by night wide", marks=pytest.mark.slow),
    ],
)
def test_page_in_every_look(
    stem: str, looks: list[tuple[str, Literal["light", "dark"]]], visitor: Visitor, tmp_path: Path
) -> None:
    """The pictures lie in pytest's temporary folder, for eyes to judge the rest."""
    page = visitor.page
    page.emulate_media(color_scheme=looks[0][1])
    visitor.open(stem)
    until(lambda: _is_legible(visitor))  # charts keep the colours in which they were drawn
    top = page.get_by_test_id("stMain").inner_text().strip()
    assert top.startswith(QUESTIONS[stem]), "nothing stands above the question"
    for size, scheme in looks:
        viewport = {"wide": WIDE, "phone": PHONE}[size]
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme)
        until(lambda scheme=scheme: _is_painted(visitor, scheme))
        until(lambda viewport=viewport: _answer_fits(visitor, viewport))
        picture = tmp_path / f"{stem}-{size}-{scheme}.png"
        page.screenshot(path=picture)
        assert picture.stat().st_size > 10_000


def _answer_fits(visitor: Visitor, viewport: dict[str, int]) -> None:
    assert not visitor.page.evaluate(OVERFLOWS)
    assert visitor.page.evaluate(MAIN_WIDTH) <= viewport["width"]
    answer = visitor.page.locator(ANSWER).first
    box = answer.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= viewport["width"]
    assert box["y"] + box["height"] <= viewport["height"], "on the first screen"
    assert len(answer.inner_text()) > 40


FAINT = (Path(__file__).parent / "contrast.js").read_text("utf-8")


def _is_legible(visitor: Visitor) -> None:
    """Texts at 4.5:1 or more."""
    assert visitor.page.evaluate(FAINT) == []


HANGS_OVER = """
[...document.querySelectorAll('[data-testid=stMain] *')].filter(box => {
    for (let up = box.parentElement; up; up = up.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)
            && up.getBoundingClientRect().right <= window.innerWidth + 1
            && up.matches('table, [data-testid=stMarkdownContainer] *, .js-plotly-plot *,'
                + ' [data-testid=stDataFrame] *')) return false;
    return box.getBoundingClientRect().right > window.innerWidth + 1;
}).map(box => box.tagName)
"""


WATCH_SHIFTS = """
window.shifted = 0;
new PerformanceObserver(list => list.getEntries().forEach(one => window.shifted += one.value))
    .observe({type: 'layout-shift'});
"""


@pytest.mark.parametrize(("stem", "size"), [("what_if", WIDE), ("gamma", PHONE)])
def test_a_move_shifts_nothing_else(stem: str, size: dict[str, int], visitor: Visitor) -> None:
    """What stands on the screen stays where it is: layout shift below 0.05 a move."""
    visitor.page.set_viewport_size(size)
    visitor.open(stem)
    visitor.page.wait_for_timeout(500)  # the last of what was drawn on arrival
    visitor.page.evaluate(WATCH_SHIFTS)
    for gamma in ("3", "7"):
        visitor.type_number(GAMMA, gamma)
        until(lambda gamma=gamma: _is_gamma(visitor, int(gamma)))
        visitor.settle()
        visitor.page.wait_for_timeout(300)
        assert visitor.page.evaluate("window.shifted") < 0.05
        visitor.page.evaluate("window.shifted = 0")


def _is_gamma(visitor: Visitor, gamma: int) -> None:
    assert visitor.scenario().gamma == gamma


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["drafts", "batch", "tails", "capacity", "cost"])
def test_with_hardware_nothing_hangs_over_on_a_phone(stem: str, visitor: Visitor) -> None:
    """Wide tables scroll in their own box."""
    visitor.page.set_viewport_size(PHONE)
    visitor.open(stem, **to_link(build({"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR})))
    until(lambda: _hangs_over_nowhere(visitor))


def _hangs_over_nowhere(visitor: Visitor) -> None:
    assert not visitor.page.evaluate(OVERFLOWS)
    assert visitor.page.evaluate(HANGS_OVER) == []


TEXT_WIDTH = """
(box, text) => {
    const pen = document.createElement('canvas').getContext('2d');
    pen.font = getComputedStyle(box).font;
    return pen.measureText(text).width;
}
"""


def test_no_choice_of_the_scenario_bar_is_cut(visitor: Visitor) -> None:
    """Every option fits the narrowest select box it stands in at 1280 wide."""
    visitor.open("gamma", **to_link(EXAMPLE))
    boxes = {"acceptance_form": "workload", "verify_form": ""}
    for name, below in boxes.items():
        box = visitor.page.get_by_role("combobox", name=SPECS[name].title, exact=True)
        room = box.evaluate("box => box.clientWidth") - 16
        options = SPECS[name].choices + (SPECS[below].choices if below else ())
        for option in options:
            assert box.evaluate(TEXT_WIDTH, option.label) <= room, option.label


def _is_painted(visitor: Visitor, scheme: str) -> None:
    red = int(visitor.page.evaluate(BACKGROUND).split("(")[1].split(",")[0])
    assert (red > 128) == (scheme == "light")
