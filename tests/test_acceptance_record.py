"""The record of acceptance: its table as made by hand, its bands, its regularities."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from specmath.acceptance import IidAcceptance
from specmath.acceptance_record import (
    COLUMNS,
    GAMMAS,
    KINDS,
    WORKS,
    Band,
    apart,
    band,
    bands,
    beyond,
    chains,
    fall_of,
    offered,
    pairs,
    rows,
)
from specmath.acceptance_record import _bare as named
from specmath.acceptance_record import _of as of_pairs
from specmath.checks import InputError
from specmath.theorems import alpha_from_tokens_per_step

TABLE = Path(__file__).parent / "data" / "acceptance_table.csv"
"""Kind × work as read off the record when it was collected (2026-11-29): rows, sources, pairs, and
α as median, 10-90% and min-max, printed to 0.01."""


MIXED = {("ngram", "copy"), ("suffix", "chat")}
"""Cells whose table weighs a look-up's steps without a match as well: no band does."""


def cells() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("cell", cells(), ids=lambda c: f"{c['kind']} {c['work']}")
def test_each_cell_of_the_table(cell: dict[str, str]) -> None:
    kind, work = cell["kind"], cell["work"]
    own = [r for r in rows() if r.for_ranges and (r.drafter_kind, r.work) == (kind, work)]
    assert len(own) == int(cell["rows"])
    assert len({r.reporter for r in own}) == int(cell["sources"])
    alphas = [p.alpha for p in pairs() if (p.kind, p.work) == (kind, work)]
    assert len(alphas) == int(cell["pairs"])
    if alphas:
        found = [np.median(alphas), *np.quantile(alphas, [0.1, 0.9]), min(alphas), max(alphas)]
        said = [float(cell[name]) for name in ("median", "low", "high", "least", "largest")]
        assert found == pytest.approx(said, abs=0.0051)
    mixed = any(p.all_steps for p in pairs() if (p.kind, p.work) == (kind, work))
    assert mixed == ((kind, work) in MIXED)
    if kind in KINDS and alphas and not mixed:
        found_band = band(kind, work)
        assert found_band is not None
        assert found_band.inner == pytest.approx((said[1], said[2]), abs=0.0051)
        assert found_band.outer == pytest.approx((said[3], said[4]), abs=0.0051)


def test_the_file_is_the_record() -> None:
    file = resources.files("specmath").joinpath("data/acceptance.csv").read_text("utf-8")
    assert tuple(file.splitlines()[0].split(",")) == COLUMNS
    assert len(rows()) == 1365
    assert sum(not r.for_ranges for r in rows()) == 72
    assert len({r.id for r in rows()}) == 1365
    assert all(r.source for r in rows())
    assert {r.work for r in rows()} == set(WORKS)
    assert {*KINDS} < {r.drafter_kind for r in rows()}


def test_every_row_is_possible() -> None:
    for r in rows():
        assert r.alpha is None or 0 <= r.alpha <= 1, r.id
        if r.tokens_per_step is not None and r.gamma is not None:
            assert 1 <= r.tokens_per_step <= r.gamma + 1, r.id


def test_an_alpha_that_is_an_inversion_inverts() -> None:
    """τ of independent tokens at the row's α and γ is the row's own τ."""
    derived = [r for r in rows() if r.chain and "alpha=iid inversion" in r.definition_note]
    assert len(derived) > 700
    for r in derived:
        again = float(IidAcceptance(r.alpha or 0.0).tokens_per_step(r.gamma or 0))
        assert again == pytest.approx(r.tokens_per_step, abs=0.02), r.id


def test_no_alpha_of_a_tree_a_gated_draft_or_a_broken_run_counts() -> None:
    assert not [r.id for r in rows() if r.chain and r.tree != "no"]
    gated = [r for r in rows() if "varlen" in r.definition_note and r.chain and r.for_ranges]
    assert gated == []
    counted = {(p.drafter, p.target, p.source) for p in pairs()}
    aside = [r for r in rows() if not r.for_ranges and r.chain]
    assert len(aside) > 20
    # The patched long-context head reads α 0.08 at 8K: its rows are set aside, all of them.
    long = [r for r in aside if "long ctx" in r.drafter]
    assert long
    assert not {(r.drafter, r.target, r.reported) for r in long} & counted


# ── bands ────────────────────────────────────────────────────────────────────────────────────


def test_a_pair_weighs_once_however_often_it_was_measured() -> None:
    """draft_model × math has one pair: its mean over γ, by hand."""
    found = [r.alpha for r in rows() if r.chain and r.for_ranges
             and (r.drafter_kind, r.work) == ("draft_model", "math")]  # fmt: skip
    (pair,) = [p for p in pairs() if (p.kind, p.work) == ("draft_model", "math")]
    assert len(found) > 1
    assert pair.alpha == pytest.approx(sum(a or 0.0 for a in found) / len(found))


@pytest.mark.parametrize("b", bands(), ids=lambda b: f"{b.kind} {b.work}")
def test_a_band_is_wide_and_says_what_it_is_of(b: Band) -> None:
    assert 0 <= b.low < b.high <= 1
    assert b.low <= b.median <= b.high
    assert b.high - b.low > 0.02
    assert b.pairs >= 1
    assert b.rows >= b.pairs
    few = len(b.sources) <= 2
    if b.basis == "10-90%":
        assert not few
        assert (b.low, b.high) == b.inner
    else:
        assert few or b.pairs <= 2
        assert b.low <= b.outer[0]
        assert b.outer[1] <= b.high


@pytest.mark.parametrize(
    ("kind", "work"),
    [("layer_skip", "code"), ("suffix", "agentic"), ("eagle3", "json"), ("medusa", None)],
)
def test_not_known_where_nothing_was_measured(kind: str, work: str | None) -> None:
    assert band(kind, work) is None


