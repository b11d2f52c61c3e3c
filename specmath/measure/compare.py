"""From texts, replays and timings to the rows of a report: predicted beside measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from specmath.checks import FloatArray
from specmath.measure.engine import LanguageModel
from specmath.measure.interval import estimate_alpha
from specmath.measure.looptime import LoopTimes
from specmath.measure.report import (
    AcceptanceRow,
    Comparison,
    Costs,
    Interval,
    RequestRow,
    TimingRow,
)
from specmath.measure.timing import (
    Ratio,
    StepTimes,
    arithmetic_ratio,
    draft_cost,
    verify_cost,
)
from specmath.replay import ReplayAcceptance
from specmath.theorems import expected_tokens

if TYPE_CHECKING:
    from specmath.measure.texts import Texts

__all__ = ["ALL", "acceptance_rows", "comparison_rows", "costs_of", "segments_of", "timing_rows"]

ALL = "all"
UNLABELLED = "unlabelled"


def segments_of(segments: Sequence[str]) -> dict[str, list[int]]:
    """Texts of each segment, "all" first; one segment alone is only "all".

    Texts without a label (whose segment is "all") beside labelled ones are "unlabelled".
    """
    names = list(dict.fromkeys(segments))
    found = {ALL: list(range(len(segments)))}
    for name in names if len(names) > 1 else []:
        members = [n for n, own in enumerate(segments) if own == name]
        found[UNLABELLED if name == ALL else name] = members
    return found


def _interval(ratio: Ratio) -> Interval:
    return Interval(value=ratio.value, low=ratio.low, high=ratio.high)


def timing_rows(times: StepTimes | None) -> tuple[TimingRow, ...]:
    if times is None:
        return ()
    return tuple(
        TimingRow(
            model="target" if timed.model == "target" else "draft",
            batch=timed.batch,
            tokens=timed.tokens,
            context=timed.context,
            seconds=_interval(timed.median),
            rounds=len(timed.seconds),
        )
        for timed in times.forwards
    )


def costs_of(
    times: StepTimes,
    target: LanguageModel,
    draft: LanguageModel | None,
    gammas: Sequence[int],
    *,
    lookup: bool,
) -> Costs:
    """c, v(γ) and ĉ at batch 1 (or the first timed) and the first context; a look-up costs 0."""
    first = times.forwards[0]
    at = {"batch": first.batch, "context": first.context}
    nothing = Interval(value=0.0, low=0.0, high=0.0)
    free = lookup or draft is None
    return Costs(
        target_seconds=_interval(times.find("target", first.batch, 1, first.context).median),
        draft_seconds=nothing
        if free
        else _interval(times.find("draft", first.batch, 1, first.context).median),
        c=nothing if free else _interval(draft_cost(times, **at)),
        c_hat=arithmetic_ratio(target, draft),
        verify={g: _interval(verify_cost(times, g, **at)) for g in gammas if g > 0},
    )


def _part(replay: ReplayAcceptance, texts: Sequence[int]) -> ReplayAcceptance:
    return replay if len(texts) == replay.texts else replay.of(texts)


def acceptance_rows(
    texts: Texts, replay: ReplayAcceptance, gammas: Sequence[int]
) -> list[AcceptanceRow]:
    """One row a segment, with an interval of α that takes samples of one prompt together."""
    rows = []
    steps = replay.steps(list(gammas))
    for segment, members in segments_of(texts.segments).items():
        part = _part(replay, members)
        groups = [texts.groups[n] for n in members]
        alpha = estimate_alpha(part.alphas, groups)
        requests = [
            RequestRow(
                segment=texts.segments[n],
                tokens=int(replay.lengths[n]),
                alpha=float(replay.each_alpha[n]),
                steps=tuple(steps.mean[n].tolist()),
                steps_deviation=tuple(np.sqrt(steps.variance[n]).tolist()),
            )
            for n in (members if segment == ALL else [])
        ]
        rows.append(
            AcceptanceRow(
                segment=segment,
                temperature=texts.sampling.temperature,
                alpha=Interval(value=alpha.value, low=alpha.low, high=alpha.high),
                basis=alpha.basis,
                coverage=_coverage(texts, members),
                tokens=alpha.tokens,
                texts=alpha.texts,
                tokens_per_step=tuple(np.asarray(part.tokens_per_step(list(gammas))).tolist()),
                survival=tuple(tuple(np.clip(part.survival(g), 0, 1).tolist()) for g in gammas),
                requests=tuple(requests),
            )
        )
    return rows


def _coverage(texts: Texts, members: Sequence[int]) -> float | None:
    """Share of the steps run that had a draft; the last of a text may have had no room for one."""
    steps = [d for runs in texts.runs.values() for n in members for d in runs[n].drafted[:-1]]
    return float(np.mean(np.array(steps) > 0)) if steps else None


def comparison_rows(
    texts: Texts,
    replay: ReplayAcceptance,
    own: dict[int, ReplayAcceptance],
    costs: Costs | None,
    loops: Mapping[str, LoopTimes],
) -> list[Comparison]:
    """One row a segment and γ that was run, where the costs of both are known."""
    if costs is None:
        return []
    rows = []
    for segment, members in segments_of(texts.segments).items():
        if segment not in loops:
            continue
        part = _part(replay, members)
        for gamma in texts.runs:
            ran = _part(own[gamma], members)
            rows.append(_compared(texts, part, ran, members, segment, gamma, costs, loops[segment]))
    return rows


def _compared(
    texts: Texts, replay: ReplayAcceptance, own: ReplayAcceptance, members: Sequence[int],
    segment: str, gamma: int, costs: Costs, loop: LoopTimes,
) -> Comparison:  # fmt: skip
    runs = [texts.runs[gamma][n] for n in members]
    plain = [texts.plain[n] for n in members]
    tokens, steps = sum(len(run.tokens) for run in runs), sum(run.steps for run in runs)
    plain_rate = sum(len(p.tokens) for p in plain) / sum(p.seconds for p in plain)
    predicted = float(replay.tokens_per_step(gamma))
    iid = float(expected_tokens(replay.alpha, gamma))
    drafting = gamma * costs.c.value
    v, d = loop.verify_cost(gamma), loop.draft_cost(gamma)
    gaps = np.concatenate([run.token_gaps for run in runs]) * 1000
    plain_gaps = np.concatenate([run.token_gaps for run in plain]) * 1000
    same = all(run.tokens == p.tokens for run, p in zip(runs, plain, strict=True))
    return Comparison(
        segment=segment,
        temperature=texts.sampling.temperature,
        gamma=gamma,
        tokens=tokens,
        steps=steps,
        tokens_per_step=tokens / steps,
        replay_tokens_per_step=predicted,
        iid_tokens_per_step=iid,
        z=_z(own, gamma, steps),
        speedup=tokens / sum(run.seconds for run in runs) / plain_rate,
        verify_cost=v,
        draft_cost=d,
        theorem_speedup=iid / (1.0 + drafting),
        replay_speedup=predicted / (1.0 + drafting),
        replay_v_speedup=predicted / (v + d),
        gap_p50_ms=_quantile(gaps, 0.5),
        gap_p99_ms=_quantile(gaps, 0.99),
        plain_gap_p50_ms=_quantile(plain_gaps, 0.5),
        plain_gap_p99_ms=_quantile(plain_gaps, 0.99),
        identical=same if texts.sampling.greedy else None,
    )


def _z(own: ReplayAcceptance, gamma: int, steps: int) -> float:
    """Steps of the run against the replay of its own texts, in standard deviations."""
    counts = own.steps(gamma)
    away = steps - float(counts.mean.sum())
    deviation = float(np.sqrt(counts.variance.sum()))
    if deviation < 1e-9:  # every acceptance is certain: any difference is a fault
        return 0.0 if abs(away) < 1e-6 else float(np.sign(away)) * 99.0
    return away / deviation


def _quantile(values: FloatArray, share: float) -> float:
    return float(np.quantile(values, share)) if values.size else 0.0
