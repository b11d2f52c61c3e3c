"""What temperature and context make of an acceptance that others measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath.acceptance_conditions import HEADS, UNCHANGED, at_context, at_temperature, short_head
from specmath.acceptance_record import KINDS
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.files import build
from specmath.theorems import alpha_from_tokens_per_step
from specmath.words.acceptance import range_notes

SERVED = {"gpu": "h100", "model": "Llama-3.1-8B", "prompt_tokens": 1024, "concurrency": 8}


def ends(**more: object) -> tuple[float, float, float]:
    s = build({**SERVED, "draft": "eagle3", "acceptance_form": "range", "work": "chat", **more})
    return s.accepts.ends(s)


def test_by_hand_from_the_rows() -> None:
    """MTP on Qwen3.5-4B: α 0.8084 at 0, 0.7793 at 0.7 and 0.732 at 1: 5.1 and 9.5% for a unit."""
    falls = (1 - 0.7793 / 0.8084) / 0.7, 1 - 0.732 / 0.8084
    assert at_temperature("mtp", 1.0).middle == pytest.approx(1 - np.median(falls), abs=1e-3)
    assert at_temperature("mtp", 1.0).measured == 2
    # Leviathan's T5-large, en-de and CNN/DM: 0.82 → 0.71 and 0.74 → 0.65 among the draft models.
    assert at_temperature("draft_model", 1.0).low <= min(0.62 / 0.75, 0.53 / 0.65)


@given(st.sampled_from(KINDS), st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_it_falls_with_temperature_and_stays_an_acceptance(kind: str, a: float, b: float) -> None:
    cool, warm = (at_temperature(kind, t) for t in sorted((a, b)))
    assert 0.0 < warm.low <= cool.low <= 1.0
    assert warm.low <= warm.middle <= cool.middle <= 1.0


def test_the_short_head_over_context() -> None:
    """2.295 tokens a step at 2,000 tokens and 1.084 at 20,000; level beyond, and before."""
    head = short_head()
    assert [(r.context_tokens, r.tokens_per_step) for r in (head[0], head[-1])] == [
        (2000, 2.295), (20000, 1.084)
    ]  # fmt: skip
    share = alpha_from_tokens_per_step(1.084, 3) / alpha_from_tokens_per_step(2.295, 3)
    assert at_context("eagle3", 20_000).low == pytest.approx(float(share))
    assert at_context("eagle3", 200_000) == at_context("eagle3", 20_000)
    assert at_context("eagle3", 2000) == UNCHANGED
    assert {at_context(kind, 50_000) == UNCHANGED for kind in KINDS if kind not in HEADS} == {True}


def test_only_what_others_measured_is_moved() -> None:
    """A range that a person typed is theirs; an end that is left out is the record's, moved."""
    as_measured, hot = ends(), ends(temperature=1.0)
    shares = at_temperature("eagle3", 1.0)
    assert hot[0] == pytest.approx(as_measured[0] * shares.low)
    assert hot[1] == pytest.approx(as_measured[1] * shares.middle)
    assert hot[2] == as_measured[2]
    assert ends(temperature=0.0) == as_measured
    typed = {"alpha_low": 0.5, "alpha_high": 0.7}
    assert ends(**typed, temperature=1.0) == ends(**typed)
    assert Scenario(alpha=0.8, c=0.1, temperature=1.0).alpha == 0.8


def test_a_long_context_opens_the_low_end() -> None:
    """A firm yes for a head of which nobody knows how long its texts were would be a guess."""
    short, long = (
        predict(build({**SERVED, "draft": "eagle3", "acceptance_form": "range", "work": "chat",
                       "prompt_tokens": n}))
        for n in (1024, 30_000)
    )  # fmt: skip
    assert short.decision.on
    assert long.decision.action == "measure"
    assert any("trained short" in note for note in range_notes(long))
    assert not any("trained short" in note for note in range_notes(short))
    lookup = build(
        {**SERVED, "draft": "ngram", "acceptance_form": "range", "prompt_tokens": 30_000}
    )
    assert not any("trained short" in note for note in range_notes(predict(lookup)))
