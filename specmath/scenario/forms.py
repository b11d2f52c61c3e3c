"""The forms in which people know acceptance, draft cost and verification: one class a form.

A form names its fields, what it is called on screen, and turns the fields into a half of the ratio;
`said` goes the other way, for a person who switches forms. A new form is one class here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from specmath.acceptance import (
    Acceptance,
    IidAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
)
from specmath.acceptance_conditions import UNCHANGED, Share, at_context, at_temperature
from specmath.acceptance_record import Band, band
from specmath.checks import InputError
from specmath.drafters import recorded
from specmath.estimate import conditional
from specmath.models import is_config
from specmath.scenario.fields import UNKNOWN, Choice
from specmath.stepcost import LinearStepCost, StepCost, measured_step_cost
from specmath.theorems import alpha_from_accepted_share, alpha_from_tokens_per_step

if TYPE_CHECKING:
    from specmath.scenario.record import Scenario

__all__ = [
    "ACCEPTANCE",
    "COST",
    "DEMANDS",
    "EXAMPLE_PAIR",
    "FORMS",
    "HALVES",
    "LOADS",
    "NOT_KNOWN",
    "SHARED",
    "VERIFY",
    "WORKLOADS",
    "AcceptanceForm",
    "AlphaRange",
    "CostForm",
    "Form",
    "Hardware",
    "Measured",
    "Recorded",
    "Slope",
    "VerifyForm",
    "choices",
]

WORKLOADS = {"creative": ("creative",), "code_or_json": ("code", "json")}
"""The presets, and the kinds of work of the record whose bands they are."""

NOT_KNOWN = (0.0, 1.0)
"""α where nobody measured it."""

EXAMPLE_PAIR = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B"}
"""Where the choice of hardware starts: a pair to be replaced."""

CURVE_SHOWN = 8
"""How far a slope is written out as a curve to be replaced: usual γ end there."""


class Form(ABC):
    """One way to say a half of the scenario.

    `fields` are the form's own: those of another form of the same half may not be given beside
    them. `cited`: values taken, with their source in the fields' help, where none are given.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    hint: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]]
    optional: ClassVar[bool] = False
    cited: ClassVar[Mapping[str, float]] = {}

    @staticmethod
    def given(s: Scenario, name: str) -> float:
        """A field of the form in use: the record has checked that it is there."""
        value: float | None = getattr(s, name)
        if value is None:
            raise InputError(f"{name} must be given, got nothing")
        return value


F = TypeVar("F", bound=Form)


def _registered(*forms: F) -> dict[str, F]:
    return {form.name: form for form in forms}


def choices(forms: Mapping[str, Form]) -> tuple[Choice, ...]:
    """The forms of a half as the options of its field."""
    return tuple(Choice(form.name, form.label, form.hint) for form in forms.values())


# ── acceptance ───────────────────────────────────────────────────────────────────────────────


class AcceptanceForm(Form):
    """Says the acceptance of the steps that have a draft."""

    measured: ClassVar[bool] = False
    """Whether its number means nothing without the γ it was measured at."""
    planned: ClassVar[bool] = False
    """Whether it is a range for planning, not measured on one's own traffic."""

    def band(self, s: Scenario) -> Band | None:
        """What others measured, where the acceptance stands on that."""
        return None

    def nobodys(self, s: Scenario) -> bool:
        """Whether an end of it is neither given nor measured by anybody."""
        return False

    @abstractmethod
    def acceptance(self, s: Scenario) -> Acceptance:
        """The acceptance as given; of a range, its middle. InputError where it is none."""

    def corners(self, s: Scenario) -> tuple[Acceptance, ...]:
        """The ends of a range; otherwise the acceptance alone."""
        return (self.acceptance(s),)

    @abstractmethod
    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        """The fields that say the acceptance in this form, rounded for a widget.

        A single number cannot carry a shape: it keeps the tokens per step at γ ≥ 1.
        """


class Measured(AcceptanceForm):
    """A mean over steps of γ drafted tokens."""

    measured = True

    @abstractmethod
    def top(self, gamma: float) -> float:
        """The largest value that is possible where γ tokens are drafted."""

    @abstractmethod
    def value(self, tokens: float, gamma: int) -> float:
        """From tokens per step at γ."""

    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        tokens = float(acceptance.tokens_per_step(gamma))
        return {self.name: round(self.value(tokens, gamma), 3), "measured_gamma": gamma}


def _of_tokens(tokens: float, gamma: float) -> IidAcceptance:
    return IidAcceptance(float(alpha_from_tokens_per_step(tokens, gamma)))


