"""Chain or tree: what the best token tree of the scenario's drafter would do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from specmath.checks import InputError, real
from specmath.scenario import Scenario
from specmath.serving.of_scenario import served_of
from specmath.trees import best_served_tree, expected_tree_tokens
from specmath.wording import count, faster, ratio, significant

__all__ = ["TreeAnswer", "read_branch", "tree_answer"]

MOST_RANKS = 16


@dataclass(frozen=True)
class TreeAnswer:
    """The fastest tree and the fastest chain of the same drafter, × plain decoding."""

    nodes: int
    depth: int
    tokens: float
    tree: float
    chain: float

    def sentence(self) -> str:
        """The answer in words."""
        if max(self.tree, self.chain) <= 1.0:
            return "Neither a tree nor a chain pays."
        if self.tree <= 1.02 * self.chain:
            return f"A chain does as well: {faster(self.chain)}, the best tree {ratio(self.tree)}."
        return (
            f"The best tree has {count(self.nodes, 'node')} in {count(self.depth, 'level')}, "
            f"emits {significant(self.tokens)} tokens a step and is {faster(self.tree)}; the best "
            f"chain reaches {ratio(self.chain)}."
        )


def read_branch(text: str) -> list[float]:
    """'0.7, 0.1, 0.05' → chances that the 1st, 2nd, 3rd choice is the accepted one.

    Each in [0, 1], none above the one before, sum at most 1; InputError otherwise.
    """
    try:
        chances = [float(part) for part in text.replace(";", ",").split(",") if part.strip()]
    except ValueError as error:
        raise InputError(f"chances must be numbers such as 0.7, 0.1, got {text[:60]!r}") from error
    if not 1 <= len(chances) <= MOST_RANKS:
        raise InputError(f"chances must be 1 to {MOST_RANKS} numbers, got {len(chances)}")
    real("chances", chances, 0, 1)
    if any(b > a for a, b in pairwise(chances)):
        raise InputError(f"chances must not increase from one choice to the next, got {text[:60]}")
    if sum(chances) > 1 + 1e-9:
        raise InputError(f"chances must sum to at most 1, got {sum(chances):g}")
    return chances


def tree_answer(scenario: Scenario, chances: list[float]) -> TreeAnswer:
    """The fastest tree over sizes to 64 and depths to 8 or the heads, and the fastest chain.

    `chances[k]`: P(the drafter's choice k+1 is the accepted one | its parent was accepted), the
    same at every depth. Raises InputError for a lookup, which drafts chains only.
    """
    served = served_of(scenario)
    sizes = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    # A head of its own drafts each level of a Medusa tree.
    depths = tuple(range(1, min(8, getattr(served.drafter, "heads", 8)) + 1))
    tree, fastest = best_served_tree(served, chances, sizes, depths)
    _, chain = best_served_tree(served, chances[:1], depths, depths)
    tokens = expected_tree_tokens(tree, chances)
    return TreeAnswer(tree.size, tree.depth, tokens, fastest, chain)
