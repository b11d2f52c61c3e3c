"""Arrivals and traces."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specmath.checks import InputError
from specmath.traffic import (
    TRACES,
    closed,
    first_requests,
    poisson,
    read_trace,
    shipped_trace,
    thinned,
)

HEAD = "seconds,prompt_tokens,output_tokens\n"


def test_poisson_arrivals_have_the_rate_and_are_independent() -> None:
    """Mean gap 1/λ, and as many pairs closer than t as an exponential has."""
    found = poisson(5.0, 100, 20, requests=20_000, seed=1)
    gaps = np.diff(found.seconds)
    assert gaps.mean() == pytest.approx(0.2, rel=0.03)
    assert np.mean(gaps < 0.1) == pytest.approx(1 - math.exp(-0.5), abs=0.02)
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.03


def test_a_day_has_each_rate_in_its_time() -> None:
    day = poisson([2.0, 0.0, 20.0], 100, 20, seconds=[1000.0, 500.0, 200.0], seed=2)
    counts, _ = np.histogram(day.seconds, [0, 1000, 1500, 1700])
    assert counts[1] == 0
    np.testing.assert_allclose(counts[[0, 2]], [2000, 4000], rtol=0.08)
    assert (np.diff(day.seconds) >= 0).all()


def test_the_same_seed_gives_the_same_arrivals() -> None:
    one, same, other = (poisson(3.0, 1, 1, seconds=50.0, seed=s).seconds for s in (1, 1, 2))
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


def test_a_trace_in_any_order_of_columns() -> None:
    text = (
        "\ufeffoutput_tokens, seconds ,prefix_tokens,prompt_tokens,note\n7,3,16,40,a\n1,3.5,0,9,b\n"
    )
    found = read_trace(text)
    assert found.seconds.tolist() == [0.0, 0.5]
    assert found.prompt_tokens.tolist() == [40, 9]
    assert found.output_tokens.tolist() == [7, 1]
    assert found.prefix_tokens is not None
    assert found.prefix_tokens.tolist() == [16, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "empty file"), ("\n\n", "empty file"), (HEAD, "none below its columns"),
     ("time,in,out\n1,2,3\n", "must have the columns seconds, prompt_tokens, output_tokens, got"),
     (HEAD + "1,5,5\n0.5,5,5\n", "seconds must not fall.*got 0.5 after 1 at request 2"),
     (HEAD + "-1,5,5\n", "request 1: seconds must be a number >= 0, got -1"),
     (HEAD + "0,5,0\n", "request 1: output_tokens must be a whole number >= 1, got 0"),
     (HEAD + "0,5.5,2\n", "prompt_tokens must be a whole number >= 0, got 5.5"),
     (HEAD + "0,5,2\n1,many,2\n", "request 2: prompt_tokens must be a number, got 'many'"),
     (HEAD + "0,5\n", "request 1: output_tokens must be a number, got ''"),
     (HEAD + "nan,5,2\n", "seconds must be a number >= 0, got nan"),
     ("seconds,prompt_tokens,output_tokens,prefix_tokens\n0,5,5,9\n", "prefix_tokens must be <=")],
)  # fmt: skip
def test_a_bad_trace_has_one_clear_message(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_trace(text, "mine.csv")


def test_what_comes_with_specmath_is_what_the_readme_says() -> None:
    counts = {name: len(shipped_trace(name)) for name in TRACES}
    assert counts == {"azure-conv": 19366, "azure-code": 8819, "mooncake": 12031}
    seen = shipped_trace("mooncake")
    assert seen.prefix_tokens is not None
    assert seen.prefix_tokens.sum() / seen.prompt_tokens.sum() == pytest.approx(0.37, abs=0.01)
    with pytest.raises(InputError, match="trace must be a file or one of azure-conv"):
        shipped_trace("azure")


def test_part_of_a_trace() -> None:
    whole = shipped_trace("azure-conv")
    assert len(first_requests(whole, 100, None)) == 100
    minute = first_requests(whole, None, 60.0)
    assert minute.seconds[-1] < 60 <= whole.seconds[len(minute)]
    third = thinned(whole, 3)
    assert len(third) == math.ceil(len(whole) / 3)
    assert third.rate == pytest.approx(whole.rate / 3, rel=0.01)


def test_values_out_of_range_are_named() -> None:
    for call in (
        lambda: poisson(-1.0, 5, 5, requests=5),
        lambda: poisson(0.0, 5, 5, requests=5),
        lambda: poisson(1.0, 5, 5, requests=3_000_000),
        lambda: poisson(1e6, 5, 5, seconds=1e6),
        lambda: poisson([1.0, 2.0], 5, 5, requests=5),
        lambda: poisson(1e-9, 5, 5, seconds=1.0),
        lambda: closed(0, 5, 5, requests=5),
        lambda: closed(2, 5, 0, requests=5),
    ):
        with pytest.raises(InputError):
            call()
