"""Seconds of the steps of one replica in one arm, as tables that a simulation looks up.

    step = steps[B] + reads[B] C + T(b + n) − T(b) + Σ nᵢ a(kᵢ + nᵢ/2)          b = max(B, 1)

B sequences decode with C tokens in the cache together, n = Σ nᵢ tokens of prompts are read beside
them, nᵢ after kᵢ that stand before. T is a forward over so many tokens, a the attention of one
token of a prompt: `steptime.prefill`, with the drafter's own reading in the speculative arm. With
nobody decoding a step still reads the weights: steps[0].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance, CoveredAcceptance, MixtureAcceptance
from specmath.checks import FloatArray, IntArray, real, whole
from specmath.evidence import switching
from specmath.serving.loop import Requests
from specmath.serving.memory import Memory
from specmath.serving.pair import ServedPair
from specmath.steptime import Placement
from specmath.steptime.prefill import LEAST_CHUNK, attention_seconds, shared_seconds

__all__ = ["MOST_SEQUENCES", "SPACING", "Limit", "Replica", "parts_of"]

MOST_SEQUENCES = 256
"""vLLM's `max_num_seqs` where nobody sets it: sequences of one step at most."""

MOST_TABULATED = 1 << 17
"""Sequences of a step for which there are tables."""

SPACING = 256
"""Tokens between the points at which the attention of a prompt is tabulated."""

GRID = 48
"""Batches, spread geometrically, between which a step is linear."""

FORWARDS = 256
"""Numbers of tokens between which a forward is linear."""

MOST_FORWARD = 1 << 16
"""Tokens up to which a forward is tabulated; beyond, arithmetic is all and it goes on straight."""

SHORT = 1024
"""Tokens of a sequence by whose number the cache is counted, where those served are longer."""

LITTLE = 0.1
"""Twice the sequences would raise the largest rate by less: it is arithmetic that ends it."""

By = Literal["memory", "max sequences", "compute"]


@dataclass(frozen=True)
class Limit:
    """The largest rate of an open loop, requests a second, and what ends it: the memory for the
    cache, the sequences of a step, or the arithmetic, where more sequences would not help."""

    rate: float
    by: By
    batch: int


