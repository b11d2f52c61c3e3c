"""What it costs to ask for help: `python benchmarks/help.py`.

Processor time (user and system) of fresh Pythons, as ratios within one run to `import click`: the
commands take turns, so a slow moment of the machine hits all; each time is the median of the
repeats.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPEATS = 11
BASE = "import click"
COMMANDS = {
    "nothing": ["-c", ""],
    BASE: ["-c", BASE],
    "import specmath": ["-c", "import specmath"],
    "from specmath import *": ["-c", "from specmath import *"],
    "specmath --help": ["-m", "specmath", "--help"],
    "specmath predict --help": ["-m", "specmath", "predict", "--help"],
}
MOST = {"import specmath": 6, "specmath --help": 6}
"""Ratios that are promised."""


def processor_seconds(arguments: list[str]) -> float:
    """User and system time of one Python, started and waited for."""
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(REPEATS + 1):
        for name, arguments in COMMANDS.items():
            seconds = processor_seconds(arguments)
            if turn:  # the first warms the file cache
                times[name].append(seconds)
    medians = {name: statistics.median(record) for name, record in times.items()}
    for name, seconds in medians.items():
        promise = f" (<= {MOST[name]})" if name in MOST else ""
        print(f"{name:24} {seconds:.3f} s, {seconds / medians[BASE]:5.2f}x `{BASE}`{promise}")


if __name__ == "__main__":
    main()
