"""The paste box: numbers, percentages and log lines in, survival out, or a message that helps."""

from __future__ import annotations

import pytest

from specmath.checks import InputError
from specmath.logs.paste import read_rates

VLLM = (
    "INFO 09-14 10:00:10 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.71, "
    "Accepted throughput: 104.70 tokens/s, Drafted throughput: 183.60 tokens/s, Accepted: 1047 "
    "tokens, Drafted: 1836 tokens, Per-position acceptance rate: 0.812, 0.562, 0.337, "
    "Avg Draft acceptance rate: 57.0%"
)
LLAMA = "slot print_timing: id  0 | task 12 |      acc per pos = (0.825, 0.483, 0.283, 0.125)"
BENCH = """\
---------------Speculative Decoding---------------
Acceptance rate (%):                     57.97
Acceptance length:                       2.74
Per-position acceptance (%):
  Position 0:                            81.31
  Position 1:                            57.23
  Position 2:                            35.37
"""


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("0.9, 0.8, 0.7", (0.9, 0.8, 0.7)),
        ("0.9 0.8\n0.7", (0.9, 0.8, 0.7)),
        ("[0.9; .8; 0]", (0.9, 0.8, 0.0)),
        ("90%, 80 %", (0.9, 0.8)),
        ("1", (1.0,)),
        (VLLM, (0.812, 0.562, 0.337)),
        (LLAMA, (0.825, 0.483, 0.283, 0.125)),
        (BENCH, (0.8131, 0.5723, 0.3537)),
    ],
)
def test_reads(text: str, rates: tuple[float, ...]) -> None:
    assert read_rates(text) == pytest.approx(rates, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0.9, 0.95", r"position 2 is 0\.95, above 0\.9 at position 1"),
        ("90%, 95%", r"position 2 is 95%, above 90% at position 1"),
        ("0.9, 1.2", r"position 2 is 1\.2: it must be >= 0 and <= 1"),
        ("80", r"position 1 is 80: it must be >= 0 and <= 1"),
        ("120%", r"position 1 is 120%: it must be >= 0 and <= 100%"),
        ("0.5, -0.1", r"position 2 is -0\.1"),
        ("0.9, 80%", "some rates have a percent sign"),
        ("hello world", r"expected per-position acceptance rates.*got 'hello world'"),
        ("", r"expected per-position acceptance rates.*got ''"),
        ("nan", r"expected per-position"),
        ("x" * 500, "x…'"),
    ],
)
def test_refuses(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_rates(text)


def test_whole_logs_are_pooled(sample) -> None:
    assert read_rates(sample("vllm_v1_log_current.txt").read_text())[0] == pytest.approx(
        (0.812 * 612 + 0.791 * 1490 + 0.771 * 3011 + 0.797 * 74) / 5187
    )
    # The request's own line and the running totals agree: one set of rates.
    assert read_rates(sample("llamacpp_server_log_2026-06.txt").read_text())[0] == 0.825
    histogram = read_rates(sample("vllm_response_per_request.json").read_text())
    assert histogram == pytest.approx((52 / 58, 34 / 58, 20 / 58))
    metrics = read_rates(sample("llamacpp_prometheus.txt").read_text())
    assert metrics == pytest.approx((99 / 120, 58 / 120, 34 / 120, 15 / 120))


def test_several_servers_are_refused(sample) -> None:
    text = VLLM + "\n" + sample("llamacpp_server_log_2026-06.txt").read_text()
    with pytest.raises(InputError, match="different sets of rates"):
        read_rates(text)


def test_a_log_without_positions_is_named(sample) -> None:
    with pytest.raises(InputError, match=r"got vllm v0 log .*, without them"):
        read_rates(sample("vllm_v0_log.txt").read_text())


def test_long_garbage_fails_at_once() -> None:
    """Patterns with two ways to match a gap or a number would take for ever here."""
    for text in ("0.9  " * 1500 + "x", "123456 " * 1200 + "x", "9" * 9000 + "x", " " * 9000 + "x"):
        with pytest.raises(InputError):
            read_rates(text)
