"""Scenarios in every form, and what the package says after a cell of their files was typed over."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

from specmath.scenario import SPECS, Scenario
from specmath.tables.table import Table

MONEY = {"demand_tokens_per_second": 3000.0, "usd_per_hour": 3.2, "output_tokens": 300}

ACCEPTANCE: dict[str, dict[str, Any]] = {
    "alpha": {"alpha": 0.78},
    "accepted a step": {"accepted_per_step": 2.6, "measured_gamma": 4},
    "tokens per step": {"tokens_per_step": 2.9, "measured_gamma": 3},
    "accepted share": {"accepted_share": 0.58, "measured_gamma": 5},
    "survival": {"rates": (0.8, 0.61, 0.42), "acceptance_form": "survival"},
    "conditional": {"rates": (0.8, 0.7, 0.75), "acceptance_form": "conditional"},
    "mixture": {"mixture": ((0.6, 0.85), (0.4, 0.5))},
    "kind of work": {"workload": "code_or_json"},
    "typed range": {"alpha_low": 0.55, "alpha_high": 0.82},
    "recorded range": {"acceptance_form": "range"},
    "one end typed": {"alpha_low": 0.5},
    "own traffic": {"alpha": 0.7, "acceptance_source": "my_traffic"},
}
TIMES = {"target_ms": 40.0, "draft_ms": 6.0}
PRICED = {"target_ms": 30.0, "batch": 4}
COST: dict[str, dict[str, Any]] = {
    "two times": TIMES | {"batch": 8},
    "ratio": PRICED | {"c": 0.12},
    "ratio with all": PRICED | {"c": 0.12, "c_hat": 0.02, "sigma": 0.07, "overhead": 0.1,
                                "tensor_parallel": 2, "draft_gpus": 1},
    "ratio alone": {"c": 0.1},
    "range of c": PRICED | {"draft_form": "range", "c_low": 0.05, "c_high": 0.2},
    "cited range": PRICED | {"draft_form": "range"},
    "σ unknown": PRICED | {"c": 0.1, "sigma": None},
    "ĉ unknown": PRICED | {"c": 0.1, "c_hat": None, "overhead": 0.15, "sigma": 0.2},
    "all unknown": PRICED | {"draft_form": "range", "c_hat": None, "sigma": None},
    "requests a second": PRICED | {"c": 0.1, "demand_tokens_per_second": None,
                                   "demand_requests_per_second": 9.0},
    "replicas": PRICED | {"c": 0.1, "demand_tokens_per_second": None, "replicas": 6.0},
    "curve": PRICED | {"c": 0.1, "verify_costs": (1.05, 1.1, 1.3, 1.4, 1.6, 1.9), "max_gamma": 6},
    "coverage": PRICED | {"c": 0.1, "coverage": 0.6, "overhead": 0.05},
    "coverage, open": PRICED | {"draft_form": "range", "coverage": 0.6},
    "prompts": PRICED | {"c": 0.1, "prefill_share": 0.25},
    "run": PRICED | {"c": 0.1, "run_gamma": 3, "run_ms": 16.0, "run_tokens_per_step": 2.7},
    "run of its acceptance": PRICED | {"c": 0.1, "run_gamma": 2, "run_ms": 17.0},
    "fast run": PRICED | {"c": 0.3, "sigma": 0.1, "run_gamma": 3, "run_ms": 14.0},
    "run, open": PRICED | {"draft_form": "range", "run_gamma": 3, "run_ms": 16.0, "sigma": None},
    "run, prompts": TIMES | {"prefill_share": 0.2, "run_gamma": 3, "run_ms": 23.0},
    "run, coverage": TIMES | {"coverage": 0.7, "run_gamma": 3, "run_ms": 24.0},
}  # fmt: skip
ON = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B"}
SERVED: dict[str, dict[str, Any]] = {
    "one request": ON,
    "eagle3": ON | {"draft": "eagle3"},
    "decode only": ON | {"batch": 16, "decode_only": "yes", "prompt_tokens": 900},
    "held batch": ON | {"batch": 16, "prompt_tokens": 700},
    "closed loop": ON | {"concurrency": 24, "prompt_tokens": 1000},
    "open loop": ON | {"request_rate": 2.0, "prompt_tokens": 800},
    "plain time": ON | {"target_ms": 9.0},
    "served run": ON | {"target_ms": 9.0, "run_gamma": 3, "run_ms": 6.5},
    "lookup": ON | {"draft": "ngram"},
    "stops": ON | {"draft": "eagle3", "drafted_per_step": 2.5, "gamma": 5},
    "tree": ON | {"draft": "eagle3", "tree": "4:3:12"},
}


def every_form() -> Iterator[tuple[str, Scenario]]:
    """Each form of each half with some of the other."""
    pairs = [(a, "run of its acceptance") for a in ACCEPTANCE]
    pairs += [("typed range", c) for c in COST]
    pairs += [(a, "two times") for a in ("conditional", "mixture", "one end typed")]
    pairs += [("survival", c) for c in ("coverage, open", "curve", "run, coverage", "replicas")]
    pairs += [(a, "one request") for a in ACCEPTANCE]
    pairs += [(a, c) for c in SERVED for a in ("alpha", "recorded range")]
    for a, c in dict.fromkeys(pairs):
        said = {"gamma": 3} | MONEY | ACCEPTANCE[a] | (COST | SERVED)[c]
        if "tree" in said:
            del said["gamma"]
        yield f"{a} × {c}", Scenario(**said)


def typed_cells(table: Table) -> dict[str, float]:
    """The inputs for typing, and what is in them."""
    return {i.name: float(i.value) for i in table.inputs if table.typed(i)}  # type: ignore[arg-type]


def typed_over(cells: dict[str, float], chosen: random.Random, most: int = 3) -> dict[str, float]:
    """Other numbers in some of the cells, each possible."""
    names = chosen.sample(sorted(cells), min(len(cells), chosen.randint(1, most)))
    found: dict[str, float] = {}
    for name in names:
        spec = SPECS.get(re.sub(r"_\d+$", "", name))
        value = cells[name] * chosen.uniform(0.85, 1.15)
        if spec is not None and spec.whole:
            value = float(max(int(spec.low or 0), round(value) + chosen.choice((0, 1))))
        if not cells[name]:
            value = 0.0 if spec is not None and spec.whole else chosen.uniform(0.0, 0.05)
        share = spec is None or (spec.high == 1)
        found[name] = min(value, 0.99) if share and not name.startswith("verify") else value
    for i in range(2, 300):  # survival never rises
        if f"survival_{i}" in cells:
            now, before = (found.get(f"survival_{j}", cells[f"survival_{j}"]) for j in (i, i - 1))
            if now > before:
                found[f"survival_{i}"] = before
    if found.get("alpha_low", cells.get("alpha_low", 0.0)) > found.get(
        "alpha_high", cells.get("alpha_high", 1.0)
    ):
        found["alpha_low"] = found.get("alpha_high", cells.get("alpha_high", 1.0)) * 0.9
    if found.get("c_low", cells.get("c_low", 0.0)) > found.get("c_high", cells.get("c_high", 9.0)):
        found["c_low"] = found.get("c_high", cells.get("c_high", 9.0)) * 0.9
    return found


def scenario_with(s: Scenario, typed: dict[str, float], gamma: int) -> Scenario:
    """The scenario in which those cells hold other numbers, at the same γ."""
    said: dict[str, Any] = s.model_dump() | {"gamma": gamma}
    ends = {name: typed[name] for name in ("alpha_low", "alpha_high") if name in typed}
    for name, value in typed.items():
        base, _, number = name.rpartition("_")
        if base in ("survival", "conditional"):
            said["rates"] = _at(said["rates"], int(number), value)
        elif base == "verify_cost":
            said["verify_costs"] = _at(said["verify_costs"], int(number), value)
        elif base in ("share", "alpha") and number.isdigit():
            share, alpha = said["mixture"][int(number) - 1]
            part = (value, alpha) if base == "share" else (share, value)
            said["mixture"] = _at(said["mixture"], int(number), part)
        elif name == "alpha":
            said |= dict.fromkeys(("accepted_per_step", "tokens_per_step",
                                             "accepted_share", "measured_gamma"))  # fmt: skip
            said |= {"acceptance_form": "alpha", "alpha": value}
        elif name not in ends:
            said[name] = int(value) if SPECS[name].whole else value
    if ends and s.acceptance_form == "workload":
        low, _, high = s.accepts.ends(s)  # type: ignore[attr-defined]
        ends = {"alpha_low": low, "alpha_high": high} | ends
        said |= {"acceptance_form": "range", "workload": None}
    return Scenario(**{k: v for k, v in (said | ends).items() if v != SPECS_DEFAULTS[k]} | {
        "gamma": gamma})  # fmt: skip


SPECS_DEFAULTS = {name: info.default for name, info in Scenario.model_fields.items()}


def _at(values: tuple[Any, ...], number: int, value: Any) -> tuple[Any, ...]:
    return (*values[: number - 1], value, *values[number:])
