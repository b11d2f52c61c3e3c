"""How fast large logs stream, and in how much memory: `python -m benchmarks.logs`.

For each engine a busy server's log, in which one line in 20 is a statistics line, and the worst
case: nothing but statistics lines, hardly two alike; both also as docker's json-file wraps them;
and lines of JSON in which there is nothing to read. Each is read in a process of its own, so that
its peak memory is its own; the first 16 MB are repeated, which is a restart of the server.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from specmath.logs import LogError, read

NOISE = (
    '(APIServer pid=4021) INFO:     10.0.0.{i}:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "(EngineCore pid=4100) DEBUG 09-14 10:00:{i:02d} [core.py:88] scheduled {i}, free 91.2%",
    "2026-09-14T10:00:{i:02d}Z INFO gateway request_id=7f{i:02d}ab9c route=/v1/chat tokens_in=812",
)
BLOCK = 16 << 20


def clock(second: int) -> str:
    return f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def vllm(rng: random.Random) -> Iterator[str]:
    """The two lines that vLLM prints every ten seconds, γ=3."""
    for second in range(0, 1 << 40, 10):
        steps, alpha = rng.randint(300, 900), rng.uniform(0.7, 0.8)
        counts = [round(steps * alpha**i) for i in (1, 2, 3)]
        accepted, drafted = sum(counts), 3 * steps
        head = f"(APIServer pid=4021) INFO 09-14 {clock(second)}"
        yield (
            f"{head} [loggers.py:257] Engine 000: Avg prompt throughput: "
            f"{rng.uniform(10, 999):.1f} tokens/s, Avg generation throughput: "
            f"{(accepted + steps) / 10:.1f} tokens/s, Running: {rng.randint(1, 64)} reqs, Waiting: "
            f"0 reqs, GPU KV cache usage: {rng.uniform(1, 90):.1f}%, Prefix cache hit rate: 12.1%"
        )
        yield (
            f"{head} [metrics.py:100] SpecDecoding metrics: Mean acceptance length: "
            f"{1 + accepted / steps:.2f}, Accepted throughput: {accepted / 10:.2f} tokens/s, "
            f"Drafted throughput: {drafted / 10:.2f} tokens/s, Accepted: {accepted} tokens, "
            f"Drafted: {drafted} tokens, Per-position acceptance rate: "
            f"{', '.join(f'{count / steps:.3f}' for count in counts)}, Avg Draft acceptance rate: "
            f"{100 * accepted / drafted:.1f}%"
        )


def sglang(rng: random.Random) -> Iterator[str]:
    """SGLang's decode lines, four draft tokens."""
    for second in range(1 << 40):
        length = rng.uniform(2.4, 3.1)
        yield (
            f"[2026-05-04 {clock(second)} TP0] Decode batch, #running-req: {rng.randint(1, 64)}, "
            f"#token: {rng.randint(1000, 90000)}, token usage: {rng.random():.2f}, accept len: "
            f"{length:.2f}, accept rate: {(length - 1) / 3:.2f}, cuda graph: True, gen throughput "
            f"(token/s): {rng.uniform(100, 5000):.2f}, #queue-req: 0, "
        )


def llamacpp(rng: random.Random) -> Iterator[str]:
    """What llama.cpp's server prints at the end of each request."""
    totals = [0, 0, 0]
    for number in range(1 << 40):
        steps = rng.randint(20, 200)
        accepted, drafted = sum(rng.randint(0, steps) for _ in range(4)), 4 * steps
        totals = [old + new for old, new in zip(totals, (steps, drafted, accepted), strict=True)]
        head = f"{number // 60}.{number % 60:02d}.204.190 I "
        slot = f"{head}slot print_timing: id  {number % 4} | task {number} |"
        yield (
            f"{slot} prompt eval time = {rng.uniform(100, 900):10.2f} ms /    39 tokens (   15.57 "
            "ms per token,    64.21 tokens per second)"
        )
        yield (
            f"{slot}        eval time = {rng.uniform(1000, 9000):10.2f} ms / "
            f"{accepted + steps + 1:5d} tokens (   42.16 ms per token,    23.72 tokens per second)"
        )
        yield f"{slot}       total time =    2926.02 ms /    95 tokens"
        yield (
            f"{slot} draft acceptance = {accepted / drafted:.5f} ({accepted:5d} accepted / "
            f"{drafted:5d} generated), mean len = {1 + accepted / steps:5.2f}"
        )
        yield (
            f"{head}statistics     draft-eagle3: #calls(b,g,a) = {number:4d} {totals[0]:6d} "
            f"{totals[0]:6d}, #gen drafts = {totals[0]:6d}, #acc drafts = {totals[0] // 2:5d}, "
            f"#gen tokens = {totals[1]:6d}, #acc tokens = {totals[2]:5d}, #mean acc len = "
            f"{1 + totals[2] / totals[0]:.2f}, #acc rate/pos = (0.825, 0.483, 0.283, 0.125), "
            f"dur(b,g,a) = 0.009, {412 + 0.7 * number:.3f}, 0.171 ms"
        )


