"""Which of the meanings that names allow are true of a record: those that identities confirm.

N steps, D drafted, A accepted, r share, τ tokens per step, s_i survival, G generated:

    r = A/D     τ = 1 + A/N (or the mean without the bonus token, A/N)     Σ s_i = A/N
    D/N = mean draft     D = γN     G = A + N     τ = G/N     τ = 1 + rγ     τ = 1 + Σ s_i
    tokens/s = τ / step time     D a whole multiple of N (of 10 steps and more)

A ≤ D alone counts only where both names say drafted and accepted tokens, and no more follows.
A printed number agrees where it lies within half of its last digit. What no identity confirms is
not read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from specmath.logs.general.names import Meaning, Name, name_of, speed_of
from specmath.logs.general.records import Cell, Record

__all__ = ["Resolved", "resolve"]

MOST_ALIKE = 5
LARGEST = 10**12
LONGEST_DRAFT = 256
FEWEST_STEPS = 10
FEWEST_DRAFTED = 20
AT_MOST = "accepted <= drafted, and nothing more"
UNNAMED = (Name("", ("tokens_per_step",)), Name("", ("share",)))
"""What a number without a name may be: a quotient, or a percentage in brackets."""


@dataclass
class Resolved:
    """What a record says: numbers by meaning, the name each was printed under, and the identities
    that hold of them. Numbers that only stand beside (speeds) are in `beside`."""

    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    tokens_per_step: float | None = None
    survival: tuple[float, ...] | None = None
    gamma: int | None = None
    generated: int | None = None
    share: float | None = None
    names: dict[Meaning, str] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    beside: dict[str, float] = field(default_factory=dict)
    total: bool = False

    @property
    def counted(self) -> bool:
        """Whether it holds counts that add up over records."""
        return self.accepted is not None and (self.drafted or self.steps or 0) > 0


@dataclass(frozen=True)
class _Printed:
    """One candidate: a cell read as one meaning."""

    value: float
    half: float
    name: str

    def agrees(self, value: float, relative: float = 1e-3) -> bool:
        """Whether it can be the printed form of `value`."""
        slack = self.half * 1.02 if self.half else relative * abs(value)
        return abs(self.value - value) <= slack + 1e-9


class _Candidates:
    """The cells of a record by what they may mean."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.by: dict[Meaning, list[_Printed]] = {}
        self.lists: dict[Meaning, list[tuple[tuple[float, ...], str]]] = {}
        self.ours: list[str] = []
        self.total: set[str] = set()
        places: dict[tuple[Meaning, str], dict[int, float]] = {}
        for cell in cells:
            name = name_of(cell.name) if cell.name else UNNAMED[cell.unit == "%"]
            if name.ours and cell.name not in self.ours:
                self.ours.append(cell.name)
            if name.total:
                self.total.add(cell.name)
            if cell.unit and cell.unit[0] in "t":
                speed = speed_of(cell.name)
                name = Name(cell.name, (speed,) if speed else ())
            for meaning in name.meanings:
                if name.position is not None:
                    key = meaning, cell.name.rstrip("0123456789")
                    scale = 0.01 if cell.unit == "%" and meaning == "survival" else 1.0
                    places.setdefault(key, {})[name.position] = cell.value * scale
                elif cell.many:
                    scale = 0.01 if cell.unit == "%" or max(cell.many) > 1 else 1.0
                    scale = scale if meaning == "survival" else 1.0
                    many = tuple(value * scale for value in cell.many)
                    self.lists.setdefault(meaning, []).append((many, cell.name))
                else:
                    self._add(meaning, cell)
        for (meaning, text), values in places.items():
            first = min(values)
            if (
                first in (0, 1)
                and len(values) > 1
                and set(values) == set(range(first, first + len(values)))
            ):
                many = tuple(values[first + i] for i in range(len(values)))
                self.lists.setdefault(meaning, []).append((many, text.strip(" _@")))

    def _add(self, meaning: Meaning, cell: Cell) -> None:
        value, half = cell.value, cell.half
        low = cell.name.lower()
        percent = cell.unit == "%" or "%" in low or "percent" in low or "pct" in low
        if meaning == "share":
            if percent or value > 1.5:
                value, half = value / 100.0, max(half, 0.0) / 100.0
            if not 0.0 <= value <= 1.0:
                return
            half = half or 5e-3 * percent
        elif meaning == "speedup":
            if percent:
                value, half = 1.0 + value / 100.0, half / 100.0
        elif (cell.unit not in ("", "ms") and meaning not in ("speed", "plain_speed")) or (
            cell.unit == "ms" and meaning != "step_ms"
        ):
            return
        if value < 0 or value > LARGEST:
            return
        self.by.setdefault(meaning, []).append(_Printed(value, half, cell.name))
        if meaning == "accepted" and cell.over is not None:
            over = _Printed(cell.over, 0.0, f"{cell.name} (of)")
            self.by.setdefault("drafted", []).append(over)
            self.by.setdefault("generated", []).append(over)

    def of(self, meaning: Meaning) -> list[_Printed]:
        """Different values, at most a few."""
        found: dict[float, _Printed] = {}
        for one in self.by.get(meaning, []):
            found.setdefault(one.value, one)
        return list(found.values())[:MOST_ALIKE]

    def whole(self, meaning: Meaning) -> list[_Printed]:
        """Those that can be counts."""
        return [one for one in self.of(meaning) if one.value == int(one.value)]


