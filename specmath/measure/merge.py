"""Several measurements of one pair as one report."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy.special import stdtrit

from specmath.checks import FloatArray, InputError
from specmath.estimate import cluster_ratio_variance
from specmath.measure.compare import log_ratio, over_prompts, self_check
from specmath.measure.report import (
    AcceptanceRow,
    Comparison,
    Costs,
    Interval,
    Report,
    RequestRow,
    RunRow,
    SelfCheck,
    Settings,
    TimingRow,
)

__all__ = ["merged"]

FEWEST_PROMPTS = 5
"""Below it the spread between prompts is not judged anew: the intervals are laid together."""

T = TypeVar("T")


def merged(reports: Sequence[Report]) -> Report:
    """One report of several of one pair on one machine, at least one.

    Acceptance is pooled exactly, texts that two of them share counted once; its intervals are over
    the prompts of all. Speeds and costs of the same shape are means of logarithms, weighted by
    tokens, their errors taken as independent. Gaps keep no histogram. InputError names what differs
    where they are not of one pair, one machine, the same γ and top-p.
    """
    first = reports[0]
    for other in reports[1:]:
        for what, one, two in _alike(first, other):
            if one != two:
                raise InputError(
                    f"measurements of one pair can be merged; {what} differs: {one} and {two}"
                )
    reports = [r for n, r in enumerate(reports) if r not in reports[:n]]
    if len(reports) == 1:
        return first
    acceptance = [
        _acceptance(rows)
        for rows in _by((row.part, (r, row)) for r in reports for row in r.acceptance)
    ]
    comparison = [
        _comparison(rows)
        for rows in _by(((row.part, row.gamma), row) for r in reports for row in r.comparison)
    ]
    runs = [
        _run(rows)
        for rows in _by(((row.part, row.gamma), (r, row)) for r in reports for row in r.runs)
    ]
    every = [costs for r in reports for costs in (r.costs, *r.more_costs) if costs]
    costs = [_costs(rows) for rows in _by(((c.batch, c.context), c) for c in every)]
    timings = [
        _timing(rows)
        for rows in _by(((t.model, t.batch, t.tokens, t.context), t)
                        for r in reports for t in r.timings)
    ]  # fmt: skip
    partial = sum(r.status == "partial" for r in reports)
    return first.model_copy(
        update={
            "created": max(r.created for r in reports),
            "status": "partial" if partial else "complete",
            "reason": f"{partial} of {len(reports)} measurements were stopped half-way"
            if partial else "",
            "settings": _settings([r.settings for r in reports]),
            "costs": costs[0] if costs else None, "more_costs": tuple(costs[1:]),
            "timings": tuple(timings), "acceptance": tuple(acceptance),
            "comparison": tuple(comparison), "runs": tuple(runs),
            "checks": (
                *self_check(
                    acceptance, comparison, runs, costs[0] if costs else None,
                    drafts_by_model=first.pair.draft_parameters > 0,
                ),
                *_remarks(reports),
            ),
            "seconds": sum(r.seconds for r in reports),
        }
    )  # fmt: skip


def _alike(one: Report, two: Report) -> Iterable[tuple[str, Any, Any]]:
    for name in ("target", "draft", "dtype", "target_parameters", "draft_parameters", "vocabulary"):
        yield name, getattr(one.pair, name), getattr(two.pair, name)
    here, there = (f"{r.machine.accelerator} {r.machine.processor}".strip() for r in (one, two))
    yield "the machine", here, there
    for name in ("gammas", "top_p", "clock", "own_prompts"):
        yield name, getattr(one.settings, name), getattr(two.settings, name)


def _by(rows: Iterable[tuple[Hashable, T]]) -> list[list[T]]:
    """Rows of the same key together, in the order in which keys first come."""
    found: dict[Hashable, list[T]] = {}
    for key, row in rows:
        found.setdefault(key, []).append(row)
    return list(found.values())


def _settings(each: Sequence[Settings]) -> Settings:
    def all_of(name: str) -> tuple[Any, ...]:
        return tuple(sorted({value for settings in each for value in getattr(settings, name)}))

    listed = ("temperatures", "run_gammas", "batches", "contexts")
    return each[0].model_copy(
        update={name: all_of(name) for name in listed}
        | {"prompts": sum(s.prompts for s in each),
           "output_tokens": max(s.output_tokens for s in each),
           "samples": max(s.samples for s in each)}
    )  # fmt: skip


REMARKS = ("padded heads", "larger draft", "busy", "unread tensors", "left out", "resumed", "eager")
"""Checks that are of the pair or the machine, not of the rows."""


def _remarks(reports: Sequence[Report]) -> list[SelfCheck]:
    found: list[SelfCheck] = []
    for each in (c for r in reports for c in r.checks if c.code in REMARKS):
        found += [each] if each not in found else []
    return found


# ── acceptance ───────────────────────────────────────────────────────────────────────────────


def _acceptance(rows: Sequence[tuple[Report, AcceptanceRow]]) -> AcceptanceRow:
    texts = [_requests(report, row) for report, row in rows]
    # The same seed and prompts give the same texts: they tell nothing new.
    kept = [n for n, own in enumerate(texts) if not own or own not in texts[:n]]
    rows, texts = [rows[n] for n in kept], [texts[n] for n in kept]
    if len(rows) == 1:
        return rows[0][1]
    own = [row for _, row in rows]
    tokens = np.array([row.tokens for row in own], float)
    steps = tokens[:, None] / np.array([row.tokens_per_step for row in own])
    survival = [
        tuple(
            (steps[:, n] @ np.array([row.survival[n] for row in own]) / steps[:, n].sum()).tolist()
        )
        for n in range(steps.shape[1])
    ]
    told = [row.coverage for row in own if row.coverage is not None]
    mean = float(tokens @ [row.alpha.value for row in own] / tokens.sum())
    every, groups = [text for part in texts for text in part], _prompts(rows, texts)
    alone = all(texts) and len(set(groups)) >= FEWEST_PROMPTS
    return own[0].model_copy(
        update={
            "alpha": _alpha(every, groups, mean) if alone else _hull(mean, [r.alpha for r in own]),
            "basis": f"95%, {len(set(groups))} prompts taken as independent" if alone
            else "the intervals of each measurement laid together",
            "coverage": float(np.mean(told)) if told else None,
            "tokens": int(tokens.sum()), "texts": sum(row.texts for row in own),
            "tokens_per_step": tuple((tokens.sum() / steps.sum(axis=0)).tolist()),
            "tokens_per_step_between": _between(every, groups) if alone else (),
            "survival": tuple(survival), "requests": tuple(every) if own[0].overall else (),
        }
    )  # fmt: skip


def _requests(report: Report, row: AcceptanceRow) -> list[RequestRow]:
    """The texts of a row: those of its segment in the row of all texts at its temperature."""
    if row.overall:
        return list(row.requests)
    whole = [r for r in report.acceptance if r.overall and r.temperature == row.temperature]
    return [text for r in whole for text in r.requests if text.segment == row.segment]


def _prompts(
    rows: Sequence[tuple[Report, AcceptanceRow]], texts: Sequence[Sequence[RequestRow]]
) -> list[int]:
    """A number for the prompt of each text: prompts of the same number are the same one where as
    many were asked."""
    names = [
        (report.settings.prompts, text.segment, n if text.prompt is None else text.prompt,
         -1 if text.prompt is not None else place)
        for place, ((report, _), own) in enumerate(zip(rows, texts, strict=True))
        for n, text in enumerate(own)
    ]  # fmt: skip
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    return [number[name] for name in names]


def _alpha(texts: Sequence[RequestRow], groups: Sequence[int], mean: float) -> Interval:
    """As `estimate_alpha` over the prompts."""
    count = max(groups) + 1
    sizes, sums = (
        np.asarray(np.bincount(groups, weights, count), np.float64)
        for weights in ([t.tokens for t in texts], [t.tokens * t.alpha for t in texts])
    )
    half = float(stdtrit(count - 1, 0.975) * np.sqrt(cluster_ratio_variance(sums, sizes)))
    return Interval(value=mean, low=max(0.0, mean - half), high=min(1.0, mean + half))


def _between(texts: Sequence[RequestRow], groups: Sequence[int]) -> tuple[Interval, ...]:
    """As that of one report: 95% of each τ over prompts."""
    lengths, steps = np.array([t.tokens for t in texts], float), np.array([t.steps for t in texts])
    found = []
    for own in steps.T:
        totals = np.column_stack([lengths, own])
        half = over_prompts([totals], groups, lambda sums: log_ratio(sums[0])).half
        value = float(lengths.sum() / own.sum())
        found.append(Interval(
            value=value, low=min(value, max(1.0, value * np.exp(-half))), high=value * np.exp(half)
        ))  # fmt: skip
    return tuple(found)


def _hull(value: float, parts: Sequence[Interval]) -> Interval:
    ends = [end for each in parts for end in (each.low, each.high)]
    return Interval(value=value, low=min(value, *ends), high=max(value, *ends))


# ── speeds and costs ─────────────────────────────────────────────────────────────────────────


def _mean(values: Sequence[float], weights: FloatArray) -> float:
    return float(np.array(values) @ weights)


def _ratio(parts: Sequence[Interval], weights: FloatArray) -> Interval:
    """Weighted mean of logarithms, independent errors: half² = Σ (w half)²."""
    logs = np.log([[each.value, each.low, each.high] for each in parts])
    value = weights @ logs[:, 0]
    down, up = (float(np.sqrt((weights**2) @ (logs[:, n] - logs[:, 0]) ** 2)) for n in (1, 2))
    middle, low, high = np.exp([value, value - down, value + up]).tolist()
    return Interval(value=middle, low=low, high=high)


def _comparison(rows: Sequence[Comparison]) -> Comparison:
    if len(rows) == 1:
        return rows[0]
    tokens = np.array([row.tokens for row in rows], float)
    steps, weights = sum(row.steps for row in rows), tokens / tokens.sum()
    replayed = tokens.sum() / sum(row.tokens / row.replay_tokens_per_step for row in rows)
    ends = [
        Interval(value=row.replay_v_speedup, low=row.replay_v_low, high=row.replay_v_high)
        for row in rows if row.replay_v_low is not None and row.replay_v_high is not None
    ]  # fmt: skip
    between = _ratio(ends, weights) if len(ends) == len(rows) else None
    same = [row.identical for row in rows if row.identical is not None]
    means = ("iid_tokens_per_step", "verify_cost", "draft_cost", "overhead", "gap_p50_ms",
             "gap_p99_ms", "plain_gap_p50_ms", "plain_gap_p99_ms")  # fmt: skip
    ratios = ("speedup", "theorem_speedup", "replay_speedup", "replay_v_speedup")
    return rows[0].model_copy(
        update={name: _mean([getattr(r, name) for r in rows], weights) for name in means}
        | {name: float(np.exp(weights @ np.log([getattr(r, name) for r in rows])))
           for name in ratios}
        | {
            "tokens": int(tokens.sum()), "steps": steps,
            "tokens_per_step": float(tokens.sum() / steps),
            "replay_tokens_per_step": float(replayed),
            "z": float(sum(row.z for row in rows) / len(rows) ** 0.5),
            "replay_v_low": between.low if between else None,
            "replay_v_high": between.high if between else None,
            "identical": all(same) if same else None,
        }
    )  # fmt: skip


def _run(rows: Sequence[tuple[Report, RunRow]]) -> RunRow:
    own = [row for _, row in rows]
    if len(own) == 1:
        return own[0]
    weights = np.array([_tokens(report, row) for report, row in rows], float)
    weights /= weights.sum()
    speeds = [row.speedup for row in own if row.speedup is not None]
    positions = min(len(row.survival) for row in own)
    return own[0].model_copy(
        update={
            "speedup": _ratio(speeds, weights) if len(speeds) == len(own) else None,
            "survival": tuple(
                _share([row.survival[n] for row in own], weights) for n in range(positions)
            ),
            "gap_edges_ms": (), "gap_counts": (), "gaps_beyond": 0,
        }
    )  # fmt: skip


def _tokens(report: Report, row: RunRow) -> int:
    return next((max(1, r.tokens) for r in report.acceptance if r.part == row.part), 1)


def _share(parts: Sequence[Interval], weights: FloatArray) -> Interval:
    value = _mean([each.value for each in parts], weights)
    down, up = (
        float(np.sqrt(sum((w * (getattr(each, end) - each.value)) ** 2
                          for w, each in zip(weights, parts, strict=True))))
        for end in ("low", "high")
    )  # fmt: skip
    return Interval(value=value, low=max(0.0, value - down), high=min(1.0, value + up))


def _costs(rows: Sequence[Costs]) -> Costs:
    if len(rows) == 1:
        return rows[0]

    def typical(parts: Sequence[Interval]) -> Interval:
        """Two machines' moods: the interval holds both."""
        return _hull(float(np.mean([each.value for each in parts])), parts)

    return rows[0].model_copy(
        update={name: typical([getattr(row, name) for row in rows])
                for name in ("target_seconds", "draft_seconds", "c")}
        | {"verify": {g: typical([row.verify[g] for row in rows]) for g in rows[0].verify
                      if all(g in row.verify for row in rows)}}
    )  # fmt: skip


def _timing(rows: Sequence[TimingRow]) -> TimingRow:
    mean = float(np.mean([row.seconds.value for row in rows]))
    return rows[0].model_copy(
        update={"seconds": _hull(mean, [row.seconds for row in rows]),
                "rounds": sum(row.rounds for row in rows)}
    )  # fmt: skip
