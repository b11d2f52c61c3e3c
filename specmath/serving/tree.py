"""Token trees of a served pair: what a step with one costs, the fastest, and a chain beside it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from numpy.typing import ArrayLike

from specmath.checks import InputError, real
from specmath.serving.pair import ServedPair
from specmath.speculation import speedup
from specmath.trees import TokenTree, best_tree, expected_tree_tokens

__all__ = [
    "TreeChoice",
    "best_served_tree",
    "read_branch",
    "tree_choice",
    "tree_speedup",
    "tree_step_seconds",
]

MOST_RANKS = 16
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
DEEPEST = 8


def tree_step_seconds(served: ServedPair, tree: TokenTree) -> float:
    """Seconds of one step with `tree`: verify its nodes and the root, draft a pass a level.

    Verification scores size+1 positions a sequence, as a chain of that many would; the tree's
    attention mask is taken as free. Each pass adds the engine's host time.
    """
    if tree.size == 0:
        return served.plain_seconds
    verify = float(served.verify(tree.size)) * served.plain_seconds
    draft = served.drafter.tree_seconds(
        served.place, tree.pass_widths, served.batch, served.context_tokens
    )
    passes = float(served.drafter.passes(tree.depth))
    once = float(served.extra(tree.size)) * served.plain_seconds
    return verify + float(draft) + once + passes * served.hosted.pass_


def tree_speedup(served: ServedPair, tree: TokenTree, branch: ArrayLike) -> float:
    """τ / s of `tree`: against plain decoding of the same batch and context.

    Raises InputError for a drafter that covers only a share of the steps: it drafts chains.
    """
    if served.share < 1:
        raise InputError(f"a tree needs a draft in every step, got coverage {served.share:g}")
    tokens = expected_tree_tokens(tree, branch)
    cost = tree_step_seconds(served, tree) / served.plain_seconds
    return float(speedup(tokens, cost))


def best_served_tree(served: ServedPair, branch: ArrayLike) -> tuple[TokenTree, float]:
    """The fastest of the best trees over sizes to 64 and depths to 8 or the heads; its speedup.

    The hardware-aware search of Sequoia (arXiv 2402.12374, section 4.3). The empty tree, 1.0,
    where no tree pays. With one child a node the trees are chains.
    """
    # A head of its own drafts each level of a Medusa tree.
    depths = range(1, int(min(DEEPEST, served.drafter.reach)) + 1)
    best, fastest = TokenTree((), ()), 1.0
    for tree in {best_tree(branch, n, max_depth=depth): None for n in SIZES for depth in depths}:
        found = tree_speedup(served, tree, branch)
        if found > fastest:
            best, fastest = tree, found
    return best, fastest


@dataclass(frozen=True)
class TreeChoice:
    """The fastest tree and the fastest chain of the same drafter, × plain decoding."""

    nodes: int
    depth: int
    tokens: float
    tree: float
    chain: float


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


def tree_choice(served: ServedPair, chances: list[float]) -> TreeChoice:
    """The fastest tree and the fastest chain, as `best_served_tree` finds them.

    `chances[k]`: P(the drafter's choice k+1 is the accepted one | its parent was accepted), the
    same at every depth. Raises InputError for a lookup, which drafts chains only.
    """
    tree, fastest = best_served_tree(served, chances)
    _, chain = best_served_tree(served, chances[:1])
    tokens = expected_tree_tokens(tree, chances)
    return TreeChoice(tree.size, tree.depth, tokens, fastest, chain)
