"""s of a running server from time per token: the same prompts without and with speculation.

    s(γ) = [t(γ)·τ(γ) / t(0) − (1 − κ)] / κ

with t the time per token after the first and τ the tokens a decode pass. τ is counted (metrics, or
llama.cpp's timings); with an engine's forced acceptance it is known by construction, so that no
trained draft is needed:

    vLLM         --speculative-config '{…, "rejection_sample_method": "synthetic",
                                        "synthetic_acceptance_length": τ}'
    llama.cpp    --spec-synth-len τ
    SGLang       environment SGLANG_SIMULATE_ACC_LEN=τ
    TensorRT-LLM environment TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=τ−1
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from specmath.checks import FloatArray, InputError, real, whole
from specmath.estimate import Basis, Estimate
from specmath.logs import LogError, Reading, read
from specmath.measure.server.client import ServerError
from specmath.measure.server.load import Load
from specmath.measure.server.metrics import DRAFT_COUNTERS, grown
from specmath.measure.server.stream import Streamed
from specmath.measure.timing import median_interval

__all__ = [
    "SpeculativeRun", "TauFrom", "drafted", "given_run", "half_width", "mean_interval",
    "plain_step", "quotient", "read_metrics", "run_of",
]  # fmt: skip

TauFrom = Literal["counted", "forced", "given"]
FEWEST_REQUESTS = 3
FAR = 4.0
"""Standard errors between what was forced and what was counted, by chance once in 16,000."""


@dataclass(frozen=True)
class SpeculativeRun:
    """One run at γ. `step_cost` is s, over the steps that had a draft; `tokens_per_step` its τ.

    `coverage` is κ, 1 where nothing tells. `draft_seconds`: drafting of one step, where the
    server's own log tells. `run_ms`, `plain_ms`: times per token, of which s is made. `forced`:
    the acceptance was made up, and is no property of any draft.
    """

    gamma: int
    step_cost: Estimate
    tokens_per_step: float
    tau_from: TauFrom
    run_ms: float
    plain_ms: Estimate
    coverage: float = 1.0
    draft_seconds: float | None = None
    forced: bool = False


def read_metrics(load: Load) -> list[Reading]:
    """What the metrics say of the load alone: the change between the two scrapes."""
    before, after = load.metrics
    if before is not None and after is not None:
        with suppress(LogError):
            return read([before, after])
    return []


def mean_interval(values: FloatArray, level: float = 0.95) -> Estimate:
    """Mean with Student's t; InputError for fewer than three values."""
    found = real("values", values, -np.inf)
    if found.size < FEWEST_REQUESTS:
        raise InputError(
            f"an interval needs at least {FEWEST_REQUESTS} requests that brought two tokens or "
            f"more, got {found.size}: raise --requests"
        )
    mean, deviation = float(found.mean()), float(found.std(ddof=1))
    half = float(stdtrit(found.size - 1, 0.5 + level / 2)) * deviation / np.sqrt(found.size)
    return Estimate.between(mean, mean - half, mean + half, Basis("measured"))


def given_run(gamma: int, run_ms: float, tokens: float, plain_ms: float) -> SpeculativeRun:
    """s of a run that somebody has timed: γ ≥ 1, milliseconds a token > 0, τ in [1, γ+1]."""
    gamma = int(whole("gamma", gamma, 1, 256))
    real("milliseconds per token", [run_ms, plain_ms], 0, low_open=True)
    real(f"tokens per step at gamma={gamma}", tokens, 1, gamma + 1)
    cost = Estimate(run_ms * tokens / plain_ms, None, Basis("measured", "given"))
    alone = Estimate(plain_ms, None, cost.basis)
    return SpeculativeRun(gamma, cost, tokens, "given", run_ms, alone)


def run_of(
    gamma: int, plain: Load, speculative: Load, *, forced: float | None = None,
    log: Sequence[Reading] = (),
) -> SpeculativeRun:  # fmt: skip
    """s from the same load without and with speculation at γ.

    `forced` is the τ that the server was told to make up, `log` what its own log says (drafting
    times). ServerError where the plain run drafted, the speculative one did not, or what was
    counted is not what was forced.
    """
    gamma = int(whole("gamma", gamma, 1, 256))
    if forced is not None:
        real(f"forced tokens per step at gamma={gamma}", forced, 1, gamma + 1)
    if count := drafted(plain):
        raise ServerError(f"the plain run drafted {count:.0f} tokens, as its server says")
    counted = _Passes.of(speculative)
    if counted.drafted is None and forced is None:
        raise ServerError(
            f"the server at gamma={gamma} does not say what it drafted: switch its metrics on, or "
            "force its acceptance and give --forced"
        )
    if counted.drafted == 0:
        raise ServerError(f"the run at gamma={gamma} drafted nothing, as its server says")
    if forced is not None and counted.drafted is not None:
        counted.check(forced, gamma)
    tokens = forced if counted.drafted is None else counted.tokens_per_pass
    assert tokens is not None
    coverage = 1.0 if counted.drafted is None else counted.coverage
    spent, alone = mean_interval(_per_token(speculative)), mean_interval(_per_token(plain))
    cost = quotient(spent, alone).map(lambda ratio: (ratio * tokens - (1.0 - coverage)) / coverage)
    return SpeculativeRun(
        gamma, cost, 1.0 + (tokens - 1.0) / coverage, "counted" if counted.drafted else "forced",
        1e3 * spent.value, alone.map(lambda seconds: 1e3 * seconds), coverage,
        _drafting([*log, *read_metrics(speculative)], cost.value * alone.value),
        forced is not None,
    )  # fmt: skip


