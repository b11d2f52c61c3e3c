"""`vllm bench serve` (saved JSON and printed table) and per-request response metrics.

The saved acceptance rate is in percent, the per-position rates are fractions; printed, both are in
percent. Until PR 41916 (2026-05) the client added `_created` times to the counters it summed.
"""

from __future__ import annotations

from specmath.logs.acceptance_block import add_block
from specmath.logs.bench import BenchText, as_number, facts_of, is_bench
from specmath.logs.engine import Engine, Node, Parser, count_in, number_in, numbers_in
from specmath.logs.errors import LogError
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.requests import RequestSum
from specmath.logs.survival import check_survival
from specmath.logs.tally import make_reading

__all__ = ["ENGINE"]

UNIX_TIME = 10**9
MOST_RESULTS = 1000


class VllmBench(Parser):
    """Each benchmark result is a reading of its own; responses are added up."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._results: list[Reading] = []
        self._text = BenchText()
        self._responses = RequestSum(notes)

    def line(self, text: str, at: Place) -> None:
        self._text.line(text, at)

    def document(self, node: Node, at: Place) -> bool:
        metrics = node.get("metrics")
        if isinstance(metrics, dict) and isinstance(metrics.get("speculative_decoding"), dict):
            usage = node.get("usage")
            tokens = count_in(usage, "completion_tokens") if isinstance(usage, dict) else None
            add_block(self._responses, metrics["speculative_decoding"], tokens, at)
            return True
        if not is_bench(node) or "accept_length" in node:
            return False
        if len(self._results) < MOST_RESULTS:
            self._results.append(self._saved(node, at))
        return True

    def _saved(self, node: Node, at: Place) -> Reading:
        share = number_in(node, "spec_decode_acceptance_rate")
        return self._result(
            "bench serve JSON",
            at,
            counts=[
                count_in(node, f"spec_decode_{name}")
                for name in ("num_drafts", "draft_tokens", "accepted_tokens")
            ],
            length=number_in(node, "spec_decode_acceptance_length"),
            percent=share,
            rates=numbers_in(node.get("spec_decode_per_position_acceptance_rates")),
            facts=facts_of(node),
        )

    def _printed(self, rows: dict[str, str], at: Place) -> Reading:
        counts = [as_number(rows.get(k)) for k in ("Drafts", "Draft tokens", "Accepted tokens")]
        rates: list[float] = []
        while (rate := as_number(rows.get(f"Position {len(rates)}"))) is not None:
            rates.append(rate / 100.0)
        return self._result(
            "bench serve stdout",
            at,
            counts=[None if count is None else int(count) for count in counts],
            length=as_number(rows.get("Acceptance length")),
            percent=as_number(rows.get("Acceptance rate (%)")),
            rates=rates or None,
            facts=BenchText.facts(rows),
        )

    def _result(
        self,
        form: str,
        at: Place,
        *,
        counts: list[int | None],
        length: float | None,
        percent: float | None,
        rates: list[float] | None,
        facts: dict[str, float | str | None],
    ) -> Reading:
        warnings: list[str] = []
        _tokens_per_chunk(facts)
        drafts, drafted, accepted = counts
        if any(count is not None and count >= UNIX_TIME for count in counts):
            warnings.append(
                f"{at}: the counts are as large as a Unix time: this client (before PR 41916, "
                "2026-05) added _created times to the counters, so none of them can be used"
            )
            return make_reading("vllm", form, facts=facts, warnings=warnings)
        if length is None and percent is None and not drafted:
            warnings.append(f"{at}: no speculative fields: a plain run, or an older client")
            return make_reading("vllm", f"{form}, no speculation", facts=facts, warnings=warnings)
        if accepted is not None and drafted and accepted > drafted:
            warnings.append(f"{at}: more tokens accepted than drafted: counts not used")
            drafts = drafted = accepted = None
        _check(drafts, drafted, accepted, length, percent, at, warnings)
        return make_reading(
            "vllm",
            form,
            steps=drafts or None,
            drafted=drafted,
            accepted=accepted,
            tokens_per_step=length if length is not None and length >= 1.0 else None,
            survival=_checked(rates, at, warnings),
            gamma=self.gamma,
            facts=facts,
            warnings=warnings,
        )

    def readings(self) -> list[Reading]:
        found = list(self._results)
        for at, rows in self._text.results:
            if "Accept length" in rows or rows.get("Backend", "").startswith("sglang"):
                continue
            if "Acceptance length" in rows or "Mean TPOT (ms)" in rows:
                found.append(self._printed(rows, at))
        responses = self._responses.reading("vllm", "per-request response", gamma=self.gamma)
        return found + ([responses] if responses is not None else [])


def _tokens_per_chunk(facts: dict[str, float | str | None]) -> None:
    """This client counts one gap a chunk, so mean ITL / mean TPOT is about tokens a chunk."""
    gap, token = facts.get("mean_itl_ms"), facts.get("mean_tpot_ms")
    if isinstance(gap, float) and isinstance(token, float) and token > 0:
        facts["tokens_per_chunk"] = gap / token


def _checked(rates: list[float] | None, at: Place, warnings: list[str]) -> tuple[float, ...] | None:
    if rates is None:
        return None
    try:
        return check_survival(tuple(rates))
    except LogError as error:
        warnings.append(f"{at}: per-position rates not used: {error}")
        return None


def _check(
    drafts: int | None,
    drafted: int | None,
    accepted: int | None,
    length: float | None,
    percent: float | None,
    at: Place,
    warnings: list[str],
) -> None:
    """The identities 1 + A/N = length and A/D = rate; a miss is said, and the counts win."""
    if drafts and accepted is not None and length is not None:
        counted = 1.0 + accepted / drafts
        if abs(length - counted) > 0.006:
            warnings.append(
                f"{at}: acceptance length {length:.4g} is not 1 + accepted / drafts "
                f"({counted:.4g}): the counts were used"
            )
    if drafted and accepted is not None and percent is not None:
        counted = 100.0 * accepted / drafted
        if abs(percent - counted) > 0.06:
            warnings.append(
                f"{at}: acceptance rate {percent:.4g} is not accepted / drafted in percent "
                f"({counted:.4g}): the counts were used"
            )


ENGINE = Engine(
    "vllm",
    (
        b"Serving Benchmark Result",
        b":        ",
        b"speculative_decoding",
        b"spec_decode_acceptance",
        b"mean_tpot_ms",
    ),
    VllmBench,
)
