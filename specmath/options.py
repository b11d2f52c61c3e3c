"""Which drafts a target can have, each on the scenario's hardware and with its own acceptance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from specmath import models
from specmath.acceptance_record import Row, made_for
from specmath.checks import InputError
from specmath.drafters import Drafter, kinds, named
from specmath.estimate import Estimate
from specmath.launch import refusal
from specmath.models.names import key
from specmath.predict import usd_at
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.scenario.forms import HALVES, AlphaRange, Recorded
from specmath.scenario.server import tabulated
from specmath.serving.memory import draft_bytes
from specmath.serving.pair import ServedPair
from specmath.speculation import ROUNDING, breakeven_alpha_of
from specmath.stepcost import TabulatedStepCost
from specmath.vocabularies import Mismatch, mismatch

__all__ = ["MOST_COMPARED", "USUAL", "Option", "Options", "options", "told_apart"]

USUAL = 8
"""The largest γ at which a break-even α is looked for."""

MOST_COMPARED = 20
"""Drafts that may be named to be compared."""

OF_THE_DRAFT = (
    "run_gamma", "run_ms", "run_tokens_per_step", "tree", "drafted_per_step", "coverage",
    "draft_weight_dtype", "draft_layers", "draft_vocab", "draft_tensor_parallel", "draft_gpus",
)  # fmt: skip
"""Fields that were said of one draft, and hold for no other."""

SAME_BAND = ("block",)
"""Kinds of the record that several kinds of drafters share, which it does not tell apart: these
are one option."""


@dataclass(frozen=True, eq=False)
class Option:
    """One draft of the target at the scenario's batch and context.

    Attributes
    ----------
    label
        Its name: of a model, of a kind, or of the several that it stands for.
    endpoint, pair
        It in place of the scenario's draft, with the acceptance that was given for that one alone;
        every other has what others measured of its kind.
    yours, named
        Whether it is the scenario's own; whether it was named to be compared.
    gamma
        The γ that `cost` is looked at, the scenario's.
    seen
        Rows of the record with a drafter of its kind on this target.
    vocabulary
        How its vocabulary differs from the target's; None where it does not, or it has none.
    refused
        Why the scenario's engine takes no such drafter; "" where it does or nothing is known.
    """

    label: str
    endpoint: Endpoint
    pair: ServedPair
    yours: bool
    named: bool
    gamma: int
    seen: tuple[Row, ...]
    vocabulary: Mismatch | None
    refused: str

    # ── whether ──────────────────────────────────────────────────────────────────────────────

    @property
    def runs(self) -> bool:
        """Whether nothing is known to keep the engine from running it."""
        return not self.refused and (self.vocabulary is None or self.vocabulary.does != "refuses")

    @property
    def exists(self) -> bool:
        """Whether there is one for this target, as far as the record and the catalogue know."""
        return self.pair.drafter.origin != "trained" or bool(self.seen) or self.yours

    @property
    def smaller(self) -> bool:
        """Whether it passes a token through fewer parameters than the target does."""
        own = self.pair.drafter.own_model
        return own is None or own.active_parameters < self.pair.target.active_parameters

    @property
    def known(self) -> bool:
        """Whether its acceptance was given, or measured by anybody: no pair of the record has
        other tokens in its draft than in its target."""
        s, differs = self.endpoint.scenario, self.vocabulary
        if self.endpoint.band and differs and differs.difference == "tokens":
            return False
        return not s.accepts.nobodys(s)

    # ── how fast ─────────────────────────────────────────────────────────────────────────────

    @property
    def alphas(self) -> tuple[float, float, float]:
        """The low end of its α, the middle, and the high end: three times the same where given."""
        s = self.endpoint.scenario
        if isinstance(s.accepts, Recorded):
            return s.accepts.ends(s)
        alpha = self.endpoint.speculation.alpha_at(max(1, self.best_gamma))
        return alpha, alpha, alpha

    @cached_property
    def best_gamma(self) -> int:
        """The γ to run: 0 where none pays in the middle of its interval."""
        return self.endpoint.recommended

    @cached_property
    def speedup(self) -> Estimate:
        """At that γ."""
        return self.endpoint.speedup_at(self.best_gamma)

    @property
    def ends(self) -> tuple[float, float]:
        """Of the speedup: its low and its high end, with the middle between them."""
        _, low, high = self.endpoint.curves
        return float(low[self.best_gamma]), float(high[self.best_gamma])

    @property
    def pays(self) -> bool:
        """Whether it is faster than plain decoding in the middle of its interval."""
        return self.speedup.value > 1.0 + ROUNDING

    # ── at which cost ────────────────────────────────────────────────────────────────────────

    @property
    def best_step_cost(self) -> float:
        """s at the γ to run, plain steps."""
        return float(self.endpoint.speculation.cost.total(self.best_gamma))

    @property
    def memory(self) -> float:
        """Bytes that it adds on its fullest GPU at that γ: weights, and cache of the batch."""
        return draft_bytes(self.pair, self.best_gamma)

    @property
    def usd(self) -> Estimate | None:
        """USD per million output tokens at that γ; None while no price is given."""
        plain, gamma = self.endpoint.tpot_plain, self.best_gamma
        if plain is None or self.endpoint.scenario.usd_per_hour is None:
            return None
        tpot = plain.with_(self.speedup, lambda step, ratio: step / ratio)
        return tpot.map(lambda t: usd_at(self.endpoint, t, gamma))

    @cached_property
    def cost(self) -> TabulatedStepCost:
        """Its step cost at the batch that decodes, up to 8 tokens or the scenario's γ."""
        return tabulated(self.pair, max(USUAL, self.gamma))

    @property
    def breakeven_alpha(self) -> float:
        """The i.i.d. acceptance of its drafted steps at which it is no slower than plain decoding,
        at `gamma`; nan where none is enough."""
        return float(breakeven_alpha_of(self.cost, self.gamma, self.pair.share))

    @cached_property
    def least(self) -> tuple[float, int] | None:
        """The least of these over γ = 1 … 8, and where it is; None where none is enough."""
        gammas = np.arange(1, min(USUAL, self.cost.reach) + 1)
        alphas = breakeven_alpha_of(self.cost, gammas, self.pair.share)
        if np.isnan(alphas).all():
            return None
        at = int(np.nanargmin(alphas))
        return float(alphas[at]), int(gammas[at])