class AcceptedPerStep(Measured):
    name, label = "accepted_per_step", "Accepted drafts per step"
    hint = "bonus token not counted"
    fields = ("accepted_per_step",)

    def acceptance(self, s: Scenario) -> Acceptance:
        return _of_tokens(1 + self.given(s, self.name), self.given(s, "measured_gamma"))

    def top(self, gamma: float) -> float:
        return gamma

    def value(self, tokens: float, gamma: int) -> float:
        return tokens - 1


class TokensPerStep(Measured):
    name, label = "tokens_per_step", "Tokens per step, with bonus"
    hint = "vLLM's mean acceptance length"
    fields = ("tokens_per_step",)

    def acceptance(self, s: Scenario) -> Acceptance:
        return _of_tokens(self.given(s, self.name), self.given(s, "measured_gamma"))

    def top(self, gamma: float) -> float:
        return gamma + 1

    def value(self, tokens: float, gamma: int) -> float:
        return tokens


class Alpha(AcceptanceForm):
    name, label = "alpha", "α: chance per drafted token"
    fields = ("alpha",)

    def acceptance(self, s: Scenario) -> Acceptance:
        return IidAcceptance(self.given(s, "alpha"))

    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        alpha = (
            acceptance
            if isinstance(acceptance, IidAcceptance)
            else _of_tokens(float(acceptance.tokens_per_step(gamma)), gamma)
        )
        return {"alpha": round(alpha.alpha, 3)}


class AcceptedShare(Measured):
    name, label = "accepted_share", "Accepted ÷ drafted"
    hint = 'what engines print as "acceptance rate"'
    fields = ("accepted_share",)

    def acceptance(self, s: Scenario) -> Acceptance:
        share, gamma = self.given(s, self.name), self.given(s, "measured_gamma")
        if s.drafted_per_step is not None:  # of what was drafted, not of γ
            return _of_tokens(1.0 + share * s.drafted_per_step, gamma)
        return IidAcceptance(float(alpha_from_accepted_share(share, gamma)))

    def top(self, gamma: float) -> float:
        return 1

    def value(self, tokens: float, gamma: int) -> float:
        return (tokens - 1) / gamma


def _rounded(rates: Any) -> dict[str, Any]:
    return {"rates": tuple(round(float(rate), 3) for rate in rates)}


class Survival(AcceptanceForm):
    name, label = "survival", "Per-position rates or a log line"
    hint = "share of steps reaching each position"
    fields = ("rates",)

    def acceptance(self, s: Scenario) -> Acceptance:
        return PerPositionAcceptance(s.rates)

    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        return _rounded(acceptance.survival(gamma)[1:])


class Conditional(AcceptanceForm):
    name, label = "conditional", "Per-position conditional rates"
    hint = "given the position before it passed"
    fields = ("rates",)

    def acceptance(self, s: Scenario) -> Acceptance:
        return PerPositionAcceptance.from_conditional(s.rates)

    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        rates = conditional(acceptance.survival(gamma)[1:].tolist())
        return _rounded((*rates, *(0.0,) * (gamma - len(rates))))


class Mixture(AcceptanceForm):
    name, label = "mixture", "A mixture of request kinds"
    hint = "shares of output tokens, each with its α"
    fields = ("mixture",)

    def acceptance(self, s: Scenario) -> Acceptance:
        shares, alphas = zip(*s.mixture, strict=True)
        return MixtureAcceptance(shares, [IidAcceptance(alpha) for alpha in alphas])

    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        alpha = ACCEPTANCE["alpha"].said(acceptance, gamma)["alpha"]
        return {"mixture": ((0.5, alpha), (0.5, alpha))}


