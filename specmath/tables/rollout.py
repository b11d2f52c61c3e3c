"""How to try it: what is expected, on how many requests, when to stop, and what engines export."""

from __future__ import annotations

from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.logs.exported import exported
from specmath.logs.reading import Reading
from specmath.plan.decided import PlanAnswer
from specmath.predict import Prediction
from specmath.review.drift_causes import RULES
from specmath.review.planned import held
from specmath.rollout import QUANTITIES, Name, Rollout
from specmath.rollout.trial import FLOOR, Trial, trial
from specmath.tables.columns import ends_of
from specmath.tables.table import Column, Table
from specmath.words.rollout import CHANGES, TELLS, Change, engine_of, stop_rules

__all__ = [
    "checklist_table", "exported_table", "held_table", "requests_table", "stop_table",
    "trials_table",
]  # fmt: skip


def _scaled(name: Name, number: Estimate) -> Estimate:
    scale = QUANTITIES[name].scale
    return number if scale == 1.0 else number.map(lambda value: value * scale)


def checklist_table(found: Rollout) -> Table:
    """What to measure before and after, with what is expected of each."""
    names, each = tuple(found.expected), tuple(found.expected.values())
    said = [QUANTITIES[name] for name in names]
    columns = [
        Column("quantity", "Measure", "", "Before and after", tuple(q.label for q in said)),
        Column("unit", "Unit", "", "Of the row", tuple(q.unit for q in said)),
        *ends_of(("plain", "Before", "", "Expected without speculation", ""),
                 [_scaled(n, e.plain) for n, e in zip(names, each, strict=True)]),
        *ends_of(("speculative", "After", "", f"Expected at γ={found.gamma}", ""),
                 [_scaled(n, e.speculative) for n, e in zip(names, each, strict=True)]),
        Column("definition", "What it is", "", "As it is counted here",
               tuple(q.definition for q in said)),
    ]  # fmt: skip
    return Table(f"What to measure before and after γ={found.gamma}", "rollout", tuple(columns))


def requests_table(found: Rollout) -> Table:
    """Requests in each arm whose mean time per token shows the change."""
    rows: dict[Change, tuple[float | None, int | None]] = {
        "expected": (found.speedup.value, found.requests),
        "smallest": (found.smallest, found.requests_smallest),
    }
    before, after = found.variation
    least = "" if found.measured else ", at least"
    columns = (
        Column("change", "To show", "", "Which change", tuple(CHANGES[name] for name in rows)),
        Column("speedup", "Speedup", "×", "Mean TPOT before over after",
               tuple(speedup for speedup, _ in rows.values()), format="0.00"),
        Column("requests", f"Requests in each arm{least}", "",
               "Whose mean TPOT shows it at this power, no fewer than "
               f"{FLOOR}; empty: none can",
               tuple(count for _, count in rows.values()), format="#,##0"),
        Column("power", "Power", "%", "Chance to see it", (100 * found.power,) * 2, format="0"),
        Column("significance", "Significance", "%",
               "Chance to see what is not there, two-sided", (100 * found.significance,) * 2,
               format="0.0"),
        Column("spread_plain", "Spread before", "%",
               "Of a request's TPOT: standard deviation over mean", (100 * before,) * 2,
               format="0.0"),
        Column("spread", "Spread after", "%", "The same with speculation", (100 * after,) * 2,
               format="0.0"),
    )  # fmt: skip
    return Table("How many requests", "rollout_requests", columns)


def stop_table(found: Rollout) -> Table:
    """When to roll back or to look closer."""
    rules = stop_rules(found)
    columns = [
        Column("quantity", "Seen", "", "What is watched",
               tuple(QUANTITIES[r.name].label for r in rules)),
        Column("side", "Is", "", "On which side of the limit", tuple(r.side for r in rules)),
        *ends_of(("limit", "Limit", "", "Where the rule begins", ""),
                 [_scaled(r.name, r.limit) for r in rules]),
        Column("unit", "Unit", "", "Of the limit", tuple(QUANTITIES[r.name].unit for r in rules)),
        Column("then", "Then", "", "What to do", tuple(r.then for r in rules)),
        Column("requests", "To be sure", "requests",
               "With speculation that tell the expected number from the limit; empty: not known",
               tuple(r.requests for r in rules), format="#,##0"),
    ]  # fmt: skip
    return Table("When to stop", "rollout_stop", tuple(columns))


