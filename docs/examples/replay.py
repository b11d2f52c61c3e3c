"""Acceptance by replay: γ from the probabilities of one text, not from one mean.

    python -m docs.examples.replay

The two models score one text; Σ min(p, q) at each token is its chance of being accepted. Here the
distributions are drawn: easy passages and hard ones, as texts have them.
"""

import numpy as np

from specmath import IidAcceptance, LinearStepCost
from specmath.replay import ReplayAcceptance
from specmath.speculation import Speculation
from specmath.theorems import acceptance_from_distributions

VOCABULARY, TOKENS, PASSAGE = 50, 400, 25


def distributions(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(target, draft), each of shape (tokens, vocabulary)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(TOKENS, VOCABULARY)) * 3
    hard = np.repeat(rng.random(TOKENS // PASSAGE) < 0.4, PASSAGE)
    noise = rng.normal(size=logits.shape) * np.where(hard, 3.0, 0.4)[:, None]
    p, q = np.exp(logits), np.exp(logits + noise)
    return p / p.sum(axis=-1, keepdims=True), q / q.sum(axis=-1, keepdims=True)


def main() -> None:
    accepted = acceptance_from_distributions(*distributions())
    replay = ReplayAcceptance(accepted)
    print(f"α {replay.alpha:.4f} over {TOKENS} tokens")

    cost = LinearStepCost(c=0.1)
    text, mean = Speculation(replay, cost), Speculation(IidAcceptance(replay.alpha), cost)
    for gamma in (1, 2, 4, 8):
        told = f"{float(text.speedup(gamma)):.4f}× by replay, {float(mean.speedup(gamma)):.4f}×"
        print(f"γ={gamma}  {told} if every position were alike")
    print(f"best γ {text.best(16)} by replay")


if __name__ == "__main__":
    main()
