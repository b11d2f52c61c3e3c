"""Are two runs alike but for the change? Engine, model, traffic, concurrency, seed, lengths."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.logs.record import Reading
from specmath.wording import significant

__all__ = ["unlike"]

SAME = (
    ("backend", "engine"), ("model_id", "model"), ("model", "model"), ("dataset_name", "traffic"),
    ("request_rate", "request rate"), ("max_concurrency", "concurrency"), ("seed", "seed"),
)  # fmt: skip
NEAR = 0.05


def unlike(before: Sequence[Reading], after: Sequence[Reading]) -> list[str]:
    """What differs between the runs besides the change itself."""
    first, last = before[0], after[0]
    found = []
    if first.engine != last.engine and "guidellm" not in (first.engine, last.engine):  # a client
        found.append(f"Another engine: {first.engine}, then {last.engine}")
    for name, word in SAME:
        pair = first.fact(name), last.fact(name)
        if None not in pair and pair[0] != pair[1]:
            found.append(f"Another {word}: {_shown(pair[0])}, then {_shown(pair[1])}")
    if "seed" not in {name for name, _ in (*first.facts, *last.facts)}:
        found.append("The seed is not printed: whether both ran the same requests is not known")
    for total, word in (("total_input_tokens", "input"), ("total_output_tokens", "output")):
        lengths = [_each(reading, total) for reading in (first, last)]
        if None not in lengths and abs(lengths[1] / lengths[0] - 1) > NEAR:  # type: ignore[operator]
            text = " then ".join(significant(length) for length in lengths)
            found.append(f"Requests differ in {word} length, {text} tokens: other traffic")
    return list(dict.fromkeys(found))


def _each(reading: Reading, total: str) -> float | None:
    tokens, count = reading.fact(total), reading.fact("completed")
    if not isinstance(tokens, float) or not isinstance(count, float) or not tokens or not count:
        return None
    return tokens / count


def _shown(value: float | str | None) -> str:
    return significant(value) if isinstance(value, float) else str(value)
