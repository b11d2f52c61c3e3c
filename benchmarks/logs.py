"""How fast a large log streams, and in how much memory: `python -m benchmarks.logs --gigabytes 1`.

The synthetic log mixes access-log lines with vLLM and SGLang statistics lines. `--every` sets how
many lines stand between two statistics lines: 20 is a busy server, 1 is nothing but statistics.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from specmath.logs.detect import read

NOISE = (
    '(APIServer pid=4021) INFO:     10.0.0.{i}:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "(EngineCore pid=4100) DEBUG 09-14 10:00:{i:02d} [core.py:88] scheduled {i}, free 91.2%",
    "2026-09-14T10:00:{i:02d}Z INFO gateway request_id=7f{i:02d}ab9c route=/v1/chat tokens_in=812",
)
SPECULATION = (
    "(APIServer pid=4021) INFO 09-14 10:00:{i:02d} [loggers.py:257] Engine 000: Avg prompt "
    "throughput: 812.4 tokens/s, Avg generation throughput: 165.9 tokens/s, Running: 8 reqs",
    "(APIServer pid=4021) INFO 09-14 10:00:{i:02d} [metrics.py:100] SpecDecoding metrics: Mean "
    "acceptance length: 2.71, Accepted throughput: 104.70 tokens/s, Drafted throughput: 183.60 "
    "tokens/s, Accepted: 1047 tokens, Drafted: 1836 tokens, Per-position acceptance rate: 0.812, "
    "0.562, 0.337, Avg Draft acceptance rate: 57.0%",
    "[2026-05-04 10:00:{i:02d} TP0] Decode batch, #running-req: 8, #token: 4388, token usage: "
    "0.03, accept len: 2.73, accept rate: 0.58, cuda graph: True, gen throughput "
    "(token/s): 1662.00",
)


def block(every: int) -> bytes:
    """About a megabyte of log."""
    lines: list[str] = []
    size = 0
    while size < 1 << 20:
        number = len(lines)
        source = SPECULATION if number % every == 0 else NOISE
        line = source[(number // every if source is SPECULATION else number) % 3]
        lines.append(line.format(i=number % 60) + "\n")
        size += len(lines[-1])
    return "".join(lines).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    data = block(options.every)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        with path.open("wb") as out:
            for _ in range(max(round(options.gigabytes * 1e9 / len(data)), 1)):
                out.write(data)
        size = path.stat().st_size
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, cpu = time.perf_counter(), time.process_time()
        readings = read(path)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{size / 1e6:.0f} MB in {seconds:.2f} s: {size / 1e6 / seconds:.0f} MB/s")
    print(f"{cpu:.2f} s of processor time: {size / 1e6 / cpu:.0f} MB/s on a core of its own")
    print(
        f"peak memory {peak / 1024:.0f} MiB, {(peak - before) / 1024:.0f} MiB of it while reading"
    )
    for reading in readings:
        windows = len(reading.windows)
        print(
            f"  {reading.engine}, {reading.format}: tau {reading.tokens_per_step:.3f}, {windows=}"
        )


if __name__ == "__main__":
    main()
