"""Numpy's matrix products on one thread while the built-in pair is measured.

Its matrices are so small that sharing one among threads saves little, and a thread that waits for
another program's time slice makes a forward a hundred times as long: v(5) = 140 was seen on a busy
machine with two cores, 2.2 on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_info, threadpool_limits

from specmath.measure.engine import LanguageModel
from specmath.measure.llama import NumpyLlama

__all__ = ["blas_threads", "steady"]


@contextmanager
def steady(model: LanguageModel) -> Iterator[None]:
    """One BLAS thread for a numpy model; others are left as they are."""
    if not isinstance(model, NumpyLlama):
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def blas_threads() -> int:
    """Threads that numpy's matrix products use now; 1 where they cannot be asked."""
    found = [part["num_threads"] for part in threadpool_info() if part["user_api"] == "blas"]
    return max(found, default=1)
