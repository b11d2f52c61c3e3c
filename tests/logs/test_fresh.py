"""Shapes that were seen after the readers were written: each with the numbers it must give.

The numbers are worked out by hand from the text of each file (tests/data/fresh_logs/expected.json),
not by this code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specmath.logs import Reading, read_run
from specmath.review.gammas import gamma_rows
from specmath.review.into_scenario import endpoint_of
from specmath.scenario import Scenario
from specmath.tables.logs import gammas_table

FOLDER = Path(__file__).parents[1] / "data" / "fresh_logs"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text("utf-8"))
PRINTED = 0.005
"""What is worked out by hand is rounded to three digits, with or without the first tokens."""

FACTS = {"tok_s": "tokens_per_second", "plain_tok_s": "plain_tokens_per_second",
         "speedup": "speedup", "passes": "passes", "mean_tpot_ms": "mean_tpot_ms"}  # fmt: skip
FIELDS = {
    "steps", "drafted", "accepted", "tokens_per_step", "tokens_per_pass", "gamma", "generated", "c",
    "accepted_share",
}  # fmt: skip
BY_LANE = {"000": "0", "001": "1", "002": "2"}


def readings(name: str) -> list[Reading]:
    return read_run(FOLDER / name)


def number(reading: Reading, name: str) -> float | None:
    """A number of a reading by its name in expected.json."""
    if name == "accepted_share" and reading.accepted_share is None:
        value = reading.fact("accepted_share")
        return value if isinstance(value, float) else None
    if name in FACTS:
        value = reading.fact(FACTS[name])
        return value if isinstance(value, float) else None
    found = getattr(reading, name)
    return None if found is None else float(found)


def wrong(reading: Reading, wanted: dict[str, Any]) -> list[str]:
    """The numbers of `wanted` that `reading` does not give."""
    missed = []
    for name, value in wanted.items():
        if name == "survival":
            if not reading.survival or reading.survival != pytest.approx(tuple(value), abs=6e-4):
                missed.append(name)
        elif (name in FIELDS or name in FACTS) and isinstance(value, (int, float)):
            if name == "passes" and reading.fact("passes") is None:
                continue
            found = number(reading, name)
            if found is None or found != pytest.approx(value, rel=PRINTED):
                missed.append(f"{name}: {found} is not {value}")
    return missed


SINGLE = sorted(
    name for name, wanted in EXPECTED.items()
    if wanted.keys() & (FIELDS | {"survival"}) and name != "02-vllm-mtp-kv-full.txt"
)  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_the_numbers_of_each_shape(name: str) -> None:
    found = readings(name)
    misses = [wrong(reading, EXPECTED[name]) for reading in found]
    assert [] in misses, misses


def test_every_file_is_read() -> None:
    for name in EXPECTED:
        assert readings(name), name


def test_one_of_three_engines_is_broken() -> None:
    """Each engine as its own lines say; the pooled rate, which is no engine's, is not given."""
    wanted = EXPECTED["01-vllm-dp-one-engine-broken.txt"]["by_engine"]
    found = {str(one.lane.engine): one for one in readings("01-vllm-dp-one-engine-broken.txt")}
    assert set(found) == set(wanted)
    for name, numbers in wanted.items():
        assert wrong(found[name], numbers) == []


def test_a_run_that_fills_its_memory_and_the_plain_one_beside_it() -> None:
    (full,) = readings("02-vllm-mtp-kv-full.txt")
    wanted = EXPECTED["02-vllm-mtp-kv-full.txt"]
    assert wrong(full, {k: wanted[k] for k in ("steps", "accepted", "tokens_per_step")}) == []
    (plain,) = readings("02-vllm-plain-run.txt")
    assert plain.accepted is None


def test_a_bare_record_says_what_the_whole_response_says() -> None:
    whole, bare = (readings(name)[0] for name in EXPECTED if name.startswith("06"))
    assert (whole.steps, whole.accepted, whole.survival) == (
        bare.steps,
        bare.accepted,
        bare.survival,
    )


def test_two_drafters_of_one_server() -> None:
    """The request by itself, each way of drafting, and all of them since the start."""
    wanted = EXPECTED["09-llamacpp-two-drafters.txt"]
    request, *since = readings("09-llamacpp-two-drafters.txt")
    assert wrong(request, wanted["request"]) == []
    total = wanted["since_start"]
    everything = since[-1]
    assert everything.since_start
    assert (everything.steps, everything.accepted) == (total["drafts"], total["accepted"])
    assert everything.tokens_per_step == pytest.approx(
        total["tokens_per_step_all_drafters"], rel=PRINTED
    )


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("10-llama-speculative-simple.txt", 0.33, 0.75),
        ("13-docker-logfmt.txt", 0.60, 0.94),
        ("19-llamacpp-sse.txt", 0.33, 0.756),
    ],
)
def test_alpha_is_unknown_between_two_bounds_where_drafts_stop_early(
    name: str, low: float, high: float
) -> None:
    (reading,) = readings(name)
    assert reading.alpha is None
    assert reading.alpha_interval == pytest.approx((low, high), abs=0.006)
    assert "no confidence interval" in str(reading.interval_basis)
    assert reading.shape == "stops"


