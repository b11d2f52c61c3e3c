# mypy: disable-error-code="import-not-found"
"""What this machine is; the clock that a measurement reads, the threads that it lets models have.

The built-in pair's matrices are so small that sharing one among threads saves little, and a thread
that waits for another program's time slice makes a forward a hundred times as long: v(5) = 140 was
seen on a busy machine with two cores, 2.2 on one thread. On one thread the processor time of that
thread is all the work there is, without the waiting: over 20 repeats at a load of 4.4 on two cores
the speedup at γ = 8 scattered by 2% in processor time and by 34% in wall time. In torch a model of
that size ran 11 times as fast on one thread as on two there; a large one needs them all.
"""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from specmath.measure.language_model import LanguageModel
from specmath.measure.numpy_model import NumpyLlama
from specmath.measure.report import Machine
from specmath.measure.torch_model import TorchModel

__all__ = ["THREAD", "WALL", "Clock", "busy", "describe", "steady"]

BUSY = 0.75
"""Runnable programs a core, over the last minute."""


def describe(model: LanguageModel) -> Machine:
    """Processor, GPU if the model runs on one, threads in use, versions."""
    engine: Literal["", "numpy", "transformers"] = ""
    software = f"Python {platform.python_version()}, numpy {np.__version__}"
    accelerator, threads = "", max(_pools(), default=1)
    if isinstance(model, NumpyLlama):
        engine = "numpy"
    elif isinstance(model, TorchModel):
        torch: Any = sys.modules["torch"]
        engine, threads = "transformers", int(torch.get_num_threads())
        software += f", torch {torch.__version__}"
        kind = model.device.type
        if kind == "cuda":
            accelerator = str(torch.cuda.get_device_name(model.device))
        elif kind != "cpu":
            accelerator = kind
    return Machine(
        processor=_processor(), accelerator=accelerator, threads=threads, software=software,
        engine=engine,
    )  # fmt: skip


def busy(clock: Clock) -> tuple[float, int] | None:
    """(load, cores) of a machine that is busy with other work just now; None where it is not.

    None too where the clock is the processor time of a thread, which hardly changes with the load.
    """
    try:
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
    except (AttributeError, OSError):  # not on every system
        return None
    return (load, cores) if clock is not THREAD and load > BUSY * cores else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        named = (line.split(":", 1)[1] for line in lines if line.startswith("model name"))
        model = next(named).strip()
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores"


# ── the clock and the threads ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Clock:
    """Seconds since some moment: of the wall, or of this thread on the processor."""

    kind: Literal["wall", "thread"]
    now: Callable[[], float]


WALL = Clock("wall", time.perf_counter)
THREAD = Clock("thread", time.thread_time)

TRIED, TRIED_CONTEXT, TRIALS = (1, 5), 32, 3
"""Tokens of the passes that choose the threads, after how much context, how often."""


@contextmanager
def steady(model: LanguageModel) -> Iterator[Clock]:
    """One thread for a numpy model, and its clock; the same for a torch model on a processor where
    that is no slower than all threads; others run as they are, by wall time."""
    if isinstance(model, TorchModel) and model.device.type == "cpu":
        yield from _steady_torch(model)
    elif isinstance(model, NumpyLlama):
        with threadpool_limits(limits=1, user_api="blas"):
            yield _clock(set(_pools()) == {1})
    else:
        yield WALL


def _clock(alone: bool) -> Clock:
    # Windows counts a thread's time in slices of 15.6 ms, longer than a forward, and the threads
    # of macOS's own library cannot be asked.
    return THREAD if alone and sys.platform == "linux" else WALL


def _steady_torch(model: TorchModel) -> Iterator[Clock]:
    import torch

    allowed = torch.get_num_threads()
    try:
        if allowed > 1:
            torch.set_num_threads(_better(model, allowed, torch.set_num_threads))
        yield _clock(torch.get_num_threads() == 1)
    finally:
        torch.set_num_threads(allowed)


def _better(model: TorchModel, most: int, use: Callable[[int], object]) -> int:
    """1 or `most` threads: which runs a plain step and a wide one in less time, best of three."""
    cache = model.filled_cache(1, TRIED_CONTEXT)
    best = {1: math.inf, most: math.inf}
    for number in range(TRIALS + 1):
        for threads in best:
            use(threads)
            begun = time.perf_counter()
            for size in TRIED:
                model.compute(np.ones((1, size), np.int64), cache)
                cache.truncate(TRIED_CONTEXT)
            if number:  # the first warms up
                best[threads] = min(best[threads], time.perf_counter() - begun)
    return 1 if best[1] <= best[most] else most


def _pools() -> list[int]:
    """Threads of each library that multiplies matrices; empty where they cannot be asked."""
    return [part["num_threads"] for part in threadpool_info() if part["user_api"] == "blas"]
