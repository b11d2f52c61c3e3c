"""What a log answers: is my printed rate α, which γ, which overhead, is the drafter broken."""

from __future__ import annotations

from specmath.checks import InputError
from specmath.logs.answer import Answer, State
from specmath.logs.diagnosis import diagnose
from specmath.logs.gamma_advice import GAMMA, gamma_answer
from specmath.logs.overhead import overhead_answer
from specmath.logs.record import Reading
from specmath.logs.speed import Speed
from specmath.logs.taken import Shape, drafts_of
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario
from specmath.scenario.faults import in_words
from specmath.theorems import alpha_from_accepted_share, expected_tokens
from specmath.wording import significant

__all__ = ["answer_all", "printed_rate"]


def answer_all(
    reading: Reading, base: Scenario, speed: Speed | None = None, shape: Shape | None = None
) -> tuple[Answer, ...]:
    """Every answer that this reading and the costs of `base` allow, in the order people ask."""
    if reading.tokens_per_step is None and reading.drafted is None and reading.alpha is None:
        return ()
    found = [printed_rate(reading)]
    prediction: Prediction | None = None
    try:
        prediction = predict(drafts_of(reading, base, shape))
    except InputError as error:
        found.append(Answer(GAMMA, "unknown", "Not from this log.", (in_words(str(error)),)))
    else:
        found.append(gamma_answer(reading, prediction, shape, speed))
    found.append(overhead_answer(reading, prediction, speed, shape))
    if (judged := _drafter(reading)) is not None:
        found.append(judged)
    return tuple(found)


# ── is my printed X% α? ──────────────────────────────────────────────────────────────────────


def printed_rate(reading: Reading) -> Answer:
    """Accepted ÷ drafted beside α, and τ with the bonus token said."""
    question = "Is my printed acceptance rate α?"
    share = reading.accepted_share
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
    if (apart := _apart(reading)) is not None:
        because.append(apart)
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


def _apart(reading: Reading) -> str | None:
    """What α would make of every position alike, where the log's own count is another."""
    tokens, gamma = reading.tokens_per_step, reading.gamma
    if reading.survival or reading.alpha is None or tokens is None or gamma is None:
        return None
    alike = float(expected_tokens(reading.alpha, gamma))
    if abs(alike - tokens) < 0.01 * tokens:
        return None
    return (
        f"This α, alike at every position, would give {significant(alike)} tokens per step at "
        f"γ={gamma}; the answers below and the calculator take the {significant(tokens)} that the "
        "log counts"
    )


def _inverted(reading: Reading, share: float | None) -> float | None:
    full = reading.drafted_per_step is None or reading.drafted_per_step == reading.gamma
    if share is None or not reading.gamma or not full or reading.alpha_basis == "inverted share":
        return None
    return float(alpha_from_accepted_share(share, reading.gamma))


# ── is the drafter broken? ───────────────────────────────────────────────────────────────────

DRAFTER = "Is the drafter broken, or the text hard?"

_JUDGED: dict[str, tuple[State, str]] = {
    "sound": ("good", "The drafter works"),
    "broken": ("bad", "The drafter looks broken"),
    "later positions": ("info", "Sound at the first token, poor after it"),
    "hard text": ("info", "The drafter works; part of the text is hard"),
    "weak": ("bad", "A weak drafter for this text"),
    "too little": ("unknown", "Too few drafts to tell sound from weak or broken"),
}


def _drafter(reading: Reading) -> Answer | None:
    found = diagnose(reading)
    if found is None:
        return None
    state, text = _JUDGED[found.finding]
    return Answer(DRAFTER, state, f"{text}: {found.seen}.", (found.reason,))
