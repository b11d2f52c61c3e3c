"""Requests of llama.cpp's slots: a line of time begins one, a line of drafts belongs to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from specmath.checks import FloatArray, IntArray
from specmath.logs.columns import BoolArray, Rows
from specmath.logs.stream import LogLine

__all__ = ["Pairs", "Request", "paired"]


@dataclass(slots=True)
class Request:
    """What is told of one request, as far as it has come."""

    at: LogLine
    tokens: int | None = None
    milliseconds: float = 0.0
    accepted: int | None = None
    drafted: int = 0
    mean: float | None = None
    rates: tuple[float, ...] | None = None
    speed: float = 0.0

    @property
    def column(self) -> tuple[float, ...]:
        """Its line, tokens, milliseconds, speed, accepted, drafted and mean length."""
        tokens, mean = (math.nan if one is None else one for one in (self.tokens, self.mean))
        return (
            self.at.line, tokens, self.milliseconds, self.speed, self.accepted or 0, self.drafted,
            mean,
        )  # fmt: skip


@dataclass(frozen=True)
class Pairs:
    """`ended`: requests [Request.column, request] by when their slots began the next. `left`: those
    still open, by when they began. `drafted`: older ones still open, told their drafts here."""

    ended: FloatArray
    left: dict[str, Request]
    drafted: dict[str, Request]


def paired(rows: Rows, open_: Mapping[str, Request]) -> Pairs | None:
    """The requests of lines in which each of time has at most one of drafts after it in its slot.

    None where that is not so, where a request contradicts itself, or where one that was open
    before tells rates or no time.
    """
    names = [name.decode() for name in rows.texts(1)]
    ids = {name: i for i, name in enumerate(dict.fromkeys(names))}
    slots = np.array([ids[name] for name in names])
    order = np.argsort(slots, kind="stable")
    ms, tokens, speed, accepted, drafted, mean = rows.columns(*range(3, 9))[:, order]
    slots, timed = slots[order], ~np.isnan(tokens)
    found = _drafts(slots, timed)
    if found is None:
        return None
    to, own = found
    drafts = np.flatnonzero(~timed)[own]
    made = np.array((
        rows.lines[order], tokens, ms, np.nan_to_num(speed), np.full(slots.size, math.nan),
        np.zeros(slots.size), np.full(slots.size, math.nan),
    ))[:, timed]  # fmt: skip
    told = np.array((rows.lines[order], accepted, drafted, mean))
    for row, column in zip((0, 4, 5, 6), told[:, drafts], strict=True):
        made[row, to[own]] = column
    # What was open before, with the drafts that are told before its slot begins another.
    keys = list(ids)
    older = {keys[slot]: open_[keys[slot]] for slot in ids.values() if keys[slot] in open_}
    changed: dict[str, Request] = {}
    for index in np.flatnonzero(~timed)[~own].tolist():
        key = keys[slots[index]]
        if key in changed or key not in older or older[key].accepted is not None:
            return None
        changed[key] = _with_drafts(older[key], rows, *told[:, index].tolist())
    older |= changed
    if any(one.rates or one.tokens is None for one in older.values()):
        return None
    return _ended(rows, made, order[timed], slots[timed], keys, older, changed)


def _drafts(slots: IntArray, timed: BoolArray) -> tuple[IntArray, BoolArray] | None:
    """(of each line of drafts the line of time before it, whether that is its slot's); None where
    one of time has several. `slots` is sorted."""
    to = (np.cumsum(timed) - 1)[~timed]
    begun = slots[timed]
    own = to >= 0
    own[own] = begun[to[own]] == slots[~timed][own]
    return None if np.bincount(to[own], minlength=1).max() > 1 else (to, own)


def _with_drafts(
    request: Request, rows: Rows, line: float, accepted: float, drafted: float, mean: float
) -> Request:
    return replace(
        request, at=rows.source.place(int(line)), accepted=int(accepted), drafted=int(drafted),
        mean=request.mean if math.isnan(mean) else mean,
    )  # fmt: skip


def _ended(
    rows: Rows, made: FloatArray, begun: IntArray, slots: IntArray, keys: list[str],
    older: Mapping[str, Request], changed: dict[str, Request],
) -> Pairs | None:  # fmt: skip
    """`made`, by slot, began at `begun` of the rows: each ends where its slot's next begins."""
    last = np.append(slots[1:] != slots[:-1], True)[: slots.size]
    first = np.flatnonzero(np.append(True, last[:-1])[: slots.size])
    ended, ends = made[:, ~last], begun[np.flatnonzero(~last) + 1]
    for index in first.tolist():
        if (before := older.get(keys[slots[index]])) is not None:
            ended = np.column_stack((ended, before.column))
            ends = np.append(ends, begun[index])
    ended = ended[:, np.argsort(ends)]
    if (ended[4] > ended[5]).any() or (ended[4] > ended[1]).any():
        return None
    ended[4] = np.nan_to_num(ended[4])
    still = np.flatnonzero(last)
    left = {
        keys[slots[i]]: _request(rows, made[:, i].tolist())
        for i in still[np.argsort(begun[still])].tolist()
    }
    return Pairs(ended, left, {key: one for key, one in changed.items() if key not in left})


def _request(rows: Rows, column: list[float]) -> Request:
    line, tokens, ms, speed, accepted, drafted, mean = column
    return Request(
        rows.source.place(int(line)), int(tokens), ms,
        None if math.isnan(accepted) else int(accepted), int(drafted),
        None if math.isnan(mean) else mean, None, speed,
    )  # fmt: skip