def resolve(record: Record) -> tuple[Resolved | None, list[str]]:
    """(what the record says, or None; names of speculation that no identity confirmed)."""
    found = _Candidates(record.cells)
    if not found.ours and not _sequoia(found):
        return None, []
    best: Resolved | None = None
    for one in (*_by_counts(found), *_by_rates(found)):
        if one.held and (best is None or _rank(one) > _rank(best)):
            best = one
    if best is None:
        return None, found.ours
    best.total = any(name in found.total for name in best.names.values())
    _speeds(best, found, _Candidates(record.beside))
    mapped = set(best.names.values())
    return best, [
        name for name in found.ours if name not in mapped and f"{name} (of)" not in mapped
    ]


def _sequoia(found: _Candidates) -> bool:
    return {"steps", "generated", "tokens_per_step"} <= found.by.keys()


def _rank(one: Resolved) -> tuple[int, int, int]:
    return len([text for text in one.held if text != AT_MOST]), one.counted, len(one.names)


def _by_counts(found: _Candidates) -> Iterator[Resolved]:
    meanings: tuple[Meaning, ...] = ("steps", "drafted", "accepted")
    for steps, drafted, accepted in product(*([None, *found.whole(name)] for name in meanings)):
        names = {one.name for one in (steps, drafted, accepted) if one}
        if len(names) < sum(one is not None for one in (steps, drafted, accepted)):
            continue
        if drafted and ((accepted and accepted.value > drafted.value) or drafted.value < 1):
            continue
        if steps and (steps.value < 1 or (drafted and steps.value > drafted.value)):
            continue
        one = Resolved()
        for meaning, printed in (("steps", steps), ("drafted", drafted), ("accepted", accepted)):
            if printed is not None:
                setattr(one, meaning, int(printed.value))
                one.names[meaning] = printed.name  # type: ignore[index]
        _confirm(one, found)
        yield one


