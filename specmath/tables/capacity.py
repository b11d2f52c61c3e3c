"""How many GPUs: a row an arm, a row a request rate, a row a γ."""

from __future__ import annotations

from dataclasses import replace

from specmath.capacity import Arm, At, Capacity
from specmath.estimate import Estimate
from specmath.tables.columns import ends_of
from specmath.tables.table import Column, Table
from specmath.words.capacity import LIMITS, arm_name, gamma_words, promise
from specmath.words.pools import APART, TOGETHER

__all__ = ["capacity_part", "capacity_rates_table", "capacity_table", "gamma_capacity_table",
           "pools_table"]  # fmt: skip


def _in_ms(number: Estimate) -> Estimate:
    return number.map(lambda seconds: 1e3 * seconds)


def capacity_table(found: Capacity) -> Table:
    """Both arms, and speculation turned off above a load: the largest rate within what is promised,
    what limits it, replicas and dollars; computed, not live."""
    arms = [found.plain, *([found.speculative] if found.gamma else [])]
    arms += [found.switched] if found.switched is not None else []
    kept = promise(found) or " at all"
    pools = _pool_columns(arms) if found.plain.prefill is not None else []
    columns = [
        Column("arm", "", "", "Without speculation, with it, or with it below a rate",
               tuple(arm_name(found, arm) for arm in arms)),
        *ends_of(("largest_rate", "Largest rate", "requests/s", f"That a replica carries{kept}",
                "0.00"), [arm.within for arm in arms]),
        Column("limit", "Limited by", "", "What keeps a replica from a larger rate",
               tuple(LIMITS[arm.limit] for arm in arms)),
        *ends_of(("replicas", "Replicas", "", "Whole replicas that serve the demand with headroom",
                "#,##0"), [arm.replicas for arm in arms]),
        *pools,
        *ends_of(("gpus", "GPUs", "", "Of both pools" if pools else "Of all replicas", "#,##0"),
               [arm.all_gpus for arm in arms]),
        *ends_of(("usd_per_month", "A month", "USD",
                "Of both pools, 730 h" if pools else "Of all replicas, 730 h", "#,##0"),
               [arm.usd_per_month for arm in arms]),
        *ends_of(("most", "At full load", "requests/s", "λ_max, whatever a request takes", "0.00"),
               [arm.most for arm in arms]),
        *ends_of(("alone_ms", "Token alone", "ms", "Time per token at a rate towards 0", "0.00"),
               [_in_ms(arm.alone.tpot) for arm in arms]),
        Column("sequences", "Sequences", "", "That memory holds beside the models",
               tuple(arm.held for arm in arms), format="#,##0"),
        Column("gpus_of_one", "GPUs a replica", "", "With the draft's own",
               tuple(arm.gpus for arm in arms), format="0"),
    ]  # fmt: skip
    return Table(f"How many GPUs{promise(found)}", "capacity", tuple(columns))


def _pool_columns(arms: list[Arm]) -> list[Column]:
    """The workers that read prompts: how many, what one takes and carries, the first token."""
    pools = [arm.prefill for arm in arms if arm.prefill is not None]
    return [
        *ends_of(("decoding_gpus", "GPUs that decode", "", "Of all replicas", "#,##0"),
               [arm.decoding_gpus for arm in arms]),
        *ends_of(("prefill_replicas", "Prefill workers", "", "Whole workers that read the demand's "
                "prompts with headroom", "#,##0"), [each.replicas for each in pools]),
        *ends_of(("prefill_gpus", "GPUs that read", "", "Of all prefill workers", "#,##0"),
               [each.all_gpus for each in pools]),
        *ends_of(("prefill_rate", "Largest rate, prefill", "requests/s", "That a prefill worker "
                "carries within what is promised", "0.00"), [each.pool.within for each in pools]),
        Column("prefill_limit", "Prefill limited by", "", "What keeps a prefill worker from a "
               "larger rate", tuple(LIMITS[each.pool.limit] for each in pools)),
        *ends_of(("prompt_ms", "Prompt", "ms", "That a prefill worker takes to read one", "0.0"),
               [_in_ms(each.pool.prompt) for each in pools]),
        *ends_of(("ttft_ms", "First token", "ms", "Mean time to it, with that headroom", "0.0"),
               [_in_ms(each.pool.first) for each in pools]),
        Column("transfer_mb", "Cache", "MB", "Of a request, which moves between the pools",
               tuple(each.pool.mean_bytes / 1e6 for each in pools), format="#,##0.0"),
        Column("gpus_of_one_prefill", "GPUs a worker", "", "That reads prompts",
               tuple(each.pool.gpus for each in pools), format="0"),
    ]  # fmt: skip


