"""SGLang's `Decode batch` log lines: three eras, told apart by the identity that holds.

    accept len = (A + N)/N, the bonus token included, in every era
    era A (2025-10)  accept rate = accept len / num_draft_tokens
    era B (2026)     accept rate = (accept len − 1) / (num_draft_tokens − 1)

For a chain num_draft_tokens is γ + 1. It is a whole number, so a printed pair allows few values;
consecutive lines must agree on one. With speculative_eagle_topk > 1 it counts tree nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from specmath.checks import FloatArray
from specmath.logs.engine import Engine, Parser, timestamp
from specmath.logs.lanes import Rows
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading, Window
from specmath.logs.series import Series, window_rows
from specmath.logs.tally import make_reading

__all__ = ["ENGINE"]

_NUM = r"(\d{1,6}(?:\.\d{1,6})?)"
_LENGTH = re.compile(rf"accept len: {_NUM}")
_RATE = re.compile(rf"accept rate: {_NUM}")
_RUNNING = re.compile(r"#running-req: (\d{1,9})")
_SETTING = re.compile(
    r"speculative_(eagle_topk|num_steps|num_draft_tokens)['\"]?\s?[=:]\s?(\d{1,4})\b"
)
_COMMON = re.compile(
    rf"Decode batch[.,] #running-req: (\d{{1,9}}), (?P<free>[^\n]{{1,200}}?)accept len: {_NUM}, "
    rf"accept rate: {_NUM},".encode()
)
HALF = 0.005 + 1e-9
MOST_DRAFT_TOKENS = 64
MOST_SEGMENTS = 64

OLD, ERA_A, ERA_B, UNKNOWN = "2025 H1", "A, 2025-10", "B, 2026", "unknown"
Candidate = tuple[str, int]


@lru_cache(maxsize=4096)
def _candidates(length: float, rate: float) -> frozenset[Candidate]:
    """(era, num_draft_tokens) that a printed length and rate allow, both rounded to 0.01.

    A chain of n draft tokens (its root included) emits at most n a step. A rate that rounds to
    zero bounds n from below only.
    """
    found = set()
    for era, over in ((ERA_A, 0.0), (ERA_B, 1.0)):
        low = max((length - over - HALF) / (rate + HALF) + over, length - HALF, 2.0)
        high = float(MOST_DRAFT_TOKENS)
        if rate > HALF:
            high = min((length - over + HALF) / (rate - HALF) + over, high)
        found |= {(era, tokens) for tokens in range(math.ceil(low), math.floor(high) + 1)}
    return frozenset(found)


@dataclass(slots=True)
class _Segment:
    """Consecutive lines of one era."""

    candidates: frozenset[Candidate] | None
    series: Series
    weight: float = 0.0
    tokens: float = 0.0
    longest: float = 0.0
    lines: int = 0


class SglangLog(Parser):
    """Means weighted by running requests: every line covers the same number of batch steps."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._segments: list[_Segment] = []
        self._settings: dict[str, int] = {}
        self._plain = 0

    def line(self, text: str, at: Place) -> None:
        for name, value in _SETTING.findall(text):
            self._settings[name] = int(value)
        found = _LENGTH.search(text)
        if found is None:
            self._plain += "Decode batch" in text
            return
        length = float(found.group(1))
        if length < 1.0 - HALF:
            self.notes.add("an accept len below 1 was left out", at)
            return
        rate = _RATE.search(text)
        options = None if rate is None else self._options(length, float(rate.group(1)))
        segment = self._segment(options)
        running = _RUNNING.search(text)
        weight = float(running.group(1)) if running else 1.0
        segment.lines += 1
        segment.weight += weight
        segment.tokens += weight * length
        segment.longest = max(segment.longest, length)
        segment.series.add(Window(at.line, timestamp(text), None, None, None, length, None, weight))

    def rows(self, found: Sequence[Rows]) -> None:
        (rows,) = found
        if not self._segments:
            self.line(rows.text(0), rows.place(0))
            rows = rows.split(rows.lines[0] + 1)[1]
        weight, length, rate = map(rows.column, (1, 3, 4))
        segment = self._continued(length, rate)
        if segment is None:
            for index in range(len(rows)):
                self.line(rows.text(index), rows.place(index))
            return
        segment.lines += len(rows)
        segment.weight += float(weight.sum())
        segment.tokens += float(weight @ length)
        segment.longest = max(segment.longest, float(length.max()))
        segment.series.extend(
            window_rows(weight, tokens_per_step=length),
            rows.lines.tolist(),
            lambda index: timestamp(rows.text(index)),
        )

    def _options(self, length: float, rate: float) -> frozenset[Candidate]:
        options = _candidates(length, rate)
        if self.gamma:
            options = frozenset(o for o in options if o[1] == self.gamma + 1) or options
        return options

    def _continued(self, length: FloatArray, rate: FloatArray) -> _Segment | None:
        """The last segment, if every one of these lines belongs to it."""
        last = self._segments[-1] if self._segments else None
        if last is None or not last.candidates or length.min() < 1.0 - HALF:
            return None
        both = last.candidates
        for pair in set(zip(length.tolist(), rate.tolist(), strict=True)):
            both &= self._options(*pair)
        if not both:
            return None
        last.candidates = both
        return last

    def _segment(self, options: frozenset[Candidate] | None) -> _Segment:
        last = self._segments[-1] if self._segments else None
        if last is not None:
            if options is None or last.candidates is None:
                if options is None and last.candidates is None:
                    return last
            elif not options and not last.candidates:
                return last
            elif options and (both := options & last.candidates):
                last.candidates = both
                return last
        if len(self._segments) >= MOST_SEGMENTS:
            self.notes.add(f"the era changes more than {MOST_SEGMENTS} times: rates not used")
            return self._segments[-1]
        self._segments.append(_Segment(options, Series()))
        return self._segments[-1]

    def readings(self) -> list[Reading]:
        merged: dict[tuple[str, int | None], list[_Segment]] = {}
        found = []
        for segment in self._segments:
            if segment.weight <= 0:
                continue
            options = segment.candidates
            if options is None or not options:
                era = OLD if options is None else UNKNOWN
                merged.setdefault((era, None), []).append(segment)
                continue
            chosen = self._settled(options)
            if len({tokens for _, tokens in chosen}) == 1:
                eras = sorted({era for era, _ in chosen})
                tokens = next(iter(chosen))[1]
                merged.setdefault((" or ".join(eras), tokens), []).append(segment)
            else:
                found.append(self._ambiguous(segment, sorted(chosen)))
        told = [self._reading(era, n, segments) for (era, n), segments in merged.items()]
        return told + found

    def _settled(self, options: frozenset[Candidate]) -> frozenset[Candidate]:
        """The candidates that agree with the printed server arguments, where there are any."""
        tokens = self._settings.get("num_draft_tokens")
        return frozenset(o for o in options if o[1] == tokens) or options

    def _reading(self, era: str, tokens: int | None, segments: list[_Segment]) -> Reading:
        weight = sum(segment.weight for segment in segments)
        length = max(sum(segment.tokens for segment in segments) / weight, 1.0)
        series = segments[0].series
        for other in segments[1:]:
            for window in other.series.windows():
                series.add(window)
        warnings = []
        if sum(segment.lines for segment in segments) > 1:
            warnings.append(
                "the mean over lines is weighted by #running-req: steps are not printed"
            )
        if era == UNKNOWN:
            warnings.append(
                "the accept rate fits neither len / n nor (len - 1) / (n - 1) for a whole n: not "
                "used (a token tree, or a build before PR 11572)"
            )
        given = self._settings.get("num_draft_tokens")
        gamma = tokens - 1 if tokens else self.gamma or (given or 0) - 1
        if tokens and self.gamma and gamma != self.gamma:
            warnings.append(f"the printed rates say gamma {gamma}, not the given {self.gamma}")
        tree = self._is_tree()
        if not tree and "eagle_topk" not in self._settings and gamma > 0:
            warnings.append("α takes the draft as a chain (speculative_eagle_topk 1)")
        if tree:
            gamma = self._settings.get("num_steps", 0)
        return make_reading(
            "sglang",
            f"log, era {era}",
            tokens_per_step=length,
            gamma=gamma if gamma > 0 else None,
            tree=tree,
            windows=series.windows(),
            warnings=warnings,
        )

    def _is_tree(self) -> bool:
        steps, tokens = self._settings.get("num_steps"), self._settings.get("num_draft_tokens")
        odd = steps is not None and tokens is not None and tokens > steps + 1
        return self._settings.get("eagle_topk", 1) > 1 or odd

    def _ambiguous(self, segment: _Segment, chosen: list[Candidate]) -> Reading:
        """Both readings, side by side; the common one keeps only what they agree on."""
        eras = " or ".join(sorted({era for era, _ in chosen}))
        readings = tuple(self._reading(era, tokens, [segment]) for era, tokens in chosen[:8])
        main = make_reading(
            "sglang",
            f"log, era {eras}: ambiguous",
            tokens_per_step=segment.tokens / segment.weight,
            windows=segment.series.windows(),
        )
        text = "the accept rate fits more than one era or draft length: all readings are given"
        return replace(main, alternatives=readings).warned(text)

    def without(self) -> str | None:
        if self._segments:
            lines = sum(segment.lines for segment in self._segments)
            return (
                f"an SGLang log in which no step with requests was logged (#running-req: 0 in all "
                f"{lines} lines with an accept len)"
            )
        if self._plain:
            return f"{self._plain} SGLang 'Decode batch' lines without accept len"
        return None


ENGINE = Engine(
    "sglang",
    (b"Decode batch", b"speculative_"),
    SglangLog,
    (_COMMON,),
    (b"accept len", b"accept rate", b"#running-req"),
)