def _confirm(one: Resolved, found: _Candidates) -> None:
    """Add the identities that hold of these counts, and what they bring with them."""
    taken = set(one.names.values())

    def match(meaning: Meaning, value: float, text: str, relative: float = 1e-3) -> bool:
        for printed in found.of(meaning):
            if printed.name not in taken and printed.agrees(value, relative):
                one.names[meaning] = printed.name
                taken.add(printed.name)
                one.held.append(text)
                return True
        return False

    steps, drafted, accepted = one.steps, one.drafted, one.accepted
    if accepted is None and steps:
        for printed in found.whole("generated"):
            tokens = printed.value / steps
            if 1.0 <= tokens <= LONGEST_DRAFT and match(
                "tokens_per_step", tokens, "tokens per step = generated / steps", 1e-6
            ):
                one.names["generated"] = printed.name
                one.generated = int(printed.value)
                one.tokens_per_step = tokens
                one.accepted = accepted = one.generated - steps
                break
    if accepted is None:
        return
    if drafted and accepted:
        match("share", accepted / drafted, "share = accepted / drafted")
    if drafted and (one.held or _plain_words(one.names)):
        match("rejected", drafted - accepted, "rejected = drafted - accepted", 0.0)
    if drafted and steps:
        match("mean_drafted", drafted / steps, "mean draft = drafted / steps")
        for printed in found.whole("gamma"):
            if printed.value * steps == drafted and printed.name not in taken:
                one.names["gamma"] = printed.name
                one.held.append("drafted = gamma x steps")
                one.gamma = int(printed.value)
                break
    if steps and accepted:
        tokens = 1.0 + accepted / steps
        if not match("tokens_per_step", tokens, "tokens per step = 1 + accepted / steps"):
            match("mean_accepted", accepted / steps, "mean accepted = accepted / steps")
        if "generated" not in one.names:
            for printed in found.whole("generated"):
                if 0 <= printed.value - accepted - steps <= max(1.0, 0.001 * printed.value):
                    one.names["generated"] = printed.name
                    one.held.append("generated = accepted + steps")
                    break
    if steps and drafted and drafted % steps == 0 and steps >= FEWEST_STEPS:
        one.held.append("drafted is a whole multiple of steps")
        one.gamma = one.gamma or drafted // steps
    if not steps and drafted and accepted:
        _steps_of(one, found)
        if not one.held and drafted >= FEWEST_DRAFTED and _plain_words(one.names):
            one.held.append(AT_MOST)
    _positions(one, found)
    if "generated" not in one.names and accepted:
        least = accepted + (one.steps or 0)
        for printed in found.whole("generated"):
            if printed.value >= least and printed.name not in taken:
                one.names["generated"] = printed.name
                break
    if "generated" in one.names:
        name = one.names["generated"]
        one.generated = next(int(p.value) for p in found.of("generated") if p.name == name)
    if one.gamma is None and one.steps and drafted:
        for printed in found.whole("gamma"):
            free = printed.name not in taken and 1 <= printed.value <= LONGEST_DRAFT
            if free and drafted <= printed.value * one.steps:
                one.gamma, one.names["gamma"] = int(printed.value), printed.name
                break


def _plain_words(names: dict[Meaning, str]) -> bool:
    """Whether the names say drafted tokens and accepted drafts, and could mean nothing else."""
    drafted, accepted = names["drafted"].lower(), names["accepted"].lower()
    return (
        "draft" in drafted
        and "accept" in accepted
        and ("draft" in accepted or ("token" in drafted and "token" in accepted))
    )


def _steps_of(one: Resolved, found: _Candidates) -> None:
    """Steps that are not printed: D/γ where the printed length of a step agrees."""
    if not one.drafted or one.accepted is None:
        return
    for gamma in found.whole("gamma"):
        if gamma.value >= 1 and one.drafted % gamma.value == 0:
            steps = one.drafted / gamma.value
            for printed in found.of("tokens_per_step"):
                if printed.agrees(1.0 + one.accepted / steps):
                    one.steps, one.gamma = int(steps), int(gamma.value)
                    one.names |= {"gamma": gamma.name, "tokens_per_step": printed.name}
                    one.held.append("tokens per step = 1 + accepted x gamma / drafted")
                    return


def _positions(one: Resolved, found: _Candidates) -> None:
    steps, accepted = one.steps, one.accepted
    for counts, name in found.lists.get("offered", []):
        if one.drafted and sum(counts) == one.drafted and _falls(counts):
            one.names["offered"] = name
            one.held.append("drafted by position add up to drafted")
            if steps is None and counts[0] > 0 and counts[0] == int(counts[0]):
                one.steps = steps = int(counts[0])
    if not steps or accepted is None:
        return
    for counts, name in found.lists.get("reached", []):
        if accepted and sum(counts) == accepted and _falls(counts) and counts[0] <= steps:
            one.names["reached"] = name
            one.held.append("accepted by position add up to accepted")
            one.survival = tuple(count / steps for count in counts)
            break
    for rates, name in found.lists.get("survival", []) if one.survival is None else []:
        slack = 0.006 * len(rates) if max(rates, default=0) <= 1 else 0.0
        if _falls(rates) and rates[0] <= 1 and abs(sum(rates) - accepted / steps) <= slack:
            one.names["survival"] = name
            one.held.append("rates by position add up to accepted / steps")
            one.survival = rates
            break
    for counts, name in found.lists.get("histogram", []):
        if sum(counts) == steps and sum(i * n for i, n in enumerate(counts)) == accepted:
            one.names["histogram"] = name
            one.held.append("the histogram adds up to steps and accepted")
            reached = [sum(counts[i:]) for i in range(1, len(counts))]
            one.survival = one.survival or tuple(count / steps for count in reached)
    if one.survival and (one.gamma is None or one.gamma < len(one.survival)):
        one.gamma = len(one.survival)


