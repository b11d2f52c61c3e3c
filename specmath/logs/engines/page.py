"""What an engine makes of a metrics page: acceptance from counters, latency and load beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from specmath.logs.counts import Tally, falling_rates, make_reading
from specmath.logs.engines.base import Parser
from specmath.logs.engines.prometheus import Change, Scrapes, side_by_side
from specmath.logs.engines.served import ServedNames, served
from specmath.logs.lanes import agree, shared
from specmath.logs.reading import Channel, Counts, Extras, Lane, Reading, Shape, Window
from specmath.logs.service import Service, together
from specmath.logs.stream import LogLine, Notes

__all__ = ["DraftCounters", "Page", "scraped"]


class Page(Parser, ABC):
    """A parser of one engine's metrics page; counters as they change, `gauges` as they stand."""

    prefix: ClassVar[str]
    gauges: ClassVar[tuple[str, ...]] = ()
    anchored = True
    names: ClassVar[ServedNames] = ServedNames()

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        self._scrapes = Scrapes(notes, (*self.gauges, *self.names.gauges))
        super().__init__(gamma, notes)

    def line(self, text: str, at: LogLine) -> None:
        if text.startswith(self.prefix):
            self._scrapes.add(text, at)

    def readings(self) -> Iterator[Reading]:
        changes = self._scrapes.changes()
        each = {lane: self._page(lane, *change) for lane, change in changes.items()}
        self.undrafted += sum(found is None for found in each.values())
        drafting = {lane: found for lane, found in each.items() if found is not None}
        yield from drafting.values()
        if len(drafting) > 1 and agree(tuple(drafting.values())):
            whole = side_by_side([changes[lane] for lane in drafting])
            pooled = self._page(shared(tuple(drafting)), *whole)
            if pooled is not None:
                service = together([found.service for found in drafting.values()])
                yield replace(pooled, lane=None, service=service)
        yield from super().readings()

    def _page(self, lane: Lane, total: Change, steps: Sequence[Change]) -> Reading | None:
        found = self.page(lane, total, steps)
        return found and replace(found, lane=lane, service=self.served(total, steps))

    def plain(self) -> Iterator[Reading]:
        for lane, (total, steps) in self._scrapes.changes().items():
            service = self.served(total, steps)
            if service.speed_told:
                extras = Extras(facts={"model": lane.model}, lane=lane, service=service)
                channel = scraped(self.name, steps)
                channel = replace(channel, format=f"{channel.format}, no speculation")
                yield make_reading(channel, Counts(), extras)

    def served(self, total: Change, steps: Sequence[Change]) -> Service:
        """Latency and load of a page."""
        return served(total, self.names, max(len(steps), 1))

    @abstractmethod
    def page(self, lane: Lane, total: Change, steps: Sequence[Change]) -> Reading | None:
        """The acceptance of one lane's page, or None where nothing in it was drafted."""


def scraped(
    engine: str, steps: Sequence[Change], form: str = "Prometheus", shape: Shape = "chain"
) -> Channel:
    """The channel of a page: one dump holds totals since the start, several their change."""
    span = "change between scrapes" if steps else "since start"
    return Channel(engine, f"{form}, {span}", shape, since_start=not steps)


@dataclass(frozen=True)
class DraftCounters:
    """The counters that vLLM named and llama.cpp took over, which differ in their prefix."""

    prefix: str

    def counts(self, total: Change, warnings: list[str]) -> Counts:
        """Steps, tokens, and the rates if the counts can be what they claim to be."""
        steps, drafted, accepted = (
            total.count(f"{self.prefix}num_{name}")
            for name in ("drafts", "draft_tokens", "accepted_tokens")
        )
        reached = self._reached(total)
        survival = None if accepted is None else falling_rates(steps, reached)
        if reached and steps and accepted is not None and survival is None:
            warnings.append("per-position counts rise or exceed the steps: not used")
        elif survival and abs(sum(reached) - (accepted or 0)) > 0.01 * max(accepted or 0, 1):
            survival = None
            warnings.append("per-position counts do not add up to the accepted tokens: not used")
        return Counts(steps or None, drafted, accepted, survival, len(reached) or None)

    def windows(self, changes: Sequence[Change]) -> tuple[Window, ...]:
        """The changes between scrapes, where there are several."""
        tally = Tally()
        for change in changes:
            one = self.counts(change, [])
            if one.steps and one.drafted is not None and one.accepted is not None:
                rates = tuple(count / one.steps for count in self._reached(change))
                tally.add(
                    change.at.line if change.at else 0, steps=one.steps, drafted=one.drafted,
                    accepted=one.accepted, survival=rates,
                )  # fmt: skip
        return tally.windows() if len(changes) > 1 else ()

    def _reached(self, total: Change) -> list[float]:
        return total.by_position(f"{self.prefix}num_accepted_tokens_per_pos")