class Recorded(AcceptanceForm):
    """What others measured of the scenario's kind of draft at its kind of work: the ends of that
    band, and the median of its pairs in the middle. All of [0, 1] where nobody measured it."""

    planned = True

    @abstractmethod
    def works(self, s: Scenario) -> str | tuple[str, ...] | None:
        """The kinds of work of the band; None: all of them."""

    def band(self, s: Scenario) -> Band | None:
        if not s.costs.computed:
            return band(None, self.works(s))
        kind, drafter = recorded(str(s.draft))
        target = None if is_config(str(s.model)) else s.model
        return band(kind, self.works(s), drafter=drafter or None, target=target)

    def nobodys(self, s: Scenario) -> bool:
        return self.band(s) is None

    def ends(self, s: Scenario) -> tuple[float, float, float]:
        """The low end of α, its middle, and the high end."""
        found = self.band(s)
        if found is None:
            low, high = NOT_KNOWN
            return low, (low + high) / 2, high
        warm, long = self.moved(s, found)
        middle = found.median * warm.middle * long.middle
        return min(found.low * warm.low * long.low, middle), middle, max(found.high, middle)

    def moved(self, s: Scenario, found: Band) -> tuple[Share, Share]:
        """What the temperature makes of it, and the context where it is known."""
        known = s.costs.computed and (s.context_tokens is not None or s.prompt_tokens is not None)
        long = at_context(found.kind, s.context) if known else UNCHANGED
        return at_temperature(found.kind, s.temperature), long

    def acceptance(self, s: Scenario) -> Acceptance:
        return IidAcceptance(self.ends(s)[1])

    def corners(self, s: Scenario) -> tuple[Acceptance, ...]:
        low, _, high = self.ends(s)
        return IidAcceptance(low), IidAcceptance(high)


class Workload(Recorded):
    name, label = "workload", "Only the kind of work"
    hint = "what others measured there"
    fields = ("workload",)

    def works(self, s: Scenario) -> tuple[str, ...]:
        return WORKLOADS[str(s.workload)]

    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        return {"workload": "code_or_json"}


class AlphaRange(Recorded):
    """A range of α that a person typed, with hard ends; an end that is not given is that of what
    others measured."""

    name, label = "range", "I don't know: a range of α"
    hint = "what others measured, or your own ends"
    fields = ("alpha_low", "alpha_high")
    optional = True

    def works(self, s: Scenario) -> str | None:
        return None if s.work == UNKNOWN else s.work

    def band(self, s: Scenario) -> Band | None:
        typed = s.alpha_low is not None and s.alpha_high is not None
        return None if typed else super().band(s)

    def nobodys(self, s: Scenario) -> bool:
        return (s.alpha_low is None or s.alpha_high is None) and super().nobodys(s)

    def ends(self, s: Scenario) -> tuple[float, float, float]:
        low, middle, high = super().ends(s)
        if s.alpha_low is None and s.alpha_high is None:
            return low, middle, high
        # One end may be typed beyond the other of the record.
        low = min(low, s.alpha_high or 0.0) if s.alpha_low is None else s.alpha_low
        high = max(high, low) if s.alpha_high is None else s.alpha_high
        return low, (low + high) / 2, high

    def said(self, acceptance: Acceptance, gamma: int) -> dict[str, Any]:
        return {}


ACCEPTANCE = _registered(
    AcceptedPerStep(), TokensPerStep(), Alpha(), AcceptedShare(), Survival(), Conditional(),
    Mixture(), Workload(), AlphaRange(),
)  # fmt: skip


# ── verification ─────────────────────────────────────────────────────────────────────────────


class VerifyForm(Form):
    """Says what a pass over γ+1 tokens costs, and with the draft's c the whole step."""

    @abstractmethod
    def cost(self, s: Scenario, c: float, c_hat: float, sigma: float) -> StepCost:
        """The step cost with these c and ĉ, and with σ where the form has none."""

    @abstractmethod
    def said(self, s: Scenario, cost: StepCost, gamma: int) -> dict[str, Any]:
        """The fields that say the same v in this form."""


class Slope(VerifyForm):
    name, label = "slope", "One v, on a line over γ"
    fields = ("sigma",)
    optional = True

    def cost(self, s: Scenario, c: float, c_hat: float, sigma: float) -> StepCost:
        return LinearStepCost(c, c_hat, sigma if s.sigma is None else s.sigma, s.overhead)

    def said(self, s: Scenario, cost: StepCost, gamma: int) -> dict[str, Any]:
        return {"sigma": round(cost.sigma_at(gamma), 6)}


class Curve(VerifyForm):
    name, label = "curve", "Measured: v at every γ"
    fields = ("verify_costs",)

    def cost(self, s: Scenario, c: float, c_hat: float, sigma: float) -> StepCost:
        return measured_step_cost(s.verify_costs, c, c_hat, s.overhead)

    def said(self, s: Scenario, cost: StepCost, gamma: int) -> dict[str, Any]:
        if s.verify_form == Slope.name and s.sigma in (None, type(s).model_fields["sigma"].default):
            return {"verify_costs": ()}  # nothing was measured: no number may look as if it were
        gammas = np.arange(1, min(cost.reach, max(gamma, CURVE_SHOWN)) + 1)
        return {"verify_costs": tuple(round(float(v), 4) for v in cost.verify(gammas))}


