"""A published row as the scenario that a person who knew its inputs would have typed."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

from specmath import drafters, hardware, models
from specmath.checks import InputError
from specmath.engines import WITHOUT
from specmath.models import Model
from specmath.published.case import Case, Reason, engine_of, newer, options, said_of, spelt
from specmath.scenario import SPECS, Scenario
from specmath.scenario.files import build

__all__ = [
    "FAMILIES", "UNNAMED", "Unscorable", "asked", "drafter_of", "family_of", "from_ratio",
    "from_served", "gpu_of", "is_mixture", "is_spread", "judging_engine", "model_of",
]  # fmt: skip

IDLE_DRAFT = "ngram"
"""A plain row has no draft, and the hardware form wants one: of γ = 0 nothing of it counts."""


UNNAMED = "other"
"""The engine of a row that names none, or one that is not known here."""


class Unscorable(Exception):
    """A row that a method cannot predict; `reason` says why."""

    def __init__(self, code: Any, detail: str = "") -> None:
        super().__init__(code)
        self.reason = Reason(code, detail)


# ── the ratio alone: acceptance and costs as measured ────────────────────────────────────────


def _acceptance(case: Case, gamma: int) -> dict[str, Any]:
    """τ where it was counted, else α."""
    if case.tau is not None:
        if not 1 <= case.tau <= gamma + 1:
            raise Unscorable("refused", f"{case.tau:g} tokens per step at gamma={gamma}")
        return {"tokens_per_step": case.tau, "measured_gamma": gamma}
    if case.alpha is None:
        raise Unscorable("no acceptance")
    return {"alpha": case.alpha}


def from_ratio(case: Case, *, timed: bool) -> dict[str, Any]:
    """The fields that say what the row knows without any hardware.

    `timed`: verification and drafting as they were timed; otherwise Theorem 3.8, in which
    verification is free. Of a tree Theorem 3.8 takes its passes for γ, and the τ that was counted.
    """
    gamma = case.gamma if case.gamma is not None else None if timed else case.depth
    if not gamma:
        raise Unscorable("no gamma")
    fields = {"gamma": gamma, **_acceptance(case, gamma)}
    if not timed:
        if case.c is None:
            raise Unscorable("not predicted")
        return fields | {"c": case.c}
    if case.verify is None or case.drafting is None:
        raise Unscorable("not predicted")
    c = case.drafting / gamma
    return fields | {"c": c, "c_hat": c, "sigma": (case.verify - 1.0) / gamma}


# ── hardware ─────────────────────────────────────────────────────────────────────────────────

_COUNTED = re.compile(r"^(\d{1,4})x ?(.*)$")
_TP = re.compile(r"\bTP(\d{1,4})\b")
_BRACKETS = re.compile(r"\s*\(.*?\)")
_SPLIT = re.compile(r"\b(?:layer split|tensor split|offload|PP=\d)\b")


@lru_cache(maxsize=1024)
def gpu_of(text: str) -> tuple[str, int | None]:
    """The catalogue's GPU of "2xA100-80GB TP2 BF16", and how many; Unscorable where there is none.

    What stands in brackets is left out, but for weights that are not sharded within layers.
    """
    if not text or text == "not seen":
        raise Unscorable("no gpu")
    if _SPLIT.search(text):
        raise Unscorable("split", text)
    bare = _BRACKETS.sub("", text).strip()
    counted, shards = _COUNTED.match(bare), _TP.search(bare)
    name = counted[2] if counted else bare
    name = " ".join(_TP.sub("", name).split())
    try:
        found = hardware.find(spelt("gpus", name)).name
    except InputError:
        raise Unscorable("gpu", text) from None
    count = int(shards[1]) if shards else int(counted[1]) if counted else None
    return found, count


@lru_cache(maxsize=1024)
def model_of(text: str, config: str = "") -> tuple[Model, str]:
    """The model of a config.json or of a name, and what a scenario calls it."""
    if config:
        try:
            return models.named(config), config
        except InputError as error:
            raise Unscorable("refused", str(error)) from None
    if not text or text == "not seen":
        raise Unscorable("no model")
    try:
        found = models.find(spelt("models", text))
    except InputError:
        raise Unscorable("model", text) from None
    return found, found.name


def is_mixture(case: Case) -> bool:
    """Whether its model is a mixture of experts; False where the model is not known."""
    with suppress(Unscorable):
        return model_of(case.model, case.config)[0].is_moe
    return False


def _stored(model: Model, precision: str, name: str) -> str:
    """How the weights are stored: as published where that is what the row says or is narrower,
    because a checkpoint's own storage wins; else what the row says."""
    written = precision.lower() or next(
        (part for part in name.lower().split() if options("formats", part)), ""
    )
    found = options("formats", written)
    if written and found is None:
        raise Unscorable("refused", f"weights in {precision or written}")
    known = {choice.value for choice in SPECS["weight_dtype"].choices}
    dtype = next((each for each in found or () if each in known), None)
    own = model.quantisation
    if dtype is None or dtype == model.weight_dtype:
        return "native"
    bits = {"bf16": 16, "fp8": 8, "int8": 8}
    if own is not None and bits.get(own.dtype, 4) <= bits.get(dtype, 4):
        return "native"
    return dtype


FAMILIES = ("DeepSeek", "Llama-3.1-8B", "Llama-3.1-70B", "MiniMax", "Qwen3.5-397B")
"""Models that set what an engine adds to a plain step, one name for those of the same shape."""


