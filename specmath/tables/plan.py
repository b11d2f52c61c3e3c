"""A plan as rows: its endpoints, their segments, the hours of a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specmath.capacity import Prefill
from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.plan.day import POLICIES
from specmath.plan.decided import EndpointAnswer, PlanAnswer, SegmentAnswer
from specmath.tables.columns import ends_of
from specmath.tables.table import Cell, Column, Table
from specmath.words.capacity import LIMITS
from specmath.words.plan import acceptance_short, acceptance_words, do_words

__all__ = ["AGAINST", "days_table", "endpoints_part", "endpoints_table", "part_of",
           "segments_part", "segments_table"]  # fmt: skip


def _in_ms(seconds: Estimate | None) -> Estimate | None:
    return seconds and seconds.map(lambda each: 1e3 * each)


def _text(name: str, label: str, definition: str, values: list[Cell]) -> Column:
    return Column(name, label, "", definition, tuple(values))


def endpoints_table(found: PlanAnswer) -> Table:
    """One row an endpoint: what to do, its times, its replicas and its bill, in both arms."""
    each = found.endpoints
    columns = [
        _text("endpoint", "Endpoint", "As named in the plan", [a.endpoint.name for a in each]),
        _text("do", "Speculation", "Off, on, by load (off above a rate), or measure first",
              [do_words(a) for a in each]),
        Column("gamma", "γ", "", "Drafted tokens a step at which times and Peak are told; bought "
               "only where speculation is on; the most, where each request has its own",
               tuple(a.prediction.gamma for a in each), format="0"),
        *_arms("tpot_p50_ms", "Token p50", "ms", "Half of the requests have less, at the "
               "rate of a replica", "0.0",
               [a.tpot[0.5] for a in each]),
        *_arms("tpot_p99_ms", "Token p99", "ms", "99% of the requests have less, at the "
               "rate of a replica", "0.0",
               [a.tpot[0.99] for a in each]),
        *_plain_and("largest_rate", "Peak", "requests/s", "The largest rate of one replica within "
                    "what is promised", "0.00",
                    [(a.capacity.plain.within, a.capacity.speculative.within) for a in each]),
        _text("limit", "Limited by", "What keeps a replica with speculation from a larger rate",
              [LIMITS[a.capacity.speculative.limit] for a in each]),
        *_plain_and("gpus", "GPUs", "", "Of all replicas, and of the workers that read their "
                    "prompts; as planned", "#,##0",
                    [(a.capacity.plain.all_gpus, a.arm.all_gpus) for a in each]),
        *_prefill(each),
        *_plain_and("usd_per_month", "A month", "USD", "Of all replicas, 730 h; as planned",
                    "#,##0",
                    [(a.capacity.plain.usd_per_month, a.arm.usd_per_month) for a in each]),
        _text("acceptance_from", "α from", "Given, measured by others, or by nobody",
              [acceptance_short(a) for a in each]),
        Column("demand", "Demand", "requests/s", "Of the busiest hour",
               tuple(a.endpoint.demand for a in each), format="0.00", basis="assumed"),
        Column("rate", "Rate of a replica", "requests/s", "At which times are told",
               tuple(a.rate for a in each), format="0.00"),
        Column("replicas_plain", "Replicas at that rate", "", "That serve the demand without "
               "speculation; with it where none do without; or as given",
               tuple(a.replicas for a in each), format="0"),
    ]  # fmt: skip
    return Table("Endpoints of the plan", "plan", tuple(columns))


def _prefill(each: Sequence[EndpointAnswer]) -> list[Column]:
    """Of the GPUs, those of workers that read prompts, where an endpoint has any."""
    pools = [(a.capacity.plain.prefill, a.arm.prefill) for a in each]
    if not any(ours for _, ours in pools):
        return []
    return _plain_and("prefill_gpus", "GPUs that read", "", "Of the workers that read prompts for "
                      "replicas that decode", "#,##0",
                      [(_read_by(a), _read_by(b)) for a, b in pools])  # fmt: skip


def _read_by(prefill: Prefill | None) -> Estimate | None:
    return None if prefill is None else prefill.all_gpus


_SHOWN = ("endpoint", "do", "tpot_p50_ms", "tpot_p99_ms", "largest_rate", "gpus",
          "usd_per_month", "acceptance_from")  # fmt: skip


AGAINST = ("tpot_p50_ms", "tpot_p99_ms", "largest_rate", "gpus", "usd_per_month")
"""Columns that a page shows beside those of plain decoding."""


def endpoints_part(table: Table) -> Table:
    """What a page shows of the endpoints: plain beside speculative."""
    return part_of(table, [*_SHOWN, *(f"{name}_plain" for name in AGAINST)])


def segments_part(table: Table) -> Table:
    """What a page shows of the segments; what dedicated replicas cost where they may be."""
    names = ["endpoint", "segment", "share", "gamma", "tokens_per_step", "tpot_ms", "own_gamma",
             "lost_percent", "acceptance_from"]  # fmt: skip
    return part_of(table, names)


def part_of(table: Table, names: Sequence[str]) -> Table:
    """The columns of these names, with the ends of each, in the table's order."""
    kept = {f"{name}{end}" for name in names for end in ("", "_low", "_high")}
    return replace(table, columns=tuple(c for c in table.columns if c.name in kept))


