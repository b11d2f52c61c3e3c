"""Trees of a served pair: brute force over small ones, the chain's formula, published rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from specmath import engines, models
from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.drafters import (
    Drafter,
    Eagle,
    Eagle3,
    LayerSkip,
    Medusa,
    NGram,
    SeparateModel,
    named,
)
from specmath.serving import ServedPair
from specmath.serving.tree import (
    best_served_tree,
    read_branch,
    tree_choice,
    tree_speedup,
    tree_step_seconds,
)
from specmath.steptime import Placement
from specmath.trees import TokenTree

BRANCH = (0.6, 0.15, 0.08, 0.05)
LLAMA_8B = models.find("Llama-3.1-8B")


def served(drafter: Drafter, batch: int = 1) -> ServedPair:
    return ServedPair(Placement(LLAMA_8B, "H100 SXM"), drafter, batch, 1024)


def _trees(size: int, ranks: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every tree of `size` nodes as (parent, rank) pairs, parents first; -1 is the root."""
    for nodes in product(*(product(range(-1, i), range(ranks)) for i in range(size))):
        if len(set(nodes)) == size:
            yield nodes


def _speedup(pair: ServedPair, nodes: tuple[tuple[int, int], ...], chances: list[float]) -> float:
    """τ/s of one tree from the drafter's and the target's own seconds."""
    depth, path, children = [], [], [0] * (len(nodes) + 1)
    for parent, rank in nodes:
        depth.append(1 if parent < 0 else depth[parent] + 1)
        path.append((1.0 if parent < 0 else path[parent]) * chances[rank])
        children[parent + 1] += 1
    levels = max(depth)
    widths = [1]
    for level in range(1, levels):
        widths.append(sum(1 for i, d in enumerate(depth) if d == level and children[i + 1]))
    drafting = pair.drafter.tree_seconds(pair.place, widths, pair.batch, pair.context_tokens)
    host = pair.hosted
    seconds = float(pair.verify(len(nodes))) * pair.plain_seconds + float(drafting)
    seconds += host.step + pair.batch * host.draft_sequence + levels * host.pass_
    return (1 + sum(path)) * pair.plain_seconds / seconds


@pytest.mark.parametrize("chances", [[0.5, 0.3], [0.45, 0.25, 0.15]])
@pytest.mark.parametrize("batch", [1, 96])
def test_no_small_tree_is_faster(chances: list[float], batch: int) -> None:
    """Every tree of up to 4 nodes, one by one."""
    pair = served(Eagle(), batch)
    found = tree_choice(pair, chances)
    for size in (1, 2, 3, 4):
        every = [_speedup(pair, t, chances) for t in _trees(size, len(chances))]
        assert found.tree >= max(every) - 1e-12


@pytest.mark.parametrize("alpha", [0.3, 0.75])
@pytest.mark.parametrize("draft", ["eagle", "medusa", "Llama-3.2-1B", "layer_skip"])
def test_the_chain_is_the_best_gamma(draft: str, alpha: float) -> None:
    """With one choice a position a tree is a chain, and its speedup is τ/s of the best γ to 8."""
    pair = served(named(draft))
    found = tree_choice(pair, [alpha])
    gammas = np.arange((5 if draft == "medusa" else 8) + 1)
    best = max(np.asarray(IidAcceptance(alpha).tokens_per_step(gammas)) / pair.total(gammas))
    assert found.chain == pytest.approx(best, rel=1e-9)
    assert found.tree == pytest.approx(best, rel=1e-9)


def test_a_wide_guess_makes_a_tree_worth_it_at_batch_1_and_not_under_load() -> None:
    chances = [0.4, 0.2, 0.12, 0.08, 0.05]
    alone, loaded = (tree_choice(served(Eagle(), b), chances) for b in (1, 256))
    assert alone.tree > 1.05 * alone.chain
    assert alone.nodes > alone.depth
    assert loaded.nodes < alone.nodes
    assert loaded.tree < alone.tree


def test_a_further_choice_never_hurts() -> None:
    found = [tree_choice(served(Eagle()), [0.5, 0.2, 0.1][:k]).tree for k in (1, 2, 3)]
    assert found == sorted(found)


def test_where_nothing_pays() -> None:
    found = tree_choice(served(LayerSkip(), 256), [0.05])
    assert (found.tree, found.chain, found.nodes) == (1.0, 1.0, 0)


@pytest.mark.parametrize("drafter", [SeparateModel(models.find("Llama-3.2-1B")), Eagle(), Eagle3(),
                                     LayerSkip(), Medusa()], ids=lambda d: d.kind)  # fmt: skip
def test_a_chain_costs_what_a_plain_draft_does(drafter: Drafter) -> None:
    cost = served(drafter)
    for gamma in (0, 1, 4):
        seconds = tree_step_seconds(cost, TokenTree.chain(gamma))
        assert seconds == pytest.approx(float(cost.seconds(gamma)), rel=1e-12)
    speedup = tree_speedup(cost, TokenTree.chain(4), [0.6])
    expected = float(IidAcceptance(0.6).tokens_per_step(4) / cost.total(4))
    assert speedup == pytest.approx(expected)


def test_a_tree_pays_at_batch_1_and_a_chain_or_less_at_a_large_batch() -> None:
    alone, fast = best_served_tree(served(Eagle()), BRANCH)
    chain = max(tree_speedup(served(Eagle()), TokenTree.chain(g), BRANCH) for g in range(1, 9))
    assert fast > 1.15 * chain
    crowded, slow = best_served_tree(served(Eagle(), batch=256), BRANCH)
    assert crowded.size < alone.size / 4
    assert slow < fast
    hopeless = best_served_tree(served(LayerSkip(0.9)), [0.2])
    assert hopeless == (TokenTree((), ()), 1.0)


def test_sequoias_verification_on_this_roofline_is_a_known_miss() -> None:
    """v(128) of Llama-2-7B at batch 1: 1.13 predicted where their speedups imply 1.05 to 1.10.

    Their A100 is the PCIe card (here the SXM one) and their host slow: 24.2 ms a plain step, of
    which 9.5 ms are the forward; what hides behind that host is not modelled.
    """
    cost = ServedPair(
        Placement(models.find("Llama-2-7B"), "A100 80GB SXM"),
        SeparateModel(models.find("Llama-68M")),
        batch=1,
        context_tokens=128,
        engine=replace(engines.named("vllm"), host=0.0242 - 0.0095),
    )
    assert cost.plain_seconds == pytest.approx(0.0242, rel=0.05)
    assert 1.10 < float(cost.verify(128)) < 1.16


def test_reading_chances() -> None:
    assert read_branch("0.7, 0.1;0.05,") == [0.7, 0.1, 0.05]
    assert read_branch("0.5,0.5") == [0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b", "chances must be numbers"),
        ("", "chances must be 1 to 16 numbers, got 0"),
        (",".join(["0.01"] * 17), "got 17"),
        ("0.7,0.8", "must not increase"),
        ("0.6,0.5", "sum to at most 1, got 1.1"),
        ("1.2", "chances must be a finite number >= 0 and <= 1"),
        ("nan", "chances must be a finite number"),
        ("-0.1", "chances must be"),
    ],
)
def test_wrong_chances(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_branch(text)


def test_a_lookup_drafts_chains_only() -> None:
    with pytest.raises(InputError, match="a tree needs a draft in every step"):
        tree_choice(served(NGram()), [0.5, 0.2])
