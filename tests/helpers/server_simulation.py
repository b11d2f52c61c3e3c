"""A server step by step, to check the server law and the tails against."""

from __future__ import annotations

import numpy as np

from specmath.serving.pair import ServedPair
from specmath.steptime.prefill import prefill_seconds

__all__ = ["Simulation"]


class Simulation:
    """One server: each step emits up to γ+1 tokens for every sequence that decodes, and reads of
    the prompts that wait as many, or such a part of one, as its tokens hold. Nothing of the law is
    used: only seconds of steps."""

    def __init__(self, pair: ServedPair, prompt: int, chunk: int, gamma: int, most: int) -> None:
        sizes = np.arange(1, most + 1)
        steps = pair.seconds_grid(sizes, [pair.context_tokens], [gamma])[:, 0, 0]
        self.step = np.append(0.0, steps)
        place, own = pair.place, pair.drafter.prefill_place(pair.place) if gamma else None
        beside = np.arange(most + 1)
        each = [prefill_seconds(p, prompt, beside, chunk_tokens=chunk) for p in (place, own) if p]
        self.chunks, self.at_once = -(-prompt // chunk), max(1, chunk // prompt)
        self.part = (sum(each)) / self.chunks
        self.gamma, self.most = gamma, most

    def run(
        self, output: int, alpha: float, *, concurrency: int = 0, rate: float = 0.0,
        ended: int = 1500, seed: int = 1,
    ) -> tuple[float, float]:  # fmt: skip
        """(TPOT, TTFT) over `ended` requests, the first quarter left out, whose spans, tokens and
        gaps between chunks it then holds. Output lengths are uniform from half the mean to half
        more, so that requests do not march in step."""
        draw = np.random.default_rng(seed)
        now, upcoming = 0.0, np.inf if concurrency else 0.0
        waiting: list[float] = [0.0] * concurrency  # when each prompt came
        read = 0  # chunks of the first one that are read
        left, lengths, arrived, first = (np.zeros(0) for _ in range(4))
        done: list[tuple[float, float, float]] = []
        gaps: list[tuple[float, int]] = []
        while len(done) < ended:
            while upcoming <= now or not (waiting or left.size):
                now = max(now, upcoming)
                waiting.append(upcoming)
                upcoming += draw.exponential(1.0 / rate)
            reads = min(len(waiting), self.at_once, self.most - left.size)
            took = self.step[left.size] + reads * self.part[left.size]
            now += took
            gaps.append((took, left.size))
            accepted = draw.geometric(1.0 - alpha, left.size) - 1
            left = left - 1 - np.minimum(accepted, self.gamma)
            gone = left <= 0
            for length, came, start in zip(lengths[gone], arrived[gone], first[gone], strict=True):
                done.append((now - start, length - 1, start - came))
            waiting += [now] * (int(gone.sum()) if concurrency else 0)
            left, lengths, arrived, first = (a[~gone] for a in (left, lengths, arrived, first))
            read += 1 if reads else 0
            if reads and read == self.chunks:
                read, new = 0, draw.integers(output // 2, output * 3 // 2, reads).astype(float)
                arrived, waiting = np.append(arrived, waiting[:reads]), waiting[reads:]
                left, lengths = np.append(left, new - 1), np.append(lengths, new)
                first = np.append(first, np.full(reads, now))
        spans, tokens, firsts = np.array(done[ended // 4 :]).T
        self.spans, self.tokens = spans, tokens
        seconds, sequences = np.array(gaps[len(gaps) // 4 :]).T
        self.gaps = np.repeat(seconds, sequences.astype(int))
        return float(spans.sum() / tokens.sum()), float(firsts.mean())
