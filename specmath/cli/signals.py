"""Signals that ask a long command to end: it keeps what is done, and says by its exit code why."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["Asked", "interruptible"]


@dataclass
class Asked:
    """`number` of the signal that came, 0 where none did."""

    number: int = 0

    @property
    def exit_code(self) -> int:
        """What a shell says of a program that the signal ended."""
        return 128 + self.number


@contextmanager
def interruptible(hurried: type[KeyboardInterrupt] = KeyboardInterrupt) -> Iterator[Asked]:
    """SIGTERM and SIGHUP raise `hurried` within, once; Ctrl-C raises KeyboardInterrupt each time.

    More of them change nothing: a service manager sends both, and the work is being kept. A signal
    that was ignored before (SIGHUP under nohup) stays ignored.
    """
    asked, before = Asked(), {}

    def heed(number: int, frame: FrameType | None) -> None:
        first, asked.number = not asked.number, asked.number or number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if first:
            raise hurried

    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # the last is unknown on Windows
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, heed)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
