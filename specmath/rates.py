"""Per-position rates as they are printed and typed: survival, within [0, 1] and never rising."""

from __future__ import annotations

import re
from itertools import pairwise

from specmath.checks import InputError

__all__ = ["RATE_LIST", "check_survival", "parse_rates", "read_rates", "start_of"]

MOST_POSITIONS = 256
LONGEST_LIST = 10_000

# A printed list of fractions: "0.812, 0.562, 0.337", whole or not at all.
RATE_LIST = r"\d\.\d{1,9}(?:, \d\.\d{1,9}){0,255}(?![\d.]|, \d)"

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


def read_rates(text: str) -> tuple[float, ...] | None:
    """Survival s_1…s_γ from bare numbers ("0.9, 0.8, 0.7"), percentages ("90%, 80%") or a line
    that labels them as vLLM and llama.cpp do; None where `text` holds no such list or several.

    Raises InputError where the rates rise, leave [0, 1] or mix percentages with fractions.
    """
    lists = [(tuple(value / unit for value in values), unit) for values, unit in _lists(text)]
    for rates, unit in lists:
        if len(rates) > MOST_POSITIONS:
            raise InputError(f"{len(rates)} positions given: at most {MOST_POSITIONS} can be read")
        check_survival(rates, unit)
    return lists[0][0] if len(lists) == 1 else None


def parse_rates(text: str) -> tuple[float, ...]:
    """The survival that a text matching RATE_LIST prints; InputError where it rises or is > 1."""
    return check_survival(tuple(float(rate) for rate in text.split(", ")))


def check_survival(rates: tuple[float, ...], unit: float = 1.0) -> tuple[float, ...]:
    """`rates` if each is in [0, 1] and none exceeds the one before it; else InputError.

    s_i = P(the first i drafted tokens are accepted), so s_i <= s_{i-1} always. `unit` is what the
    values were divided by (100 for percentages): the message shows them as they were written.
    """
    for position, (before, rate) in enumerate(pairwise((1.0, *rates)), start=1):
        if not 0.0 <= rate <= before:
            raise InputError(_complaint(position, rate, before, unit))
    return rates


def _complaint(position: int, rate: float, before: float, unit: float) -> str:
    sign = "%" if unit == 100.0 else ""
    shown, above, most = (f"{each * unit:.6g}{sign}" for each in (rate, before, 1.0))
    if not 0.0 <= rate <= 1.0:
        return f"acceptance rate at position {position} is {shown}: it must be >= 0 and <= {most}"
    return (
        f"acceptance rate at position {position} is {shown}, above {above} at position "
        f"{position - 1}: per-position rates count steps in which all earlier tokens were "
        "accepted too, so they cannot rise (conditional rates can: multiply them up first)"
    )


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
        raise InputError(f"some rates have a percent sign and some do not: {start_of(text)}")
    return [float(number) for number, _ in found], 100.0 if "%" in signs else 1.0


def start_of(text: str, length: int = 60) -> str:
    """The first characters of `text` on one line, as a message shows them."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= length else flat[:length] + "…")
