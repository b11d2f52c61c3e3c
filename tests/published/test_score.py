"""Published rows and their predictions: worked by hand, and none lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from specmath import Scenario, predict
from specmath.published.case import Case, Reason, cases_of, read_notes, shipped
from specmath.published.kept import kept
from specmath.published.rows import read
from specmath.published.score import METHODS, Scored, score
from specmath.words.published import reason_words

CASES = {case.id: case for case in shipped()}


def thinned() -> list[Case]:
    """Every speculative row, and every fortieth plain one."""
    plain = [case for case in CASES.values() if case.kind == "plain"]
    return [case for case in CASES.values() if case.kind != "plain"] + plain[::40]


@pytest.fixture(scope="module")
def scored() -> list[Scored]:
    return score(thinned())


def of(found: Sequence[Scored], name: str, method: str, quantity: str = "speedup") -> Scored:
    return next(s for s in found if (s.case.id, s.method, s.quantity) == (name, method, quantity))


# ── by hand ──────────────────────────────────────────────────────────────────────────────────

LEVIATHAN = {
    # α, γ, c, measured: Tables 2 and 4 of arXiv 2211.17192.
    "lev01": (0.75, 7, 0.02, 3.4), "lev02": (0.80, 7, 0.04, 2.8), "lev03": (0.82, 7, 0.11, 1.7),
    "lev04": (0.62, 7, 0.02, 2.6), "lev05": (0.68, 5, 0.04, 2.4), "lev06": (0.71, 3, 0.11, 1.4),
    "lev07": (0.65, 5, 0.02, 3.1), "lev08": (0.73, 5, 0.04, 3.0), "lev09": (0.74, 3, 0.11, 2.2),
    "lev10": (0.53, 5, 0.02, 2.3), "lev11": (0.55, 3, 0.04, 2.2), "lev12": (0.56, 3, 0.11, 1.7),
}  # fmt: skip


@pytest.mark.parametrize("name", LEVIATHAN)
def test_leviathan_by_theorem_3_8(name: str, scored: list[Scored]) -> None:
    alpha, gamma, c, measured = LEVIATHAN[name]
    tokens = sum(alpha**i for i in range(gamma + 1))
    found = of(scored, name, "theorem")
    assert found.predicted == pytest.approx(tokens / (1 + gamma * c), rel=1e-12)
    assert found.measured == measured
    assert found.error == pytest.approx(tokens / (1 + gamma * c) / measured - 1, rel=1e-9)


def test_magicdec_by_its_own_times(scored: list[Scored]) -> None:
    """mdec01: 2.19 tokens in 8.21 + 9.55 ms against 8.27 ms a plain step: 1.02×, 0.95 measured."""
    found = of(scored, "mdec01", "step timings")
    assert found.predicted == pytest.approx(2.19 * 8.27 / (8.21 + 9.55), rel=1e-9)
    assert of(scored, "mdec01", "theorem").predicted == pytest.approx(2.19 / (1 + 2 * 0.4964))


def test_two_step_times_and_tokens_make_a_speedup(scored: list[Scored]) -> None:
    """mj_fp16_fp16_gsm8k_c64: 2.886 tokens in 77.867 ms, plain steps of 26.411 ms: 0.979×."""
    found = of(scored, "mj_fp16_fp16_gsm8k_c64", "step timings")
    assert found.predicted == pytest.approx(2.886 * 26.411 / 77.867, rel=1e-9)


def test_slopes_of_a_note(scored: list[Scored]) -> None:
    """sda_3B_k4: 0.39 to draft and 0.29 to verify a token: 3.189 / (1 + 4·0.68) = 0.857×."""
    found = of(scored, "sda_3B_k4", "step timings")
    assert found.predicted == pytest.approx(3.189 / (1 + 4 * 0.68), rel=1e-9)


def test_a_curve_of_passes_is_read_between_its_points(scored: list[Scored]) -> None:
    """zero12, γ=6: T(7) lies at 3/4 of 13.815 to 14.180; c = 0.078; 3.27 tokens."""
    verify = (13.815 + 0.75 * (14.180 - 13.815)) / 13.385
    found = of(scored, "zero12", "step timings")
    assert found.predicted == pytest.approx(3.27 / (verify + 6 * 0.078), rel=1e-9)


def test_a_tree_by_its_depth(scored: list[Scored]) -> None:
    """seq11: 6 passes of 0.0207, 3.45 tokens: 3.45 / 1.1242 = 3.07×; its shape is no chain."""
    assert of(scored, "seq11", "theorem").predicted == pytest.approx(3.45 / (1 + 6 * 0.0207))
    refused = of(scored, "seq11", "hardware")
    assert refused.predicted is None
    assert refused.reason is not None
    assert refused.reason.code == "tree"


def test_hardware_is_the_products_own_door(scored: list[Scored]) -> None:
    """vllmA03: what a person gets who types the row's inputs."""
    asked = Scenario(tokens_per_step=2.39, measured_gamma=4, gamma=4, gpu="H100 SXM",
                     model="Llama-3.1-8B", draft="eagle", engine="vllm")  # fmt: skip
    found, told = of(scored, "vllmA03", "hardware"), predict(asked).speedup
    assert (found.predicted, found.low, found.high) == (told.value, told.low, told.high)