def _arms(
    name: str, label: str, unit: str, definition: str, form: str,
    pairs: list[tuple[Estimate | None, Estimate | None]],
) -> list[Column]:  # fmt: skip
    return _plain_and(
        name, label, unit, definition, form, [(_in_ms(a), _in_ms(b)) for a, b in pairs]
    )


def _plain_and(
    name: str, label: str, unit: str, definition: str, form: str,
    pairs: list[tuple[Estimate | None, Estimate | None]],
) -> list[Column]:  # fmt: skip
    """Without speculation, and with it."""
    plain = ends_of((f"{name}_plain", f"{label}, plain", unit, definition, form),
                    [a for a, _ in pairs])  # fmt: skip
    return [*plain, *ends_of((name, label, unit, definition, form), [b for _, b in pairs])]


def segments_table(found: PlanAnswer) -> Table:
    """One row a segment: its share, what it accepts, its times, and its own γ."""
    rows = [(a, s) for a in found.endpoints for s in a.segments]
    columns = [
        _text("endpoint", "Endpoint", "As named in the plan", [a.endpoint.name for a, _ in rows]),
        _text("segment", "Segment", "As named in the plan", [s.name for _, s in rows]),
        Column("share", "Share", "%", "Of the endpoint's requests",
               tuple(100.0 * s.share for _, s in rows), format="0.0", basis="assumed"),
        Column("requests_per_second", "Rate", "requests/s", "Of the whole service, busiest hour",
               tuple(s.share * a.endpoint.demand for a, s in rows), format="0.00"),
        Column("prompt_tokens", "Prompt", "tokens", "Mean of a request",
               tuple(s.prediction.scenario.prompt_tokens for _, s in rows), format="#,##0",
               basis="assumed"),
        Column("output_tokens", "Output", "tokens", "Mean of a request",
               tuple(s.prediction.scenario.output_tokens for _, s in rows), format="#,##0",
               basis="assumed"),
        Column("gamma", "γ", "", "One for all segments of an endpoint, unless its engine has one "
               "for each request", tuple(s.gamma for _, s in rows), format="0"),
        *ends_of(("tokens_per_step", "Tokens a step", "", "τ at that γ, bonus token included",
                  "0.00"), [_tokens(s) for _, s in rows]),
        *ends_of(("tpot_plain_ms", "Token, plain", "ms", "Mean time per token without speculation",
                  "0.0"), [_in_ms(s.prediction.tpot_plain) for _, s in rows]),
        *ends_of(("tpot_ms", "Token", "ms", "Mean time per token at that γ", "0.0"),
                 [_in_ms(s.prediction.tpot) for _, s in rows]),
        *ends_of(("walltime_improvement", "Speedup", "×", "Time per token, plain over at that γ",
                  "0.00"), [s.prediction.speedup for _, s in rows]),
        Column("own_gamma", "Own γ", "", "Fastest for this segment, in the same steps; 0: plain",
               tuple(s.own_gamma for _, s in rows), format="0"),
        *ends_of(("lost_percent", "Lost to one γ", "%", "How much less a token would take at its "
                  "own γ, if all in its steps had it, as on dedicated replicas", "0.0"),
                 [s.lost.map(lambda gain: 100.0 * (1.0 - 1.0 / gain)) for _, s in rows]),
        *ends_of(("tpot_by_request_ms", "Token, γ by request", "ms", "Mean time per token if the "
                  "engine had a γ for each request, with what choosing costs as given; empty: not "
                  "told", "0.0"),
                 [_in_ms(s.with_each) for _, s in rows]),
        Column("split_usd_per_month", "By itself", "USD a month", "What dedicated replicas for "
               "this segment cost more than one γ for all, in whole replicas; empty: its "
               "γ is that one, or no price is given",
               tuple(None if s.split is None else s.split.more_per_month for _, s in rows),
               format="#,##0"),
        Column("split_replicas", "Replicas by itself", "", "Dedicated to this segment, and of "
               "the others",
               tuple(None if s.split is None else s.split.replicas for _, s in rows), format="0"),
        _text("acceptance_from", "Acceptance from", "Given, measured by others, or by nobody",
              [acceptance_words(s.prediction) for _, s in rows]),
    ]  # fmt: skip
    return Table("Segments of the plan", "segments", tuple(columns))


