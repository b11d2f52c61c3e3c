"""Tables of a reading: survival by position, windows over time."""

from __future__ import annotations

from specmath.logs.intervals import survival_band, window_band
from specmath.logs.record import Reading
from specmath.sheets.tables import Column, Table

__all__ = ["survival_table", "windows_table"]


def survival_table(reading: Reading) -> Table | None:
    """Position, survival with its interval, conditional rate; None where there are no positions."""
    if not reading.survival:
        return None
    band = survival_band(reading)
    count = len(reading.survival)
    nothing = (None,) * count
    rates = (*(reading.conditional or ()), *nothing)[:count]
    low = nothing if band.low is None else tuple(band.low[1:].tolist())
    high = nothing if band.high is None else tuple(band.high[1:].tolist())
    return Table(
        "Survival by position",
        "log_survival",
        (
            Column("position", "Position", "", "Of the drafted token, first is 1",
                   tuple(range(1, count + 1)), format="0", basis="measured"),
            _measured("survival", "Survival", "P(at least this many drafted tokens accepted)",
                      reading.survival),
            _measured("survival_low", "Low", band.basis, low),
            _measured("survival_high", "High", band.basis, high),
            _measured("conditional", "Conditional rate", "P(accepted | all before it were)", rates),
        ),
    )  # fmt: skip


def windows_table(reading: Reading) -> Table | None:
    """One row a window that tells its tokens per step; None where there are not two of them."""
    rows = [w for w in reading.windows if w.tokens_per_step is not None]
    if len(rows) < 2:
        return None
    band = window_band(reading)
    nothing = (None,) * len(rows)
    low = nothing if band.low is None else tuple(band.low.tolist())
    high = nothing if band.high is None else tuple(band.high.tolist())
    return Table(
        "Windows over time",
        "log_windows",
        (
            Column("line", "Line", "", "Where it stands in the log",
                   tuple(w.line for w in rows), format="0", basis="measured"),
            Column("time", "Time", "", "As printed", tuple(w.when for w in rows), basis="measured"),
            Column("steps", "Steps", "", "Verify steps with a draft",
                   tuple(w.steps for w in rows), format="#,##0", basis="measured"),
            _measured("tokens_per_step", "Tokens per step", "Bonus or correction token included",
                      tuple(w.tokens_per_step for w in rows)),
            _measured("tokens_per_step_low", "Low", band.basis, low),
            _measured("tokens_per_step_high", "High", band.basis, high),
        ),
    )  # fmt: skip


def _measured(name: str, label: str, says: str, values: tuple[float | None, ...]) -> Column:
    return Column(name, label, "", says, values, format="0.000", basis="measured")
