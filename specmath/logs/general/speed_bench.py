"""llama.cpp's speed-bench table: a row a category, its accepted share and speed, and no counts.

No identity can confirm a share alone; the names of its columns are this program's own.
"""

from __future__ import annotations

from specmath.logs.counts import Spread, make_reading
from specmath.logs.general.records import Record
from specmath.logs.reading import Channel, Counts, Extras, Reading

__all__ = ["SpeedBench"]

_SPEED, _SHARE, _SAMPLES = "avg_pred_t/s", "accept_rate", "samples"
_OVERALL = "overall"


class SpeedBench:
    """The rows of one table."""

    def __init__(self) -> None:
        self._spread = Spread("accepted_share")
        self._sums = [0.0, 0.0, 0.0]
        self._overall: tuple[float, float | None, float] | None = None

    def take(self, record: Record) -> bool:
        """Whether a row of a table is one of these."""
        cells = {cell.name: cell.value for cell in record.cells}
        if not cells.keys() >= {_SPEED, _SHARE}:
            return False
        share, speed, samples = cells[_SHARE], cells[_SPEED], cells.get(_SAMPLES, 1.0)
        if not 0.0 <= share <= 1.0 or speed <= 0 or samples <= 0:
            return False
        if record.label.lower() == _OVERALL:
            self._overall = share, speed, samples
        else:
            self._spread.add(share)
            weighed = (samples, samples * share, samples * speed)
            self._sums = [old + new for old, new in zip(self._sums, weighed, strict=True)]
        return True

    def reading(self) -> Reading | None:
        """The table: its overall row, or the mean over samples where it lacks one."""
        samples, shares, speeds = self._sums
        if self._overall is not None:
            share, speed, samples = self._overall
        elif samples:
            share, speed = shares / samples, speeds / samples
        else:
            return None
        facts = {"accepted_share": share, "tokens_per_second": speed, "requests": samples}
        return make_reading(
            Channel("llama.cpp", "speed-bench table"), Counts(),
            Extras(requests=self._spread.requests(), facts=facts),
            [f"only accepted / drafted, {share:.3f}, and the speed are printed: α is at least that "
             "share, and tokens per step are unknown (the saved JSON or the server's log tell)"],
        )  # fmt: skip
