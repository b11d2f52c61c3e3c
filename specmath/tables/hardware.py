"""Tables over batch, of drafters on the hardware, and of candidate drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from specmath.drafts import Outcome, drafter_rows
from specmath.load import load_study
from specmath.predict import Prediction
from specmath.tables.columns import DILUTED, columns_of
from specmath.tables.inputs import fixed, money_cells, reachable
from specmath.tables.table import Chart, Table
from specmath.words.drafts import evidence_words

__all__ = [
    "batch_table",
    "drafters_table",
    "drafts_table",
]


_PLAIN_MS = "{plain_step_ms}*(1+{plain_waiting})"
_LIVE_BATCH = {
    "step_cost": "{speculative_step_ms}/{plain_step_ms}",
    "walltime_improvement": DILUTED,
    "tokens_per_second": f"{{batch}}*{{walltime_improvement}}*1000/({_PLAIN_MS})",
    "usd_per_million_tokens_plain": f"{{tensor_parallel}}*{{usd_per_hour}}/3600*1000*{_PLAIN_MS}"
    "/{batch}",
    "usd_per_million_tokens": "({tensor_parallel}+{draft_gpus})*{usd_per_hour}/3600*1000"
    f"*{_PLAIN_MS}/{{walltime_improvement}}/{{batch}}",
}


def batch_table(prediction: Prediction) -> Table:
    """One row a batch at the scenario's context and γ; step times and what follows from them are
    fixed in the file, the price is live."""
    study, s = load_study(prediction.endpoint), prediction.scenario
    plain, cost = study.plain_seconds, study.cost_at_gamma
    tokens = float(prediction.speculation.acceptance.tokens_per_step(study.gamma))
    best = study.recommended_gamma[:, study.own]
    tpot_plain, speedup = study.tpot_plain[:, study.own], study.at_gamma[:, study.own]
    values: dict[str, Any] = {
        "batch": study.batches,
        "plain_step_ms": plain * 1e3,
        "speculative_step_ms": cost * plain * 1e3,
        "step_cost": cost,
        "plain_waiting": study.waiting[:, study.own, 0],
        "waiting": study.waiting[:, study.own, min(study.gamma, 1)],
        "walltime_improvement": speedup,
        "recommended_gamma": best,
        "recommended_speedup": study.speedup[np.arange(len(best)), study.own, best],
        "tokens_per_second": study.batches * speedup / tpot_plain,
    }
    inputs = [fixed("tokens_per_step", tokens)]
    if s.usd_per_hour is not None:
        each_hour = s.usd_per_hour / 3600 * 1e6
        gpus = s.tensor_parallel + s.draft_gpus * (study.gamma > 0)
        values |= {
            "usd_per_million_tokens_plain": s.tensor_parallel
            * each_hour
            * tpot_plain
            / study.batches,
            "usd_per_million_tokens": gpus * each_hour * tpot_plain / speedup / study.batches,
        }
        inputs += money_cells(prediction, ("tensor_parallel", "draft_gpus", "usd_per_hour"))
    values["fits_memory"] = np.where(study.fits[:, study.own], "yes", "no")
    chart = Chart("batch", ("walltime_improvement",), "× plain decoding")
    columns = columns_of(values, _LIVE_BATCH)
    inputs_used = reachable(columns, inputs)
    return Table("Speculation over batch", "batch", columns, inputs_used, chart)


# ── drafters ──────────────────────────────────────────────────────────────────────────────────


_DRAFTERS = {
    "draft": "label", "c": "pair.c", "coverage": "pair.share", "gamma": "gamma",
    "step_cost": "step_cost", "breakeven_alpha": "breakeven_alpha", "least_alpha": "least_alpha",
    "least_alpha_gamma": "least_alpha_gamma",
}  # fmt: skip
"""The columns, and where a row holds each."""

_OF_A_DRAFTER = {
    "breakeven_alpha": "Least i.i.d. α that is no slower at this γ",
    "alpha": "Yours as given; of every other the middle of what others measured of its kind at "
    "this work; empty: nobody did",
    "alpha_low": "Low end of that",
    "alpha_high": "High end of that",
    "best_gamma": "The γ recommended: smallest within 2% of the best that pays",
    "best_speedup": "There, at its own acceptance; empty where nobody measured one",
}


def drafters_table(prediction: Prediction) -> Table:
    """One row a drafter at the scenario's γ, batch and context; computed, not live."""
    rows = drafter_rows(prediction.endpoint)
    values: dict[str, Any] = {
        name: [attrgetter(of)(row) for row in rows] for name, of in _DRAFTERS.items()
    }
    low, middle, high = zip(
        *(row.alphas if row.known else (None,) * 3 for row in rows), strict=True
    )
    least, most = zip(*(row.ends if row.known else (None,) * 2 for row in rows), strict=True)
    values |= {
        "alpha": list(middle),
        "alpha_low": list(low),
        "alpha_high": list(high),
        "best_gamma": [row.recommended_gamma if row.known else None for row in rows],
        "best_speedup": [row.speedup if row.known else None for row in rows],
        "best_speedup_low": list(least),
        "best_speedup_high": list(most),
        "evidence": list(map(evidence_words, rows)),
    }
    columns = columns_of(values, {}, _OF_A_DRAFTER)
    return Table("Drafters on this hardware, and the α each needs", "drafters", columns)


