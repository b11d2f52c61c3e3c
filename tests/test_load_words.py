"""The sentences over batch say what the numbers say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specmath.estimate import Estimate
from specmath.frontier import Frontier, frontier
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
    loads_sentence,
    memory_sentence,
    roof_sentence,
)


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, **changes})


def study(**changes: Any) -> LoadStudy:
    """Decode-only: what a step does, without other requests' prompts."""
    return load_study(resolve(scenario(decode_only="yes", **changes)))


BASE = scenario(decode_only="yes", batch=2, gpu="B200 SXM")
OVER, STUDY = frontier(resolve(BASE)), load_study(resolve(BASE))
"""Batches 1, 2, 4 … 512, all of which fit."""


def with_speedups(values: list[float], width: float = 1.0) -> Frontier:
    """The frontier whose speedups are the list, each open by the factor either way."""
    points = tuple(
        replace(point, speedup=Estimate.between(value, value / width, value * width))
        for point, value in zip(OVER.points, values, strict=True)
    )
    return replace(OVER, points=points)


@pytest.mark.parametrize(
    ("speeds", "width", "says"),
    [
        (10 * [1.5], 1.2, ["Load does not kill it: γ=4 is faster at every batch: from 1.50× faster "
                           "(1.25× to 1.80×) at batch 1 to 1.50× faster"]),
        (10 * [1.5], 2.0, ["γ=4 is faster nowhere surely, and in the middle of its range at every "
                           "batch"]),
        ([2, 2, 1.5, 1.2] + 6 * [0.8], 1.3,
         ["γ=4 is faster surely up to batch 4, and in the middle of its range up to batch 8:",
          "2.00×", "20% slower (0.615× to 1.04×) at batch 512"]),
        (10 * [0.9], 1.2, ["γ=4 is no faster in the middle of its range at any batch"]),
        (10 * [1.0], 1.0, ["no faster in the middle of its range at any batch"]),
        ([0.9, 0.9] + 8 * [1.2], 1.0,
         ["surely at batch 4 to 512 only", "from 10% slower (0.900× to 0.900×) at batch 1"]),
        ([1.1, 0.9, 0.9, 1.3, 1.4, 1.2] + 4 * [0.7], 1.0,
         ["at batch 1 and 8 to 32 only", "to 1.40× faster", "at batch 16 to 30% slower"]),
    ],
)  # fmt: skip
def test_where_it_pays(speeds: list[float], width: float, says: list[str]) -> None:
    said = load_sentence(with_speedups(speeds, width), STUDY)
    assert all(words in said for words in says), said


def test_plain_decoding_has_no_cliff() -> None:
    endpoint = resolve(scenario(decode_only="yes", gamma=0))
    assert load_sentence(frontier(endpoint), load_study(endpoint)).startswith("γ=0 is plain")


def test_the_cliff_names_best_gamma_and_memory() -> None:
    endpoint = resolve(scenario(decode_only="yes"))
    found = load_study(endpoint)
    said = load_sentence(frontier(endpoint), found)
    best = found.recommended_gamma[:, found.own]
    # Memory holds 333, so batch 512 says nothing.
    assert f"The recommended γ goes from {best[0]} to {best[-2]}." in said
    assert re.search(r" at batch 333[.:]", said)
    assert "512" not in said
    assert "Memory holds batches up to 333 with the draft." in said
    assert "Memory" not in load_sentence(OVER, STUDY)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"concurrency": 8}, "concurrency"),
        ({"request_rate": 2.0, "prompt_tokens": 512}, "requests/s"),
    ],
)
def test_the_load_is_called_what_the_scenario_calls_it(load: dict[str, Any], words: str) -> None:
    endpoint = resolve(scenario(**load))
    assert f"at {words} " in load_sentence(frontier(endpoint), load_study(endpoint))


def test_what_was_measured_says_where_it_holds() -> None:
    assert "scaled" not in loads_sentence(OVER)
    assert "scaled" in loads_sentence(replace(OVER, measured=(True, False)))


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
    """By brute force over the batches that fit, in both arms."""
    s = scenario(batch=8)
    found = frontier(resolve(s))
    price = s.usd_per_hour or 0
    said = cheapest_sentence(found, price)
    fits = [p for p in found.points if p.load <= 333]
    assert len(fits) == len(found.points) - 1
    cheap = min((p.usd(price)[arm].value, p.load, arm) for p in fits for arm in (0, 1))
    how = f"with γ={s.gamma}" if cheap[2] else "without speculation"
    assert f"Cheapest: batch {cheap[1]:g} {how}, " in said
    assert cheap[1] == 333, "512 would be cheaper, and does not fit"
    assert "Fastest: batch 1 with γ=4, " in said


def test_load_is_judged_within_the_memory() -> None:
    """70B on 4 H100 at 4k: memory holds 117 sequences, so batch 128 to 512 is no evidence."""
    endpoint = resolve(
        scenario(
            decode_only="yes", model="Llama-3.1-70B", draft="eagle3", tensor_parallel=4,
            context_tokens=4096, batch=16,
        )
    )  # fmt: skip
    found = load_study(endpoint)
    assert found.tax
    limit = found.tax.speculative_batch
    assert 64 < limit < 128
    said = load_sentence(frontier(endpoint), found)
    assert f"at batch {limit}." in said
    assert f"Memory holds batches up to {limit} with the draft." in said
    assert found.schedule.ranges[-1].high == limit
    assert found.choice.batches[-1] == limit
    for text in (said, context_sentence(found), roof_sentence(found)):
        assert not {"128", "256", "512"} & set(re.findall(r"batch (\d+)", text)), text


def test_the_end_of_the_memory_is_part_of_the_judgement() -> None:
    """70B with a 1B at 8k, α=0.52: γ=4 pays at batch 32 and no longer at the 40 that fit."""
    endpoint = resolve(
        scenario(
            decode_only="yes", alpha=0.52, model="Llama-3.1-70B", tensor_parallel=4,
            context_tokens=8192, batch=16,
        )
    )  # fmt: skip
    found = load_study(endpoint)
    assert found.tax
    assert found.tax.speculative_batch == 40
    row = found.batches.tolist().index(40)
    assert found.at_gamma[row - 1, found.own] > 1 > found.at_gamma[row, found.own]
    assert "in the middle of its range up to batch 32:" in load_sentence(frontier(endpoint), found)


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
