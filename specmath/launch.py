"""The line that starts an engine with speculation, as its source reads it: data/launch.toml.

One entry an engine and version; γ, the drafter's kind and the load fill its templates. Nothing here
knows an engine by name: what an engine cannot do is said in its entry.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from specmath.checks import InputError, whole
from specmath.drafters import Drafter
from specmath.models import is_config
from specmath.scenario.endpoint import Endpoint
from specmath.schedule import Schedule

__all__ = ["Engine", "Launch", "engine_of", "engines", "launch", "refusal"]


@dataclass(frozen=True)
class Engine:
    """An engine in one version: where its options were read, and how it treats drafts.

    `exact`: whether its default keeps the target's distribution, and how; "" where not read.
    """

    name: str
    label: str
    version: str
    source: str
    exact: str
    limits: tuple[str, ...]
    entry: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Launch:
    """What to paste: a command, and the text of the files that it names.

    `needs`: what to install first; `limits`: what this engine does not do while it drafts.
    """

    engine: Engine
    command: str
    files: Mapping[str, str]
    needs: str
    limits: tuple[str, ...]


@cache
def engines() -> Mapping[str, Engine]:
    """Every entry, by its name."""
    text = resources.files("specmath").joinpath("data/launch.toml").read_text(encoding="utf-8")
    return {
        name: Engine(
            name, entry["label"], entry["version"], entry["source"], entry.get("exact", ""),
            tuple(entry["limits"]), entry,
        )
        for name, entry in tomllib.loads(text).items()
    }  # fmt: skip


def engine_of(name: str) -> Engine | None:
    """The entry of a scenario's `engine`; None where its options were not read."""
    return next((e for e in engines().values() if name in e.entry.get("engines", (e.name,))), None)


def launch(
    endpoint: Endpoint, gamma: int, *, engine: str | None = None, schedule: Schedule | None = None
) -> Launch:
    """The command that serves an endpoint's target with its drafter at γ.

    Parameters
    ----------
    endpoint
        A scenario from hardware: its model, drafter, GPUs and load.
    gamma
        Drafted tokens a step, whole, ≥ 1; where a schedule is given, its largest counts instead.
    engine
        An entry's name; None: the scenario's own engine.
    schedule
        γ by batch size, where the engine takes one.

    Returns
    -------
    Launch
        Checkpoints that only the reader knows stand in capitals.

    Raises
    ------
    InputError
        The scenario names no models, the engine was not read, or it has no such drafter or
        schedule: with its reason.

    References
    ----------
    data/launch.toml names the source of each engine's options.

    Examples
    --------
    >>> from specmath import Scenario
    >>> from specmath.scenario.endpoint import resolve
    >>> served = Scenario(alpha=0.7, gpu="H100 SXM", model="Llama-3.3-70B", draft="ngram",
    ...                   tensor_parallel=4)
    >>> print(launch(resolve(served), 3).command)  # doctest: +NORMALIZE_WHITESPACE
    vllm serve Llama-3.3-70B --tensor-parallel-size 4 --speculative-config '{"method": "ngram",
      "num_speculative_tokens": 3, "prompt_lookup_min": 2, "prompt_lookup_max": 5}'
    """
    pair, s = endpoint.pair, endpoint.scenario
    if pair is None:
        raise InputError("a launch line needs the GPU, the model and the draft: give all three")
    found = _entry(engine or s.engine, known=engine is not None)
    kind = pair.drafter.kind
    gamma = int(whole("gamma", schedule.max_gamma if schedule else gamma, 1))
    if why := _without(found, pair.drafter):
        raise InputError(why)
    config = found.entry["drafters"][kind]
    fills = {
        "target": _checkpoint(s.model, pair.place.model.name, "TARGET"),
        "draft": _draft(s.draft, kind),
        "gamma": str(gamma), "gamma1": str(gamma + 1), "gpus": str(s.tensor_parallel),
        "running": str(_running(endpoint)),
    }  # fmt: skip
    config = Template(config).substitute(fills)
    files: dict[str, str] = {}
    limits = [*found.limits]
    if schedule is not None:
        config, files = _scheduled(found, kind, config, schedule)
        limits += found.entry["schedule"]["limits"]
    if "file" in found.entry:
        files = {found.entry["file"]: config}
    parallel = Template(found.entry["parallel"]).substitute(fills) if s.tensor_parallel > 1 else ""
    line = Template(found.entry["line"]).substitute(fills, config=config, parallel=parallel)
    needs = found.entry.get("needs", {}).get(kind, "")
    return Launch(found, line, files, needs, tuple(limits))


