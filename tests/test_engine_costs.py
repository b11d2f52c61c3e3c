"""Engines: those that the options promise, what each adds, and the fit to plain rows."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import numpy as np
import pytest

from specmath import Scenario, engines, predict
from specmath.checks import InputError
from specmath.published.scenario import FAMILIES
from specmath.scenario.record import ENGINE_CHOICES

PROMISED = (
    "vllm", "sglang", "tensorrt-llm", "llamacpp-cuda", "llamacpp-vulkan", "llamacpp-metal", "mlx",
    "transformers", "other", "none",
)  # fmt: skip
FITTED: dict[str, Any] = tomllib.loads(
    resources.files("specmath").joinpath("data/engines_fitted.toml").read_text("utf-8")
)
PAIR: dict[str, Any] = {
    "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.75,
}  # fmt: skip


@pytest.mark.parametrize("name", PROMISED)
def test_every_engine_that_is_promised_answers(name: str) -> None:
    engine = engines.named(name)
    assert engine.name == name
    assert engine.label
    assert engine.source
    low, high = engine.position
    assert 0 <= low <= high
    assert name in {choice.value for choice in ENGINE_CHOICES}
    assert predict(Scenario(**PAIR, engine=name)).speedup.value > 0


def test_an_unknown_engine_is_refused_with_those_known() -> None:
    with pytest.raises(InputError, match=r"engine must be one of vllm, .*, got 'ollama'"):
        engines.named("ollama")
    with pytest.raises(InputError, match="engine must be one of"):
        engines.named("ollama without DeepSeek")
    with pytest.raises(ValueError, match="engine"):
        Scenario(**PAIR, engine="vllm without DeepSeek")


def test_without_an_engine_the_forwards_alone_are_left() -> None:
    none = engines.named("none")
    assert (none.host, none.step, none.pass_, none.sequence, none.expert_layer) == (0,) * 5
    assert none.launch == none.communication == none.fused_communication == 1
    assert (none.weights, none.eight_bit_cache) == ({}, 1)
    speeds = {n: predict(Scenario(**PAIR, engine=n)).tpot_plain for n in ("none", "vllm")}
    assert speeds["none"] is not None
    assert speeds["vllm"] is not None
    more = (speeds["vllm"].value - speeds["none"].value) * 1e3
    assert more == pytest.approx(0.67, abs=0.05)  # vLLM issue 20780, batch 1


@pytest.mark.parametrize("name", FITTED)
def test_what_was_fitted_says_from_which_rows(name: str) -> None:
    fit = FITTED[name]
    models = fit["models"].split(", ")
    assert set(models) <= set(FAMILIES)
    assert set(fit["without"]) == set(models)
    engine = engines.named(name)
    assert engine.rows >= fit["n"] > 100
    for model in models:
        held_out = engines.named(f"{name} without {model}")
        assert held_out.name == name
        assert held_out.rows < engine.rows
        assert model not in fit["without"][model]["models"]
        # Speculation was not fitted to plain rows.
        assert (held_out.step, held_out.pass_) == (engine.step, engine.pass_)
    assert engines.named(f"{name} without Nothing") is engine
    # Rows left out are all that is left out: each row belongs to one model.
    left = [fit["n"] - fit["without"][model]["n"] for model in models]
    assert sum(left) == fit["n"]


def test_engines_lie_where_their_kind_does() -> None:
    """Host time of tenths of a millisecond, tens of microseconds a sequence and a layer of experts:
    milliseconds at hundreds of sequences, as SGLang measured 3 to 8 ms at 240 to 512."""
    for name in FITTED:
        engine = engines.named(name)
        assert 0 < engine.host < 1e-3
        assert 0 <= engine.sequence < 1e-4
        assert 0 <= engine.expert_layer < 1e-4
        assert 0.5 < engine.launch < 1.2
        assert 0.8 < engine.weights["fp8"] < 1
        assert 1 < engine.weights["nvfp4"] < 1.4
        # The tables have vLLM's plain all-reduce, and no later one that is fused.
        assert engine.fused_communication < engine.communication
    sglang = engines.named("sglang")
    assert 2e-3 < sglang.host + 376 * sglang.sequence < 9e-3


@pytest.mark.parametrize("name", ["mlx", "llamacpp-metal", "llamacpp-vulkan", "other"])
def test_where_verification_is_not_known_the_answer_is_to_measure(name: str) -> None:
    """A position costs from a quarter to a whole plain step on Apple's machines and where nothing
    is known: neither a firm yes nor a firm no."""
    found = predict(Scenario(**PAIR, engine=name))
    assert found.decision.action == "measure"
    low, high = found.curve.low, found.curve.high
    assert low is not None
    assert high is not None
    assert np.all(low[1:5] < 1)
    assert high[1:5].max() > 1
    assert "position" in {u.field for u in found.speedup.basis.over}
    firm = predict(Scenario(**PAIR, engine="vllm"))
    assert firm.decision.on
    # One run settles it.
    assert found.tpot_plain is not None
    ms = found.tpot_plain.value * 1e3
    ran = predict(Scenario(**PAIR, engine=name, target_ms=ms, run_gamma=2, run_ms=ms / 1.4))
    assert ran.decision.on
    assert ran.recommended_gamma == 2


@pytest.mark.parametrize(
    ("name", "low", "high"),
    # server_step.md, 4: 0.24 and 0.59 on MLX; 0.18 or 1.39 by kernel on Metal; row by row 1.0.
    [("mlx", 0.24, 0.59), ("llamacpp-metal", 0.18, 1.39), ("llamacpp-vulkan", 0.0, 1.0)],
)
def test_positions_hold_what_was_measured(name: str, low: float, high: float) -> None:
    engine = engines.named(name)
    assert engine.position[0] <= low
    assert high <= engine.position[1]


def test_a_position_by_hand() -> None:
    """Each verified position of γ adds so many plain steps, nothing at γ=0."""
    without = predict(Scenario(**PAIR, engine="vllm")).speculation.cost
    for engine in ("mlx", "other"):
        found = predict(Scenario(**PAIR, engine=engine))
        own = engines.named(engine)
        middle = sum(own.position) / 2
        slope = np.diff(found.speculation.cost.verify(np.arange(1, 6)))
        plain = np.diff(without.verify(np.arange(1, 6)))
        np.testing.assert_allclose(slope - plain, middle, atol=0.01)
        assert float(found.speculation.cost.total(0)) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", -1.0),
        ("position", (-0.1, 0.2)),
        ("weights", {"fp8": 0.0}),
        ("launch", -0.1),
        ("pass_", np.nan),
    ],
)
def test_an_engine_of_ones_own_is_checked(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=field):
        engines.Engine(**{"host": 0.0, "step": 0.0, "pass_": 0.0, field: value})


@pytest.mark.slow
def test_the_fit_is_what_its_rows_give() -> None:
    """Anew from served_plain.csv: the numbers of the file to their digits' worth; the error of each
    engine's rows, and of models left out whole, no worse than stated here."""
    from tools.engine_fit import NAMES, errors, fitted, plain_rows

    rows = plain_rows()
    whole = fitted(rows)
    for name, fit in FITTED.items():
        stored = [fit[n] if n in fit else fit["weights"][n] for n in NAMES]
        np.testing.assert_allclose(whole[name], stored, rtol=0.02, atol=5e-4)
        mine = [r for r in rows if r.engine == name]
        assert len(mine) == fit["n"]
        assert np.median(np.abs(errors(whole[name], mine))) < 0.12
        for model, values in fit["without"].items():
            own = [r for r in mine if r.model == model]
            held = np.array([values[n] if n in values else values["weights"][n] for n in NAMES])
            found = errors(held, own)
            print(f"{name} without {model}: {np.median(np.abs(found)):.1%} of {len(own)}")
            assert np.median(np.abs(found)) < 0.16, (name, model)
