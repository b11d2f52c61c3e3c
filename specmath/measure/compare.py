"""From texts, replays and timings to the rows of a report: predicted beside measured, what was
seen in the steps that were run, and what a measurement says about itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from specmath.checks import FloatArray
from specmath.estimate import Estimate
from specmath.measure import report
from specmath.measure.language_model import LanguageModel, Sampling
from specmath.measure.report import ALL, AcceptanceRow, Comparison, Costs, Interval, SelfCheck
from specmath.measure.score import estimate_alpha
from specmath.measure.speculate import Generation
from specmath.measure.timing import LoopTimes, StepTimes, arithmetic_ratio, draft_cost, verify_cost
from specmath.replay import ReplayAcceptance
from specmath.theorems import expected_tokens

__all__ = [
    "Error",
    "Part",
    "Text",
    "acceptance_row",
    "check",
    "comparison_rows",
    "costs_of",
    "log_ratio",
    "over_prompts",
    "run_rows",
    "self_check",
    "timing_rows",
]  # fmt: skip

UNLABELLED = "unlabelled"
BINS = 40
SHOWN = 0.95
"""Gaps up to this quantile lie in the bins; the rest are counted as beyond."""
FEWEST_PROMPTS = 3
"""Below it the spread between prompts says next to nothing."""
BROKEN_ALPHA = 0.05
FAR = 4.5
TOO_WIDE = 0.5
"""Half of an interval over its centre: beyond it next to any measured speedup would agree."""
"""|z| beyond this happens by chance in one comparison of 150,000."""


@dataclass(frozen=True)
class Text:
    """One sample of a prompt. `output` is replayed: what the user gave, or plain decoding's;
    `runs` were generated with each γ, 0 is plain decoding. `group` is the prompt's number."""

    segment: str
    group: int
    prompt: list[int]
    output: list[int]
    runs: dict[int, Generation]


@dataclass
class Part:
    """Texts of one segment at one temperature, their replay, that of each run's own texts.

    `loop` are the costs of the loop itself, once they were timed there.
    """

    segment: str
    sampling: Sampling
    texts: list[Text]
    replay: ReplayAcceptance
    own: dict[int, ReplayAcceptance]
    loop: LoopTimes | None = None

    @property
    def groups(self) -> list[int]:
        """The prompt of each text."""
        return [text.group for text in self.texts]

    def made(self, gamma: int) -> list[Generation]:
        """What was generated with that γ."""
        return [text.runs[gamma] for text in self.texts]

    def split(self) -> list[Part]:
        """This part and each segment of it; one segment alone is only "all".

        Texts without a label (whose segment is "all") beside labelled ones are "unlabelled".
        """
        named = [UNLABELLED if text.segment == ALL else text.segment for text in self.texts]
        parts = [self]
        for name in dict.fromkeys(named) if len(set(named)) > 1 else ():
            members = [n for n, own in enumerate(named) if own == name]
            own = {gamma: replay.of(members) for gamma, replay in self.own.items()}
            texts = [self.texts[n] for n in members]
            parts.append(Part(name, self.sampling, texts, self.replay.of(members), own))
        return parts


# ── costs ────────────────────────────────────────────────────────────────────────────────────


def timing_rows(times: StepTimes | None) -> list[report.TimingRow]:
    """The forwards that were timed."""
    return [
        report.TimingRow(**vars(t) | {"seconds": Interval.of(t.median), "rounds": len(t.seconds)})
        for t in (times.forwards if times else ())
    ]


def costs_of(
    times: StepTimes, target: LanguageModel, draft: LanguageModel | None, gammas: Sequence[int]
) -> list[Costs]:
    """c, v(γ) and ĉ of each batch and context timed, in that order; a look-up costs 0."""
    c_hat = arithmetic_ratio(target, draft)
    found = []
    for at in times.shapes:
        seconds = Estimate.between(0.0, 0.0, 0.0)
        if draft is not None:
            seconds = times.find("draft", 1, *at).median
        found.append(Costs(
            batch=at[0], context=at[1],
            target_seconds=Interval.of(times.find("target", 1, *at).median),
            draft_seconds=Interval.of(seconds), c=Interval.of(draft_cost(times, *at)), c_hat=c_hat,
            verify={g: Interval.of(verify_cost(times, g, *at)) for g in gammas if g > 0},
        ))  # fmt: skip
    return found


# ── acceptance ───────────────────────────────────────────────────────────────────────────────


