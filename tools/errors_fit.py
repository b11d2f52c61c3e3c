"""How far computed steps were off in the public record: `python -m tools.errors_fit --write`.

    plain     measured / predicted TPOT of plain rows, by engine, dense models and mixtures apart;
              each row predicted by an engine that its model did not set
    excess    (s − 1) that a measured speedup implies / that computed, by kind of drafter
    besides   s that a measured speedup implies − (1 + γc), in plain steps: the high end

10 and 90% quantiles, each source weighing as the root of its rows: runs of one series are alike. A
kind whose rows are few or of one source takes the ends of all rows where they are wider, and the
excess of a kind with under four sources at least `LEAST`. Printed beside each: the share of the
rows of each source that the range set by the other sources holds.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from specmath.checks import FloatArray, InputError
from specmath.published.case import shipped
from specmath.published.scenario import (
    Unscorable,
    asked,
    family_of,
    from_ratio,
    from_served,
    judging_engine,
)
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.scenario.files import build

ENDS = (0.1, 0.9)
FEWEST = 8
"""Rows of a kind below which its own quantiles say little."""

LEAST, ENOUGH = (0.7, 1.5), 4
"""What an excess may be off by at least, while fewer sources than that were seen."""

UNSEEN = (0.6, 2.0)
"""The same of a kind that nobody measured."""

OWN_RANGE = 0.2
"""Plain steps a position: an engine less known than that sets no range of others."""

ANY = "any"
UNCALIBRATED = 1.25
"""By how much ranges are taken to be wider, both ways, where a GPU's steps were not calibrated."""


@dataclass(frozen=True)
class Ratio:
    """True over computed of one row, with what it is a row of."""

    group: tuple[Any, ...]
    source: str
    value: float


def endpoints() -> list[tuple[Any, Endpoint]]:
    """The rows that can be computed from hardware, each once."""
    found, seen = [], set()
    for case in shipped():
        if case.doubt is not None:
            continue
        try:
            fields = from_served(case)
            endpoint = resolve(asked(fields, judging_engine(case, fields)))
        except (Unscorable, InputError):
            continue
        key = (*sorted(fields.items()), *sorted(case.measured.items()))
        if key not in seen:
            seen.add(key)
            found.append((case, endpoint))
    return found


def plain_ratios(rows: list[tuple[Any, Endpoint]]) -> list[Ratio]:
    """By (engine, mixture)."""
    found = []
    for case, endpoint in rows:
        tpot, pair = endpoint.tpot_plain, endpoint.pair
        if case.kind != "plain" or "tpot_ms" not in case.measured or tpot is None or pair is None:
            continue
        group = pair.engine.seen_as, pair.target.is_moe
        value = case.measured["tpot_ms"] / 1e3 / tpot.value
        found.append(Ratio(group, family_of(pair.target.name), value))
    return found


def excess_ratios(rows: list[tuple[Any, Endpoint]]) -> list[Ratio]:
    """By (kind of drafter,)."""
    found = []
    for case, endpoint in rows:
        if not case.speculates or "speedup" not in case.measured or endpoint.pair is None:
            continue
        low, high = endpoint.pair.positions
        if high - low > OWN_RANGE:  # what such an engine may be off by is said already
            continue
        ours, gamma = endpoint.speculation, endpoint.gamma
        said = float(ours.cost.total(gamma)) - 1.0
        seen = float(ours.implied_cost(gamma, case.measured["speedup"])) - 1.0
        if gamma and said > 0:
            found.append(Ratio((endpoint.pair.drafter.kind,), case.source, seen / said))
    return found


def besides_of() -> dict[str, Any]:
    """What steps took beyond Theorem 3.8, over the rows that say τ, γ, c and a speedup."""
    found = []
    for case in shipped():
        if case.doubt is not None or "speedup" not in case.measured:
            continue
        try:
            endpoint = resolve(build(from_ratio(case, timed=False)), step_seen=True)
        except (Unscorable, InputError):
            continue
        ours, gamma = endpoint.speculation, endpoint.gamma
        seen = ours.implied_cost(gamma, case.measured["speedup"])
        beyond = seen - float(ours.cost.total(gamma))
        found.append(Ratio((), case.source, beyond))
    low, high = quantiles(found)
    sources = len({row.source for row in found})
    print(f"besides {low:.2f} to {high:.2f}, n={len(found)}")
    return {
        "high": round(float(high), 2),
        "n": len(found),
        "source": f"speedups of {sources} sources against Theorem 3.8; 10% took {low:+.2f} or less",
    }


