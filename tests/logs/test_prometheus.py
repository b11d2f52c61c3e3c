"""Metrics pages: change between scrapes, restarts, engines, models, and lines that are broken."""

from __future__ import annotations

import pytest

from specmath.logs import LogError, read

PAGE = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="{e}",model_name="{m}"}} {n}
vllm:spec_decode_num_drafts_created{{engine="{e}",model_name="{m}"}} {t}
vllm:spec_decode_num_draft_tokens_total{{engine="{e}",model_name="{m}"}} {d}
vllm:spec_decode_num_accepted_tokens_total{{engine="{e}",model_name="{m}"}} {a}
"""


def page(n, e="0", m="demo", t="1.7e9"):
    """A page of n steps: 3 tokens a step, half of them accepted."""
    return PAGE.format(n=n, d=3 * n, a=1.5 * n, e=e, m=m, t=t)


def test_one_dump_holds_totals_since_the_start_and_two_their_change(sample, only):
    first, last = sample("vllm_v1_prometheus_t0.txt"), sample("vllm_v1_prometheus_t1.txt")
    assert only(last).since_start
    assert not only(first, last).since_start


def test_created_is_not_a_count(only):
    assert only(page(1000)).steps == 1000


def test_scrape_series(only):
    reading = only(page(1000) + page(1100) + page(1300) + page(1600))
    assert (reading.steps, reading.accepted) == (600, 900)
    assert [window.steps for window in reading.windows] == [100, 200, 300]


def test_restart_counts_from_zero(only, said):
    # 1000 -> 1400, restart, 200 -> 500: 400 + 200 + 300.
    reading = only(page(1000) + page(1400) + page(200, t="1.8e9") + page(500, t="1.8e9"))
    assert reading.steps == 900
    assert said(reading, "line 12: counters fall here: the server restarted")


def test_restart_of_one_engine_only(only, said):
    before = page(1000) + page(1000, e="1")
    after = page(1500) + page(100, e="1", t="1.8e9")
    reading = only(before, after)
    assert reading.steps == 500 + 100
    assert said(reading, "the server restarted")


def test_falling_without_created_names_both_causes(only, said):
    def bare(n):
        return "\n".join(row for row in page(n).splitlines() if "_created" not in row)

    assert said(only(bare(1000), bare(400)), "or the dumps are not in order of time")


def test_models_are_apart():
    readings = read(page(1000, m="a") + page(400, m="b"))
    assert {one.fact("model"): one.steps for one in readings} == {"a": 1000, "b": 400}


def test_broken_nan_and_negative_lines(only, said):
    bad = (
        'vllm:spec_decode_num_drafts_total{engine="1",model_name="demo} 5\n'
        'vllm:spec_decode_num_drafts_total{engine="2",model_name="demo"} NaN\n'
        'vllm:spec_decode_num_drafts_total{engine="3",model_name="demo"} -4\n'
        'vllm:spec_decode_num_drafts_total{engine="4",model_name="demo"} 1e300\n'
    )
    reading = only(page(1000) + bad)
    assert reading.steps == 1000
    assert said(reading, "line 6: a broken metrics line")
    assert said(reading, "line 7: vllm:spec_decode_num_drafts_total is nan")
    assert said(reading, "line 8: vllm:spec_decode_num_drafts_total is -4")
    assert said(reading, "line 9: vllm:spec_decode_num_drafts_total is 1e+300")


def test_positions_that_cannot_be_are_not_used(only, said):
    rows = [
        "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        f'{{engine="0",model_name="demo",position="{i}"}} {v}'
        for i, v in enumerate((600, 700, 200))
    ]
    reading = only(page(1000) + "\n".join(rows))
    assert reading.survival is None
    assert reading.tokens_per_step == pytest.approx(2.5)
    assert said(reading, "per-position counts rise")


def test_nothing_drafted():
    with pytest.raises(LogError, match="vLLM metrics in which nothing was drafted"):
        read(page(0))
