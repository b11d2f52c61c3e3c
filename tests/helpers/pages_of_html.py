"""A page of HTML as a reader finds it: its tags, its tables, its texts."""

from __future__ import annotations

from html.parser import HTMLParser

Cell = tuple[str, str]
"""The value, and the small text below it."""

VOID = frozenset({"meta", "br", "img", "input", "link", "hr"})


class Page(HTMLParser):
    """Every tag with its attributes in order; of each table, by its class, rows of cells by the
    column that they are of; the texts of each kind of tag."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.tables: dict[str, list[list[dict[str, Cell]]]] = {}
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self._table = ""
        self._column: str | None = None
        self.feed(page.decode("utf-8"))
        self.close()
        assert self._open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag in VOID:
            return
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")
        if tag == "table":
            self._table = given["class"]
            self.tables.setdefault(self._table, []).append([])
        if tag == "td":
            self._column = given["data-column"]
            rows = self.tables[self._table][-1]
            if not rows or self._column in rows[-1]:
                rows.append({})
            rows[-1][self._column] = ("", "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "td":
            self._column = None

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.texts[tag][-1] += data
        if self._column is not None:
            row = self.tables[self._table][-1][-1]
            value, span = row[self._column]
            small = self._open[-1] == "small"
            row[self._column] = (value, span + data) if small else (value + data, span)

    def rows(self, table: str, which: int = 0) -> list[dict[str, Cell]]:
        return self.tables[table][which]


def number(text: str) -> float:
    """As it reads: "−1,234.5"."""
    return float(text.replace(",", "").replace("\u2212", "-"))


def ends(text: str) -> tuple[float, float]:
    """ "1.2 to 3.4"."""
    low, high = text.replace("\u00a0", " ").split(" to ")
    return number(low), number(high)
