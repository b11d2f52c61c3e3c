"""A day's plan against simulating its requests, and a million deployments against ten pages.

python benchmarks/plan.py      # about two minutes

The plan has 5 segments, 8 γ, 24 hours and 4 kinds of GPU. Of its simulation one quarter of an hour
of one replica is run, in both arms, and counted as often as the plan has such: requests of a day,
γ and GPUs. A page is "How many GPUs?" in Streamlit's own test runner, script and elements.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from specmath.arms import endpoint_for, served
from specmath.deployments import deployments, gpus_for
from specmath.plan import decided as plans
from specmath.plan.decided import decided
from specmath.plan.record import plan_of
from specmath.scenario.files import build
from specmath.traffic import poisson

GPUS = ("H100 SXM", "H200 SXM", "A100 80GB SXM", "L40S")
GAMMAS = 8
DAY = [4, 3, 2, 2, 2, 3, 5, 8, 12, 16, 18, 19, 20, 19, 19, 18, 17, 16, 15, 14, 12, 10, 8, 6]
SEGMENTS = [
    {"name": f"kind {i}", "share": 0.2, "alpha": alpha, "prompt_tokens": prompt,
     "output_tokens": output}
    for i, (alpha, prompt, output) in enumerate(
        [(0.9, 800, 200), (0.8, 1500, 300), (0.7, 400, 250), (0.6, 2500, 150), (0.4, 1000, 400)]
    )
]  # fmt: skip
SERVED = {"model": "Llama-3.1-8B", "draft": "eagle3", "demand_requests_per_second": 40.0,
          "slo_tpot_ms": 30}  # fmt: skip
SIMULATED = 900.0
"""Seconds of traffic."""


def day_plan() -> tuple[float, float]:
    """Seconds of the plan on all GPUs, and of simulating all of it."""
    each = [plan_of([{"name": "all", **SERVED, "gpu": gpu, "day": DAY, "segments": SEGMENTS}])
            for gpu in GPUS]  # fmt: skip
    decided(each[0])  # what is read from files once
    plans._answered.cache_clear()
    begun = time.perf_counter()
    answers = [decided(plan).endpoints[0] for plan in each]
    planned = time.perf_counter() - begun
    answer = answers[0]
    s = answer.endpoint.scenario
    traffic = poisson(
        answer.rate, s.prompt_tokens or 0, s.output_tokens, requests=int(answer.rate * SIMULATED)
    )
    endpoint = endpoint_for(s.model_copy(update={"gamma": answer.capacity.gamma}), traffic)
    begun = time.perf_counter()
    served(endpoint, traffic)
    a_request = (time.perf_counter() - begun) / (2 * len(traffic))
    requests = sum(DAY) / max(DAY) * 3600.0 * answer.endpoint.demand
    return planned, a_request * requests * (GAMMAS + 1) * len(GPUS)


def million() -> tuple[int, float, float]:
    """Deployments looked at, their seconds, and those of ten pages."""
    logging.disable(logging.CRITICAL)
    from benchmarks.page import app_at

    s = build({**SERVED, "gpu": "H100 SXM", "prompt_tokens": 1024, "alpha": 0.7})
    app = app_at("capacity")
    begun = time.perf_counter()
    for _ in range(10):
        app.run()
    pages = time.perf_counter() - begun
    begun = time.perf_counter()
    found = deployments(s, gpus=gpus_for(s))
    return found.looked_at, time.perf_counter() - begun, pages


def main() -> None:
    os.chdir(Path(__file__).parents[1])
    planned, simulated = day_plan()
    print(f"a day's plan {planned:.2f} s, 1/{simulated / planned:,.0f} of simulating it")
    looked, search, pages = million()
    print(f"{looked:,} deployments {search:.1f} s, ten pages {pages:.1f} s: "
          f"a million takes {search * 1e6 / looked / pages:.1f} times ten pages")  # fmt: skip


if __name__ == "__main__":
    main()
