"""Per-position acceptance from what a person pastes: numbers, percentages or a log line."""

from __future__ import annotations

import math
import re

from specmath.logs.errors import LogError, start_of

__all__ = ["check_survival", "read_rates"]

EXPECTED = (
    "expected per-position acceptance rates: numbers such as 0.9, 0.8, 0.7 or 90%, 80%, 70%, "
    "or a log line that carries them (vLLM 'Per-position acceptance rate: …', llama.cpp "
    "'acc per pos = (…)', the 'Position i:' lines of vllm bench serve)"
)
MOST_POSITIONS = 256
LONGEST = 1_000_000

_NUMBER = r"[-+]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
_LIST = rf"{_NUMBER}\s?%?(?:\s*,\s*{_NUMBER}(?![\w.])\s?%?)*"
_BARE = re.compile(rf"[\[(]?\s*{_NUMBER}\s?%?(?:[\s,;]+{_NUMBER}\s?%?)*[\s,;]*[\])]?")
_TOKEN = re.compile(rf"({_NUMBER})\s?(%?)")
_LABELLED = re.compile(
    r"(?:Per-position acceptance rate: |acceptance rate per position = \(|acc per pos = \(|"
    r'#acc rate/pos = \(|"spec_decode_per_position_acceptance_rates":\s*\[)\s*'
    rf"({_LIST})"
)
_BENCH_HEAD = re.compile(r"Per-position acceptance \(%\):")
_BENCH_POSITION = re.compile(rf"^\s*Position (\d{{1,4}}):\s*({_NUMBER})\s*$", re.MULTILINE)


def check_survival(rates: tuple[float, ...], unit: float = 1.0) -> tuple[float, ...]:
    """`rates` if each is in [0, 1] and none exceeds the one before it; else LogError.

    s_i = P(the first i drafted tokens are accepted), so s_i <= s_{i-1} always. `unit` is what the
    values were divided by (100 for percentages): the message shows them as they were written.
    """
    bound, before = 1.0, "1"
    for position, rate in enumerate(rates, start=1):
        shown = _as_written(rate, unit)
        if not math.isfinite(rate) or rate < 0.0 or rate > 1.0:
            raise LogError(
                f"acceptance rate at position {position} is {shown}: it must be >= 0 and "
                f"<= {_as_written(1.0, unit)}"
            )
        if rate > bound:
            raise LogError(
                f"acceptance rate at position {position} is {shown}, above {before} at position "
                f"{position - 1}: per-position rates count steps in which all earlier tokens were "
                "accepted too, so they cannot rise (conditional rates can: multiply them up first)"
            )
        bound, before = rate, shown
    return rates


def read_rates(text: str) -> tuple[float, ...]:
    """Survival s_1…s_γ, each in [0, 1] and non-increasing, from pasted `text`.

    Accepts bare numbers ("0.9, 0.8, 0.7"), percentages ("90%, 80%"), or a log line that carries
    per-position rates. Raises LogError where there are none, or where they rise or leave [0, 1].
    """
    if len(text) > LONGEST:
        raise LogError(f"{EXPECTED}; got {len(text)} characters: read a long log as a file")
    values, unit = _bare(text) or _labelled(text) or _bench(text) or ([], 1.0)
    if not values:
        raise LogError(f"{EXPECTED}; got {start_of(text)}")
    if len(values) > MOST_POSITIONS:
        raise LogError(f"{len(values)} positions given: at most {MOST_POSITIONS} can be read")
    return check_survival(tuple(value / unit for value in values), unit)


def _as_written(rate: float, unit: float) -> str:
    return f"{rate * unit:.6g}{'%' if unit == 100.0 else ''}"


def _numbers(text: str) -> tuple[list[float], float]:
    """Values and unit of a list; a list that mixes percentages with fractions is refused."""
    found = _TOKEN.findall(text)
    signs = {sign for _, sign in found}
    if len(signs) > 1:
        raise LogError(f"some rates have a percent sign and some do not: {start_of(text)}")
    return [float(number) for number, _ in found], 100.0 if "%" in signs else 1.0


def _bare(text: str) -> tuple[list[float], float] | None:
    stripped = text.strip()
    return _numbers(stripped) if stripped and _BARE.fullmatch(stripped) else None


def _labelled(text: str) -> tuple[list[float], float] | None:
    """The last labelled list: a server prints the newest line last."""
    found = _LABELLED.findall(text)
    return _numbers(found[-1]) if found else None


def _bench(text: str) -> tuple[list[float], float] | None:
    if not _BENCH_HEAD.search(text):
        return None
    rows = [(int(position), float(value)) for position, value in _BENCH_POSITION.findall(text)]
    if [position for position, _ in rows] != list(range(len(rows))):
        raise LogError(f"'Position i:' lines must count 0, 1, 2, …; got {[p for p, _ in rows]}")
    return ([value for _, value in rows], 100.0) if rows else None
