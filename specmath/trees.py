"""Token trees: expected tokens, the best tree of m nodes, and what drafting one costs.

    τ = 1 + Σ over nodes of Π p along the path from the root

p_k = P(child k is the accepted one | its parent was accepted), Σ_k p_k ≤ 1: at most one child of
a node is accepted. A chain of γ nodes with p_1 = α is Leviathan's Eq. 1. Sequoia (Chen et al.
2024, arXiv 2402.12374), section 4.1, assumes that p depends on k alone; here it may also depend
on the depth.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray, InputError, real, whole
from specmath.serving import ServedStepCost

__all__ = [
    "TokenTree",
    "TreeAcceptance",
    "best_served_tree",
    "best_tree",
    "expected_tree_tokens",
    "tree_speedup",
    "tree_step_seconds",
]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class TokenTree:
    """Drafted tokens below a root that is already emitted.

    `parents[i]`: index of node i's parent, −1 where that is the root; a parent comes before its
    children. `ranks[i]`: which child it is, 0 the most likely; no two children share a rank.
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.parents) != len(self.ranks):
            raise InputError(
                f"a tree needs a rank a node, got {len(self.parents)} and {len(self.ranks)}"
            )
        for node, parent in enumerate(self.parents):
            whole(f"parent of node {node}", parent, -1, node - 1)
        if self.ranks:
            whole("ranks", self.ranks, 0)
        if len(set(zip(self.parents, self.ranks, strict=True))) < self.size:
            raise InputError("two children of one node have the same rank")

    @classmethod
    def chain(cls, gamma: int) -> TokenTree:
        """γ nodes one below another: an ordinary draft."""
        length = int(whole("gamma", gamma, 0))
        return cls(tuple(range(-1, length - 1)), (0,) * length)

    @property
    def size(self) -> int:
        """Nodes: tokens that the target scores besides the root."""
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of each node; 1 below the root."""
        found: list[int] = []
        for parent in self.parents:
            found.append(1 if parent < 0 else found[parent] + 1)
        return tuple(found)

    @property
    def depth(self) -> int:
        """Levels, and passes of a drafter that drafts one level after another."""
        return max(self.depths, default=0)

    @cached_property
    def pass_widths(self) -> tuple[int, ...]:
        """Positions of each drafting pass: the nodes that have children, level by level; the
        first pass is over the root."""
        expanded = {parent for parent in self.parents if parent >= 0}
        counts = [1] * min(self.depth, 1) + [0] * (self.depth - 1)
        for node in expanded:
            counts[self.depths[node]] += 1
        return tuple(counts)


def _branch(branch: ArrayLike) -> FloatArray:
    """p as (depths, children): one row for all depths, or one a depth (the last continues)."""
    p = np.atleast_2d(real("branch", branch, 0, 1))
    if p.ndim != 2 or p.size == 0:
        raise InputError(f"branch must hold p of each child, by depth or not, got {branch!r}")
    total = p.sum(axis=1).max()
    if total > 1 + _ROUNDING:
        raise InputError(f"branch must sum to <= 1 over the children of a node, got {total:g}")
    return p


def _chance(p: FloatArray, depth: int, rank: int) -> float:
    """P(child `rank` at `depth` accepted | parent accepted); 0 beyond the children given."""
    return float(p[min(depth, len(p)) - 1, rank]) if rank < p.shape[1] else 0.0


def _path_chances(tree: TokenTree, branch: ArrayLike) -> FloatArray:
    """P(each node is accepted): the product of p along its path."""
    p = _branch(branch)
    found = np.zeros(tree.size)
    for node, (parent, rank) in enumerate(zip(tree.parents, tree.ranks, strict=True)):
        before = 1.0 if parent < 0 else found[parent]
        found[node] = before * _chance(p, tree.depths[node], rank)
    return found


def expected_tree_tokens(tree: TokenTree, branch: ArrayLike) -> float:
    """τ = 1 + Σ over nodes of Π p along the path, tokens a step, bonus token included.

    `branch`: p_1, p_2, … of a node's children, most likely first, each in [0, 1], sum ≤ 1; or one
    such row a depth, the last one continuing. A child beyond those given is never accepted.
    Raises InputError outside these ranges. Source: Sequoia (arXiv 2402.12374), Proposition 3.4.
    """
    return 1.0 + float(np.sum(_path_chances(tree, branch)))


@dataclass(frozen=True)
class TreeAcceptance(Acceptance):
    """The accepted length of a tree, as an `Acceptance` over γ = its depth.

    s_i = Σ over nodes of depth i of Π p along the path. A shorter γ cuts the tree at that depth;
    a longer one raises InputError.
    """

    tree: TokenTree
    branch: tuple[tuple[float, ...], ...]

    def __init__(self, tree: TokenTree, branch: ArrayLike) -> None:
        object.__setattr__(self, "tree", tree)
        rows = _branch(branch).tolist()
        object.__setattr__(self, "branch", tuple(tuple(row) for row in rows))

    def survival(self, gamma: int) -> FloatArray:
        length = int(whole("gamma", gamma, 0, self.tree.depth))
        depths = np.array(self.tree.depths, dtype=np.int64)
        chances = _path_chances(self.tree, self.branch)
        sums = np.bincount(depths, weights=chances, minlength=length + 1)
        sums[0] = 1.0
        return np.asarray(np.minimum(sums[: length + 1], 1.0))


def best_tree(
    branch: ArrayLike,
    nodes: int,
    *,
    max_depth: int | None = None,
    max_children: int | None = None,
    max_width: int | None = None,
) -> TokenTree:
    """The tree of at most `nodes` nodes with the most expected tokens.

    A node is never likelier than its parent, so the m most probable paths form a tree, and no
    other has a larger Σ: taken greedily with a heap, O(m log m). `max_depth` bounds the levels
    (passes of the drafter), `max_children` the children of a node (top-k), `max_width` the nodes
    of a level (positions of a pass); greedy stays optimal, because likelier parents have likelier
    children. Paths of probability 0 are left out, so the tree may be smaller than `nodes`.

    `nodes` ≥ 0, each bound ≥ 1; `branch` as in `expected_tree_tokens` but non-increasing along
    the children. InputError otherwise. Source: Sequoia (arXiv 2402.12374), section 4.1, whose
    dynamic programme finds a tree of the same value.
    """
    p = _branch(branch)
    if np.any(np.diff(p, axis=1) > _ROUNDING):
        raise InputError("branch must not increase from one child to the next")
    wanted = int(whole("nodes", nodes, 0))
    deepest = wanted if max_depth is None else int(whole("max_depth", max_depth, 1))
    children = p.shape[1] if max_children is None else int(whole("max_children", max_children, 1))
    widest = wanted if max_width is None else int(whole("max_width", max_width, 1))

    parents: list[int] = []
    ranks: list[int] = []
    level_sizes: dict[int, int] = {}
    heap: list[tuple[float, int, int, int, float]] = []

    def offer(parent: int, before: float, depth: int, rank: int) -> None:
        chance = before * _chance(p, depth, rank)
        if depth <= deepest and rank < children and chance > 0:
            heapq.heappush(heap, (-chance, depth, parent, rank, before))

    offer(-1, 1.0, 1, 0)
    while heap and len(parents) < wanted:
        chance, depth, parent, rank, before = heapq.heappop(heap)
        if level_sizes.get(depth, 0) == widest:
            continue
        level_sizes[depth] = level_sizes.get(depth, 0) + 1
        parents.append(parent)
        ranks.append(rank)
        offer(parent, before, depth, rank + 1)
        offer(len(parents) - 1, -chance, depth + 1, 0)
    return TokenTree(tuple(parents), tuple(ranks))


def tree_step_seconds(served: ServedStepCost, tree: TokenTree) -> float:
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
    host = served.overheads.step_seconds + passes * served.overheads.pass_seconds
    return verify + float(draft) + host


def tree_speedup(served: ServedStepCost, tree: TokenTree, branch: ArrayLike) -> float:
    """τ / s of `tree`: against plain decoding of the same batch and context.

    Raises InputError for a drafter that covers only a share of the steps: it drafts chains.
    """
    if served.share < 1:
        raise InputError(f"a tree needs a draft in every step, got coverage {served.share:g}")
    tokens = expected_tree_tokens(tree, branch)
    return tokens * served.plain_seconds / tree_step_seconds(served, tree)


def best_served_tree(
    served: ServedStepCost,
    branch: ArrayLike,
    sizes: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128),
    depths: Sequence[int] = tuple(range(1, 17)),
) -> tuple[TokenTree, float]:
    """The fastest of the best trees over sizes and depth bounds, and its speedup.

    The hardware-aware search of Sequoia (arXiv 2402.12374, section 4.3). The empty tree, 1.0,
    where no tree pays.
    """
    best, fastest = TokenTree((), ()), 1.0
    for size in sizes:
        for depth in depths:
            tree = best_tree(branch, size, max_depth=depth)
            found = tree_speedup(served, tree, branch)
            if found > fastest:
                best, fastest = tree, found
    return best, fastest
