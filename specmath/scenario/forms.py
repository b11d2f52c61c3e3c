"""The forms in which people know acceptance and draft cost, and the choices they are offered."""

from __future__ import annotations

from specmath.scenario.fields import UNKNOWN, Choice

__all__ = [
    "ACCEPTANCE_CHOICES",
    "ACCEPTANCE_FORMS",
    "CITED_RANGES",
    "COMPUTED_FROM_HARDWARE",
    "DRAFT_CHOICES",
    "DRAFT_FORMS",
    "ENGINE_CHOICES",
    "HALVES",
    "KV_DTYPE_CHOICES",
    "MEASURED_AT",
    "SERVED_ONLY",
    "SOURCE_CHOICES",
    "VERIFY_CHOICES",
    "VERIFY_FIELDS",
    "VERIFY_FORMS",
    "WEIGHT_DTYPE_CHOICES",
    "WORKLOADS",
    "WORKLOAD_CHOICES",
    "YES_NO",
]

ACCEPTANCE_FORMS: dict[str, tuple[str, ...]] = {
    "accepted_per_step": ("accepted_per_step",),
    "tokens_per_step": ("tokens_per_step",),
    "alpha": ("alpha",),
    "accepted_share": ("accepted_share",),
    "survival": ("rates",),
    "conditional": ("rates",),
    "mixture": ("mixture",),
    "workload": ("workload",),
    "range": ("alpha_low", "alpha_high"),
}
"""Each form of acceptance and the fields it needs."""

DRAFT_FORMS: dict[str, tuple[str, ...]] = {
    "times": ("target_ms", "draft_ms"),
    "ratio": ("c",),
    "hardware": ("gpu", "model", "draft"),
    "range": ("c_low", "c_high"),
}
"""Each form of draft cost and the fields it needs; `target_ms` is optional in the others."""

VERIFY_FORMS: dict[str, tuple[str, ...]] = {
    "slope": ("sigma",),
    "curve": ("verify_costs",),
}
"""Each form of verification cost and its field; the slope may be unknown."""

VERIFY_FIELDS = frozenset({"verify_form", *(f for fs in VERIFY_FORMS.values() for f in fs)})

CITED_RANGES: dict[str, dict[str, float]] = {
    "acceptance_form": {"alpha_low": 0.5, "alpha_high": 0.85},
    "draft_form": {"c_low": 0.02, "c_high": 0.25},
}
"""What "I don't know" is taken as where no range is given. α: Leviathan et al. 2023, Table 2 has
0.53 to 0.82 for small drafts. c: 0.02 is T5-small (their Table 4), about 0.23 a 1B draft for an
8B target on an H100, composed from measured kernel tables."""

COMPUTED_FROM_HARDWARE = (
    "target_ms", "verify_form", "sigma", "verify_costs", "c_hat", "overhead"
)  # fmt: skip
"""Fields that the step-time model answers: they may not be given beside `draft_form=hardware`."""

SERVED_ONLY = (
    "context_tokens", "weight_dtype", "kv_dtype", "draft_tensor_parallel", "engine", "coverage"
)  # fmt: skip
"""Fields that only the step-time model reads: refused beside another form, which ignores them."""

MEASURED_AT = ("accepted_per_step", "tokens_per_step", "accepted_share")
"""Forms whose number means nothing without the γ it was measured at."""

HALVES: dict[str, frozenset[str]] = {
    "acceptance": frozenset(
        {"acceptance_form", "measured_gamma", *(f for fs in ACCEPTANCE_FORMS.values() for f in fs)}
    ),
    "draft cost": frozenset(
        {"draft_form", *SERVED_ONLY, *(f for fs in DRAFT_FORMS.values() for f in fs)}
    )
    - {"target_ms"},
}
"""Fields of each half: giving one anew replaces the half's form. The target's time is shared."""

WORKLOADS = {"creative": 0.6, "code_or_json": 0.85}
"""α of the planning presets: planning range, not measured."""

ACCEPTANCE_CHOICES = (
    Choice("accepted_per_step", "Accepted drafts per step", "bonus token not counted"),
    Choice("tokens_per_step", "Tokens per step, with bonus", "vLLM's mean acceptance length"),
    Choice("alpha", "α: chance per drafted token"),
    Choice("accepted_share", "Accepted ÷ drafted", 'what engines print as "acceptance rate"'),
    Choice("survival", "Per-position rates or a log line", "share of steps reaching each position"),
    Choice("conditional", "Per-position conditional rates", "given the position before it passed"),
    Choice("mixture", "A mixture of request kinds", "shares of output tokens, each with its α"),
    Choice("workload", "Only the kind of work", "planning range, not measured"),
    Choice("range", "I don't know: a range of α"),
)
DRAFT_CHOICES = (
    Choice("times", "Two times in ms"),
    Choice("ratio", "c: draft ÷ target forward"),
    Choice("hardware", "From GPU, models and batch", "computed by the step-time model"),
    Choice("range", "I don't know: a range of c"),
)
VERIFY_CHOICES = (
    Choice("slope", "One v, on a line over γ"),
    Choice("curve", "Measured: v at every γ"),
)
WEIGHT_DTYPE_CHOICES = (
    Choice("native", "As published"),
    Choice("bf16", "bf16"),
    Choice("fp8", "fp8"),
    Choice("int8", "int8"),
    Choice("int4", "int4"),
    Choice("mxfp4", "mxfp4"),
)
KV_DTYPE_CHOICES = (Choice("bf16", "bf16"), Choice("fp8", "fp8"))
ENGINE_CHOICES = (
    Choice("vllm", "vLLM, all captured in CUDA graphs", "overhead fitted to vLLM issue 20780"),
    Choice("vllm-eager-draft", "vLLM, draft run eagerly", "overhead of vLLM pull request 16035"),
    Choice("none", "No host overhead (a lower bound)"),
)
WORKLOAD_CHOICES = (
    Choice("creative", "Creative writing (α 0.6)", "planning range, not measured"),
    Choice("code_or_json", "Code or JSON (α 0.85)", "planning range, not measured"),
)
SOURCE_CHOICES = (
    Choice(UNKNOWN, "Not said"),
    Choice("my_traffic", "Measured on my own traffic"),
    Choice("other_traffic", "Measured on other text (a benchmark, a paper)"),
    Choice("assumed", "Assumed"),
)
YES_NO = (Choice(UNKNOWN, "I don't know"), Choice("yes", "Yes"), Choice("no", "No"))
