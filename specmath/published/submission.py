"""Two runs of one server, without and with speculation, as one row that the record takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from specmath.checks import InputError
from specmath.logs.reading import Reading
from specmath.published.rows import read
from specmath.review.comparable import at_load_of
from specmath.review.observed import number_of, speed_of, throughput_of, tokens_per_pass, tpot_of

__all__ = ["COLUMNS", "GIVEN", "as_csv", "submission"]

COLUMNS = (
    "id", "source", "url", "date", "target", "weights", "kv_dtype", "drafter", "kind", "gamma",
    "hardware", "gpus", "engine", "workload", "isl", "osl", "temperature", "concurrency",
    "tau", "acceptance_per_drafted", "plain_tpot_ms", "spec_tpot_ms", "plain_step_ms",
    "spec_step_ms", "plain_tok_s", "spec_tok_s", "tok_s_kind", "speedup", "speedup_kind",
    "plain_p99_tpot_ms", "spec_p99_tpot_ms", "plain_p99_itl_ms", "spec_p99_itl_ms",
    "plain_ttft_ms", "spec_ttft_ms", "notes",
)  # fmt: skip
"""Of a row of served_speculative.csv, as far as two runs can fill it."""

GIVEN = (
    "id", "source", "url", "date", "target", "weights", "kv_dtype", "drafter", "kind", "gamma",
    "hardware", "gpus", "engine", "workload", "isl", "osl", "temperature", "concurrency", "notes",
)  # fmt: skip
"""What a person may say beside the runs; it wins over what they print."""

_PRINTED = {
    "p99_tpot_ms": "p99_tpot_ms",
    "p99_itl_ms": "p99_itl_ms",
    "ttft_ms": "mean_ttft_ms",
}
DIGITS = 6


def submission(
    before: Sequence[Reading], after: Sequence[Reading], given: Mapping[str, str]
) -> dict[str, str]:
    """The row of two runs: what they printed, and what was given beside them.

    Parameters
    ----------
    before, after
        Readings of the plain and of the speculative run; of a sweep those of like load are taken.
    given
        Cells by name, of those in `GIVEN`.

    Raises
    ------
    InputError
        The runs have no like speeds to compare, a cell is named that no row has, or something
        needed is missing: an id, a target, the kind of drafter.

    Examples
    --------
    >>> from specmath.logs.service import Latency, Service
    >>> runs = [Reading("vllm", "log", service=Service(Latency(0.1), Latency(s)))
    ...         for s in (0.024, 0.012)]
    >>> row = submission(runs[:1], runs[1:], {"id": "a", "target": "Llama-3.1-8B", "kind": "mtp"})
    >>> row["speedup"], row["plain_tpot_ms"]
    ('2', '24')
    """
    unknown = [name for name in given if name not in GIVEN]
    if unknown:
        raise InputError(f"a row must be given cells of {', '.join(GIVEN)}, got {unknown[0]}")
    plain = at_load_of("BEFORE", before, after)[0][0]
    spec = at_load_of("AFTER", after, [plain])[0][0]
    speed = speed_of(spec, plain=plain)
    if speed is None:
        raise InputError(
            "both runs must print their speed in like numbers (time per token, or tokens per "
            "second), and they do not"
        )
    row = dict.fromkeys(COLUMNS, "")
    row |= _of_runs(plain, spec)
    row |= {"speedup": _text(speed.speedup), "speedup_kind": speed.basis}
    row |= {name: cell.strip() for name, cell in given.items() if cell.strip()}
    missing = [name for name in ("id", "target", "kind") if not row[name]]
    if missing:
        raise InputError(f"a row must have {', '.join(missing)}, which the runs do not print")
    read(as_csv(row), "the row")  # what the record would refuse is refused here
    return row


def _of_runs(plain: Reading, spec: Reading) -> dict[str, str]:
    """What the two runs print."""
    cells: dict[str, str] = {"engine": spec.engine}
    model = spec.fact("model_id") or spec.fact("model")
    cells["target"] = str(model or "")
    cells["date"] = str(spec.fact("date") or "")
    cells["concurrency"] = _whole(number_of(spec, "max_concurrency", "concurrency"))
    cells["isl"] = _whole(_each(spec, "total_input_tokens"))
    cells["osl"] = _whole(_each(spec, "total_output_tokens"))
    cells["gamma"] = "" if spec.gamma is None else str(spec.gamma)
    cells["tau"] = _text(tokens_per_pass(spec))
    cells["acceptance_per_drafted"] = _text(spec.accepted_share)
    for name, run in (("plain", plain), ("spec", spec)):
        tpot = tpot_of(run)
        cells[f"{name}_tpot_ms"] = _text(None if tpot is None else tpot * 1e3)
        cells[f"{name}_tok_s"] = _text(throughput_of(run))
        for column, fact in _PRINTED.items():
            cells[f"{name}_{column}"] = _text(number_of(run, fact))
    if cells["plain_tok_s"] and cells["spec_tok_s"]:
        alone = cells["concurrency"] == "1"
        cells["tok_s_kind"] = "single stream" if alone else "aggregate output"
    return cells


def _each(reading: Reading, total: str) -> float | None:
    tokens, count = number_of(reading, total), number_of(reading, "completed")
    return tokens / count if tokens and count else None


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.{DIGITS}g}"


def _whole(value: float | None) -> str:
    return "" if value is None else str(round(value))


def as_csv(row: Mapping[str, str]) -> str:
    """The row with its header, as a file of the record has them."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    return out.getvalue()
