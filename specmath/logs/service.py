"""How a server served: latency, load and throughput over the time of a reading, in SI units.

Engines tell it in three ways: lines printed every few seconds (`Meter` averages them), metrics
pages (histograms and counters, specmath.logs.engines.served) and the result of a benchmark's
client. What is not told is None; nothing here is computed from acceptance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray

__all__ = [
    "LATENCIES",
    "NO_SERVICE",
    "Latency",
    "Level",
    "Meter",
    "Service",
    "of_buckets",
    "together",
]

MOST_LEVELS = 1024
WAITING = 512


@dataclass(frozen=True, slots=True)
class Latency:
    """One kind of time over requests (or gaps), seconds; None where it is not told.

    Of a histogram the quantiles are interpolated within their bucket, as Prometheus does, and
    None above its last bound.
    """

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    std: float | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The lines printed while `running` requests ran: how many, their mean tokens per second."""

    running: int
    lines: int
    generated_per_second: float


@dataclass(frozen=True, slots=True)
class Service:
    """What was served, and how. All of one server; rates are of the server, not of a request.

    ttft, tpot, itl, e2e, queue   seconds; `itl` is the gap between the chunks a client receives
    running, waiting              requests in the batch, and in the queue; means over samples
    kv_use, prefix_hits           shares
    generated_per_second, prompt_per_second   tokens
    preemptions, requests         counts
    prompt_tokens, output_tokens  means a request
    levels                        tokens per second at each number of running requests
    samples                       printed lines or scrapes that the load was averaged over
    seconds                       what the times span, where it is told
    """

    ttft: Latency | None = None
    tpot: Latency | None = None
    itl: Latency | None = None
    e2e: Latency | None = None
    queue: Latency | None = None
    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None
    prefix_hits: float | None = None
    generated_per_second: float | None = None
    prompt_per_second: float | None = None
    preemptions: int | None = None
    requests: int | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    levels: tuple[Level, ...] = ()
    samples: int = 0
    seconds: float | None = None

    @property
    def told(self) -> bool:
        """Whether anything of it is known."""
        return self != NO_SERVICE

    @property
    def speed_told(self) -> bool:
        """Whether a time per token or a throughput is known."""
        return self.seconds_per_token is not None or self.generated_per_second is not None

    @property
    def per_request(self) -> float | None:
        """Tokens a second of one running request: the server's, shared by those that run."""
        if not self.running or not self.generated_per_second:
            return None
        return self.generated_per_second / self.running

    @property
    def seconds_per_token(self) -> float | None:
        """Mean time per output token: TPOT where it is told, else running ÷ tokens per second
        (which counts what a request waits for prompts, and its own prompt)."""
        if self.tpot is not None and self.tpot.mean is not None:
            return self.tpot.mean
        share = self.per_request
        return None if share is None else 1.0 / share


NO_SERVICE = Service()
MEANS = ("kv_use", "prefix_hits", "prompt_tokens", "output_tokens", "seconds")
LATENCIES = ("ttft", "tpot", "itl", "e2e", "queue")


def together(parts: Sequence[Service]) -> Service:
    """Several servers side by side as one: rates, requests and counts add up, means are weighted by
    requests where those are told, and quantiles of all are not known."""
    known = [part for part in parts if part.told]
    if len(known) < 2:
        return known[0] if known else NO_SERVICE
    weights = [part.requests for part in known]
    each = np.array([1.0 if None in weights else float(w or 0) for w in weights])

    def added(name: str) -> Any:
        values = [getattr(part, name) for part in known]
        return None if None in values else sum(values)

    def mean(name: str) -> Any:
        values = [getattr(part, name) for part in known]
        return None if None in values else _mean(values, each)

    def latency(name: str) -> Any:
        return _latencies([getattr(part, name) for part in known], each)

    sums = ("running", "waiting", "generated_per_second", "prompt_per_second", "preemptions",
            "requests")  # fmt: skip
    return Service(
        **{name: latency(name) for name in LATENCIES},
        **{name: added(name) for name in sums},
        **{name: mean(name) for name in MEANS},
        samples=max(part.samples for part in known),
    )


def _latencies(parts: Sequence[Latency | None], weights: FloatArray) -> Latency | None:
    means = [None if part is None else part.mean for part in parts]
    if None in means:
        return None
    counts = [part.count for part in parts if part is not None]
    by = weights if None in counts else np.array(counts, dtype=float)
    count = None if None in counts else sum(filter(None, counts))
    return Latency(_mean(means, by), count=count)


def _mean(values: Sequence[float | None], weights: FloatArray) -> float | None:
    return (
        float(np.average(np.array(values, dtype=float), weights=weights)) if weights.any() else None
    )


# ── histograms ────────────────────────────────────────────────────────────────────────────────


def of_buckets(
    total: float | None, count: float | None, below: Mapping[float, float] | None = None
) -> Latency | None:
    """A histogram's sum, count and cumulative buckets (upper bound → observations up to it).

    None without an observation. A quantile lies in the bucket that reaches its share, on a line
    between the bucket's ends.
    """
    if total is None or not count or count < 0 or total < 0:
        return None
    bounds = sorted(below or ())
    held = np.maximum.accumulate([max((below or {})[bound], 0.0) for bound in bounds] or [0.0])
    p50, p90, p99 = (_quantile(share, bounds, held.tolist()) for share in (0.5, 0.9, 0.99))
    return Latency(total / count, p50, p90, p99, count=round(count))


