"""Two runs become a row that the record reads back."""

from __future__ import annotations

import pytest
from helpers.readings import make_reading

from specmath.checks import InputError
from specmath.logs.reading import Reading
from specmath.published.case import cases_of, engine_of
from specmath.published.rows import read
from specmath.published.submission import as_csv, submission

GIVEN = {"id": "mine", "target": "Llama-3.1-8B", "kind": "mtp", "hardware": "H100"}


def run(ms: float, **more: object) -> Reading:
    facts = (
        ("mean_tpot_ms", ms), ("max_concurrency", 4.0), ("completed", 10.0),
        ("total_input_tokens", 5000.0), ("total_output_tokens", 1000.0),
        ("output_throughput", 4e3 / ms), ("mean_ttft_ms", 50.0),
    )  # fmt: skip
    return make_reading("vllm", "bench", facts=dict(facts), **more)


def test_two_runs_are_a_row_that_is_read_back() -> None:
    spec = run(12.0, tokens_per_step=2.5, gamma=3, drafted=300, accepted=150, steps=100)
    row = submission([run(24.0)], [spec], GIVEN)
    (case,) = cases_of(read(as_csv(row), "row.csv"))
    assert case.measured == {"speedup": 2.0, "tpot_ms": 12.0}
    assert (case.tau, case.gamma, case.concurrency) == (2.5, 3, 4)
    assert (case.prompt_tokens, case.output_tokens, case.plain_ms) == (500, 100, 24.0)
    assert engine_of(case.engine) == "vllm"


def test_what_is_said_wins_over_what_is_printed() -> None:
    row = submission([run(24.0)], [run(12.0)], GIVEN | {"concurrency": "8", "engine": "sglang"})
    assert (row["concurrency"], row["engine"]) == ("8", "sglang")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"id": "a"}, "a row must have target, kind"),
        (GIVEN | {"speed": "2"}, "got speed"),
        (GIVEN | {"gamma": "three"}, "gamma must be a whole number"),
        (GIVEN | {"concurrency": "1,5"}, "concurrency must be a whole number"),
    ],
)
def test_what_the_record_would_refuse_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        submission([run(24.0)], [run(12.0)], given)
    assert said in str(caught.value)


def test_runs_without_like_speeds_are_refused() -> None:
    with pytest.raises(InputError, match="both runs must print their speed"):
        submission([Reading("vllm", "log")], [run(12.0)], GIVEN)
