"""Per-request records added up: every request is one window, and one value of the distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specmath.logs.estimate import Alpha, binomial_alpha
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.tally import Spread, Tally, make_reading

__all__ = ["RequestSum", "survival_of"]

MOST_POSITIONS = 256


def survival_of(histogram: Sequence[float]) -> tuple[float, ...]:
    """s_i = Σ_{j≥i} h[j] / Σ h, for i = 1…g, from h[j] = steps that accepted j tokens."""
    total = sum(histogram)
    tail, rates = 0.0, []
    for count in reversed(histogram[1:]):
        tail += count
        rates.append(tail / total if total > 0 else 0.0)
    return tuple(reversed(rates))


class RequestSum:
    """Requests of one engine and shape: sums, distribution, and the reading they make.

    Where one of the requests lacks its step count, the sum has none; the same for histograms.
    """

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.tally = Tally()
        self.requests = 0
        self.gammas: set[int] = set()
        self.generated: int | None = 0
        self._whole = {"steps": True, "histogram": True, "rejections": True}
        self._rejections = 0
        self._per_step = Spread("tokens_per_step")
        self._share = Spread("accepted_share")

    def add(
        self,
        at: Place,
        *,
        steps: int | None,
        drafted: int,
        accepted: int,
        histogram: Sequence[float] | None = None,
        rejections: int | None = None,
        gamma: int | None = None,
        generated: int | None = None,
    ) -> None:
        """One request; counts that contradict each other are noted and left out."""
        if accepted > drafted or (steps and drafted and not 0 < steps <= drafted):
            self.notes.add("a request whose counts contradict each other was left out", at)
            return
        if histogram is not None and not _fits(histogram, steps, accepted):
            self.notes.add("a histogram that does not match its counts was not used", at)
            histogram = None
        if drafted == 0:
            return
        self.requests += 1
        if gamma is not None and len(self.gammas) < 64:
            self.gammas.add(gamma)
        self._whole["steps"] &= steps is not None
        self._whole["histogram"] &= histogram is not None
        self._whole["rejections"] &= rejections is not None
        self._rejections += rejections or 0
        both = generated is not None and self.generated is not None
        self.generated = (self.generated or 0) + (generated or 0) if both else None
        rates = survival_of(histogram) if histogram is not None else ()
        self.tally.add(
            steps=steps or 0, drafted=drafted, accepted=accepted, survival=rates, line=at.line
        )
        self._share.add(accepted / drafted)
        if steps:
            self._per_step.add(1.0 + accepted / steps)

    def reading(
        self,
        engine: str,
        form: str,
        *,
        gamma: int | None = None,
        passes: float | None = None,
        tree: bool = False,
        facts: Mapping[str, float | str | None] | None = None,
        warnings: Sequence[str] = (),
    ) -> Reading | None:
        """The reading, or None where no request drafted anything."""
        if not self.requests:
            return None
        tally = self.tally
        steps = tally.steps if self._whole["steps"] and tally.steps else None
        survival = tally.survival if steps and self._whole["histogram"] else None
        if gamma is None and len(self.gammas) == 1:
            gamma = next(iter(self.gammas))
        if gamma is None and self.gammas:
            warnings = [*warnings, f"requests differ in draft length: {sorted(self.gammas)}"]
            gamma = max(self.gammas)
        alpha: Alpha | None = None
        if self._whole["rejections"] and not tree:
            trials = tally.accepted + self._rejections
            alpha = binomial_alpha(tally.accepted, trials, "per-step record")
        spread = self._per_step if steps else self._share
        return make_reading(
            engine,
            form,
            steps=steps,
            drafted=tally.drafted,
            accepted=tally.accepted,
            survival=survival,
            from_histogram=True,
            gamma=gamma,
            generated=self.generated,
            passes=passes,
            tree=tree,
            alpha=alpha,
            windows=tally.series.windows() if self.requests > 1 else (),
            requests=spread.requests(),
            facts=facts,
            warnings=warnings,
        )


def _fits(histogram: Sequence[float], steps: int | None, accepted: int) -> bool:
    """Σ h = N and Σ j·h[j] = A."""
    if not 1 < len(histogram) <= MOST_POSITIONS:
        return False
    total = sum(index * count for index, count in enumerate(histogram))
    return total == accepted and (steps is None or sum(histogram) == steps)