ENGINES: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "vllm": vllm, "sglang": sglang, "llama.cpp": llamacpp,
}  # fmt: skip
EVERY = {"realistic": 20, "worst": 1}
PLAIN_JSON = "json"
"""Lines of `{"a":1}`: nothing to read, and as many lines as there can be."""


def wrapped(line: str) -> str:
    """A line as docker's json-file keeps it."""
    more = {"stream": "stderr", "time": "2026-09-14T10:00:00.123456789Z"}
    return json.dumps({"log": f"{line}\n"} | more, separators=(",", ":"))


def blocks(engine: str, every: int, wrap: bool = False) -> Iterator[bytes]:
    """16 MB of log, and again and again."""
    if engine == PLAIN_JSON:
        while True:
            yield b'{"a":1}\n' * (BLOCK // 8)
    rng = random.Random(0)
    lines: list[str] = []
    size = 0
    for number, line in enumerate(ENGINES[engine](rng)):
        lines.append(line)
        lines += (NOISE[(number + i) % 3].format(i=i) for i in range(every - 1))
        if wrap:
            lines[-every:] = map(wrapped, lines[-every:])
        size += sum(map(len, lines[-every:])) + every
        if size >= BLOCK:
            break
    data = ("\n".join(lines) + "\n").encode()
    while True:
        yield data


def write(path: Path, engine: str, case: str, megabytes: float) -> None:
    kind, _, wrap = case.partition(", ")
    with path.open("wb") as out:
        for data in blocks(engine, EVERY.get(kind, 1), bool(wrap)):
            out.write(data)
            if out.tell() >= megabytes * 1e6:
                return


def peak_mib() -> float:
    """Most memory this process has held. getrusage would count the parent's too, from before."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmHWM in /proc/self/status: Linux only")


def measure(path: Path) -> None:
    """Read the file and print: MB/s by the clock and of processor time, memory, what was found."""
    size = path.stat().st_size / 1e6
    before = peak_mib()
    start, cpu = time.perf_counter(), time.process_time()
    try:
        readings = read(path)
    except LogError:
        readings = []
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = peak_mib()
    windows = max((len(reading.windows) for reading in readings), default=0)
    tokens = readings[0].tokens_per_step if readings else None
    told = "nothing to read" if tokens is None else f"tau {tokens:.3f}, {windows} windows"
    print(
        f"{size:5.0f} MB {size / seconds:8.0f} {size / cpu:10.0f} {peak:9.0f} "
        f"{peak - before:8.0f}   {told}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--file", type=Path, help="Read this log instead.")
    options = parser.parse_args()
    if options.file:
        measure(options.file)
        return
    print(
        "log                              size     MB/s       MB/s  peak MiB   MiB of\n"
        "                                       (clock)  of a core           reading"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        cases = [case for kind in EVERY for case in (kind, f"{kind}, docker")]
        each = [(engine, case) for engine in ENGINES for case in cases]
        for engine, case in (*each, (PLAIN_JSON, "alone")):
            write(path, engine, case, options.megabytes)
            print(f"{engine:10} {case:18}", end=" ", flush=True)
            command = [sys.executable, "-m", "benchmarks.logs", "--file", str(path)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
