"""Goodput as rows: a row an arm, a row a time of an arm, a row a rate that was run."""

from __future__ import annotations

from dataclasses import replace

from specmath.attainment import LEVELS, Attained
from specmath.carried import Slo
from specmath.goodput import Goodput, GoodputArm
from specmath.tables.columns import ends_of
from specmath.tables.table import Column, Table
from specmath.words.capacity import LIMITS
from specmath.words.goodput import TIMES, arm_words, attainment_words, goodput_limit

__all__ = ["attainment_table", "goodput_part", "goodput_table", "quantile_table"]

_PERCENTILES = tuple(f"p{100 * level:.0f}" for level in LEVELS)


def goodput_table(found: Goodput) -> Table:
    """Both arms: the rate, what limits it, quantiles there, replicas and dollars, and those of
    means."""
    arms, share = found.arms, attainment_words(found.trial.attainment)
    columns = [
        _names(arms),
        *ends_of(("rate", "Rate", "requests/s", f"The largest of a replica at which {share} of "
                  "requests meet every promise; the range is that of its times", "0.00"),
                 [arm.rate for arm in arms]),
        Column("limit", "Limited by", "", "What keeps a replica from a larger rate",
               tuple(map(goodput_limit, arms))),
        *ends_of(("replicas", "Replicas", "", "Whole replicas that serve the demand with headroom",
                  "#,##0"), [arm.fleet.replicas for arm in arms]),
        *ends_of(("gpus", "GPUs", "", "Of all replicas", "#,##0"),
                 [arm.fleet.all_gpus for arm in arms]),
        *ends_of(("usd_per_month", "A month", "USD", "Of all replicas, 730 h", "#,##0"),
                 [arm.fleet.usd_per_month for arm in arms]),
        *ends_of(("mean_rate", "Rate by mean", "requests/s", "At which means are within what is "
                  "promised, by the server law", "0.00"), [arm.mean.within for arm in arms]),
        Column("mean_limit", "Limited by, mean", "", "What keeps that from a larger rate",
               tuple(LIMITS[arm.mean.limit] for arm in arms)),
        *ends_of(("mean_gpus", "GPUs by mean", "", "Of all replicas at that rate", "#,##0"),
                 [arm.mean.all_gpus for arm in arms]),
        *ends_of(("mean_usd_per_month", "A month by mean", "USD", "Of those replicas", "#,##0"),
                 [arm.mean.usd_per_month for arm in arms]),
        Column("attained", "Met", "", "Share of the requests that meet every promise at that "
               "rate; without any, at best",
               tuple(arm.best.share for arm in arms), format="0.00%"),
        Column("attained_low", "Met, low", "", "95% by chance of so many requests",
               tuple(arm.best.low for arm in arms), format="0.00%"),
        Column("attained_high", "Met, high", "", "95% by chance of so many requests",
               tuple(arm.best.high for arm in arms), format="0.00%"),
        Column("chance_low", "Rate by chance, low", "requests/s", "Between which the rate lies by "
               "chance of so many requests, 95%", tuple(arm.by_chance[0] for arm in arms),
               format="0.00"),
        Column("chance_high", "Rate by chance, high", "requests/s", "Between which the rate lies "
               "by chance of so many requests, 95%", tuple(arm.by_chance[1] for arm in arms),
               format="0.00"),
        *(_quantile(arms, name, place) for name in TIMES for place in range(len(LEVELS))),
        Column("full", "At full load", "requests/s", "Where somebody always waits",
               tuple(arm.most for arm in arms), format="0.00"),
        Column("gpus_of_one", "GPUs a replica", "", "With the draft's own",
               tuple(arm.gpus for arm in arms), format="0"),
        Column("requests", "Requests", "", "Counted: without those that fill an empty server",
               tuple(arm.best.requests for arm in arms), format="#,##0"),
    ]  # fmt: skip
    return Table(f"Goodput at {share}", "goodput", tuple(columns))


