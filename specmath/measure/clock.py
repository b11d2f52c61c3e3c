"""The clock that a measurement reads, and numpy's matrix products on one thread beside it.

The built-in pair's matrices are so small that sharing one among threads saves little, and a thread
that waits for another program's time slice makes a forward a hundred times as long: v(5) = 140 was
seen on a busy machine with two cores, 2.2 on one thread. On one thread the processor time of that
thread is all the work there is, without the waiting: over 20 repeats at a load of 4.4 on two cores
the speedup at γ = 8 scattered by 2% in processor time and by 34% in wall time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from threadpoolctl import threadpool_info, threadpool_limits

from specmath.measure.engine import LanguageModel
from specmath.measure.llama import NumpyLlama

__all__ = ["THREAD", "WALL", "Clock", "blas_threads", "steady"]


@dataclass(frozen=True)
class Clock:
    """Seconds since some moment: of the wall, or of this thread on the processor."""

    kind: Literal["wall", "thread"]
    now: Callable[[], float]


WALL = Clock("wall", time.perf_counter)
THREAD = Clock("thread", time.thread_time)


@contextmanager
def steady(model: LanguageModel) -> Iterator[Clock]:
    """One BLAS thread for a numpy model, and its clock; others run as they are, by wall time."""
    if not isinstance(model, NumpyLlama):
        yield WALL
        return
    with threadpool_limits(limits=1, user_api="blas"):
        # Windows counts a thread's time in slices of 15.6 ms, longer than a forward, and the
        # threads of macOS's own library cannot be asked.
        yield THREAD if set(_pools()) == {1} and sys.platform == "linux" else WALL


def _pools() -> list[int]:
    """Threads of each library that multiplies matrices; empty where they cannot be asked."""
    return [part["num_threads"] for part in threadpool_info() if part["user_api"] == "blas"]


def blas_threads() -> int:
    """Threads that numpy's matrix products use now; 1 where they cannot be asked."""
    return max(_pools(), default=1)