def refusal(engine: str, drafter: Drafter) -> str:
    """Why a scenario's engine takes no such drafter; "" where it does, or its options were not
    read.

    Examples
    --------
    >>> from specmath.drafters import Medusa
    >>> refusal("vllm", Medusa())
    'vLLM 0.33.0 takes no Medusa heads: removed after 0.32.0'
    """
    found = engine_of(engine)
    return "" if found is None else _without(found, drafter)


def _without(found: Engine, drafter: Drafter) -> str:
    kind = drafter.kind
    if kind in found.entry["drafters"]:
        return ""
    why = found.entry.get("without", {}).get(kind)
    said = f"{found.label} {found.version} takes no {drafter.label}"
    return f"{said}: {why}" if why else said


def _entry(name: str, *, known: bool) -> Engine:
    found = engines().get(name) if known else engine_of(name)
    if found is None:
        raise InputError(
            f"engine must be one whose options were read ({', '.join(engines())}), got {name!r}"
        )
    return found


def _checkpoint(text: str | None, name: str, unknown: str) -> str:
    """A name as the catalogue has it; of a pasted config.json the name that it gives itself."""
    if text is None or is_config(text):
        text = name or unknown
    return _safe(text)


def _draft(text: str | None, kind: str) -> str:
    """The draft's checkpoint: a model's name, or in capitals what only the reader knows."""
    if text is None or text == kind or is_config(text):
        return f"YOUR-{kind.upper()}"
    return _safe(text.partition(":")[2] or text)


def _safe(name: str) -> str:
    """A name that no shell, JSON or YAML reads as anything else: links carry names too."""
    return re.sub(r"[^\w./-]+", "-", name, flags=re.ASCII).strip("-") or "MODEL"


def _running(endpoint: Endpoint) -> int:
    """Requests that may run at once: those in flight, or the batch that a rate leads to."""
    s = endpoint.scenario
    if s.request_rate is not None and endpoint.load is not None:
        return int(max(endpoint.load.batch)) + 1
    return s.in_flight


# ── γ by batch size ──────────────────────────────────────────────────────────────────────────


def _scheduled(
    found: Engine, kind: str, config: str, schedule: Schedule
) -> tuple[str, dict[str, str]]:
    """The configuration with the schedule in it, and the files that it takes."""
    form = found.entry.get("schedule")
    if form is None or kind not in form.get("drafters", (kind,)):
        raise InputError(f"{found.label} {found.version} takes no γ by batch with this drafter")
    return _FORMS[form["form"]](config, schedule, form)


Form = Mapping[str, Any]


def _ranges(config: str, schedule: Schedule, _: Form) -> tuple[str, dict[str, str]]:
    """vLLM: [first, last, γ] for each range, in the object itself."""
    held = json.loads(config) | {"num_speculative_tokens": schedule.max_gamma}
    return json.dumps(held | {"num_speculative_tokens_per_batch_size": schedule.as_list()}), {}


def _adaptive(config: str, schedule: Schedule, form: Form) -> tuple[str, dict[str, str]]:
    """SGLang: a file of batch size (the lower edge) to the one number of steps."""
    steps = {str(part.low): {"candidate_steps": [part.gamma]} for part in schedule.ranges}
    return config + form["option"], {form["file"]: json.dumps(steps)}


def _lengths(config: str, schedule: Schedule, _: Form) -> tuple[str, dict[str, str]]:
    """TensorRT-LLM: batch size (the upper edge) to γ; the first is the largest."""
    drafting = [part for part in schedule.ranges if part.gamma]
    gammas = [part.gamma for part in drafting]
    if gammas != sorted(gammas, reverse=True) or drafting != list(schedule.ranges[: len(drafting)]):
        raise InputError("this engine takes only a γ that falls as the batch grows")
    table = ", ".join(f"{part.high}: {part.gamma}" for part in drafting)
    return config.replace("}", f", draft_len_schedule: {{{table}}}}}"), {}


_FORMS = {"ranges": _ranges, "adaptive": _adaptive, "lengths": _lengths}