def test_a_plain_row_is_a_plain_step(scored: list[Scored]) -> None:
    """A row without speculation has no speedup, and its TPOT no draft in it."""
    plain = [s for s in scored if s.case.kind == "plain" and s.predicted is not None]
    assert plain
    assert {s.quantity for s in plain} <= {"tpot_ms", "ttft_mean_ms"}


# ── none lost ────────────────────────────────────────────────────────────────────────────────


def check_all(cases: Sequence[Case], found: Sequence[Scored]) -> None:
    assert {s.case.id for s in found} == {case.id for case in cases}
    for s in found:
        assert (s.predicted is None) == (s.reason is not None), s.case.id
        assert s.method in METHODS
        if s.reason is not None:
            assert reason_words(s.reason)
        if s.predicted is not None:
            assert s.predicted > 0
            assert math.isfinite(s.predicted)
        if s.low is not None and s.high is not None and s.predicted is not None:
            assert s.low <= s.predicted <= s.high
    keys = [(s.case.id, s.quantity, s.method) for s in found]
    assert len(keys) == len({*keys})


def test_every_row_is_scored_or_says_why_not(scored: list[Scored]) -> None:
    check_all(thinned(), scored)


@pytest.mark.slow
def test_every_row_of_the_whole_record_is_scored_or_says_why_not() -> None:
    found = score(shipped())
    check_all(shipped(), found)
    check_kept(found, kept())


def test_what_is_kept_of_the_record_is_what_is_predicted_now(scored: list[Scored]) -> None:
    chosen = {case.id for case in thinned()}
    check_kept(scored, [s for s in kept() if s.case.id in chosen])


def check_kept(found: Sequence[Scored], kept: Sequence[Scored]) -> None:
    """The same rows, to the digits that are kept."""
    assert len(found) == len(kept)
    place = {(s.case.id, s.quantity, s.method): s for s in kept}
    for s in found:
        stored = place[s.case.id, s.quantity, s.method]
        anew = "run: python -m tools.accuracy"
        alone = {"predicted": None, "low": None, "high": None, "repeats": ""}
        assert replace(s, **alone) == replace(stored, **alone), anew
        for mine, kept_one in zip(numbers(s), numbers(stored), strict=True):
            assert mine == (kept_one and pytest.approx(kept_one, rel=1e-9)), anew


def numbers(s: Scored) -> tuple[float | None, ...]:
    return s.predicted, s.low, s.high