@dataclass(frozen=True)
class Options:
    """What a target can have, the best first, and what was left out with its reason: it does not
    fit, or the engine takes no such drafter.

    `rows`: those that run before those that the engine refuses; of these those whose acceptance is
    known, then those that there are for this target; then by the middle of the speedup.
    """

    rows: tuple[Option, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def _paying(self) -> list[Option]:
        return [row for row in self.rows if row.runs and row.known and row.pays]

    @property
    def best(self) -> Option | None:
        """The fastest that there is for this target; None where none is known to pay."""
        return next((row for row in self._paying if row.exists), None)

    @property
    def near(self) -> tuple[Option, ...]:
        """Those that exist and that nothing tells apart from the best."""
        best = self.best
        if best is None:
            return ()
        return tuple(
            row for row in self._paying if row.exists and row is not best
            and not told_apart(best, row)
        )  # fmt: skip

    @property
    def if_trained(self) -> Option | None:
        """The fastest of those that nobody was seen to have trained for this target, where it is
        faster than the best."""
        least = 1.0 if self.best is None else self.best.speedup.value
        each = (row for row in self._paying if not row.exists and row.speedup.value > least)
        return next(each, None)


def told_apart(one: Option, other: Option) -> bool:
    """Whether two speedups differ by more than their intervals leave open.

    ln a − ln b > √(below(a)² + above(b)²), a the faster, with the half intervals of the logarithms
    that face each other: the errors of two drafts are taken as independent, so that the slower one
    is the faster in truth in about a tenth of the cases at most.
    """
    a, b = sorted((one, other), key=lambda row: -row.speedup.value)
    below, above = log(a.speedup.value / a.ends[0]), log(b.ends[1] / b.speedup.value)
    return log(a.speedup.value / b.speedup.value) > float(np.hypot(below, above))


# ── what there is ────────────────────────────────────────────────────────────────────────────


def options(own: Endpoint, compared: Sequence[str] = (), *, yours: bool = True) -> Options:
    """The drafts that a target can have, on its hardware and at its load.

    Its own modules, look-ups, smaller models of its family, heads that somebody may have trained
    for it, and those named. Kinds that the record does not tell apart are one.

    Parameters
    ----------
    own
        A scenario from hardware: target, GPU, engine, load, and a draft.
    compared
        Names of draft models, or their config.json, to be compared too; at most 20.
    yours
        Whether the scenario's draft is one of them, or only stands in its place.

    Raises
    ------
    InputError
        The scenario names no models, or a draft to be compared is unknown: with its name.

    Examples
    --------
    >>> from specmath import Scenario
    >>> served = Scenario(alpha_low=0.5, alpha_high=0.8, gpu="H100 SXM", model="Llama-3.3-70B",
    ...                   draft="eagle3", tensor_parallel=4)
    >>> [row.label for row in options(resolve(served)).rows if row.pair.drafter.needs_model]
    ['Llama-3.2-1B', 'Llama-3.2-3B', 'Llama-3.1-8B']
    """
    if own.pair is None:
        raise InputError("drafts need gpu, model and draft (draft_form=hardware)")
    if len(compared) > MOST_COMPARED:
        raise InputError(f"at most {MOST_COMPARED} drafts are compared, got {len(compared)}")
    rows = [_option(own, own, _label(own.pair), yours=True)] if yours else []
    left_out = []
    for text in dict.fromkeys(compared):
        model = named(text).own_model
        if model is None:
            raise InputError(f"a draft to be compared must be a model, got {text!r}")
        try:
            found = _option(own, resolve(_with_draft(own.scenario, text)), "", named=True)
        except InputError as error:
            left_out.append((model.name, str(error)))
            continue
        if found.label not in {row.label for row in rows}:
            rows.append(found)
    for label, draft in _offered(own, taken={row.label for row in rows}, yours=yours):
        try:
            found = _option(own, resolve(_with_draft(own.scenario, draft)), label)
        except InputError as error:  # it does not fit, or does not split over the GPUs
            left_out.append((label, str(error)))
            continue
        if found.refused:
            left_out.append((label, found.refused))
        else:
            rows.append(found)

    def place(row: Option) -> tuple[bool, bool, bool, float]:
        return not row.runs, not row.known, not row.exists, -row.speedup.value

    ordered = sorted(rows, key=place)
    return Options(tuple(ordered), tuple(left_out))


def _offered(own: Endpoint, taken: set[str], yours: bool) -> Iterable[tuple[str, str]]:
    """(label, draft) of what the target can have besides those taken."""
    pair = own.pair
    assert pair is not None
    for model in models.smaller_kin(pair.target):
        if model.name not in taken:
            yield model.name, model.name
    shared = pair.drafter.recorded if yours else ""
    groups: dict[str, list[type[Drafter]]] = {}
    for kind, record in kinds().items():
        # A scenario's own head of a shared band stands for all of them.
        if (
            record.needs_model
            or record.label in taken
            or (shared in SAME_BAND and record.recorded == shared)
        ):
            continue
        if not record().suits(pair.target):
            continue
        group = record.recorded if record.recorded in SAME_BAND else kind
        groups.setdefault(group, []).append(record)
    for group, each in groups.items():
        told = _by_name(own, each) if group in SAME_BAND else each
        yield _joined(told), told[0].kind


def _by_name(own: Endpoint, each: list[type[Drafter]]) -> list[type[Drafter]]:
    """Of kinds of one band those that the record has for this target by name, else those that have
    names of their own; of these those that the engine takes, where it takes any."""
    assert own.pair is not None
    seen = {key(row.drafter) for row in made_for(each[0].recorded, own.pair.target.name)}
    told = [r for r in each if any(key(r.kind) in name for name in seen)]
    told = told or [r for r in each if r.kind not in SAME_BAND] or each
    return [r for r in told if not refusal(own.scenario.engine, r())] or told


def _joined(each: Sequence[type[Drafter]]) -> str:
    """What several kinds are called together."""
    if len(each) == 1:
        return each[0].label
    *first, last = (record.label.removesuffix(" head") for record in each)
    return f"Block head: {', '.join(first)} or {last}"


def _label(pair: ServedPair) -> str:
    own = pair.drafter.own_model
    return pair.drafter.label if own is None else own.name


def _with_draft(s: Scenario, draft: str) -> Scenario:
    """Another draft in its place, with what others measured of that."""
    fields = type(s).model_fields
    dropped = {name: fields[name].default for name in OF_THE_DRAFT}
    if not (isinstance(s.accepts, Recorded) and s.alpha_low is s.alpha_high is None):
        dropped |= {name: fields[name].default for name in HALVES["acceptance"]}
        dropped["acceptance_form"] = AlphaRange.name
    return s.model_copy(update=dropped | {"draft": draft, "gamma": None})


def _option(
    own: Endpoint, endpoint: Endpoint, label: str, *, yours: bool = False, named: bool = False
) -> Option:
    pair = endpoint.pair
    assert pair is not None
    drafter, target, s = pair.drafter, pair.target, endpoint.scenario
    model = drafter.own_model
    return Option(
        label=label or _label(pair),
        endpoint=endpoint,
        pair=pair,
        yours=yours,
        named=named,
        gamma=int(min(max(1, own.gamma), drafter.reach)),
        seen=made_for(drafter.recorded, target.name) if drafter.origin == "trained" else (),
        vocabulary=None if model is None else mismatch(s.engine, target, model),
        refused=refusal(s.engine, drafter),
    )