@dataclass(frozen=True, eq=False)
class Replica:
    """One arm of a served pair. Arrays over batches have M+1 entries, of batch 0 … M.

    Attributes
    ----------
    gammas
        Tokens drafted a sequence in a step of that batch: one γ, or a schedule.
    steps, reads
        Seconds of a step with nothing in the cache, and of each token in it.
    forward, attention
        T of 0, 1, 2 … tokens; a at multiples of `SPACING`.
    pmfs, shares
        P(L = j+1), tokens that a step emits, of each γ and part of the acceptance; the share of the
        requests in each part.
    kv_tokens, block_tokens
        What the cache holds, in blocks of so many.
    chunk_tokens
        Tokens of one step at most; decoding ones come first.
    prefix_hit
        Share of a prompt in the prefix cache.
    plans_ahead
        Whether the next step is planned before this one ends, so that a request waits one more.
    """

    gammas: IntArray
    steps: FloatArray
    reads: FloatArray
    forward: FloatArray
    attention: FloatArray
    pmfs: Mapping[int, tuple[FloatArray, ...]]
    shares: FloatArray
    kv_tokens: int
    chunk_tokens: int
    prefix_hit: float = 0.0
    plans_ahead: bool = False
    block_tokens: int = 16

    @classmethod
    def of(
        cls,
        pair: ServedPair,
        requests: Requests,
        acceptance: Acceptance,
        gamma: int | ArrayLike,
        *,
        lengths: tuple[int, int, int] | None = None,
        most_sequences: int = MOST_SEQUENCES,
        kv_tokens: int | None = None,
        slower: float = 1.0,
    ) -> Replica:
        """Of a pair at γ, or at a γ for each batch 0 … M.

        Parameters
        ----------
        pair
            What serves; its batch is not used.
        requests
            Chunks, prefix hits, whether prompts are read elsewhere.
        acceptance
            Over all steps, as `pair.accepts` makes it.
        gamma
            ≥ 0, one or M+1 of them. In a schedule a step at γ = 0 costs what
            `evidence.switching` says more.
        lengths
            The least and the longest prompt, and the longest request with its output: between which
            the tables hold. None: of the requests.
        most_sequences
            M, sequences of one step at most, 1 to 131,072.
        kv_tokens
            What the cache holds; None: what memory leaves beside weights and activations.
        slower
            Measured over computed time of every step.
        """
        most = int(whole("most_sequences", most_sequences, 1, MOST_TABULATED))
        drafted = np.broadcast_to(whole("gamma", gamma, 0), (most + 1,))
        scheduled, top = bool(np.ptp(drafted)), int(drafted.max())
        prompt = requests.prompt_tokens
        least, prompt, longest = lengths or (prompt, prompt, prompt + requests.output_tokens)
        steps, reads = _decoding(pair, drafted, (max(1, least), max(2, longest)), scheduled)
        budget = requests.chunk_tokens * pair.place.attention_dp
        # A preempted request reads its output again; several are read in one step.
        tokens = min(budget, most * longest, MOST_FORWARD) + most
        places = [pair.place]
        own = pair.drafter.prefill_place(pair.place) if top else None
        if own is not None:
            places.append(own)
        forward, attention = _reading(places, tokens, max(1, longest))
        if requests.decode_only:
            forward, attention = 0.0 * forward, 0.0 * attention
        accepts = parts_of(acceptance)
        pmfs = {int(g): tuple(a.step_pmf(int(g)) for _, a in accepts) for g in np.unique(drafted)}
        held = _held(pair, top) if kv_tokens is None else int(whole("kv_tokens", kv_tokens, 1))
        hit = requests.prefix_hit_speculative if top else requests.prefix_hit
        hit = 1.0 if requests.decode_only else hit
        times = float(real("slower", slower, 0, low_open=True))
        return cls(
            drafted, times * steps, times * reads, times * forward, times * attention, pmfs,
            np.array([share for share, _ in accepts]), held, budget, hit,
            pair.engine.hides_host,
        )  # fmt: skip

    @property
    def most_sequences(self) -> int:
        """M, sequences of one step at most."""
        return len(self.steps) - 1

    @property
    def speculates(self) -> bool:
        """Whether any step drafts."""
        return bool(self.gammas.max())

    @property
    def tokens(self) -> FloatArray:
        """τ of each batch, over all requests."""
        each = {
            g: 1.0 / sum(w / float(np.arange(1, p.size + 1) @ p)
                         for w, p in zip(self.shares, pmf, strict=True))
            for g, pmf in self.pmfs.items()
        }  # fmt: skip
        return np.array([each[int(g)] for g in self.gammas])

    def prompt_seconds(self, fresh: float, before: float, batch: int) -> float:
        """What a prompt adds to the steps that it shares: `fresh` tokens after `before` others."""
        beside = max(batch, 1)
        room = max(self.chunk_tokens - batch * (1 + int(self.gammas[batch])), 1)
        room = max(room, min(LEAST_CHUNK, self.chunk_tokens))
        total, stands = 0.0, before
        full, rest = divmod(fresh, room)
        for size, count in ((room, full), (rest, 1.0)):
            # Attention is linear between points: the chunks' sum is that of their middle.
            more = self.reads_beside(beside, size) + size * self.attends(stands + count * size / 2)
            total += count * more
            stands += count * size
        return float(total)

    def reads_beside(self, beside: int, tokens: float) -> float:
        """T(b + n) − T(b): a forward over so many tokens more."""
        last = len(self.forward) - 1
        at = min(beside + tokens, last)
        low = min(int(at), last - 1)
        found = self.forward[low] + (at - low) * (self.forward[low + 1] - self.forward[low])
        beyond = beside + tokens - at
        if beyond > 0:
            found += beyond * (self.forward[last] - self.forward[last // 2]) / (last - last // 2)
        return float(found - self.forward[beside])

    def attends(self, context: float) -> float:
        """Seconds of attention of one token of a prompt over so many."""
        at = context / SPACING
        low = min(int(at), len(self.attention) - 2)
        share = at - low
        return float(self.attention[low] * (1.0 - share) + self.attention[low + 1] * share)

    def limit(
        self, prompt_tokens: float, output_tokens: float, prefix: float | None = None
    ) -> Limit:
        """The largest rate of requests of those mean lengths, and what ends it.

        λ_max = max over B of 1 / (P(B) + (N−1) step(B) / (τ B)), B ≤ M and as many as the cache
        holds; `prefix`: tokens of the prompt in the prefix cache, None by `prefix_hit`.
        """
        cached = self.prefix_hit * prompt_tokens if prefix is None else prefix
        each = prompt_tokens + output_tokens / 2.0
        by_memory = max(1, int(self.kv_tokens // (each + 1.0 + self.gammas.max())))
        tokens, decoded = self.tokens, max(output_tokens - 1.0, 0.0)

        def rate(batch: int) -> float:
            fresh = max(prompt_tokens - cached, 1.0)
            prompt = self.prompt_seconds(fresh, cached, batch)
            step = self.steps[batch] + self.reads[batch] * batch * each
            spent = prompt + decoded * step / (tokens[batch] * batch)
            return 1.0 / spent if spent > 0 else np.inf

        top = min(by_memory, self.most_sequences)
        tried = np.unique(np.rint(np.geomspace(1, top, GRID)).astype(int))
        rates = [rate(int(b)) for b in tried]
        best = int(np.argmax(rates))
        half = rate(max(1, top // 2))
        by: By = "memory" if by_memory < self.most_sequences else "max sequences"
        if best < len(tried) - 1 or rates[best] < (1.0 + LITTLE) * half:
            by = "compute"
        return Limit(float(rates[best]), by, int(tried[best]))


def parts_of(acceptance: Acceptance) -> list[tuple[float, Acceptance]]:
    """The kinds of requests that an acceptance tells apart, with the share of each; a mixture's
    weights are of output tokens, and requests of every kind are taken to be as long."""
    if isinstance(acceptance, MixtureAcceptance):
        return list(zip(acceptance.weights, acceptance.parts, strict=True))
    if isinstance(acceptance, CoveredAcceptance):
        covered = acceptance.coverage
        return [(w, CoveredAcceptance(a, covered)) for w, a in parts_of(acceptance.part)]
    return [(1.0, acceptance)]


def _decoding(
    pair: ServedPair, drafted: IntArray, between: tuple[int, int], scheduled: bool
) -> tuple[FloatArray, FloatArray]:
    """Seconds of a step without cache and of each token in it, over batch 0 … M."""
    most = len(drafted) - 1
    batches = np.unique(np.rint(np.geomspace(1, most, min(GRID, most))).astype(int))
    gammas = np.unique(drafted)
    # Linear in the cache, as it is but where a window ends the reading.
    contexts = np.array([min(between[0], between[1] - 1), between[1]])
    verify, draft, extra = pair.parts_grid(batches, contexts, gammas)
    seconds = verify + draft + extra
    every = np.arange(most + 1)
    base, slope = np.empty((2, len(gammas), most + 1))
    for i in range(len(gammas)):
        short, long = (np.interp(every, batches, seconds[:, k, i]) for k in (0, 1))
        slope[i] = (long - short) / (np.maximum(every, 1) * (contexts[1] - contexts[0]))
        base[i] = short - slope[i] * np.maximum(every, 1) * contexts[0]
    row = np.searchsorted(gammas, drafted)
    steps, reads = base[row, every], slope[row, every]
    # Nobody drafts where nobody decodes.
    steps[0] = float(pair.parts_grid([1], [1], [0])[0][0, 0, 0])
    if scheduled:
        steps = steps * np.where(drafted == 0, 1.0 + switching().share(np.maximum(every, 1)), 1.0)
    return steps, reads


def _reading(places: list[Placement], tokens: int, longest: int) -> tuple[FloatArray, FloatArray]:
    """T of 0 … `tokens`, and a at multiples of `SPACING` up to `longest`, of all together."""
    at = np.unique(np.rint(np.geomspace(1, max(tokens, 2), FORWARDS)).astype(int))
    over = np.arange(longest // SPACING + 2, dtype=np.float64) * SPACING
    forward = np.sum([shared_seconds(place, at.astype(float)) for place in places], axis=0)
    one = np.ones(over.size, dtype=np.float64)
    attention = np.sum([attention_seconds(place, one, over) for place in places], axis=0)
    every = np.arange(tokens + 1)
    return np.interp(every, at, forward) * (every > 0), np.asarray(attention)


def _held(pair: ServedPair, top: int) -> int:
    """Tokens that memory holds, in sequences of the served context or a short one, whose number
    rounds less; of one at least, though by this estimate none may fit."""
    memory = Memory.of(pair) if top else Memory(pair.place)
    context = min(pair.context_tokens, SHORT)
    most = max(1, memory.largest_batch(context, top))
    blocks = -(-(context + 1 + top) // memory.block_tokens)
    return most * blocks * memory.block_tokens
