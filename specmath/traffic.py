"""Requests as they come to one replica: when, and how long their prompts and answers are.

Poisson at one rate or at rates that change over a day, a trace, or a closed loop in which each
request follows the one that ended.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, IntArray, real, short, whole
from specmath.lengths import drawn

__all__ = [
    "MOST_REQUESTS", "TRACES", "Traffic", "closed", "first_requests", "poisson",
    "read_trace", "shipped_trace", "thinned",
]  # fmt: skip

MOST_REQUESTS = 2_000_000
"""Of one simulation: some minutes, and a gigabyte."""

MOST_TOKENS = 10_000_000
"""Of one prompt, or of one answer."""

COLUMNS = ("seconds", "prompt_tokens", "output_tokens")
PREFIX = ("prefix_tokens", "prefix_tokens_seen_before")
"""Names of the column of prompt tokens that the prefix cache holds; it may be missing."""

TRACES = {
    "azure-conv": "azure_2023_conv",
    "azure-code": "azure_2023_code",
    "mooncake": "mooncake_conversation",
}
"""Traces that come with specmath (data/traces/README.md), and their files."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Requests in the order of their arrival; arrays of one shape.

    Attributes
    ----------
    seconds
        Arrivals, ≥ 0 and non-decreasing; zeros where a closed loop decides.
    prompt_tokens, output_tokens
        Of each request, ≥ 0 and ≥ 1.
    prefix_tokens
        Of the prompt that the prefix cache holds, ≤ prompt_tokens. None: a share of each prompt,
        by arm, as the server says.
    concurrency
        C of a closed loop; None: an open one.
    """

    seconds: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    prefix_tokens: IntArray | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        count = len(self.seconds)
        if not count:
            raise InputError("traffic must hold at least one request, got none")
        whole("requests", count, 1, MOST_REQUESTS)
        real("seconds", self.seconds, 0)
        if np.any(np.diff(self.seconds) < 0):
            at = int(np.argmax(np.diff(self.seconds) < 0)) + 2
            raise InputError(
                f"seconds must not fall from one request to the next, got {self.seconds[at - 1]:g} "
                f"after {self.seconds[at - 2]:g} at request {at}"
            )
        whole("prompt_tokens", self.prompt_tokens, 0, MOST_TOKENS)
        whole("output_tokens", self.output_tokens, 1, MOST_TOKENS)
        if self.prefix_tokens is not None:
            over = whole("prefix_tokens", self.prefix_tokens, 0) > self.prompt_tokens
            if over.any():
                at = int(np.argmax(over))
                raise InputError(
                    f"prefix_tokens must be <= prompt_tokens = {self.prompt_tokens[at]}, got "
                    f"{self.prefix_tokens[at]} at request {at + 1}"
                )

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def rate(self) -> float:
        """Mean requests a second of an open loop; inf where all come at once."""
        span = float(self.seconds[-1] - self.seconds[0])
        return (len(self) - 1) / span if span > 0 else np.inf


Spreads = tuple[float, float]
"""Of prompts and of answers: standard deviation over mean, ≥ 0; 0: all are alike."""


def _lengths(
    count: int, prompt_tokens: int, output_tokens: int, spreads: Spreads, seed: int
) -> tuple[IntArray, IntArray]:
    """Of their own stream of numbers: arrivals are the same whatever the lengths."""
    prompts, outputs = (np.random.default_rng([seed, which]) for which in (1, 2))
    prompt = int(whole("prompt_tokens", prompt_tokens, 0))
    output = int(whole("output_tokens", output_tokens, 1))
    return (drawn(prompt, spreads[0], count, prompts, 0),
            drawn(output, spreads[1], count, outputs, 1))  # fmt: skip


def poisson(
    rates: ArrayLike,
    prompt_tokens: int,
    output_tokens: int,
    *,
    seconds: ArrayLike | None = None,
    requests: int | None = None,
    spreads: Spreads = (0.0, 0.0),
    seed: int = 0,
) -> Traffic:
    """Independent arrivals at a rate, or at rates that follow each other (a day curve).

    Parameters
    ----------
    rates
        Requests a second, > 0 somewhere: one, or one of each stretch of time.
    prompt_tokens, output_tokens, spreads
        Their means, and how far they spread (`lengths`).
    seconds
        How long each rate holds, > 0; one for all. None: one rate until `requests` have come.
    requests
        How many come at one rate; None: those of `seconds`.
    seed
        The same seed gives the same arrivals.

    Returns
    -------
    Traffic
        Between two rates the process restarts, which changes nothing: it has no memory.

    Raises
    ------
    InputError
        A value outside its range, no arrival, or more than `MOST_REQUESTS`.

    Examples
    --------
    >>> day = poisson([1.0, 8.0, 2.0], 500, 200, seconds=600.0)
    >>> [int(((600 * k <= day.seconds) & (day.seconds < 600 * k + 600)).sum()) for k in range(3)]
    [..., ..., ...]
    """
    rate = np.atleast_1d(real("rates", rates, 0))
    rng = np.random.default_rng(seed)
    if requests is not None:
        count = int(whole("requests", requests, 1, MOST_REQUESTS))
        if rate.size != 1 or seconds is not None:
            raise InputError("requests counts arrivals at one rate without seconds")
        real("rates", rate, 0, low_open=True)
        arrivals = np.cumsum(rng.exponential(1.0 / rate[0], count))
    else:
        each = real("seconds", 600.0 if seconds is None else seconds, 0)
        held = np.broadcast_to(each, rate.shape)
        expected = float((rate * held).sum())
        if expected > MOST_REQUESTS:
            raise InputError(
                f"rates over seconds must bring at most {MOST_REQUESTS:,} requests, got "
                f"{expected:,.0f}"
            )
        counts, starts = rng.poisson(rate * held), np.cumsum(held) - held
        stretches = zip(starts, counts, held, strict=True)
        arrivals = np.concatenate([s + np.sort(rng.random(n)) * h for s, n, h in stretches])
    lengths = _lengths(len(arrivals), prompt_tokens, output_tokens, spreads, seed)
    return Traffic(arrivals, *lengths)


def closed(
    concurrency: int, prompt_tokens: int, output_tokens: int, *, requests: int,
    spreads: Spreads = (0.0, 0.0), seed: int = 0,
) -> Traffic:  # fmt: skip
    """A closed loop: C at once, and each that ends is followed by the next, `requests` in all."""
    count = int(whole("requests", requests, 1, MOST_REQUESTS))
    inside = int(whole("concurrency", concurrency, 1))
    lengths = _lengths(count, prompt_tokens, output_tokens, spreads, seed)
    return Traffic(np.zeros(count), *lengths, concurrency=inside)


# ── traces ───────────────────────────────────────────────────────────────────────────────────


def read_trace(text: str, name: str = "trace") -> Traffic:
    """A trace from CSV: seconds, prompt_tokens, output_tokens, where given prefix_tokens.

    Parameters
    ----------
    text
        The file; the first arrival becomes 0.
    name
        What messages call it.

    Raises
    ------
    InputError
        No row, a column that is missing, a cell that is no number, a request that comes before the
        one above it.

    Examples
    --------
    >>> found = read_trace("seconds,prompt_tokens,output_tokens\\n10,100,20\\n12.5,300,1\\n")
    >>> found.seconds.tolist(), found.prompt_tokens.tolist()
    ([0.0, 2.5], [100, 300])
    """
    lines = text.removeprefix("\ufeff").splitlines()
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines:
        raise InputError(f"{name} must hold at least one request, got an empty file")
    head = [cell.strip() for cell in next(csv.reader(lines[:1]))]
    missing = [column for column in COLUMNS if column not in head]
    if missing:
        wanted, got = ", ".join(COLUMNS), short(", ".join(head))
        raise InputError(f"{name} must have the columns {wanted}, got {got}")
    rows = [line for line in lines[1:] if line.strip()]
    if not rows:
        raise InputError(f"{name} must hold at least one request, got none below its columns")
    if len(rows) > MOST_REQUESTS:
        raise InputError(f"{name} must hold at most {MOST_REQUESTS:,} requests, got {len(rows):,}")
    prefix = next((column for column in PREFIX if column in head), None)
    names = (*COLUMNS, *((prefix,) if prefix else ()))
    table = _numbers(rows, [head.index(column) for column in names], names, name)
    seconds, prompt, output = table[:, 0], table[:, 1], table[:, 2]
    for column, values in zip(names, table.T, strict=True):
        bad = ~np.isfinite(values) | (values < (column == "output_tokens"))
        bad |= (values != np.floor(values)) & (column != "seconds")
        if bad.any():
            at = int(np.argmax(bad))
            kind = "whole number" if column != "seconds" else "number"
            least = int(column == "output_tokens")
            raise InputError(
                f"{name}, request {at + 1}: {column} must be a {kind} >= {least}, got "
                f"{values[at]:g}"
            )
    try:
        return Traffic(
            seconds - seconds[0] if np.all(np.diff(seconds) >= 0) else seconds,
            prompt.astype(np.int64), output.astype(np.int64),
            table[:, 3].astype(np.int64) if prefix else None,
        )  # fmt: skip
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _numbers(rows: list[str], places: Sequence[int], names: Sequence[str], name: str) -> FloatArray:
    """The cells of those columns; InputError names the first that is no number."""
    try:
        return np.loadtxt(rows, delimiter=",", usecols=places, ndmin=2, comments=None)
    except ValueError:
        pass
    found = np.empty((len(rows), len(places)))
    for number, cells in enumerate(csv.reader(io.StringIO("\n".join(rows)))):
        for column, place in enumerate(places):
            cell = cells[place].strip() if place < len(cells) else ""
            try:
                found[number, column] = float(cell)
            except ValueError:
                raise InputError(
                    f"{name}, request {number + 1}: {names[column]} must be a number, got "
                    f"{short(cell, quoted=True)}"
                ) from None
    return found


@cache
def shipped_trace(name: str) -> Traffic:
    """A trace that comes with specmath: one of `TRACES`; InputError names them."""
    if name not in TRACES:
        raise InputError(f"trace must be a file or one of {', '.join(TRACES)}, got {short(name)!r}")
    place = resources.files("specmath") / "data" / "traces" / f"{TRACES[name]}.csv.gz"
    return read_trace(gzip.decompress(place.read_bytes()).decode("utf-8"), name)


def thinned(traffic: Traffic, every: int) -> Traffic:
    """Every so-manieth request: what one of so many replicas gets."""
    step = int(whole("thin", every, 1))
    return _some(traffic, slice(None, None, step))


def first_requests(traffic: Traffic, requests: int | None, seconds: float | None) -> Traffic:
    """The requests of a trace up to a number or a time, whichever is reached first."""
    count = len(traffic)
    if requests is not None:
        count = min(count, int(whole("requests", requests, 1)))
    if seconds is not None:
        until = float(real("seconds", seconds, 0, low_open=True))
        count = min(count, int(np.searchsorted(traffic.seconds, until, side="left")))
    return _some(traffic, slice(None, count))


def _some(traffic: Traffic, kept: slice) -> Traffic:
    own = traffic.prefix_tokens
    return replace(
        traffic, seconds=traffic.seconds[kept], prompt_tokens=traffic.prompt_tokens[kept],
        output_tokens=traffic.output_tokens[kept],
        prefix_tokens=None if own is None else own[kept],
    )  # fmt: skip
