"""llama.cpp: every era of the log, statistics, timings, metrics; and real captures against
each other."""

from __future__ import annotations

import pytest

from specmath.logs import LogError, read
from specmath.theorems import alpha_from_accepted_share


def by_format(path):
    return {one.format: one for one in read(path)}


def test_old_log_has_no_steps(sample, only, said):
    reading = only(sample("llamacpp_server_log_2024-11.txt"))
    assert (reading.steps, reading.drafted, reading.accepted) == (None, 372, 206)
    assert reading.tokens_per_step is None
    # 361 tokens, the first from the prompt: 361 - 206 - 1 passes.
    assert reading.tokens_per_pass == pytest.approx(360 / 154)
    assert reading.alpha is None
    # 154 drafts at most, so at most 154 of the 166 lost tokens were a rejection.
    assert reading.alpha_interval[0] == pytest.approx(206 / (206 + 154))
    assert said(reading, "drafts stop early")


@pytest.mark.parametrize("era", ["2026-06", "2026-08"])
def test_newer_logs(sample, said, era):
    readings = by_format(sample(f"llamacpp_server_log_{era}.txt"))
    request = readings["server log, per request (2026)"]
    assert (request.steps, request.drafted, request.accepted) == (120, 372, 206)
    assert request.survival == (0.825, 0.483, 0.283, 0.125)
    assert request.coverage == pytest.approx(120 / 154)
    # 3.1 tokens a draft of at most 4: drafts stop early, so alpha has bounds, not a value.
    assert request.alpha == pytest.approx(206 / (206 + 120 * 0.875))
    assert request.alpha_interval[1] > 206 / (206 + 166 / 4)
    assert "lower bound" in request.alpha_basis
    assert said(request, "not the paper's α")


def test_statistics_and_drafting_time(sample, said):
    readings = by_format(sample("llamacpp_server_log_2026-06.txt"))
    total = readings["server log, statistics draft-eagle3 (since start)"]
    assert (total.steps, total.drafted, total.accepted) == (120, 372, 206)
    milliseconds = 0.009 + 412.318 + 0.171
    assert total.draft_seconds == pytest.approx(milliseconds / 120 / 1000)
    # The same 372 tokens took 6859 ms by the request line.
    assert total.draft_share == pytest.approx(milliseconds / 6859)
    share = milliseconds / 6859
    assert total.c == pytest.approx(share / (1 - share) / 4)
    assert said(total, "do not add the two")
    later = by_format(sample("llamacpp_server_log_2026-08.txt"))
    total = later["server log, statistics draft-mtp (since start)"]
    assert (total.steps, total.drafted, total.accepted) == (480, 1488, 824)
    # Ten requests' totals against one request line: the share of a step is not told.
    assert total.draft_share is None


@pytest.mark.parametrize(
    ("kind", "shape", "lookup"),
    [
        ("draft-eagle3", "chain", False),
        ("ngram-mod", "stops", True),
        ("draft-dflash", "parallel", False),
    ],
)
def test_the_kind_of_draft_is_told_by_the_type_of_the_statistics(kind, shape, lookup, only):
    """Drafts of 4 always: only a lookup, by its name, may stop early."""
    reading = only(
        f"statistics {kind}: #calls(b,g,a) = 1 9 9, #gen drafts = 9, #acc drafts = 9, "
        "#gen tokens = 36, #acc tokens = 20, dur(b,g,a) = 1.0, 1.0, 1.0 ms"
    )
    assert (reading.shape, reading.lookup, reading.since_start) == (shape, lookup, True)
    assert reading.to_dict()["tree"] is False


def test_oldest_statistics_and_restart(only, said):
    line = (
        "statistics draft: #calls = {n}, #gen drafts = {n}, #acc drafts = 9, #gen tokens = {d}, "
        "#acc tokens = {a}, dur = {ms} ms\n"
    )
    reading = only(
        line.format(n=100, d=300, a=150, ms=50.0)
        + line.format(n=140, d=420, a=230, ms=70.0)
        + line.format(n=10, d=30, a=20, ms=5.0)
    )
    assert (reading.steps, reading.drafted, reading.accepted) == (150, 450, 250)
    assert reading.draft_seconds == pytest.approx(0.075 / 150)
    assert [window.accepted for window in reading.windows] == [150, 80, 20]
    assert said(reading, "line 3: totals fall here")


