"""SGLang's metrics, request records, server info and benchmark results.

A request's printed length is completion_tokens / verify_ct, which counts the token that prefill
gave: τ here is (completion_tokens − 1) / verify_ct, or 1 + A/N where the counts are printed.
"""

from __future__ import annotations

from specmath.logs.bench import BenchText, as_number, facts_of, is_bench
from specmath.logs.engine import Engine, Node, Parser, count_in, number_in, numbers_in
from specmath.logs.notes import Notes, Place
from specmath.logs.prometheus import Change, Scrapes
from specmath.logs.record import Reading
from specmath.logs.requests import RequestSum
from specmath.logs.tally import Spread, make_reading

__all__ = ["ENGINE"]

_VERIFY, _GENERATED = "sglang:spec_verify_calls", "sglang:generation_tokens"
_REQUESTS = "sglang:num_requests"
_LENGTH, _RATE = "sglang:spec_accept_length", "sglang:spec_accept_rate"
_STEPS, _TOKENS = "sglang:spec_num_steps", "sglang:spec_num_draft_tokens"
# Newest names first; the old ones are kept as aliases of the same counts.
_SHAPES = (
    ("newest, 2026", "spec_num_correct_drafts", "spec_num_proposed_drafts"),
    ("2026", "spec_accepted_drafts", "spec_proposed_drafts"),
    ("2025-10", "spec_accept_token_num", "spec_draft_token_num"),
)
MOST_RESULTS = 1000