def family_of(model: str) -> str:
    """The name under which a model is left out of an engine's fit."""
    bare = model.split("/")[-1]
    return next((family for family in FAMILIES if bare.startswith(family)), bare)


def judging_engine(case: Case, fields: dict[str, Any]) -> str | None:
    """The engine as rows of other models set it, for a plain row of the record; None for others,
    which are predicted as anybody's scenario is."""
    if case.kind != "plain" or not case.ours:
        return None
    return f"{fields['engine']}{WITHOUT}{family_of(str(fields['model']))}"


def asked(fields: dict[str, Any], engine: str | None) -> Scenario:
    """The scenario of those fields, with the engine that may judge the row where there is one."""
    built = build(fields)
    # That engine is known to the record alone, and no choice of a scenario.
    return built if engine is None else built.model_copy(update={"engine": engine})


def drafter_of(case: Case) -> str | None:
    """The kind of drafter that a row ran, "model" for a draft model; None where no kind here stands
    for it."""
    known = {"model", *drafters.kinds()}
    return next((k for k in options("drafters", case.drafter) or () if k in known), None)


def _drafter(case: Case) -> str:
    """The scenario's `draft`."""
    if not case.speculates:
        return IDLE_DRAFT
    kind = drafter_of(case)
    if kind is None:
        raise Unscorable("drafter", case.drafter)
    if kind != "model":
        return kind
    try:
        return model_of(case.draft_model)[1]
    except Unscorable:
        raise Unscorable("draft model", case.draft_model) from None


_VERSION = re.compile(r"\b(\d+)\.(\d+)")


def _engine(case: Case) -> str:
    """The scenario's `engine`; of plain decoding as its version runs it."""
    found = engine_of(case.engine) or UNNAMED
    version = _VERSION.search(case.engine)
    if case.speculates or version is None:
        return found
    later = newer(found, (int(version[1]), int(version[2])))
    return found if later is None else later


_SAID = ("prompt_tokens", "output_tokens", "context_tokens", "chunk_tokens", "request_rate")
"""Fields of a scenario that are a case's own."""


def _load(case: Case) -> dict[str, Any]:
    """How the server is loaded, and the lengths of its requests."""
    own = {name: getattr(case, name) for name in _SAID}
    fields = {name: value for name, value in own.items() if value is not None}
    if share := said_of("lengths", case):
        for name in fields.keys() & {"prompt_tokens", "output_tokens"}:
            fields[name] = round(float(share) * fields[name])
    if case.cached_tokens and case.prompt_tokens:
        fields["prefix_hit"] = case.cached_tokens / case.prompt_tokens
    if case.decode_only:
        fields["decode_only"] = "yes"
    if case.request_rate is not None:
        return fields
    if case.concurrency is None:
        raise Unscorable("load", case.load)
    # Of groups with sequences of their own, the plain rows count those of one group.
    in_flight = case.concurrency * (case.attention_dp if case.kind == "plain" else 1)
    in_flight = int(said_of("in_flight", case) or in_flight)
    arrivals = said_of("arrivals", case) or "sustained"
    if arrivals == "static":
        return fields | {"batch": in_flight, "decode_only": "yes"}
    return fields | {"concurrency": in_flight, "arrivals": arrivals}


def _split(case: Case, counted: int | None) -> dict[str, int]:
    """GPUs of a replica, and their groups with experts and with sequences of their own.

    The plain rows write the same run in several ways, which their ids and equal times tell apart:
    slices and groups of experts that are both all GPUs, whose product then stands for the GPUs; and
    `tensor_parallel` equal to `attention_dp` where experts alone are spread.
    """
    gpus, dp, experts = case.gpus or counted or 1, case.attention_dp, case.experts
    if case.expert_slices == experts > 1 and max(gpus, dp) == experts * experts:
        gpus, dp = experts, (experts if dp > 1 else 1)
    elif gpus == dp > 1 and experts == gpus * dp:
        experts, dp = gpus, 1
    else:
        gpus *= dp
    return {"tensor_parallel": gpus, "expert_parallel": experts, "attention_dp": dp}


def is_spread(case: Case) -> bool:
    """Whether experts, or sequences with their attention, are spread over groups of GPUs: more than
    tensor parallelism."""
    split = _split(case, None)
    return max(split["expert_parallel"], split["attention_dp"]) > 1


def from_served(case: Case, *, anchored: bool = False) -> dict[str, Any]:
    """The fields of a scenario in the hardware form; `anchored`: with the row's plain speed.

    Raises Unscorable with what is not known, or is not within what a scenario can say.
    """
    fields: dict[str, Any] = {"gamma": 0, "alpha": 0.5, "max_gamma": 1}
    if case.speculates:
        if case.tau is None and case.alpha is None:
            raise Unscorable("no acceptance")
        if case.depth is not None:
            raise Unscorable("tree")
        if not case.gamma:
            raise Unscorable("no gamma")
        fields = {"gamma": case.gamma, **_acceptance(case, case.gamma)}
    load = _load(case)
    if different := said_of("unlike", case):
        raise Unscorable(different)
    draft = _drafter(case)
    gpu, counted = gpu_of(case.hardware)
    model, name = model_of(case.model, case.config)
    cache = said_of("cache", case) or ("fp8" if case.kv_dtype.startswith("fp8") else "bf16")
    return {
        **fields, **load, "engine": _engine(case),
        "gpu": gpu, "model": name, "draft": draft,
        **_split(case, counted),
        "weight_dtype": _stored(model, case.precision, case.model), "kv_dtype": cache,
        **({"target_ms": case.plain_ms} if anchored else {}),
    }  # fmt: skip
