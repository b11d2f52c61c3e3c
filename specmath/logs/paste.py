"""What a person types or pastes instead of a log: acceptance rates, or the few numbers at hand."""

from __future__ import annotations

from specmath import rates
from specmath.checks import InputError, real, whole
from specmath.logs.counts import make_reading
from specmath.logs.detect import read
from specmath.logs.reading import Channel, Counts, Reading
from specmath.logs.stream import LogError

__all__ = ["read_rates", "typed_reading"]

EXPECTED = (
    "expected per-position acceptance rates: numbers such as 0.9, 0.8, 0.7 or 90%, 80%, 70%, "
    "or a log that carries them (vLLM 'Per-position acceptance rate: …', llama.cpp "
    "'acc per pos = (…)', the 'Position i:' lines of vllm bench serve, metrics, histograms)"
)
LONGEST = 1_000_000
Rates = tuple[float, ...]


def read_rates(text: str) -> Rates:
    """Survival s_1…s_γ, each in [0, 1] and non-increasing, from pasted `text`.

    Accepts what `specmath.rates.read_rates` does, or telemetry of one server, whose lines are
    pooled by their steps. Raises InputError where there are none, where they rise or leave [0, 1],
    and where the text holds several servers' rates.
    """
    if len(text) > LONGEST:
        raise LogError(f"{EXPECTED}; got {len(text)} characters: read a long log as a file")
    return rates.read_rates(text) or _from_log(text)


def _from_log(text: str) -> Rates:
    """The survival of the only reading, or of several that agree to the printed digits."""
    try:
        readings = read(text)
    except LogError as error:
        raise LogError(f"{EXPECTED}; got {rates.start_of(text)}") from error
    found = [one for one in readings if one.survival]
    if not found:
        raise LogError(f"{EXPECTED}; got {readings[0].engine} {readings[0].format}, without them")
    first = found[0].survival or ()
    for other in found[1:]:
        each = other.survival or ()
        near = len(each) == len(first) and all(
            abs(a - b) <= 0.001 for a, b in zip(each, first, strict=True)
        )
        if not near:
            names = "; ".join(f"{one.engine} {one.format}" for one in found[:6])
            raise LogError(f"{len(found)} different sets of rates ({names}): paste one of them")
    return first


def typed_reading(
    gamma: int, *, accepted_share: float | None = None, tokens_per_step: float | None = None
) -> Reading:
    """The reading of numbers that a person remembers: no log, no counts, so no interval.

    Parameters
    ----------
    gamma
        Drafted tokens a step, 1 to 256.
    accepted_share
        Accepted ÷ drafted, 0 to 1: 1 + γ r tokens a step where every draft is γ long.
    tokens_per_step
        Emitted a step, the bonus or correction token included, 1 to γ + 1.

    Raises
    ------
    InputError
        Neither or both are given, or a number is out of its range.

    Examples
    --------
    >>> typed_reading(2, accepted_share=0.62).tokens_per_step
    2.24
    """
    gamma = int(whole("gamma", gamma, 1, 256))
    if (accepted_share is None) is (tokens_per_step is None):
        raise InputError("exactly one of accepted_share and tokens_per_step must be given")
    if accepted_share is not None:
        tokens = 1.0 + gamma * float(real("accepted_share", accepted_share, 0, 1))
    else:
        tokens = float(real("tokens_per_step", tokens_per_step, 1, gamma + 1))  # type: ignore[arg-type]
    return make_reading(
        Channel("unknown", "typed numbers"), Counts(gamma=gamma, tokens_per_step=tokens)
    )
