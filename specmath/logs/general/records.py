"""Names beside numbers: pairs of a line, a block of lines, a JSON object, a metrics page, a table.

A record is what was printed together; what its names mean is decided elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from specmath.logs.general.names import name_of
from specmath.logs.stream import LogLine

__all__ = ["Cell", "Record", "Records", "json_record"]

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,15})?(?:[eE][-+]?\d{1,2})?"
_SPEEDS = r"(?:tok(?:en)?s?|t)\s?/\s?s(?:ec(?:ond)?)?|tokens per second|tps"
_UNIT = rf"(?:\s?(?P<unit>%|{_SPEEDS}|ms|[xX×](?![A-Za-z0-9]))(?!\s?[=:]))?"
_VALUE = re.compile(rf"(?P<number>{NUMBER})(?![\w.]*[A-Za-z_]\w*[=:])(?!\w*\d*:\d){_UNIT}")
# A name of a few words, then = or :, then a number (or a list of them).
_PAIR = re.compile(
    r"(?P<name>[A-Za-z#τγ][\w#./@%()γτ-]*(?: [\w#./@%()γτ-]{1,30}){0,5}?)\s{0,12}[=:]\s{0,40}"
    r"(?=[-+]?\d|[(\[]\s?[-+]?\d)"
)
_LIST = re.compile(rf"[(\[]\s?({NUMBER}\s?%?(?:[ ,;]{{1,3}}{NUMBER}\s?%?){{1,63}})\s?[)\]]")
_SPEED = re.compile(rf"(?P<number>{NUMBER})\s?(?P<unit>{_SPEEDS})(?![A-Za-z])")
_BEFORE = re.compile(
    rf"(?<![\w.=])(?P<number>{NUMBER}) (?P<name>(?:draft |drafted |spec )?tokens (?:accepted"
    r"|drafted|proposed|rejected|generated)|accepted(?: tokens)?|draft(?:ed)?(?: tokens)|drafted"
    r"|proposed|rejected|(?:verify |spec |target )?(?:steps|rounds|passes|iterations)"
    r"|tok(?:en)?s?\s?(?:/|per)\s?(?:step|pass|verify|forward|round))\b(?!\s?[=:])"
)
_SHARE = re.compile(rf"\(\s?(?P<number>{NUMBER})\s?(?P<unit>%)\s?\)")
_OF = re.compile(rf"\s?(?:/|of|out of)\s?(?P<number>{NUMBER})(?![\w.%])")
_IN_BRACKETS = re.compile(rf"\s?(?:\w{{1,12}} ){{0,3}}\(\s?(?P<number>{NUMBER})\s?%\)")
_SAMPLE = re.compile(
    rf"(?P<name>[A-Za-z_:][\w:]{{1,120}}\w)(?:\{{(?P<labels>[^{{}}]{{0,400}})\}})?\s+"
    rf"(?P<number>{NUMBER})(?:\s+\d{{10,13}})?$"
)
_LABEL = re.compile(r'(\w{1,40})="([^"]{0,120})"')
_PLACES = ("position", "pos", "depth", "token_position", "index", "idx", "level", "head")
_QUOTIENT = re.compile(r"[,;]\s?(?P<number>\d{1,4}\.\d{1,17})\s?$")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_RUST = re.compile(r"\b([a-z][a-z0-9_]{1,30})::")
_RULE = re.compile(r"[-=+|:_*━─═┄│┃┏┓┗┛┡┩├┤┼╇┳┻╋╭╮╰╯┌┐└┘┬┴╞╡╪ ]*$")
_BARS = re.compile(r"[|│┃]")
_FENCE = re.compile(r"\s{2,}")
_CELL = re.compile(
    rf"[~≈]?\s?(?P<number>{NUMBER}){_UNIT}(?:\s?(?:/|of)\s?(?P<of>{NUMBER}))?(?:\s?\(.{{0,20}}\))?$"
)
LONGEST = 4000
MOST_LINES = 60
MOST_ROWS = 512
MOST_COLUMNS = 40


@dataclass(frozen=True)
class Cell:
    """A number as printed: half of its last digit, its unit, and what it stands `over` ("538/660"
    is 538 over 660); `many` where the name has a list."""

    name: str
    value: float
    half: float = 0.0
    unit: str = ""
    over: float | None = None
    many: tuple[float, ...] = ()


@dataclass
class Record:
    """Cells printed together; `text` is what names the engine and the drafter.

    `beside`: cells of the lines just above. `used` is set by whoever made counts of a line: its
    cells are then not offered again in a block.
    """

    kind: str
    at: LogLine
    cells: list[Cell] = field(default_factory=list)
    text: str = ""
    engine: str | None = None
    label: str = ""
    beside: list[Cell] = field(default_factory=list)
    used: bool = False

    def add(self, *cells: Cell) -> None:
        """Add cells of a name and value that are not there yet."""
        self.cells += [cell for cell in cells if cell not in self.cells]


def cell_of(name: str, number: str, unit: str | None = None, over: str | None = None) -> Cell:
    """The cell of a printed number."""
    digits = number.replace(",", "")
    mantissa = digits.lower().split("e")[0]
    places = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0**-places if "." in mantissa else 0.0
    unit = (unit or "").replace(" ", "")
    return Cell(
        name.strip(), float(digits), half, unit, float(over.replace(",", "")) if over else None
    )


def line_cells(text: str) -> list[Cell]:
    """The pairs of a line of text: name=1, name: 1, 1 accepted, 98.5 tok/s."""
    cells: list[Cell] = []
    taken: list[tuple[int, int]] = []

    def free(start: int, end: int) -> bool:
        return all(end <= first or last <= start for first, last in taken)

    for found in _BEFORE.finditer(text):
        cells.append(cell_of(found["name"], found["number"]))
        taken.append(found.span())
    for pair in _PAIR.finditer(text):
        name, end = pair["name"], pair.end()
        if several := _LIST.match(text, end):
            many = tuple(_list(several[1]))
            cells.append(Cell(name, many[0], unit="%" if "%" in several[1] else "", many=many))
            taken.append((pair.start(), several.end()))
            continue
        value = _VALUE.match(text, end)
        if value is None or not free(*value.span("number")):
            continue
        over = _OF.match(text, value.end())
        over = over if over and free(*over.span("number")) else None
        cells.append(cell_of(name, value["number"], value["unit"], over and over["number"]))
        stop = over.end() if over else value.end()
        if share := _IN_BRACKETS.match(text, stop):
            cells.append(cell_of(f"{name} rate", share["number"], "%"))
            stop = share.end()
        taken.append((pair.start(), stop))
    for found in _SPEED.finditer(text):
        if free(*found.span()):
            plain = re.search(r"(?:without|no|plain|baseline)\b[^,;]{0,20}$", text[: found.start()])
            cells.append(cell_of("plain tok/s" if plain else "tok/s", found["number"]))
            taken.append(found.span())
    for pattern in (_SHARE, _QUOTIENT) if cells else ():
        for found in pattern.finditer(text):
            if free(*found.span("number")):
                bare = cell_of("", found["number"], "%" if pattern is _SHARE else None)
                # A quotient without a name is one as a program computed it, to the last digit.
                exact = replace(bare, half=1e-9 * bare.value)
                cells.append(bare if pattern is _SHARE else exact)
    return cells


def _list(text: str) -> Iterator[float]:
    for number in re.findall(NUMBER if "," not in text else r"\d+(?:\.\d+)?", text):
        yield float(number)


def json_cells(value: object, path: str = "", depth: int = 0) -> Iterator[Cell]:
    """The numbers of a JSON object by their path, its innermost name last."""
    if depth > 6:
        return
    items: Iterable[tuple[str, object]] = value.items() if isinstance(value, dict) else ()
    for key, inner in items:
        name = f"{path} {key}".strip() if key.isdigit() or len(key) < 3 else str(key)
        if isinstance(inner, bool):
            continue
        if isinstance(inner, (int, float)):
            if abs(inner) < 1e15:
                yield cell_of(name, repr(inner)) if inner == inner else Cell(name, 0.0)
        elif isinstance(inner, list):
            many = [v for v in inner[:256] if isinstance(v, (int, float)) and abs(v) < 1e15]
            if len(many) == len(inner[:256]) and len(many) > 1:
                yield Cell(name, float(many[0]), many=tuple(map(float, many)))
        elif isinstance(inner, dict):
            yield from json_cells(inner, name, depth + 1)
        elif isinstance(inner, str) and (found := _CELL.match(inner.strip())):
            yield cell_of(name, found["number"], found["unit"], found["of"])


class Records:
    """Records of the lines given, in order; bounded by what a block or a table may hold."""

    def __init__(self) -> None:
        self._block: Record | None = None
        self._idle = 0
        self._head: list[str] | None = None
        self._bars = ""
        self._rows: list[tuple[LogLine, list[str]]] = []
        self._title = ""
        self._open: list[str] | None = None
        self._open_at: LogLine | None = None
        self._depth = 0
        self.pages: dict[tuple[str, str], list[Record]] = {}

    def line(self, text: str, at: LogLine) -> Iterator[Record]:
        """Take one line; the records that it ends."""
        stripped = text.strip()
        if self._open is not None:
            yield from self._json(text, at)
            return
        if not stripped or len(stripped) > LONGEST:
            self._idle += 1
            if self._idle > 1 or self._rows:
                yield from self.end()
            return
        if _RULE.match(stripped):
            return
        if stripped.endswith(("{", "[")) and len(stripped) < 60:
            self._open, self._open_at, self._depth = [stripped[-1]], at, 1
            return
        if stripped.startswith("{") and (value := _object(stripped)) is not None:
            yield json_record(value, at)
            return
        if sample := _SAMPLE.match(stripped):
            self._sample(sample, at)
            return
        yield from self._text(stripped, at)

    def _text(self, text: str, at: LogLine) -> Iterator[Record]:
        columns = _split(text)
        if self._head is not None:
            if columns and len(columns) == len(self._head):
                if len(self._rows) < MOST_ROWS:
                    self._rows.append((at, columns))
                return
            yield from self._table()
        cells = line_cells(text)
        if columns and len(cells) < 2 and _heads(columns):
            yield from self.end(title=False)
            self._head = columns
            return
        if cells:
            if len(cells) > 1:
                line = Record("line", at, cells, text, engine_in(text))
                if self._block:
                    line.beside = self._block.cells
                yield line
                if line.used:
                    self._block = None
                    return
            names = {cell.name for cell in self._block.cells} if self._block else set()
            if self._block and (
                (names & {cell.name for cell in cells} and len(cells) < 3)
                or len(self._block.cells) > MOST_LINES
            ):
                yield self._block
                self._block = None
            if self._block is None:
                self._block = Record("block", at)
            self._block.add(*cells)
            self._block.text = f"{self._block.text} {text}"[:LONGEST]
            self._block.engine = self._block.engine or engine_in(text)
            self._idle = 0
            return
        self._idle += 1
        self._title = text[:200]
        if self._idle > 3:
            yield from self.end(title=False)

    def _json(self, text: str, at: LogLine) -> Iterator[Record]:
        if self._open is None or self._open_at is None:
            return
        self._open.append(text)
        bare = _STRING.sub("", text)
        self._depth += sum(map(bare.count, "{[")) - sum(map(bare.count, "}]"))
        if self._depth <= 0:
            value, place = _object("\n".join(self._open)), self._open_at
            lines, self._open = self._open, None
            if value is not None:
                yield json_record(value, place)
                return
            for number, line in enumerate(lines):
                yield from self._text(line.strip(), place._replace(line=place.line + number))
        elif len(self._open) > 2000:
            self._open = None

    def _sample(self, sample: re.Match[str], at: LogLine) -> None:
        labels = dict(_LABEL.findall(sample["labels"] or ""))
        if "le" in labels or "quantile" in labels or sample["name"].endswith("_created"):
            return
        place = next((labels.pop(key) for key in _PLACES if key in labels), "")
        name = sample["name"].removesuffix("_total")
        family = prefix_of(name)
        rest = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        scrapes = self.pages.setdefault((family, rest), [Record("metrics", at, label=rest)])
        if len(self.pages) > 1000:
            self.pages.popitem()
            return
        words = name.removeprefix(family).strip("_:") or name
        cell = cell_of(f"{words} {place}".strip(), sample["number"])
        if any(cell.name == old.name for old in scrapes[-1].cells):
            scrapes.append(Record("metrics", at, label=rest))
            if len(scrapes) > 3:
                del scrapes[1:-2]
        scrapes[-1].add(cell)
        scrapes[-1].text = f"{name} {rest}"
        scrapes[-1].engine = labels.get("engine_name") or family.strip("_:").replace("_", "-")

    def end(self, *, title: bool = True) -> Iterator[Record]:
        """What is still open."""
        yield from self._table()
        if self._block is not None:
            yield self._block
        self._block, self._idle = None, 0
        if title:
            self._title = ""

    def _table(self) -> Iterator[Record]:
        head, rows, self._head, self._rows = self._head, self._rows, None, []
        if head is None or not rows:
            return
        yield from table_records(head, rows, self._title)


def _split(text: str) -> list[str] | None:
    """The columns of a row: between bars, commas or gaps of two blanks; None below three."""
    if len(_BARS.findall(text)) >= 2:
        cells = _BARS.split(text)
        cells = cells[1 if not cells[0].strip() else 0 :]
        cells = cells[: -1 if cells and not cells[-1].strip() else None]
    elif text.count(",") >= 2 and "=" not in text and ": " not in text:
        cells = text.split(",")
    elif "\t" in text:
        cells = text.split("\t")
    else:
        cells = _FENCE.split(text)
    cells = [cell.strip(" *`\"'") for cell in cells]
    return cells if 2 <= len(cells) <= MOST_COLUMNS and any(cells) else None


def _heads(columns: Sequence[str]) -> bool:
    """Whether these are the names of a table's columns: two of this field, or names and values."""
    if any(map(_CELL.match, columns[1:])) or max(map(len, columns)) > 60:
        return False
    meant = sum(bool(name_of(name).meanings) for name in columns)
    return meant >= 2 or columns[0].lower() in _NAMES_A_ROW


