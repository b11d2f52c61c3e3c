"""Chain or tree: brute force over small trees, the chain's formula, and the words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.scenario import Scenario
from specmath.scenario.convert import EXAMPLE_PAIR
from specmath.serving.of_scenario import served_of
from specmath.serving.tree_choice import TreeAnswer, read_branch, tree_answer


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, "draft": "eagle", **changes})


def _trees(size: int, ranks: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every tree of `size` nodes as (parent, rank) pairs, parents first; -1 is the root."""
    for nodes in product(*(product(range(-1, i), range(ranks)) for i in range(size))):
        if len(set(nodes)) == size:
            yield nodes


def _speedup(served: Any, nodes: tuple[tuple[int, int], ...], chances: list[float]) -> float:
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
    drafting = served.drafter.tree_seconds(
        served.place, widths, served.batch, served.context_tokens
    )
    host = served.overheads
    seconds = float(served.verify(len(nodes))) * served.plain_seconds + float(drafting)
    seconds += host.step_seconds + levels * host.pass_seconds
    return (1 + sum(path)) * served.plain_seconds / seconds


@pytest.mark.parametrize("chances", [[0.5, 0.3], [0.45, 0.25, 0.15]])
@pytest.mark.parametrize("batch", [1, 96])
def test_no_small_tree_is_faster(chances: list[float], batch: int) -> None:
    """Every tree of up to 4 nodes, one by one."""
    s = scenario(batch=batch)
    served, found = served_of(s), tree_answer(s, chances)
    for size in (1, 2, 3, 4):
        every = [_speedup(served, t, chances) for t in _trees(size, len(chances))]
        assert found.tree >= max(every) - 1e-12


@pytest.mark.parametrize("alpha", [0.3, 0.75])
@pytest.mark.parametrize("draft", ["eagle", "medusa", "Llama-3.2-1B", "layer_skip"])
def test_the_chain_is_the_best_gamma(draft: str, alpha: float) -> None:
    """With one choice a position a tree is a chain, and its speedup is τ/s of the best γ to 8."""
    s = scenario(draft=draft)
    served, found = served_of(s), tree_answer(s, [alpha])
    gammas = np.arange((5 if draft == "medusa" else 8) + 1)
    best = max(np.asarray(IidAcceptance(alpha).tokens_per_step(gammas)) / served.total(gammas))
    assert found.chain == pytest.approx(best, rel=1e-9)
    assert found.tree == pytest.approx(best, rel=1e-9)


def test_a_wide_guess_makes_a_tree_worth_it_at_batch_1_and_not_under_load() -> None:
    chances = [0.4, 0.2, 0.12, 0.08, 0.05]
    alone, loaded = (tree_answer(scenario(batch=b), chances) for b in (1, 256))
    assert alone.tree > 1.05 * alone.chain
    assert alone.nodes > alone.depth
    assert loaded.nodes < alone.nodes
    assert loaded.tree < alone.tree


def test_a_further_choice_never_hurts() -> None:
    found = [tree_answer(scenario(), [0.5, 0.2, 0.1][:k]).tree for k in (1, 2, 3)]
    assert found == sorted(found)


def test_words() -> None:
    assert TreeAnswer(0, 0, 1.0, 1.0, 1.0).sentence() == "Neither a tree nor a chain pays."
    assert TreeAnswer(4, 4, 2.0, 1.51, 1.5).sentence().startswith("A chain does as well: 1.50×")
    said = TreeAnswer(12, 3, 2.345, 1.8, 1.5).sentence()
    assert said == (
        "The best tree has 12 nodes in 3 levels, emits 2.35 tokens a step and is 1.80× faster; "
        "the best chain reaches 1.50×."
    )


def test_where_nothing_pays() -> None:
    found = tree_answer(scenario(draft="layer_skip", batch=256), [0.05])
    assert (found.tree, found.chain, found.nodes) == (1.0, 1.0, 0)
    assert found.sentence() == "Neither a tree nor a chain pays."


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
        tree_answer(scenario(draft="ngram"), [0.5, 0.2])