def pools_table(found: Capacity, together: Capacity) -> Table:
    """Two pools beside replicas that read their own prompts, in both arms: GPUs and the bill, and
    the times of a request with headroom kept free."""
    pairs = [(found, found.plain), (together, together.plain)]
    if found.gamma:
        pairs += [(found, found.speculative), (together, together.speculative)]
    arms = [arm for _, arm in pairs]
    at = [arm.planned for arm in arms]
    columns = [
        Column("arm", "", "", "Without speculation, or with it",
               tuple(arm_name(of, arm) for of, arm in pairs)),
        Column("pools", "Prompts", "", "Read by workers of their own, or by those that decode",
               tuple(APART if arm.prefill else TOGETHER for arm in arms)),
        *ends_of(("gpus", "GPUs", "", "Of all pools, for the demand", "#,##0"),
               [arm.all_gpus for arm in arms]),
        *ends_of(("usd_per_month", "A month", "USD", "Of all pools, 730 h", "#,##0"),
               [arm.usd_per_month for arm in arms]),
        *ends_of(("ttft_ms", "First token", "ms", "Mean time to it, with headroom kept free",
                "0.0"), [None if a is None else _in_ms(a.ttft) for a in at]),
        *ends_of(("tpot_ms", "Token", "ms", "Mean time per token, with headroom kept free", "0.00"),
               [None if a is None else _in_ms(a.tpot) for a in at]),
        *ends_of(("e2e_ms", "Request", "ms", "Mean time of a whole one, with headroom kept free",
                "#,##0"), [None if a is None else _in_ms(a.e2e) for a in at]),
    ]  # fmt: skip
    return Table(f"Two pools beside one{promise(found)}", "pools", tuple(columns))


_SHOWN = ("arm", "largest_rate", "limit", "replicas", "decoding_gpus", "prefill_gpus", "gpus",
          "usd_per_month")  # fmt: skip


def capacity_part(table: Table) -> Table:
    """What a page shows of the arms: what somebody buys, where it is known."""
    known = {
        c.name for c in table.columns
        if c.name in _SHOWN and any(value is not None for value in c.values)
    }  # fmt: skip
    same = table.column("replicas").values == table.column("gpus").values
    if same or "decoding_gpus" in known:
        known.discard("replicas")
    kept = {f"{name}{end}" for name in known for end in ("", "_low", "_high")}
    return replace(table, columns=tuple(c for c in table.columns if c.name in kept))


def capacity_rates_table(found: Capacity) -> Table:
    """Times of both arms over the request rate of one replica: what the chart draws."""
    columns = [
        Column("request_rate", "Rate", "requests/s", "Requests a second that reach one replica",
               found.rates, format="0.00"),
        Column("fastest_gamma", "Fastest γ", "", "With the least time per token there, in the "
               "middle; 0: plain decoding", found.fastest, format="0"),
    ]  # fmt: skip
    for suffix, name, arm in (("_plain", "plain", found.plain), ("", "γ", found.speculative)):
        at = _at(found, arm)
        head = gamma_words(arm) if suffix == "" else name
        columns += [
            Column(f"use{suffix}", f"Use, {head}", "%", "Rate over the largest that is carried",
                   tuple(None if a is None else 100.0 * a.use for a in at), format="0"),
            Column(f"batch{suffix}", f"Batch, {head}", "", "Sequences of a step in the mean",
                   tuple(None if a is None else a.batch for a in at), format="0.0"),
            *ends_of((f"tpot_ms{suffix}", f"Token, {head}", "ms", "Mean time per token", "0.00"),
                   [None if a is None else _in_ms(a.tpot) for a in at]),
            *ends_of((f"ttft_ms{suffix}", f"First token, {head}", "ms", "Mean time to it", "0.0"),
                   [None if a is None else _in_ms(a.ttft) for a in at]),
            *ends_of((f"e2e_ms{suffix}", f"Request, {head}", "ms", "Mean time of a whole request",
                    "#,##0"), [None if a is None else _in_ms(a.e2e) for a in at]),
        ]  # fmt: skip
    return Table("Times over the request rate", "capacity_rates", tuple(columns))


def _at(found: Capacity, arm: Arm) -> list[At | None]:
    """The arm's states over the rates; None where it does not carry one."""
    told = {at.rate: at for at in arm.at}
    return [told.get(rate) for rate in found.rates]


def gamma_capacity_table(found: Capacity) -> Table:
    """The largest rate within what is promised over γ, in the middle."""
    most, within = found.by_gamma
    gammas = tuple(range(len(most)))
    columns = (
        Column("gamma", "γ", "", "Drafted tokens a step; 0: plain decoding", gammas, format="0"),
        Column("largest_rate", "Largest rate", "requests/s",
               f"That a replica carries{promise(found) or ' at all'}, in the middle",
               tuple(map(float, within)), format="0.00"),
        Column("limit", "Limited by", "", "What keeps a replica from a larger rate",
               tuple(LIMITS[limit] for limit in found.limits)),
        Column("most", "At full load", "requests/s", "λ_max, whatever a request takes",
               tuple(map(float, most)), format="0.00"),
    )  # fmt: skip
    return Table(f"Largest rate by γ{promise(found)}", "capacity_gamma", columns)
