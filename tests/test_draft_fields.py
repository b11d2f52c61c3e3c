"""What a scenario says of its drafter: stored form, layers, vocabulary, stops, token trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from specmath.acceptance import FallingAcceptance, IidAcceptance
from specmath.acceptance_record import fall_of
from specmath.checks import InputError
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import from_toml, to_toml
from specmath.scenario.server import pair_of
from specmath.tables import gamma_table
from specmath.theorems import alpha_from_tokens_per_step, expected_tokens
from specmath.trees import TreeAcceptance, best_tree, branch_of, expected_tree_tokens
from specmath.words.notes import notes
from specmath.words.verdict import verdict

SERVED = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.7}
MTP = {"gpu": "H200 SXM", "model": "DeepSeek-V3", "draft": "mtp", "tensor_parallel": 8}


def scenario(**changes: Any) -> Scenario:
    return Scenario(**(SERVED | changes))


def said(p: Prediction) -> str:
    return " ".join(notes(p))


def test_the_fields_reach_the_drafter_and_a_file() -> None:
    s = scenario(draft_layers=2, draft_vocab=64000, draft_weight_dtype="fp8", tree="4:3:9")
    head = pair_of(s).drafter
    assert (head.layers, head.draft_vocab, head.weight_dtype) == (2, 64000, "fp8")  # type: ignore[attr-defined]
    assert str(pair_of(s).tree) == "4:3:9"
    assert from_toml(to_toml(s)) == s


@pytest.mark.parametrize("draft", ["eagle", "eagle3", "p-eagle", "medusa", "block", "dflash",
                                   "dspark", "ngram", "suffix", "layer_skip", "assistant",
                                   "pard:Llama-3.2-1B", "Llama-3.2-1B"])  # fmt: skip
def test_every_name_of_a_drafter_is_answered(draft: str) -> None:
    p = predict(scenario(draft=draft))
    assert 0.3 < p.speedup.value < 4
    assert p.curve.step_cost[0] == 1


# ── trees ────────────────────────────────────────────────────────────────────────────────────


def test_a_tree_by_hand() -> None:
    """α = .7, depth 2, two children: .7, .49, .06 = .2 × .3, and .042 below either: τ of five
    nodes is 2.334; the verification is that of five nodes, and the drafting of two passes."""
    p = predict(scenario(tree="2:2:5"))
    chances = (0.7, 0.49, 0.06, 0.042, 0.042)
    assert p.tokens_per_step == pytest.approx(1 + sum(chances))
    pair, chain = pair_of(p.scenario), pair_of(scenario(gamma=5))
    assert float(pair.verify(5)) == pytest.approx(float(chain.verify(5)))
    assert float(pair.extra(5)) == pytest.approx(float(chain.extra(5)))
    levels = pair.drafter.tree_seconds(pair.place, (1, 2), 1, 1024)
    drafting = (float(levels) + 2 * pair.hosted.pass_) / pair.plain_seconds
    assert float(pair.draft(5)) == pytest.approx(drafting)
    assert p.gamma == p.scenario.gamma == 5
    assert p.alpha == pytest.approx(0.7)


def test_a_tree_of_one_child_is_a_chain() -> None:
    tree, chain = predict(scenario(tree="4:1:4")), predict(scenario(gamma=4))
    assert tree.tokens_per_step == pytest.approx(chain.tokens_per_step)
    assert tree.step_cost == pytest.approx(chain.step_cost)
    assert tree.speedup.value == pytest.approx(chain.speedup.value)


@pytest.mark.parametrize("nodes", [1, 3, 10, 40])
def test_tree_acceptance_is_that_of_the_best_tree(nodes: int) -> None:
    chain = FallingAcceptance(0.75, 2, 0.1)
    rates = 0.75 * 0.9 ** np.maximum(0, np.arange(1, 7) - 2)
    branch = [branch_of(float(rate), 4, 0.2) for rate in rates]
    expected = expected_tree_tokens(best_tree(branch, nodes, max_depth=6), branch)
    found = TreeAcceptance(chain, 6, 4, 0.2)
    assert found.tokens_per_step(nodes) == pytest.approx(expected)
    survival = found.survival(nodes)
    assert survival.sum() == pytest.approx(expected)
    assert np.all(np.diff(survival) <= 1e-12)


def test_a_tree_stands_beside_the_chain_of_as_many_tokens() -> None:
    p = predict(scenario(tree="5:4:15"))
    chain = predict(scenario(gamma=15))
    assert p.chain
    assert p.chain.speedup.value == pytest.approx(chain.speedup.value)
    assert p.to_dict()["chain_walltime_improvement"] == p.chain.walltime_improvement
    assert p.speedup.value > chain.speedup.value
    assert f"a chain of as many tokens {chain.speedup.value:.2f}×" in said(p)
    assert predict(scenario(gamma=15)).chain is None


def test_a_tree_is_on_or_off() -> None:
    found = {a: predict(scenario(tree="5:4:15", alpha=a)) for a in [n / 20 for n in range(19)]}
    by_action = {p.decision.action: p for p in found.values()}
    assert set(by_action) == {"use", "measure", "skip"}
    on, off, between = (by_action[action] for action in ("use", "skip", "measure"))
    assert (on.decision.action, on.decision.gamma) == ("use", 15)
    assert verdict(on).headline.startswith("Turn it on with the tree 5:4:15")
    assert (off.decision.action, off.decision.gamma) == ("skip", 0)
    assert "tree 5:4:15 does not beat plain decoding" in verdict(off).reason
    assert "tokens a step" in verdict(off).flips
    assert "The tree 5:4:15 gives" in verdict(between).reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tree": "5:4"}, "DEPTH:TOPK:NODES"),
        ({"tree": "5:4:3"}, "nodes of the tree must be >= its depth 5"),
        ({"tree": "3:1:4"}, "a chain of depth 3 has 3 nodes"),
        ({"tree": "5:4:15", "gamma": 4}, "gamma must be 15, the nodes of the tree"),
        ({"tree": "5:4:15", "drafted_per_step": 2}, "does not go with a tree"),
        ({"drafted_per_step": 2}, "needs gamma"),
        ({"drafted_per_step": 5, "gamma": 4}, "drafted_per_step must be <= gamma = 4"),
        ({"alpha": None, "tokens_per_step": 3.5, "measured_gamma": 4, "drafted_per_step": 2},
         "tokens_per_step must be <= 3 where 2 are drafted"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises((ValidationError, InputError), match=words):
        scenario(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tree": "5:4:15", "draft": "ngram"}, "a tree needs a draft in every step"),
        ({"tree": "5:4:15", "draft": "suffix"}, "a tree needs a draft in every step"),
        ({"tree": "6:4:15", "draft": "medusa"}, "depth of the tree must be"),
        ({"draft_layers": 2, "draft": "mtp"}, "draft=mtp does not use draft_layers"),
    ],
)
def test_what_a_drafter_cannot_do_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        predict(scenario(**changes))


# ── drafts that stop early ───────────────────────────────────────────────────────────────────


def test_full_drafts_that_stop_nowhere_are_full_drafts() -> None:
    full, stops = predict(scenario(gamma=4)), predict(scenario(gamma=4, drafted_per_step=4))
    np.testing.assert_allclose(stops.curve.step_cost, full.curve.step_cost)
    assert stops.speedup.value == full.speedup.value


def test_stopped_drafts_cost_by_the_mean() -> None:
    """q = ½: ½ + ¼ + ⅛ + 1/16 = 0.9375 drafted a step at γ=4. Verification is 0.0625 of that of
    no draft and 0.9375 of that of one token; of 1 + ½ + ¼ + ⅛ = 1.875 passes 0.125 are one and
    0.875 two."""
    s = scenario(gamma=4, drafted_per_step=0.9375)
    pair, full = pair_of(s), pair_of(scenario(gamma=4))
    assert pair.continues == pytest.approx(0.5)
    v = 0.0625 + 0.9375 * float(full.verify(1))
    assert float(pair.verify(4)) == pytest.approx(v)
    expected = 0.125 * float(full.draft(1)) + 0.875 * float(full.draft(2))
    assert float(pair.draft(4)) == pytest.approx(expected, rel=1e-6)
    assert sum(pair.breakdown(4).values()) == pytest.approx(float(pair.seconds(4)))
    block = pair_of(scenario(gamma=4, draft="dspark", drafted_per_step=0.9375))
    whole = pair_of(scenario(gamma=4, draft="dspark"))
    assert float(block.draft(4)) == pytest.approx(float(whole.draft(4)))


def test_tokens_of_stopped_drafts_are_bounded() -> None:
    p = predict(scenario(gamma=4, drafted_per_step=0.9375))
    assert p.tokens_per_step == pytest.approx(sum(0.35**i for i in range(5)))
    ends = [float(c.tokens(4)) for c in p.endpoint.corners]
    reached, drafted = 0.7 ** np.arange(1, 5), 0.5 ** np.arange(1, 5)
    assert max(ends) == pytest.approx(1 + np.minimum(reached, drafted).sum())
    assert min(ends) == pytest.approx(1 + np.maximum(0, reached + drafted - 1).sum())
    assert max(ends) <= 1.9375 + 1e-9
    assert "stop early, at 0.9375 tokens" in said(p)


def test_what_was_counted_with_the_stops_has_them() -> None:
    """Accepted ÷ drafted of what was drafted: τ = 1 + r m, not 1 + r γ."""
    counted = {"alpha": None, "accepted_share": 0.8, "measured_gamma": 4, "gamma": 4}
    p = predict(scenario(**counted, drafted_per_step=2.5))
    assert p.tokens_per_step == pytest.approx(1 + 0.8 * 2.5)
    assert "was counted with them" in said(p)
    full = predict(scenario(**counted))
    assert full.tokens_per_step == pytest.approx(1 + 0.8 * 4)


# ── a module past its depth ──────────────────────────────────────────────────────────────────


def test_mtp_past_its_depth_loses_acceptance_where_one_rate_is_known() -> None:
    p = predict(scenario(**MTP, gamma=3))
    rates = 0.7 * np.array([1, 1 - 0.053, (1 - 0.053) ** 2])
    assert p.tokens_per_step == pytest.approx(1 + np.cumprod(rates).sum(), rel=1e-3)
    assert "trained for 1 token: each position past that" in said(p)
    assert p.tokens_per_step < float(expected_tokens(0.7, 3))
    ends = sorted({float(corner.tokens(3)) for corner in p.endpoint.corners})
    assert ends[0] < p.tokens_per_step < ends[-1]
    one = predict(scenario(**MTP, gamma=1))
    assert one.tokens_per_step == pytest.approx(1.7)
    assert "trained for 1 token" not in said(one)


def test_tokens_measured_at_a_gamma_stay_there() -> None:
    known = {"alpha": None, "tokens_per_step": 2.6, "measured_gamma": 3}
    s = scenario(**MTP | known, gamma=3)
    acceptance = resolve(s).speculation.drafted
    assert isinstance(acceptance, FallingAcceptance)
    assert acceptance.tokens_per_step(3) == pytest.approx(2.6)
    rates = {"alpha": None, "rates": (0.9, 0.8, 0.7)}
    assert not isinstance(
        resolve(scenario(**MTP | rates)).speculation.drafted, (FallingAcceptance, IidAcceptance)
    )
    most = {"alpha": None, "tokens_per_step": 4.0, "measured_gamma": 3}
    assert resolve(scenario(**MTP | most)).speculation.tokens(3) == pytest.approx(4.0)


@pytest.mark.parametrize(
    "given",
    [
        MTP,
        {"tree": "4:3:9", "gamma": 9},
        {"drafted_per_step": 2.0, "gamma": 3},
        {"alpha": None, "tokens_per_step": 2.6, "measured_gamma": 3},
        {"alpha": None, "tokens_per_step": 2.2, "measured_gamma": 3, "gamma": 0},
    ],
)
def test_the_table_over_gamma_is_the_prediction(given: dict[str, Any]) -> None:
    """Whatever is known of the drafts: its τ and its speedup are those of the prediction."""
    p = predict(scenario(**{"gamma": 3} | given))
    rows = gamma_table(p).rows()
    taus = np.asarray(p.speculation.acceptance.tokens_per_step(np.arange(len(rows))))
    assert [row["tokens_per_step"] for row in rows] == pytest.approx(taus.tolist())
    found = [row["walltime_improvement"] for row in rows]
    assert found == pytest.approx(p.curve.walltime_improvement.tolist())


# ── past what was measured ───────────────────────────────────────────────────────────────────


def test_an_eagle_head_measured_at_three_falls_past_it() -> None:
    """τ(3) = 2.6 stays; from there each position is accepted f less often than the one before, f
    the middle of the chains of the record, and the interval opens past γ=3 only."""
    known = {"alpha": None, "tokens_per_step": 2.6, "measured_gamma": 3}
    fall = fall_of("eagle3")
    assert fall is not None
    alpha = float(alpha_from_tokens_per_step(2.6, 3))
    each = [alpha] * 3 + [alpha * (1 - fall.value) ** n for n in range(1, 5)]
    p = predict(scenario(draft="eagle3", **known, gamma=7))
    assert p.tokens_per_step == pytest.approx(1 + np.cumprod(each).sum())
    assert "drafts of about 3 tokens: each position past that" in said(p)
    tokens = {g: {float(c.tokens(g)) for c in p.endpoint.corners} for g in (3, 7)}
    assert len(tokens[3]) == 1
    assert min(tokens[7]) < p.tokens_per_step < max(tokens[7])
    at_three = predict(scenario(draft="eagle3", **known, gamma=3))
    assert at_three.tokens_per_step == pytest.approx(2.6)
    assert "each position past that" not in said(at_three)


@pytest.mark.parametrize(
    "given",
    [
        {"draft": "Llama-3.2-1B", "alpha": None, "tokens_per_step": 2.6, "measured_gamma": 3},
        {"draft": "eagle3", "alpha": 0.7},
        {"draft": "eagle3", "alpha": None, "rates": (0.8, 0.6, 0.5)},
        {"draft": "eagle3", "alpha": None, "alpha_low": 0.6, "alpha_high": 0.7},
    ],
)
def test_what_does_not_fall(given: dict[str, Any]) -> None:
    """Draft models do not in the record; α is the theorem's; rates are their own; a range typed."""
    p = predict(scenario(**given, gamma=6))
    assert not isinstance(p.endpoint.speculation.drafted, FallingAcceptance)
    assert not any(u.field == "past_measured" for u in p.endpoint.unknown)


def test_a_band_falls_past_where_it_was_measured() -> None:
    s = scenario(draft="eagle3", alpha=None, acceptance_form="range", work="qa", gamma=8)
    found = resolve(s).band
    assert found is not None
    acceptance = resolve(s).speculation.drafted
    assert isinstance(acceptance, FallingAcceptance)
    assert (acceptance.alpha, acceptance.depth) == (pytest.approx(found.median), found.gamma)
    # MTP, trained for one token: its band is of drafts of about three, and emits as many there.
    module = resolve(scenario(**MTP | {"alpha": None, "acceptance_form": "range", "gamma": 3}))
    assert module.band is not None
    at = module.band.gamma
    tokens = IidAcceptance(module.band.median).tokens_per_step(at)
    assert module.speculation.drafted.tokens_per_step(at) == pytest.approx(tokens)
