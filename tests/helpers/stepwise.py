"""Continuous batching the slow way, one step after the other and one sequence after the other: what
the simulation is held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specmath.serving.replica import SPACING, Replica
from specmath.steptime.prefill import LEAST_CHUNK
from specmath.traffic import Traffic


@dataclass
class Request:
    """One request and where it stands."""

    number: int
    arrival: float
    prompt: int
    output: int
    prefix: int
    part: int = 0
    emitted: int = 0
    cached: int = 0
    to_read: int = 0
    first: float = -1.0
    last: float = -1.0


@dataclass
class Stepwise:
    """The answer, and what was seen on the way: batches and tokens held after each step."""

    requests: list[Request]
    starts: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    read: int = 0
    preemptions: int = 0

    def times(self, name: str) -> Any:
        """`ttft` or `e2e` of every request."""
        end = "first" if name == "ttft" else "last"
        return np.array([getattr(r, end) - r.arrival for r in self.requests])


def stepwise(replica: Replica, traffic: Traffic, seed: int = 0) -> Stepwise:
    """Serve the traffic."""
    rng = np.random.default_rng(seed)
    block, most = replica.block_tokens, replica.most_sequences
    prefixes = (
        np.floor(replica.prefix_hit * traffic.prompt_tokens)
        if traffic.prefix_tokens is None
        else traffic.prefix_tokens
    )
    requests = [
        Request(i, float(t), int(p), int(n), max(0, min(int(k), int(p) - 1)))
        for i, (t, p, n, k) in enumerate(
            zip(
                traffic.seconds, traffic.prompt_tokens, traffic.output_tokens, prefixes, strict=True
            )
        )
    ]
    for r in requests:
        r.part = int(rng.choice(len(replica.shares), p=replica.shares))
    found = Stepwise(requests)
    closed = traffic.concurrency
    coming = list(requests)
    waiting: list[Request] = []
    running: list[Request] = []
    now = begun = 0.0
    incoming: list[Request] = []

    def blocks(tokens: int) -> int:
        return (tokens + block - 1) // block * block

    def decoding() -> list[Request]:
        return [r for r in running if r.cached >= r.to_read]

    def used(ahead: int) -> int:
        return sum(blocks(r.cached + (ahead if r.cached >= r.to_read else 0)) for r in running)

    def preempt() -> None:
        last = running.pop()
        last.cached = last.to_read = 0
        waiting.insert(0, last)
        found.preemptions += 1

    if closed is not None:
        for _ in range(min(closed, len(coming))):
            incoming.append(coming.pop(0))
    else:
        incoming, coming = coming, []
    while incoming or waiting or running:
        seen = begun if replica.plans_ahead else now
        while incoming and incoming[0].arrival <= seen:
            waiting.append(incoming.pop(0))
        if not waiting and not running:
            now = begun = max(now, incoming[0].arrival)
            continue
        while (
            len(running) > 1 and used(1 + int(replica.gammas[len(decoding())])) > replica.kv_tokens
        ):
            preempt()
        batch = len(decoding())
        ahead = 1 + int(replica.gammas[batch])
        room = max(replica.chunk_tokens - batch * ahead, min(LEAST_CHUNK, replica.chunk_tokens))
        chunks: list[tuple[Request, int]] = []
        taken = 0
        for r in list(running):
            if r not in running or r.cached >= r.to_read or room == 0:
                continue
            size = min(r.to_read - r.cached, room)
            more = blocks(r.cached + size) - blocks(r.cached)
            while used(ahead) + taken + more > replica.kv_tokens and running[-1] is not r:
                preempt()
            if used(ahead) + taken + more > replica.kv_tokens:
                break
            chunks.append((r, size))
            room, taken = room - size, taken + more
        while waiting and room > 0 and len(running) < most:
            r = waiting[0]
            target = r.prompt + r.emitted
            size = min(max(target - r.prefix, 1), room)
            more = blocks(r.prefix + size)
            if used(ahead) + taken + more > replica.kv_tokens:
                break
            waiting.pop(0)
            r.cached, r.to_read = r.prefix, max(target, 1)
            running.append(r)
            chunks.append((r, size))
            room, taken = room - size, taken + more - blocks(r.prefix)
        those = [r for r in decoding() if r not in [c[0] for c in chunks]]
        batch = len(those)
        context = sum(r.cached for r in those)
        seconds = float(replica.steps[batch] + replica.reads[batch] * context)
        read = sum(size for _, size in chunks)
        if read:
            beside = max(batch, 1)
            seconds += replica.reads_beside(beside, read)
        for r, size in chunks:
            over = np.arange(len(replica.attention)) * float(SPACING)
            seconds += size * float(np.interp(r.cached + size / 2, over, replica.attention))
        found.starts.append(now)
        found.seconds.append(seconds)
        found.batches.append(batch)
        found.read += read
        begun = now
        now += seconds
        ended = []
        for r in those:
            pmf = replica.pmfs[int(replica.gammas[batch])][r.part]
            tokens = 1 if len(pmf) == 1 else int(rng.choice(len(pmf), p=pmf)) + 1
            tokens = min(tokens, r.output - r.emitted)
            r.emitted += tokens
            r.cached += tokens
            r.to_read = min(r.to_read, r.cached)
            if r.emitted == r.output:
                ended.append(r)
        for r, size in chunks:
            r.cached += size
            if r.cached >= r.to_read:
                r.emitted += 1
                if r.first < 0:
                    r.first = now
                if r.emitted == r.output:
                    ended.append(r)
        found.held.append(used(0))
        for r in ended:
            r.last = now
            running.remove(r)
            if closed is not None and coming:
                following = coming.pop(0)
                following.arrival = now
                incoming.append(following)
    return found
