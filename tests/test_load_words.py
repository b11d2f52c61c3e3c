"""The sentences over batch say what the numbers say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specmath.scenario import Scenario
from specmath.scenario.convert import EXAMPLE_PAIR
from specmath.serving.study import LoadStudy, load_study
from specmath.serving.words import (
    PARTS,
    cheapest_sentence,
    context_sentence,
    load_sentence,
    memory_sentence,
    roof_sentence,
)


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, **changes})


def study(**changes: Any) -> LoadStudy:
    return load_study(scenario(**changes))


def with_speedups(values: list[float]) -> LoadStudy:
    """A study whose speedup at γ=4 and own context is the list, one a batch 1, 2, … 512."""
    base = study()
    speedup = np.full_like(base.speedup, 0.5)
    speedup[..., 0] = 1.0
    speedup[:, base.own, 4] = values
    return replace(base, speedup=speedup)


@pytest.mark.parametrize(
    ("speeds", "says"),
    [
        (10 * [1.5], ["load does not kill it", "from 1.50× faster at batch 1 to 1.50×"]),
        ([2, 2, 1.5, 1.2] + 6 * [0.8], ["pays up to batch 8:", "2.00×", "20% slower at batch 512"]),
        (10 * [0.9], ["does not pay at any batch"]),
        (10 * [1.0], ["does not pay at any batch"]),
        ([0.9, 0.9] + 8 * [1.2], ["pays at batch 4 to 512 only", "from 10% slower at batch 1"]),
        (
            [1.1, 0.9, 0.9, 1.3, 1.4, 1.2] + 4 * [0.7],
            ["pays at batch 1 and 8 to 32 only", "to 1.40× faster at batch 16 to 30% slower"],
        ),
    ],
)
def test_where_it_pays(speeds: list[float], says: list[str]) -> None:
    said = load_sentence(with_speedups(speeds))
    assert all(words in said for words in says), said
    assert said.startswith("At context 1,024, γ=4 ")


def test_plain_decoding_has_no_cliff() -> None:
    assert load_sentence(study(gamma=0)).startswith("γ=0 is plain decoding")


def test_the_cliff_names_best_gamma_and_memory() -> None:
    found = study()
    said = load_sentence(found)
    best = found.best_gamma[:, found.own]
    assert f"The best γ goes from {best[0]} to {best[-1]}." in said
    assert "Memory holds batches up to 333 with the draft." in said
    assert "Memory" not in load_sentence(study(gpu="B200 SXM"))


def test_the_roof_is_where_the_bars_cross() -> None:
    found = study()
    parts = found.speculative_operators
    said = roof_sentence(found)
    first = found.batches[np.flatnonzero(parts["arithmetic"] > parts["weights"])[0]]
    cached = found.batches[np.flatnonzero(parts["kv"] > parts["weights"])[0]]
    assert f"from batch {first:,}." in said
    assert f"The KV cache does from batch {cached}." in said
    largest = max(parts, key=lambda name: parts[name][-1])
    assert said.endswith(f"At batch 512 the largest part is {PARTS[largest]}.")
    assert PARTS.keys() == parts.keys()
    # With one drafted token and hardly any context, the same rule.
    one = study(gamma=1, context_tokens=64)
    over = one.speculative_operators["arithmetic"] > one.speculative_operators["weights"]
    assert ("at every batch shown" in roof_sentence(one)) == (not over.any())


def test_long_context_helps_where_the_draft_keeps_little_cache() -> None:
    """MagicDec's reversal for an EAGLE head; against it a draft whose cache is as large as the
    mixture's own."""
    helped = context_sentence(study(draft="eagle"))
    assert "long contexts stay bound by memory" in helped
    hurt = context_sentence(study(model="Qwen3-30B-A3B", draft="Qwen3-0.6B", alpha=0.7))
    assert "long contexts cost it more" in hurt
    for said in (helped, hurt):
        assert re.match(r"At batch 512, context 1,024 tokens: .*×; 32,768 tokens: .*×\.", said)


def test_memory_in_numbers() -> None:
    found = study()
    tax = found.tax
    assert tax
    said = memory_sentence(found)
    assert f"a batch of {tax.plain_batch:,}, speculation {tax.speculative_batch:,}" in said
    assert f"costs {tax.sequences} sequences" in said
    assert "more tokens a second" in said
    assert tax.throughput_ratio > 1
    moe = study(model="Qwen3-30B-A3B", draft="Qwen3-0.6B", alpha=0.7)
    assert moe.tax
    assert moe.tax.throughput_ratio < 1
    assert "fewer tokens a second" in memory_sentence(moe)


def test_cheapest_and_fastest_within_memory() -> None:
    """By brute force over the batches that fit."""
    s = scenario()
    found = load_study(s)
    usd = found.usd_per_million(s, found.best_gamma[:, found.own])
    said = cheapest_sentence(found, usd)
    rows = [i for i, b in enumerate(found.batches) if b <= 333]
    cheap = min(rows, key=lambda i: usd[i])
    assert f"Cheapest that fits: batch {found.batches[cheap]} with" in said
    assert found.batches[cheap] == 256, "512 would be cheaper, and does not fit"
    assert usd[-1] < usd[cheap]
    assert "Fastest: batch 1 with" in said
