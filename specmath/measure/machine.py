"""What this machine is, in words."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from specmath.measure.clock import THREAD, Clock, blas_threads
from specmath.measure.engine import LanguageModel
from specmath.measure.report import Machine
from specmath.measure.torch_engine import TorchModel

__all__ = ["busy", "describe"]

BUSY = 0.75
"""Runnable programs a core, over the last minute."""


def describe(model: LanguageModel) -> Machine:
    """Processor, GPU if the model runs in torch and that sees one, threads in use, versions."""
    torch: Any = sys.modules["torch"] if isinstance(model, TorchModel) else None
    software = f"Python {platform.python_version()}, numpy {np.__version__}"
    accelerator, threads = "", blas_threads()
    if torch is not None:
        software += f", torch {torch.__version__}"
        threads = int(torch.get_num_threads())
        if torch.cuda.is_available():
            accelerator = str(torch.cuda.get_device_name(0))
    return Machine(
        processor=_processor(), accelerator=accelerator, threads=threads, software=software
    )


def busy(clock: Clock) -> str:
    """What a reader must know of the machine's load just now; "" where it is quiet or unknown.

    Nothing where the clock is the processor time of a thread, which hardly changes with the load.
    """
    if clock is THREAD:
        return ""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # not on every system
        return ""
    cores = os.cpu_count() or 1
    if load <= BUSY * cores:
        return ""
    return (
        f"The machine was busy with other work (load {load:.1f} on {cores} cores): times and "
        "measured speedups are rough. Acceptance does not suffer."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        model = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores"