def weighted(ratios: list[Ratio]) -> FloatArray:
    """10 and 90% quantiles, each source weighing as the root of its rows; where there are enough
    others, one of a single row is an anecdote and weighs nothing."""
    counts: dict[str, int] = defaultdict(int)
    for ratio in ratios:
        counts[ratio.source] += 1
    series = [r for r in ratios if counts[r.source] > 1]
    return quantiles(series if len(series) >= FEWEST else ratios)


def quantiles(ratios: list[Ratio]) -> FloatArray:
    """10 and 90% quantiles, each source weighing as the root of its rows."""
    counts: dict[str, int] = defaultdict(int)
    for ratio in ratios:
        counts[ratio.source] += 1
    values = np.array([r.value for r in ratios])
    weights = np.array([counts[r.source] ** -0.5 for r in ratios])
    return np.asarray(np.quantile(values, ENDS, weights=weights, method="inverted_cdf"))


def range_of(ratios: list[Ratio], every: list[Ratio]) -> FloatArray:
    """The range of a group; widened to that of all rows where its own are few or of one source."""
    if not ratios:
        return weighted(every)
    own = weighted(ratios)
    if len(ratios) >= FEWEST and len({r.source for r in ratios}) > 1:
        return own
    wide = weighted(every)
    return np.array([min(own[0], wide[0]), max(own[1], wide[1])])


def held_out(ratios: list[Ratio], every: list[Ratio]) -> str:
    """What the range set without a source holds of its rows."""
    parts = []
    for source in sorted({r.source for r in ratios}):
        mine = [r.value for r in ratios if r.source == source]
        rest = [r for r in every if r.source != source]
        if rest:
            low, high = range_of([r for r in ratios if r.source != source], rest)
            share = np.mean([low <= value <= high for value in mine])
            parts.append(f"{source[:40]} {share:.0%} of {len(mine)}")
    return "; ".join(parts)


def entries(ratios: list[Ratio], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Ranges by group, then of all."""
    groups: dict[tuple[Any, ...], list[Ratio]] = defaultdict(list)
    for ratio in ratios:
        groups[ratio.group].append(ratio)
    found = []
    for group, own in [*sorted(groups.items()), ((ANY,) * len(names), ratios)]:
        low, high = range_of(own, ratios)
        sources = sorted({r.source for r in own})
        several = [s for s in sources if sum(r.source == s for r in own) > 1]
        floor = (1.0, 1.0)
        if names == ("drafter",):
            floor = UNSEEN if group == (ANY,) else LEAST if len(several) < ENOUGH else floor
        low, high = min(low, floor[0]), max(high, floor[1])
        said = dict(zip(names, group, strict=True))
        print(f"{said} {low:.2f} to {high:.2f}, n={len(own)}: {held_out(own, ratios)}")
        listed = "; ".join(sources[:6]) + ("; …" if len(sources) > 6 else "")
        found.append(
            said | {"low": float(low), "high": float(high), "n": len(own), "source": listed}
        )
    return found


def rounded(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"low": round(entry["low"], 3), "high": round(entry["high"], 3)}


def with_calibration(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each range as found, and wider where a GPU's steps were not calibrated."""
    wider = [
        e | {"calibrated": False, "low": e["low"] / UNCALIBRATED, "high": e["high"] * UNCALIBRATED}
        for e in found
    ]
    return [rounded(e | {"calibrated": True}) for e in found] + [rounded(e) for e in wider]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write data/errors.toml")
    write = parser.parse_args().write
    rows = endpoints()
    plain = entries(plain_ratios(rows), ("engine", "mixture"))
    excess = entries(excess_ratios(rows), ("drafter",))
    prompts = {
        "engine": ANY, "low": 0.75, "high": 1.35, "n": 0,
        "source": "assumed: a prompt's time is tested within TPOT alone",
    }  # fmt: skip
    data = {
        "besides": besides_of(),
        "plain": with_calibration(plain), "excess": with_calibration(excess), "prompts": [prompts],
    }  # fmt: skip
    if write:
        place = Path(__file__).parents[1] / "specmath/data/errors.toml"
        head = (
            "# Written by `python -m tools.errors_fit --write`: true over computed, the ranges\n"
            "# that hold 80% of the cases. The first entry that fits is taken; any fits all.\n\n"
        )
        place.write_text(head + tomli_w.dumps(data), "utf-8")


if __name__ == "__main__":
    main()
