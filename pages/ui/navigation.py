"""The pages by section; the question that a page answers is its title."""

from dataclasses import dataclass

import streamlit as st
from streamlit.navigation.page import StreamlitPage


@dataclass(frozen=True)
class Page:
    """One page: its file and address, the question it answers, its icon."""

    stem: str
    question: str
    icon: str
    section: str

    @property
    def evidence(self) -> bool:
        """Evidence pages bring their own inputs: the scenario stays collapsed there."""
        return self.section == "Evidence"


PAGES = (
    Page("what_if", "Should I turn it on?", "toggle_on", "Explore"),
    Page("gamma", "How many tokens to draft?", "tune", "Explore"),
    Page("drafts", "Which draft?", "compare", "Explore"),
    Page("cost", "Cost", "payments", "Plan"),
)


def _streamlit_page(page: Page) -> StreamlitPage:
    # url_path equals the stem: the address of a first deep link is then this page's own.
    return st.Page(
        f"pages/{page.stem}.py",
        title=page.question,
        icon=f":material/{page.icon}:",
        url_path=page.stem,
        default=page.stem == "what_if",
    )


def sections() -> dict[str, list[StreamlitPage]]:
    """The navigation: section → its pages."""
    found: dict[str, list[StreamlitPage]] = {}
    for page in PAGES:
        found.setdefault(page.section, []).append(_streamlit_page(page))
    return found


def page_of(chosen: StreamlitPage) -> Page:
    """Our record of the page that navigation chose; the default page's address is empty."""
    return next(p for p in PAGES if p.question == chosen.title)
