"""A rollout as a file: the scenario and the numbers that were expected of it, to be judged later.

    specmath_rollout = "1"
    [scenario]                      as in a scenario file
    [rollout]                       γ, power, spread
    [rollout.expected.tpot_ms]      plain = {value, low, high}, speculative = {…}

The numbers are read as they stand: whoever measured plain decoding writes the measured number in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w

from specmath.checks import InputError, real, short, whole
from specmath.estimate import Basis, Estimate
from specmath.rollout.plan import QUANTITIES, Expected, Name, Rollout
from specmath.scenario.files import from_toml, rollout_in, to_toml

__all__ = ["FILE_VERSION", "from_file", "is_rollout", "to_file"]

FILE_VERSION = "1"
_HEAD = f'specmath_rollout = "{FILE_VERSION}"\n'
_SOURCE = "the rollout file"
MOST = 1e30
"""Of any number: what a scenario can make is less."""


def _key(name: Name) -> str:
    """The key of a quantity, with its unit where it is a time."""
    return f"{name}_ms" if QUANTITIES[name].unit == "ms" else name


def is_rollout(head: str) -> bool:
    """Whether a text that begins so is such a file."""
    return head.lstrip().startswith("specmath_rollout")


# ── written ──────────────────────────────────────────────────────────────────────────────────


def to_file(found: Rollout) -> str:
    """The text of the file; reads back to the same numbers.

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> from specmath.rollout import rollout
    >>> found = rollout(predict(Scenario(alpha=0.8, c=0.1, gamma=4, target_ms=40)))
    >>> again = from_file(to_file(found))
    >>> again.speedup.low == found.speedup.low, again.requests == found.requests
    (True, True)
    """
    head: dict[str, Any] = {
        "gamma": found.gamma,
        "power": found.power,
        "significance": found.significance,
        "spread_measured": found.measured,
        "requests_alike": found.alike,
        "spread": {"plain": found.variation[0], "speculative": found.variation[1],
                   "tokens_per_step": found.steps_variation},
        "speedup": _written(found.speedup, 1.0),
        "breakeven_tokens_per_step": _written(found.breakeven, 1.0),
    }  # fmt: skip
    expected = {
        _key(name): {"plain": _written(each.plain, QUANTITIES[name].scale),
                     "speculative": _written(each.speculative, QUANTITIES[name].scale)}
        for name, each in found.expected.items()
    }  # fmt: skip
    tables = tomli_w.dumps({"rollout": head | {"expected": expected}})
    return f"{_HEAD}{to_toml(found.scenario)}\n{tables}"


def _written(number: Estimate, scale: float) -> dict[str, float]:
    ends = {"value": number.value, "low": number.low, "high": number.high}
    return {name: end * scale for name, end in ends.items() if end is not None}


# ── read ─────────────────────────────────────────────────────────────────────────────────────


def from_file(text: str) -> Rollout:
    """The rollout of a file; InputError in one sentence where it is none."""
    scenario, said = from_toml(text), _table("rollout", rollout_in(text))
    spread = _table("rollout.spread", said.get("spread"))
    every = _table("rollout.expected", said.get("expected"))
    names: dict[str, Name] = {_key(name): name for name in QUANTITIES}
    for key in every.keys() - names.keys():
        raise InputError(
            f"rollout.expected must hold {', '.join(names)} only, got {short(key, quoted=True)}"
        )
    expected = {name: _both(key, every[key], QUANTITIES[name].scale)
                for key, name in names.items() if key in every}  # fmt: skip
    if "tokens_per_step" not in expected:
        raise InputError("rollout.expected must hold tokens_per_step, got none")
    plain, ours, steps = (
        float(real(f"rollout.spread.{key}", _needed("rollout.spread", spread, key), 0, 100))
        for key in ("plain", "speculative", "tokens_per_step")
    )
    return Rollout(
        scenario=scenario,
        gamma=int(whole("rollout.gamma", _needed("rollout", said, "gamma"), 1, 10_000)),
        speedup=_number("rollout.speedup", said.get("speedup"), 1.0),
        expected=expected,
        breakeven=_number(_BREAKEVEN, said.get("breakeven_tokens_per_step"), 1.0),
        variation=(plain, ours),
        steps_variation=steps,
        measured=said.get("spread_measured") is True,
        alike=said.get("requests_alike") is not False,
        power=float(real("rollout.power", said.get("power", 0.8), 0.5, 0.9999)),
        significance=float(
            real("rollout.significance", said.get("significance", 0.05), 0, 0.5, low_open=True)
        ),
    )


_BREAKEVEN = "rollout.breakeven_tokens_per_step"


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        found = "none" if value is None else short(value, quoted=True)
        raise InputError(f"a rollout file needs a table [{name}], got {found}")
    return value


def _needed(name: str, table: Mapping[str, Any], key: str) -> Any:
    if key not in table:
        raise InputError(f"{name} must hold {key}, got none")
    return table[key]


def _both(key: str, value: Any, scale: float) -> Expected:
    name = f"rollout.expected.{key}"
    table = _table(name, value)
    plain, ours = (
        _number(f"{name}.{arm}", table.get(arm), scale, zero=key == "ttft_ms")
        for arm in ("plain", "speculative")
    )
    return Expected(plain, ours)


def _number(name: str, value: Any, scale: float, *, zero: bool = False) -> Estimate:
    """A number with its ends, if it has any, which must enclose it."""
    table = _table(name, value)
    _needed(name, table, "value")
    told = [
        float(real(f"{name}.{key}", table[key], 0, MOST, low_open=not zero)) / scale
        for key in ("value", *(end for end in ("low", "high") if end in table))
    ]
    basis = Basis("computed", _SOURCE)
    if len(told) == 1:
        return Estimate(told[0], None, basis)
    if len(told) != 3 or not told[1] <= told[0] <= told[2]:
        raise InputError(f"{name} must be a value alone, or low <= value <= high, got {table}")
    return Estimate.between(told[0], told[1], told[2], basis)
