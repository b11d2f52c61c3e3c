"""The server law against a simulation of the same open loop, in docs/simulate.md.

python -m tools.simulate_gap      # writes what stands between the two marks of the document
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from specmath import IidAcceptance, InputError, drafters, models
from specmath.serving.loop import Grid, Requests, steady
from specmath.serving.pair import ServedPair
from specmath.serving.replica import Replica
from specmath.simulate import simulate
from specmath.steptime import Placement
from specmath.traffic import Traffic, poisson
from tools.accuracy import table, written

__all__ = ["Gap", "gap"]

DOCUMENT = Path(__file__).parents[1] / "docs" / "simulate.md"
PROMPTS = (256, 1024, 4096, 16384)
SHARES = (0.25, 0.5, 0.75, 0.9)
OUTPUT, ALPHA, GAMMAS, REQUESTS, SEEDS = 256, 0.7, (0, 3), 8000, 3


@dataclass(frozen=True)
class Gap:
    """What a prompt costs in steps; the law over the simulation, less 1, of TPOT, batch, TTFT."""

    prompt_steps: float
    tpot: float
    batch: float
    ttft: float


def exactly(traffic: Traffic, rate: float) -> Traffic:
    """The same arrivals at exactly that mean rate: near the largest one the answer moves by ten
    times what the rate does."""
    return replace(traffic, seconds=traffic.seconds * (traffic.rate / rate))


def gap(
    prompt: int, gamma: int, share: float, requests: int = REQUESTS, seeds: int = SEEDS
) -> Gap | None:
    """Llama-3.1-8B with EAGLE-3 on an H100, as many sequences as memory holds, at that share of the
    largest rate of the arm; None where plain decoding cannot carry it."""
    place = Placement(models.find("Llama-3.1-8B"), "h100")
    pair = ServedPair(place, drafters.named("eagle3"), 1, prompt + OUTPUT // 2)
    acceptance = IidAcceptance(ALPHA)
    tokens = np.asarray(acceptance.tokens_per_step(np.arange(gamma + 1)), dtype=float)
    asked = Requests(prompt, OUTPUT, request_rate=1e-3)
    grid = Grid.of(pair, asked, gamma)
    rate = share * float(steady(grid, asked, tokens).most_requests[gamma])
    asked = replace(asked, request_rate=rate)
    try:
        law = steady(grid, asked, tokens)
    except InputError:
        return None
    most = int(grid.most[gamma])
    replica = Replica.of(pair, asked, acceptance, gamma, most_sequences=most)
    arrivals = (poisson(rate, prompt, OUTPUT, requests=requests, seed=k) for k in range(seeds))
    found = [simulate(replica, exactly(each, rate), seed=k) for k, each in enumerate(arrivals)]
    tpot, ttft = (float(np.mean([f.mean(name) for f in found])) for name in ("tpot", "ttft"))
    batch = float(np.mean([f.batch for f in found]))
    decoding = rate * (OUTPUT - 1) * float(law.tpot[gamma])
    others = np.maximum(law.batch - 1.0, 1.0)
    return Gap(
        prompt_steps=float(grid.at(grid.prompts, others)[gamma] / law.step[gamma]),
        tpot=float(law.tpot[gamma]) / tpot - 1.0,
        batch=decoding / batch - 1.0,
        ttft=float(law.ttft[gamma]) / ttft - 1.0,
    )


def cells(prompt: int, gamma: int) -> Sequence[str]:
    """A row: what a prompt costs in steps from the highest to the lowest rate, then TPOT and TTFT
    of the law against the simulation at each share."""
    found = [gap(prompt, gamma, share) for share in SHARES]
    steps = [g.prompt_steps for g in found if g is not None]
    times = [f"{g.tpot:+.0%} / {g.ttft:+.0%}" if g is not None else "–" for g in found]
    return [f"{prompt:,}", str(gamma), f"{min(steps):.1f} to {max(steps):.1f}", *times]


if __name__ == "__main__":
    head = ("prompt tokens", "γ", "steps a prompt costs", *(f"{s:.0%} of λ_max" for s in SHARES))
    made = table(head, [cells(prompt, gamma) for prompt in PROMPTS for gamma in GAMMAS])
    DOCUMENT.write_text(written(DOCUMENT.read_text("utf-8"), made), encoding="utf-8")