class SglangApi(Parser):
    """Requests are added up by shape; every benchmark result is a reading of its own."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._scrapes = Scrapes(notes, gauges=(_LENGTH, _RATE, _STEPS, _TOKENS))
        self._requests: dict[str, RequestSum] = {}
        self._bare = _Bare()
        self._results: list[Reading] = []
        self._text = BenchText()
        self._plain = False

    def line(self, text: str, at: Place) -> None:
        if text.startswith("sglang:"):
            self._scrapes.add(text, at)
        else:
            self._text.line(text, at)

    def document(self, node: Node, at: Place) -> bool:
        if "spec_verify_ct" in node:
            self._request(node, at)
        elif "internal_states" in node and isinstance(node["internal_states"], list):
            self._server(node, at)
        elif "accept_length" in node and is_bench(node):
            length = number_in(node, "accept_length")
            self._result("bench_serving JSONL", length, facts_of(node), at)
        else:
            return False
        return True

    def _request(self, node: Node, at: Place) -> None:
        steps, generated = count_in(node, "spec_verify_ct"), count_in(node, "completion_tokens")
        if not steps:
            self._plain = True
            return
        for shape, accepted_key, drafted_key in _SHAPES:
            accepted, drafted = count_in(node, accepted_key), count_in(node, drafted_key)
            if accepted is None or drafted is None:
                continue
            gamma = drafted // steps if drafted % steps == 0 else None
            counts = node.get("spec_correct_drafts_histogram", node.get("spec_accept_histogram"))
            total = self._requests.setdefault(shape, RequestSum(self.notes))
            total.add(
                at,
                steps=steps,
                drafted=drafted,
                accepted=accepted,
                histogram=numbers_in(counts),
                gamma=gamma,
                generated=generated,
            )
            return
        if generated is not None and generated > steps:
            self._bare.add(steps, generated)
        else:
            self.notes.add("a request with more verify steps than tokens was left out", at)

    def _server(self, node: Node, at: Place) -> None:
        states = node["internal_states"]
        assert isinstance(states, list)
        lengths = [number_in(s, "avg_spec_accept_length") for s in states if isinstance(s, dict)]
        good = [length for length in lengths if length is not None and length >= 1.0]
        if not good:
            self._plain = True
            return
        tokens, steps = (
            count_in(node, f"speculative_{k}") for k in ("num_draft_tokens", "num_steps")
        )
        topk = count_in(node, "speculative_eagle_topk")
        tree = (topk or 1) > 1 or bool(tokens and steps and tokens > steps + 1)
        warnings = ["the length is a mean since the server started"]
        if len(good) > 1:
            warnings.append(f"plain mean over {len(good)} schedulers: their steps are not told")
        algorithm = node.get("speculative_algorithm")
        self._keep(
            make_reading(
                "sglang",
                "server info (since start)",
                tokens_per_step=sum(good) / len(good),
                gamma=self.gamma or steps or ((tokens or 1) - 1 or None),
                tree=tree,
                facts={"algorithm": algorithm if isinstance(algorithm, str) else None},
                warnings=warnings,
            )
        )

    def _result(
        self, form: str, length: float | None, facts: dict[str, float | str | None], at: Place
    ) -> None:
        warnings = []
        if length is None or length < 1.0:
            form, length = f"{form}, no speculation", None
            warnings.append(f"{at}: accept_length is empty: the run did not speculate")
        self._keep(
            make_reading(
                "sglang",
                form,
                tokens_per_step=length,
                gamma=self.gamma if length is not None else None,
                facts=facts,
                warnings=warnings,
            )
        )

    def _keep(self, reading: Reading) -> None:
        if len(self._results) < MOST_RESULTS:
            self._results.append(reading)

    def readings(self) -> list[Reading]:
        for at, rows in self._text.results:
            ours = rows.get("Backend", "").startswith("sglang") and "Mean TPOT (ms)" in rows
            if "Accept length" in rows or ours:
                length = as_number(rows.get("Accept length"))
                self._result("bench_serving stdout", length, BenchText.facts(rows), at)
        found = list(self._results)
        for total, steps in self._scrapes.changes().values():
            if (reading := self._metrics(total, steps)) is not None:
                found.append(reading)
        for shape, requests in self._requests.items():
            passes = requests.tally.steps or None
            reading = requests.reading(
                "sglang", f"meta_info ({shape})", gamma=self.gamma, passes=passes
            )
            found += [reading] if reading is not None else []
        return found + self._bare.readings(self.gamma)

    def _metrics(self, total: Change, steps: list[Change]) -> Reading | None:
        verify, generated = total.count(_VERIFY), total.count(_GENERATED)
        requests = total.count(_REQUESTS)
        tokens, depth = total.gauges.get(_TOKENS), total.gauges.get(_STEPS)
        gamma = self.gamma or (round(depth) if depth else None)
        gamma = gamma or (round(tokens) - 1 if tokens and tokens >= 2 else None)
        tree = bool(tokens and depth and tokens > depth + 1)
        if verify and generated is not None and generated >= verify:
            warnings = []
            if requests is None:
                warnings.append(
                    f"{_REQUESTS}_total is missing: the token that prefill gives each request is "
                    "counted as if a verify step had given it"
                )
            accepted = max(generated - (requests or 0) - verify, 0)
            return make_reading(
                "sglang",
                "Prometheus, change between scrapes" if steps else "Prometheus, since start",
                steps=verify,
                accepted=accepted,
                drafted=verify * gamma if gamma and not tree else None,
                gamma=gamma,
                generated=generated,
                tree=tree,
                warnings=warnings,
            )
        length = total.gauges.get(_LENGTH)
        if length is None or length < 1.0:
            self._plain = self._plain or length is not None
            return None
        return make_reading(
            "sglang",
            "Prometheus gauges (last log interval only)",
            tokens_per_step=length,
            gamma=gamma,
            tree=tree,
            warnings=[
                f"gauges tell the last log interval only: scrape {_VERIFY}_total and "
                f"{_GENERATED}_total twice for a mean over time"
            ],
        )

    def without(self) -> str | None:
        return "SGLang records without a verify step" if self._plain else None


class _Bare:
    """Requests of 2025-01: verify steps and completion tokens only."""

    def __init__(self) -> None:
        self.steps = self.generated = 0
        self.spread = Spread("tokens_per_step")

    def add(self, steps: int, generated: int) -> None:
        """One request; its first token came from prefill."""
        self.steps += steps
        self.generated += generated
        self.spread.add((generated - 1) / steps)

    def readings(self, gamma: int | None) -> list[Reading]:
        """One reading, or none."""
        if not self.steps:
            return []
        accepted = self.generated - self.spread.count - self.steps
        return [
            make_reading(
                "sglang",
                "meta_info (2025-01)",
                steps=self.steps,
                drafted=self.steps * gamma if gamma else None,
                accepted=max(accepted, 0),
                gamma=gamma,
                generated=self.generated,
                requests=self.spread.requests(),
                warnings=["drafted tokens are not printed in this era"],
            )
        ]


ENGINE = Engine(
    "sglang",
    (
        b"sglang:spec_",
        b"sglang:generation_tokens_total",
        b"sglang:num_requests_total",
        b"spec_verify_ct",
        b"avg_spec_accept_length",
        b"accept_length",
        b"Serving Benchmark Result",
        b":        ",
    ),
    SglangApi,
)
