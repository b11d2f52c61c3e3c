"""Raise or lower γ? What the log says of each γ, and where it may not be asked."""

from __future__ import annotations

import numpy as np

from specmath.acceptance import IidAcceptance, MixtureAcceptance
from specmath.logs.answer import Answer, State
from specmath.logs.curve import LogCurve, log_curve
from specmath.logs.record import Reading
from specmath.logs.speed import Speed
from specmath.logs.taken import Shape, shape_of
from specmath.predict import Prediction
from specmath.sheets.tables import Column, Table
from specmath.theorems import alpha_from_tokens_per_step
from specmath.verdict import Action
from specmath.wording import faster, ratio, significant

__all__ = ["GAMMA", "gamma_answer", "gamma_rows", "mixing"]

GAMMA = "Raise or lower γ?"

COST_OPEN = "Acceptance is known from the log; time both models, or give the plain run's ITL"
COST_SPLIT = (
    "The plain run tells the whole pass; time both models to know what a further token costs"
)

SAME = 0.005
"""Ends closer than this share are one number on screen."""

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


def gamma_answer(
    reading: Reading, prediction: Prediction, stated: Shape | None, speed: Speed | None = None
) -> Answer:
    """Which γ the log advises; at the γ that ran, what a plain run beside it showed."""
    shape, curve = shape_of(reading, stated), log_curve(reading, prediction.scenario, speed)
    if curve.ran is None:
        return _without_gamma(curve)
    if shape != "chain":
        return _only(curve, curve.ran, shape)
    action, gamma = _decided(curve)
    because = [_why(curve, curve.ran, gamma), *_costs(curve, curve.ran)]
    if action == "measure":
        wanted = COST_OPEN if curve.observed is None else COST_SPLIT
        because = [_apart(curve, curve.ran), *_costs(curve, curve.ran), wanted]
    elif curve.unknown and not (curve.observed and gamma == curve.ran):
        because.append(f"γ={gamma}: {_span(curve, gamma)}")
    if gamma > curve.ran:
        because.append(
            f"Extrapolated: the log ends at γ={curve.ran}; each further token is taken to be "
            "accepted as the last one was. Go up one or two at a time and review"
        )
    elif 0 < gamma < curve.ran and reading.survival:
        because.append(f"Read off the log: the rates measured at γ={curve.ran}, cut at γ={gamma}")
    if not reading.survival:
        because.append(
            "This log has no per-position rates: every position is taken to be accepted alike, "
            "and later ones seldom are, so a larger γ is worth less than it looks"
        )
    if (mixed := mixing(reading)) is not None and gamma != curve.ran:
        because.append(mixed)
    if curve.share < 1:
        share = f"{curve.share:.0%} of the steps had a draft"
        because.append(f"Only {share}: over all steps {_here(curve, curve.ran)}")
    return Answer(GAMMA, _STATES[action], _headline(curve, curve.ran, action, gamma), (*because,))


def _only(curve: LogCurve, ran: int, shape: Shape) -> Answer:
    """A draft of which no other γ follows: what is known of the γ that ran."""
    refused = f"Refused for {NO_OTHER_GAMMA[shape]}"
    here = _here(curve, ran)
    if curve.observed is None:
        text = f"Only γ={ran} can be judged from this log: {here}. Run the other γ and review."
        return Answer(GAMMA, "unknown", text, (refused,))
    said = f"Only γ={ran} can be judged from this log: {here}."
    if curve.speedup[ran] < 1:
        return Answer(
            GAMMA, "bad", f"{said} Leave it off, or run another γ and review.", (refused,)
        )
    return Answer(GAMMA, "good", said, (refused,))


def _without_gamma(curve: LogCurve) -> Answer:
    """α alone, as a per-token rate: no γ ran that could be raised or lowered."""
    action, gamma = _decided(curve)
    alike = "Every position is taken to be accepted alike, and later ones seldom are"
    if action == "measure":
        text = "The γ that ran is not printed: give it. Which γ is best depends on the draft cost."
        return Answer(GAMMA, "unknown", text, (_apart(curve, None), alike))
    if action == "skip":
        text = "The γ that ran is not printed: give it. By α alone no γ beats plain decoding."
        return Answer(GAMMA, "unknown", text, (alike,))
    text = (
        f"The γ that ran is not printed: give it. By α alone γ={gamma} would do best: "
        f"{_span(curve, gamma)}."
    )
    return Answer(GAMMA, "unknown", text, (alike,))


def _decided(curve: LogCurve) -> tuple[Action, int]:
    """The decision that all ends of an unknown share, else to measure first.

    The smallest γ that the ends name risks the least. The error of computed steps alone asks for
    a measurement only where it leaves open whether it pays at all.
    """
    central, each = curve.decisions()
    ran = curve.ran or 0
    agree = len({decision.action for decision in each}) == 1
    if curve.inputs_unknown:
        if agree:
            return each[0].action, min(decision.gamma for decision in each)
        return "measure", ran
    if central.action == "skip":
        open_ = any(decision.action != "skip" for decision in each)
    else:
        open_ = float(curve.low[central.gamma]) <= 1
    return ("measure", ran) if open_ else (central.action, central.gamma)


