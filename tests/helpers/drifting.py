"""Logs of servers whose acceptance wanders or falls: readings, and lines that vLLM prints."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from specmath.estimate import conditional
from specmath.logs import Reading, Window

GAMMA = 3


def log(
    random: np.random.Generator, windows: int, phi: float, *, alpha: float = 0.75,
    drop: float = 0.0, at: int = 0, until: int | None = None, gamma: int = GAMMA,
    moves: float = 0.03, steps: int | None = None, load: float | None = None,
    rho: float | None = None,
) -> Reading:  # fmt: skip
    """A server whose traffic wanders: α of a window is AR(1) around `alpha`; lines are windows.

    It falls by `drop` in windows at … until−1. `steps` a window; None: 300 to 900, uneven; with
    `load` lognormal about 600, the spread of ln n. With `rho` α is beta-distributed instead, each
    window for itself, `rho` the correlation of two tokens of one window.
    """
    falls = np.zeros(windows)
    falls[at:until] = drop
    if rho is None:
        wander = random.standard_normal(windows)
        wander[1:] *= np.sqrt(1 - phi**2)
        rates = np.clip(alpha - falls + moves * lfilter([1], [1, -phi], wander), 0, 1)
    else:
        both = 1 / rho - 1
        rates = random.beta((alpha - falls) * both, (1 - alpha + falls) * both)
    if load is not None:
        sizes = np.ceil(600 * np.exp(load * random.standard_normal(windows))).astype(int)
    else:
        sizes = random.integers(300, 900, windows) if steps is None else np.full(windows, steps)
    counts = [sizes]
    for _ in range(gamma):
        counts.append(random.binomial(counts[-1], rates))
    reached = np.array(counts[1:])
    accepted, total = reached.sum(axis=0), int(sizes.sum())
    columns = (sizes, accepted, 1 + accepted / sizes, (reached / sizes).T)
    rows = tuple(
        Window(t + 1, f"10:{t:04}", n, gamma * n, a, mean, tuple(rates), float(n))
        for t, (n, a, mean, rates) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        )
    )
    survival = tuple((reached.sum(axis=1) / total).tolist())
    return Reading(
        "vllm", "made", steps=total, drafted=gamma * total, accepted=int(accepted.sum()),
        tokens_per_step=1 + sum(survival), survival=survival, conditional=conditional(survival),
        gamma=gamma, windows=rows,
    )  # fmt: skip


def vllm_log(rates: list[float]) -> str:
    """Intervals of 500 steps at γ=1: the accepted share is the rate, with a fixed wobble."""
    wobble = (0.01, -0.01, 0.004, -0.007, 0.003, -0.002, 0.008)
    lines = []
    for number, rate in enumerate(rates):
        accepted = round(500 * (rate + wobble[number % 7]))
        share = accepted / 500
        lines.append(
            f"INFO 09-14 10:{number:02}:10 [metrics.py:100] SpecDecoding metrics: Mean acceptance "
            f"length: {1 + share:.2f}, Accepted throughput: 1.00 tokens/s, Drafted throughput: "
            f"1.00 tokens/s, Accepted: {accepted} tokens, Drafted: 500 tokens, Per-position "
            f"acceptance rate: {share:.3f}, Avg Draft acceptance rate: {100 * share:.1f}%"
        )
    return "\n".join(lines)