_NAMES_A_ROW = frozenset(["metric", "metrics", "name", "statistic", "stat", "measure", "key"])
_VALUES = ("avg", "mean", "average", "value", "total", "result")


def table_records(
    head: Sequence[str], rows: Sequence[tuple[LogLine, list[str]]], title: str
) -> Iterator[Record]:
    """A record a row; or one of all rows, where their first cells are the names."""
    lower = [name.lower() for name in head]
    meant = sum(bool(name_of(name).meanings) for name in head[1:])
    upright = lower[0] in _NAMES_A_ROW and meant < 2
    value = next((lower.index(name) for name in _VALUES if name in lower), None)
    if upright and value is None:
        plain = [i for i, name in enumerate(lower) if re.search("base|plain|vanilla|without", name)]
        value = next((i for i in range(1, len(head)) if i not in plain), 1)
    if upright and value is not None:
        one = Record("block", rows[0][0], text=f"{title} {' '.join(head)}")
        for _, cells in rows:
            if found := _CELL.match(cells[value]):
                one.add(cell_of(cells[0], found["number"], found["unit"], found["of"]))
        yield one
        return
    for at, cells in rows:
        text = f"{title} {' '.join(head)} {' '.join(cells)}"
        row = Record("row", at, text=text[:LONGEST], label=cells[0])
        for name, text in zip(head, cells, strict=True):
            if not name:
                continue
            if found := _CELL.match(text):
                row.add(cell_of(name, found["number"], found["unit"], found["of"]))
            elif len(numbers := re.findall(r"\d+(?:\.\d+)?%?", text)) > 1:
                many = tuple(float(number.rstrip("%")) for number in numbers)
                unit = "%" if "%" in text else ""
                if re.fullmatch(r"[\d.%,;/() ]+", text):
                    row.add(Cell(name, many[0], unit=unit, many=many))
        yield row


def json_record(value: object, at: LogLine) -> Record:
    """The record of a JSON object; a key that says the engine names it."""
    record = Record("json", at)
    record.add(*json_cells(value))
    if isinstance(value, dict):
        names = (value.get(key) for key in ("engine", "backend", "server", "framework"))
        record.engine = next((n[:40] for n in names if isinstance(n, str) and n), None)
        record.text = " ".join(str(key) for key in value)[:LONGEST]
    return record


def _object(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def prefix_of(metric: str) -> str:
    """What stands in a metric's name before its words of speculation."""
    found = re.search(r"_?(?:spec(?:ulative)?|draft|accept|mtp|eagle|verify)", metric)
    if ":" in metric:
        return metric[: metric.index(":") + 1]
    return metric[: found.start()] + "_" if found and found.start() else ""


def engine_in(text: str) -> str | None:
    """The program that a line names: a Rust path, a component or engine field."""
    if found := re.search(r"\b(?:component|engine|backend)[=:]\s?\"?([A-Za-z][\w.-]{1,30})", text):
        return found[1]
    found = _RUST.search(text)
    return found[1].replace("_", "-") if found else None
