"""Every published row predicted by every method that its known inputs allow, beside the measured.

A row goes through the product's own door: a `Scenario` is built from what the row says of its
inputs, and `predict` answers. What is scored is what a person who knew as much would have got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

from specmath.arms import Server, endpoint_for, replica_of
from specmath.checks import InputError, short
from specmath.estimate import Estimate
from specmath.predict import Prediction, predict
from specmath.published.case import Case, Reason, said_of
from specmath.published.rows import QUANTITIES, Kind, Quantity, read
from specmath.published.scenario import (
    Unscorable,
    asked,
    from_ratio,
    from_served,
    judging_engine,
)
from specmath.scenario.files import build
from specmath.serving.replica import MOST_SEQUENCES
from specmath.simulate import simulate
from specmath.speculation import speedup
from specmath.traffic import poisson

__all__ = ["METHODS", "Method", "Scored", "judge", "runs", "score"]

Method = Literal[
    "theorem", "step timings", "hardware", "anchored", "fixed point", "simulation", "theirs"
]
METHODS: tuple[Method, ...] = get_args(Method)[:-1]
"""What this product predicts by; "theirs" is another tool's."""

COMPUTED = frozenset({"hardware", "anchored", "fixed point", "simulation"})
"""Methods that use this product's own numbers, and so a row that set one of them."""

