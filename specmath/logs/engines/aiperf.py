"""AIPerf's engine-neutral `spec_decode_acceptance` records; the record names its engine."""

from __future__ import annotations

from specmath.logs.acceptance_block import add_block
from specmath.logs.engine import Engine, Node, Parser, count_in
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.requests import RequestSum

__all__ = ["ENGINE"]

MOST_ENGINES = 32


class Aiperf(Parser):
    """Records are added up by the engine they name."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._engines: dict[str, RequestSum] = {}

    def document(self, node: Node, at: Place) -> bool:
        block = node.get("spec_decode_acceptance")
        if not isinstance(block, dict):
            return False
        name = block.get("engine")
        engine = name[:40] if isinstance(name, str) and name else "aiperf"
        if engine in self._engines or len(self._engines) < MOST_ENGINES:
            total = self._engines.setdefault(engine, RequestSum(self.notes))
            add_block(total, block, count_in(block, "completion_tokens"), at)
        return True

    def readings(self) -> list[Reading]:
        found = []
        for engine, total in self._engines.items():
            reading = total.reading(engine, "AIPerf records", gamma=self.gamma)
            found += [reading] if reading is not None else []
        return found


ENGINE = Engine("aiperf", (b"spec_decode_acceptance",), Aiperf)
