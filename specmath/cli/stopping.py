"""Work over a network that a signal ends early, with what is finished."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import click

__all__ = ["run_stoppable"]

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")

T = TypeVar("T")


def run_stoppable(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled by the first Ctrl-C, SIGTERM or SIGHUP.

    What it returns in spite of that counts; where it returns nothing the command is aborted.
    """

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        for name in SIGNALS:
            number = getattr(signal, name, None)
            # No signals in a thread, or on that platform; nohup's SIGHUP stays ignored.
            with suppress(ValueError, RuntimeError, NotImplementedError, TypeError):
                if signal.getsignal(number) is not signal.SIG_IGN:  # type: ignore[arg-type]
                    loop.add_signal_handler(number, task.cancel)  # type: ignore[arg-type]
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError as error:
        raise click.Abort from error
