"""Tables recalculated from their templates alone, with inputs typed over: α = 0 and 1 included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.live_formulas import recalculate
from helpers.random_scenarios import scenarios
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath.drafts import Candidate, evaluate, published_t5
from specmath.predict import Prediction, predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.tables import (
    TABLES,
    alpha_gamma_table,
    crossover_table,
    draft_cost_table,
    drafts_table,
    gamma_table,
    regime_costs,
    regime_table,
)
from specmath.tables.files import to_csv, to_xlsx
from specmath.tables.table import Table

GAMMAS = np.arange(17)
NAMES = ("gamma", "regimes", "alpha_gamma", "crossover", "draft_cost")


def of(**said: Any) -> Prediction:
    return predict(Scenario(**said))


def tokens(alpha: float, gamma: int) -> float:
    """Eq. 1 as a plain sum; 0⁰ = 1 in Python."""
    return float(sum(alpha**i for i in range(gamma + 1)))


def same_as_printed(table: Table) -> None:
    """Every formula, recalculated with nothing typed over, gives the value beside it."""
    for name, values in recalculate(table).items():
        printed = table.column(name).values
        for row, (new, old) in enumerate(zip(values, printed, strict=True)):
            if isinstance(old, str) or old is None:
                assert new == old
            else:
                assert new == pytest.approx(old, rel=1e-9, abs=1e-12), (name, row)


@given(scenarios(gamma=st.integers(0, 20), low_sigma=0))
@settings(max_examples=30)
def test_every_formula_gives_its_value(scenario: Scenario) -> None:
    p = predict(scenario)
    for make in (gamma_table, regime_table):
        same_as_printed(make(p))


@pytest.mark.parametrize("sigma", [-0.03, 0.0, 0.4, 1.0, 2.0])
@pytest.mark.parametrize("draft", [{"c": 0.1}, {"target_ms": 40, "draft_ms": 4}])
def test_every_formula_gives_its_value_along_the_curve(sigma: float, draft: dict[str, Any]) -> None:
    p = of(alpha=0.8, gamma=4, sigma=sigma, c_hat=0.03, overhead=0.2, draft_gpus=1, **draft)
    for name in NAMES:
        same_as_printed(TABLES[name](p))


@pytest.mark.parametrize("new", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("old", [0.0, 0.8, 1.0])
def test_another_alpha_typed_into_the_file(old: float, new: float) -> None:
    table = gamma_table(of(alpha=old, c=0.1, gamma=4, sigma=0.2, c_hat=0.02, overhead=0.1))
    found = recalculate(table, {"alpha": new})
    for g in GAMMAS:
        step = 1 + 0.2 * g + g * (0.8 * 0.1 + 0.2 * 0.02) + 0.1 * (g > 0)
        assert found["tokens_per_step"][g] == pytest.approx(tokens(new, g), rel=1e-12)
        assert found["walltime_improvement"][g] == pytest.approx(tokens(new, g) / step, rel=1e-12)
        assert found["operations_increase"][g] == pytest.approx(
            (g * 0.02 + g + 1) / tokens(new, g), rel=1e-12
        )


def test_other_times_batch_and_price_typed_into_the_file() -> None:
    typed = {"target_ms": 20, "draft_ms": 1, "batch": 8, "usd_per_hour": 4, "draft_gpus": 1}
    found = recalculate(gamma_table(predict(EXAMPLE)), typed)
    speed = tokens(predict(EXAMPLE).alpha, 4) / (1 + 4 / 20)
    assert found["walltime_improvement"][4] == pytest.approx(speed)
    assert found["tpot_ms"][4] == pytest.approx(20 / speed)
    assert found["usd_per_million_tokens"][4] == pytest.approx(2 * 4 / 3600 * 20e3 / speed / 8)
    assert found["usd_per_million_tokens"][0] == pytest.approx(4 / 3600 * 20e3 / 8)


def test_another_survival_typed_into_the_file() -> None:
    """0.8, 0.4 → 0.8, 0.6: the last conditional rate, 0.75, is carried on."""
    found = recalculate(gamma_table(of(rates=(0.8, 0.4), c=0.1, gamma=2)), {"survival_2": 0.6})
    expected = 1.8
    for g in GAMMAS[2:]:
        expected += 0.6 * 0.75 ** (g - 2)
        assert found["tokens_per_step"][g] == pytest.approx(expected)


@pytest.mark.parametrize("rate", [0.0, 1.0, 0.3])
def test_another_conditional_rate_typed_into_the_file(rate: float) -> None:
    said = {"rates": (0.8, 0.5), "acceptance_form": "conditional"}
    found = recalculate(gamma_table(of(c=0.1, gamma=2, **said)), {"conditional_2": rate})
    expected, survival = 1.8, 0.8
    for g in GAMMAS[2:]:  # the last measured rate is carried on
        survival *= rate
        expected += survival
        assert found["tokens_per_step"][g] == pytest.approx(expected)


def test_another_share_and_alpha_of_a_mixture_typed_into_the_file() -> None:
    table = gamma_table(of(mixture="0.5:0.9,0.5:0.4", c=0.1, gamma=3))
    found = recalculate(table, {"share_1": 3, "share_2": 1, "alpha_2": 0.0})
    # Time per token averages over tokens: 3/4 at τ(0.9), 1/4 at τ(0) = 1.
    expected = 1 / (0.75 / tokens(0.9, 3) + 0.25)
    assert found["tokens_per_step"][3] == pytest.approx(expected)
    assert found["walltime_improvement"][3] == pytest.approx(expected / 1.3)


@pytest.mark.parametrize("new", [0.0, 1.0])
def test_another_alpha_typed_into_the_heat_map(new: float) -> None:
    table = alpha_gamma_table(of(alpha=0.8, c=0.1, gamma=4))
    size = len(GAMMAS)
    found = recalculate(table, cells={("alpha", 5 * size): new})
    for g in GAMMAS:
        row = 5 * size + g
        assert found["alpha"][row] == new
        assert found["walltime_improvement"][row] == pytest.approx(tokens(new, g) / (1 + 0.1 * g))


@pytest.mark.parametrize(("alpha", "gamma"), [(0.0, 7), (1.0, 7), (0.5, 12), (0.9, 1)])
def test_another_alpha_and_gamma_typed_into_the_drafts(alpha: float, gamma: int) -> None:
    table = drafts_table(evaluate(published_t5()))
    found = recalculate(table, cells={("alpha", 0): alpha, ("gamma", 0): gamma})
    predicted = tokens(alpha, gamma) / (1 + gamma * 0.02)
    assert found["walltime_improvement"][0] == pytest.approx(predicted)
    assert found["miss_percent"][0] == pytest.approx(100 * (predicted / 3.4 - 1))
    assert found["implied_c"][0] == pytest.approx((tokens(alpha, gamma) / 3.4 - 1) / gamma)


def test_drafts_with_and_without_a_measurement_and_with_a_huge_gamma() -> None:
    rows = [Candidate("a", 0.8, 0.1, 4, 2.0), Candidate("=b", 0.7, 0.2, 3)]
    table = drafts_table(evaluate(rows))
    same_as_printed(table)
    assert table.column("miss_percent").values[1] is None
    huge = drafts_table(evaluate([*rows, Candidate("c", 0.999, 0.0, 1000)]))
    same_as_printed(huge)
    for column in huge.columns:
        assert all(len(f or "") < 8192 for f in column.formulas), "Excel's longest formula"
    assert to_xlsx(huge)
    assert b"'=b" in to_csv(huge)


# ── the numbers themselves ───────────────────────────────────────────────────────────────────


def test_the_crossover_table_of_the_design() -> None:
    """c = ĉ = 0: α → γ, and what both are just before."""
    table = crossover_table(of(alpha=0.5, c=0.0, gamma=1))
    rows = {
        a: rest
        for a, *rest in zip(
            *(c.values for c in table.columns), strict=True
        )
    }  # fmt: skip
    assert {a: rows[a][0] for a in (0.3, 0.41, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9)} == {
        0.3: 1, 0.41: 1, 0.42: 2, 0.5: 3, 0.6: 5, 0.7: 10, 0.8: 24, 0.9: 99,
    }  # fmt: skip
    for alpha, before in (
        (0.5, (1.75, 1.71)), (0.6, (2.31, 2.17)), (0.7, (3.24, 3.09)), (0.8, (4.98, 4.82)),
    ):  # fmt: skip
        assert rows[alpha][1:] == pytest.approx(before, abs=0.005)


@pytest.mark.parametrize(("alpha", "percent"), [(0.6, 225), (0.75, 122), (0.9, 40)])
def test_each_regime_has_its_own_latency_beside_its_own_cost(alpha: float, percent: int) -> None:
    """γ=7, ĉ=c=0. Compute-bound, both cost and time per token rise by the operations factor."""
    table = regime_table(of(alpha=alpha, c=0.0, gamma=7, target_ms=40))
    memory, own, compute = range(3)
    change, time = table.column("cost_change_percent").values, table.column("tpot_ms").values
    assert change[compute] == pytest.approx(percent, abs=0.5)
    assert time[compute] == pytest.approx(40 * (1 + float(change[compute]) / 100))  # type: ignore[arg-type]
    assert time[memory] == time[own] == pytest.approx(40 / tokens(alpha, 7))
    speed = table.column("walltime_improvement").values
    assert speed[compute] == pytest.approx(tokens(alpha, 7) / 8)


def test_regime_costs_are_the_regime_table_at_each_gamma() -> None:
    said = {"alpha": 0.7, "c": 0.1, "c_hat": 0.01, "sigma": 0.3, "overhead": 0.1, "draft_gpus": 1}
    for gamma in (0, 1, 5):
        p = of(gamma=gamma, **said)
        change = regime_table(p).column("cost_change_percent").values
        for (_, cost), percent in zip(regime_costs(p), change, strict=True):
            assert cost[gamma] == pytest.approx(1 + float(percent) / 100)  # type: ignore[arg-type]


def test_the_gpu_of_the_draft_is_in_the_gamma_table_even_where_gamma_is_0_now() -> None:
    usd = {
        g: gamma_table(of(alpha=0.8, c=0.1, gamma=g, target_ms=40, draft_gpus=1))
        .column("usd_per_million_tokens")
        .values
        for g in (0, 4)
    }
    assert usd[0] == pytest.approx(usd[4])
    assert usd[0][1] == pytest.approx(2 * 2.5 / 3600 * 1e6 * 0.040 / (1.8 / 1.1))


def test_what_the_draft_costs_by_brute_force() -> None:
    table = draft_cost_table(of(alpha=0.8, c=0.1, gamma=4, max_gamma=12))
    for row, c in enumerate(table.column("c").values):
        speeds = [tokens(0.8, g) / (1 + g * float(c)) for g in range(13)]  # type: ignore[arg-type]
        assert table.column("best_speedup").values[row] == pytest.approx(max(speeds))
        best = int(table.column("best_gamma").values[row])  # type: ignore[arg-type]
        assert speeds[best] == pytest.approx(max(speeds))
        assert table.column("speedup_at_gamma").values[row] == pytest.approx(speeds[4])
        least = float(table.column("breakeven_alpha").values[row])  # type: ignore[arg-type]
        assert tokens(least, 4) / (1 + 4 * float(c)) == pytest.approx(1)  # type: ignore[arg-type]


def test_tables_carry_the_interval_of_what_is_unknown() -> None:
    costs = {"draft_form": "range", "c_low": 0.05, "c_high": 0.2, "overhead": 0.1}
    table = gamma_table(of(alpha=0.8, gamma=4, **costs))
    low = table.column("walltime_improvement_low").values
    high = table.column("walltime_improvement_high").values
    for g in GAMMAS:
        h = 0.1 if g else 0.0
        assert low[g] == pytest.approx(tokens(0.8, g) / (1 + 0.2 * g + h))
        assert high[g] == pytest.approx(tokens(0.8, g) / (1 + 0.05 * g + h))
    names = [c.name for c in gamma_table(of(alpha=0.8, gamma=4, c=0.1, overhead=0.1)).columns]
    assert "walltime_improvement_low" not in names, "no error bar yet"


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_explained_and_named_in_ascii(name: str) -> None:
    table = TABLES[name](predict(EXAMPLE))
    for part in (*table.columns, *table.inputs):
        assert part.name.isascii()
        assert part.label
        assert part.definition
