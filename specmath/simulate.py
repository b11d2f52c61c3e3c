"""Continuous batching of one replica, request by request: what a mean field does not know.

A server takes steps. In each, the sequences that decode come first, and prompts fill what is left
of the tokens of a step, in the order of arrival; a prompt's last chunk emits its first token. A
request is let in while a step has room for its sequence and the cache for its next chunk. Where the
cache runs out, the one let in last gives up its blocks and is read again later, with its output.

While nobody's prompt is read and nobody comes or goes, plain decoding repeats one step with a cache
that grows by B tokens: m steps are taken at once, the last of them the first that ends at or after
the next arrival, or in which a request ends:

    m steps take m s + r B m (m−1) / 2          s: the next step, r: seconds a token in the cache

With speculation each sequence draws the tokens of every step from P(L = n).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from specmath.checks import FloatArray, InputError, IntArray, real, whole
from specmath.serving.replica import SPACING, Replica
from specmath.steptime.prefill import LEAST_CHUNK
from specmath.traffic import Traffic

__all__ = ["WARM_UP", "Simulated", "simulate"]

WARM_UP = 0.1
"""Share of the requests, the first ones, that fill an empty server and are not counted."""

DRAWN = 1 << 14
"""Tokens of a step that are drawn at once."""

TOLD = 1000
"""Requests between two words of progress."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """What the counted requests met; arrays over them in the order of arrival, seconds.

    Attributes
    ----------
    arrival, ttft, e2e
        When it came; until its first token, and until its last.
    output_tokens
        Of each.
    batch, in_flight
        Mean sequences that decode, and requests that are there, over the time in which the counted
        ones came.
    busy
        Share of that time in which a step was under way.
    throughput, request_rate
        Output tokens, and requests, that ended a second of that time.
    most_held
        The most of the cache that was in use, in (0, 1].
    preemptions
        How often a sequence lost its cache.
    seconds
        From the first arrival to the end of the last request.
    steps
        Steps taken.
    """

    arrival: FloatArray
    ttft: FloatArray
    e2e: FloatArray
    output_tokens: IntArray
    batch: float
    in_flight: float
    busy: float
    throughput: float
    request_rate: float
    most_held: float
    preemptions: int
    seconds: float
    steps: int

    @property
    def tpot(self) -> FloatArray:
        """Mean time per token after the first, of the requests that have more than one."""
        more = self.output_tokens > 1
        return np.asarray((self.e2e - self.ttft)[more] / (self.output_tokens[more] - 1))

    def mean(self, name: str) -> float:
        """Of `ttft`, `tpot` or `e2e`; nan where no request has it."""
        values = getattr(self, name)
        return float(np.mean(values)) if len(values) else math.nan

    def quantile(self, name: str, q: float) -> float:
        """The same."""
        values = getattr(self, name)
        return float(np.quantile(values, q)) if len(values) else math.nan


def simulate(
    replica: Replica,
    traffic: Traffic,
    *,
    seed: int = 0,
    warm_up: float = WARM_UP,
    told: Callable[[int, int], None] | None = None,
) -> Simulated:
    """Serve that traffic.

    Parameters
    ----------
    replica
        One arm of a server.
    traffic
        Requests; of a closed loop each follows one that ended.
    seed
        Of the tokens that steps emit, and of the part of the acceptance that a request is of: the
        same seed gives the same answer.
    warm_up
        Share of the requests that is not counted, in [0, 1).
    told
        Called with the requests that have ended and all of them.

    Returns
    -------
    Simulated
        Requests that come last end in a server that empties: they are counted, and the means over
        time end with the last arrival.

    Raises
    ------
    InputError
        A request that the cache cannot hold alone, or a value outside its range.

    References
    ----------
    Continuous batching: Orca, Yu et al. 2022. Chunked prefill: Sarathi-Serve, Agrawal et al. 2024,
    arXiv 2403.02310. Blocks and recomputation: vLLM, Kwon et al. 2023, arXiv 2309.06180.
    """
    share = float(real("warm_up", warm_up, 0, 1))
    skipped = min(int(share * len(traffic)), len(traffic) - 1)
    rng = np.random.default_rng([int(whole("seed", seed, 0)), 1])
    return _Server(replica, traffic, rng, skipped, told).run()


class _Server:
    """The state of a server between two steps.

    A request is waiting, being read, or decoding; `running` holds the last two in the order in
    which they were let in. `left`: tokens that it has still to emit, `cached`: its tokens in the
    cache; while it decodes plainly both stand as they were when it began, and `until` − `taken`
    tokens are left: `taken` counts the steps in which anybody decoded.
    """

    def __init__(
        self, replica: Replica, traffic: Traffic, rng: np.random.Generator, skipped: int,
        told: Callable[[int, int], None] | None,
    ) -> None:  # fmt: skip
        r, count = replica, len(traffic)
        self.replica, self.traffic, self.rng, self.told = replica, traffic, rng, told
        self.skipped, self.count = skipped, count
        self.arrival: list[float] = traffic.seconds.tolist()
        self.prompt: list[int] = traffic.prompt_tokens.tolist()
        self.output: list[int] = traffic.output_tokens.tolist()
        own = traffic.prefix_tokens
        prefix = np.floor(r.prefix_hit * traffic.prompt_tokens) if own is None else own
        # The last token of a prompt is always computed: the first one follows from it.
        prefix = np.maximum(np.minimum(prefix, traffic.prompt_tokens - 1), 0)
        self.prefix: list[int] = prefix.astype(np.int64).tolist()
        self.left, self.first, self.last = list(self.output), [-1.0] * count, [-1.0] * count
        self.cached, self.target, self.until = [0] * count, [0] * count, [0] * count
        self.steps: list[float] = r.steps.tolist()
        self.reads: list[float] = r.reads.tolist()
        self.forward: list[float] = r.forward.tolist()
        self.attention: list[float] = r.attention.tolist()
        self.gammas: list[int] = r.gammas.tolist()
        self.plain, self.ahead = not r.speculates, r.plans_ahead
        self._check_sizes()
        self.waiting: deque[int] = deque()
        self.reading: deque[int] = deque()
        self.running: dict[int, None] = {}
        self.decoding: dict[int, None] = {}
        self.ends: list[tuple[int, int]] = []
        # `begun`: when the last step did; `known` requests have been seen, of `next` that came.
        self.now, self.begun = 0.0, 0.0
        self.taken = self.context = self.done = self.known = self.next = 0
        self.decoded_time = self.busy = 0.0
        self.most_held = self.preemptions = self.count_steps = 0
        self._draw_parts()
        self.closed = traffic.concurrency is not None
        self.begins, self.closes = self.arrival[skipped], self.arrival[-1]
        if traffic.concurrency is not None and skipped >= traffic.concurrency:
            self.begins = math.inf  # known when it comes
        if self.closes == self.arrival[0]:
            self.closes = math.inf

    def _check_sizes(self) -> None:
        """InputError where one request alone is more than the cache."""
        ahead = 1 + max(self.gammas)
        sizes = self.traffic.prompt_tokens + self.traffic.output_tokens + ahead
        at, block = int(np.argmax(sizes)), self.replica.block_tokens
        if -(-int(sizes[at]) // block) * block > self.replica.kv_tokens:
            raise InputError(
                f"a request of {self.prompt[at]:,} + {self.output[at]:,} tokens does not fit in "
                f"the cache, which holds {self.replica.kv_tokens:,}"
            )

    def _draw_parts(self) -> None:
        shares = self.replica.shares
        self.part: list[int] = [0] * self.count
        if len(shares) > 1:
            self.part = self.rng.choice(len(shares), self.count, p=shares).tolist()
        self.pools: dict[tuple[int, int], list[int]] = {}

    # ── the run ──────────────────────────────────────────────────────────────────────────────

    def run(self) -> Simulated:
        """Step until the last request has ended."""
        self.next = min(self.traffic.concurrency or self.count, self.count)
        said = 0
        while self.done < self.count:
            self._arrive()
            chunks = self._schedule()
            if chunks:
                self._mixed(chunks)
            elif not self.decoding:
                self.now = self.begun = max(self.now, self.arrival[self.known])
            elif self.plain and not self.reading:  # else one waits for blocks
                self._jump()
            else:
                self._make_room()
                self._decode(self._seconds())
            if self.told is not None and self.done - said >= TOLD:
                said = self.done
                self.told(said, self.count)
        return self._result()

    def _arrive(self) -> None:
        """See those that came before the next step was planned: where an engine plans one ahead,
        before the last one began."""
        arrival, at, until = self.arrival, self.known, self.begun if self.ahead else self.now
        while at < self.next and arrival[at] <= until:
            self.waiting.append(at)
            at += 1
        self.known = at

    def _schedule(self) -> list[tuple[int, int]]:
        """Prompts of the next step: (request, tokens), those begun first."""
        if not self.reading and not self.waiting:
            return []
        r, decoding = self.replica, len(self.decoding)
        if decoding:
            self._make_room()
            decoding = len(self.decoding)
        ahead = 1 + self.gammas[decoding]
        room = max(r.chunk_tokens - decoding * ahead, min(LEAST_CHUNK, r.chunk_tokens))
        chunks, added = [], 0
        for i in tuple(self.reading):
            if i not in self.running or not room:
                continue
            size = min(self.target[i] - self.cached[i], room)
            more = self._blocks(self.cached[i] + size) - self._blocks(self.cached[i])
            while not self._fits(ahead, added + more) and next(reversed(self.running)) != i:
                self._preempt()
            if not self._fits(ahead, added + more):
                break
            chunks.append((i, size))
            room, added = room - size, added + more
        while self.waiting and room > 0 and len(self.running) < r.most_sequences:
            i = self.waiting[0]
            target, hit = self.prompt[i] + self.output[i] - self.left[i], self.prefix[i]
            size = min(max(target - hit, 1), room)
            more = self._blocks(hit + size)
            if not self._fits(ahead, added + more):
                break
            self.waiting.popleft()
            self.target[i], self.cached[i] = max(target, 1), hit
            self.running[i] = None
            self.reading.append(i)
            chunks.append((i, size))
            # Its blocks do not count as held before it is read.
            room, added = room - size, added + more - self._blocks(hit)
        return chunks

    def _mixed(self, chunks: list[tuple[int, int]]) -> None:
        """A step that reads prompts; whoever decodes takes it too."""
        beside = max(len(self.decoding), 1)
        read = sum(size for _, size in chunks)
        seconds = self._seconds() + (
            self.forward[beside + read] - self.forward[beside]
            if beside + read < len(self.forward)
            else self.replica.reads_beside(beside, read)
        )
        for i, size in chunks:
            seconds += size * self._attends(self.cached[i] + size / 2)
        for i, size in chunks:
            self.cached[i] += size
        self._decode(seconds)
        for i, _ in chunks:
            if self.cached[i] < self.target[i]:
                continue
            self.reading.remove(i)
            if self.first[i] < 0:
                self.first[i] = self.now
            self.left[i] -= 1
            if self.left[i] <= 0:
                self._end(i)
                continue
            self.decoding[i] = None
            self.context += self.cached[i]
            if self.plain:
                self.until[i] = self.taken + self.left[i]
                heappush(self.ends, (self.until[i], i))

    def _decode(self, seconds: float) -> None:
        """One step of so many seconds: everybody who decodes gets what it emits."""
        batch = len(self.decoding)
        self._pass(seconds, batch)
        self.count_steps += 1
        if not batch:
            return
        self.taken += 1
        if self.plain:
            self.context += batch
            self._end_due()
            return
        gamma, left, emitted = self.gammas[batch], self.left, 0
        ended = []
        for i in self.decoding:
            pool = self.pools.get((gamma, self.part[i])) or self._draw(gamma, self.part[i])
            tokens = pool.pop()
            if tokens >= left[i]:
                tokens = left[i]
                ended.append(i)
            left[i] -= tokens
            self.cached[i] += tokens
            emitted += tokens
        self.context += emitted
        for i in ended:
            self._leave(i)
            self._end(i)

    def _jump(self) -> None:
        """As many plain steps as change nothing but the cache, at once."""
        batch = len(self.decoding)
        step, grows = self._seconds(), self.reads[batch] * batch
        most = self.ends[0][0] - self.taken
        block = self.replica.block_tokens
        # A sequence holds at most one block less a token beyond its own.
        fits = (self.replica.kv_tokens - self.context) // batch - block
        if fits < 1:
            self._make_room()
            self._decode(self._seconds())
            return
        most = min(most, fits)
        if self.known < self.next:
            wait = self.arrival[self.known] - self.now
            ahead = self.ahead and wait > 0
            most = min(most, _steps_until(wait, step, grows, most) + ahead)
        self._pass(most * step + grows * (most * (most - 1) / 2), batch)
        self.begun = self.now - step - grows * (most - 1)
        self.count_steps += most
        self.taken += most
        self.context += batch * most
        self._end_due()

    def _end_due(self) -> None:
        """Plain sequences whose last token has come."""
        ends = self.ends
        while ends and ends[0][0] <= self.taken:
            due, i = heappop(ends)
            if self.until[i] == due:
                # Preempted and soon read again, it may stand here twice with the same end.
                self.until[i] = -1
                self.cached[i] += self.left[i]
                self.left[i] = 0
                self._leave(i)
                self._end(i)
        self._drop_stale()

    def _drop_stale(self) -> None:
        """Ends of those that were preempted."""
        ends = self.ends
        while ends and self.until[ends[0][1]] != ends[0][0]:
            heappop(ends)

    def _leave(self, i: int) -> None:
        del self.decoding[i]
        self.context -= self.cached[i]

    def _end(self, i: int) -> None:
        self.last[i] = self.now
        del self.running[i]
        self.done += 1
        if self.closed and self.next < self.count:
            self.arrival[self.next] = self.now
            if self.next == self.skipped:
                self.begins = self.now
            if self.next == self.count - 1:
                self.closes = self.now
            self.next += 1

    # ── time and memory ──────────────────────────────────────────────────────────────────────

    def _seconds(self) -> float:
        batch = len(self.decoding)
        return self.steps[batch] + self.reads[batch] * self.context

    def _attends(self, context: float) -> float:
        low = min(int(context / SPACING), len(self.attention) - 2)
        share = context / SPACING - low
        return self.attention[low] * (1.0 - share) + self.attention[low + 1] * share

    def _pass(self, seconds: float, batch: int) -> None:
        """Time goes on; what is counted of it lies between `begins` and `closes`."""
        start, end = max(self.now, self.begins), min(self.now + seconds, self.closes)
        if end > start:
            self.decoded_time += (end - start) * batch
            self.busy += end - start
        self.begun = self.now
        self.now += seconds

    def _blocks(self, tokens: int) -> int:
        block = self.replica.block_tokens
        return -(-tokens // block) * block

    def _tokens_of(self, i: int) -> int:
        """In the cache, of one that runs."""
        if self.plain and i in self.decoding:
            return int(self.cached[i] + self.left[i] - self._left(i))
        return self.cached[i]

    def _left(self, i: int) -> int:
        """What one that decodes has still to emit."""
        return self.until[i] - self.taken if self.plain else self.left[i]

    def _at_most(self, ahead: int) -> int:
        """Tokens of the cache that are surely enough for everybody's next step."""
        found = self.context + len(self.decoding) * (self.replica.block_tokens - 1 + ahead)
        for i in self.reading:
            found += self._blocks(self.cached[i])
        return found

    def _held(self, ahead: int) -> int:
        """Tokens of the cache in use, in whole blocks, with those that the next step writes."""
        return sum(
            self._blocks(self._tokens_of(i) + (ahead if i in self.decoding else 0))
            for i in self.running
        )

    def _fits(self, ahead: int, more: int) -> bool:
        """Whether the cache holds so many tokens more; blocks are counted where it is close."""
        held, most = self._at_most(ahead), self.replica.kv_tokens
        if held + more > most:
            held = self._held(ahead)
        if held + more <= most:
            self.most_held = max(self.most_held, held + more)
            return True
        return False

    def _make_room(self) -> None:
        """Whoever was let in last gives up its cache while the next step does not fit."""
        while len(self.running) > 1 and not self._fits(1 + self.gammas[len(self.decoding)], 0):
            self._preempt()

    def _preempt(self) -> None:
        """The one let in last waits again, before all others, and is read anew."""
        i = next(reversed(self.running))
        del self.running[i]
        if i in self.decoding:
            self.left[i], self.cached[i] = self._left(i), self._tokens_of(i)
            self.until[i] = -1
            self._leave(i)
        else:
            self.reading.remove(i)
        self.preemptions += 1
        self.waiting.appendleft(i)
        self._drop_stale()

    def _draw(self, gamma: int, part: int) -> list[int]:
        """Tokens of many steps at γ, of one part."""
        pmf = self.replica.pmfs[gamma][part]
        edges = np.cumsum(pmf)
        drawn = np.searchsorted(edges / edges[-1], self.rng.random(DRAWN), side="right") + 1
        pool: list[int] = drawn.tolist()
        self.pools[gamma, part] = pool
        return pool

    def _result(self) -> Simulated:
        start, arrival = self.skipped, np.array(self.arrival)
        first, last = np.array(self.first), np.array(self.last)
        begins, closes = self.begins, min(self.closes, float(last.max()))
        span = max(closes - begins, 1e-12)
        within = (last > begins) & (last <= closes)
        there = np.minimum(last, closes) - np.maximum(arrival, begins)
        return Simulated(
            arrival=arrival[start:],
            ttft=(first - arrival)[start:],
            e2e=(last - arrival)[start:],
            output_tokens=self.traffic.output_tokens[start:],
            batch=self.decoded_time / span,
            in_flight=float(np.maximum(there, 0.0).sum()) / span,
            busy=self.busy / span,
            throughput=float(self.traffic.output_tokens[within].sum()) / span,
            request_rate=float(within.sum()) / span,
            most_held=self.most_held / self.replica.kv_tokens,
            preemptions=self.preemptions,
            seconds=float(last.max() - arrival[0]),
            steps=self.count_steps,
        )


def _steps_until(wait: float, step: float, grows: float, most: int) -> int:
    """The fewest steps, 1 to `most`, that last at least so long."""
    if wait <= step or most <= 1:
        return 1
    half = step - grows / 2
    root = (math.sqrt(half * half + 2 * grows * wait) - half) / grows if grows > 0 else wait / step
    count = min(max(math.ceil(root), 1), most)
    while count > 1 and (count - 1) * step + grows * ((count - 1) * (count - 2) / 2) >= wait:
        count -= 1
    while count < most and count * step + grows * (count * (count - 1) / 2) < wait:
        count += 1
    return count
