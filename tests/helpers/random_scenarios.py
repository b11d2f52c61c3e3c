"""Random valid scenarios in every form, for the tests of reading, writing and predicting."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from specmath.scenario import SPECS, Scenario
from specmath.scenario.forms import Hardware

LABELS = st.text(max_size=80).filter(str.isprintable)


def _number(name: str, low: float | None = None, high: float | None = None) -> Any:
    spec = SPECS[name]
    low, high = spec.low if low is None else low, spec.high if high is None else high
    if spec.whole:
        return st.integers(int(low), int(high))
    return st.floats(low, high, allow_nan=False)


@st.composite
def _acceptance(draw: Any) -> dict[str, Any]:
    form = draw(st.sampled_from([c.value for c in SPECS["acceptance_form"].choices]))
    said: dict[str, Any] = {"acceptance_form": form}
    if form in ("accepted_per_step", "tokens_per_step", "accepted_share"):
        gamma = draw(st.integers(1, 1000))
        low = 1 if form == "tokens_per_step" else 0
        high = {"accepted_per_step": gamma, "tokens_per_step": gamma + 1, "accepted_share": 1}[form]
        return said | {form: draw(st.floats(low, high)), "measured_gamma": gamma}
    if form == "survival":
        rates = draw(st.lists(st.floats(0, 1), min_size=1, max_size=20))
        return said | {"rates": tuple(sorted(rates, reverse=True))}
    if form == "conditional":
        return said | {"rates": tuple(draw(st.lists(st.floats(0, 1), min_size=1, max_size=20)))}
    if form == "mixture":
        pair = st.tuples(st.floats(0, 1e300), st.floats(0, 1))
        pairs = draw(st.lists(pair, min_size=1, max_size=8))
        return said | {"mixture": ((draw(st.floats(1e-9, 1e300)), 0.5), *pairs)}
    if form == "workload":
        return said | {"workload": draw(st.sampled_from(["creative", "code_or_json"]))}
    if form == "range":
        low, high = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
        return said | {"alpha_low": low, "alpha_high": high}
    return said | {"alpha": draw(st.floats(0, 1))}


@st.composite
def _draft(draw: Any) -> dict[str, Any]:
    form = draw(st.sampled_from(["times", "ratio", "range"]))
    target = _number("target_ms")
    said = {
        "draft_form": form,
        "target_ms": draw(target if form == "times" else target | st.none()),
    }
    if form == "times":
        return said | {"draft_ms": draw(_number("draft_ms"))}
    if form == "ratio":
        return said | {"c": draw(_number("c"))}
    low, high = sorted(draw(st.tuples(_number("c_low"), _number("c_high"))))
    return said | {"c_low": low, "c_high": high}


@st.composite
def _verify(draw: Any, gamma: int) -> dict[str, Any]:
    """A measured curve of v that reaches γ, or nothing: the slope is one of the rest."""
    if gamma > 40 or not draw(st.booleans()):
        return {}
    costs = st.lists(st.floats(0.01, 300), min_size=max(1, gamma), max_size=60)
    return {"verify_form": "curve", "verify_costs": tuple(draw(costs))}


REST = (
    "overhead", "c_hat", "sigma", "batch", "tensor_parallel", "draft_gpus", "target_billions",
    "draft_billions", "temperature", "output_tokens", "ttft_ms", "usd_per_hour",
    "demand_tokens_per_second", "headroom",
)  # fmt: skip


@st.composite
def _served(draw: Any) -> dict[str, Any]:
    """A pair on hardware: catalogue names or any text, which is read only when predicting."""
    said = {
        "gpu": draw(st.sampled_from(["H100 SXM", "B200 SXM"])),
        "model": draw(st.sampled_from(["Llama-3.1-8B", '{"hidden_size": 8, "=": "α"}'])),
        "draft": draw(st.sampled_from(["Llama-3.2-1B", "ngram", "eagle3"])),
        "context_tokens": draw(_number("context_tokens")),
        "coverage": draw(st.none() | _number("coverage")),
    }
    for name in ("weight_dtype", "kv_dtype", "engine"):
        said[name] = draw(st.sampled_from([c.value for c in SPECS[name].choices]))
    return said


@st.composite
def scenarios(
    draw: Any, gamma: Any = None, low_sigma: float = -0.5, hardware: bool = False
) -> Scenario:
    """A valid scenario; fields that may be unknown are None some of the time."""
    served = hardware and draw(st.booleans())
    said = draw(_acceptance()) | draw(_served() if served else _draft())
    said["gamma"] = draw(st.integers(0, 1000) if gamma is None else gamma)
    if not served:
        said |= draw(_verify(said["gamma"] or 0))
    computed = Hardware.computes if served else ("sigma",) if "verify_form" in said else ()
    rest = [n for n in REST if n not in computed]
    for name in draw(st.sets(st.sampled_from(rest))):
        value = _number(name, low_sigma) if name == "sigma" else _number(name)
        said[name] = draw(st.none() | value if SPECS[name].unknown else value)
    if draw(st.booleans()):
        said["acceptance_source"] = draw(st.sampled_from(["my_traffic", "other_traffic"]))
        said["copies_input"] = draw(st.sampled_from(["yes", "no"]))
    return Scenario(
        label=draw(LABELS),
        max_gamma=draw(st.integers(1, 256)),
        **said,
    )
