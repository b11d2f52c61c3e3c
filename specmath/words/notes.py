"""What a reader must know beside a prediction: its basis, its assumptions, known misses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specmath import hardware
from specmath.acceptance import (
    Acceptance,
    CoveredAcceptance,
    FallingAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
    StoppedAcceptance,
)
from specmath.drafters.host import host_of, next_choice_share
from specmath.estimate import Basis, Unknown
from specmath.evidence import FIRST_TOKEN
from specmath.numbers import count
from specmath.predict import Prediction
from specmath.replay import ReplayAcceptance
from specmath.scenario import SPECS, Scenario
from specmath.scenario.server import Past, error_of, past
from specmath.serving.memory import Memory, largest_batch
from specmath.serving.pair import ServedPair
from specmath.trees import TreeAcceptance

__all__ = [
    "acceptance_notes", "assumed", "basis_words", "known_biases", "load_words", "notes",
    "prediction_row",
]  # fmt: skip

NO_ERROR_BAR = "no error bar yet"
NOT_MEASURED = "α, which nobody measured for this draft and work"

_SYMBOLS = {
    "alpha": "α",
    "c": "c",
    "sigma": "σ",
    "position": "plain steps a verified position",
    "tokens_per_step": "tokens per step",
    "past_measured": "fall of acceptance a position past those measured",
    "past_depth": "fall of acceptance a position past the trained depth",
}
_PARTS = {
    "excess": "what speculation adds to a step",
    "plain_step": "plain step",
    "prompts": "other requests' prompts",
}

BEYOND_COMPUTE_BOUND = 1.5
"""A pass of n tokens that costs more than this times n plain steps is not a cost in plain steps."""

_ASSUMABLE: dict[bool, tuple[str, ...]] = {
    False: ("sigma", "overhead", "c_hat", "batch", "tensor_parallel", "usd_per_hour"),
    True: ("batch", "tensor_parallel"),
}
"""Fields whose default is an assumption, without and with the step-time model."""


# ── why this interval ────────────────────────────────────────────────────────────────────────


def basis_words(basis: Basis) -> str:
    """What the interval of an estimate spans, or that it has none."""
    if not basis.over:
        return basis.source or NO_ERROR_BAR
    nobodys = basis.kind == "assumed"
    return ", ".join(
        _nobodys(u) if nobodys and u.field == "alpha" else _open(u) for u in basis.over
    )


def _nobodys(alpha: Unknown) -> str:
    return f"{NOT_MEASURED}, from {_end(alpha.low)} to {_end(alpha.high)}"


def _open(unknown: Unknown) -> str:
    if unknown.field == "c_hat":
        return "ĉ from 0 to c"
    if unknown.field == "besides":
        return (
            f"verification and overhead, which you did not give, from {unknown.low:.3g} to "
            f"{unknown.high:.3g} plain steps a step"
        )
    if unknown.level is None:
        symbol = _SYMBOLS.get(unknown.field, unknown.field.replace("_", " "))
        source = f" [{unknown.source}]" if unknown.source else ""
        return f"{symbol} from {_end(unknown.low)} to {_end(unknown.high)}{source}"
    return f"{_PARTS[unknown.field]} −{1 - unknown.low:.0%} to +{unknown.high - 1:.0%}"


def _end(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# ── which load ───────────────────────────────────────────────────────────────────────────────


NOT_LOST = 0.25
"""Share of what tokens gain that may go into waiting for the first one before it is said."""


def load_words(p: Prediction) -> str:
    """The loop of the answer, and what other requests' prompts take of the time; empty where there
    are no others, or the step cost was given."""
    load, ours = p.endpoint.load, p.speculation
    if load is None or (p.scenario.in_flight == 1 and load.requests.loop != "open"):
        return ""
    r = load.requests
    loop = {
        "held": f"A batch held at {r.batch or 0:,}",
        "closed": f"Closed loop of {r.concurrency or 0:,} requests in flight",
        "wave": f"One wave of {r.concurrency or 0:,} requests",
        "open": f"Open loop of {r.request_rate or 0:g} requests a second",
    }[r.loop]
    before, after = ours.prefill_share(0), ours.prefill_share(p.gamma)
    if not load.carries(p.gamma):
        return (
            f"{loop}: at γ={p.gamma} one replica carries {load.most_requests[p.gamma]:.3g} a "
            "second, so that the queue grows without end."
        )
    if r.decode_only:
        return f"{loop}; prompts are read by other workers."
    if p.scenario.prompt_tokens is None and not ours.waiting:
        return f"{loop}: no other request's prompt is in the way."
    length = (
        f"{r.prompt_tokens:,} tokens" if p.scenario.prompt_tokens is not None else "unknown length"
    )
    return (
        f"{loop}; prompts of {length}: those of the other requests take {before:.0%} of the time "
        f"per token without speculation and {after:.0%} with it."
        f"{_waiting_words(p)}"
    )


def _waiting_words(p: Prediction) -> str:
    """Where a closed loop takes in waiting for the first token what it gives in writing: steps
    cannot read prompts for so many, and fewer requests share the faster steps. Else empty."""
    first, whole = p.first_token, p.whole_request
    if first is None or whole is None or p.gamma == 0 or p.scenario.concurrency is None:
        return ""
    lost = first[1].value - first[0].value
    saved = lost + whole[0].value - whole[1].value
    if lost <= 0 or lost < NOT_LOST * saved:
        return ""
    return (
        f" The first token then takes {first[1].value:.3g} s instead of {first[0].value:.3g} s, "
        f"and a whole request {whole[1].value:.3g} s instead of {whole[0].value:.3g} s."
    )


# ── what nobody gave ─────────────────────────────────────────────────────────────────────────


def assumed(p: Prediction) -> tuple[str, ...]:
    """The fields that count and that nobody gave: at their default, or open."""
    s, fields = p.scenario, Scenario.model_fields
    names = set(_ASSUMABLE[s.costs.computed])
    if "sigma" not in s.verifies.fields:
        names.discard("sigma")
    besides = [u for u in p.endpoint.unknown if u.field == "besides"]
    if besides:
        names -= {"sigma", "overhead"}
    found = [n for n in fields if n in names and getattr(s, n) == fields[n].default]
    if s.concurrency is not None or s.request_rate is not None:
        found = [n for n in found if n != "batch"]
    words = [
        f"Verification and overhead {u.low:g} to {u.high:g} plain steps a step, open"
        for u in besides
    ]
    words += [f"{SPECS[n].label} {getattr(s, n):g} {SPECS[n].unit}".rstrip() for n in found]
    if p.endpoint.pair and s.context_tokens is None and s.prompt_tokens is None:
        words.append(f"{SPECS['context_tokens'].label} {s.context:,} tokens")
    if p.speculation.coverage < 1 and s.coverage is None:
        words.append(f"{SPECS['coverage'].label} {p.speculation.coverage:g}")
    price = s.usd_per_hour
    if p.endpoint.pair and price is not None and price == hardware.find(str(s.gpu)).usd_per_hour:
        words.append(f"{SPECS['usd_per_hour'].label} {price:g} USD, taken for this GPU")
    return tuple(words)


# ── how far it can be trusted ────────────────────────────────────────────────────────────────


def notes(p: Prediction) -> tuple[str, ...]:
    """Where the answer leaves what was measured, and what is known to be off."""
    s, gamma = p.scenario, p.gamma
    found = list(acceptance_notes(p.speculation.acceptance, gamma))
    fallen = _fallen(p)
    told = fallen is not None and gamma > fallen.depth
    if s.accepts.measured and gamma not in (0, s.measured_gamma) and not told:
        found.append(
            f"Acceptance was measured at γ={s.measured_gamma}; at γ={gamma} it assumes that "
            "every position is accepted alike (i.i.d.). Real drafts lose acceptance with position: "
            "give per-position rates if your server prints them."
        )
    if s.verify_costs and p.speculation.reach < s.max_gamma:
        reach = p.speculation.reach
        found.append(f"Verification was measured up to γ={reach}: no larger γ is considered.")
    beyond = [n for n, v in enumerate(s.verify_costs, 2) if v > n * BEYOND_COMPUTE_BOUND]
    for n in beyond[:1]:
        found.append(
            f"Verifying {n} tokens is given as {s.verify_costs[n - 2]:g} plain steps, more than "
            f"{n} steps of one token each: give each time divided by that of a plain step."
        )
    if (load := load_words(p)) and (s.in_flight > 1 or s.request_rate is not None):
        found.append(load)
    if s.ttft_ms is None and p.first_token is not None and p.endpoint.load is not None:
        low, middle, high = FIRST_TOKEN
        found.append(
            "Time to first token: of a request that meets no burst. Published servers took "
            f"{low:g} to {high:g} times as long, {middle:g} in the middle: give yours."
        )
    if p.endpoint.pair is not None:
        pair = p.endpoint.pair
        found += [*_draft_notes(p), *_length_notes(s, pair), *_pair_notes(pair, gamma)]
    return tuple(found)


def acceptance_notes(acceptance: Acceptance, gamma: int) -> tuple[str, ...]:
    """Where an acceptance at γ is not what was measured; empty if nowhere."""
    return tuple(dict.fromkeys(_acceptance_notes(acceptance, gamma)))


def _acceptance_notes(acceptance: Acceptance, gamma: int) -> Iterable[str]:
    if isinstance(acceptance, CoveredAcceptance):
        yield from _acceptance_notes(acceptance.part, gamma)
    elif isinstance(acceptance, MixtureAcceptance):
        for part in acceptance.parts:
            yield from _acceptance_notes(part, gamma)
    elif isinstance(acceptance, ReplayAcceptance) and gamma >= (shortest := acceptance.shortest):
        yield f"γ={gamma} reaches past the end of the shortest text ({shortest} tokens)."
    elif isinstance(acceptance, PerPositionAcceptance):
        measured = len(acceptance.rates)
        if gamma > measured:
            yield (
                f"Extrapolated: γ={gamma} lies beyond the {measured} measured positions; each "
                f"further token is taken to be accepted at the last measured conditional rate, "
                f"{acceptance.conditional[-1]:.3g}."
            )
        elif 0 < gamma < measured:
            yield (
                f"Rates measured at γ={measured}, cut to γ={gamma}: exact if all requests are "
                "alike; a mixture of easy and hard requests does somewhat better than shown."
            )


def _length_notes(s: Scenario, pair: ServedPair) -> Iterable[str]:
    """Requests or contexts longer than a model is made for."""
    request = 0 if s.prompt_tokens is None else s.prompt_tokens + s.output_tokens
    longest = max(request, pair.context_tokens)
    told = f"A request of {longest:,} tokens" if longest == request else f"Context {longest:,}"
    for model in filter(None, (pair.drafter.own_model, pair.target)):
        if model.max_context is not None and longest > model.max_context:
            yield (
                f"{told} is more than the {model.max_context:,} tokens {model.name} is made for: "
                "what it drafts or writes there is not to be trusted."
            )


def _pair_notes(pair: ServedPair, gamma: int) -> Iterable[str]:
    """What the reader must know of a served pair: memory, step times, overheads, coverage."""
    fits = largest_batch(pair, gamma)
    if fits == 0:
        yield f"Memory, estimated: {Memory.of(pair).misfit(pair.context_tokens, gamma)}."
    elif pair.batch > fits:
        yield (
            f"Batch {pair.batch:,} does not fit: memory holds {fits:,} sequences of "
            f"{pair.context_tokens:,} tokens beside both models."
        )
    yield from known_biases(pair)
    yield _step_time_note(pair)
    yield f"Engine overhead: {pair.engine.source}."
    yield from _host_notes(pair)
    gpu = pair.place.device
    if gpu.is_custom:
        yield (
            f"GPU of your own numbers: fp8 is taken as twice the bf16 rate, its interconnect as "
            f"{gpu.interconnect / 1e9:,.0f} GB/s ({gpu.interconnect_kind}), and until you give a "
            f"price {gpu.usd_per_hour:.2f} USD an hour."
        )
    if pair.share < 1:
        yield (
            f"A draft is there in {pair.share:.0%} of the steps; the acceptance given is taken "
            "as that of the steps with a draft."
        )
    yield from pair.target.notes


def _host_notes(pair: ServedPair) -> Iterable[str]:
    """Which measured steps set what this kind of drafter costs the engine, or that none did."""
    found, label = host_of(pair.engine.seen_as, pair.drafter.kind), pair.drafter.label
    if found is None or pair.hosted == pair.engine:
        return
    if not found.rows:
        yield (
            f"{label}: what it costs this engine besides its forwards was not measured; "
            f"{found.source}. Measure one run to replace it."
        )
        return
    yield (
        f"{label}: its cost besides forwards is set by {found.rows} measured steps "
        f"({found.source})."
    )


def _draft_notes(p: Prediction) -> Iterable[str]:
    """What the drafts are: a tree beside a chain, stops, positions past the trained depth."""
    s, chain = p.scenario, p.chain
    if s.tree is not None:
        beside = "" if chain is None else f", a chain of as many tokens {chain.speedup.value:.2f}×"
        yield (
            f"Tree {s.tree}: {p.speedup.value:.2f}×{beside}. γ counts its nodes; the next choice "
            f"of a node is taken to catch {next_choice_share():.0%} of what those before it missed "
            "(fitted to trees of EAGLE-3 heads), and the tree's attention mask to be free."
        )
    if s.drafted_per_step is not None:
        counted = s.accepts.measured or s.acceptance_form == "survival"
        known = (
            "the acceptance given was counted with them"
            if counted
            else "whether a stop foresees a rejection is not known: the interval has both ends"
        )
        yield f"Drafts stop early, at {s.drafted_per_step:g} tokens in the mean: {known}."
    fallen = _fallen(p)
    if fallen is not None and p.gamma > fallen.depth:
        where, source = _FALLEN[fallen.field]
        yield (
            f"{where} {count(fallen.depth, 'token')}: each position past that is taken as accepted "
            f"{fallen.middle:.1%} less often than the one before "
            f"({source.format(rows=fallen.rows)}). Give per-position rates to replace it."
        )


_FALLEN = {
    "past_depth": ("The module was trained for", "log windows of two servers"),
    "past_measured": (
        "Acceptance was measured with drafts of about",
        "{rows} drafters of its kind and texts at several γ",
    ),
}
"""Past what acceptance falls, and who says so."""


def _fallen(p: Prediction) -> Past | None:
    """How acceptance falls with the position, where it is taken to."""
    pair = p.endpoint.pair
    falls = pair is not None and isinstance(_chain_of(p), FallingAcceptance)
    return past(p.scenario, pair) if pair is not None and falls else None


def _chain_of(p: Prediction) -> Acceptance:
    found = p.speculation.drafted
    if isinstance(found, TreeAcceptance):
        found = found.chain
    return found.part if isinstance(found, StoppedAcceptance) else found


def known_biases(pair: ServedPair) -> list[str]:
    """Misses that were measured for this kind of pair (docs/steptime.md, data/drafters.toml)."""
    found = []
    host = host_of(pair.engine.seen_as, pair.drafter.kind)
    if host is not None and host.error is not None and pair.hosted != pair.engine:
        low, high = host.error
        found.append(
            f"{pair.drafter.label}: on a server whose rows set none of its host cost, steps took "
            f"{low:.2g} to {high:.2g} times those computed. One run of yours settles it."
        )
    latent = any(layer.attention.kind == "mla" for layer in pair.target.layers)
    if latent and pair.target.is_moe and pair.place.stored_dtype == "fp8" and pair.batch < 128:
        found.append(
            "Computed too fast: plain steps of a mixture with latent attention in fp8 "
            "(DeepSeek-V3 on 8 H200) took up to 37% less time here than in the reference at batch "
            "1, 23% in the mean, 13% at batch 128. Read times and prices as a sketch."
        )
    return found


def _step_time_note(pair: ServedPair) -> str:
    """Where the step times come from and how wrong they may be."""
    basis = pair.place.calibration
    mean = basis.expected_moe_error if pair.target.is_moe else basis.expected_error
    low, high = error_of(pair).plain
    error = "" if mean is None else f", mean error of a step {mean:.0%} with the model held out"
    return (
        f"Step times: computed, {basis.basis}{error}; the reference itself is 6–11% off "
        "independent measurements. Times and prices therefore take the plain step as "
        f"{1 - low:.0%} shorter to {high - 1:.0%} longer. Calibrate on your own steps, or give the "
        "plain time that you measured, to replace it."
    )


# ── a prediction with its words ──────────────────────────────────────────────────────────────


def prediction_row(p: Prediction) -> dict[str, Any]:
    """The numbers of a prediction by name, with what a reader must know beside them."""
    return p.to_dict() | {
        "error_bar": basis_words(p.speedup.basis),
        "assumed": list(assumed(p)),
        "notes": list(notes(p)),
    }