def _tokens(segment: SegmentAnswer) -> Estimate:
    p = segment.prediction
    each = [[float(corner.tokens(p.gamma))] for corner in p.endpoint.corners]
    return (
        Estimate.between(p.tokens_per_step, min(each)[0], max(each)[0])
        if min(each) < max(each)
        else Estimate(p.tokens_per_step)
    )


def days_table(found: PlanAnswer) -> Table:
    """The hours of each endpoint that has a day: requests, GPUs that follow them, time per token.

    Raises InputError where none has.
    """
    rows = [
        (a, a.day, hour)
        for a in found.endpoints
        if a.day is not None
        for hour in range(len(a.day.demand))
    ]
    if not rows:
        raise InputError("a table by hour needs an endpoint with a day of 24 numbers, got none")
    columns = [
        _text("endpoint", "Endpoint", "As named in the plan", [a.endpoint.name for a, *_ in rows]),
        Column("hour", "Hour", "", "Of the day", tuple(h for *_, h in rows), format="0"),
        Column("requests_per_second", "Rate", "requests/s", "Of the whole service",
               tuple(day.demand[h] for _, day, h in rows), format="0.00", basis="assumed"),
        Column("rate", "Rate of a replica", "requests/s", "Of the fixed fleet: as many replicas at "
               "all hours, those of the table of endpoints",
               tuple(day.rates[h] for _, day, h in rows), format="0.00"),
    ]  # fmt: skip
    for i, policy in enumerate(POLICIES):
        name = policy.replace(" ", "_")
        told = [(day.policies[i], h) for _, day, h in rows]
        columns += [
            Column(f"tpot_{name}_ms", f"Token, {policy}, fixed fleet", "ms", "Mean time per token "
                   "on as many replicas at all hours; empty: they do not carry it",
                   tuple(1e3 * each.tpot[h] for each, h in told), format="0.00"),
            Column(f"gpus_{name}", f"GPUs, {policy}, following", "", "Of replicas that follow the "
                   "hours instead, as many as each needs within what is promised",
                   tuple(each.gpus[h] if each.gpus else None for each, h in told), format="#,##0"),
        ]  # fmt: skip
    columns.append(
        _text("drafts", "By load it", "Drafts at that hour, or does not",
              ["drafts" if day.policies[-1].on[h] else "does not" for _, day, h in rows])
    )  # fmt: skip
    return Table("Hours of the plan", "plan_hours", tuple(columns))
