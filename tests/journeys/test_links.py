"""Links: the address restores the scenario, on a server that nobody has visited too."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from driver import ANSWER, EVIDENCE, GAMMA, QUESTIONS, Visitor, is_said, until
from playwright.sync_api import expect

from pages.ui.navigation import PAGES
from specmath.scenario.files import build, revised, to_link

pytestmark = pytest.mark.browser

SHARED = build(
    {
        "label": "Chat, 70B",
        "rates": "0.83,0.61,0.44",
        "gamma": 3,
        "target_ms": 31.5,
        "c": 0.08,
        "sigma": 0.1,
        "usd_per_hour": 3.2,
        "batch": 4,
    }
)
OTHERS = ("batch", "tails", "measure")
"""Pages to whose address another journey comes first on a server of its own: see their files."""
PLANNED = {page.stem for page in PAGES if page.plans}
PLACES = ["", *(stem for stem in QUESTIONS if stem not in OTHERS)]
"""The bare address, and that of each other page."""


@pytest.mark.parametrize(
    "stem",
    [pytest.param(stem, marks=() if stem == "gamma" else pytest.mark.slow) for stem in PLACES],
)
def test_first_visit_ever_by_a_link(stem: str, first_visitor: Visitor) -> None:
    """Each starts a server."""
    visitor = first_visitor
    visitor.open(stem, **to_link(SHARED))
    assert visitor.dialogs_seen() == []
    assert visitor.scenario() == SHARED
    if stem in PLANNED:  # it has no scenario to be seen: F5 keeps it all the same
        visitor.page.reload()
        visitor.arrived(stem)
        assert visitor.scenario() == SHARED
        return
    if stem in EVIDENCE:
        visitor.unfold("Scenario")
    expect(visitor.box(GAMMA)).to_have_value("3")
    rates = visitor.page.get_by_role("textbox", name="Rates, first position first")
    expect(rates).to_have_value("0.83,0.61,0.44")
    # And it can be used: the page is alive, not a picture of itself.
    visitor.type_number(GAMMA, "2")
    until(lambda: _gamma_is(visitor, 2))
    visitor.settle()
    visitor.page.reload()  # F5
    visitor.arrived(stem or "what_if")
    assert visitor.scenario() == revised(SHARED, {"gamma": 2})


def _gamma_is(visitor: Visitor, gamma: int) -> None:
    assert visitor.scenario().gamma == gamma


@pytest.mark.parametrize(
    "passed", [pytest.param(EVIDENCE, id="few"), pytest.param((), id="all", marks=pytest.mark.slow)]
)
def test_scenario_follows_through_the_pages(passed: Collection[str], visitor: Visitor) -> None:
    """To the pages that review, another journey of the default run takes each: see their files."""
    visitor.open("what_if", **to_link(SHARED))
    visitor.type_number(GAMMA, "2")
    mine = build(SHARED.model_dump(exclude_unset=True) | {"gamma": 2})
    is_said(visitor, mine)
    stems = [stem for stem in QUESTIONS if stem not in ("what_if", *passed)]
    for stem in (*stems, "what_if"):
        visitor.go_to(stem)
        is_said(visitor, mine)
        if stem not in EVIDENCE:
            expect(visitor.box(GAMMA)).to_have_value("2")
    visitor.page.reload()
    visitor.arrived("what_if")
    assert visitor.scenario() == mine
    # An edit is a step that "back" takes back, and "forward" brings again.
    visitor.type_number(GAMMA, "6")
    until(lambda: _gamma_is(visitor, 6))
    visitor.settle()
    visitor.page.go_back()
    is_said(visitor, mine)
    expect(visitor.box(GAMMA)).to_have_value("2")
    visitor.page.go_forward()
    expect(visitor.box(GAMMA)).to_have_value("6")
    until(lambda: _gamma_is(visitor, 6))


def _was_told(visitor: Visitor, text: str) -> None:
    assert text in visitor.dialogs_seen()[0]


def test_absurd_links_are_reported_and_the_rest_is_kept(visitor: Visitor) -> None:
    link = {"alpha": "7", "gamma": "3", "c": "0.1", "colour": "red", "overhead": "nan"}
    visitor.open("what_if", **link)
    for message in (
        "alpha must be a finite number ≥ 0 and ≤ 1, got 7",
        "unknown field colour",
        "overhead must be",
    ):
        visitor.says(message)
    expect(visitor.box(GAMMA)).to_have_value("3")
    assert visitor.scenario().c == 0.1
    # No answer for what stands in the place of what was not read, until somebody has looked.
    visitor.has_no_answer()
    seen = visitor.page.get_by_role("button", name="The inputs are right as they stand")
    visitor.press(seen, lambda: visitor.says("× faster"))
    # What a link says is shown as written: nothing in it is fetched, which `visitor` checks.
    image = "![x](http://192.0.2.1/x.png)"
    visitor.open("what_if", gamma="3", alpha=image, **{image: "1"})
    visitor.says(f"got {image}")
    visitor.says(f"unknown field {image}")
    # A page that never was: Streamlit says so and shows the first page.
    visitor.page.goto(f"{visitor.address}/nowhere?gamma=3&alpha=0.5&c=0.1")
    visitor.arrived("what_if")
    assert visitor.scenario().gamma == 3
    until(lambda: _was_told(visitor, "Page not found"))
    visitor.troubles[:] = [t for t in visitor.troubles if "does not seem to exist" not in t]


FOREIGN = (
    "www.a.example/x", "http://a.example/y", "HTTPS://a.example", "me@a.example", ":smile:",
    ":material/home:", ":red[x]", "<b>b</b>", "$x$", "&lt;i&gt;", "~~x~~", "`x`", "# x",
)  # fmt: skip
MARKED = """([selector, joiner]) => [...document.querySelectorAll(selector)].map(box => [
    box.innerText.replaceAll(joiner, ''),
    [...box.querySelectorAll('a, b, i, img, del, code, h1, .katex, [class*=Directive]')].length,
])"""


def test_foreign_text_is_shown_as_it_stands(visitor: Visitor) -> None:
    """Not as a link, an address, an icon, an emoji, mathematics or markup of any kind."""
    visitor.open("what_if", gamma="3", **{f"{text} ": "1" for text in FOREIGN})

    def check() -> None:
        boxes = visitor.page.evaluate(MARKED, [ANSWER, "\u2060"])
        ((seen, marked),) = [box for box in boxes if "unknown field" in box[0]]
        assert [text for text in FOREIGN if f"unknown field {text}" not in seen] == []
        assert marked == 0

    until(check)
