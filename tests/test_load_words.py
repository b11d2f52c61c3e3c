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
    """A study whose speedup at γ=4 and own context is the list, one a batch 1, 2, … 512, all of
    which fit."""
    base = study(gpu="B200 SXM")
    assert base.fits[:, base.own].all()
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
    best = found.recommended_gamma[:, found.own]
    # Memory holds 333, so batch 512 says nothing.
    assert f"The recommended γ goes from {best[0]} to {best[-2]}." in said
    assert " at batch 333: " in said
    assert "512" not in said
    assert "Memory holds batches up to 333 with the draft." in said
    assert "Memory" not in load_sentence(study(gpu="B200 SXM"))


def test_the_roof_is_where_the_bars_cross() -> None:
    found = study()
    parts = {name: each[:-1] for name, each in found.speculative_operators.items()}
    said = roof_sentence(found)
    first = found.batches[np.flatnonzero(parts["arithmetic"] > parts["weights"])[0]]
    cached = found.batches[np.flatnonzero(parts["kv"] > parts["weights"])[0]]
    assert f"from batch {first:,}." in said
    assert f"The KV cache does from batch {cached}." in said
    largest = max(parts, key=lambda name: parts[name][-1])
    assert said.endswith(f"At batch 333 the largest part is {PARTS[largest]}.")
    assert PARTS.keys() == parts.keys()
    # With one drafted token and hardly any context, the same rule.
    one = study(gamma=1, context_tokens=64)
    over = one.speculative_operators["arithmetic"] > one.speculative_operators["weights"]
    assert one.fits[:, one.own].all()
    assert ("at every batch that fits" in roof_sentence(one)) == (not over.any())


def test_long_context_helps_where_the_draft_keeps_little_cache() -> None:
    """MagicDec's reversal for an EAGLE head; against it a draft whose cache is as large as the
    mixture's own."""
    helped = context_sentence(study(draft="eagle"))
    assert "long contexts stay bound by memory" in helped
    hurt = context_sentence(study(model="Qwen3-30B-A3B", draft="Qwen3-0.6B", alpha=0.7))
    assert "long contexts cost it more" in hurt
    # The largest batch of the study of which 32k fit on the H100 beside the weights.
    for batch, said in ((8, helped), (2, hurt)):
        told = rf"At batch {batch}, context 1,024 tokens: .*×; 32,768 tokens: .*×\."
        assert re.match(told, said), said


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
    usd = found.usd_per_million(s, found.recommended_gamma[:, found.own])
    said = cheapest_sentence(found, usd)
    rows = [i for i, b in enumerate(found.batches) if b <= 333]
    cheap = min(rows, key=lambda i: usd[i])
    assert f"Cheapest that fits: batch {found.batches[cheap]} with" in said
    assert found.batches[cheap] == 333, "512 would be cheaper, and does not fit"
    assert usd[-1] < usd[cheap]
    assert "Fastest: batch 1 with" in said


def test_load_is_judged_within_the_memory() -> None:
    """70B on 4 H100 at 4k: memory holds 117 sequences, so batch 128 to 512 is no evidence."""
    found = study(
        model="Llama-3.1-70B", draft="eagle3", tensor_parallel=4, context_tokens=4096, batch=16
    )
    assert found.tax
    limit = found.tax.speculative_batch
    assert 64 < limit < 128
    said = load_sentence(found)
    assert "load does not kill it" in said
    assert f"at batch {limit}: " in said
    assert f"Memory holds batches up to {limit} with the draft." in said
    assert found.schedule.ranges[-1].high == limit
    for text in (said, context_sentence(found), roof_sentence(found)):
        assert not {"128", "256", "512"} & set(re.findall(r"batch (\d+)", text)), text


def test_the_end_of_the_memory_is_part_of_the_judgement() -> None:
    """70B with a 1B at 8k, α=0.5: γ=4 pays at batch 32 and no longer at the 40 that fit."""
    found = study(
        alpha=0.5, model="Llama-3.1-70B", tensor_parallel=4, context_tokens=8192, batch=16
    )
    assert found.tax
    assert found.tax.speculative_batch == 40
    row = found.batches.tolist().index(40)
    assert found.at_gamma[row - 1, found.own] > 1 > found.at_gamma[row, found.own]
    assert "pays up to batch 32:" in load_sentence(found)


def test_where_the_gamma_in_use_never_pays_the_one_that_does_is_named() -> None:
    found = study(alpha=0.45, context_tokens=8192, gamma=8)
    speeds = found.speedup[: found.held, found.own]
    assert speeds[:, 8].max() <= 1
    row = int(np.argmax(speeds.max(axis=1)))
    said = load_sentence(found)
    gamma = int(found.recommended_gamma[row, found.own])
    assert gamma >= 1
    assert f"γ=8 does not pay at any batch. γ={gamma} does: " in said
    assert f"{speeds[row, gamma]:.2f}× faster at batch {found.batches[row]}." in said
    nothing = load_sentence(with_speedups(10 * [0.9]))
    assert nothing.endswith("does not pay at any batch. No other γ does.")
