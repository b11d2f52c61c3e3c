"""Which overhead eats the gain, and can speculation ever pay with it? In words."""

from __future__ import annotations

from specmath.checks import InputError
from specmath.logs.answer import Answer, State
from specmath.logs.curve import LogCurve, log_curve
from specmath.logs.record import Reading
from specmath.logs.speed import Overhead, Speed, overhead_of, tokens_per_pass
from specmath.logs.taken import Shape, shape_of
from specmath.predict import Prediction
from specmath.scenario.faults import in_words
from specmath.wording import faster, ratio, significant

__all__ = ["overhead_answer"]

OVERHEAD = "Which overhead eats the gain?"

REST = (
    "the rest is what neither covers: scheduling, rejection sampling, host gaps between draft and "
    "target, a draft that runs eagerly, or a verification dearer than the scenario says"
)


def overhead_answer(
    reading: Reading,
    prediction: Prediction | None,
    speed: Speed | None,
    stated: Shape | None = None,
) -> Answer:
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
        return Answer(OVERHEAD, "unknown", f"{seen}.", (in_words(str(error)),))
    return _split(reading, prediction, found, seen, shape_of(reading, stated))


def _split(reading: Reading, p: Prediction, found: Overhead, seen: str, shape: Shape) -> Answer:
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
    curve = log_curve(reading, p.scenario, found.speed)
    reach = _reachable(curve, found, chain=shape == "chain")
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


def _reachable(curve: LogCurve, found: Overhead, *, chain: bool) -> str:
    """Whether this γ, or for a chain any γ, breaks even at the costs that the run showed."""
    ran = curve.ran
    if found.speed.speedup > 1:
        return "It pays."
    better = curve.decisions()[0].gamma if chain else 0
    if better and curve.high[better] > 1:
        low, high = float(curve.low[better]), float(curve.high[better])
        gives = faster(float(curve.speedup[better]))
        if high - low > 0.01:
            gives = f"{ratio(low)} to {ratio(high)} with what is unknown"
        return f"Break-even may be reachable: γ={better} should give {gives}."
    if found.ceiling <= 1:
        return (
            f"Break-even is out of reach at γ={ran}: it would not pay if every drafted "
            "token were accepted. Cut the overhead, or leave it off."
        )
    all_kept = f"Every drafted token accepted at γ={ran} would give {ratio(found.ceiling)}."
    if not chain:
        return f"It does not pay at γ={ran}. {all_kept}"
    return (
        "No γ breaks even with this overhead and this acceptance; the nearest is "
        f"γ={found.best_gamma}, {faster(found.best_speedup)}. {all_kept}"
    )