def acceptance_row(part: Part, gammas: Sequence[int]) -> AcceptanceRow:
    """Its acceptance, with an interval of α that takes samples of one prompt together."""
    replay, gammas = part.replay, list(gammas)
    alpha, steps = estimate_alpha(replay.alphas, part.groups), replay.steps(gammas)
    requests = [
        report.RequestRow(
            segment=text.segment, prompt=text.group, tokens=int(replay.lengths[n]),
            alpha=float(replay.alphas[n].mean()), steps=steps.mean[n].tolist(),
            steps_deviation=np.sqrt(steps.variance[n]).tolist(),
        )
        for n, text in enumerate(part.texts if part.segment == ALL else ())
    ]  # fmt: skip
    # The last step of a text may have had no room for a draft.
    drafted = [d > 0 for gamma in part.own for run in part.made(gamma) for d in run.drafted[:-1]]
    return AcceptanceRow(
        segment=part.segment, temperature=part.sampling.temperature,
        alpha=Interval.of(alpha), basis=alpha.basis.source,
        coverage=float(np.mean(drafted)) if drafted else None,
        tokens=int(replay.lengths.sum()), texts=replay.texts,
        tokens_per_step=np.asarray(replay.tokens_per_step(gammas)).tolist(),
        tokens_per_step_between=_tokens_between(part, gammas),
        survival=[np.clip(replay.survival(g), 0, 1).tolist() for g in gammas], requests=requests,
    )  # fmt: skip


def _tokens_between(part: Part, gammas: Sequence[int]) -> list[Interval]:
    """τ of each γ with its 95% over prompts; nothing where these are too few to tell."""
    found = []
    for gamma in gammas:
        value, error = _tokens(part, gamma)
        if not np.isfinite(error.half):
            return []
        low, high = (value * np.exp([-error.half, error.half])).tolist()
        low, high = max(1.0, low), min(gamma + 1.0, high)
        found.append(Interval(value=value, low=min(value, low), high=max(value, high)))
    return found


def _tokens(part: Part, gamma: int) -> tuple[float, Error]:
    """τ(γ) by replay, and how far its logarithm may be off for other prompts like these."""
    steps = part.replay.steps(gamma).mean[:, 0]
    totals = np.column_stack([part.replay.lengths, steps])
    return float(np.exp(log_ratio(totals.sum(axis=0)))), over_prompts(
        [totals], part.groups, lambda sums: log_ratio(sums[0])
    )


# ── errors ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Error:
    """Standard error of a logarithm with its degrees of freedom; infinite where none is known."""

    deviation: float
    freedom: int

    @property
    def half(self) -> float:
        """Half of the 95% interval by Student's t."""
        if self.freedom < 1:
            return float("inf")
        return float(stdtrit(self.freedom, 0.975)) * self.deviation

    def with_(self, other: Error) -> Error:
        """Of the sum of two independent logarithms (Welch–Satterthwaite)."""
        one, two = self.deviation**2, other.deviation**2
        if min(self.freedom, other.freedom) < 1 or one + two == 0:
            return Error((one + two) ** 0.5, min(self.freedom, other.freedom))
        freedom = (one + two) ** 2 / (one**2 / self.freedom + two**2 / other.freedom)
        return Error((one + two) ** 0.5, int(freedom))


def over_prompts(
    parts: Sequence[FloatArray],
    groups: Sequence[int],
    log: Callable[[list[FloatArray]], FloatArray],
) -> Error:
    """Of `log` of the sums of each of `parts` [texts, 2], by the jackknife over prompts."""
    names = sorted(set(groups))
    if len(names) < FEWEST_PROMPTS:
        return Error(float("inf"), 0)
    own = np.array([[group == name for group in groups] for name in names], float)
    sums = [own @ part for part in parts]
    logs = log([each.sum(axis=0) - each for each in sums])
    away = ((logs - logs.mean()) ** 2).sum()
    return Error(float((len(names) - 1) / len(names) * away) ** 0.5, len(names) - 1)


def log_ratio(totals: FloatArray) -> FloatArray:
    """ln of first over second, of totals [..., 2]."""
    logs = np.log(totals)
    return np.asarray(logs[..., 0] - logs[..., 1])


# ── predicted beside measured ────────────────────────────────────────────────────────────────


def comparison_rows(part: Part, c: float) -> list[Comparison]:
    """One row a γ that was run, where the loop was timed."""
    return [_compared(part, part.loop, gamma, c) for gamma in part.own] if part.loop else []