def exported_table(found: Rollout) -> Table:
    """The metrics of the scenario's engine that tell each; of all engines where it has no page."""
    engine = engine_of(found.scenario)
    rows = [
        *((name, "tokens_per_step", " ".join(rule.format(w="30m").split()), "expression")
          for name, rule in RULES.items()),
        ("tensorrt-llm", "tokens_per_step", "trtllm_spec_decode_acceptance_length",
         "gauge of the last iteration"),
        *((each.engine, each.tells, each.name, each.how) for each in exported()),
    ]  # fmt: skip
    rows = sorted((row for row in rows if engine in (None, row[0])), key=lambda row: row[0])
    engines, tells, names, how = zip(*rows, strict=True)
    columns = (
        Column("engine", "Engine", "", "Whose metrics page", engines),
        Column("tells", "Tells", "", "What is measured", tuple(TELLS[name] for name in tells)),
        Column("metric", "Metric", "", "Prometheus name, or an expression of them", names),
        Column("how", "Read as", "", "How it is read", how),
    )
    return Table("What the engine exports", "rollout_metrics", columns)


def held_table(plan: Rollout, after: Reading) -> Table:
    """Each expected number beside what AFTER tells."""
    rows = held(plan, after)
    said = [QUANTITIES[row.name] for row in rows]
    states = {True: "yes", False: "no", None: ""}
    seen = tuple(
        None if row.seen is None else row.seen * q.scale for row, q in zip(rows, said, strict=True)
    )
    columns = [
        Column("quantity", "Expected and seen", "", "What is measured",
               tuple(q.label for q in said)),
        Column("unit", "Unit", "", "Of the row", tuple(q.unit for q in said)),
        *ends_of(("plain", "Plain", "", "Expected without speculation", ""),
                 [_scaled(row.name, row.plain) for row in rows]),
        *ends_of(("expected", "Expected", "", f"At γ={plan.gamma}", ""),
                 [_scaled(row.name, row.expected) for row in rows]),
        Column("seen", "Seen", "", "As AFTER tells it", seen, basis="measured"),
        Column("within", "As expected", "", "Within its range, and 5%",
               tuple(states[row.within] for row in rows)),
    ]  # fmt: skip
    return Table("What was expected, and what came", "rollout_held", tuple(columns))


def trials_table(found: PlanAnswer) -> Table:
    """A plan's rollout, a row a kind of request: what to expect of its tokens, and how many of its
    requests in each arm show it at 80% power, by the least that requests differ."""
    rows = [(a, s, _trial(s.prediction)) for a in found.endpoints for s in a.segments]
    columns = [
        Column("endpoint", "Endpoint", "", "As named in the plan",
               tuple(a.endpoint.name for a, _, _ in rows)),
        Column("segment", "Segment", "", "As named in the plan", tuple(s.name for _, s, _ in rows)),
        Column("gamma", "γ", "", "That is tried; 0: none", tuple(s.gamma for _, s, _ in rows),
               format="0"),
        *ends_of(("tpot_plain_ms", "Token before", "ms", "Mean time per token without speculation",
                  "0.0"), [_ms(s.prediction.tpot_plain) for _, s, _ in rows]),
        *ends_of(("tpot_ms", "Token after", "ms", "Mean time per token at that γ", "0.0"),
                 [_ms(s.prediction.tpot) for _, s, _ in rows]),
        *ends_of(("walltime_improvement", "Speedup", "×", "Time per token, before over after",
                  "0.00"), [s.prediction.speedup for _, s, _ in rows]),
        Column("requests", "Requests in each arm, at least", "",
               f"Of this kind, that show the expected change, no fewer than {FLOOR}; empty: none "
               "can, or nothing is tried",
               tuple(None if t is None else t.requests for _, _, t in rows), format="#,##0"),
        Column("requests_smallest", "For the smallest change", "",
               "That show the smallest change in its range; empty: the range includes none",
               tuple(None if t is None else t.requests_smallest for _, _, t in rows),
               format="#,##0"),
    ]  # fmt: skip
    return Table("How to try it", "plan_rollout", tuple(columns))


def _ms(seconds: Estimate | None) -> Estimate | None:
    return seconds and seconds.map(lambda each: 1e3 * each)


def _trial(prediction: Prediction) -> Trial | None:
    """None where nothing is tried, or a request has no tail."""
    try:
        return trial(prediction)
    except InputError:
        return None