# ── candidate drafts ──────────────────────────────────────────────────────────────────────────────


LONGEST_SUM = 200
"""Terms of τ that fit one cell, with room for long references."""

_CANDIDATES = {
    "draft": "candidate.draft", "alpha": "candidate.alpha", "c": "candidate.c",
    "gamma": "candidate.gamma", "tokens_per_step": "predicted",
    "walltime_improvement": "predicted", "measured_speedup": "candidate.measured_speedup",
    "miss_percent": "miss", "implied_c": "implied_c", "best_gamma": "best_gamma",
    "best_speedup": "best_speedup",
}  # fmt: skip
"""The columns, and what of an outcome makes each."""

_LIVE = {
    "walltime_improvement": "{tokens_per_step}/({gamma}*{c}+1)",
    "miss_percent": "100*({walltime_improvement}/{measured_speedup}-1)",
    "implied_c": "({tokens_per_step}/{measured_speedup}-1)/{gamma}",
}


def drafts_table(outcomes: Sequence[Outcome], cost_words: str = "") -> Table:
    """One row a draft; live in α, c and γ up to the largest γ of the table.

    The speedup at the γ given is Theorem 3.8; `cost_words` tells the step cost at which the best γ
    was searched where that is another.

    τ is written as the sum 1 + Σ α^i (γ ≥ i): at α=0 no term is 0⁰, and γ may be changed too.
    A table with a γ above 200 gives τ as values only: a cell holds 8,192 characters of formula.
    """
    values: dict[str, Any] = {
        name: [attrgetter(of)(outcome) for outcome in outcomes] for name, of in _CANDIDATES.items()
    }
    values["tokens_per_step"] = [
        o.predicted * (1 + o.candidate.gamma * o.candidate.c) for o in outcomes
    ]
    values["miss_percent"] = [None if o.miss is None else 100 * o.miss for o in outcomes]
    # To 16 at least, so that γ can be raised in the file.
    most = max(16, *values["gamma"])
    terms = "".join(f"+{{alpha}}^{i}*({{gamma}}>={i})" for i in range(1, most + 1))
    live = _LIVE if most > LONGEST_SUM else _LIVE | {"tokens_per_step": f"1{terms}"}
    where = f"At your verification cost: {cost_words}" if cost_words else "Memory-bound"
    definitions = {
        "walltime_improvement": "Theorem 3.8 at this γ: memory-bound",
        "best_gamma": f"Fastest γ up to the largest considered. {where}; not live",
        "best_speedup": f"tokens_per_step / step_cost at the best γ. {where}; not live",
    }
    columns = tuple(
        replace(c, editable=c.name in ("alpha", "c", "gamma", "measured_speedup"))
        for c in columns_of(values, live, definitions)
    )
    return Table("Candidate drafts: predicted beside measured", "drafts", columns)
