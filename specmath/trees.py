"""Token trees: expected tokens, the best tree of m nodes, and what drafting one costs.

    τ = 1 + Σ over nodes of Π p along the path from the root

p_k = P(child k is the accepted one | its parent was accepted), Σ_k p_k ≤ 1: at most one child of
a node is accepted. A chain of γ nodes with p_1 = α is Leviathan's Eq. 1. Sequoia (Chen et al.
2024, arXiv 2402.12374), section 4.1, assumes that p depends on k alone; here it may also depend
on the depth.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray, InputError, real, whole

__all__ = [
    "TokenTree",
    "TreeAcceptance",
    "TreeShape",
    "best_tree",
    "branch_of",
    "expected_tree_tokens",
    "read_shape",
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
        levels = (0, *self.depths)  # the root's first
        with_children = Counter(levels[parent + 1] for parent in set(self.parents))
        return tuple(with_children[level] for level in range(self.depth))


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


def branch_of(alpha: float, children: int, share: float) -> tuple[float, ...]:
    """p_1 … of a node's children where only α and what a next choice catches are known.

        p_1 = α          p_k = min(p_{k−1}, share (1 − Σ_{j<k} p_j))

    Parameters
    ----------
    alpha
        Chance of the first choice, in [0, 1].
    children
        How many, ≥ 1.
    share
        Of what the choices before it missed, in [0, 1].

    Returns
    -------
    tuple of float
        Non-increasing, sum ≤ 1.

    Raises
    ------
    InputError
        Outside these ranges.

    Examples
    --------
    >>> [round(p, 3) for p in branch_of(0.6, 3, 0.25)]
    [0.6, 0.1, 0.075]
    """
    real("share", share, 0, 1)
    chances = [float(real("alpha", alpha, 0, 1))]
    for _ in range(int(whole("children", children, 1)) - 1):
        chances.append(min(chances[-1], share * max(0.0, 1.0 - sum(chances))))
    return tuple(chances)


def expected_tree_tokens(tree: TokenTree, branch: ArrayLike) -> float:
    """τ = 1 + Σ over nodes of Π p along the path, tokens a step, bonus token included.

    Parameters
    ----------
    tree
        Drafted tokens below a root that is already emitted.
    branch
        p_1, p_2, … of a node's children, most likely first, each in [0, 1], sum ≤ 1; or one such
        row a depth, the last one continuing. A child beyond those given is never accepted.

    Returns
    -------
    float
        τ ≥ 1.

    Raises
    ------
    InputError
        Outside these ranges.

    References
    ----------
    Sequoia, arXiv 2402.12374, Proposition 3.4.

    Examples
    --------
    >>> round(expected_tree_tokens(TokenTree.chain(4), [0.8]), 4)
    3.3616
    """
    return 1.0 + float(np.sum(_along(tree, _branch(branch))))


def _along(tree: TokenTree, p: FloatArray) -> FloatArray:
    """P(accepted) of each node: the product along its path."""
    along = np.zeros(tree.size)
    for node, (parent, rank) in enumerate(zip(tree.parents, tree.ranks, strict=True)):
        before = 1.0 if parent < 0 else along[parent]
        along[node] = before * _chance(p, tree.depths[node], rank)
    return along


def best_tree(branch: ArrayLike, nodes: int, *, max_depth: int | None = None) -> TokenTree:
    """The tree of at most `nodes` nodes with the most expected tokens.

    A node is never likelier than its parent, so the m most probable paths form a tree, and no
    other has a larger Σ: taken greedily with a heap, O(m log m).

    Parameters
    ----------
    branch
        As in `expected_tree_tokens`, but non-increasing along the children.
    nodes
        ≥ 0. Paths of probability 0 are left out, so the tree may be smaller.
    max_depth
        Bounds the levels (passes of the drafter), ≥ 1.

    Returns
    -------
    TokenTree
        Parents before children.

    Raises
    ------
    InputError
        Outside these ranges.

    References
    ----------
    Sequoia, arXiv 2402.12374, section 4.1, whose dynamic programme finds a tree of the same value.

    Examples
    --------
    >>> tree = best_tree([0.6, 0.2, 0.1], 6)
    >>> tree.depth, round(expected_tree_tokens(tree, [0.6, 0.2, 0.1]), 4)
    (4, 2.6256)
    """
    p = _branch(branch)
    if np.any(np.diff(p, axis=1) > _ROUNDING):
        raise InputError("branch must not increase from one child to the next")
    wanted = int(whole("nodes", nodes, 0))
    deepest = wanted if max_depth is None else int(whole("max_depth", max_depth, 1))

    parents: list[int] = []
    ranks: list[int] = []
    heap: list[tuple[float, int, int, int, float]] = []

    def offer(parent: int, before: float, depth: int, rank: int) -> None:
        chance = before * _chance(p, depth, rank)
        if depth <= deepest and chance > 0:
            heapq.heappush(heap, (-chance, depth, parent, rank, before))

    offer(-1, 1.0, 1, 0)
    while heap and len(parents) < wanted:
        chance, depth, parent, rank, before = heapq.heappop(heap)
        parents.append(parent)
        ranks.append(rank)
        offer(parent, before, depth, rank + 1)
        offer(len(parents) - 1, -chance, depth + 1, 0)
    return TokenTree(tuple(parents), tuple(ranks))


# ── a tree by its outline ────────────────────────────────────────────────────────────────────

MOST = (64, 64, 1000)
"""The largest depth, children and nodes that an outline may name."""


@dataclass(frozen=True)
class TreeShape:
    """Levels, children of a node at most, and drafted tokens below the root.

    A drafter takes a pass a level: over the root, then over as many nodes as a node has children
    (EAGLE-2, arXiv 2406.16858, section 4.1, keeps that many a level); the most probable `nodes` of
    what was drafted are verified.
    """

    depth: int
    children: int
    nodes: int

    @property
    def pass_widths(self) -> tuple[int, ...]:
        """Positions of each drafting pass."""
        return 1, *(self.children,) * (self.depth - 1)

    def __str__(self) -> str:
        return f"{self.depth}:{self.children}:{self.nodes}"


def read_shape(text: str) -> TreeShape:
    """'5:4:15' → depth, children, nodes; InputError where it is none, or no tree has so many.

    Examples
    --------
    >>> read_shape("5:4:15")
    TreeShape(depth=5, children=4, nodes=15)
    """
    parts = text.split(":")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"tree must be DEPTH:TOPK:NODES such as 5:4:15, got {text[:40]!r}")
    named = zip(("depth", "topk", "nodes"), parts, MOST, strict=True)
    depth, children, nodes = (
        int(whole(f"{name} of the tree", int(part[:9]), 1, most)) for name, part, most in named
    )
    if nodes < depth:
        raise InputError(f"nodes of the tree must be >= its depth {depth}, got {nodes}")
    if children == 1 and nodes > depth:
        raise InputError(f"a chain of depth {depth} has {depth} nodes, got {nodes}")
    return TreeShape(depth, children, nodes)


@dataclass(frozen=True)
class TreeAcceptance(Acceptance):
    """Acceptance of the best trees of γ nodes under an outline.

        s_i = Σ over nodes of depth i of Π p along the path          τ = 1 + Σ s_i

    p_1 at depth i is the conditional rate s_i / s_{i−1} of the chain, p_2 … what `branch_of` says.

    Attributes
    ----------
    chain
        The acceptance of a chain.
    depth, children
        Levels, and children of a node at most; ≥ 1.
    share
        Of what the choices before it missed, what a next choice catches; in [0, 1].

    Examples
    --------
    >>> from specmath.acceptance import IidAcceptance
    >>> TreeAcceptance(IidAcceptance(0.6), 3, 2, 0.25).tokens_per_step([3, 7])
    array([2.176, 2.432])
    """

    chain: Acceptance
    depth: int
    children: int
    share: float

    @cached_property
    def _branch(self) -> tuple[tuple[float, ...], ...]:
        survival = self.chain.survival(self.depth)
        before = np.where(survival[:-1] > 0, survival[:-1], 1.0)
        rates = np.clip(survival[1:] / before, 0.0, 1.0)
        return tuple(branch_of(float(rate), self.children, self.share) for rate in rates)

    def survival(self, gamma: int) -> FloatArray:
        chances, depths = _node_chances(self._branch, int(gamma), self.depth)
        found = np.bincount(depths, weights=chances, minlength=int(gamma) + 1)
        found[0] = 1.0
        return np.asarray(found)

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        gammas = whole("gamma", gamma, 0)
        most = int(gammas.max(initial=0))
        chances, _ = _node_chances(self._branch, most, self.depth)
        # The best tree of m nodes is the first m that the greedy search of a larger one takes.
        sums = np.concatenate(([1.0], 1.0 + np.cumsum(chances)))
        taken = sums[np.minimum(gammas, len(chances))]
        return float(taken) if gammas.ndim == 0 else np.asarray(taken)


@lru_cache(maxsize=512)
def _node_chances(
    branch: tuple[tuple[float, ...], ...], nodes: int, depth: int
) -> tuple[FloatArray, np.ndarray]:
    """P(accepted) and depth of each node of the best tree, in the order that it takes them."""
    tree = best_tree(branch, nodes, max_depth=depth)
    return _along(tree, _branch(branch)), np.array(tree.depths, dtype=int)
