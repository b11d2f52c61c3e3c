"""Formula templates, from which CSV and workbook make their own references.

A template is written in operators, numbers and references only, because the names of spreadsheet
functions are translated ("SUM" is "SUMME" in German) and a CSV carries the formula as text:

    {name}     the cell of column `name` in the same row, or else the input `name`
    {name^}    the cell of column `name` in the row above
    + - * / ^ ( ) >= <= <> < > =    and plain numbers, with a point

A minus always stands between two operands (write 0-x): Excel reads -2^2 as 4, most else as -4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from specmath.checks import InputError

__all__ = ["Token", "parse", "render"]

_TOKEN = re.compile(
    r"""\{(?P<above>[A-Za-z]\w*)\^\}
      | \{(?P<here>[A-Za-z]\w*)\}
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<operator>>=|<=|<>|[-+*/^<>=()])
      | \ +""",
    re.ASCII | re.VERBOSE,
)


class Token(NamedTuple):
    """One piece of a template: a reference ("here", "above"), a "number" or an "operator"."""

    kind: str
    text: str


@lru_cache(maxsize=4096)
def parse(template: str) -> tuple[Token, ...]:
    """The template's tokens, in order; InputError where it is not a formula as described above."""
    tokens: list[Token] = []
    depth, position, operand_next = 0, 0, True
    while position < len(template):
        match = _TOKEN.match(template, position)
        if not match:
            raise InputError(
                f"formula must use references, numbers and operators only, got {template!r} "
                f"(at {template[position : position + 12]!r})"
            )
        position = match.end()
        if match.lastgroup is None:
            continue
        token = Token(match.lastgroup, match[match.lastgroup])
        tokens.append(token)
        opens = token.kind != "operator" or token.text == "("
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if opens != operand_next or depth < 0:
            raise InputError(
                f"formula must set operands and operators in turn, got {template!r} "
                f"(at {token.text!r})"
            )
        operand_next = token.kind == "operator" and token.text != ")"
    if operand_next or depth:
        raise InputError(f"formula must be complete, got {template!r}")
    return tuple(tokens)


def render(template: str, refer: Callable[[str, bool], str], decimal: str = ".") -> str:
    """The template with each reference replaced by `refer(name, is_above)`; no leading "="."""

    def text(token: Token) -> str:
        if token.kind == "operator":
            return token.text
        if token.kind == "number":
            return token.text.replace(".", decimal)
        return refer(token.text, token.kind == "above")

    return "".join(text(token) for token in parse(template))
