"""The general reader: read where an identity holds, refused where none does, wrong never.

Every record is made from known counts, printed in many ways; what is read must be those counts.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from specmath.logs import LogError, Reading, read
from specmath.logs.engines import ENGINES
from specmath.logs.general import General
from specmath.logs.stream import LogLine
from tools.doors import check_reading

STEPS, GAMMA = 400, 4
REACHED = (320, 240, 160, 100)
ACCEPTED, DRAFTED = sum(REACHED), STEPS * GAMMA
SHARE, TOKENS = ACCEPTED / DRAFTED, 1 + ACCEPTED / STEPS
NUMBERS = {
    "steps": STEPS, "drafted": DRAFTED, "accepted": ACCEPTED, "share": SHARE, "tokens": TOKENS,
    "percent": 100 * SHARE, "mean": ACCEPTED / STEPS,
}  # fmt: skip

LINES = (
    "spec: steps={steps} drafted={drafted} accepted={accepted} rate={share:.4f} tau={tokens:.3f}",
    "[spec] verify calls: {steps} | draft tokens: {drafted} | accepted tokens: {accepted} | "
    "acceptance rate: {percent:.2f}% | mean accepted length: {mean:.3f}",
    "speculative: {accepted} accepted / {drafted} drafted tokens in {steps} steps ({percent:.1f}%)",
    "mtp rounds={steps} proposed={drafted} accepted={accepted}/{drafted} acc_rate={percent:.1f}%",
    'level=info msg="spec decode" num_drafts={steps} num_draft_tokens={drafted} '
    "num_accepted_tokens={accepted} acceptance_length={tokens:.2f}",
    "eagle3 stats: num_steps: {steps}, proposed_tokens: {drafted}, accepted_tokens: {accepted}, "
    "tokens per step: {tokens:.2f}",
)
WAYS: dict[str, str] = {f"line {i}": line.format(**NUMBERS) for i, line in enumerate(LINES)}
WAYS |= {
    "block": "Speculation summary\n" + "\n".join((
        f"  verify steps:    {STEPS}", f"  drafted tokens:  {DRAFTED:,}",
        f"  accepted tokens: {ACCEPTED}", f"  acceptance rate: {100 * SHARE:.2f} %",
        *(f"  accept rate at position {i}: {n / STEPS:.3f}" for i, n in enumerate(REACHED)),
    )),
    "json": json.dumps({"server": "newserve", "speculation": {
        "verify_steps": STEPS, "draft_tokens": DRAFTED, "accepted_tokens": ACCEPTED,
        "acceptance_rate": SHARE, "accepted_per_position": REACHED,
    }}),
    "json over lines": json.dumps(
        {"verifySteps": STEPS, "draftTokens": DRAFTED, "acceptedTokens": ACCEPTED,
         "meanAcceptedLength": ACCEPTED / STEPS}, indent=2,
    ),
    "prometheus": "\n".join((
        f'new_serve_spec_verify_steps_total{{model="m"}} {STEPS}',
        f'new_serve_spec_draft_tokens_total{{model="m"}} {DRAFTED}',
        f'new_serve_spec_accepted_tokens_total{{model="m"}} {ACCEPTED}',
        *(f'new_serve_spec_accepted_by_position_total{{model="m",position="{i}"}} {n}'
          for i, n in enumerate(REACHED)),
    )),
    "markdown": "| kind | rounds | drafted | accepted | accept rate |\n|---|---|---|---|---|\n"
    f"| code | {STEPS} | {DRAFTED} | {ACCEPTED} | {100 * SHARE:.1f} % |",
    "csv": "name,steps,draft_tokens,accepted_tokens,acceptance_rate\n"
    f"a,{STEPS},{DRAFTED},{ACCEPTED},{SHARE:.4f}",
    "box": "┌────────┬───────┐\n│ Metric │ Value │\n├────────┼───────┤\n"
    f"│ Draft tokens │ {DRAFTED} │\n│ Accepted tokens │ {ACCEPTED} │\n"
    f"│ Verify steps │ {STEPS} │\n│ Acceptance length │ {TOKENS:.2f} │\n└────────┴───────┘",
}  # fmt: skip


def only(text: str) -> Reading:
    (reading,) = read(text)
    return reading


@pytest.mark.parametrize("way", WAYS)
def test_counts_come_back_from_every_way_of_printing_them(way: str) -> None:
    reading = only(WAYS[way])
    assert (reading.steps, reading.drafted, reading.accepted) == (STEPS, DRAFTED, ACCEPTED)
    assert reading.tokens_per_step == pytest.approx(TOKENS)
    assert reading.gamma == GAMMA
    if way in ("block", "json", "prometheus"):
        assert reading.survival == pytest.approx([n / STEPS for n in REACHED], abs=6e-4)


@pytest.mark.parametrize("way", WAYS)
def test_the_mapping_is_shown_to_confirm(way: str) -> None:
    reading = only(WAYS[way])
    assert reading.fact("mapped_accepted")
    assert any("please confirm" in text for text in reading.warnings)
    assert any("what confirms it" in text for text in reading.warnings)


def test_the_engine_is_what_the_data_names_or_unknown() -> None:
    assert only(WAYS["json"]).engine == "newserve"
    assert only(WAYS["prometheus"]).engine == "new-serve"
    assert only(WAYS["line 0"]).engine == "unknown"


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("line")])
def test_intervals_add_up_and_totals_do_not(way: str) -> None:
    """The same line five times is five intervals; counts that only rise, and say total, are one."""
    reading = only("\n".join([WAYS[way]] * 5))
    assert (reading.steps, reading.accepted) == (5 * STEPS, 5 * ACCEPTED)


def test_totals_so_far() -> None:
    lines = [
        f"spec: total_steps={n * STEPS} total_draft_tokens={n * DRAFTED} "
        f"total_accepted_tokens={n * ACCEPTED} accept_rate={SHARE:.4f}"
        for n in range(1, 7)
    ]
    reading = only("\n".join(lines))
    assert (reading.steps, reading.drafted, reading.accepted) == (
        6 * STEPS, 6 * DRAFTED, 6 * ACCEPTED,
    )  # fmt: skip


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_every_row_of_a_sweep_and_the_best_of_them(end: str) -> None:
    """Also the last one, whether or not a newline follows it."""
    text = (
        "| n_max | tok/s | accept | tok/step | ms/step |\n|---|---|---|---|---|\n"
        "| off | 40.0 | - | - | 25.0 |\n| 2 | 61.6 | 72.0% | 2.44 | 39.6 |\n"
        "| 4 | 66.0 | 60.0% | 3.40 | 51.5 |"
    )
    rows = {one.gamma: one for one in read(text + end)}
    assert set(rows) == {2, 4}
    assert rows[2].fact("speedup") == pytest.approx(61.6 / 40)
    assert rows[4].fact("step_cost") == pytest.approx(51.5 / 25)
    assert {one.fact("best_gamma") for one in rows.values()} == {4.0}


def test_llamacpps_speed_bench() -> None:
    """A share and a speed a category, and nothing that an identity could hold of."""
    text = (
        "category      samples  avg_prompt_t/s  avg_pred_t/s  avg_latency  accept_rate\n"
        "coding             10          812.10         98.10        10.20       0.8123\n"
        "math               10          790.00         92.10        11.20       0.7123\n"
        "overall            20          801.00         95.10        10.70       0.7623"
    )
    reading = only(text)
    assert (reading.engine, reading.alpha, reading.tokens_per_step) == ("llama.cpp", None, None)
    assert reading.fact("accepted_share") == 0.7623
    assert reading.fact("tokens_per_second") == 95.1
    assert reading.requests is not None
    assert reading.requests.count == 2


def test_two_scrapes_give_the_change() -> None:
    page = WAYS["prometheus"]
    later = "\n".join(
        f"{name} {3 * int(n)}" for name, n in (x.rsplit(" ", 1) for x in page.split("\n"))
    )
    reading = only(f"{page}\n{later}")
    assert (reading.steps, reading.accepted) == (2 * STEPS, 2 * ACCEPTED)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("spec: acceptance rate: 0.61", "acceptance rate"),
        ("proposed=1400 accepted=250 mean_len=3.9", "accepted"),
        ("| run | Accept rate | tok/s |\n|---|---|---|\n| mtp | 0.82 | 18.9 |", "Accept rate"),
        ("spec steps=7 proposed=1400 accepted=250 rate=40%", "proposed"),
    ],
)
def test_what_no_identity_confirms_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(LogError, match="could") as error:
        read(text)
    assert named in str(error.value)


INNOCENT = (
    "accepted connection from 10.0.0.1:443 draft=3 accepted=2",
    "GET /drafts?accepted=5 200 rate=0.5 steps=10",
    "step 400: loss=1.45 lr=0.0001 tokens=160000 accuracy=0.51",
    "MCMC: proposals=4000 accepted=820 acceptance rate=0.205",
    "requests accepted: 820, rejected: 3180, rate: 20.5%",
    "emails: draft=12 accepted=4 rejected=8",
    "peer review: 40 accepted / 400 submitted (10.0%)",
    "tcp: 4 accepted, 12 proposed",
    "worker speculative=true attempts=3 ok=2 time=0.66s",
    "spark: speculative tasks=12 total tasks=48 ratio=0.25",
)


@pytest.mark.parametrize("text", [line for line in INNOCENT if "MCMC" not in line])
def test_logs_of_other_things_are_not_read(text: str) -> None:
    with pytest.raises(LogError):
        read(text)
    with pytest.raises(LogError):
        read("\n".join([text] * 20))


def test_no_line_of_a_known_format_is_taken() -> None:
    """A known line that its reader refuses (more accepted than drafted) stays refused."""
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.80, Accepted: 9000 tokens, Drafted: 1500 "
        "tokens, Per-position acceptance rate: 0.800, 0.600, 0.400"
    )
    with pytest.raises(LogError):
        read(line)


WORDS = (
    "accepted", "draft", "drafted", "rate", "steps", "tokens", "len", "acc", "spec", "proposed",
    "mean", "total", "k", "gamma", "position", "tok/s", "verify", "generated", "n_draft", "speedup",
    "request", "time", "batch", "loss", "kv", "cache",
)  # fmt: skip


def _noise(rng: random.Random) -> str:
    """A line of these words with numbers that have nothing to do with each other."""

    def value() -> str:
        kind = rng.randrange(4)
        if kind == 0:
            return str(rng.randrange(10 ** rng.randint(1, 6)))
        if kind == 1:
            return f"{rng.random():.{rng.randint(2, 4)}f}"
        if kind == 2:
            return f"{100 * rng.random():.1f}%"
        return f"{rng.uniform(1, 9):.2f}"

    form = rng.choice(("{}={} ", "{}: {}, ", "{} {} ", '"{}": {}, ', "{}_{} ", "| {} | {} |"))
    return "".join(
        form.format(" ".join(rng.sample(WORDS, rng.randint(1, 2))), value())
        for _ in range(rng.randint(2, 7))
    )


def test_unrelated_numbers_under_these_names_are_hardly_ever_read() -> None:
    """3000 lines of the reader's own words: fewer than 1% hold an identity by accident, and what
    is read can be."""
    rng = random.Random(8)
    taken = 0
    for _ in range(3000):
        found = General(LogLine("", 0, 1), lambda _: False).read([(1, _noise(rng).encode())])
        taken += bool(found)
        for reading in found:
            check_reading(reading)
    assert taken < 30


def test_mutated_records_are_read_or_refused() -> None:
    rng = random.Random(9)
    texts = list(WAYS.values())
    for _ in range(300):
        data = bytearray(rng.choice(texts).encode())
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(len(data) + 1)
            new = rng.choice(
                (b"", b"9" * 20, b"nan", b"-1", b"\n", b"{", b"|", b"%", b"e9", b"[1,2]")
            )
            data[at : at + rng.randrange(6)] = new
        try:
            found = read(bytes(data))
        except LogError:
            continue
        for reading in found:
            check_reading(reading)


def test_known_formats_and_the_general_reader_agree(sample: Any) -> None:
    """What the readers of the known formats make of a page, the general one makes of it too."""
    page = sample("vllm_v1_prometheus_t0.txt").read_text("utf-8")
    known = read(page)[-1]
    other = only(page.replace("vllm:", "other_serve_"))
    assert known.engine in {engine.name for engine in ENGINES}
    assert (other.steps, other.drafted, other.accepted) == (
        known.steps, known.drafted, known.accepted,
    )  # fmt: skip
    assert other.survival == pytest.approx(known.survival)
