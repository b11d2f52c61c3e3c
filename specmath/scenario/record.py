"""Every input of a prediction, in one frozen validated record."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from specmath.scenario.fields import UNKNOWN, FieldSpec, choice, number, spec_of, text
from specmath.scenario.forms import (
    ACCEPTANCE_CHOICES,
    DRAFT_CHOICES,
    ENGINE_CHOICES,
    KV_DTYPE_CHOICES,
    SOURCE_CHOICES,
    VERIFY_CHOICES,
    WEIGHT_DTYPE_CHOICES,
    WORKLOAD_CHOICES,
    YES_NO,
)
from specmath.scenario.rules import check, normalised

__all__ = ["EXAMPLE", "SPECS", "Scenario"]

_ALPHA_HELP = (
    "Probability that a drafted token is accepted, given all before it in the draft were; "
    "E[Σ min(p,q)]. Not the 'acceptance rate' that most engines print."
)
_MS_HELP = "Time of one forward for one token a sequence, at the batch and context you serve."


class Scenario(BaseModel):
    """What is known about one endpoint: acceptance, γ, draft cost, verification, money.

    Each half is given in one *form* (`acceptance_form`, `draft_form`), with the fields of that
    form and no other; a form left out is read off the fields given. Optional fields left at None
    are unknown and stay visibly unknown in the prediction. Raises pydantic's ValidationError, a
    ValueError; `specmath.scenario.faults.messages` turns it into sentences.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = text(
        "", "Name of this scenario", "Shown in tables and files.", "scenario", max_length=80
    )

    acceptance_form: Literal[
        "accepted_per_step", "tokens_per_step", "alpha", "accepted_share", "survival",
        "conditional", "mixture", "workload", "range",
    ] = choice(
        "alpha", "Acceptance: what you know", "Give what you have.", "acceptance",
        ACCEPTANCE_CHOICES,
    )  # fmt: skip
    alpha: float | None = number(
        None, "Acceptance", "", _ALPHA_HELP, "acceptance",
        low=0, high=1, slider=(0.0, 1.0), step=0.01, symbol="α", example="0.8",
    )  # fmt: skip
    accepted_share: float | None = number(
        None, "Accepted ÷ drafted", "",
        "Accepted drafted tokens over all drafted tokens, as a fraction. Engines print it as "
        "'acceptance rate'; it is below α whenever γ > 1.", "acceptance",
        low=0, high=1, slider=(0.0, 1.0), step=0.01, example="0.61",
    )  # fmt: skip
    tokens_per_step: float | None = number(
        None, "Tokens per step", "",
        "Tokens emitted a step, bonus or correction token included; between 1 and γ+1.",
        "acceptance", low=1, high=1001, slider=(1.0, 9.0), step=0.1, symbol="τ", example="2.8",
    )  # fmt: skip
    accepted_per_step: float | None = number(
        None, "Accepted a step", "",
        "Drafted tokens accepted a step, the bonus token not counted; between 0 and γ.",
        "acceptance", low=0, high=1000, slider=(0.0, 8.0), step=0.1, example="3",
    )  # fmt: skip
    measured_gamma: int | None = number(
        None, "Measured at γ", "",
        "The γ that was running when that number was read. It stays when you move γ.",
        "acceptance", low=1, high=1000, whole=True, step=1, example="4",
    )  # fmt: skip
    rates: tuple[float, ...] = text(
        (), "Rates, first position first", "Fractions or percentages, or a log line that "
        "carries them (vLLM, llama.cpp).", "acceptance", example="0.8,0.6,0.45",
        max_length=256,
    )  # fmt: skip
    mixture: tuple[tuple[float, float], ...] = text(
        (), "share:α of each kind", "Shares of output tokens, then α: 0.5:0.9,0.5:0.4",
        "acceptance", example="0.5:0.9,0.5:0.4", max_length=32,
    )  # fmt: skip
    workload: Literal["creative", "code_or_json"] | None = choice(
        None, "Kind of work", "A planning range, not measured.", "acceptance", WORKLOAD_CHOICES
    )
    alpha_low: float | None = number(
        None, "α at worst", "",
        "Low end; 0.5 is the low end of small drafts in Leviathan et al. 2023, Table 2 (0.53).",
        "acceptance", low=0, high=1, slider=(0.0, 1.0), step=0.01, example="0.5",
    )  # fmt: skip
    alpha_high: float | None = number(
        None, "α at best", "",
        "High end; 0.85 is the high end in Leviathan et al. 2023, Table 2 (0.82).",
        "acceptance", low=0, high=1, slider=(0.0, 1.0), step=0.01, example="0.85",
    )  # fmt: skip
    acceptance_source: Literal["unknown", "my_traffic", "other_traffic", "assumed"] = choice(
        UNKNOWN, "Where the acceptance comes from", "Used by the checklist.", "acceptance",
        SOURCE_CHOICES,
    )  # fmt: skip

    gamma: int = number(
        ..., "Drafted", "",
        "Tokens the draft proposes before each verification; 0 is plain decoding.",
        "gamma", low=0, high=1000, whole=True, slider=(0, 16), step=1, symbol="γ", example="4",
    )  # fmt: skip
    max_gamma: int = number(
        16, "Largest γ considered", "", "The search for the best γ stops here.",
        "gamma", low=1, high=256, whole=True, step=1, example="16",
    )  # fmt: skip

    draft_form: Literal["times", "ratio", "hardware", "range"] = choice(
        "ratio", "Draft cost: what you know", "Give what you have.", "draft", DRAFT_CHOICES
    )
    target_ms: float | None = number(
        None, "Target", "ms", _MS_HELP, "draft",
        low=0.001, high=1e6, slider=(1.0, 100.0), step=0.5, example="40", unknown=True,
    )  # fmt: skip
    draft_ms: float | None = number(
        None, "Draft", "ms", _MS_HELP, "draft",
        low=0, high=1e6, slider=(0.0, 40.0), step=0.1, example="8",
    )  # fmt: skip
    c: float | None = number(
        None, "Draft cost", "", "One draft forward over one target forward, in walltime.",
        "draft", low=0, high=100, slider=(0.0, 1.0), step=0.01, symbol="c", example="0.1",
    )  # fmt: skip
    c_low: float | None = number(
        None, "c at best", "", "Low end; 0.02 is T5-small for T5-XXL (Leviathan et al. 2023, "
        "Table 4).", "draft", low=0, high=100, slider=(0.0, 1.0), step=0.01, example="0.02",
    )  # fmt: skip
    c_high: float | None = number(
        None, "c at worst", "", "High end; 0.25 covers a 1B draft for an 8B target on an H100 "
        "(about 0.23, composed from measured kernel tables).",
        "draft", low=0, high=100, slider=(0.0, 1.0), step=0.01, example="0.25",
    )  # fmt: skip
    gpu: str | None = text(
        None,
        "GPU",
        "A name of the catalogue, or your own numbers: custom:TB/s,TFLOP/s,GB in bf16.",
        "served",
        max_length=60,
        example="H100 SXM",
    )
    model: str | None = text(
        None, "Target model", "A name of the catalogue, or a config.json: its text, on the command "
        "line also its path.", "served", max_length=20_000, example="Llama-3.1-8B",
    )  # fmt: skip
    draft: str | None = text(
        None, "Draft", "A model's name or config.json, or a kind: eagle, eagle3, mtp, medusa, "
        "block, ngram, layer_skip.", "served", max_length=20_000, example="Llama-3.2-1B",
    )  # fmt: skip
    context_tokens: int = number(
        1024, "Context", "tokens", "Tokens already in the cache of a sequence; 1024 is assumed "
        "until you give it.", "served",
        low=1, high=10_000_000, whole=True, step=1024, symbol="L", example="8192",
    )  # fmt: skip
    weight_dtype: Literal["native", "bf16", "fp8", "int8", "int4", "mxfp4"] = choice(
        "native", "Target weights", "How the target's weights are stored.", "served",
        WEIGHT_DTYPE_CHOICES,
    )  # fmt: skip
    kv_dtype: Literal["bf16", "fp8"] = choice(
        "bf16", "KV cache", "How keys and values are stored.", "served", KV_DTYPE_CHOICES
    )
    draft_tensor_parallel: int = number(
        1, "GPUs of a draft model", "", "Tensor parallelism of a separate draft; often 1.",
        "served", low=1, high=1024, whole=True, step=1, example="1",
    )  # fmt: skip
    engine: Literal["vllm", "vllm-eager-draft", "none"] = choice(
        "vllm", "Engine overhead", "Host time of a step and of each pass of the drafter.",
        "served", ENGINE_CHOICES,
    )  # fmt: skip
    coverage: float | None = number(
        None, "Coverage", "", "Share of sequence-steps that get a draft at all; 1 unless the "
        "draft is a lookup (then 0.5 is assumed while unknown).", "served",
        low=0, high=1, step=0.05, symbol="κ", example="0.5", unknown=True,
    )  # fmt: skip
    overhead: float = number(
        0.0, "Overhead h", "plain steps", "Scheduling and rejection that speculation adds to each "
        "step. 0 is assumed until you give it; 0.1–0.2 was measured for EAGLE heads.",
        "draft", low=0, high=100, slider=(0.0, 1.0), step=0.01, symbol="", example="0.1",
    )  # fmt: skip
    c_hat: float | None = number(
        0.0, "Draft arithmetic", "", "One draft forward over one target forward, in arithmetic "
        "operations; about the ratio of parameters. 0 is assumed until you give it; unknown is "
        "taken from 0 to c.", "draft",
        low=0, high=100, slider=(0.0, 1.0), step=0.001, symbol="ĉ", example="0.01", unknown=True,
    )  # fmt: skip
    verify_form: Literal["slope", "curve"] = choice(
        "slope",
        "Verification: what you know",
        "On a line, drafting moves from c to ĉ as σ goes from 0 "
        "to 1; with a measured curve a drafted token costs c.",
        "verify",
        VERIFY_CHOICES,
    )
    sigma: float | None = number(
        0.0, "Verification slope", "", "(v−1)/γ: 0 when a pass over γ+1 tokens costs one plain "
        "step (memory-bound), 1 when it costs γ+1 (compute-bound). 0 is assumed until you give "
        "it; unknown is taken from 0 to 1.", "verify",
        low=-0.5, high=10, slider=(0.0, 1.0), step=0.01, symbol="σ", example="0.1", unknown=True,
    )  # fmt: skip
    verify_costs: tuple[float, ...] = text(
        (), "v of 2, 3, 4 … tokens", "Passes over γ+1 = 2, 3, 4 … tokens a sequence, each over one "
        "plain step, at the batch and context you serve. No γ beyond the last is predicted.",
        "verify", example="1.05,1.08,1.3", max_length=256,
    )  # fmt: skip

    batch: int = number(
        1, "Sequences decoded together", "", "Batch of one replica.", "hardware",
        low=1, high=100_000, whole=True, step=1, symbol="B", example="8",
    )  # fmt: skip
    tensor_parallel: int = number(
        1, "GPUs a replica", "", "GPUs that serve one copy of the target.", "hardware",
        low=1, high=1024, whole=True, step=1, example="1",
    )  # fmt: skip
    draft_gpus: int = number(
        0, "Extra GPUs for the draft", "", "GPUs a replica that only speculation needs.",
        "hardware", low=0, high=1024, whole=True, step=1, example="0",
    )  # fmt: skip
    target_billions: float | None = number(
        None, "Target parameters", "billion", "For the checklist: is the draft two orders smaller?",
        "hardware", low=1e-9, high=1e5, example="70", unknown=True,
    )  # fmt: skip
    draft_billions: float | None = number(
        None, "Draft parameters", "billion", "For the checklist: is the draft two orders smaller?",
        "hardware", low=0, high=1e5, example="1", unknown=True,
    )  # fmt: skip
    temperature: float | None = number(
        None, "Sampling temperature", "", "0 is greedy. Acceptance usually falls as it rises.",
        "traffic", low=0, high=10, step=0.1, example="0.7", unknown=True,
    )  # fmt: skip
    copies_input: Literal["unknown", "yes", "no"] = choice(
        UNKNOWN, "Output repeats its input?", "Code edits, summaries, retrieval: an n-gram draft "
        "costs almost nothing there.", "traffic", YES_NO,
    )  # fmt: skip
    output_tokens: int = number(
        256, "Output tokens a request", "", "Mean length; 256 is assumed until you give it.",
        "traffic", low=1, high=1_000_000, whole=True, step=1, example="256",
    )  # fmt: skip
    ttft_ms: float | None = number(
        None, "Time to first token", "ms", "Prefill and queueing; speculation does not shorten it.",
        "traffic", low=0, high=1e7, example="500", unknown=True,
    )  # fmt: skip

    usd_per_hour: float | None = number(
        2.5, "Price of one GPU hour", "USD", "2.50 is assumed, about an on-demand H100 in 2026; "
        "put yours.", "money", low=0, high=10_000, step=0.1, example="2.5", unknown=True,
    )  # fmt: skip
    demand_tokens_per_second: float | None = number(
        None, "Output tokens a second to serve", "tokens/s", "Of the whole service; gives whole "
        "replicas and the monthly bill.", "money", low=0, high=1e12, example="20000", unknown=True,
    )  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _infer(cls, data: Any) -> Any:
        return normalised(data, SPECS) if isinstance(data, dict) else data

    @field_validator("label")
    @classmethod
    def _one_line(cls, label: str) -> str:
        if not label.isprintable():
            raise ValueError(f"must be one line of printable characters, got {label!r}")
        return label

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check(self, SPECS)
        return self


SPECS: dict[str, FieldSpec] = {}
SPECS.update({name: spec_of(name, info) for name, info in Scenario.model_fields.items()})

EXAMPLE = Scenario(accepted_per_step=3, measured_gamma=4, gamma=4, target_ms=40, draft_ms=8)
"""Target 40 ms, draft 8 ms, γ=4, 3 accepted: 4 tokens in a 72 ms step, 160/72 = 2.22×."""
