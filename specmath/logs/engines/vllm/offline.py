"""vLLM's offline speculative example: totals of one run, a `name: value` a line.

total_num_output_tokens: G    num_drafts: N    num_draft_tokens: D    num_accepted_tokens: A
mean acceptance length: 1 + A/N    acceptance at token i: R_{i+1}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from specmath.checks import InputError
from specmath.logs.counts import make_reading
from specmath.logs.engines.base import Parser
from specmath.logs.reading import Channel, Counts, Extras, Reading
from specmath.logs.stream import LogLine
from specmath.rates import check_survival

_COUNT = re.compile(
    r"(?:^|\s)(total_num_output_tokens|num_drafts|num_draft_tokens|num_accepted_tokens|"
    r"mean acceptance length): {1,8}(\d{1,15}(?:\.\d{1,6})?)$"
)
_RATE = re.compile(r"acceptance at token (\d{1,3}): {0,8}(\d(?:\.\d{1,6})?)$")
_SPEED = re.compile(
    r"Processed prompts: .{0,200}?(\d{1,9})/\1 .{0,200}output: (\d{1,9}\.\d{1,4}) toks/s"
)
MOST_RUNS = 256


class VllmOffline(Parser):
    """Each run is a reading of its own."""

    name = "vllm"
    anchored = True
    marks = (
        b"acceptance at token ", b"num_drafts: ", b"num_draft_tokens: ", b"num_accepted_tokens: ",
        b"mean acceptance length: ", b"total_num_output_tokens: ", b"Processed prompts: ",
    )  # fmt: skip
    empty = "{} runs of vLLM's offline example in which nothing was drafted"

    def begin(self) -> None:
        self._runs: list[tuple[LogLine, dict[str, float], list[float]]] = []
        self._speed: tuple[int, float] | None = None

    def line(self, text: str, at: LogLine) -> None:
        if found := _SPEED.search(text):
            self._speed = int(found[1]), float(found[2])
        elif found := _COUNT.search(text):
            name, value = found[1], float(found[2])
            if not self._runs or name in self._runs[-1][1] or self._runs[-1][2]:
                if len(self._runs) >= MOST_RUNS:
                    return
                speed, self._speed = self._speed, None
                said = {"prompts": float(speed[0]), "speed": speed[1]} if speed else {}
                self._runs.append((at, said, []))
            self._runs[-1][1][name] = value
        elif (found := _RATE.search(text)) and self._runs:
            rates = self._runs[-1][2]
            if int(found[1]) == len(rates):
                rates.append(float(found[2]))

    def readings(self) -> Iterator[Reading]:
        for at, said, rates in self._runs:
            if {"num_drafts", "num_draft_tokens", "num_accepted_tokens"} <= said.keys():
                reading = self._reading(at, said, rates)
                self.undrafted += reading is None
                if reading is not None:
                    yield reading

    def _reading(self, at: LogLine, said: dict[str, float], rates: list[float]) -> Reading | None:
        steps, drafted, accepted = (
            int(said[f"num_{name}"]) for name in ("drafts", "draft_tokens", "accepted_tokens")
        )
        if not steps or not drafted:
            return None
        warnings: list[str] = []
        if accepted > drafted or steps > drafted:
            warnings.append(f"{at}: counts that contradict each other: not used")
            return make_reading(Channel("vllm", "offline example"), Counts(), warnings=warnings)
        printed = said.get("mean acceptance length")
        if printed is not None and abs(printed - 1.0 - accepted / steps) > 0.006:
            warnings.append("the mean acceptance length is not 1 + accepted / drafts: counts used")
        survival: tuple[float, ...] | None = None
        if rates and abs(sum(rates) - accepted / steps) <= 0.006 * len(rates):
            try:
                survival = check_survival(tuple(rates))
            except InputError as error:
                warnings.append(f"rates by position not used: {error}")
        elif rates:
            warnings.append("rates by position do not add up to accepted / drafts: not used")
        generated = (
            int(said["total_num_output_tokens"]) if "total_num_output_tokens" in said else None
        )
        passes = None
        if generated is not None and generated > accepted:
            passes = generated - accepted - int(said.get("prompts", 0))
            if passes < steps:
                warnings.append("accepted tokens are counted before a stop trims the output")
                passes = steps if passes > 0.9 * steps else None
        gamma = drafted // steps if drafted % steps == 0 else self.gamma
        counts = Counts(
            steps, drafted, accepted, survival, gamma, generated=generated, passes=passes
        )
        facts = {"requests": said.get("prompts"), "tokens_per_second": said.get("speed")}
        return make_reading(
            Channel("vllm", "offline example"), counts, Extras(facts=facts), warnings
        )