def test_requests_of_a_bench_are_a_distribution() -> None:
    """Six kinds of text, from .538 (creative) to .773 (mathematics); their total is not counted
    twice."""
    (reading,) = readings("11-mtp-bench.txt")
    assert reading.requests is not None
    assert reading.requests.count == EXPECTED["11-mtp-bench.txt"]["requests"]
    assert sorted(reading.requests.values) == pytest.approx(
        [0.538, 0.645, 0.655, 0.703, 0.734, 0.773], abs=6e-4
    )


def test_a_sweep_over_k_with_a_plain_row() -> None:
    wanted = EXPECTED["18-markdown-sweep.txt"]
    rows = {str(one.gamma): one for one in readings("18-markdown-sweep.txt")}
    assert set(rows) == set(wanted["k"])
    for k, numbers in wanted["k"].items():
        assert rows[k].tokens_per_step == pytest.approx(numbers["tokens_per_step"])
        assert rows[k].fact("speedup") == pytest.approx(numbers["speedup"], rel=PRINTED)
        assert rows[k].fact("step_cost") == pytest.approx(numbers["step_cost"], rel=PRINTED)
        assert rows[k].fact("best_gamma") == wanted["best"]


def test_each_row_of_a_sweep_answers_with_what_the_other_rows_measured() -> None:
    """104.3, 100.8 and 87.7 tok/s over 86.0; 16.89, 21.82 and 28.52 ms over 11.63: with c = 0.1 a
    prediction from the row of k=1 would give 1.8 at k=3."""
    sweep = {
        1: (1.76, 16.89 / 11.63, 104.3 / 86.0),
        2: (2.20, 21.82 / 11.63, 100.8 / 86.0),
        3: (2.50, 28.52 / 11.63, 87.7 / 86.0),
    }
    for one in readings("18-markdown-sweep.txt"):
        endpoint = endpoint_of(one, Scenario(alpha=0.5, c=0.1))
        rows = {row.gamma: row for row in gamma_rows(one, endpoint)}
        assert [row.source for row in rows.values()][:4] == ["plain", *3 * ["printed"]]
        assert {row.source for row in rows.values() if row.gamma > 3} == {"iid"}
        for gamma, numbers in sweep.items():
            row = rows[gamma]
            found = row.tokens_per_pass, row.step_cost, row.speedup
            assert found == pytest.approx(numbers, rel=PRINTED)
            assert row.low == row.high == row.speedup
        assert gammas_table(one, endpoint).column("basis").values[2] == "the file's own row"


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("11-mtp-bench.txt", "unknown"),
        ("14-rapid-mlx-prometheus.txt", "rapid-mlx"),
        ("15-xinfer-log.txt", "xinfer"),
        ("16-vllm-offline-spec-decode.txt", "vllm"),
        ("18-markdown-sweep.txt", "unknown"),
        ("23-llamacpp-adaptive-depth.txt", "llama.cpp"),
        ("26-sequoia-steps.txt", "unknown"),
    ],
)
def test_the_engine_is_what_the_text_names(name: str, engine: str) -> None:
    assert {one.engine for one in readings(name)} == {engine}


def test_a_share_of_the_output_is_no_share_of_the_drafts() -> None:
    (reading,) = readings("17-lmstudio-ui.txt")
    assert reading.drafted is None
    assert reading.alpha is None
    assert reading.fact("accepted_share_of_output") == pytest.approx(0.551, abs=6e-4)


SAID: dict[str, Callable[[str], bool]] = {
    "24-vllm-dspark-collapse.txt": lambda text: "sound first position" in text,
    "32-sglang-rate-above-1.txt": lambda text: "above 1 is not a rate" in text,
    "35-vllm-mtp4-broken.txt": lambda text: "broken" in text,
    "22-vllm-dflash15-compose.txt": lambda text: "from position 7 on" in text,
}


@pytest.mark.parametrize("name", SAID)
def test_what_must_be_said(name: str) -> None:
    text = " ".join(warning for one in readings(name) for warning in one.warnings)
    assert SAID[name](text), text
