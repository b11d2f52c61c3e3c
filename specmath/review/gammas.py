"""What a log says of each γ: tokens and cost of a pass, the speedup with its ends, where from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath.acceptance import IidAcceptance, MixtureAcceptance
from specmath.logs.reading import Reading
from specmath.review.into_scenario import Shape, shape_of
from specmath.scenario.endpoint import Endpoint
from specmath.theorems import alpha_from_tokens_per_step

__all__ = ["GammaRow", "Mixing", "gamma_rows", "mixing"]

From = Literal["plain", "measured", "printed", "cut", "extrapolated", "iid"]

SHOWN_BEYOND = 4
_SPEED_AT = re.compile(r"speedup_at_(\d{1,4})")


@dataclass(frozen=True)
class GammaRow:
    """One γ. `tokens_per_pass` and `step_cost` are over all steps, with and without a draft;
    `source`: plain decoding, the γ that ran, a row that a swept table itself prints (its ends are
    not told: both are the number), the rates cut or carried on, or every position alike.
    """

    gamma: int
    tokens_per_pass: float
    step_cost: float
    speedup: float
    low: float
    high: float
    source: From


def gamma_rows(
    reading: Reading, endpoint: Endpoint, stated: Shape | None = None
) -> tuple[GammaRow, ...]:
    """Rows of the endpoint of a log, up to γ+4 for a chain; only the γ that ran for any other
    shape, of which no other follows. Of a γ for which the file itself has speedup, step cost and
    tokens per step these are the row: a measurement stands before a prediction."""
    ran = reading.gamma
    last = min((ran or SHOWN_BEYOND) + SHOWN_BEYOND, len(endpoint.gammas) - 1)
    alone = ran is not None and shape_of(reading, stated) != "chain"
    shown = [ran] if alone and ran is not None else range(last + 1)
    tokens = endpoint.speculation.tokens(endpoint.gammas)
    costs = endpoint.speculation.cost.total(endpoint.gammas)
    rows = enumerate(np.array([tokens, costs, *endpoint.curves]).T.tolist())
    found = {
        gamma: GammaRow(gamma, tau, cost, speed, low, high, _source(reading, gamma))
        for gamma, (tau, cost, speed, low, high) in rows
        if gamma in shown
    }
    found |= {row.gamma: row for row in _printed(reading)}
    return tuple(found[gamma] for gamma in sorted(found))


def _printed(reading: Reading) -> Iterator[GammaRow]:
    """The rows of a swept table."""
    told = dict(reading.facts)
    for name in told:
        if (speed_of := _SPEED_AT.fullmatch(name)) is not None:
            gamma = int(speed_of[1])
            names = ("tokens_per_step", "step_cost", "speedup")
            tokens, cost, speed = (told.get(f"{one}_at_{gamma}") for one in names)
            if all(isinstance(value, float) for value in (tokens, cost, speed)):
                speedup = float(speed or 0.0)
                yield GammaRow(
                    gamma, float(tokens or 0.0), float(cost or 0.0), speedup, speedup, speedup,
                    "printed",
                )  # fmt: skip


def _source(reading: Reading, gamma: int) -> From:
    if gamma == 0:
        return "plain"
    if gamma == reading.gamma:
        return "measured"
    if not reading.survival or reading.gamma is None:
        return "iid"
    return "cut" if gamma < reading.gamma else "extrapolated"


@dataclass(frozen=True)
class Mixing:
    """Signs that easy and hard requests are mixed: a shorter γ does up to `gain` better than the
    cut rates say; None where only rates that rise with position tell it."""

    gain: float | None = None
    p10: float | None = None
    p90: float | None = None


def mixing(reading: Reading) -> Mixing | None:
    """How far mixed requests move what a shorter γ would give; None where no mix is seen.

    Two signs: requests that differ (then the size is computed, taking each request as i.i.d.),
    and conditional rates that rise with position, which one kind of text does not do.
    """
    requests, gamma = reading.requests, reading.gamma
    if requests is not None and requests.measure == "tokens_per_step" and gamma and gamma > 1:
        tokens = np.clip(np.quantile(requests.values, np.arange(0.05, 1, 0.1)), 1, gamma + 1)
        alphas = alpha_from_tokens_per_step(tokens, gamma)
        mixture = MixtureAcceptance([1.0] * len(alphas), [IidAcceptance(float(a)) for a in alphas])
        shorter = np.arange(1, gamma)
        pooled = np.cumsum(mixture.survival(gamma))[shorter]
        gain = float(np.max(np.asarray(mixture.tokens_per_step(shorter)) / pooled)) - 1.0
        if gain > 0.01:
            return Mixing(gain, requests.p10, requests.p90)
    rates = reading.conditional or ()
    if len(rates) > 1 and max(rates[1:]) > rates[0] + 0.03:
        return Mixing()
    return None
