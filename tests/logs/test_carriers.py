"""One log in every carrier: the numbers are the same, whatever wraps the lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from specmath.logs import read

LINES = [
    "(APIServer pid=9) INFO 08-03 02:11:00 [loggers.py:273] Engine 000: Avg prompt throughput: 0.0 "
    "tokens/s, Avg generation throughput: 79.4 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV "
    "cache usage: 4.0%, Prefix cache hit rate: 0.0%",
    "(APIServer pid=9) INFO 08-03 02:11:00 [metrics.py:120] SpecDecoding metrics: Mean acceptance "
    "length: 2.20, Accepted throughput: 24.00 tokens/s, Drafted throughput: 60.00 tokens/s, "
    "Accepted: 240 tokens, Drafted: 600 tokens, Per-position acceptance rate: 0.600, 0.400, 0.200, "
    "Avg Draft acceptance rate: 40.0%",
    'INFO: 10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK',
    "(APIServer pid=9) INFO 08-03 02:11:10 [loggers.py:273] Engine 000: Avg prompt throughput: 0.0 "
    "tokens/s, Avg generation throughput: 60.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV "
    "cache usage: 4.0%, Prefix cache hit rate: 0.0%",
    "(APIServer pid=9) INFO 08-03 02:11:10 [metrics.py:120] SpecDecoding metrics: Mean acceptance "
    "length: 2.00, Accepted throughput: 20.00 tokens/s, Drafted throughput: 60.00 tokens/s, "
    "Accepted: 200 tokens, Drafted: 600 tokens, Per-position acceptance rate: 0.500, 0.300, 0.200, "
    "Avg Draft acceptance rate: 33.3%",
]
BENCH = [
    "============ Serving Benchmark Result ============",
    "Mean TPOT (ms):                          5.33",
    "Mean ITL (ms):                           14.60",
    "---------------Speculative Decoding---------------",
    "Acceptance rate (%):                     57.97",
    "Acceptance length:                       2.74",
    "Drafts:                                  7000",
    "Draft tokens:                            21000",
    "Accepted tokens:                         12174",
    "Output token throughput (tok/s):         459.81",
]
STAMP = "2026-08-03T02:11:{:02d}.123456789Z"


def each(wrap: Callable[[str, int], object]) -> Callable[[Sequence[str]], str]:
    """A line of JSON a line of log."""
    return lambda lines: "\n".join(json.dumps(wrap(line, i)) for i, line in enumerate(lines))


def loki(lines: Sequence[str], newest_first: bool = True) -> str:
    values = [[str(1754187060 * 10**9 + i * 10**9), line] for i, line in enumerate(lines)]
    values = values[::-1] if newest_first else values
    streams = [{"stream": {"app": "vllm"}, "values": values}]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": streams}})


def gcp(lines: Sequence[str]) -> str:
    entries = [
        {"insertId": str(i), "textPayload": line, "timestamp": STAMP.format(i), "severity": "INFO",
         "resource": {"type": "k8s_container", "labels": {"pod": "vllm-0"}}}
        for i, line in enumerate(lines)
    ]  # fmt: skip
    return json.dumps(entries[::-1], indent=2)


CARRIERS: dict[str, Callable[[Sequence[str]], str | bytes]] = {
    "docker json-file": each(
        lambda line, i: {"log": line + "\n", "stream": "stderr", "time": STAMP.format(i)}
    ),
    "journald": each(
        lambda line, i: {"MESSAGE": line, "_PID": "9", "__REALTIME_TIMESTAMP": str(i)}
    ),
    "journald bytes": each(lambda line, i: {"MESSAGE": list(f"\x1b[32m{line}\x1b[0m".encode())}),
    "logcli jsonl": each(
        lambda line, i: {"labels": {"app": "v"}, "line": line, "timestamp": STAMP.format(i)}
    ),
    "splunk": each(
        lambda line, i: {"preview": False, "result": {"_raw": line, "_time": STAMP.format(i)}}
    ),
    "elastic": each(lambda line, i: {"_source": {"@timestamp": STAMP.format(i), "message": line}}),
    "json in json": each(
        lambda line, i: {"log": json.dumps({"msg": line, "level": "info"}) + "\n", "stream": "out"}
    ),
    "loki, newest first": loki,
    "loki, oldest first": lambda lines: loki(lines, newest_first=False),
    "grafana": lambda lines: json.dumps(
        [{"line": line, "timestamp": str(i), "fields": {}} for i, line in enumerate(lines)]
    ),
    "gcp": gcp,
    "compose": lambda lines: "\n".join(f"vllm-server-1  | {line}" for line in lines),
    "kubectl": lambda lines: "\n".join(f"[pod/vllm-0/server] {line}" for line in lines),
    "stern": lambda lines: "\n".join(f"vllm-7d9f8c6b5-x2k4p server {line}" for line in lines),
    "cri": lambda lines: "\n".join(
        f"{STAMP.format(i)} stdout F {line}" for i, line in enumerate(lines)
    ),
    "syslog": lambda lines: "\n".join(f"Aug  3 02:11:00 node7 vllm[9]: {line}" for line in lines),
    "logfmt": lambda lines: "\n".join(
        f"ts={STAMP.format(i)} level=info msg={json.dumps(line)} app=vllm"
        for i, line in enumerate(lines)
    ),
    "grep -n --color": lambda lines: "\n".join(
        f"\x1b[32m{i + 1}\x1b[m:"
        + line.replace("cceptance", "\x1b[01;31m\x1b[Kcceptance\x1b[m\x1b[K")
        for i, line in enumerate(lines)
    ),
    "crlf": lambda lines: "\r\n".join(lines),
    "utf-16": lambda lines: "\n".join(lines).encode("utf-16"),
    "utf-16 without its mark": lambda lines: "\n".join(lines).encode("utf-16-le"),
    "utf-16 big-endian without its mark": lambda lines: "\n".join(lines).encode("utf-16-be"),
    "sse": lambda lines: "\n\n".join(f"data: {json.dumps({'log': line})}" for line in lines),
}  # fmt: skip


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("many", [1, 6])
def test_a_log_is_the_same_in_every_carrier(carrier: str, many: int) -> None:
    (plain,) = read("\n".join(LINES * many))
    found = read(CARRIERS[carrier](LINES * many))
    (one,) = [reading for reading in found if reading.lane is None or reading.steps]
    assert (one.engine, one.format) == (plain.engine, plain.format)
    assert (one.steps, one.drafted, one.accepted) == (400 * many, 1200 * many, 440 * many)
    assert one.survival == pytest.approx(plain.survival)
    assert one.coverage == pytest.approx(plain.coverage)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_printed_table_is_the_same_in_every_carrier(carrier: str) -> None:
    """Its rows must begin with their names: what a carrier puts before them has to go."""
    (one,) = read(CARRIERS[carrier](BENCH))
    assert (one.steps, one.drafted, one.accepted) == (7000, 21000, 12174)


def test_what_a_model_says_is_no_log() -> None:
    """A chat about a vLLM log is not a vLLM log."""
    chat = {"choices": [{"message": {"role": "assistant", "content": "\n".join(LINES)}}]}
    with pytest.raises(ValueError, match="no speculation"):
        read(json.dumps(chat))


def test_a_line_that_sglang_prints_as_python() -> None:
    line = (
        "[2026-05-04 10:00:00] Finish: obj=GenerateReqInput(rid='a', stream=True), out={'text': "
        "'it\\'s', 'meta_info': {'id': 'a', 'finish_reason': {'type': 'length', 'length': 64}, "
        "'completion_tokens': 127, 'spec_verify_ct': 48, 'spec_accept_token_num': 79, "
        "'spec_draft_token_num': 240, 'spec_accept_histogram': [12, 15, 9, 6, 2, 4]}}"
    )
    (one,) = read(f"{line}\n{line}")
    assert (one.engine, one.steps, one.accepted, one.drafted) == ("sglang", 96, 158, 480)
    assert one.survival == pytest.approx((0.75, 0.4375, 0.25, 0.125, 4 / 48))


def test_bare_timings_in_an_array() -> None:
    """What a script keeps of llama.cpp's responses: the `timings` alone, one after another."""
    one = {"predicted_n": 200, "predicted_ms": 8000.0, "draft_n": 300, "draft_n_accepted": 120}
    (reading,) = read(json.dumps([one, one, one]))
    assert (reading.engine, reading.drafted, reading.accepted) == ("llama.cpp", 900, 360)
    assert reading.generated == 600
