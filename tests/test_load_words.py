"""The sentences over batch say what the numbers say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specmath.load import LoadStudy, load_study
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.serving.memory import DraftTax
from specmath.words.load import (
    PARTS,
    cheapest_sentence,
    context_sentence,
    held_sentence,
    load_sentence,
    memory_sentence,
    roof_sentence,
)


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, **changes})


def study(**changes: Any) -> LoadStudy:
    """Decode-only: what a step does, without other requests' prompts."""
    return load_study(resolve(scenario(decode_only="yes", **changes)))


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
    assert re.search(r" at batch 333[.:] ", said)
    assert "512" not in said
    assert "Memory holds batches up to 333 with the draft." in said
    assert "Memory" not in load_sentence(study(gpu="B200 SXM"))


def with_operators(base: LoadStudy, **microseconds: float) -> LoadStudy:
    """The study with operators of a speculative step by hand: weights take 4 ms and host work 1 ms
    at every batch, the others that many µs a sequence."""
    operators = {name: np.zeros(len(base.batches)) for name in PARTS}
    operators["weights"] += 4e-3
    operators["host"] += 1e-3
    for name, each in microseconds.items():
        operators[name] = each * 1e-6 * base.batches
    return replace(base, speculative_operators=operators)


@pytest.mark.parametrize(
    ("gpu", "microseconds", "says"),
    [
        # 64 × 50 = 3.2 ms and 128 × 50 = 6.4; the cache 2.56 ms at 256 and 5.12 at 512.
        ("B200 SXM", {"arithmetic": 50, "kv": 10},
         "What arithmetic adds outweighs the reading of weights from batch 128. The KV cache does "
         "from batch 512. At batch 512 the largest part is arithmetic."),
        # 4 ms at 512 equals the weights, and equal is not more; drafting is 10.24 ms there.
        ("B200 SXM", {"arithmetic": 7.8125, "drafting": 20},
         "Reading weights outweighs what arithmetic adds at every batch that fits. At batch 512 "
         "the largest part is drafting."),
        # 4.1 ms at 512, which the memory of this one does not hold; 2.66 ms at the 333 it does.
        ("H100 SXM", {"arithmetic": 8},
         "Reading weights outweighs what arithmetic adds at every batch that fits. At batch 333 "
         "the largest part is reading weights."),
    ],
)  # fmt: skip
def test_the_roof_is_where_the_bars_cross(
    gpu: str, microseconds: dict[str, float], says: str
) -> None:
    assert roof_sentence(with_operators(study(gpu=gpu), **microseconds)) == says


def test_every_operator_of_a_study_has_a_name_in_words() -> None:
    assert PARTS.keys() == study().speculative_operators.keys()


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
    """106 of 439 sequences no longer fit; 16,000 ÷ 12,800 is 25% more, 9,600 ÷ 12,800 25% fewer."""
    base = study()
    for speculative, says in ((16_000, "25% more"), (9_600, "25% fewer")):
        said = memory_sentence(replace(base, tax=DraftTax(439, 333, 12_800, speculative)))
        assert "a batch of 439, speculation 333: the draft costs 106 sequences." in said
        assert f"gives {says} tokens a second ({speculative:,} against 12,800)." in said


def test_what_the_draft_takes_of_the_memory_can_cost_more_than_it_gains() -> None:
    """Without an engine's host, whose cost of each sequence takes the gain at so large a batch."""
    bare, pair = {"engine": "none"}, {"model": "Qwen3-30B-A3B", "draft": "Qwen3-0.6B", "alpha": 0.7}
    dense, mixture = study(**bare).tax, study(**bare, **pair).tax
    assert dense
    assert mixture
    assert dense.throughput_ratio > 1 > mixture.throughput_ratio


def test_cheapest_and_fastest_within_memory() -> None:
    """By brute force over the batches that fit."""
    s = scenario()
    found = load_study(resolve(s))
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
    """70B with a 1B at 8k, α=0.52: γ=4 pays at batch 32 and no longer at the 40 that fit."""
    found = study(
        alpha=0.52, model="Llama-3.1-70B", tensor_parallel=4, context_tokens=8192, batch=16
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


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"batch": 32}, "Prompts may be from nothing to all of the context: half of it is drawn."),
        ({"batch": 32, "prompt_tokens": 896}, "Prompts are 88% of each context, as yours."),
        ({"concurrency": 32, "decode_only": "yes"}, "Prompts are read by other workers."),
    ],
)
def test_which_prompts_a_held_batch_reads(load: dict[str, Any], words: str) -> None:
    told = held_sentence(predict(scenario(**load)))
    assert words in told
    assert ("Your loop holds" in told) == ("concurrency" in load)


def test_how_many_a_closed_loop_holds() -> None:
    """Fewer than are in flight: some have their prompt read."""
    p = predict(scenario(concurrency=32, prompt_tokens=4000, output_tokens=100))
    found = re.search(
        r"holds ([\d.]+) in the mean without speculation and ([\d.]+) with", held_sentence(p)
    )
    assert found
    plain, ours = map(float, found.groups())
    assert 1 < ours < plain < 32