def _drafting(readings: Sequence[Reading], step_seconds: float) -> float | None:
    """Drafting of one step, as the server's own log or metrics say: in seconds, or as a share."""
    for reading in readings:
        if reading.draft_seconds is not None:
            return reading.draft_seconds
        if reading.draft_share is not None:
            return reading.draft_share * step_seconds
    return None


def drafted(load: Load) -> float | None:
    """Tokens drafted during a load, as metrics or answers say; None where nothing tells."""
    return _Passes.of(load).drafted


def plain_step(load: Load) -> Estimate:
    """Seconds of a plain step under a load: median gap between chunks, over the requests.

    Gaps, not the time per token: that holds the prompts of other requests too. ServerError where
    the server drafted.
    """
    if count := drafted(load):
        raise ServerError(f"the plain run drafted {count:.0f} tokens, as its server says")
    gaps = [float(np.median(s.itl_chunk)) for s in load.streams if s.itl_chunk.size]
    if not gaps:
        raise ServerError("no request brought two chunks, between which there is a step")
    return median_interval(np.array(gaps))


def _per_token(load: Load) -> FloatArray:
    """Seconds a token after the first, of each request; the server's own where it tells."""
    found = [_own_seconds(stream) or stream.tpot for stream in load.streams]
    return np.array([seconds for seconds in found if seconds is not None])


def _own_seconds(stream: Streamed) -> float | None:
    """Of llama.cpp's timings."""
    tokens, ms = stream.timings.get("predicted_n", 0.0), stream.timings.get("predicted_ms", 0.0)
    return ms / 1e3 / (tokens - 1) if tokens > 1 and ms > 0 else None


def quotient(over: Estimate, under: Estimate) -> Estimate:
    """Of two independent numbers > 0, their relative half-widths in quadrature."""
    value = over.value / under.value
    half = float(np.hypot(half_width(over) / over.value, half_width(under) / under.value)) * value
    return Estimate.between(value, value - half, value + half, Basis("measured"))


def half_width(found: Estimate) -> float:
    """Half of the interval; 0 where nothing is open."""
    return 0.0 if found.low is None or found.high is None else (found.high - found.low) / 2


@dataclass(frozen=True)
class _Passes:
    """Decode passes of a load. `drafted` None: nothing says whether any draft was made."""

    drafted: float | None
    passes: float
    steps: float
    tokens: float
    requests: int

    @classmethod
    def of(cls, load: Load) -> _Passes:
        streams = load.streams[load.taken :]  # the metrics hold no other
        if not streams:
            return cls(None, 0.0, 0.0, 0.0, 0)
        tokens = float(sum(stream.total - 1 for stream in streams))
        requests = len(streams)
        readings = [r for r in read_metrics(load) if r.drafted is not None]
        timings = [stream.timings for stream in streams]
        if any("draft_n" in each for each in timings):
            accepted = sum(each.get("draft_n_accepted", 0.0) for each in timings)
            drafted = sum(each.get("draft_n", 0.0) for each in timings)
            passes = tokens - accepted
            steps = float(readings[0].steps or passes) if readings else passes
            return cls(drafted, passes, min(steps, passes), tokens, requests)
        if not readings:
            told = all("predicted_n" in each for each in timings)
            own = 0.0 if told or grown(load.metrics, *DRAFT_COUNTERS) == 0 else None
            return cls(own, tokens, 0.0, tokens, requests)
        (reading, *_) = readings
        accepted, steps = float(reading.accepted or 0), float(reading.steps or 0)
        # Accepted beyond a text's end is counted, and never reaches anybody.
        passes = max(steps, tokens - accepted)
        return cls(reading.drafted, passes, steps, tokens, requests)

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes

    @property
    def coverage(self) -> float:
        return self.steps / self.passes if self.steps else 1.0

    def check(self, forced: float, gamma: int) -> None:
        """ServerError where τ as counted cannot be the forced one.

        A step's tokens vary at most as all or nothing would, and a text's end cuts the last step
        of a request short by γ at most.
        """
        counted = 1.0 + (self.tokens_per_pass - 1.0) / self.coverage
        most = np.sqrt((forced - 1.0) * (gamma + 1.0 - forced) / max(self.steps, 1.0))
        cut = gamma * forced * self.requests / max(self.tokens, 1.0)
        if abs(counted - forced) > FAR * most + cut:
            raise ServerError(
                f"tokens per step must be the forced {forced:g} at gamma={gamma}, got "
                f"{counted:.3g} over {self.steps:.0f} steps: is the acceptance really forced?"
            )