DOUBTFUL = {
    "lev13": "lossy", "lev17": "lossy", "sgl01": "lossy", "ang13": "inferred",
    "lc27342_MTP_np1": "inferred", "moe02": "load", "as_GLM-4.7-FP8_n1_b32": "not measured",
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
def test_rows_that_may_not_be_scored_are_not(name: str, scored: list[Scored]) -> None:
    rows = [s for s in scored if s.case.id == name]
    assert [s.predicted for s in rows] == [None] * len(rows)
    assert {s.reason.code for s in rows if s.reason} == {DOUBTFUL[name]}


def test_no_accept_threshold_and_no_lenience_is_scored(scored: list[Scored]) -> None:
    for s in scored:
        notes = str(s.case.cells.get("notes"))
        if "lenience" in notes or "NOT lossless" in notes:
            assert s.predicted is None, s.case.id


@pytest.mark.slow
def test_equal_runs_under_two_names_count_once() -> None:
    """DeepSeek-R1 and V3 rows of the record repeat some runs."""
    dsr1 = [case for case in CASES.values() if case.kind == "plain" and "DeepSeek" in case.model]
    repeated = {s.case.id: s.repeats for s in score(dsr1) if s.repeats}
    assert repeated
    for later, first in repeated.items():
        assert CASES[later].measured == CASES[first].measured


def test_rows_that_set_a_number_are_marked(scored: list[Scored]) -> None:
    assert of(scored, "vllmA03", "hardware").sets.startswith("host time")
    assert of(scored, "mdec01", "step timings").sets == "", "its own times set nothing there"


# ── a file of one's own ──────────────────────────────────────────────────────────────────────


def test_a_config_beside_the_file_is_the_model(tmp_path: Path) -> None:
    folder = resources.files("specmath").joinpath("data/published/model_configs")
    config = folder.joinpath("meta-llama--Llama-2-7b-hf.json").read_text("utf-8")
    (tmp_path / "mine.json").write_text(config, "utf-8")
    text = "id,model,config,gpu,concurrency,tpot_ms\na,my own,mine.json,h100_sxm,1,7\n"
    (found,) = score(cases_of(read(text, "mine.csv"), tmp_path))
    told = predict(
        Scenario(alpha=0.5, gamma=0, gpu="h100", model="Llama-2-7B", draft="ngram", engine="other")
    )
    assert told.tpot_plain is not None
    assert found.predicted == pytest.approx(told.tpot_plain.value * 1e3, rel=1e-9)


@pytest.mark.parametrize("name", ["../secret.json", "/etc/hostname", "none.json"])
def test_a_config_elsewhere_is_not_read(name: str, tmp_path: Path) -> None:
    text = f"id,model,config,tpot_ms\na,m,{name},7\nb,m,,7\n"
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.json").write_text("{}")
    refused, other = cases_of(read(text, "mine.csv"), tmp_path / "data")
    assert refused.config == ""
    assert refused.doubt == Reason("config", name)
    assert other.doubt is None


def test_notes_in_other_words_say_nothing() -> None:
    assert read_notes("about 8 ms; T_AR=fast; 5 -> 6", 3) == read_notes("", 3)


@pytest.mark.parametrize(
    ("notes", "gamma", "verify", "draft"),
    [
        ("T_AR=10ms; T_V=12ms; gT_D=5ms", 3, 1.2, 0.5),
        ("T_AR=10.0 ms; T_V=12 ms", 3, 1.2, None),
        ("T(1)=10ms T(5)=14ms", 2, 1.2, None),
        ("T(1)=10ms T(5)=14ms", 5, None, None),
        ("T_AR=0ms; T_V=12ms", 3, None, None),
    ],
)
def test_costs_of_a_note(notes: str, gamma: int, verify: float | None, draft: float | None) -> None:
    noted = read_notes(notes, gamma)
    assert noted.verify == (None if verify is None else pytest.approx(verify))
    assert noted.drafting == (None if draft is None else pytest.approx(draft))
