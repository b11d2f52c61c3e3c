# mypy: disable-error-code="import-not-found"
"""Draws on the device of a torch model: only ids come back to the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from specmath.measure.draws import Proposal
from specmath.measure.language_model import Sampling
from specmath.measure.tokenizer import agreement

__all__ = ["TorchDraws"]


class TorchDraws:
    """As `HostDraws`, on tensors. `kept`: the ids that the rows hold, where these are not all of
    the `width` ids; the others have probability 0."""

    def __init__(self, kept: np.ndarray | None = None, width: int = 0) -> None:
        self._kept, self._width = kept, width

    def best(self, rows: Any) -> list[int]:
        found: list[int] = rows.argmax(dim=-1).tolist()
        return found if self._kept is None else [int(self._kept[n]) for n in found]

    def propose(self, row: Any, sampling: Sampling, rng: np.random.Generator) -> tuple[int, Any]:
        chances = self.probabilities(row, sampling)
        return _draw(chances, rng), chances

    def verify(
        self, rows: Any, proposal: Proposal, sampling: Sampling, rng: np.random.Generator
    ) -> list[int]:
        drafted = proposal.tokens
        if sampling.greedy:
            best = self.best(rows)
            return best[: agreement(drafted, best) + 1]
        import torch

        p, accepted, q = self.probabilities(rows, sampling), 0, None
        if drafted:
            at = torch.tensor(drafted, device=p.device)[:, None]
            chance = torch.from_numpy(rng.random(len(drafted))).to(p)
            if proposal.distributions is not None:
                q = torch.stack(list(proposal.distributions)).to(p)
                chance = chance * q.gather(1, at)[:, 0]
            below = chance < p[:-1].gather(1, at)[:, 0]
            accepted = int(below.long().cumprod(0).sum())
        row = p[accepted]
        if accepted < len(drafted):
            row = _residual(row, None if q is None else q[accepted], drafted[accepted])
        return [*drafted[:accepted], _draw(row, rng)]

    def probabilities(self, rows: Any, sampling: Sampling) -> Any:
        """Rows of logits (…, ids) → rows that sum to 1, in double precision where there is one."""
        import torch

        wide = torch.float32 if rows.device.type == "mps" else torch.float64
        found = torch.softmax(rows.to(wide) / sampling.temperature, dim=-1)
        if self._kept is not None:
            ids = torch.as_tensor(self._kept, device=rows.device)
            all_ids = found.new_zeros(*found.shape[:-1], self._width)
            found = all_ids.index_copy(-1, ids, found)
        return found if sampling.top_p == 1 else _nucleus(found, sampling.top_p)


def _nucleus(chances: Any, top_p: float) -> Any:
    ordered, ids = chances.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = chances.new_zeros(chances.shape).scatter(-1, ids, ordered * (before < top_p))
    return kept / kept.sum(-1, keepdim=True)


def _draw(chances: Any, rng: np.random.Generator) -> int:
    """One id with these probabilities, which need not sum to exactly 1."""
    import torch

    heap = chances.cumsum(-1)
    found = int(torch.searchsorted(heap, heap[-1:] * rng.random(), right=True))
    # Rounding can put the draw past the last id that has probability.
    return found if found < heap.numel() else int(chances.nonzero()[-1])


def _residual(p: Any, q: Any, token: int) -> Any:
    if q is None:
        left = p.clone()
        left[token] = 0.0
    else:
        left = (p - q).clamp(min=0.0)
    return left if bool(left.any()) else p
