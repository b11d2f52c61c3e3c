"""What a log answers: is my printed rate α, which γ, which overhead, is the drafter broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath.acceptance import IidAcceptance, MixtureAcceptance
from specmath.checks import InputError
from specmath.logs.diagnosis import diagnose
from specmath.logs.record import Reading
from specmath.logs.speed import Overhead, Speed, overhead_of, tokens_per_pass
from specmath.logs.taken import Shape, scenario_from, shape_of
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario
from specmath.sheets.tables import Column, Table
from specmath.theorems import alpha_from_accepted_share, alpha_from_tokens_per_step
from specmath.verdict import Action, verdict
from specmath.wording import faster, ratio, significant

__all__ = ["GAMMA", "Answer", "answer_all", "gamma_rows", "mixing", "printed_rate"]

State = Literal["good", "bad", "unknown", "info"]


@dataclass(frozen=True)
class Answer:
    """One question, its answer in a sentence, and the reasons."""

    question: str
    state: State
    headline: str
    because: tuple[str, ...] = ()


def answer_all(
    reading: Reading, base: Scenario, speed: Speed | None = None, shape: Shape | None = None
) -> tuple[Answer, ...]:
    """Every answer that this reading and the costs of `base` allow, in the order people ask."""
    if reading.tokens_per_step is None and reading.drafted is None and reading.alpha is None:
        return ()
    found = [printed_rate(reading)]
    prediction: Prediction | None = None
    try:
        prediction = predict(scenario_from(reading, base, shape))
    except InputError as error:
        found.append(Answer(GAMMA, "unknown", "Not from this log.", (str(error),)))
    else:
        found.append(_gamma(reading, prediction, shape))
    found.append(_overhead(reading, prediction, speed))
    if (judged := _drafter(reading)) is not None:
        found.append(judged)
    return tuple(found)


# ── is my printed X% α? ──────────────────────────────────────────────────────────────────────


def printed_rate(reading: Reading) -> Answer:
    """Accepted ÷ drafted beside α, and τ with the bonus token said."""
    question = "Is my printed acceptance rate α?"
    share = _share(reading)
    because = []
    if reading.tokens_per_step is not None:
        because.append(
            f"Tokens per step {significant(reading.tokens_per_step)}, the bonus or correction "
            f"token included; {significant(reading.tokens_per_step - 1)} accepted drafts without it"
        )
    if reading.alpha is None:
        said = "" if share is None else f" from {share:.1%} accepted ÷ drafted"
        why = "a token tree has no single α" if reading.tree else "α follows once γ is given"
        return Answer(question, "unknown", f"Unknown{said}: {why}.", tuple(because))
    inverted = _inverted(reading, share)
    if inverted is not None:
        because.append(
            f"Inverted from the share alone, as if every position were alike: α = "
            f"{significant(inverted)} at γ={reading.gamma}"
        )
    low, high = reading.alpha_interval or (None, None)
    because.append(f"α obtained {_how(reading.alpha_basis)}")
    if low is not None and high is not None:
        because.append(
            f"α from {significant(low)} to {significant(high)} ({reading.interval_basis})"
        )
    alpha = significant(reading.alpha)
    if share is None:
        return Answer(question, "info", f"α ≈ {alpha}; no rate is printed here.", tuple(because))
    if reading.alpha_basis == "per-token rate":
        text = f"Nearly: this engine prints a per-token rate, α ≈ {alpha}."
        return Answer(question, "info", text, tuple(because))
    if abs(share - reading.alpha) < 0.005:
        text = f"Here yes: accepted ÷ drafted is {share:.1%} and α is {alpha}."
        return Answer(question, "good", text, tuple(because))
    text = f"No: {share:.1%} is accepted ÷ drafted. α is {alpha}."
    return Answer(question, "info", text, tuple(because))


def _how(basis: str | None) -> str:
    plain = {
        "per-position": "from the per-position rates: accepted ÷ (accepted + rejected)",
        "histogram": "from the histogram: accepted ÷ (accepted + rejected)",
        "per-token rate": "from the printed per-token rate",
    }
    return plain.get(basis or "", f"by: {basis}")


def _share(reading: Reading) -> float | None:
    if not reading.drafted or reading.accepted is None:
        return None
    return reading.accepted / reading.drafted


def _inverted(reading: Reading, share: float | None) -> float | None:
    full = reading.drafted_per_step is None or reading.drafted_per_step == reading.gamma
    if share is None or not reading.gamma or not full or reading.alpha_basis == "inverted share":
        return None
    return float(alpha_from_accepted_share(share, reading.gamma))


# ── raise or lower γ? ────────────────────────────────────────────────────────────────────────

GAMMA = "Raise or lower γ?"

COST_OPEN = "Acceptance is known from the log; time both models, or give the plain run's ITL."

_STATES: dict[Action, State] = {
    "use": "good", "skip": "bad", "measure": "unknown", "lower": "info", "raise": "info",
}  # fmt: skip

NO_OTHER_GAMMA: dict[Shape, str] = {
    "chain": "",
    "tree": "a token tree: another size grows another tree, so its rates say nothing of it",
    "parallel": "all positions come from one pass, and its training fits one block length: a "
    "shorter block is another draft",
    "stops": "drafts stop early (confidence, or nothing more found): a position that was not "
    "tried counts as lost, so the rates understate the text at that position",
}


def _gamma(reading: Reading, prediction: Prediction, stated: Shape | None) -> Answer:
    shape, gamma = shape_of(reading, stated), prediction.scenario.gamma
    here = _estimate(reading, prediction)
    if shape != "chain":
        text = f"Only γ={gamma} can be judged from this log: {here}. Run the other γ and review."
        return Answer(GAMMA, "unknown", text, (f"Refused for {NO_OTHER_GAMMA[shape]}",))
    found = verdict(prediction)
    because = [found.reason, COST_OPEN if found.action == "measure" else found.flips]
    if found.gamma > gamma:
        because.append(
            f"Extrapolated: the log ends at γ={gamma}; each further token is taken to be accepted "
            "as the last one was. Go up one or two at a time and review"
        )
    elif 0 < found.gamma < gamma and reading.survival:
        because.append(f"Read off the log: the rates measured at γ={gamma}, cut at γ={found.gamma}")
    if not reading.survival:
        because.append(
            "This log has no per-position rates: every position is taken to be accepted alike, "
            "and later ones seldom are, so a larger γ is worth less than it looks"
        )
    if (mixed := mixing(reading)) is not None and found.gamma != gamma:
        because.append(mixed)
    if (share := _share_drafted(reading, prediction)) < 1:
        because.append(f"Only {share:.0%} of the steps had a draft: over all steps {here}")
    said = found.headline
    if found.action == "use":
        said = f"Keep γ={gamma}: {faster(found.speedup)}."
    elif found.action == "skip":
        said = f"Leave it off: γ={gamma} is {faster(prediction.speedup.value)}."
    return Answer(GAMMA, _STATES[found.action], said, tuple(part for part in because if part))


def _share_drafted(reading: Reading, prediction: Prediction) -> float:
    """κ, where the prediction does not count it already (a served pair's does)."""
    return 1.0 if prediction.scenario.draft_form == "hardware" else tokens_per_pass(reading)[1]


def _estimate(reading: Reading, prediction: Prediction) -> str:
    """The predicted speedup over all steps, (κτ+1−κ)/(κs+1−κ)."""
    share, tokens = _share_drafted(reading, prediction), prediction.tokens_per_step

    def overall(speed: float) -> float:
        return (share * tokens + 1.0 - share) / (share * tokens / speed + 1.0 - share)

    speed = prediction.speedup
    if speed.low is None or speed.high is None:
        return faster(overall(speed.value))
    return f"{ratio(overall(speed.low))} to {ratio(overall(speed.high))} ({speed.basis})"


def mixing(reading: Reading) -> str | None:
    """How far mixed requests move what a shorter γ would give; None where no mix is seen.

    Two signs: requests that differ (then the size is computed, taking each request as i.i.d.),
    and conditional rates that rise with position, which one kind of text does not do.
    """
    requests, gamma = reading.requests, reading.gamma
    if requests is not None and requests.measure == "tokens_per_step" and gamma and gamma > 1:
        tokens = np.clip(np.quantile(requests.values, np.arange(0.05, 1, 0.1)), 1, gamma + 1)
        alphas = alpha_from_tokens_per_step(tokens, gamma)
        mixture = MixtureAcceptance([1.0] * len(alphas), [IidAcceptance(float(a)) for a in alphas])
        shorter = np.arange(1, gamma)
        pooled = np.cumsum(mixture.survival(gamma))[shorter]
        gain = float(np.max(np.asarray(mixture.tokens_per_step(shorter)) / pooled)) - 1.0
        if gain > 0.01:
            return (
                f"Requests are mixed (tokens per step {significant(requests.p10)} to "
                f"{significant(requests.p90)}): a smaller γ does up to {gain:.0%} better than the "
                "cut rates say"
            )
    rates = reading.conditional or ()
    if len(rates) > 1 and max(rates[1:]) > rates[0] + 0.03:
        return (
            "Later tokens are accepted more often than the first: easy and hard text are mixed, "
            "and a smaller γ does somewhat better than the cut rates say"
        )
    return None


def gamma_rows(reading: Reading, prediction: Prediction, stated: Shape | None = None) -> Table:
    """Over γ: where each row comes from, tokens per step, step cost, speedup with its ends.

    Up to γ+4 for a chain; only the γ that ran for any other shape.
    """
    curve, ran = prediction.curve, prediction.scenario.gamma
    chain = shape_of(reading, stated) == "chain"
    last = min(ran + 4, len(curve.gamma) - 1)
    rows = list(range(last + 1)) if chain else [ran]
    low = curve.walltime_improvement if curve.low is None else curve.low
    high = curve.walltime_improvement if curve.high is None else curve.high

    def basis(gamma: int) -> str:
        if gamma == 0:
            return "plain decoding"
        if gamma == ran:
            return "measured"
        if not reading.survival:
            return "as if i.i.d."
        return "rates cut" if gamma < ran else "extrapolated"

    return Table(
        "What this log says of each γ",
        "log_gamma",
        (
            Column("gamma", "γ", "", "Drafted tokens a step", tuple(rows), format="0"),
            Column("basis", "From", "", "Where the row comes from", tuple(map(basis, rows))),
            _column("tokens_per_step", "Tokens per step", "", curve.tokens_per_step[rows]),
            _column("step_cost", "Step cost", "plain steps", curve.step_cost[rows]),
            _column("walltime_improvement", "Speedup", "×", curve.walltime_improvement[rows]),
            _column("walltime_improvement_low", "Speedup, low", "×", low[rows]),
            _column("walltime_improvement_high", "Speedup, high", "×", high[rows]),
        ),
    )


def _column(name: str, label: str, unit: str, values: np.ndarray) -> Column:
    return Column(name, label, unit, label, tuple(values.tolist()), format="0.00")


# ── which overhead eats it, and can it ever pay? ─────────────────────────────────────────────

OVERHEAD = "Which overhead eats the gain?"

REST = (
    "the rest is what neither covers: scheduling, rejection sampling, host gaps between draft and "
    "target, a draft that runs eagerly, or a verification dearer than the scenario says"
)


def _overhead(reading: Reading, prediction: Prediction | None, speed: Speed | None) -> Answer:
    if speed is None:
        need = tokens_per_pass(reading)[0]
        text = "Give the plain run beside it: its tokens per second or its ITL."
        if need is not None:
            text += f" It pays while a decode pass costs less than {significant(need)} plain steps."
        return Answer(OVERHEAD, "unknown", text)
    seen = f"Observed: {faster(speed.speedup)} ({speed.basis})"
    if prediction is None:
        return Answer(OVERHEAD, "unknown", f"{seen}.")
    try:
        found = overhead_of(reading, prediction, speed)
    except InputError as error:
        return Answer(OVERHEAD, "unknown", f"{seen}.", (str(error),))
    return _split(reading, prediction, found, seen)


def _split(reading: Reading, p: Prediction, found: Overhead, seen: str) -> Answer:
    where = (
        f"expected on {p.scenario.gpu}"
        if p.scenario.draft_form == "hardware"
        else "expected by the scenario's c and verification cost"
    )
    because = [
        seen,
        f"{significant(found.tokens)} tokens a pass ÷ {ratio(found.speed.speedup)} = "
        f"{significant(found.implied)} plain steps",
        f"verification {significant(found.verification)} and drafting with overhead "
        f"{significant(found.drafting)} {where}; unexplained {_signed(found.rest)}" + _range(found),
    ]
    if found.drafting_measured is not None:
        because.append(
            f"the engine's own drafting time is {significant(found.drafting_measured)} plain steps"
        )
    if found.rest_low > 0.05:
        because.append(REST)
    elif found.rest_high < -0.05:
        because.append("cheaper than the scenario says: its c or verification cost is too high")
    else:
        because.append("within what the scenario leaves unknown: nothing is left to explain")
    reach = _reachable(reading, found)
    state: State = "good" if found.speed.speedup > 1 else "bad"
    headline = f"A pass costs {significant(found.implied)} plain steps. {reach}"
    return Answer(OVERHEAD, state, headline, tuple(because))


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{significant(abs(value))}"


def _range(found: Overhead) -> str:
    if found.rest_high - found.rest_low < 1e-9:
        return " plain steps"
    return (
        f" ({_signed(found.rest_low)} to {_signed(found.rest_high)} over what the scenario "
        "leaves unknown) plain steps"
    )


def _reachable(reading: Reading, found: Overhead) -> str:
    """Whether any γ breaks even with this overhead in every step."""
    if found.ceiling <= 1:
        return (
            f"Break-even is out of reach at γ={reading.gamma}: it would not pay if every drafted "
            "token were accepted. Cut the overhead, or leave it off."
        )
    if found.best_speedup <= 1:
        return (
            "No γ breaks even with this overhead and this acceptance; the nearest is "
            f"γ={found.best_gamma}, {faster(found.best_speedup)}. Every drafted token accepted at "
            f"γ={reading.gamma} would give {ratio(found.ceiling)}."
        )
    if found.speed.speedup <= 1:
        return f"Break-even is reachable: γ={found.best_gamma} gives {faster(found.best_speedup)}."
    if found.best_gamma != reading.gamma and found.best_speedup > 1.03 * found.speed.speedup:
        return f"It pays; γ={found.best_gamma} would give {faster(found.best_speedup)}."
    return "It pays."


# ── is the drafter broken? ───────────────────────────────────────────────────────────────────

DRAFTER = "Is the drafter broken, or the text hard?"

_JUDGED: dict[str, tuple[State, str]] = {
    "sound": ("good", "The drafter works"),
    "broken": ("bad", "The drafter looks broken"),
    "later positions": ("info", "Sound at the first token, poor after it"),
    "hard text": ("info", "The drafter works; part of the text is hard"),
    "weak": ("bad", "A weak drafter for this text"),
    "too little": ("unknown", "Too little to tell"),
}


def _drafter(reading: Reading) -> Answer | None:
    found = diagnose(reading)
    if found is None:
        return None
    state, text = _JUDGED[found.finding]
    return Answer(DRAFTER, state, f"{text}: {found.seen}.", (found.reason,))
