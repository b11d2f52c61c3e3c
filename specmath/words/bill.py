"""The bill in sentences: what falls and what does not, from what, and what energy is counted."""

from __future__ import annotations

from specmath.bill import Bill
from specmath.estimate import Estimate
from specmath.numbers import changed, interval, significant, usd
from specmath.predict import Prediction
from specmath.scenario import SPECS, Scenario
from specmath.words.load import LOADS

__all__ = [
    "AT_A_RATE",
    "ONLY_WHOLE",
    "bill_sentence",
    "busy_words",
    "energy_words",
    "falls",
    "promised_words",
    "served_words",
]

ONLY_WHOLE = "The bill falls only when a replica leaves: replicas are whole."
AT_A_RATE = (
    "At a request rate a replica makes as many tokens whatever it does: a token costs the same in "
    "both arms. What speculation changes is the largest rate that a replica carries, and so the "
    "bill."
)
"""In place of cost over load in an open loop."""
PROMISES = ("slo_tpot_ms", "slo_ttft_ms", "slo_e2e_ms")
"""Fields in which a time is promised."""
UNPRICED = "Dollars are unknown until the price of a GPU hour is given."


def bill_sentence(p: Prediction, found: Bill | None) -> str:
    """The bill with and without speculation, and whether a replica leaves."""
    if found is None:
        return "The bill is unknown until the target's time per token is given."
    if p.gamma == 0:
        alone = _of(found.plain.usd_per_month) or _unit(found.plain.usd_per_million)
        return f"Without speculation: {alone}." if alone else UNPRICED
    if found.demand is None:
        return f"{_kept_busy(found)} Say what you serve: the bill falls only when a replica leaves."
    plain, ours = found.plain.replicas, found.speculative.replicas
    assert plain is not None
    assert ours is not None
    change_of = ours.with_(plain, lambda now, before: now - before)
    many = "replica" if interval(ours, _whole) == "1" else "replicas"
    both = f"{interval(ours, _whole)} {many} with γ={p.gamma}, {interval(plain, _whole)} without"
    return f"{falls(change_of)}{both}{_bills(found)}."


def falls(replicas: Estimate, what: str = "replica") -> str:
    """What happens to the number of replicas (or of `what`), as firm as its interval."""
    low = replicas.value if replicas.low is None else replicas.low
    high = replicas.value if replicas.high is None else replicas.high
    if high < 0:
        return ""
    if low < 0:
        return f"It is open whether a {what} leaves{' or more are needed' if high > 0 else ''}: "
    if low > 0:
        return f"More {what}s are needed: "
    return f"No {what} leaves: " if high == 0 else f"No {what} leaves, more may be needed: "


def _bills(found: Bill) -> str:
    plain, ours = found.plain.usd_per_month, found.speculative.usd_per_month
    if plain is None or ours is None:
        return f". {UNPRICED.removesuffix('.')}"
    if interval(plain, usd) == interval(ours, usd):
        return f". The bill stays at {interval(ours, usd)} a month"
    return (
        f": {interval(ours, usd)} a month instead of {interval(plain, usd)}{_changed(ours, plain)}"
    )


def _changed(ours: Estimate, plain: Estimate) -> str:
    """In brackets; nothing against a price of nothing."""
    return f" ({changed(ours, plain)})" if plain.value else ""


def _kept_busy(found: Bill) -> str:
    plain, ours = found.plain.usd_per_million, found.speculative.usd_per_million
    if plain is None or ours is None:
        return UNPRICED
    return (
        f"A replica kept busy makes a million output tokens for {interval(ours, usd)} instead of "
        f"{interval(plain, usd)}{_changed(ours, plain)}."
    )


def _of(month: Estimate | None) -> str:
    return "" if month is None else f"{interval(month, usd)} a month"


def _unit(million: Estimate | None) -> str:
    return "" if million is None else f"{interval(million, usd)} a million output tokens"


def _whole(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"


def served_words(s: Scenario, found: Bill | None) -> str:
    """What is served and how it was said, and what is kept free."""
    told = "" if s.headroom != type(s).model_fields["headroom"].default else " (assumed)"
    kept = f"{s.headroom:.0%} of what each replica can give is kept free{told}."
    if found is None or found.demand is None:
        return kept
    demand = interval(found.demand, significant)
    if s.demand_requests_per_second is not None:
        return (
            f"Served: {significant(s.demand_requests_per_second)} requests a second of "
            f"{s.output_tokens:,} output tokens, {demand} tokens/s. {kept}"
        )
    if s.replicas is not None:
        carried = f"what {s.replicas:,} replicas without speculation carry, {demand} tokens/s"
        return f"Served: {carried}. {kept}"
    return f"Served: {demand} output tokens a second. {kept}"


def promised_words(s: Scenario) -> str:
    """That the bill does not look at what is promised; "" where nothing is."""
    said = [
        f"{SPECS[name].label} {significant(asked)} ms"
        for name in PROMISES
        if (asked := getattr(s, name)) is not None
    ]
    if not said:
        return ""
    how = "" if s.costs.computed else ", of a GPU and models"
    return (
        f"The bill does not look at what is promised ({', '.join(said)}): How many GPUs? and "
        f"specmath capacity do{how}."
    )


def busy_words(p: Prediction) -> str:
    """At which load a replica is kept busy."""
    load, s = p.endpoint.load, p.scenario
    others = _APART if s.decode_only == "yes" else ""
    if load is None or load.requests.loop == "held":
        return f"A replica is busy with a batch of {s.batch:,}.{others}"
    if load.requests.loop == "open":
        return f"A replica is busy at the largest rate that it carries, its memory full.{others}"
    return f"A replica is busy at {LOADS[load.requests.loop]} {s.concurrency or 0:,}.{others}"


_APART = (
    " Prompts are read by other workers, which are in no number here: How many GPUs counts them."
)


def energy_words(p: Prediction) -> str:
    """What the energy is counted from, or why it is not known."""
    pair = p.endpoint.pair
    if pair is None:
        return "Energy is unknown without a GPU."
    gpu = pair.place.device
    if gpu.tdp is None:
        return f"Energy is unknown: the power of {gpu.name} was not read anywhere."
    return (
        f"Energy at the {gpu.tdp:g} W that {gpu.name} may draw at most (TDP), all the time: an "
        "upper bound of what the GPUs take, without host, network and cooling. Source: "
        f"{gpu.sources['tdp']}."
    )
