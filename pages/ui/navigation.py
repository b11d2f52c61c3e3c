"""The pages by section; the question that a page answers is its title."""

from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.navigation.page import StreamlitPage


@dataclass(frozen=True)
class Page:
    """One page: its file and address, the question it answers, its icon."""

    stem: str
    question: str
    icon: str
    section: str
    plans: bool = False
    """Whether it is of a plan, not of the scenario."""

    @property
    def own_inputs(self) -> bool:
        """Pages that bring their own inputs: the scenario stays collapsed there."""
        return self.plans or self.section == "Evidence"


PAGES = (
    Page("what_if", "Should I turn it on?", "toggle_on", "Explore"),
    Page("gamma", "How many tokens to draft?", "tune", "Explore"),
    Page("drafts", "Which draft?", "compare", "Explore"),
    Page("batch", "Where does load kill it?", "speed", "Plan"),
    Page("tails", "Slow requests (p99)", "hourglass_bottom", "Plan"),
    Page("traffic", "Which endpoints?", "lan", "Plan", plans=True),
    Page("capacity", "How many GPUs?", "dns", "Plan"),
    Page("cost", "What will it cost?", "payments", "Plan"),
    Page("measure", "Measure", "straighten", "Evidence"),
    Page("logs", "Read my log", "receipt_long", "Evidence"),
    Page("published", "How accurate is this?", "fact_check", "Evidence"),
)


FIRST = PAGES[0]


def _streamlit_page(page: Page, **address: Any) -> StreamlitPage:
    icon = f":material/{page.icon}:"
    return st.Page(f"pages/{page.stem}.py", title=page.question, icon=icon, **address)


def sections() -> dict[str, list[StreamlitPage]]:
    """The navigation: section → its pages.

    `url_path` equals the stem: the address of a first deep link is then the page's own. The first
    page lives at the bare address, so its stem is a second, hidden way to it.
    """
    found = {FIRST.section: [_streamlit_page(FIRST, url_path="start", default=True)]}
    for page in PAGES[1:]:
        found.setdefault(page.section, []).append(_streamlit_page(page, url_path=page.stem))
    found[FIRST.section].append(_streamlit_page(FIRST, url_path=FIRST.stem, visibility="hidden"))
    return found


def page_of(chosen: StreamlitPage) -> Page:
    """Our record of the page that navigation chose; the default page's address is empty."""
    return next(p for p in PAGES if p.question == chosen.title)
