"""Wrong inputs at every door: each must be taken, or refused in a sentence; nothing else escapes.

    python -m tools.fuzz --door all --count 2000 --seed 1 --jobs 2

Every input follows from door (see tools/doors.py), seed and number alone: `--from N --count 1`
makes number N again. Exit code 1 on any escape. What ran at length, on 2026-11-30:

    door        inputs  seed  accepted  refused  escaped
    configs    200,000    11    70,044  129,956        0
    prompts    150,000    11    49,477  100,523        0
    links      150,000    11    15,573  134,427        0
    scenarios  150,000    11     8,670  141,270       60   refusals of over 5,000 letters; mended
    commands    60,000    11    13,815   46,182        3   in judging γ of a log
    answers     60,000    11    17,072   42,928        0
    reports      6,000     0       287    5,713        0
    logs         6,000     0     3,683    2,317        0
    pastes       6,000     0       953    5,047        0

and of later code (that judging of γ is replaced; its three inputs were not kept):

    configs    120,000    12    42,041   77,959        0
    prompts     80,000    12    26,356   53,644        0
    commands    10,000    12     2,446    7,554        0
    each other   1,000    21                           0
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.doors import DOORS, REFUSALS, Refused

SECONDS = 20.0
"""An input that takes longer has escaped: a page would hang on it."""
MOST_MEMORY = 6 << 30
SHOWN = 5
ROW = "{:10} {:>9} {:>9} {:>9} {:>8} {:>9}"


@dataclass
class Tally:
    """What became of the inputs of a door."""

    accepted: int = 0
    refused: int = 0
    escapes: list[tuple[int, str, str]] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, other: Tally) -> None:
        self.accepted += other.accepted
        self.refused += other.refused
        self.escapes += other.escapes
        self.slowest = max(self.slowest, other.slowest)


def drawn(name: str, seed: int, number: int) -> Any:
    """Input `number` of a door."""
    return DOORS[name].draw(random.Random(f"{name} {seed} {number}"))


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """TimeoutError where it takes longer."""

    def late(*_: object) -> None:
        raise TimeoutError(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def escaped(feed: Callable[[Any], None], given: Any) -> Exception | None:
    """What escaped; None where the input was taken. Refusals are raised."""
    try:
        with within(SECONDS):
            feed(given)
    except (*REFUSALS, Refused):
        raise
    except Exception as error:
        return error
    return None


def sentence_of(error: BaseException) -> None:
    """A refusal is a sentence: short, and with no more than one line."""
    text = str(error)
    assert text.strip(), "an empty refusal"
    assert len(text) < 5000, f"a refusal of {len(text)} characters"


def run(name: str, seed: int, numbers: range) -> Tally:
    """Feed inputs of one door and count."""
    tally, door = Tally(), DOORS[name]
    for number in numbers:
        given, begun = drawn(name, seed, number), time.perf_counter()
        try:
            found = escaped(door.feed, given)
            tally.accepted += found is None
        except Refused:
            found = None
            tally.refused += 1
        except REFUSALS as error:
            found = None
            try:
                sentence_of(error)
                tally.refused += 1
            except AssertionError as fault:
                found = fault
        tally.slowest = max(tally.slowest, time.perf_counter() - begun)
        if found is not None:
            tally.escapes.append((number, place_of(found), shown(smaller(door.feed, given, found))))
    return tally


def place_of(error: BaseException) -> str:
    """Kind, message and the last line of ours that it came through."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "specmath" in f.filename]
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} {str(error)[:80]!r} at {where}"


def smaller(feed: Callable[[Any], None], given: Any, error: BaseException) -> Any:
    """The input with whatever taken away that the escape does not need; 300 tries at most."""
    if isinstance(given, tuple):  # the part with the bytes or the text
        at = next(i for i in (1, 0) if isinstance(given[i], (str, bytes)))
        before, after = given[:at], given[at + 1 :]
        part = smaller(lambda part: feed((*before, part, *after)), given[at], error)
        return (*before, part, *after)
    if not isinstance(given, (str, bytes, list)):
        return given
    tries, size = 0, len(given) // 2
    while size and tries < 300:
        at = 0
        while at < len(given) and tries < 300:
            less, tries = given[:at] + given[at + size :], tries + 1
            with contextlib.suppress(*REFUSALS, Refused):
                if type(escaped(feed, less)) is type(error):
                    given = less
                    continue
            at += size
        size //= 2
    return given


def shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 300 else f"{text[:200]} … {text[-90:]}"


def _prepared() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    warnings.simplefilter("error", RuntimeWarning)
    os.chdir(tempfile.mkdtemp())


def parts(names: list[str], seed: int, first: int, count: int) -> Iterator[tuple[str, int, range]]:
    for name in names:
        for start in range(first, first + count, 500):
            yield name, seed, range(start, min(start + 500, first + count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--door", choices=["all", *DOORS], default="all")
    parser.add_argument("--count", type=int, default=1000, help="inputs a door")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="first", type=int, default=0, help="number of the first")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    names = list(DOORS) if asked.door == "all" else [asked.door]
    tallies = {name: Tally() for name in names}
    work = list(parts(names, asked.seed, asked.first, asked.count))
    with multiprocessing.Pool(asked.jobs, _prepared) as pool:
        for (name, *_), tally in zip(work, pool.imap(_run, work), strict=True):
            tallies[name].add(tally)
    print(ROW.format("door", "inputs", "accepted", "refused", "escaped", "slowest"))
    for name, tally in tallies.items():
        counts = tally.accepted, tally.refused, len(tally.escapes)
        print(ROW.format(name, sum(counts), *counts, f"{tally.slowest:.2f} s"))
    for name, tally in tallies.items():
        kinds = {place: (number, given) for number, place, given in reversed(tally.escapes)}
        for place, (number, given) in list(kinds.items())[:SHOWN]:
            again = f"--door {name} --seed {asked.seed} --from {number} --count 1"
            print(f"\n{name}: {place}\n  {again}\n  {given}")
    return int(any(tally.escapes for tally in tallies.values()))


def _run(part: tuple[str, int, range]) -> Tally:
    return run(*part)


if __name__ == "__main__":
    sys.exit(main())