def _compared(part: Part, loop: LoopTimes, gamma: int, c: float) -> Comparison:
    runs, plain = part.made(gamma), part.made(0)
    totals = [_totals(made).sum(axis=0) for made in (runs, plain)]
    tokens, steps = sum(len(run.tokens) for run in runs), sum(run.steps for run in runs)
    predicted, error = _tokens(part, gamma)
    iid = float(expected_tokens(part.replay.alpha, gamma))
    v, d, s = loop.verify_cost(gamma), loop.draft_cost(gamma), loop.step_cost(gamma)
    deviation, seen = loop.step_deviation(gamma)
    half = error.with_(Error(deviation, seen - 1)).half
    between = (predicted / s * np.exp([-half, half])).tolist() if np.isfinite(half) else [None] * 2
    gaps, plain_gaps = _gap_quantiles(runs), _gap_quantiles(plain)
    same = all(run.tokens == p.tokens for run, p in zip(runs, plain, strict=True))
    return Comparison(
        segment=part.segment, temperature=part.sampling.temperature, gamma=gamma,
        tokens=tokens, steps=steps, tokens_per_step=tokens / steps,
        replay_tokens_per_step=predicted, iid_tokens_per_step=iid,
        z=_z(part.own[gamma], gamma, steps),
        speedup=float(np.exp(_log_speedup(totals))),
        verify_cost=v, draft_cost=d, overhead=s - v - d, theorem_speedup=iid / (1.0 + gamma * c),
        replay_speedup=predicted / (1.0 + gamma * c), replay_v_speedup=predicted / s,
        replay_v_low=between[0], replay_v_high=between[1],
        gap_p50_ms=gaps[0], gap_p99_ms=gaps[1],
        plain_gap_p50_ms=plain_gaps[0], plain_gap_p99_ms=plain_gaps[1],
        identical=same if part.sampling.greedy else None,
    )  # fmt: skip


def _z(own: ReplayAcceptance, gamma: int, steps: int) -> float:
    """Steps of the run against the replay of its own texts, in standard deviations."""
    counts = own.steps(gamma)
    away = steps - float(counts.mean.sum())
    deviation = float(np.sqrt(counts.variance.sum()))
    if deviation < 1e-9:  # every acceptance is certain: any difference is a fault
        return 0.0 if abs(away) < 1e-6 else float(np.sign(away)) * 99.0
    return away / deviation


def _gap_quantiles(runs: Sequence[Generation]) -> list[float]:
    """(median, 99%) of the gaps between tokens in ms; 0 where there was none."""
    gaps = np.concatenate([run.token_gaps for run in runs]) * 1000
    return np.quantile(gaps, [0.5, 0.99]).tolist() if gaps.size else [0.0, 0.0]


# ── what was seen in the steps that were run ─────────────────────────────────────────────────


def run_rows(part: Part, limit: int) -> list[report.RunRow]:
    """A row for each γ that was run, and for plain decoding (γ = 0).

    `limit` is the most tokens of a text: a step near it drafts less than γ, so it says nothing of
    survival. All rows share their bins, equal ones from 0 to the quantile shown.
    """
    runs = {gamma: part.made(gamma) for gamma in (0, *part.own)}
    gaps = {g: np.concatenate([m.chunk_gaps for m in made]) * 1e3 for g, made in runs.items()}
    every = np.concatenate(list(gaps.values()))
    top = float(np.quantile(every, SHOWN)) if every.size else 0.0
    edges = np.linspace(0.0, top, BINS + 1) if top > 0 else np.zeros(0)
    rows = []
    for gamma, made in runs.items():
        counts = np.histogram(gaps[gamma], edges)[0] if edges.size else np.zeros(0, np.int64)
        rows.append(report.RunRow(
            segment=part.segment, temperature=part.sampling.temperature, gamma=gamma,
            speedup=_speedup(made, runs[0], part.groups) if gamma else None,
            survival=_survival(made, part.groups, gamma, limit),
            gap_edges_ms=edges.tolist(), gap_counts=counts.tolist(),
            gaps_beyond=int(gaps[gamma].size - counts.sum()),
        ))  # fmt: skip
    return rows


def _speedup(
    runs: Sequence[Generation], plain: Sequence[Generation], groups: Sequence[int]
) -> Interval | None:
    """Tokens a second against plain, 95% by the jackknife over prompts on the logarithm."""
    totals = [_totals(runs), _totals(plain)]
    half = over_prompts(totals, groups, _log_speedup).half
    if not np.isfinite(half):
        return None
    value = float(_log_speedup([each.sum(axis=0) for each in totals]))
    low, middle, high = np.exp([value - half, value, value + half]).tolist()
    return Interval(value=middle, low=low, high=high)


def _totals(made: Sequence[Generation]) -> FloatArray:
    """[texts, (tokens, seconds)]."""
    return np.array([[len(each.tokens), each.seconds] for each in made])


def _log_speedup(totals: Sequence[FloatArray]) -> FloatArray:
    """ln of the ratio of tokens a second, run over plain, of totals [..., (tokens, seconds)]."""
    ran, plain = totals
    return np.asarray(log_ratio(ran) - log_ratio(plain))