def _names(arms: tuple[GoodputArm, ...]) -> Column:
    return Column("arm", "", "", "Without speculation, or with it", tuple(map(arm_words, arms)))


def _quantile(arms: tuple[GoodputArm, ...], name: Slo, place: int) -> Column:
    end = _PERCENTILES[place]
    values = tuple(_ms(arm.best, name, place) for arm in arms)
    said = f"{TIMES[name]}, {end}"
    return Column(f"{name}_{end}_ms", said, "ms", f"{said}, at that rate; without any, at "
                  "best", values, format="0.00" if name == "tpot" else "#,##0")  # fmt: skip


def _ms(at: Attained, name: Slo, place: int) -> float | None:
    return 1e3 * at.quantiles[name][place] if name in at.quantiles else None


_SHOWN = ("arm", "rate", "limit", "gpus", "usd_per_month", "mean_rate", "mean_gpus")


def goodput_part(table: Table) -> Table:
    """What a page shows of the arms, where it is known."""
    known = {
        c.name for c in table.columns
        if c.name in _SHOWN and any(value is not None for value in c.values)
    }  # fmt: skip
    kept = {f"{name}{end}" for name in known for end in ("", "_low", "_high")}
    return replace(table, columns=tuple(c for c in table.columns if c.name in kept))


def quantile_table(found: Goodput) -> Table:
    """What requests take at the rate of each arm, beside what is promised: a row a time."""
    rows = [(arm, name) for arm in found.arms for name in TIMES if name in arm.best.quantiles]
    columns = [
        Column("arm", "", "", "Without speculation, or with it",
               tuple(arm_words(arm) for arm, _ in rows)),
        Column("rate", "Rate", "requests/s", "At which it is told; 0: each request alone",
               tuple(arm.best.rate for arm, _ in rows), format="0.00"),
        Column("time", "Time", "", "Of each request", tuple(TIMES[name] for _, name in rows)),
        *(Column(f"{end}_ms", end, "ms", f"Of requests {100 * level:.0f}% take at most so long",
                 tuple(_ms(arm.best, name, place) for arm, name in rows), format="#,##0.0")
          for place, (end, level) in enumerate(zip(_PERCENTILES, LEVELS, strict=True))),
        Column("promised_ms", "Promised", "ms", "What a request may take",
               tuple(1e3 * found.slo[name] if name in found.slo else None for _, name in rows),
               format="#,##0.0"),
        Column("missed", "Missed by", "", "Share of the requests that take longer",
               tuple(arm.best.missed.get(name) for arm, name in rows), format="0.00%"),
    ]  # fmt: skip
    return Table("What requests take at that rate", "goodput_times", tuple(columns))


def attainment_table(found: Goodput) -> Table:
    """Every rate that was run: what the chart draws."""
    rows = [(arm, at) for arm in found.arms for at in arm.curve or (arm.alone,)]
    columns = [
        Column("arm", "", "", "Without speculation, or with it",
               tuple(arm_words(arm) for arm, _ in rows)),
        Column("rate", "Rate", "requests/s", "Of one replica; 0: each request alone",
               tuple(at.rate for _, at in rows), format="0.00"),
        *(Column(name, label, "", definition, tuple(getattr(at, of) for _, at in rows),
                 format="0.00%")
          for name, label, definition, of in (
              ("attained", "Met", "Share of the requests that meet every promise", "share"),
              ("attained_low", "Met, low", "95% by chance of so many requests", "low"),
              ("attained_high", "Met, high", "95% by chance of so many requests", "high"))),
        *(Column(f"{name}_p99_ms", f"{label}, p99", "ms", f"{label}, p99",
                 tuple(_ms(at, name, len(LEVELS) - 1) for _, at in rows), format="#,##0.0")
          for name, label in TIMES.items()),
    ]  # fmt: skip
    return Table("Requests that meet every promise over the rate", "attainment", tuple(columns))
