"""What a prompt adds to the steps that it shares: arithmetic by hand, sums of chunks, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specmath import models
from specmath.checks import InputError
from specmath.steptime import Placement, prefill
from specmath.steptime.coefficients import Coefficients, definitions
from specmath.steptime.prefill import LEAST_CHUNK, prefill_seconds

LLAMA = models.find("Llama-3.1-8B")
PLACE = Placement(LLAMA, "h100")
H100_BANDWIDTH, H100_PEAK = 3.35e12, 989.4e12


def ideal() -> Coefficients:
    """A GPU that loses nothing: every efficiency 1, every fixed cost 0, full overlap."""
    perfect = {
        name: 1.0 if name.endswith("efficiency") else entry.low
        for name, entry in definitions().items()
    }
    return Coefficients(**perfect | {"overlap": 20.0, "cache_speedup": 1.0, "expert_spread": 1.0})


IDEAL = Placement(LLAMA, "h100", coefficients={"bf16": ideal(), "fp8": ideal()})


def seconds(tokens: int, batch: int = 0, place: Placement = PLACE, **more: int) -> float:
    return float(prefill_seconds(place, tokens, batch, **more))


def test_a_long_prompt_on_an_ideal_gpu_is_its_arithmetic() -> None:
    """2 FLOPs a weight a token, less the output head, and 4 heads·width a token before it, of
    which there are half the prompt in the mean."""
    tokens = 8000
    per_layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    products = 2 * 32 * per_layer * tokens
    attention = 32 * 4 * 32 * 128 * tokens * (tokens / 2)
    small = 2 * tokens * 32 * (8 * 4096 + 3 * 14336)
    by_hand = (products + attention) / H100_PEAK + small / H100_BANDWIDTH
    assert seconds(tokens, place=IDEAL) == pytest.approx(by_hand, rel=0.01)
    # Beside 64 decoding sequences an ideal GPU that is bound by arithmetic saves little.
    assert seconds(tokens, 64, place=IDEAL) < by_hand * 1.03


def test_a_short_prompt_alone_pays_for_reading_the_weights() -> None:
    """16 tokens: the forward without its head; beside others next to nothing is left to pay."""
    forward = float(PLACE.step(16, 1, 1).total)
    head = 2 * 4096 * 128_256 / H100_BANDWIDTH
    alone = seconds(16)
    assert alone == pytest.approx(forward - head, rel=0.05)
    assert 0 <= seconds(16, 16) < 0.1 * alone


@pytest.mark.parametrize("tokens", [64, 512, 4096, 20_000])
def test_beside_others_a_prompt_costs_less_than_alone(tokens: int) -> None:
    """The weights are read once: the increment is less by about one reading of them a chunk."""
    alone, shared = seconds(tokens), seconds(tokens, 16)
    assert 0 < shared < alone
    chunks = math.ceil(tokens / (8192 - 16))
    assert alone - shared < 1.3 * chunks * float(PLACE.step(16, 1, 1).total)


def test_a_prompt_takes_longer_by_length_and_faster_than_in_proportion() -> None:
    lengths = np.array([256, 1024, 4096, 8000, 16_000, 32_000, 64_000])
    found = prefill_seconds(PLACE, lengths, 16)
    assert np.all(np.diff(found) > 0)
    assert np.all(np.diff(found / lengths)[2:] > 0)  # attention grows with what stands before


def test_chunks_add_up() -> None:
    """A prompt of three chunks is its thirds, each with those before it in the cache."""
    whole = seconds(3000, 24, chunk_tokens=1024)
    parts = [
        seconds(1000 * (k + 1), 24, chunk_tokens=1024, cached_tokens=1000 * k) for k in range(3)
    ]
    assert whole == pytest.approx(sum(parts), rel=1e-9)
    # More of them read the weights and pad as often again: never less than at once.
    assert seconds(3000, 0, chunk_tokens=1000) > seconds(3000, 0, chunk_tokens=3000)


def test_very_many_chunks_take_no_longer_to_sum() -> None:
    """A token a step: each the increment of one, and the attention of the whole prompt."""
    one = prefill.shared_seconds(PLACE, np.array([16.0, 17.0]))
    tokens = 1_000_000
    attention = 32 * 4 * 32 * 128 * tokens * (tokens / 2)
    speed = PLACE.sixteen_bit.peak * PLACE.sixteen_bit.coefficients.attention_arithmetic_efficiency
    by_hand = tokens * float(one[1] - one[0]) + attention / speed
    assert seconds(tokens, 16, chunk_tokens=1) == pytest.approx(by_hand, rel=1e-6)
    # Where the sum is over pieces, it is that over chunks.
    fine, coarse = (seconds(64 * 1024 + extra, 0, chunk_tokens=1024) for extra in (0, 1))
    assert fine < coarse < fine * 1.01


def test_what_the_cache_holds_is_not_computed() -> None:
    full = seconds(8000, 16)
    assert seconds(8000, 16, cached_tokens=8000) == 0
    assert seconds(8000, 16, cached_tokens=9999) == 0
    # The last 4,000 look back on all that stands before them: more than a prompt of 4,000.
    late, early = seconds(8000, 16, cached_tokens=4000), seconds(4000, 16)
    assert early < late < full
    assert late + early == pytest.approx(full, rel=0.03)
    assert seconds(0) == 0


def test_where_decoding_fills_a_step_a_chunk_is_still_a_least_one() -> None:
    """512 tokens in steps of 256: with 300 that decode, four chunks of 128; with 128, four too; in
    steps of 64 a chunk is 64, however many decode."""
    assert LEAST_CHUNK == 128

    def by_hand(batch: int, size: int, chunks: int) -> float:
        """Differences of forwards, by the chunk; attention apart, which is the same."""
        each = prefill.shared_seconds(PLACE, np.array([batch, batch + size], dtype=float))
        return chunks * float(each[1] - each[0])

    attention = seconds(512, 300, chunk_tokens=256) - by_hand(300, 128, 4)
    assert 0 < attention < 0.2 * seconds(512, 300, chunk_tokens=256)
    assert seconds(512, 128, chunk_tokens=256) - by_hand(128, 128, 4) == pytest.approx(attention)
    assert seconds(512, 0, chunk_tokens=256) - by_hand(0, 256, 2) == pytest.approx(attention)
    assert seconds(512, 300, chunk_tokens=64) - by_hand(300, 64, 8) == pytest.approx(attention)


def test_groups_with_sequences_of_their_own() -> None:
    """Four groups of one GPU read a prompt each side by side: attention and products of a prompt
    are spread over four, as over the heads of four GPUs without the all-reduces."""
    apart, together = (Placement(LLAMA, "h100", 4, attention_dp=dp) for dp in (4, 1))
    one = seconds(8000, 0)
    assert seconds(8000, 0, apart) == pytest.approx(one / 4, rel=0.12)
    assert seconds(8000, 0, apart) < seconds(8000, 0, together)


def test_arrays_broadcast() -> None:
    found = prefill_seconds(PLACE, np.array([[100], [9000]]), np.array([0, 8, 64]))
    assert found.shape == (2, 3)
    for i, tokens in enumerate((100, 9000)):
        for j, batch in enumerate((0, 8, 64)):
            assert found[i, j] == pytest.approx(seconds(tokens, batch))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt_tokens": -1}, "prompt_tokens must be"),
        ({"batch": -1}, "batch must be"),
        ({"chunk_tokens": 0}, "chunk_tokens must be"),
        ({"cached_tokens": -1}, "cached_tokens must be"),
    ],
)
def test_what_is_out_of_range_is_refused(changes: dict[str, int], words: str) -> None:
    asked = {"prompt_tokens": 10, "batch": 1} | changes
    with pytest.raises(InputError, match=words):
        prefill_seconds(PLACE, asked.pop("prompt_tokens"), asked.pop("batch"), **asked)