def _headline(curve: LogCurve, ran: int, action: Action, gamma: int) -> str:
    now, seen = faster(float(curve.speedup[ran])), ", as observed" if curve.observed else ""
    if action == "use":
        return f"Keep γ={ran}: {now}{seen}."
    if action == "skip":
        return f"Leave it off: γ={ran} is {now}{seen}."
    if action == "measure":
        if curve.observed:
            return f"γ={ran} is {now}{seen}; of another γ the log does not tell enough."
        return "Measure first: the answer depends on what you do not know."
    verb, then = action.capitalize(), faster(float(curve.speedup[gamma]))
    return f"{verb} γ to {gamma}: {then} instead of {now} at γ={ran}{seen}."


def _why(curve: LogCurve, ran: int, gamma: int) -> str:
    def at(gamma: int) -> str:
        tokens, cost = (significant(float(of[gamma])) for of in (curve.tokens, curve.cost))
        return f"{tokens} tokens in {cost} plain steps at γ={gamma}"

    parts = map(at, dict.fromkeys((ran, gamma or ran)))
    return f"A pass emits {', '.join(parts)}: it pays while it emits more than it costs"


def _costs(curve: LogCurve, ran: int) -> list[str]:
    """Where the cost of a pass comes from once a plain run tells it."""
    if curve.observed is None:
        return []
    implied = float(curve.cost[ran])
    rest, seen = implied - curve.expected, f"Cost of a pass: {significant(implied)} plain steps"
    if rest >= 0:
        how = (
            "the scenario's verification and drafting of that γ, plus the "
            f"{significant(rest)} that they leave unexplained at γ={ran}"
        )
    else:
        how = "scaled down, because this run cost less than the scenario says"
    return [f"{seen} at γ={ran}, as observed; at another γ {how}"]


def _apart(curve: LogCurve, ran: int | None) -> str:
    """What each end of the unknown would do."""
    _, each = curve.decisions()
    reached = [float(end[one.gamma]) for one, end in zip(each, curve.ends, strict=True)]
    worst, best = int(np.argmin(reached)), int(np.argmax(reached))
    does = " and ".join(
        f"{ratio(reached[at])} at γ={each[at].gamma}" if each[at].gamma else "plain decoding"
        for at in dict.fromkeys((worst, best))
    )
    if ran is None or curve.observed:
        return f"With {', '.join(curve.unknown)} the best at the ends is {does}"
    return f"γ={ran} gives {_span(curve, ran)}. At the ends the best is {does}"


def _span(curve: LogCurve, gamma: int) -> str:
    low, high = float(curve.low[gamma]), float(curve.high[gamma])
    if high - low < SAME * high:
        return faster(float(curve.speedup[gamma]))
    return f"{ratio(low)} to {ratio(high)} ({', '.join(curve.unknown)})"


def _here(curve: LogCurve, ran: int) -> str:
    """The speedup over all steps at the γ that ran."""
    if curve.observed is not None:
        return f"{faster(float(curve.speedup[ran]))}, as observed"
    return _span(curve, ran)


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


def gamma_rows(
    reading: Reading,
    prediction: Prediction,
    stated: Shape | None = None,
    speed: Speed | None = None,
) -> Table:
    """Over γ: where each row comes from, tokens and cost of a pass, speedup with its ends.

    Up to γ+4 for a chain; only the γ that ran for any other shape.
    """
    curve = log_curve(reading, prediction.scenario, speed)
    ran, chain = curve.ran, shape_of(reading, stated) == "chain"
    last = min((ran or 4) + 4, len(curve.tokens) - 1)
    rows = [ran] if ran is not None and not chain else list(range(last + 1))
    a_pass = "pass" if curve.share < 1 else "step"

    def basis(gamma: int) -> str:
        if gamma == 0:
            return "plain decoding"
        if gamma == ran:
            return "measured"
        if not reading.survival or ran is None:
            return "as if i.i.d."
        return "rates cut" if gamma < ran else "extrapolated"

    return Table(
        "What this log says of each γ",
        "log_gamma",
        (
            Column("gamma", "γ", "", "Drafted tokens a step", tuple(rows), format="0"),
            Column("basis", "From", "", "Where the row comes from", tuple(map(basis, rows))),
            _column("tokens_per_step", f"Tokens per {a_pass}", "", curve.tokens[rows]),
            _column("step_cost", f"{a_pass.capitalize()} cost", "plain steps", curve.cost[rows]),
            _column("walltime_improvement", "Speedup", "×", curve.speedup[rows]),
            _column("walltime_improvement_low", "Speedup, low", "×", curve.low[rows]),
            _column("walltime_improvement_high", "Speedup, high", "×", curve.high[rows]),
        ),
    )


def _column(name: str, label: str, unit: str, values: np.ndarray) -> Column:
    return Column(name, label, unit, label, tuple(values.tolist()), format="0.00")
