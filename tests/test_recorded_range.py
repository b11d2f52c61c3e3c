"""Not knowing the acceptance is what others measured with that draft at that work."""

from __future__ import annotations

from typing import Any

import pytest

from specmath import Scenario, predict
from specmath.acceptance_record import Band, band
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import from_link, from_toml, revised, to_link, to_toml
from specmath.scenario.forms import ACCEPTANCE
from specmath.words.verdict import verdict

SERVED = {"gpu": "H100 SXM", "model": "Qwen3-32B", "draft": "eagle3"}


def at(**said: Any) -> Scenario:
    return Scenario(**{"acceptance_form": "range", "gamma": 3, **said})


def of(kind: str | None, work: str | tuple[str, ...] | None, **own: str) -> Band:
    found = band(kind, work, **own)
    assert found is not None
    return found


def ends(s: Scenario) -> tuple[float, float, float]:
    return ACCEPTANCE[s.acceptance_form].ends(s)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"c": 0.1}, of(None, None)),
        ({"c": 0.1, "work": "code"}, of(None, "code")),
        (SERVED | {"work": "qa"}, of("eagle3", "qa")),
        (SERVED | {"work": "mixed"}, of("eagle3", "mixed")),
        (SERVED | {"draft": "block", "work": "math"}, of("block", "math")),
        (SERVED | {"draft": "dflash", "work": "math"}, of("block", "math")),
        (SERVED | {"draft": "Qwen3-0.6B", "work": "chat"}, of("draft_model", "chat")),
        (SERVED | {"draft": "ngram", "work": "copy"}, of("ngram", "copy")),
    ],
)
def test_the_range_is_the_band_of_draft_and_work(said: dict[str, Any], expected: Band) -> None:
    s = at(**said)
    assert ends(s) == (expected.low, expected.median, expected.high)
    (alpha,) = [u for u in resolve(s).unknown if u.field == "alpha"]
    assert (alpha.low, alpha.high) == (expected.low, expected.high)
    assert f"n {expected.pairs}, {len(expected.sources)} source" in alpha.source


def test_each_draft_has_its_own() -> None:
    found = {
        draft: ends(at(**SERVED | {"draft": draft, "work": "chat"}))
        for draft in ("eagle3", "block", "ngram", "suffix", "Qwen3-0.6B")
    }
    assert len(set(found.values())) == len(found)


def test_ones_own_pair_narrows_it() -> None:
    s = at(**SERVED | {"model": "Llama-3.1-8B", "draft": "Llama-3.2-1B", "work": "code"})
    own = of("draft_model", "code", drafter="Llama-3.2-1B", target="Llama-3.1-8B")
    assert own.target == "Llama-3.1-8B"
    assert ends(s) == (own.low, own.median, own.high)
    assert "of Llama-3.1-8B" in verdict(predict(s)).sentence()
    # A head is known by its kind only: the same target is no evidence of the same head.
    head = at(**SERVED | {"model": "Llama-3.1-8B", "work": "code"})
    assert ends(head)[0] == of("eagle3", "code").low


@pytest.mark.parametrize(
    ("draft", "work"),
    [("layer_skip", "code"), ("suffix", "agentic"), ("eagle3", "json"), ("medusa", "unknown")],
)
def test_what_nobody_measured_is_open_and_says_so(draft: str, work: str) -> None:
    s = at(**SERVED | {"draft": draft, "work": work})
    assert ends(s) == (0.0, 0.5, 1.0)
    answer = verdict(predict(s))
    assert answer.action == "measure"
    assert "α, which nobody measured for this draft and work, from 0 to 1" in answer.ground


def test_typed_ends_stay_as_they_are() -> None:
    s = at(**SERVED, alpha_low=0.3, alpha_high=0.4, work="code")
    assert ends(s) == pytest.approx((0.3, 0.35, 0.4))
    assert resolve(s).band is None
    (alpha,) = [u for u in resolve(s).unknown if u.field == "alpha"]
    assert (alpha.low, alpha.high, alpha.source) == (0.3, 0.4, "")


def test_presets_are_bands() -> None:
    for preset, works in (("creative", ("creative",)), ("code_or_json", ("code", "json"))):
        s = Scenario(workload=preset, c=0.1)
        expected = of(None, works)
        assert ends(s) == (expected.low, expected.median, expected.high)
        assert Scenario(workload=preset, **SERVED) != s


def test_files_links_and_changes_keep_it() -> None:
    s = at(**SERVED, work="chat", label="mine")
    assert from_toml(to_toml(s)) == s
    assert from_link(to_link(s)) == (s, [])
    assert "alpha_low" not in to_link(s)
    assert revised(s, {"alpha": 0.7}).work == "chat"
    moved = revised(s, {"work": "code"})
    assert (moved.acceptance_form, moved.work) == ("range", "code")
    # A link of a version that wrote the cited ends out reads as the range it was.
    old = {"v": "1", "acceptance_form": "range", "alpha_low": "0.5", "alpha_high": "0.85",
           "gamma": "4", "c": "0.1"}  # fmt: skip
    then, notices = from_link(old)
    assert notices == []
    assert ends(then) == pytest.approx((0.5, 0.675, 0.85))


def test_a_wrong_draft_is_refused_where_it_was() -> None:
    s = at(**SERVED | {"draft": "no-such-model"})
    with pytest.raises(ValueError, match="draft must be"):
        resolve(s)
