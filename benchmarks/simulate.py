"""How many times faster the simulation is than a loop of single steps, and requests a second.

python benchmarks/simulate.py      # processor time; about half a minute
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from specmath import IidAcceptance, drafters, models
from specmath.serving.loop import Requests
from specmath.serving.pair import ServedPair
from specmath.serving.replica import Replica
from specmath.simulate import simulate
from specmath.steptime import Placement
from specmath.traffic import poisson
from tests.helpers.stepwise import stepwise

PROMPT, OUTPUT = 512, 200
ARMS = ((0, 17.0), (4, 24.0))
"""γ, and the requests a second at which about 32 are in flight."""


def seconds_each(serve: Callable[[], Any], count: int, times: int = 3) -> float:
    """Processor time a request, the best of some runs."""
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        serve()
        best = min(best, time.process_time() - begun)
    return best / count


def main() -> None:
    place = Placement(models.find("Llama-3.1-8B"), "h100")
    pair = ServedPair(place, drafters.named("eagle3"), 1, PROMPT + OUTPUT // 2)
    for gamma, rate in ARMS:
        asked = Requests(PROMPT, OUTPUT, request_rate=rate)
        replica = Replica.of(pair, asked, IidAcceptance(0.7), gamma)
        many, few = (poisson(rate, PROMPT, OUTPUT, requests=n, seed=1) for n in (20_000, 600))
        fast = seconds_each(partial(simulate, replica, many), len(many))
        slow = seconds_each(partial(stepwise, replica, few), len(few), 1)
        found = simulate(replica, many)
        print(
            f"gamma {gamma}: {found.in_flight:.0f} in flight, {1 / fast:,.0f} requests/s, "
            f"{slow / fast:.0f} times the loop of single steps"
        )


if __name__ == "__main__":
    main()