def _quantile(share: float, bounds: Sequence[float], held: Sequence[float]) -> float | None:
    if not bounds or not math.isinf(bounds[-1]) or held[-1] <= 0:
        return None
    rank = share * held[-1]
    place = next(i for i, observed in enumerate(held) if observed >= rank)
    if math.isinf(bounds[place]):
        return None
    bottom = bounds[place - 1] if place else 0.0
    before = held[place - 1] if place else 0.0
    inside = held[place] - before
    return bottom + (bounds[place] - bottom) * ((rank - before) / inside if inside > 0 else 1.0)


# ── lines printed every few seconds ──────────────────────────────────────────────────────────


class Meter:
    """Averages over printed lines in which something ran; bounded memory."""

    NAMES = ("running", "waiting", "kv_use", "prefix_hits", "generated_per_second",
             "prompt_per_second")  # fmt: skip

    def __init__(self) -> None:
        self._sums = np.zeros(len(self.NAMES))
        self._weights = np.zeros(len(self.NAMES))
        self._samples = 0
        self._levels: dict[int, tuple[int, float]] = {}
        self._waiting: list[tuple[float, ...]] = []

    def add(self, *values: float, weight: float = 1.0) -> None:
        """One line, in the order of NAMES; nan where it does not tell. `weight`: the time that it
        stands for, where that differs."""
        self._waiting.append((*values, weight))
        if len(self._waiting) >= WAITING:
            self._take()

    def extend(self, *columns: ArrayLike) -> None:
        """Lines as columns of one length, in the order of NAMES."""
        self._take()
        rows = np.array(np.broadcast_arrays(*map(np.atleast_1d, columns)), dtype=float)
        self._count(rows, np.ones(rows.shape[1]))

    def _take(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            *rows, weights = np.array(waiting, dtype=float).T
            self._count(np.array(rows), weights)

    def _count(self, rows: FloatArray, weights: FloatArray) -> None:
        """Lines in which nothing ran and nothing was generated are left out."""
        active = (np.nan_to_num(rows[0]) > 0) | (np.nan_to_num(rows[4]) > 0)
        rows, weights = rows[:, active], weights[active]
        told = ~np.isnan(rows)
        self._sums += np.where(told, rows, 0.0) @ weights
        self._weights += told @ weights
        self._samples += rows.shape[1]
        both = told[0] & told[4] & (rows[0] >= 0.5)
        running, generated = np.rint(rows[0][both]).astype(np.int64), rows[4][both]
        order = np.argsort(running, kind="stable")
        each, starts = np.unique(running[order], return_index=True)
        parts = np.split(generated[order], starts[1:])
        for level, here in zip(each.tolist(), parts, strict=False):
            lines, total = self._levels.get(level, (0, 0.0))
            if lines or len(self._levels) < MOST_LEVELS:
                self._levels[level] = lines + here.size, total + float(here.sum())

    def service(self) -> Service:
        """The means; NO_SERVICE where no line told anything."""
        self._take()
        if not self._samples:
            return NO_SERVICE
        means = {
            name: float(total / weight) if weight else None
            for name, total, weight in zip(self.NAMES, self._sums, self._weights, strict=True)
        }
        levels = tuple(
            Level(running, lines, total / lines)
            for running, (lines, total) in sorted(self._levels.items())
        )
        return Service(**means, levels=levels, samples=self._samples)  # type: ignore[arg-type]


# ── what clients print ────────────────────────────────────────────────────────────────────────


def of_facts(facts: Mapping[str, object], generated: int | None) -> Service:
    """What a benchmark's client printed, by the names of vLLM's and SGLang's; a server's
    `decode_seconds` are those in which the `generated` tokens came, sequence by sequence."""

    def number(*names: str) -> float | None:
        values = (facts.get(name) for name in names)
        return next((v for v in values if isinstance(v, float) and v > 0), None)

    def milliseconds(time: str) -> Latency | None:
        told = [number(f"{kind}_{time}_ms") for kind in ("mean", "median", "p90", "p99", "std")]
        if all(value is None for value in told):
            return None
        mean, p50, p90, p99, std = (None if value is None else value / 1e3 for value in told)
        return Latency(mean, p50, p90, p99, std, None if requests is None else round(requests))

    requests, decoding = number("completed"), number("decode_seconds")
    tokens = [number(f"total_{kind}_tokens") for kind in ("input", "output")]
    tpot = milliseconds("tpot")
    if tpot is None and decoding and generated:
        tpot = Latency(decoding / generated)
    prompt, output = (t / requests if t and requests else None for t in tokens)
    return Service(
        ttft=milliseconds("ttft"), tpot=tpot, itl=milliseconds("itl"),
        e2e=milliseconds("e2e_latency") or milliseconds("e2el"),
        generated_per_second=number("output_throughput"),
        requests=None if requests is None else round(requests),
        prompt_tokens=prompt, output_tokens=output, seconds=number("duration"),
    )  # fmt: skip
