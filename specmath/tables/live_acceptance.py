"""Acceptance as a spreadsheet follows it: cells for α, the rates or a mixture, and τ by formula."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specmath.acceptance import (
    Acceptance,
    CoveredAcceptance,
    FallingAcceptance,
    IidAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
)
from specmath.acceptance_record import Band
from specmath.estimate import conditional
from specmath.predict import Prediction
from specmath.scenario import SPECS
from specmath.scenario.forms import Recorded
from specmath.tables.columns import column
from specmath.tables.inputs import acceptance_from, derived, field_cell
from specmath.tables.table import Column, Input
from specmath.trees import TreeAcceptance

__all__ = ["LONGEST_SUM", "Live", "Parts", "Tokens", "over_all_steps", "tokens_of"]

Parts = tuple[list[Column], list[Input]]

LONGEST_SUM = 200
"""Terms of τ that fit one cell, with room for long references."""
LONGEST_FORMULA = 6000
"""Characters; a cell holds 8,192, and names may be longer in it."""
DEEPEST = 60
"""Brackets within brackets: a spreadsheet reads 64."""


class Live(ABC):
    """One acceptance of the steps that have a draft."""

    acceptance: Acceptance

    @abstractmethod
    def columns(self, gammas: np.ndarray, suffix: str) -> list[Column]:
        """τ over γ, and what it is the sum of."""

    @abstractmethod
    def inputs(self, top: int) -> list[Input]:
        """The cells that it follows from, up to that γ."""

    @abstractmethod
    def at(self, gamma: int) -> str | None:
        """τ at one γ as a formula of the cells; None where none follows."""


def _running(
    acceptance: Acceptance, gammas: np.ndarray, rates: list[str], suffix: str
) -> list[Column]:
    """Survival and its running sum; `rates`: the conditional rate of each position."""
    survival = acceptance.survival(int(gammas[-1]))
    here, above = f"{{survival{suffix}}}", f"{{tokens_per_step{suffix}^}}"
    product = ("1", *(f"{{survival{suffix}^}}*{rate}" for rate in rates))
    total = (here, *(f"{above}+{here}",) * (len(gammas) - 1))
    return [
        column("survival", survival, product, suffix=suffix),
        column("tokens_per_step", np.cumsum(survival), total, suffix=suffix),
    ]


@dataclass(frozen=True)
class _Alpha(Live):
    """One rate, in the cell `cell`; of a head, less by `fall` with each position past `depth`."""

    acceptance: IidAcceptance | FallingAcceptance
    cell: str
    cells: tuple[Input, ...]

    def _share(self, position: int) -> float:
        a = self.acceptance
        past = max(0, position - a.depth) if isinstance(a, FallingAcceptance) else 0
        return (1.0 - a.fall) ** past if isinstance(a, FallingAcceptance) else 1.0

    def _rate(self, position: int) -> str:
        share = self._share(position)
        return f"{{{self.cell}}}" if share == 1.0 else f"({{{self.cell}}}*{share!r})"

    def columns(self, gammas: np.ndarray, suffix: str) -> list[Column]:
        if suffix in ("_low", "_high") and isinstance(self.acceptance, IidAcceptance):
            tokens = np.asarray(self.acceptance.tokens_per_step(gammas))
            rest = f"1+{{{self.cell}}}*{{tokens_per_step{suffix}^}}"
            each = ("1", *(rest,) * (len(gammas) - 1))
            return [column("tokens_per_step", tokens, each, suffix=suffix)]
        rates = [self._rate(i) for i in range(1, len(gammas))]
        return _running(self.acceptance, gammas, rates, suffix)

    def inputs(self, top: int) -> list[Input]:
        return list(self.cells)

    def at(self, gamma: int) -> str | None:
        if gamma > LONGEST_SUM:
            return None
        # At α=0 no term is 0⁰.
        terms, share = ["1"], 1.0
        for i in range(1, gamma + 1):
            share *= self._share(i)
            terms.append(f"{{{self.cell}}}^{i}" + (f"*{share!r}" if share != 1.0 else ""))
        return "+".join(terms)


@dataclass(frozen=True)
class _Rates(Live):
    """Rates by position, a cell each: survival, or each given the one before it."""

    acceptance: PerPositionAcceptance
    given: tuple[float, ...]
    name: str
    said: tuple[Any, ...]

    def _conditional(self, i: int) -> str:
        known = len(self.given)
        if self.name == "conditional":
            return f"{{conditional_{min(i, known)}}}"
        i = min(i, known)
        if i == 1:
            return "{survival_1}"
        before = f"{{survival_{i - 1}}}"
        return f"({{survival_{i}}}/({before}+({before}=0)))"

    def columns(self, gammas: np.ndarray, suffix: str) -> list[Column]:
        rest, known = len(gammas) - 1, len(self.given)
        each = self.given if self.name == "conditional" else self.acceptance.conditional
        values = [each[min(i, known) - 1] for i in range(1, rest + 1)]
        live = [self._conditional(i) for i in range(1, rest + 1)]
        said = f"P(token accepted | all before it were); given to γ={known}, the last is carried on"
        rates = column(
            "conditional", (None, *values), (None, *live), suffix=suffix, definition=said
        )
        here = [f"{{conditional{suffix}}}"] * rest
        return [rates, *_running(self.acceptance, gammas, here, suffix)]

    def inputs(self, top: int) -> list[Input]:
        basis, source = self.said
        meant = {
            "survival": "Share of the steps with a draft that accept this many drafted tokens or "
            "more; it cannot exceed the one before it",
            "conditional": "P(token accepted | all before it were)",
        }[self.name]
        label = {"survival": "Survival at", "conditional": "Conditional rate at"}[self.name]
        return [
            Input(f"{self.name}_{i}", f"{label} {i}", "", meant, rate, "0.000", basis, source)
            for i, rate in enumerate(self.given[: max(top, 1)], start=1)
        ]

    def at(self, gamma: int) -> str | None:
        if gamma > (LONGEST_SUM if self.name == "survival" else DEEPEST):
            return None
        known = len(self.given)
        if self.name == "conditional":
            text = "1"
            for i in range(gamma, 0, -1):
                text = f"1+{self._conditional(i)}*({text})"
            return text
        terms = ["1", *(f"{{survival_{i}}}" for i in range(1, min(gamma, known) + 1))]
        last = self._conditional(known)
        terms += [f"{{survival_{known}}}*{last}^{i}" for i in range(1, gamma - known + 1)]
        return "+".join(terms)


@dataclass(frozen=True)
class _Mixture(Live):
    """Kinds of requests: the share and the α of each."""

    acceptance: MixtureAcceptance
    said: tuple[Any, ...]

    @property
    def _kinds(self) -> list[tuple[int, float, IidAcceptance]]:
        parts = zip(self.acceptance.weights, self.acceptance.parts, strict=True)
        return [
            (i, share, part)
            for i, (share, part) in enumerate(parts, start=1)
            if isinstance(part, IidAcceptance)
        ]

    def _blend(self, tokens: list[str]) -> str:
        shares = "+".join(f"{{share_{i}}}" for i, *_ in self._kinds)
        steps = "+".join(
            f"{{share_{i}}}/{t}" for (i, *_), t in zip(self._kinds, tokens, strict=True)
        )
        return f"({shares})/({steps})"

    def columns(self, gammas: np.ndarray, suffix: str) -> list[Column]:
        found: list[Column] = []
        for i, _, part in self._kinds:
            found += _running(part, gammas, [f"{{alpha_{i}}}"] * (len(gammas) - 1), f"_{i}")
        total = column(
            "tokens_per_step",
            np.asarray(self.acceptance.tokens_per_step(gammas)),
            self._blend([f"{{tokens_per_step_{i}}}" for i, *_ in self._kinds]),
            definition="Blend that averages time per token: Σ share / Σ (share / tokens_per_step)",
        )
        return [*found, total]

    def inputs(self, top: int) -> list[Input]:
        basis, source = self.said
        found = []
        for i, share, part in self._kinds:
            said, alpha = "Share of the output tokens", SPECS["alpha"].help
            found += [
                Input(f"share_{i}", f"Share {i}", "", said, share, "0.00", basis, source),
                Input(f"alpha_{i}", f"α {i}", "", alpha, part.alpha, "0.0000", basis, source),
            ]
        return found

    def at(self, gamma: int) -> str | None:
        if gamma * len(self._kinds) > LONGEST_SUM:
            return None
        sums = [
            "(" + "+".join(["1", *(f"{{alpha_{i}}}^{j}" for j in range(1, gamma + 1))]) + ")"
            for i, *_ in self._kinds
        ]
        return self._blend(sums)


@dataclass(frozen=True)
class _Fixed(Live):
    """What no formula of a cell makes: a tree, drafts that stop early, a fitted fall."""

    acceptance: Acceptance

    def columns(self, gammas: np.ndarray, suffix: str) -> list[Column]:
        if isinstance(self.acceptance, TreeAcceptance):  # another tree at each number of nodes
            tokens, said = self.acceptance.tokens_per_step(gammas), "Of the best tree of γ nodes"
            return [column("tokens_per_step", np.asarray(tokens), suffix=suffix, definition=said)]
        each = conditional(self.acceptance.survival(int(gammas[-1]))[1:].tolist())
        never = len(gammas) - 1 - len(each)
        said = (
            "P(token drafted and accepted | all before it were): it falls with the position, or "
            "drafts stop early; fixed in a file"
        )
        rates = column(
            "conditional", (None, *each, *(0.0,) * never), suffix=suffix, definition=said
        )
        here = [f"{{conditional{suffix}}}"] * (len(gammas) - 1)
        return [rates, *_running(self.acceptance, gammas, here, suffix)]

    def inputs(self, top: int) -> list[Input]:
        return []

    def at(self, gamma: int) -> str | None:
        return None


# ── centre and ends ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tokens:
    """τ of a prediction in the middle and, where the acceptance is open, at either end."""

    each: dict[str, Live]
    coverage: Input | None
    follows: bool

    @property
    def open(self) -> bool:
        """Whether it has ends of its own."""
        return len(self.each) > 1

    @property
    def live(self) -> bool:
        """Whether it follows from cells for typing."""
        return self.follows and not any(isinstance(live, _Fixed) for live in self.each.values())

    def _inputs(self, top: int) -> list[Input]:
        found = [item for live in self.each.values() for item in live.inputs(top)]
        if not self.follows:
            found = [replace(item, editable=False) for item in found]
        return found if self.coverage is None else [*found, self.coverage]

    def end(self, end: str) -> str:
        """What is at the end ("_low", "_high") in the name of τ there."""
        return end if self.open else ""

    def columns(self, gammas: np.ndarray) -> Parts:
        """τ over γ, and its ends."""
        found: list[Column] = []
        for suffix, live in self.each.items():
            columns = live.columns(gammas, suffix)
            if self.coverage is not None:
                tokens = np.asarray(self._all(live).tokens_per_step(gammas))
                name = f"tokens_per_step{suffix}"
                columns = over_all_steps(name, tokens, columns)
            found += columns
        return found, self._inputs(int(gammas[-1]))

    def whole(self, end: str) -> Acceptance:
        """The acceptance of all steps at an end."""
        return self._all(self.each[end])

    def _all(self, live: Live) -> Acceptance:
        if self.coverage is None:
            return live.acceptance
        return CoveredAcceptance(live.acceptance, float(self.coverage.value or 0.0))

    def cells(self, name: str, label: str, gamma: int) -> list[Input]:
        """τ at one γ, and its ends, with all that they follow from."""
        found = self._inputs(gamma)
        for suffix, live in self.each.items():
            formula = live.at(gamma)
            if gamma == 0:
                formula = "1"
            elif formula is not None and self.coverage is not None:
                formula = f"{{coverage}}*({formula})+1-{{coverage}}"
            if formula is not None and len(formula) > LONGEST_FORMULA:
                formula = None
            end = {"": "", "_low": ", low", "_high": ", high"}[suffix]
            value = float(self._all(live).tokens_per_step(gamma))
            said = f"Emitted a step at γ={gamma}, bonus or correction token included"
            found.append(derived(f"{name}{suffix}", label + end, "tokens", said, value, formula))
        return found


def over_all_steps(name: str, values: np.ndarray, columns: list[Column]) -> list[Column]:
    """Where only a share κ of the steps has a draft: κ × (that of the drafted) + 1 − κ."""
    mine = re.compile(rf"\{{({'|'.join(c.name for c in columns)})(\^?)\}}")
    drafted = [
        replace(c, name=f"{c.name}_drafted", label=f"{c.label}, drafted",
                formulas=tuple(f and mine.sub(r"{\1_drafted\2}", f) for f in c.formulas))
        for c in columns
    ]  # fmt: skip
    base = next(end for end in ("_low", "_high", "") if name.endswith(end))
    total = column(
        name.removesuffix(base),
        values,
        f"{{coverage}}*{{{name}_drafted}}+1-{{coverage}}",
        suffix=base,
        definition="Over all steps: coverage × that of the steps with a draft + 1 − coverage",
    )
    return [*drafted, total]


def tokens_of(p: Prediction, *, follows: bool) -> Tokens:
    """τ of a prediction; `follows`: whether the rest of the file is right at another acceptance."""
    acceptance = p.speculation.drafted
    ends = tuple(dict.fromkeys(corner.drafted for corner in p.endpoint.corners))
    coverage = None
    if isinstance(p.speculation.acceptance, CoveredAcceptance):
        share, free = p.speculation.coverage, p.endpoint.pair is None
        coverage = field_cell(p.scenario, "coverage", share, format="0.00", editable=free)
    # The record's rate falls past where it was measured; one that is typed has no such place.
    falls = any(isinstance(each, FallingAcceptance) for each in (acceptance, *ends))
    follows = follows and not (falls and p.endpoint.band is not None)
    each = {"": _live(p, acceptance, "")}
    if follows and ends != (acceptance,):
        top = int(p.curve.gamma[-1])
        by_tokens = sorted(ends, key=lambda a: float(a.tokens_per_step(top)))
        each |= {
            "_low": _live(p, by_tokens[0], "_low"),
            "_high": _live(p, by_tokens[-1], "_high"),
        }
    return Tokens(each, coverage, follows)


def _live(p: Prediction, a: Acceptance, end: str) -> Live:
    s = p.scenario
    if isinstance(a, IidAcceptance | FallingAcceptance):
        cell, cells = _alpha_cells(p, end)
        value = next(item.value for item in cells if item.name == cell)
        return _Alpha(a, cell, cells) if a.alpha == value else _Fixed(a)
    if isinstance(a, PerPositionAcceptance) and not end and s.rates:
        name = "survival" if s.acceptance_form == "survival" else "conditional"
        given = s.rates if name == "conditional" else a.rates
        return _Rates(a, tuple(given), name, acceptance_from(s))
    if isinstance(a, MixtureAcceptance) and not end:
        return _Mixture(a, acceptance_from(s))
    return _Fixed(a)


def _alpha_cells(p: Prediction, end: str) -> tuple[str, tuple[Input, ...]]:
    """The name of α's cell, in the middle or at an end, and the cells it follows from."""
    s, form = p.scenario, p.scenario.accepts
    middle = form.acceptance(s)
    alpha = middle.alpha if isinstance(middle, IidAcceptance) else None
    label, meant = "Acceptance α", SPECS["alpha"].help
    if not isinstance(form, Recorded):
        basis, source = acceptance_from(s)
        if form.measured:
            said = f"{form.name} = {getattr(s, form.name):.6g} at γ = {s.measured_gamma}"
            basis, source = "computed", f"By Eq. 1 from {said}; type α itself to change it"
        return "alpha", (Input("alpha", label, "", meant, alpha, "0.0000", basis, source),)
    low, _, high = form.ends(s)
    band = form.band(s)
    cells = [
        _end_cell(p, name, value, None if band is None else _citation(band))
        for name, value in (("alpha_low", low), ("alpha_high", high))
    ]
    mean = "({alpha_low}+{alpha_high})/2"
    if band is not None and s.alpha_low is None and s.alpha_high is None:
        # The median holds while nobody types an end of their own.
        for name, value in (("low", low), ("median", alpha), ("high", high)):
            said = f"As others measured it: {name}"
            cells.append(
                Input(f"recorded_{name}", f"α of the record, {name}", "", said, value, "0.0000",
                      "published", band.cited, editable=False)
            )  # fmt: skip
        same = "({alpha_low}={recorded_low})*({alpha_high}={recorded_high})"
        mean = f"{same}*{{recorded_median}}+(1-{same})*{mean}"
    cells.append(derived("alpha", label, "", "In the middle of the range", alpha, mean))
    return f"alpha{end}", tuple(cells)


def _citation(band: Band) -> str:
    return f"{band.cited}: {', '.join(band.sources[:8])}"


def _end_cell(p: Prediction, name: str, value: float, cited: str | None) -> Input:
    typed = getattr(p.scenario, name) is not None
    spec = SPECS[name]
    if typed:
        basis, source = acceptance_from(p.scenario)
    elif cited is not None:
        basis, source = "published", cited
    else:
        basis, source = "assumed", "Nobody measured it: all that is possible"
    return Input(name, spec.label, "", spec.help, value, "0.0000", basis, source)
