"""Every input of a prediction, in one frozen validated record."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

from specmath import engines
from specmath.checks import InputError
from specmath.models import dtypes
from specmath.scenario.fields import UNKNOWN, Choice, FieldSpec, choice, number, spec_of, text
from specmath.scenario.forms import (
    ACCEPTANCE,
    COST,
    VERIFY,
    AcceptanceForm,
    CostForm,
    VerifyForm,
    choices,
)
from specmath.scenario.rules import check, normalised

__all__ = ["EXAMPLE", "SPECS", "Scenario"]

WORKLOAD_CHOICES = (
    Choice("creative", "Creative writing", "what others measured"),
    Choice("code_or_json", "Code or JSON", "what others measured"),
)
WORK_CHOICES = (
    Choice(UNKNOWN, "Any"),
    Choice("chat", "Chat"),
    Choice("code", "Code"),
    Choice("math", "Mathematics"),
    Choice("qa", "Questions and answers"),
    Choice("reasoning", "Reasoning"),
    Choice("summarisation", "Summaries"),
    Choice("translation", "Translation"),
    Choice("creative", "Creative writing"),
    Choice("agentic", "Agents"),
    Choice("rag", "Retrieval"),
    Choice("json", "JSON, tool calls"),
    Choice("copy", "Edits that copy their input"),
    Choice("mixed", "A mixture of them"),
)
SOURCE_CHOICES = (
    Choice(UNKNOWN, "Not said"),
    Choice("my_traffic", "Measured on my own traffic"),
    Choice("other_traffic", "Measured on other text (a benchmark, a paper)"),
    Choice("assumed", "Assumed"),
)
WEIGHT_DTYPE_CHOICES = (
    Choice("native", "As published"),
    *(
        Choice(dtype, dtype)
        for dtype in ("bf16", "fp8", "int8", "int4", "mxfp4", "nvfp4", "q4_k_m", "q8_0")
    ),
)
KV_DTYPE_CHOICES = (
    Choice("native", "As the checkpoint declares"), Choice("bf16", "bf16"), Choice("fp8", "fp8"),
)  # fmt: skip
ARRIVALS_CHOICES = (
    Choice("sustained", "Traffic that keeps coming"),
    Choice("one_wave", "One wave: as many requests as concurrency, sent at once"),
)
ENGINE_CHOICES = tuple(
    Choice(name, engine.label, engine.source) for name, engine in engines.catalogue().items()
)
YES_NO = (Choice(UNKNOWN, "I don't know"), Choice("yes", "Yes"), Choice("no", "No"))

ASSUMED_CONTEXT = 1024
"""Tokens in the cache of a sequence where neither they nor the prompt were given."""

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

    acceptance_form: str = choice(
        "alpha", "Acceptance: what you know", "Give what you have.", "acceptance",
        choices(ACCEPTANCE),
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
    workload: str | None = choice(
        None, "Kind of work", "α as others measured it there, with your kind of draft.",
        "acceptance", WORKLOAD_CHOICES,
    )  # fmt: skip
    alpha_low: float | None = number(
        None, "α at worst", "",
        "Low end. Not given: that of what others measured with your kind of draft at your kind of "
        "work; 0 where nobody did.",
        "acceptance", low=0, high=1, slider=(0.0, 1.0), step=0.01, example="0.5", unknown=True,
    )  # fmt: skip
    alpha_high: float | None = number(
        None, "α at best", "",
        "High end. Not given: that of what others measured; 1 where nobody did.",
        "acceptance", low=0, high=1, slider=(0.0, 1.0), step=0.01, example="0.85", unknown=True,
    )  # fmt: skip
    acceptance_source: str = choice(
        UNKNOWN, "Where the acceptance comes from", "Used by the checklist.", "acceptance",
        SOURCE_CHOICES,
    )  # fmt: skip

    gamma: int | None = number(
        None, "Drafted", "",
        "Tokens the draft proposes before each verification; 0 is plain decoding. Not given: the "
        "γ that is recommended.",
        "gamma", low=0, high=1000, whole=True, slider=(0, 16), step=1, symbol="γ", example="4",
        unknown=True,
    )  # fmt: skip
    max_gamma: int = number(
        16, "Largest γ considered", "", "The search for the best γ stops here.",
        "gamma", low=1, high=256, whole=True, step=1, example="16",
    )  # fmt: skip

    draft_form: str = choice(
        "ratio", "Draft cost: what you know", "Give what you have.", "draft", choices(COST)
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
    run_gamma: int | None = number(
        None, "A measured run's γ", "", "The γ of one run with speculation that you have measured: "
        "it fixes the step cost there.", "draft",
        low=1, high=1000, whole=True, step=1, example="2", unknown=True,
    )  # fmt: skip
    run_ms: float | None = number(
        None, "A measured run's time per token", "ms", "Mean TPOT of that run, at the load of this "
        "scenario.", "draft", low=0.001, high=1e6, step=0.5, example="18.9", unknown=True,
    )  # fmt: skip
    run_tokens_per_step: float | None = number(
        None, "A measured run's tokens per step", "", "Its τ, bonus token included. Not given: "
        "what the acceptance says at its γ.", "draft",
        low=1, high=1001, step=0.1, example="2.4", unknown=True,
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
        None, "Draft", "A model's name or config.json (pard: before it where it drafts all tokens "
        "in one pass), or a kind: eagle, eagle3, p-eagle, mtp, assistant, medusa, block, dflash, "
        "dspark, ngram, suffix, layer_skip.", "served", max_length=20_000, example="Llama-3.2-1B",
    )  # fmt: skip
    context_tokens: int | None = number(
        None, "Context", "tokens", "Tokens already in the cache of a sequence. Not given: the "
        "prompt and half of the output; without a prompt 1024 is assumed.", "served",
        low=1, high=10_000_000, whole=True, step=1024, symbol="L", example="8192", unknown=True,
    )  # fmt: skip
    weight_dtype: str = choice(
        "native", "Target weights", "How the target's weights are stored.", "served",
        WEIGHT_DTYPE_CHOICES, open=True,
    )  # fmt: skip
    kv_dtype: str = choice(
        "native", "KV cache", "How keys and values are stored.", "served", KV_DTYPE_CHOICES
    )
    draft_tensor_parallel: int = number(
        1, "GPUs of a draft model", "", "Tensor parallelism of a separate draft; often 1.",
        "served", low=1, high=1024, whole=True, step=1, example="1",
    )  # fmt: skip
    expert_parallel: int = number(
        1, "Expert parallel", "", "Groups of GPUs with experts of their own; divides the GPUs. 1: "
        "every GPU has a slice of each.",
        "served", low=1, high=1024, whole=True, step=1, symbol="", example="1",
    )  # fmt: skip
    attention_dp: int = number(
        1, "Attention data parallel", "", "Groups of GPUs with sequences of their own, whose "
        "tokens meet in the experts; divides the GPUs.",
        "served", low=1, high=1024, whole=True, step=1, symbol="", example="1",
    )  # fmt: skip
    draft_weight_dtype: str = choice(
        "native", "Draft weights", "How a draft model or head is stored.", "served",
        WEIGHT_DTYPE_CHOICES, open=True,
    )  # fmt: skip
    draft_layers: int | None = number(
        None, "Layers of the head", "", "num_hidden_layers of its config.json. Not given: what the "
        "kind is published with.", "served",
        low=1, high=256, whole=True, step=1, example="1", unknown=True,
    )  # fmt: skip
    draft_vocab: int | None = number(
        None, "Vocabulary of the head", "tokens", "draft_vocab_size of its config.json: rows of "
        "the table that each pass multiplies. Not given: what the kind is published with.",
        "served", low=1, high=10_000_000, whole=True, step=1000, example="32000", unknown=True,
    )  # fmt: skip
    drafted_per_step: float | None = number(
        None, "Drafted a step", "tokens", "Mean where drafts stop early (a least probability, a "
        "confidence, an adaptive length); γ is then the most. Not given: drafts are full.",
        "served", low=0, high=1000, step=0.1, example="2.6", unknown=True,
    )  # fmt: skip
    tree: str | None = text(
        None, "Token tree", "DEPTH:TOPK:NODES, such as 5:4:15: levels, children of a node at most, "
        "drafted tokens (the root not counted; SGLang's num_draft_tokens counts it). γ is then "
        "the number of nodes.", "served", max_length=20, example="5:4:15",
    )  # fmt: skip
    engine: str = choice(
        "vllm", "Engine", "What it adds around the forwards: host time, and its own kernels.",
        "served", ENGINE_CHOICES,
    )  # fmt: skip
    coverage: float | None = number(
        None, "Coverage", "", "Share of sequence-steps that get a draft at all; 1 unless the "
        "draft is a lookup (then 0.5 is assumed while unknown).", "draft",
        low=0, high=1, step=0.05, symbol="κ", example="0.5", unknown=True,
    )  # fmt: skip
    overhead: float = number(
        0.0, "Overhead h", "plain steps", "Scheduling and rejection that speculation adds to each "
        "step; 0.1–0.2 was measured for EAGLE heads. Where neither it nor σ is given, both are "
        "open: from nothing to half a plain step a step, as in published speedups.",
        "draft", low=0, high=100, slider=(0.0, 1.0), step=0.01, symbol="", example="0.1",
    )  # fmt: skip
    c_hat: float | None = number(
        0.0, "Draft arithmetic", "", "One draft forward over one target forward, in arithmetic "
        "operations; about the ratio of parameters. 0 is assumed until you give it; unknown is "
        "taken from 0 to c.", "draft",
        low=0, high=100, slider=(0.0, 1.0), step=0.001, symbol="ĉ", example="0.01", unknown=True,
    )  # fmt: skip
    verify_form: str = choice(
        "slope",
        "Verification: what you know",
        "On a line, drafting moves from c to ĉ as σ goes from 0 "
        "to 1; with a measured curve a drafted token costs c.",
        "verify",
        choices(VERIFY),
    )
    sigma: float | None = number(
        0.0, "Verification slope", "", "(v−1)/γ: 0 when a pass over γ+1 tokens costs one plain "
        "step (memory-bound), 1 when it costs γ+1 (compute-bound). Not given: 0, and what a step "
        "costs besides drafting is open; unknown is taken from 0 to 1.", "verify",
        low=-0.5, high=10, slider=(0.0, 1.0), step=0.01, symbol="σ", example="0.1", unknown=True,
    )  # fmt: skip
    verify_costs: tuple[float, ...] = text(
        (), "v of 2, 3, 4 … tokens", "Passes over γ+1 = 2, 3, 4 … tokens a sequence, each over one "
        "plain step, at the batch and context you serve. No γ beyond the last is predicted.",
        "verify", example="1.05,1.08,1.3", max_length=256,
    )  # fmt: skip

    concurrency: int | None = number(
        None, "Concurrency", "", "Requests in flight on one replica, each replaced when it ends (a "
        "closed loop): the batch follows. Leave out batch then.", "load",
        low=1, high=100_000, whole=True, step=1, symbol="C", example="32", unknown=True,
    )  # fmt: skip
    request_rate: float | None = number(
        None, "Request rate", "requests/s", "Requests a second that reach one replica, whatever it "
        "does (an open loop): the batch follows. Leave out batch and concurrency then.", "load",
        low=1e-6, high=1e6, step=0.1, symbol="λ", example="2", unknown=True,
    )  # fmt: skip
    prompt_tokens: int | None = number(
        None, "Prompt tokens a request", "", "Mean length. The prompts of the other requests take "
        "time from every token; not given, their length is open from 0 to the context.", "load",
        low=0, high=10_000_000, whole=True, step=256, symbol="P", example="1024", unknown=True,
    )  # fmt: skip
    prefix_hit: float = number(
        0.0, "Prefix cache hits", "", "Share of the prompt tokens that the cache holds already; 0 "
        "is assumed until you give it.", "load",
        low=0, high=1, slider=(0.0, 1.0), step=0.05, symbol="", example="0.4",
    )  # fmt: skip
    prefix_hit_speculative: float | None = number(
        None, "Prefix cache hits with speculation", "", "Where they differ: hybrid models lose "
        "the cache with some drafters. Not given: as without.", "load",
        low=0, high=1, slider=(0.0, 1.0), step=0.05, symbol="", example="0", unknown=True,
    )  # fmt: skip
    chunk_tokens: int = number(
        8192, "Tokens a step at most", "", "vLLM's max_num_batched_tokens: prompts are read in "
        "chunks of it; 8192 is assumed until you give it.", "load",
        low=1, high=10_000_000, whole=True, step=512, example="2048",
    )  # fmt: skip
    arrivals: str = choice(
        "sustained", "Arrivals", "How a closed loop begins and ends.", "load", ARRIVALS_CHOICES
    )
    decode_only: str = choice(
        "no", "Decode-only workers", "Prompts are read by other GPUs (disaggregated prefill), so "
        "that nothing waits for them.", "load", YES_NO[1:],
    )  # fmt: skip
    prefill_share: float | None = number(
        None, "Time that prompts take", "", "Share of the plain time per token that goes to other "
        "requests' prompts: 1 − median ITL / mean TPOT. Computed in the hardware form.", "load",
        low=0, high=0.99, slider=(0.0, 0.9), step=0.05, symbol="", example="0.2", unknown=True,
    )  # fmt: skip

    batch: int = number(
        1, "Sequences decoded together", "", "Batch of one replica.", "hardware",
        low=1, high=100_000, whole=True, step=1, symbol="B", example="8",
    )  # fmt: skip
    tensor_parallel: int = number(
        1, "GPUs (TP)", "", "GPUs that serve one copy of the target, each a share of every layer.",
        "hardware", low=1, high=1024, whole=True, step=1, example="1",
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
    work: str = choice(
        UNKNOWN, "Kind of work", "What the requests ask for: where you don't know the acceptance, "
        "it is what others measured there.", "traffic", WORK_CHOICES,
    )  # fmt: skip
    copies_input: str = choice(
        UNKNOWN, "Output repeats its input?", "Code edits, summaries, retrieval: an n-gram draft "
        "costs almost nothing there.", "traffic", YES_NO,
    )  # fmt: skip
    output_tokens: int = number(
        256, "Output tokens a request", "", "Mean length; 256 is assumed until you give it.",
        "traffic", low=1, high=1_000_000, whole=True, step=1, example="256",
    )  # fmt: skip
    output_spread: float = number(
        0.0, "Spread of output lengths", "", "Standard deviation over mean; 0: all are alike. "
        "Lengths are taken as lognormal; public chat traces have 0.7 to 0.8.",
        "traffic", low=0, high=50, slider=(0.0, 2.0), step=0.05, symbol="", example="0.8",
    )  # fmt: skip
    prompt_spread: float = number(
        0.0, "Spread of prompt lengths", "", "Standard deviation over mean; 0: all are alike. Who "
        "waits for the first token waits more behind long ones; public traces have 1 to 1.3.",
        "traffic", low=0, high=50, slider=(0.0, 2.0), step=0.05, symbol="", example="1",
    )  # fmt: skip
    ttft_ms: float | None = number(
        None, "Time to first token", "ms", "Prefill and queueing; speculation does not shorten it.",
        "traffic", low=0, high=1e7, example="500", unknown=True,
    )  # fmt: skip

    usd_per_hour: float | None = number(
        2.5, "Price of one GPU hour", "USD", "2.50 is assumed, about an on-demand H100 in 2026; "
        "put yours.", "money", low=0, high=10_000, step=0.1, example="2.5", unknown=True,
    )  # fmt: skip
    demand_requests_per_second: float | None = number(
        None, "Requests a second to serve", "requests/s", "Of the whole service; gives whole "
        "replicas and the monthly bill.", "money", low=0, high=1e9, step=1.0, example="20",
        unknown=True,
    )  # fmt: skip
    demand_tokens_per_second: float | None = number(
        None, "Output tokens a second to serve", "tokens/s", "Of the whole service; gives whole "
        "replicas and the monthly bill.", "money", low=0, high=1e12, example="20000", unknown=True,
    )  # fmt: skip
    replicas: int | None = number(
        None, "Replicas you run", "", "Without speculation: what they carry is then what is to be "
        "served.", "money", low=1, high=1_000_000, whole=True, step=1, example="8", unknown=True,
    )  # fmt: skip
    headroom: float = number(
        0.2, "Headroom", "", "Share of what each replica can give that is kept free for bursts; "
        "0.2 is assumed until you give it.", "money",
        low=0, high=0.9, slider=(0.0, 0.9), step=0.05, symbol="", example="0.3",
    )  # fmt: skip
    slo_tpot_ms: float | None = number(
        None, "Time per token at most", "ms", "What you promise (SLO): mean TPOT of a request. "
        "Gives the largest request rate that a replica serves within it.", "money",
        low=0.001, high=1e6, step=1.0, example="30", unknown=True,
    )  # fmt: skip
    slo_ttft_ms: float | None = number(
        None, "First token at most", "ms", "What you promise (SLO): mean time to the first token. "
        "Gives the largest request rate that a replica serves within it.", "money",
        low=0.001, high=1e7, step=50.0, example="500", unknown=True,
    )  # fmt: skip
    slo_e2e_ms: float | None = number(
        None, "Whole request at most", "ms", "What you promise (SLO): mean time of a whole "
        "request. Gives the largest request rate that a replica serves within it.", "money",
        low=0.001, high=1e9, step=500.0, example="8000", unknown=True,
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

    @field_validator("*")
    @classmethod
    def _one_of_the_choices(cls, value: Any, info: ValidationInfo) -> Any:
        spec = SPECS[str(info.field_name)]
        if spec.open:
            try:
                return dtypes.known(str(value), spec.name)
            except InputError as error:  # the faults of a record name their field themselves
                raise ValueError(str(error).removeprefix(f"{spec.name} ")) from error
        if value is not None and spec.choices and value not in {c.value for c in spec.choices}:
            raise ValueError(f"must be {spec.bounds}, got {str(value)[:60]}")
        return value

    @property
    def in_flight(self) -> int:
        """Requests in flight in a closed loop: the concurrency, else the batch."""
        return self.concurrency or self.batch

    @property
    def context(self) -> int:
        """Tokens in the cache of a sequence: given, else of the mean request, else 1024."""
        if self.context_tokens is not None:
            return self.context_tokens
        if self.prompt_tokens is None:
            return ASSUMED_CONTEXT
        # A long answer is in more steps: E N²/(2 E N) of it lies behind the token of a step.
        written = self.output_tokens * (1.0 + self.output_spread**2) / 2.0
        return max(1, self.prompt_tokens + int(written))

    @property
    def accepts(self) -> AcceptanceForm:
        """The form in which the acceptance is given."""
        return ACCEPTANCE[self.acceptance_form]

    @property
    def costs(self) -> CostForm:
        """The form in which the draft cost is given."""
        return COST[self.draft_form]

    @property
    def verifies(self) -> VerifyForm:
        """The form in which the verification cost is given."""
        return VERIFY[self.verify_form]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check(self, SPECS)
        return self


SPECS: dict[str, FieldSpec] = {}
SPECS.update({name: spec_of(name, info) for name, info in Scenario.model_fields.items()})

EXAMPLE = Scenario(accepted_per_step=3, measured_gamma=4, gamma=4, target_ms=40, draft_ms=8)
"""Target 40 ms, draft 8 ms, γ=4, 3 accepted: 4 tokens in a 72 ms step, 160/72 = 2.22×."""
