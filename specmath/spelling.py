"""Names as people write them: which entries of a catalogue a text may mean, and which are near."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from specmath.checks import InputError, short

__all__ = ["Entry", "chosen", "matches", "nearest", "unknown", "words"]

_WORD = re.compile(r"[a-z0-9]+(?:\.[0-9]+)*")
_FUSED = re.compile(r"(?<=[a-z]{3})(?=\d)")  # "qwen3" is two words, "h100" and "mi300x" one
_AMBIGUOUS = 8  # names that a message lists
_ALIKE = 0.6  # share of the letters of two words that makes them alike
_LONGEST = 80  # characters of a name; what is longer is no name


@dataclass(frozen=True)
class Entry:
    """One entry of a catalogue: its name, other spellings, and words that may come with them."""

    name: str
    spellings: tuple[str, ...] = ()
    facts: frozenset[str] = frozenset()


@dataclass(frozen=True, order=True)
class _Rank:
    """How well a spelling is met, the best first: few words unsaid, by its name, none shortened."""

    unsaid: int
    by_alias: bool
    shortened: int
    place: int
    words_unsaid: frozenset[str] = field(compare=False)


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """The words of a name, in lower case; what stands in brackets is left out.

    Examples
    --------
    >>> words("Qwen3-8B_AWQ (400 W)")
    ('qwen', '3', '8b', 'awq')
    """
    bare = re.sub(r"\([^)]*\)", " ", text.lower())
    return tuple(part for word in _WORD.findall(bare) for part in _FUSED.split(word))


def _begins(word: str, asked: str) -> bool:
    """Whether `asked` is short for `word`: "deep" for deepseek, "70" for 70b; not "3" for 3.5."""
    rest = word.removeprefix(asked)
    if rest in (word, "") or not rest[0].isalpha():
        return False
    return len(rest) == 1 or rest == "gb" if asked[-1].isdigit() else len(asked) > 1 < len(rest)


def _rank(asked: Sequence[str], entry: Entry, place: int) -> _Rank | None:
    """The best of the entry's spellings that holds every word asked for; None where none does."""
    found = []
    for by_alias, spelling in enumerate((entry.name, *entry.spellings)):
        own, shortened = list(words(spelling)), 0
        said = len(own)
        for word in asked:
            if word in own:
                own.remove(word)
                continue
            longer = next((one for one in own if _begins(one, word)), None)
            if longer is not None:
                own.remove(longer)
                shortened += 1
            elif word not in entry.facts:
                break
        else:
            if len(own) == said:  # nothing but what may come with it
                continue
            found.append(_Rank(len(own), by_alias > 0, shortened, place, frozenset(own)))
    return min(found, default=None)


def _ranked(text: str, entries: Iterable[Entry]) -> list[tuple[_Rank, str]]:
    asked = words(text) if len(text) <= _LONGEST else ()
    ranks = ((_rank(asked, entry, place), entry.name) for place, entry in enumerate(entries))
    return sorted((rank, name) for rank, name in ranks if rank is not None) if asked else []


def matches(text: str, entries: Iterable[Entry]) -> list[str]:
    """Names whose spelling holds every word of `text`, in any order, the best match first."""
    return [name for _, name in _ranked(text, entries)]


def chosen(
    text: str, entries: Iterable[Entry], must_say: frozenset[str] = frozenset()
) -> str | None:
    """The one entry that `text` means; None where several do, or none.

    The only one that holds its words, or the one that leaves two words fewer unsaid than the next;
    names that only add a word to another match ("…-NVFP4") do not count, and words of `must_say`
    (what tells one product from another) may not be unsaid.
    """
    ranked = [pair for pair in _ranked(text, entries) if not pair[0].words_unsaid & must_say]
    known = {words(name) for _, name in ranked}
    heads = [
        pair for pair in ranked if not any(words(pair[1])[:n] in known for n in _lengths(pair))
    ]
    if not heads:
        return None
    best, name = heads[0]
    return name if all(best.unsaid + 2 <= rank.unsaid for rank, _ in heads[1:]) else None


def _lengths(pair: tuple[_Rank, str]) -> range:
    """How many words a name could have that the name of `pair` adds to."""
    return range(1, len(words(pair[1])))


def nearest(text: str, entries: Iterable[Entry], count: int = 5) -> list[str]:
    """At most `count` names that share words with `text`, nearly or wholly, the nearest first."""
    asked = words(text[:_LONGEST])
    scored = []
    for place, entry in enumerate(entries):
        each = [_likeness(asked, words(spelling)) for spelling in (entry.name, *entry.spellings)]
        scored.append((-max(each), place, entry.name))
    return [name for score, _, name in sorted(scored)[:count] if score < -0.3]


def _likeness(asked: Sequence[str], own: Sequence[str]) -> float:
    """Share of the words of both that are alike, 0 to 1."""
    if not asked or not own:
        return 0.0
    met = sum(max(_alike(word, other) for other in own) for word in asked)
    return met / (0.7 * len(asked) + 0.3 * len(own))


@lru_cache(maxsize=16384)
def _alike(word: str, other: str) -> float:
    """1 for the same word, under 0.7 for one that is like it, 0 for another."""
    if word == other:
        return 1.0
    if 2 * min(len(word), len(other)) < _ALIKE * (len(word) + len(other)):
        return 0.0
    ratio = difflib.SequenceMatcher(None, word, other).ratio()
    return 0.7 * ratio**2 if ratio >= _ALIKE else 0.0


def unknown(rule: str, text: str, entries: Sequence[Entry], hint: str = "") -> InputError:
    """The error for a name that no single entry has: what it may mean, else what is near it.

    `rule`: what holds of the name, such as "gpu must be in the catalogue".
    """
    several = matches(text, entries)
    shown, more = several[:_AMBIGUOUS], len(several) - _AMBIGUOUS
    if several:
        said = f"; it may mean: {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")
    elif near := nearest(text, entries):
        said = f"; nearest: {', '.join(near)}"
    else:
        first = ", ".join(entry.name for entry in entries[:5])
        said = f"; it holds {len(entries)}, such as {first}"
    return InputError(f"{rule}, got {short(text, 60)!r}{said}{hint}")
