"""Speculative output follows the target's distribution; its steps follow the replay."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2, chisquare
from table_model import TableModel, pair

from specmath.checks import InputError
from specmath.measure.drafts import Draft, ModelDraft, NgramDraft
from specmath.measure.language_model import Sampling
from specmath.measure.pairs import builtin_pair, builtin_prompts
from specmath.measure.score import acceptance, ngram_matches, replay_of, score
from specmath.measure.speculate import generate
from specmath.replay import ReplayAcceptance

LENGTH = 3


def text_probabilities(target: TableModel, sampling: Sampling, start: int) -> dict[tuple, float]:
    """P(text) of every text of LENGTH tokens, by the chain rule."""
    rows = sampling.probabilities(target.table)
    found = {}
    for text in product(range(target.vocabulary), repeat=LENGTH):
        before = (start, *text[:-1])
        found[text] = float(np.prod([rows[b, t] for b, t in zip(before, text, strict=True)]))
    return found


DRAFTS = {
    "model": lambda draft: ModelDraft(draft),
    "argmax": lambda draft: ModelDraft(draft, argmax=True),
    "n-gram": lambda draft: NgramDraft(2),
}


SAMPLINGS = (Sampling(1.0), Sampling(0.7), Sampling(1.3, top_p=0.8))


@pytest.mark.parametrize(
    ("kind", "sampling"),
    [
        # By default each draft once and each sampling once.
        pytest.param(
            kind, sampling, marks=() if i == j else pytest.mark.slow, id=f"{sampling}-{kind}"
        )
        for i, kind in enumerate(DRAFTS)
        for j, sampling in enumerate(SAMPLINGS)
    ],
)
def test_output_follows_the_target(kind: str, sampling: Sampling) -> None:
    """Chi-square over all 27 texts of 3 tokens, 1,500 runs, γ=2.

    A correction drawn from p instead of max(p − q, 0) is found with p < 1e-60 in each case.
    """
    target, other = pair(3, vocabulary=3, scale=0.6)
    prompt = [1, 0, 2, 0, 1, 0]
    expected = text_probabilities(target, sampling, prompt[-1])
    draft: Draft = DRAFTS[kind](other)
    rng, counts = np.random.default_rng(11), dict.fromkeys(expected, 0)
    for _ in range(1500):
        made = generate(target, draft, prompt, gamma=2, limit=LENGTH, sampling=sampling, rng=rng)
        counts[tuple(made.tokens)] += 1
    assert _p_value(counts, expected) > 1e-3
    # The same runs against the draft's own distribution: the test can tell the two apart.
    wrong = text_probabilities(other, sampling, prompt[-1])
    assert _p_value(counts, wrong) < 1e-6


def _p_value(counts: dict[tuple, int], expected: dict[tuple, float]) -> float:
    """Texts that are expected fewer than 5 times are pooled."""
    total = sum(counts.values())
    often = [text for text in expected if expected[text] * total >= 5]
    seen, wanted = [counts[t] for t in often], [expected[t] * total for t in often]
    if total - sum(wanted) > 1e-6 * total or total > sum(seen):
        seen.append(total - sum(seen))
        wanted.append(max(total - sum(wanted), 1e-9))
    return float(chisquare(seen, np.array(wanted) * total / sum(wanted)).pvalue)


def exact_steps(target: np.ndarray, draft: np.ndarray, start: int, gamma: int, left: int) -> float:
    """E[target steps] of Algorithm 1 by enumeration of drafts, acceptances and corrections."""
    if left == 0:
        return 0.0

    def at(token: int, drafted: int, left: int) -> float:
        """Expected steps after this one, `drafted` tokens still to draft."""
        if left == 0:
            return 0.0
        p, q = target[token], draft[token]
        if drafted == 0:
            return sum(p[x] * exact_steps(target, draft, x, gamma, left - 1) for x in range(len(p)))
        kept, residual = np.minimum(p, q), np.maximum(p - q, 0)
        found = sum(kept[x] * at(x, drafted - 1, left - 1) for x in range(len(p)))
        return found + sum(
            residual[x] * exact_steps(target, draft, x, gamma, left - 1) for x in range(len(p))
        )

    return 1.0 + at(start, min(gamma, left - 1), left)


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_replay_over_all_texts_is_the_enumerated_truth(gamma: int, temperature: float) -> None:
    """Σ over texts P(text) E[steps | text] from a_t alone, against Algorithm 1 enumerated."""
    target, draft = pair(5, vocabulary=3)
    sampling = Sampling(temperature)
    truth = exact_steps(
        sampling.probabilities(target.table), sampling.probabilities(draft.table), 1, gamma, LENGTH
    )
    mean = 0.0
    for text, weight in text_probabilities(target, sampling, 1).items():
        logits = [score(model, [1], text) for model in (target, draft)]
        replay = ReplayAcceptance([acceptance(*logits, text, sampling)])
        mean += weight * replay.steps(gamma).mean[0, 0]
    assert mean == pytest.approx(truth, rel=1e-6)


def test_alpha_is_the_overlap() -> None:
    """E over x ~ p of min(1, q/p) = Σ min(p, q) (Leviathan et al. 2023, Corollary 3.6)."""
    target, draft = pair(6, vocabulary=5)
    sampling = Sampling(0.8)
    p, q = sampling.probabilities(target.table)[2], sampling.probabilities(draft.table)[2]
    rates = [
        acceptance(score(target, [2], [x]), score(draft, [2], [x]), [x], sampling)[0]
        for x in range(5)
    ]
    assert p @ rates == pytest.approx(np.minimum(p, q).sum(), rel=1e-9)


PROMPTS = builtin_prompts()
BY_SEGMENT = [next(p for p in PROMPTS if p.segment == s) for s in ("prose", "code", "json")]


@pytest.mark.parametrize(
    ("draft", "texts"),
    [
        ("model", 3), ("ngram", 3), ("skip:2-5", 1),
        # Greedy, a draft model takes its most likely token in either way.
        pytest.param("model:argmax", 3, marks=pytest.mark.slow),
        pytest.param("skip:2-5", 3, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_greedy_is_plain_greedy_and_replay_is_the_run_step_for_step(draft: str, texts: int) -> None:
    pair_, sampling = builtin_pair(draft), Sampling(0)
    for prompt in BY_SEGMENT[:texts]:
        tokens = pair_.tokenizer.encode(prompt.text)
        plain = _run(pair_, tokens, 0, sampling)
        replay = replay_of(pair_.target, pair_.draft, [(tokens, plain.tokens)], sampling, 8)
        for gamma in (1, 3, 8):
            run = _run(pair_, tokens, gamma, sampling)
            assert run.tokens == plain.tokens
            steps = replay.steps(gamma)
            assert steps.mean[0, 0] == pytest.approx(run.steps, abs=1e-9)
            assert steps.variance[0, 0] == pytest.approx(0, abs=1e-9)
            starts = np.cumsum([0, *run.emitted])[:-1]
            assert steps.starts[0, 0, 0] == pytest.approx(len(starts))


def _run(pair_, tokens, gamma, sampling, seed=0):  # type: ignore[no-untyped-def]
    return generate(
        pair_.target, pair_.draft, tokens, gamma=gamma, limit=48, sampling=sampling,
        rng=np.random.default_rng(seed), stop_ids=pair_.tokenizer.stop_ids,
    )  # fmt: skip


@pytest.mark.slow
def test_sampled_runs_agree_with_replay() -> None:
    """γ = 1, 2, 4, 8 at T=0.7 and 1: 8 z of the steps given the run's own texts, each |z| ≤ 3.5,
    and the mean z² below the 99.9% quantile of χ²₈/8. Seeds fixed."""
    pair_ = builtin_pair()
    squares = []
    for temperature in (0.7, 1.0):
        sampling = Sampling(temperature)
        for gamma in (1, 2, 4, 8):
            texts, steps = [], 0
            for number, prompt in enumerate(BY_SEGMENT):
                tokens = pair_.tokenizer.encode(prompt.text)
                for repeat in range(4):
                    run = _run(pair_, tokens, gamma, sampling, [number, repeat, gamma])
                    texts.append((tokens, run.tokens))
                    steps += run.steps
            counts = replay_of(pair_.target, pair_.draft, texts, sampling, 8).steps(gamma)
            z = (steps - counts.mean.sum()) / np.sqrt(counts.variance.sum())
            assert abs(z) <= 3.5, (temperature, gamma)
            squares.append(z * z)
    assert np.mean(squares) < chi2.ppf(0.999, 8) / 8


def test_ngram_looks_up_the_longest_and_latest() -> None:
    session = NgramDraft(3).session()
    tokens = [1, 2, 3, 9, 1, 2, 3, 8, 2, 3]
    assert session.lookup(tokens, 4) == [8, 2, 3]  # the latest "2 3", up to the end of the text
    assert session.lookup([*tokens, 7], 4) == []
    assert session.lookup([*tokens, 7, 1, 2, 3], 2) == [8, 2]


def test_ngram_replay_equals_runs_at_any_temperature() -> None:
    pair_, sampling = builtin_pair("ngram"), Sampling(0.7)
    tokens = pair_.tokenizer.encode(BY_SEGMENT[2].text)
    for gamma in (1, 3, 8):
        run = _run(pair_, tokens, gamma, sampling, 5)
        matches = ngram_matches(NgramDraft(3), tokens, run.tokens, 8)
        replay = ReplayAcceptance.from_starts([matches])
        assert replay.steps(gamma).mean[0, 0] == pytest.approx(run.steps, abs=1e-9)


def test_rules_of_acceptance() -> None:
    p, q = np.log([[0.5, 0.3, 0.2]]), np.log([[0.2, 0.7, 0.1]])
    assert acceptance(p, q, [0], Sampling(1))[0] == pytest.approx(0.4)
    assert acceptance(p, q, [1], Sampling(1))[0] == 1
    assert acceptance(p, q, [1], Sampling(1), argmax=True)[0] == 1
    assert acceptance(p, q, [0], Sampling(1), argmax=True)[0] == 0
    assert acceptance(p, q, [0], Sampling(0))[0] == 0
    # Top-p 0.6 keeps {0, 1} of p as 5:3 and {1} of q.
    assert acceptance(p, q, [0], Sampling(1, 0.6))[0] == 0
    with pytest.raises(InputError, match="not produced by this target"):
        acceptance(p, q, [2], Sampling(1, 0.6))


def test_a_step_never_passes_the_limit_or_a_stop() -> None:
    target, draft = pair(7)
    for seed in range(20):
        made = generate(
            target, ModelDraft(draft), [1], gamma=5, limit=4, sampling=Sampling(1),
            rng=np.random.default_rng(seed), stop_ids=(2,),
        )  # fmt: skip
        assert len(made.tokens) <= 4
        assert 2 not in made.tokens[:-1]
        assert sum(made.emitted) == len(made.tokens)
        assert made.token_gaps.size == len(made.tokens) - 1


@pytest.mark.parametrize(
    ("prompt", "limit", "message"),
    [([], 4, "at least one token, got none"), ([1] * 999, 4, "context of 1000 tokens, got 999")],
)
def test_bad_prompts(prompt: list[int], limit: int, message: str) -> None:
    target, _ = pair(1)
    with pytest.raises(InputError, match=message):
        generate(
            target, None, prompt, gamma=0, limit=limit, sampling=Sampling(1),
            rng=np.random.default_rng(0),
        )  # fmt: skip