def test_a_single_pair_is_no_point() -> None:
    """One measurement of MTP on JSON: another pair lies up to `apart` from it in 80% of cases."""
    found = band("mtp", "json")
    assert found is not None
    assert (found.pairs, found.basis) == (1, "widened")
    assert found.low == pytest.approx(found.median - apart())
    assert found.high == max(p.alpha for p in offered())


def test_how_far_apart_two_pairs_are() -> None:
    """80% of the couples, each cell by its pairs: counted one by one."""
    cells: dict[tuple[str, str], list[float]] = {}
    for p in offered():
        cells.setdefault((p.kind, p.work), []).append(p.alpha)
    within = total = 0.0
    for alphas in cells.values():
        n = len(alphas)
        for i in range(n):
            others = [abs(alphas[i] - alphas[j]) for j in range(n) if j != i]
            if others:
                total += 1
                within += sum(d <= apart() for d in others) / len(others)
    assert within / total == pytest.approx(0.8, abs=0.01)


def test_ones_own_pair_narrows_the_band() -> None:
    """A draft model by its name with its target; an MTP module by its target."""
    draft = band("draft_model", "code", drafter="Llama-3.2-1B-Instruct", target="Llama-3.1-8B")
    assert draft is not None
    assert {(p.drafter, p.target) for p in draft.found} == {("Llama-3.2-1B", "Llama-3.1-8B")}
    assert (draft.basis, draft.target) == ("widened", "Llama-3.1-8B")
    module = band("mtp", "code", target="Qwen/Qwen3.6-27B-FP8")
    assert module is not None
    assert {p.target for p in module.found} == {
        "Qwen3.6-27B", "Qwen3.6-27B Q8_0", "Qwen3.6-27B-AutoRound",
    }  # fmt: skip
    assert module.low == pytest.approx(module.outer[0] - beyond())
    # Another draft for that target, or another head: the band of its kind.
    for kind, drafter in (("draft_model", "Qwen3-0.6B"), ("eagle3", None), ("block", None)):
        assert band(kind, "code", drafter=drafter, target="Llama-3.1-8B") == band(kind, "code")


def held(own: bool) -> tuple[float, int]:
    """How often a band made without a source holds that source's pairs, and of how many."""
    found = []
    for p in offered():
        name = p.drafter if p.kind == "draft_model" else None
        others = [q for q in offered() if (q.kind, q.work) == (p.kind, p.work)
                  and q.reporter != p.reporter]  # fmt: skip
        if own:
            same = (named(p.target), name and named(name))
            others = [q for q in others if (named(q.target), name and named(q.drafter)) == same]
        if not others or p.kind not in KINDS or (own and p.kind not in ("mtp", "draft_model")):
            continue
        b = of_pairs(p.kind, p.work, tuple(others), "", p.target if own else "")
        found.append(b.low <= p.alpha <= b.high)
    return float(np.mean(found)), len(found)


def test_how_often_a_band_holds_what_another_source_found() -> None:
    """Stated as 10-90% of the pairs that are there, it is no 80% of those to come: said in
    docs/acceptance.md. One's own pair is widened until it is."""
    share, of = held(own=False)
    assert of > 300
    assert share == pytest.approx(0.69, abs=0.03)
    share, of = held(own=True)
    assert of >= 28
    assert 0.75 < share < 0.95


def test_a_look_up_is_of_the_steps_that_had_a_draft() -> None:
    """Blazedit, γ=5: 4.59 tokens a matched step are α 0.89, 2.96 over all steps would be 0.70; what
    finds no match is coverage, a field of its own. Suffix decoding on MT-Bench: 1.62, not 1.08."""
    for kind, work, tokens, gamma in (("ngram", "copy", 4.59, 5), ("suffix", "chat", 1.62, 1)):
        found = band(kind, work)
        assert found is not None
        assert found.pairs == 1
        assert IidAcceptance(found.median).tokens_per_step(gamma) == pytest.approx(tokens, abs=0.01)


def test_every_kind_pooled_holds_every_kind() -> None:
    all_kinds, one = band(None, "code"), band("ngram", "code")
    assert all_kinds is not None
    assert one is not None
    assert {*one.found} < {*all_kinds.found}
    assert all_kinds.kind == ""


def test_unknown_work_is_refused() -> None:
    with pytest.raises(InputError, match="poetry"):
        band("eagle3", "poetry")


# ── the fall with position ───────────────────────────────────────────────────────────────────


def test_alpha_at_three_overstates_seven_until_it_falls() -> None:
    """EAGLE-3, γ = 3 → 7: α falls by 0.020, τ from α(3) is 5.6% high; past the fall it is not."""
    each = [c for c in chains() if (c.kind, c.short, c.long) == ("eagle3", 3, 7)]
    assert len(each) > 80
    fall = fall_of("eagle3")
    assert fall is not None
    before = np.median([c.expected(0.0) / c.tokens - 1 for c in each])
    after = np.median([c.expected(fall.value) / c.tokens - 1 for c in each])
    assert before == pytest.approx(0.056, abs=0.006)
    assert abs(after) < 0.005
    lost = [float(alpha_from_tokens_per_step(c.tokens, 7)) - c.alpha for c in each]
    assert np.median(lost) == pytest.approx(-0.020, abs=0.003)


def test_an_ordinary_draft_model_does_not_fall() -> None:
    fall = fall_of("draft_model")
    assert fall is not None
    assert fall.value < 0.005
    assert fall_of("medusa") is None


def test_gammas_are_those_of_the_table() -> None:
    assert (GAMMAS[0], GAMMAS[-1]) == (1, 8)
