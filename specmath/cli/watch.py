"""logs watch: a running server's metrics, or a log that grows, a line an interval."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from specmath.checks import InputError
from specmath.cli.logs import read_files
from specmath.cli.terminal import say
from specmath.logs import LogError, Reading, read_run
from specmath.logs.lanes import whole_side
from specmath.numbers import significant
from specmath.review.watch import Interval, Watch
from specmath.words.drift import drift_sentence

__all__ = ["watch_command"]

LARGEST_PART = 64 << 20
"""Bytes of a log that one interval reads: a log that grows faster is read in parts."""


@click.command(
    "watch",
    epilog="\b\nExit codes: 0 no alarm, 1 an alarm, 2 bad input. Ctrl-C ends it.\n"
    "\n\b\nExample: specmath logs watch http://127.0.0.1:8000/metrics --every 10",
)
@click.argument("source", metavar="URL|FILE")
@click.option("--every", type=click.FloatRange(0.05, 3600), default=10.0, help="Seconds.")
@click.option("--intervals", type=click.IntRange(1), help="Stop after so many; else go on.")
@click.option("--baseline", type=click.Path(exists=True, dir_okay=False),
              help="A log of good times; else the first --learn windows.")  # fmt: skip
@click.option("--learn", type=int, default=60, help="Windows of the baseline that is learnt.")
@click.option("--look", type=int, default=30, help="Windows of each look for drift.")
@click.option("--rate", type=float, default=0.001,
              help="P(false alarm) of one look.")  # fmt: skip
@click.option("--export", type=click.IntRange(1, 65535), metavar="PORT",
              help="Also serve the numbers to Prometheus, on this machine only.")  # fmt: skip
@click.option("--allow-remote", is_flag=True, help="Allow a server that is not this machine.")
def watch_command(
    source: str, every: float, intervals: int | None, baseline: str | None, learn: int,
    look: int, rate: float, export: int | None, allow_remote: bool,
) -> None:  # fmt: skip
    """Follow a metrics page or a growing log: a line an interval, an alarm of a fall.

    Every --look windows are laid beside the baseline. A key for the metrics page is taken from
    SPECMATH_API_KEY; it is never printed.
    """
    known = _baseline(baseline)
    watch = Watch(known, learn=learn, look=look, rate=rate)
    page = _page(source, allow_remote) if "://" in source else None
    parts = _scrapes(page) if page is not None else _growth(Path(source))
    publish = _exporter(export) if export else None
    say(_HEAD)
    count = 0
    try:
        for readings in parts:
            count += 1
            told = watch.take(readings)
            say(_line(told, watch))
            if publish is not None:
                publish(told)
            if count == intervals:
                break
            time.sleep(every)
    except KeyboardInterrupt:
        pass
    sys.exit(1 if watch.alarms else 0)


def _baseline(path: str | None) -> Reading | None:
    if path is None:
        return None
    whole, apart = whole_side(read_files([path], None))
    if apart or not whole[0].windows:
        raise InputError(
            f"baseline must hold windows of one server or of several alike, got {path}"
        )
    return whole[0]


# ── where the numbers come from ───────────────────────────────────────────────────────────────


def _page(source: str, allow_remote: bool) -> Callable[[], str]:
    """What asks a metrics endpoint for its page, through the client that measures servers."""
    from specmath.measure.server.client import check_url, get_text, open_client

    base, _, path = source.partition("://")[2].partition("/")
    address = check_url(f"{source.partition('://')[0]}://{base}", allow_remote=allow_remote)

    async def ask() -> str:
        async with open_client(address) as client:
            return await get_text(client, f"/{path or 'metrics'}") or ""

    return lambda: asyncio.run(ask())


def _scrapes(page: Callable[[], str]) -> Iterator[list[Reading]]:
    """The change from one scrape to the next; a server that does not answer is said, and asked
    again."""
    last = page()
    yield []
    while True:
        try:
            now = page()
        except InputError as error:
            say(f"          no answer: {error}", err=True)
            yield []
            continue
        yield _read([last, now]) if last else []
        last = now or last


def _growth(path: Path) -> Iterator[list[Reading]]:
    """What a log has gained, in whole lines; from its beginning where it is cut or replaced."""
    if not path.is_file():
        raise InputError(f"source must be a file or a URL, got {path}")
    place, inode = 0, 0
    while True:
        found = path.stat()
        if found.st_ino != inode or found.st_size < place:
            place, inode = 0, found.st_ino
        with path.open("rb") as stream:
            stream.seek(place)
            part = stream.read(LARGEST_PART)
        whole = part[: part.rfind(b"\n") + 1]
        place += len(whole)
        yield _read([whole]) if whole else []


def _read(sources: list[str] | list[bytes]) -> list[Reading]:
    try:
        return read_run(sources)
    except LogError:  # nothing was drafted, and nothing served
        return []


# ── what is told ──────────────────────────────────────────────────────────────────────────────

_HEAD = "    time  tokens a step      α  running  waiting  tokens/s  ms a token"


def _line(told: Interval, watch: Watch) -> str:
    reading, load = told.reading, told.service
    each = load.seconds_per_token
    numbers = (
        (reading.tokens_per_step if reading else None, 13), (reading.alpha if reading else None, 5),
        (load.running, 7), (load.waiting, 7), (load.generated_per_second, 8),
        (None if each is None else each * 1e3, 10),
    )  # fmt: skip
    cells = ["-" if value is None else significant(value) for value, _ in numbers]
    row = "  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, numbers, strict=True))
    state = f"learning, {told.learning} windows to go" if told.learning else ""
    if told.found is not None:
        state = drift_sentence(told.found)
    return f"{time.strftime('%H:%M:%S')}  {row}  {state}".rstrip()


def _exporter(port: int) -> Callable[[Interval], None]:
    """Gauges of the newest interval, and a counter of alarms, on 127.0.0.1."""
    from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

    registry = CollectorRegistry()
    tokens = Gauge("specmath_tokens_per_step", "Tokens per step, bonus included", registry=registry)
    alpha = Gauge("specmath_alpha", "Acceptance α of the newest interval", registry=registry)
    alarms = Counter("specmath_drift_alarms", "Looks that found a fall", registry=registry)
    start_http_server(port, addr="127.0.0.1", registry=registry)

    def publish(told: Interval) -> None:
        if told.reading is not None and told.reading.tokens_per_step is not None:
            tokens.set(told.reading.tokens_per_step)
        if told.reading is not None and told.reading.alpha is not None:
            alpha.set(told.reading.alpha)
        if told.found is not None and told.found.fallen:
            alarms.inc()

    return publish