def _falls(values: Sequence[float]) -> bool:
    return all(a >= b >= 0 for a, b in pairwise(values))


def _by_rates(found: _Candidates) -> Iterator[Resolved]:
    """Means and shares without counts."""
    for meaning, over in (("tokens_per_step", 0.0), ("mean_accepted", 1.0)):
        for printed in found.of(meaning):  # type: ignore[arg-type]
            tokens = printed.value + over
            if not 1.0 <= tokens <= LONGEST_DRAFT:
                continue
            one = Resolved(tokens_per_step=tokens, names={meaning: printed.name})  # type: ignore[dict-item]
            _confirm_rates(one, found, printed.half)
            yield one


def _confirm_rates(one: Resolved, found: _Candidates, half: float) -> None:
    tokens = one.tokens_per_step or 1.0
    taken = set(one.names.values())
    shares = [printed for printed in found.of("share") if printed.name not in taken]
    lengths = [g for g in found.whole("gamma") if 1 <= g.value <= LONGEST_DRAFT]
    for gamma, share in product(lengths, shares):
        slack = half + share.half * gamma.value + 1e-9
        if share.value > 0 and abs(tokens - 1.0 - share.value * gamma.value) <= slack:
            one.gamma, one.share = int(gamma.value), share.value
            one.names |= {"gamma": gamma.name, "share": share.name}
            one.held.append("tokens per step = 1 + share x gamma")
            break
    if "tokens_per_step" in one.names:
        for mean in found.of("mean_accepted"):
            if mean.name not in taken and abs(tokens - 1.0 - mean.value) <= half + mean.half + 1e-9:
                one.names["mean_accepted"] = mean.name
                one.held.append("tokens per step = 1 + mean accepted")
                break
    for rates, name in found.lists.get("survival", []):
        if _falls(rates) and rates[0] <= 1.0:
            if abs(tokens - 1.0 - sum(rates)) <= half + 0.0006 * len(rates) and sum(rates) > 0:
                one.survival, one.gamma = rates, len(rates)
                one.names["survival"] = name
                one.held.append("tokens per step = 1 + rates by position")
            break
    for share in shares if one.gamma is None and not lengths else []:
        if share.value <= 0 or not half or not share.half:
            continue
        low = (tokens - 1.0 - half) / (share.value + share.half)
        high = (tokens - 1.0 + half) / max(share.value - share.half, 1e-9)
        whole = round((tokens - 1.0) / share.value)
        if 1 <= whole <= 32 and low <= whole <= high and high - low < 0.1:
            one.gamma, one.share = whole, share.value
            one.names["share"] = share.name
            one.held.append(f"(tokens per step - 1) / share is a whole draft length, {whole}")
            break
    for speed, step in product(found.of("speed"), found.of("step_ms")):
        if step.value > 0 and abs(speed.value / (1000.0 * tokens / step.value) - 1.0) < 0.005:
            one.held.append("tokens per second = tokens per step / step time")
            one.names |= {"speed": speed.name, "step_ms": step.name}
            break
    if one.held and one.gamma is None and len(lengths) == 1 and tokens <= lengths[0].value + 1:
        one.gamma = int(lengths[0].value)
        one.names["gamma"] = lengths[0].name


def _speeds(one: Resolved, found: _Candidates, above: _Candidates) -> None:
    """Numbers of speed that stand beside, in the record or just above it."""
    for meaning, fact in (
        ("speed", "tokens_per_second"), ("plain_speed", "plain_tokens_per_second"),
        ("step_ms", "step_ms"), ("speedup", "speedup"), ("requests", "requests"),
    ):  # fmt: skip
        here = found.of(meaning) or above.of(meaning)  # type: ignore[arg-type]
        if here and math.isfinite(here[-1].value) and here[-1].value > 0:
            one.beside[fact] = here[-1].value
            one.names[meaning] = here[-1].name  # type: ignore[index]