def _survival(
    runs: Sequence[Generation], groups: Sequence[int], gamma: int, limit: int
) -> tuple[Interval, ...]:
    """Share of full steps with at least i accepted, i = 1…γ; prompts taken as independent."""
    accepted, of = [], []
    for run, group in zip(runs, groups, strict=True):
        emitted = np.array(run.emitted)
        room = limit - (np.cumsum(emitted) - emitted) > gamma
        if room.any():
            accepted.append(emitted[room] - 1)
            of.append(group)
    positions = range(1, gamma + 1) if accepted else ()
    return tuple(
        Interval.of(estimate_alpha([(each >= i).astype(float) for each in accepted], of))
        for i in positions
    )


# ── what a measurement says about itself ─────────────────────────────────────────────────────


def self_check(
    acceptance: Sequence[AcceptanceRow], comparison: Sequence[Comparison],
    runs: Sequence[report.RunRow], costs: Costs | None, *, drafts_by_model: bool,
) -> list[SelfCheck]:  # fmt: skip
    """The checks in the order in which they matter: is the draft broken, is the run exact, is it as
    fast as foretold, does it pay?"""
    overall = [row for row in comparison if row.overall]
    found = [*_broken(acceptance, drafts_by_model), *_exact(overall), *_as_fast(overall, runs)]
    found += _pays(overall)
    if costs is not None and costs.c.value > 1:
        found.append(check("note", "dear draft", c=costs.c.value))
    return found


def check(level: str, code: str, *gammas: int, **values: float) -> SelfCheck:
    """A check by its code, with its numbers."""
    return SelfCheck(level=level, code=code, values=values, gammas=gammas)


def _broken(acceptance: Sequence[AcceptanceRow], drafts_by_model: bool) -> list[SelfCheck]:
    """α near 0 at every temperature is no weak draft model: something is wrong."""
    best = max((row.alpha.value for row in acceptance if row.overall), default=1.0)
    if best >= BROKEN_ALPHA:
        return []
    level, code = ("bad", "broken draft") if drafts_by_model else ("note", "empty look-up")
    return [check(level, code, alpha=best)]


def _exact(rows: Sequence[Comparison]) -> list[SelfCheck]:
    found = []
    greedy = [row for row in rows if row.identical is not None]
    if wrong := [row.gamma for row in greedy if not row.identical]:
        found.append(check("note", "greedy differs", *wrong))
    elif greedy:
        found.append(check("good", "greedy same"))
    if not rows:
        return found
    worst = max(rows, key=lambda row: abs(row.z))
    if abs(worst.z) <= FAR:
        found.append(check("good", "steps agree", z=abs(worst.z)))
    else:  # at T=0 near-ties may be rounded differently in the scoring pass
        level = "bad" if worst.temperature > 0 else "note"
        found.append(check(level, "steps differ", z=worst.z, **_at(worst)))
    return found


def _as_fast(rows: Sequence[Comparison], runs: Sequence[report.RunRow]) -> list[SelfCheck]:
    """Whether measured and replayed speedup lie within their errors of each other: their 95%
    intervals meet at every γ. That they meet says nothing where the replay's is wider than
    TOO_WIDE. Nothing where no error is known."""
    measured = {(run.part, run.gamma): run.speedup for run in runs}
    apart: list[tuple[float, Comparison]] = []
    wide: list[tuple[float, Comparison]] = []
    for row in rows:
        seen, low, high = measured.get((row.part, row.gamma)), row.replay_v_low, row.replay_v_high
        if seen is not None and low is not None and high is not None:
            apart.append((max(np.log(seen.low / high), np.log(low / seen.high)), row))
            wide.append(((high - low) / (2.0 * row.replay_v_speedup), row))
    if not apart:
        return []
    most, worst = max(apart, key=lambda each: each[0])
    width, widest = max(wide, key=lambda each: each[0])
    if most > 0:
        numbers = {"speedup": worst.speedup, "predicted": worst.replay_v_speedup}
        return [check("note", "speed differs", **numbers, **_at(worst))]
    if width > TOO_WIDE:
        numbers = {"speedup": widest.speedup, "predicted": widest.replay_v_speedup}
        return [check("note", "speed untold", width=width, **numbers, **_at(widest))]
    return [check("good", "speed agrees")]


def _pays(rows: Sequence[Comparison]) -> list[SelfCheck]:
    if not rows:
        return []
    best = max(rows, key=lambda row: row.speedup)
    code = "fastest" if best.speedup >= 1 else "none faster"
    return [check("note", code, speedup=best.speedup, **_at(best))]


def _at(row: Comparison) -> dict[str, float]:
    return {"temperature": row.temperature, "gamma": row.gamma}
