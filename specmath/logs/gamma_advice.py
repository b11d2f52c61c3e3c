"""Raise or lower γ? What the log says of each γ, and where it may not be asked."""

from __future__ import annotations

import numpy as np

from specmath.acceptance import IidAcceptance, MixtureAcceptance
from specmath.logs.answer import Answer, State
from specmath.logs.record import Reading
from specmath.logs.speed import tokens_per_pass
from specmath.logs.taken import Shape, shape_of
from specmath.predict import Prediction
from specmath.sheets.tables import Column, Table
from specmath.theorems import alpha_from_tokens_per_step
from specmath.verdict import Action, verdict
from specmath.wording import faster, ratio, significant

__all__ = ["GAMMA", "gamma_answer", "gamma_rows", "mixing"]

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


def gamma_answer(reading: Reading, prediction: Prediction, stated: Shape | None) -> Answer:
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
