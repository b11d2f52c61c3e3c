"""The shipped record with its predictions, computed once before the package was built.

To predict every row takes half a minute, and a page that shows them should open at once. `python -m
tools.accuracy` writes them; a test computes them anew.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import cast

from specmath.published.case import Case, Code, Reason, shipped
from specmath.published.rows import Quantity
from specmath.published.score import Method, Scored, runs

__all__ = ["FILE", "kept", "packed"]

FILE = resources.files("specmath") / "data" / "published" / "predicted.csv.gz"

HEAD = ("id", "quantity", "method", "predicted", "low", "high", "reason", "detail")


@cache
def kept() -> tuple[Scored, ...]:
    """Every number of the shipped record by every method, as `score(shipped())` gives it."""
    cases = {case.id: (case, repeats) for case, repeats in runs(shipped())}
    text = gzip.decompress(FILE.read_bytes()).decode("utf-8")
    return tuple(_read(row, *cases[row["id"]]) for row in csv.DictReader(io.StringIO(text)))


def _read(row: dict[str, str], case: Case, repeats: str) -> Scored:
    low, high = (float(row[end]) if row[end] else None for end in ("low", "high"))
    answer = (
        Reason(cast(Code, row["reason"]), row["detail"])
        if row["reason"]
        else (float(row["predicted"]), low, high)
    )
    quantity, method = cast(Quantity, row["quantity"]), cast(Method, row["method"])
    return Scored.of(case, quantity, method, answer, repeats)


def packed(found: Iterable[Scored]) -> bytes:
    """What FILE holds of them: numbers to 12 digits, and the same bytes each time."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for s in found:
        numbers = ["" if x is None else f"{x:.12g}" for x in (s.predicted, s.low, s.high)]
        why = ("", "") if s.reason is None else (s.reason.code, s.reason.detail)
        writer.writerow([s.case.id, s.quantity, s.method, *numbers, *why])
    return gzip.compress(out.getvalue().encode("utf-8"), mtime=0)
