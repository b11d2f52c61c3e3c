"""A server watched as it runs: what an interval tells, when a look alarms, how often falsely."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.readings import make_reading

from specmath.checks import InputError
from specmath.cli import cli
from specmath.logs import Reading
from specmath.review.watch import Watch

STEPS = 400


def interval(rng: np.random.Generator, alpha: float, gamma: int = 3) -> Reading:
    """One window of STEPS steps, each a chain of γ tokens with that α."""
    tried = rng.random((STEPS, gamma)) < alpha
    reached = np.cumprod(tried, axis=1).sum(axis=0)
    return make_reading(
        "vllm", "made", steps=STEPS, drafted=STEPS * gamma, accepted=int(reached.sum()),
        survival=tuple((reached / STEPS).tolist()), gamma=gamma,
    )  # fmt: skip


def test_it_learns_then_looks() -> None:
    rng = np.random.default_rng(1)
    watch = Watch(learn=20, look=10)
    told = [watch.take([interval(rng, 0.7)]) for _ in range(60)]
    assert [each.learning for each in told[:3]] == [19, 18, 17]
    assert [n for n, each in enumerate(told, start=1) if each.found is not None] == [30, 40, 50, 60]
    assert watch.alarms == 0


def test_a_fall_is_seen_at_the_next_look() -> None:
    rng = np.random.default_rng(2)
    watch = Watch(learn=40, look=20)
    for alpha in (0.75,) * 60 + (0.65,) * 20:
        last = watch.take([interval(rng, alpha)])
    assert last.found is not None
    assert last.found.fallen
    assert watch.alarms == 1


@pytest.mark.slow
def test_false_alarms_are_no_more_than_stated() -> None:
    """2,000 looks at a rate of 0.05: at most 0.05 + 3 standard errors of that many."""
    rng, alarms, looks = np.random.default_rng(3), 0, 0
    for _ in range(200):
        watch = Watch(learn=40, look=20, rate=0.05)
        for _ in range(240):
            looks += watch.take([interval(rng, 0.7)]).found is not None
        alarms += watch.alarms
    assert looks == 2000
    assert alarms / looks <= 0.05 + 3 * (0.05 * 0.95 / looks) ** 0.5


def test_an_interval_without_drafts_is_no_window() -> None:
    watch = Watch(learn=10, look=10)
    told = watch.take([])
    assert (told.reading, told.found, told.learning) == (None, None, 10)


@pytest.mark.parametrize("bad", [{"learn": 5}, {"look": 0}, {"rate": 0.0}, {"rate": 0.7}])
def test_bad_settings_are_named(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        Watch(**bad)  # type: ignore[arg-type]


def line(n: int, accepted: int) -> str:
    share = accepted / 1000
    return (
        f"INFO 09-14 10:{n:02d}:00 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: "
        f"{1 + share:.2f}, Accepted throughput: 10.00 tokens/s, Drafted throughput: 100.00 "
        f"tokens/s, Accepted: {accepted} tokens, Drafted: 1000 tokens, Per-position acceptance "
        f"rate: {share:.3f}, Avg Draft acceptance rate: {100 * share:.1f}%\n"
    )


def test_a_log_is_followed_as_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(line(n, 700 + n) for n in range(30)) + line(30, 700)[:40])
    ran = CliRunner().invoke(
        cli, ["logs", "watch", str(log), "--every", "0.05", "--intervals", "2", "--learn", "20"]
    )
    head, first, second = ran.output.splitlines()
    assert "tokens a step" in head
    assert "1.71" in first
    assert second.split()[1] == "-"  # half a line is none yet
    assert ran.exit_code == 0
    missing = CliRunner().invoke(cli, ["logs", "watch", str(tmp_path / "no.log")])
    assert missing.exception is not None


class _Page(BaseHTTPRequestHandler):
    asked = count(1)

    def do_GET(self) -> None:
        n = next(self.asked)
        text = "".join(
            f'vllm:{name}{{engine="0",model_name="m"}} {value * n}\n'
            for name, value in (
                ("spec_decode_num_drafts_total", 1000),
                ("spec_decode_num_draft_tokens_total", 3000),
                ("spec_decode_num_accepted_tokens_total", 1500),
                ("generation_tokens_total", 2500),
            )
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_metrics_page_is_followed(address: str) -> None:
    """Each scrape is 1000 steps and 1500 accepted tokens more: 2.5 tokens a step."""
    ran = CliRunner().invoke(
        cli, ["logs", "watch", f"{address}/metrics", "--every", "0.05", "--intervals", "3"]
    )
    assert ran.exit_code == 0, ran.output
    rows = ran.output.splitlines()[1:]
    assert [row.split()[1] for row in rows] == ["-", "2.50", "2.50"]
    assert "learning, 58 windows to go" in rows[-1]
