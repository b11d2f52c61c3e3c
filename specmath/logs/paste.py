"""Per-position acceptance from what a person pastes: numbers, percentages or a log line."""

from __future__ import annotations

import re

from specmath.logs.detect import read
from specmath.logs.errors import LogError, start_of
from specmath.logs.survival import check_survival

__all__ = ["read_rates"]

EXPECTED = (
    "expected per-position acceptance rates: numbers such as 0.9, 0.8, 0.7 or 90%, 80%, 70%, "
    "or a log that carries them (vLLM 'Per-position acceptance rate: …', llama.cpp "
    "'acc per pos = (…)', the 'Position i:' lines of vllm bench serve, metrics, histograms)"
)
MOST_POSITIONS = 256
LONGEST = 1_000_000
LONGEST_LIST = 10_000

# Each text has one way to match, so that a long paste that is no list fails at once.
_NUMBER = r"[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
_RATE = rf"{_NUMBER}(?:\s?%)?"
_LIST = rf"{_RATE}(?:\s{{0,3}},\s{{0,3}}{_RATE}(?![\w.]))*"
_BARE = re.compile(rf"[\[(]?\s*{_RATE}(?:[\s,;]+{_RATE})*[\s,;]*[\])]?")
_TOKEN = re.compile(rf"({_NUMBER})\s?(%?)")
_LABELLED = re.compile(
    r"(?:Per-position acceptance rate: |acceptance rate per position = \(|acc per pos = \(|"
    r'#acc rate/pos = \(|"spec_decode_per_position_acceptance_rates":\s{0,3}\[)\s{0,9}'
    rf"({_LIST})"
)
_BENCH_HEAD = re.compile(r"Per-position acceptance \(%\):")
_BENCH_POSITION = re.compile(rf"^\s{{0,20}}Position (\d{{1,4}}):\s{{0,60}}({_NUMBER})\s*$", re.M)
Rates = tuple[float, ...]


def read_rates(text: str) -> Rates:
    """Survival s_1…s_γ, each in [0, 1] and non-increasing, from pasted `text`.

    Accepts bare numbers ("0.9, 0.8, 0.7"), percentages ("90%, 80%"), a log line that carries
    per-position rates, or several lines of one server's telemetry, which are pooled by their
    steps. Raises LogError where there are none, where they rise or leave [0, 1], and where the
    text holds several servers' rates.
    """
    if len(text) > LONGEST:
        raise LogError(f"{EXPECTED}; got {len(text)} characters: read a long log as a file")
    lists = _lists(text)
    for values, unit in lists:
        if len(values) > MOST_POSITIONS:
            raise LogError(f"{len(values)} positions given: at most {MOST_POSITIONS} can be read")
        check_survival(tuple(value / unit for value in values), unit)
    if len(lists) == 1:
        values, unit = lists[0]
        return tuple(value / unit for value in values)
    return _from_log(text)


def _from_log(text: str) -> Rates:
    """The survival of the only reading, or of several that agree to the printed digits."""
    try:
        readings = read(text)
    except LogError as error:
        raise LogError(f"{EXPECTED}; got {start_of(text)}") from error
    found = [one for one in readings if one.survival]
    if not found:
        raise LogError(f"{EXPECTED}; got {readings[0].engine} {readings[0].format}, without them")
    first = found[0].survival or ()
    for other in found[1:]:
        rates = other.survival or ()
        near = len(rates) == len(first) and all(
            abs(a - b) <= 0.001 for a, b in zip(rates, first, strict=True)
        )
        if not near:
            names = "; ".join(f"{one.engine} {one.format}" for one in found[:6])
            raise LogError(f"{len(found)} different sets of rates ({names}): paste one of them")
    return first


def _lists(text: str) -> list[tuple[list[float], float]]:
    """Every list of rates that stands in `text` as such, with its unit (100 for percentages)."""
    stripped = text.strip()
    if stripped and len(stripped) <= LONGEST_LIST and _BARE.fullmatch(stripped):
        return [_numbers(stripped)]
    found = [_numbers(one) for one in _LABELLED.findall(text)]
    if _BENCH_HEAD.search(text) and (rows := _BENCH_POSITION.findall(text)):
        # A second result counts from 0 again.
        for position, value in rows:
            if int(position) == 0 or not found:
                found.append(([], 100.0))
            found[-1][0].append(float(value))
    return found


def _numbers(text: str) -> tuple[list[float], float]:
    """Values and unit of a list; a list that mixes percentages with fractions is refused."""
    found = _TOKEN.findall(text)
    signs = {sign for _, sign in found}
    if len(signs) > 1:
        raise LogError(f"some rates have a percent sign and some do not: {start_of(text)}")
    return [float(number) for number, _ in found], 100.0 if "%" in signs else 1.0
