"""One scoring pass of each model over texts that the target wrote: a_t for the replay."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from scipy.special import stdtrit

from specmath.checks import FloatArray, InputError, real, whole
from specmath.estimate import Basis, Estimate, cluster_ratio_variance
from specmath.measure.drafts import Draft, NgramDraft
from specmath.measure.language_model import FloatLogits, LanguageModel, Sampling, read_prompt
from specmath.measure.speculate import check_prompt
from specmath.measure.tokenizer import agreement
from specmath.replay import ReplayAcceptance

__all__ = [
    "acceptance", "check_written_by", "estimate_alpha", "estimate_tokens", "ngram_matches",
    "replay_of", "score",
]  # fmt: skip

Texts = Sequence[tuple[Sequence[int], Sequence[int]]]
"""(prompt, output) in ids."""

FEWEST_CLUSTERS = 5
BLOCK_TOKENS = 32
_ROWS = 64
"""Positions whose distributions are held at once: 64 × 128k tokens × 8 bytes = 66 MB."""


def score(model: LanguageModel, prompt: Sequence[int], text: Sequence[int]) -> FloatLogits:
    """Logits from which each token of `text` was drawn, shape (tokens, vocabulary)."""
    if not len(prompt) or not len(text):
        raise InputError("a text needs a prompt and an output of at least one token each")
    check_prompt(model, prompt, len(text), unread=1)
    cache = read_prompt(model, prompt)
    logits: FloatLogits = model.forward(np.array([[prompt[-1], *text[:-1]]]), cache)[0]
    return logits


def acceptance(
    target: FloatLogits, draft: FloatLogits, text: Sequence[int], sampling: Sampling, *,
    argmax: bool = False,
) -> FloatArray:  # fmt: skip
    """a_t = P(token t accepted | drafted there, and the text given), shape (tokens,).

    min(1, q(x)/p(x)), Leviathan et al. 2023, Algorithm 1, with p and q after temperature and
    top-p. `argmax`: 1 where the draft's most likely token is x, a certain proposal at any
    temperature; at temperature 0 the two agree.
    """
    found = np.empty(len(text))
    tokens = np.asarray(text, np.int64)
    for start in range(0, len(text), _ROWS):
        rows = slice(start, start + _ROWS)
        x = tokens[rows, None]
        if argmax or sampling.greedy:
            found[rows] = draft[rows].argmax(axis=-1) == x[:, 0]
            continue
        q = np.take_along_axis(sampling.probabilities(draft[rows]), x, axis=-1)[:, 0]
        p = np.take_along_axis(sampling.probabilities(target[rows]), x, axis=-1)[:, 0]
        if np.any(p == 0):
            at = start + int(np.flatnonzero(p == 0)[0])
            raise InputError(
                f"token {at + 1} has probability 0 under the target at {sampling}: this text was "
                "not produced by this target at these settings, so replay says nothing about it"
            )
        found[rows] = np.minimum(1.0, q / p)
    return found


FAR = 5.0
"""A text of the target itself lies further off by chance about once in 2 million."""


def check_written_by(target: LanguageModel, texts: Texts, sampling: Sampling) -> None:
    """InputError unless the texts look like this target's at these settings.

    At temperature 0 each token must be the most likely one. Otherwise the surprise −ln p(x) of
    each token is compared with its expectation, the entropy of p: over all tokens the difference
    is 0 with the summed variance of −ln p if x was drawn from p (a martingale).
    """
    away, variance = 0.0, 0.0
    for prompt, text in texts:
        logits = score(target, prompt, text)
        if sampling.greedy:
            check_greedy(logits, text)
            continue
        p = sampling.probabilities(logits)
        chosen = np.take_along_axis(p, np.asarray(text)[:, None], axis=-1)[:, 0]
        if np.any(chosen == 0):
            away = np.inf
            break
        surprise = -np.log(np.where(p > 0, p, 1.0))
        entropy = (p * surprise).sum(axis=-1)
        away += float((-np.log(chosen) - entropy).sum())
        variance += float(((p * surprise**2).sum(axis=-1) - entropy**2).sum())
    z = away / np.sqrt(variance) if variance > 0 else away
    if abs(z) > FAR:
        raise InputError(
            f"the responses were not produced by this target at {sampling} (their surprise lies "
            f"{z:.1f} standard deviations from what it would be), so replay says nothing about "
            "them; leave the responses out, or give the settings they were produced with"
        )


def check_greedy(target: FloatLogits, text: Sequence[int]) -> None:
    """InputError unless `text` is the target's own greedy text (one near-tie in 100 allowed)."""
    wrong = int(np.sum(target.argmax(axis=-1) != np.asarray(text)))
    if wrong > max(1, len(text) // 100):
        raise InputError(
            f"{wrong} of {len(text)} tokens are not the target's most likely ones: this text was "
            "not produced by this target at T=0, so replay says nothing about it"
        )


def ngram_matches(
    draft: NgramDraft, prompt: Sequence[int], text: Sequence[int], gamma: int
) -> FloatArray:
    """a[start][offset] of prompt look-up: 1 up to the first token that differs, then 0."""
    gamma = int(whole("gamma", gamma, 1))
    session = draft.session()
    tokens = [*prompt, *text]
    found = np.zeros((len(text), gamma))
    for start in range(len(text)):
        here = len(prompt) + start
        drafted = session.lookup(tokens[:here], gamma)
        found[start, : agreement(drafted, tokens[here : here + gamma])] = 1.0
    return found


def replay_of(
    target: LanguageModel, draft: Draft, texts: Texts, sampling: Sampling, gamma: int
) -> ReplayAcceptance:
    """The replay of (prompt, output) pairs under this draft, for every γ up to `gamma` and beyond.

    For look-up drafts γ beyond `gamma` is refused later, as their proposals depend on where a step
    began.
    """
    if not texts:
        raise InputError("texts must hold at least one prompt and output, got none")
    if isinstance(draft, NgramDraft):
        return ReplayAcceptance.from_starts(
            [ngram_matches(draft, prompt, text, gamma) for prompt, text in texts]
        )
    rows = []
    for prompt, text in texts:
        own = score(target, prompt, text)
        if sampling.greedy:
            check_greedy(own, text)
        drafted = score(draft.model, prompt, text)
        rows.append(acceptance(own, drafted, text, sampling, argmax=draft.argmax))
    return ReplayAcceptance(rows)


# ── how sure a mean over correlated tokens is ────────────────────────────────────────────────


def estimate_alpha(
    texts: Sequence[FloatArray], groups: Sequence[Hashable] | None = None, level: float = 0.95
) -> Estimate:
    """Mean of a_t over all tokens, with an interval that respects correlation within a text.

    Ratio estimator over clusters with Student's t at clusters − 1 degrees of freedom. A cluster is
    a text, or all texts of one entry of `groups` (samples of the same prompt are alike). With
    fewer than five clusters the texts are cut into blocks of 32 tokens, which ignores correlation
    beyond a block; the source of the basis says what was taken as independent. Within [0, 1].

    Each text: a list of probabilities in [0, 1], at least one. level in (0, 1).
    """
    if not texts:
        raise InputError("texts must hold at least one text, got none")
    arrays = [real(f"a_t in text {n}", text, 0, 1) for n, text in enumerate(texts, start=1)]
    if any(array.ndim != 1 or array.size == 0 for array in arrays):
        raise InputError("each text must be a list of at least one probability")
    names = list(range(len(arrays))) if groups is None else list(groups)
    if len(names) != len(arrays):
        raise InputError(f"groups must name all {len(arrays)} texts, got {len(names)} names")
    level = float(real("level", level, 0, 1, low_open=True))
    clusters: dict[Hashable, list[FloatArray]] = {}
    for name, array in zip(names, arrays, strict=True):
        clusters.setdefault(name, []).append(array)
    parts = [np.concatenate(group) for group in clusters.values()]
    independent = f"{len(parts)} {'texts' if groups is None else 'prompts'}"
    if len(parts) < FEWEST_CLUSTERS:
        parts = _blocks(arrays, BLOCK_TOKENS)
        independent = f"blocks of about {BLOCK_TOKENS} tokens"
    sums, sizes = np.array([[part.sum(), part.size] for part in parts]).T
    value = float(sums.sum() / sizes.sum())
    if len(parts) == 1:
        source = "one short text: nothing to judge the spread by"
        return Estimate.between(value, 0.0, 1.0, Basis("measured", source))
    deviation = float(np.sqrt(cluster_ratio_variance(sums, sizes)))
    half = float(stdtrit(len(parts) - 1, 0.5 + level / 2)) * deviation
    if half == 0.0 and value in (0.0, 1.0):
        half = 3.0 / len(parts)  # rule of three: no spread seen is not no spread
    basis = Basis("measured", f"{level:.0%}, {independent} taken as independent")
    return Estimate.between(value, max(0.0, value - half), min(1.0, value + half), basis)


def estimate_tokens(texts: Sequence[FloatArray], gamma: int, level: float = 0.95) -> Estimate:
    """τ(γ) of whole steps replayed on the texts, with an interval as that of `estimate_alpha`.

    A ratio of sums over texts (tokens of the steps, steps), so by the same estimator; fewer than
    five texts are cut into blocks. Within [1, γ+1]. γ less than the tokens of the longest text.
    """
    gamma = int(whole("gamma", gamma, 0))
    value = float(ReplayAcceptance(texts, ends=False).tokens_per_step(gamma))
    few = len(texts) < FEWEST_CLUSTERS
    size = max(BLOCK_TOKENS, 4 * (gamma + 1))
    parts = _blocks(texts, size) if few else list(texts)
    independent = f"blocks of about {size} tokens" if few else f"{len(parts)} texts"
    parts = [part for part in parts if len(part) > gamma]
    basis = Basis("measured", f"{level:.0%}, {independent} taken as independent")
    if gamma == 0:
        return Estimate.between(1.0, 1.0, 1.0, basis)
    if len(parts) < 2:
        source = "one short text: nothing to judge the spread by"
        return Estimate.between(value, 1.0, gamma + 1.0, Basis("measured", source))
    steps = ReplayAcceptance(parts, ends=False).whole_steps(gamma)
    deviation = float(np.sqrt(cluster_ratio_variance(steps.sum(axis=1), steps[:, 0])))
    half = float(stdtrit(len(parts) - 1, 0.5 + level / 2)) * deviation
    if half == 0.0 and value in (1.0, gamma + 1.0):
        half = 3.0 * gamma / len(parts)  # rule of three: no spread seen is not no spread
    return Estimate.between(value, max(1.0, value - half), min(gamma + 1.0, value + half), basis)


def _blocks(texts: Sequence[FloatArray], size: int) -> list[FloatArray]:
    return [part for a in texts for part in np.array_split(a, max(1, len(a) // size))]