VERIFY = _registered(Slope(), Curve())


# ── draft cost ───────────────────────────────────────────────────────────────────────────────


class CostForm(Form):
    """Says what drafting costs. `computes`: fields that follow from the form's own and may not be
    given beside it; `alone`: fields that only this form reads."""

    computed: ClassVar[bool] = False
    computes: ClassVar[tuple[str, ...]] = ()
    alone: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def cs(self, s: Scenario) -> tuple[float, float]:
        """The ends of c; twice the same where it is known. InputError where it is computed."""

    @abstractmethod
    def said(self, s: Scenario, c: float) -> dict[str, Any]:
        """The fields that say c in this form; None, to be filled in, where they cannot."""


class Times(CostForm):
    name, label = "times", "Two times in ms"
    fields = ("target_ms", "draft_ms")

    def cs(self, s: Scenario) -> tuple[float, float]:
        c = self.given(s, "draft_ms") / self.given(s, "target_ms")
        return c, c

    def said(self, s: Scenario, c: float) -> dict[str, Any]:
        draft = None if s.target_ms is None else round(c * s.target_ms, 3)
        return {"target_ms": s.target_ms, "draft_ms": draft}


class Ratio(CostForm):
    name, label = "ratio", "c: draft ÷ target forward"
    fields = ("c",)

    def cs(self, s: Scenario) -> tuple[float, float]:
        return self.given(s, "c"), self.given(s, "c")

    def said(self, s: Scenario, c: float) -> dict[str, Any]:
        return {"c": round(c, 4)}


class Hardware(CostForm):
    name, label = "hardware", "From GPU, models and load"
    hint = "computed by the step-time model"
    fields = ("gpu", "model", "draft")
    computed = True
    computes = ("verify_form", "sigma", "verify_costs", "c_hat", "overhead", "prefill_share")
    alone = (
        "context_tokens", "weight_dtype", "kv_dtype", "draft_tensor_parallel",
        "draft_weight_dtype", "draft_layers", "draft_vocab", "drafted_per_step", "tree", "engine",
        "expert_parallel", "attention_dp",
        "concurrency", "request_rate", "prompt_tokens", "prefix_hit", "prefix_hit_speculative",
        "chunk_tokens", "arrivals", "decode_only", "prompt_spread",
    )  # fmt: skip

    def cs(self, s: Scenario) -> tuple[float, float]:
        raise InputError("c must be given beside times or as a ratio, got hardware: it is computed")

    def said(self, s: Scenario, c: float) -> dict[str, Any]:
        return {**EXAMPLE_PAIR, "target_ms": None}


class CostRange(CostForm):
    """c: 0.02 is T5-small (Leviathan et al. 2023, Table 4), about 0.23 a 1B draft for an 8B target
    on an H100, composed from measured kernel tables."""

    name, label = "range", "I don't know: a range of c"
    fields = ("c_low", "c_high")
    cited: ClassVar[Mapping[str, float]] = {"c_low": 0.02, "c_high": 0.25}

    def cs(self, s: Scenario) -> tuple[float, float]:
        return self.given(s, "c_low"), self.given(s, "c_high")

    def said(self, s: Scenario, c: float) -> dict[str, Any]:
        return dict(self.cited)


COST = _registered(Times(), Ratio(), Hardware(), CostRange())

# ── all of them ──────────────────────────────────────────────────────────────────────────────

FORMS: dict[str, Mapping[str, Form]] = {
    "acceptance_form": ACCEPTANCE,
    "draft_form": COST,
    "verify_form": VERIFY,
}
"""The forms of each half, by the field that names the one in use."""

SHARED = frozenset({"target_ms"})
"""The target's time serves every form of the draft cost."""

DEMANDS = ("demand_requests_per_second", "demand_tokens_per_second", "replicas")
"""What is to be served by the whole service; one of them says it."""

LOADS = ("batch", "concurrency", "request_rate")
"""Ways to say how many sequences decode together: one of them, the others follow."""


def _fields(field: str, *more: str) -> frozenset[str]:
    return frozenset({field, *more, *(f for form in FORMS[field].values() for f in form.fields)})


HALVES: dict[str, frozenset[str]] = {
    "acceptance": _fields("acceptance_form", "measured_gamma"),
    "draft cost": _fields("draft_form", "coverage", *Hardware.alone) - SHARED,
    "verification": _fields("verify_form"),
}
"""Fields of each half: giving one anew replaces the half's form."""
