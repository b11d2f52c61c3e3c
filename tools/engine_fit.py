"""Host time and kernels of engines, fitted to plain decoding of the public record.

`python -m tools.engine_fit` prints what it finds; with `--write` data/engines_fitted.toml is made
anew, with the same fit for each model left out whole: that is what `published` scores a row with.

    TPOT = rest + weights_d W + launch L + communication_g A + host + sequence B₁ + mixture E + S

W reading quantised weights of a stored format d, L launches, A all-reduces on GPUs g (those that
compute in 4 bits apart), rest the other parts of a forward and sampling, S other requests' prompts:
all as the product computes them without an engine, B₁ from its server law; E layers of experts.
What an engine adds is drawn to what engines add in common, and that to a usual value, so that a
model or format which one engine did not run is foretold by the others. DeepSeek-R1 and V3 are one
model.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from scipy.optimize import least_squares

from specmath import engines
from specmath.checks import FloatArray, InputError
from specmath.drafters import sampling_seconds
from specmath.published.case import shipped
from specmath.published.scenario import UNNAMED, Unscorable, family_of, from_served
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import build
from specmath.serving.pair import ServedPair

FORMATS = ("fp8", "nvfp4")
NAMES = (
    "host_ms", "sequence_ms", "expert_layer_us", "launch", "communication", "fused_communication",
    *FORMATS,
)  # fmt: skip
USUAL = np.array([0.67, 0.01, 25.0, 1.0, 1.0, 1.0, 0.88, 1.22])
"""`host_ms`: the one that was measured by itself. The formats, from the products that the step time
was fitted to (vLLM 0.24's, aiconfigurator-core 0.12), where they read over 150 MB: fp8 ones take
time that falls with size at 0.87 to 0.89 of the fitted efficiency's, because a server fuses the
quantisation of activations that is timed with each; nvfp4 ones take 1.22 times as long as fitted,
because smaller ones stay in the L2 cache while they are timed again and again."""

LEAST = np.array([0, 0, 0, 0.2, 0.2, 0.2, 0.4, 0.4])
MOST = np.array([10, 0.2, 500, 3.0, 3.0, 3.0, 2.5, 2.5])
SPREAD = np.array([0.3, 0.004, 8.0, 0.15, 0.2, 0.2, 0.05, 0.1])
"""How far engines are taken to lie from what they have in common; twice that, from `USUAL`. Models
left out whole are foretold about as well with others: a third or three times as much, of one or of
all, moves the median error of dense ones between 5.1 and 6.4%; formats drawn to 1 make it 6.9%."""

SCALE = 0.1
"""Residual of a log ratio beyond which a row counts less: odd runs set nothing."""

PULL = 20.0
"""How many rows' residuals a deviation of `SPREAD` weighs as much as."""

MEASURED_HOST_MS = {"vllm": 0.67}
"""Known by itself, at batch 1 (vLLM issue 20780)."""


@dataclass(frozen=True)
class Row:
    """One plain run: what was measured, seconds, and what `NAMES` are multiplied by."""

    engine: str
    model: str
    mixture: bool
    measured: float
    rest: float
    factors: tuple[float, ...]


def factors(pair: ServedPair, batch: float) -> tuple[float, tuple[float, ...]]:
    """Seconds of a plain step beside what an engine's numbers count, and what they count."""
    place, pace, size = pair.place, pair.pace, max(1, round(batch))

    def forward(weights: float = 0.0, launch: float = 0.0, communication: float = 0.0) -> float:
        own = replace(pace, weights=weights, launch=launch, communication=communication)
        return float(place.step(size, 1, pair.context_tokens, own).total)

    bare = forward()
    reads, launch, together = (
        forward(**{name: 1.0}) - bare for name in ("weights", "launch", "communication")
    )
    fused = place.device.computes_in("fp4")
    layers = sum(group.count for group in place.model.layers if group.mlp.experts)
    sampled = float(sampling_seconds(place.device, float(size), place.model.vocab))
    stored = [reads * (place.stored_dtype == dtype) for dtype in FORMATS]
    bare += reads - sum(stored)
    shared = (0.0, together) if fused else (together, 0.0)
    return bare + sampled, (1e-3, 1e-3 * batch, 1e-6 * layers, launch, *shared, *stored)


def plain_rows() -> list[Row]:
    """Plain rows that can be computed, without those that repeat another."""
    found, seen = [], set()
    for case in shipped():
        if case.kind != "plain" or "tpot_ms" not in case.measured:
            continue
        try:
            fields = from_served(case)
            endpoint = resolve(build({**fields, "engine": "none"}))
        except (Unscorable, InputError):
            continue
        # A run that two sources print may be of an engine's newer scheduler in one of them only.
        name = engines.named(str(fields["engine"])).seen_as
        key = (*sorted((fields | {"engine": name}).items()), case.measured["tpot_ms"])
        if key in seen or endpoint.load is None or endpoint.pair is None:
            continue
        seen.add(key)
        load = endpoint.load
        if name == UNNAMED:
            continue
        pair = replace(endpoint.pair, engine=engines.named(name))
        rest, parts = factors(pair, float(load.batch[0]))
        rest += float(load.waiting[0])
        model = pair.target
        measured = case.measured["tpot_ms"] / 1e3
        found.append(Row(name, family_of(model.name), model.is_moe, measured, rest, parts))
    return found


def predicted(values: FloatArray, rows: list[Row]) -> FloatArray:
    """TPOT of each row in seconds with one engine's `NAMES`."""
    rest = np.array([r.rest for r in rows])
    return np.asarray(rest + np.array([r.factors for r in rows]) @ values)


def fitted(rows: list[Row]) -> dict[str, FloatArray]:
    """`NAMES` of every engine, and of "any": what engines have in common."""
    names = sorted({r.engine for r in rows})
    own = [[r for r in rows if r.engine == name] for name in names]
    measured = [np.array([r.measured for r in part]) for part in own]
    rest = [np.array([r.rest for r in part]) for part in own]
    slopes = [np.array([r.factors for r in part]) for part in own]
    size = len(NAMES)

    def residuals(flat: FloatArray) -> FloatArray:
        common, each = flat[:size], flat[size:].reshape(len(names), size)
        found = [(common - USUAL) / (2 * SPREAD)]
        for name, values, truth, fixed, slope in zip(
            names, each, measured, rest, slopes, strict=True
        ):
            found.append(np.log((fixed + slope @ values) / truth))
            if name in MEASURED_HOST_MS:
                found.append(100 * (values[:1] - MEASURED_HOST_MS[name]))
            found.append(np.sqrt(PULL) * SCALE * (values - common) / SPREAD)
        return np.concatenate(found)

    start = np.tile(USUAL, len(names) + 1)
    bounds = np.tile(LEAST, len(names) + 1), np.tile(MOST, len(names) + 1)
    found = least_squares(residuals, start, bounds=bounds, loss="soft_l1", f_scale=SCALE)
    each = found.x.reshape(-1, size)
    return dict(zip(("any", *names), each, strict=True))


def errors(values: FloatArray, rows: list[Row]) -> FloatArray:
    """predicted / measured − 1."""
    return predicted(values, rows) / np.array([r.measured for r in rows]) - 1.0


def said(found: FloatArray) -> str:
    """Median error and bias."""
    return f"|{np.median(np.abs(found)):.1%}| {np.median(found):+.1%}"


def entry(values: FloatArray, rows: list[Row]) -> dict[str, Any]:
    """What data/engines_fitted.toml holds of one engine."""
    numbers = {n: round(float(v), 4) for n, v in zip(NAMES, values, strict=True)}
    weights = {dtype: numbers.pop(dtype) for dtype in FORMATS}
    models = ", ".join(sorted({r.model for r in rows}))
    return numbers | {"weights": weights, "n": len(rows), "models": models}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write data/engines_fitted.toml")
    write = parser.parse_args().write
    rows = plain_rows()
    whole = fitted(rows)
    left_out = {m: fitted([r for r in rows if r.model != m]) for m in {r.model for r in rows}}
    data: dict[str, Any] = {}
    for engine in sorted({r.engine for r in rows}):
        mine = [r for r in rows if r.engine == engine]
        data[engine] = entry(whole[engine], mine) | {"without": {}}
        print(f"\n{engine}: {len(mine)} rows, {said(errors(whole[engine], mine))}")
        print("  " + ", ".join(f"{n} {v:.4g}" for n, v in zip(NAMES, whole[engine], strict=True)))
        for model in sorted({r.model for r in mine}):
            own = [r for r in mine if r.model == model]
            rest = [r for r in mine if r.model != model]
            values = left_out[model].get(engine, left_out[model]["any"])
            data[engine]["without"][model] = entry(values, rest)
            fit, out = said(errors(whole[engine], own)), said(errors(values, own))
            print(f"  {model:16s} {len(own):4d} rows, fitted {fit}, left out {out}")
    if write:
        place = Path(__file__).parents[1] / "specmath/data/engines_fitted.toml"
        head = "# Written by `python -m tools.engine_fit --write` from served_plain.csv.\n\n"
        place.write_text(head + tomli_w.dumps(data), "utf-8")


if __name__ == "__main__":
    main()