def test_timings_response(sample, only, said):
    reading = only(sample("llamacpp_timings_response.json"))
    assert (reading.steps, reading.drafted, reading.accepted) == (None, 372, 206)
    assert reading.tokens_per_pass == pytest.approx(360 / 154)
    assert said(reading, "tokens per step is at least 2.34")
    text = sample("llamacpp_timings_response.json").read_text()
    greedy = text.replace('"usage"', '"generation_settings": {"temperature": 0.0}, "usage"')
    assert said(only(text), "greedily")
    assert not said(only(greedy), "greedily")


def test_stream_chunks_of_one_request_count_once(only):
    chunk = (
        'data: {{"id": "{id}", "choices": [], "timings": {{"prompt_n": 4, "predicted_n": {n}, '
        '"draft_n": {d}, "draft_n_accepted": {a}}}}}\n'
    )
    reading = only(
        chunk.format(id="one", n=10, d=8, a=4)
        + chunk.format(id="two", n=20, d=10, a=5)
        + chunk.format(id="one", n=30, d=24, a=12)
    )
    assert (reading.drafted, reading.accepted, reading.generated) == (34, 17, 50)


def test_metrics_page(sample, only, said):
    reading = only(sample("llamacpp_prometheus.txt"))
    assert (reading.steps, reading.drafted, reading.accepted) == (120, 372, 206)
    assert reading.survival == pytest.approx((99 / 120, 58 / 120, 34 / 120, 15 / 120))
    assert said(reading, "coverage is a lower bound")


def test_llama_speculative_summary(sample, only, said):
    reading = only(sample("llama_speculative_stdout.txt"))
    assert (reading.gamma, reading.drafted, reading.accepted) == (4, 372, 206)
    assert reading.tokens_per_pass == pytest.approx(361 / 155)
    # 155 passes could have held 2.4 tokens a draft, or 93 drafts all four.
    assert reading.alpha is None
    assert reading.alpha_interval[0] == pytest.approx(206 / (206 + 155))
    assert reading.alpha_interval[1] == pytest.approx(alpha_from_accepted_share(206 / 372, 4))


@pytest.mark.parametrize("kind", ["draftself", "ngsimple"])
def test_captures_agree_with_each_other(sample, only, kind):
    """One server, three channels: its log, its metrics page, and its responses."""
    log = only(sample(f"captured/log_{kind}.txt"))
    page = only(sample(f"captured/metrics_{kind}.txt"))
    responses = only(sample(f"captured/resp_{kind}.json"))
    assert log.steps == page.steps
    for other in (page, responses):
        assert (log.drafted, log.accepted) == (other.drafted, other.accepted)
    assert log.generated == page.generated == responses.generated == 161
    assert log.tokens_per_step == pytest.approx(page.tokens_per_step)
    assert log.tokens_per_pass == pytest.approx(responses.tokens_per_pass)
    assert log.fact("requests_without_draft") == responses.fact("requests_without_draft")


def test_captured_draft(sample, only):
    """Steps from rounded mean lengths: 32/4, 44/4 and 33/1.14 are 8, 11 and 29: the page's 48."""
    log = only(sample("captured/log_draftself.txt"))
    assert log.steps == 48
    assert [window.steps for window in log.windows] == [8, 11, 29]
    # 161 tokens in 3 requests: 161 - 109 - 3 passes.
    assert log.coverage == pytest.approx(48 / 49)
    page = only(sample("captured/metrics_draftself.txt"))
    assert page.survival == pytest.approx((33 / 48, 29 / 48, 26 / 48, 21 / 48))
    assert page.alpha == pytest.approx(109 / (109 + 48 - 21))


def test_captured_ngram(sample, only, said):
    log = only(sample("captured/log_ngsimple.txt"))
    # Nothing of the second request's 8 tokens was accepted: taken as one draft of 8.
    assert log.steps == 6
    assert said(log, "requests in which nothing was accepted")
    # 161 - 32 - 3 passes: the n-gram found a draft in 5% of them.
    assert log.coverage == pytest.approx(6 / 126)
    page = only(sample("captured/metrics_ngsimple.txt"))
    assert page.conditional == pytest.approx((4 / 6,) + (1.0,) * 7)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("log_none.txt", "3 llama.cpp requests, none of which drafted"),
        ("metrics_none.txt", "metrics in which nothing was drafted"),
        ("resp_none.json", "3 llama.cpp responses without draft_n"),
    ],
)
def test_captures_without_speculation(sample, name, says):
    with pytest.raises(LogError, match=says):
        read(sample(f"captured/{name}"))
