"""A table over γ by plain sums with its formulas, text that a spreadsheet might run, cells read."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest

from specmath.tables.table import Cell, Chart, Column, Input, Table

MAX_GAMMA = 8


def brute_force(alpha: float, c: float, sigma: float) -> dict[str, list[Cell]]:
    """The γ table by plain sums: no closed form, no formula of the library."""
    out: dict[str, list[Cell]] = {}
    for gamma in range(MAX_GAMMA + 1):
        survival = [math.prod([alpha] * i) for i in range(gamma + 1)]
        tau = math.fsum(survival)
        cost = 1 + sigma * gamma + gamma * c if gamma else 1.0
        row = {
            "gamma": gamma,
            "survival": survival[-1],
            "tokens_per_step": tau,
            "accepted_share": (tau - 1) / gamma if gamma else None,
            "step_cost": cost,
            "speedup": tau / cost,
            "is_faster": tau > cost * (1 + 1e-9),
        }
        for name, value in row.items():
            out.setdefault(name, []).append(value)
    return out


FORMULAS: dict[str, tuple[str | None, str | None]] = {
    "gamma": (None, None),
    "survival": ("1", "{survival^}*{alpha}"),
    "tokens_per_step": ("1", "{tokens_per_step^}+{survival}"),
    "accepted_share": (None, "({tokens_per_step}-1)/{gamma}"),
    "step_cost": ("1", "1+{sigma}*{gamma}+{gamma}*{c}"),
    "speedup": ("{tokens_per_step}/{step_cost}",) * 2,
    "is_faster": ("{tokens_per_step}>{step_cost}*1.000000001",) * 2,
}


def gamma_table(
    alpha: float = 0.8, c: float = 0.05, sigma: float = 0.125, text: str = "assumed"
) -> Table:
    """An i.i.d. table over γ; `text` is user text in every place that takes some."""
    values = brute_force(alpha, c, sigma)
    columns = tuple(
        Column(
            name,
            text if name == "survival" else name.title(),
            "tokens" if name == "gamma" else "",
            f"{name}, from sums",
            tuple(values[name]),
            (first, *(rest,) * MAX_GAMMA),
            '0.00"×"' if name == "speedup" else "",
        )
        for name, (first, rest) in FORMULAS.items()
    )
    note = Column("note", text, text, text, (text,) * (MAX_GAMMA + 1), source=text)
    inputs = (
        Input("alpha", "α", "", "accepted given all before were", alpha),
        Input("c", text, text, "one draft forward / one target forward", c, source=text),
        Input("sigma", "σ", "", "0 memory-bound, 1 compute-bound", sigma),
        Input("price", "GPU price", "USD per hour", "not known", None),
        Input("gpu", "GPU", "", "name", text),
    )
    chart = Chart("gamma", ("speedup", "tokens_per_step"), colors=("#1f77b4", "#888888"))
    return Table(text, "gamma_table", (*columns, note), inputs, chart)


def assert_same(read: list[Cell], expected: list[Cell], rel: float, where: str = "") -> None:
    """Numbers within `rel`, and unknown where unknown is expected."""
    assert [value is None for value in read] == [value is None for value in expected], where
    numbers = [[float(v) for v in values if v is not None] for values in (read, expected)]
    assert numbers[0] == pytest.approx(numbers[1], rel=rel, abs=0), where


def cells_of(data: bytes, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter))


HOSTILE = [
    *("=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", "  =1+1", '"=1+1', "＝1+1"),
    *("x;=1+1", "x,=1+1", "x, =1+1", 'x;"=1+1', "\ufeff=1+1", "=cmd|' /C calc'!A0"),
    '=HYPERLINK("http://example.com","x")',
]


class Sheet:
    """A spreadsheet of operators and A1 references, written for these tests alone.

    It knows nothing of templates. Excel's rules: ^ before * and /, before + and -, before
    comparisons; each from the left; an empty cell counts as 0.
    """

    LEVELS = (("=", "<>", "<", ">", "<=", ">="), ("+", "-"), ("*", "/"), ("^",))

    def __init__(self, cells: list[list[str]], decimal: str = "."):
        self.cells, self.decimal = cells, decimal
        self.known: dict[tuple[int, int], Cell] = {}

    def column(self, name: str) -> list[Cell]:
        col = self.cells[0].index(name)
        return [self.at(row, col) for row in range(1, len(self.cells))]

    def at(self, row: int, col: int) -> Cell:
        if (row, col) not in self.known:
            self.known[row, col] = self._value(self.cells[row][col])
        return self.known[row, col]

    def _value(self, text: str) -> Cell:
        if text.startswith("="):
            pattern = rf"[A-Z]+\d+|\d+(?:\{self.decimal}\d+)?(?:e[+-]?\d+)?|>=|<=|<>|[-+*/^<>=()]"
            tokens = re.findall(pattern, text[1:])
            assert "".join(tokens) == text[1:], text
            value = self._level(tokens, 0)
            assert not tokens, text
            return value
        try:
            return float(text.replace(self.decimal, "."))
        except ValueError:
            return text or None

    def _level(self, tokens: list[str], level: int) -> float:
        if level == len(self.LEVELS):
            token = tokens.pop(0)
            if token == "(":
                inside = self._level(tokens, 0)
                assert tokens.pop(0) == ")"
                return inside
            if reference := re.fullmatch(r"([A-Z]+)(\d+)", token):
                col = 0
                for letter in reference[1]:
                    col = 26 * col + "ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(letter) + 1
                found = self.at(int(reference[2]) - 1, col - 1)
                assert not isinstance(found, str), f"{token} is text"
                return float(found or 0)
            return float(token.replace(self.decimal, "."))
        left = self._level(tokens, level + 1)
        while tokens and tokens[0] in self.LEVELS[level]:
            operator, right = tokens.pop(0), self._level(tokens, level + 1)
            left = {
                "=": lambda a, b: float(a == b),
                "<>": lambda a, b: float(a != b),
                "<": lambda a, b: float(a < b),
                ">": lambda a, b: float(a > b),
                "<=": lambda a, b: float(a <= b),
                ">=": lambda a, b: float(a >= b),
                "+": lambda a, b: a + b,
                "-": lambda a, b: a - b,
                "*": lambda a, b: a * b,
                "/": lambda a, b: a / b,
                "^": lambda a, b: a**b,
            }[operator](left, right)
        return left