Found = tuple[float, float | None, float | None]
"""A number and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One number of one row by one method. `predicted` is None where `reason` says why.

    `low` and `high` are the ends of its interval, None where it has none; `sets`: what number of
    this product the row set, "" where none; `repeats`: the earlier row that holds the same run.
    """

    case: Case
    quantity: Quantity
    method: Method
    measured: float | None
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    reason: Reason | None = None
    sets: str = ""
    repeats: str = ""

    @classmethod
    def of(
        cls, case: Case, quantity: Quantity, method: Method, answer: Found | Reason,
        repeats: str = "",
    ) -> Scored:  # fmt: skip
        """A number, or the reason why there is none."""
        used = said_of("sets", case) if method in COMPUTED else ""
        measured = case.measured.get(quantity)
        if isinstance(answer, Reason):
            return cls(case, quantity, method, measured, None, None, None, answer, used, repeats)
        return cls(case, quantity, method, measured, *answer, None, used, repeats)

    @property
    def error(self) -> float | None:
        """predicted / measured − 1; None where either is missing."""
        if self.predicted is None or self.measured is None:
            return None
        return self.predicted / self.measured - 1.0

    @property
    def held(self) -> bool | None:
        """Whether the interval holds what was measured; None where there is none."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


Answers = Mapping[Quantity, Found]
MISSING: dict[str, Quantity] = {"plain": "tpot_ms", "open loop": "itl_mean_ms"}
"""The quantity named where a row measured none; of the others the speedup."""


def score(cases: Iterable[Case], *, told: Callable[[int], None] | None = None) -> list[Scored]:
    """Every case by every method that it allows; equal scenarios are predicted once.

    Parameters
    ----------
    cases
        Rows of the record, or of another file.
    told
        Called with the number of rows done, for a progress line.

    Returns
    -------
    list[Scored]
        In the order of the cases; each case at least once.
    """
    found: list[Scored] = []
    for done, (case, repeats) in enumerate(runs(cases), start=1):
        for method, answers in _methods(case):
            for quantity in _quantities(case):
                answer = answers if isinstance(answers, Reason) else answers.get(quantity)
                if answer is None and method in LEAST:
                    answer = Reason("not predicted")
                if answer is not None:
                    found.append(Scored.of(case, quantity, method, answer, repeats))
        if told is not None:
            told(done)
    return found


LEAST: tuple[Method, ...] = ("hardware", "fixed point", "simulation")
"""Methods that need least of a row, and say where they have no answer."""


def runs(cases: Iterable[Case]) -> Iterator[tuple[Case, str]]:
    """Each case, and the earlier one that holds the same run, "" where none."""
    first: dict[tuple[Any, ...], str] = {}
    for case in cases:
        earlier = first.setdefault(_run(case), case.id)
        yield case, "" if earlier == case.id else earlier


def _run(case: Case) -> tuple[Any, ...]:
    """What tells one run from another: the same numbers measured under the same load are one run
    written twice (a checkpoint's two names). Rows without a TPOT are never taken for one."""
    if case.kind != "plain":
        return (case.kind, case.id)
    return (
        case.hardware, case.engine, case.precision, case.gpus, case.attention_dp, case.experts,
        case.prompt_tokens, case.output_tokens, case.concurrency, *sorted(case.measured.items()),
    )  # fmt: skip


def _quantities(case: Case) -> tuple[Quantity, ...]:
    """What it measured, or what it should have."""
    return tuple(case.measured) or (MISSING.get(case.kind, "speedup"),)


def _unscored(case: Case) -> Reason | None:
    """Why nobody's prediction may be laid beside it; None where one may."""
    return case.doubt or (None if case.measured else Reason("not measured"))


def _methods(case: Case) -> Iterator[tuple[Method, Answers | Reason]]:
    """Answers by method; the reason where there is none by any."""
    if reason := _unscored(case):
        yield "hardware", reason
        return
    if answers := _from_ratio(case, timed=False):
        yield "theorem", answers
    if answers := _from_ratio(case, timed=True):
        yield "step timings", answers
    computed = _from_hardware(case, anchored=False)
    if case.request_rate is None:
        yield "hardware", computed
    else:
        yield "fixed point", _by_chunk(case, computed)
        yield "simulation", _by_chunk(case, _simulated(case))
    if case.plain_ms is not None and case.speculates and not isinstance(computed, Reason):
        yield "anchored", _from_hardware(case, anchored=True)


# ── one method ───────────────────────────────────────────────────────────────────────────────


def _from_ratio(case: Case, *, timed: bool) -> Answers:
    """The speedup (and TPOT) where all parts were measured; empty where one was not."""
    if timed and case.step is not None and case.tau is not None:
        found: dict[Quantity, Found] = {}
        found["speedup"] = float(speedup(case.tau, case.step)), None, None
        if case.step_ms is not None:
            found["tpot_ms"] = case.step_ms / case.tau, None, None
        return found
    try:
        return {"speedup": _of(predict(build(from_ratio(case, timed=timed))).speedup)}
    except (Unscorable, InputError):
        return {}


def _from_hardware(case: Case, *, anchored: bool) -> Answers | Reason:
    try:
        fields = from_served(case, anchored=anchored)
    except Unscorable as fault:
        return fault.reason
    return _predicted(judging_engine(case, fields), case.speculates, tuple(fields.items()))


@lru_cache(maxsize=4096)
def _predicted(
    engine: str | None, speculates: bool, fields: tuple[tuple[str, Any], ...]
) -> Answers | Reason:
    """Equal scenarios are predicted once."""
    try:
        return _served(predict(asked(dict(fields), engine)), speculates)
    except InputError as error:
        return Reason("refused", str(error))


def _served(found: Prediction, speculates: bool) -> Answers:
    """What a prediction says of the quantities that are measured; times in ms. The gap between
    tokens is that over a request, its mean: TPOT."""
    answers: dict[Quantity, Found] = {}
    if speculates:
        answers["speedup"] = _of(found.speedup)
    if found.tpot is not None:
        answers["tpot_ms"] = _of(found.tpot.map(lambda seconds: seconds * 1e3))
        answers["itl_mean_ms"] = answers["tpot_ms"]
    load = found.endpoint.load
    if load is not None and found.scenario.prompt_tokens is not None:
        answers["ttft_mean_ms"] = float(load.ttft[found.gamma]) * 1e3, None, None
        answers["e2e_mean_ms"] = float(load.e2e[found.gamma]) * 1e3, None, None
    return answers


STAGE_SECONDS = 600.0
"""How long requests come where a row does not say."""

SEED = 0
"""Of the arrivals: a stage's own are not known."""


def _simulated(case: Case) -> Answers | Reason:
    """An open loop request by request: Poisson arrivals for as long as the stage lasted."""
    try:
        fields, cells = from_served(case), case.cells
        scenario = asked(fields, judging_engine(case, fields))
        traffic = poisson(
            float(case.request_rate or 0.0), scenario.prompt_tokens or 0, scenario.output_tokens,
            seconds=cells.get("stage_seconds") or STAGE_SECONDS, seed=SEED,
        )  # fmt: skip
        server = Server(cells.get("max_num_seqs") or MOST_SEQUENCES, cells.get("kv_tokens"))
        endpoint = endpoint_for(scenario, traffic, server)
        found = simulate(replica_of(endpoint, fields["gamma"], traffic, server), traffic)
    except Unscorable as fault:
        return fault.reason
    except InputError as error:
        return Reason("refused", str(error))
    times: dict[Quantity, float] = {
        "itl_mean_ms": found.mean("tpot"), "ttft_mean_ms": found.mean("ttft"),
        "e2e_mean_ms": found.mean("e2e"), "e2e_p99_ms": found.quantile("e2e", 0.99),
    }  # fmt: skip
    return {quantity: (seconds * 1e3, None, None) for quantity, seconds in times.items()}


def _by_chunk(case: Case, answers: Answers | Reason) -> Answers | Reason:
    """With the gap between what the client counted as tokens, where it counted fewer."""
    counted = case.cells.get("output_tokens_measured")
    if isinstance(answers, Reason) or not case.output_tokens or not counted or counted < 2:
        return answers
    gaps = (case.output_tokens - 1) / (counted - 1)
    low_high = answers.get("itl_mean_ms")
    if low_high is None:
        return answers
    value, low, high = low_high
    longer = value * gaps, low and low * gaps, high and high * gaps
    return {**answers, "itl_mean_ms": longer}


def _of(estimate: Estimate) -> Found:
    return estimate.value, estimate.low, estimate.high


# ── somebody else's predictions, judged as this product's own are ────────────────────────────

_THEIRS = Kind(
    "predictions", ("id", "predicted"), ("predicted", "low", "high"), texts=("quantity",)
)  # fmt: skip


def judge(cases: Iterable[Case], text: str, name: str) -> list[Scored]:
    """The cases with the predictions of a CSV: `id`, `predicted`, and where given `quantity`, `low`
    and `high`. Without a quantity a prediction is of the first that its row measured.

    A row for which nothing was predicted is kept, with its reason.

    Raises
    ------
    InputError
        A column is missing, a cell is no number > 0, a quantity is none, an id is not of the
        record, or one of its quantities is predicted twice.
    """
    record = {case.id: (case, repeats) for case, repeats in runs(cases)}
    told: dict[tuple[str, str], Found] = {}
    for where, cells in read(text, name, (_THEIRS,), unique=False).placed():
        key = cells["id"]
        if key not in record:
            raise InputError(f"{where}: id must be one of the record, got {short(key)!r}")
        quantity = cells["quantity"] or _quantities(record[key][0])[0]
        if quantity not in QUANTITIES:
            known = ", ".join(QUANTITIES)
            raise InputError(f"{where}: quantity must be one of {known}, got {short(quantity)!r}")
        if (key, quantity) in told:
            raise InputError(f"{where}: {quantity} of {short(key)!r} is predicted twice")
        if cells["predicted"] is not None:
            told[key, quantity] = cells["predicted"], cells["low"], cells["high"]
    return [
        Scored.of(case, quantity, "theirs", answer, repeats)
        for case, repeats in record.values()
        for quantity in _quantities(case)
        for answer in [_unscored(case) or told.get((case.id, quantity)) or Reason("theirs")]
    ]
