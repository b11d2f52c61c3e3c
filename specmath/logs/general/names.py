"""What a printed name may mean: candidates by its words; which of them holds, identities decide."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

__all__ = ["Meaning", "Name", "name_of", "speed_of"]

Meaning = Literal[
    "steps", "drafted", "accepted", "rejected", "share", "tokens_per_step", "mean_accepted",
    "mean_drafted", "generated", "gamma", "survival", "reached", "offered", "histogram", "speed",
    "plain_speed", "step_ms", "speedup", "requests",
]  # fmt: skip
"""`survival`, `reached`, `offered`: of one position or a list of them: the rate, the steps that
accepted so far, the steps that drafted so far."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLACE = re.compile(
    r"(?:^| )(?:pos|position|token|tok|depth|at|level|idx|index|head|p|a|s|step)? ?(\d{1,3})$"
)
_OPEN_PLACE = re.compile(r"(?:^| )(?:per|by|each) (?:pos|position|positions|depth|token|level)\b")
ACCEPT = frozenset(
    [
        "accept",
        "accepts",
        "accepted",
        "acceptance",
        "accepting",
        "acc",
        "acpt",
        "acceptlen",
        "correct",
        "matched",
    ]
)
DRAFT = frozenset(
    [
        "draft",
        "drafts",
        "drafted",
        "drafting",
        "propose",
        "proposed",
        "proposal",
        "proposals",
        "proposes",
        "speculated",
        "speculative",
        "spec",
        "candidate",
        "candidates",
        "offered",
        "attempt",
        "attempts",
        "attempted",
        "guessed",
    ]
)
STEP = frozenset(
    [
        "step",
        "steps",
        "verify",
        "verifies",
        "verifications",
        "verification",
        "iteration",
        "iterations",
        "iters",
        "round",
        "rounds",
        "cycle",
        "cycles",
        "forward",
        "forwards",
        "pass",
        "passes",
        "calls",
        "verifys",
    ]
)
RATIO = frozenset(
    ["rate", "ratio", "share", "pct", "percent", "percentage", "fraction", "prob", "probability"]
)
MEAN = frozenset(["mean", "avg", "average"])
LENGTH = frozenset(["len", "length", "lengths", "acceptlen"])
OUTPUT = frozenset(
    [
        "generated",
        "predicted",
        "pred",
        "predict",
        "output",
        "completion",
        "emitted",
        "decoded",
        "decoding",
        "gen",
        "produced",
        "eval",
    ]
)
TOKENS = frozenset(["token", "tokens", "tok", "toks"])
SECOND = frozenset(["s", "sec", "secs", "second", "seconds"])
PLAIN = frozenset(
    ["baseline", "plain", "vanilla", "without", "off", "nospec", "autoregressive", "ar", "base"]
)
METHODS = frozenset(
    ["mtp", "eagle", "eagle3", "dflash", "dspark", "medusa", "ngram", "suffix", "lookup"]
)
ALONE = {
    "k": "gamma", "gamma": "gamma", "γ": "gamma", "n max": "gamma", "spec k": "gamma",
    "tau": "tokens_per_step", "τ": "tokens_per_step", "a len": "tokens_per_step",
    "block efficiency": "tokens_per_step", "mal": "tokens_per_step",
    "tps": "speed", "throughput": "speed", "speed": "speed", "speedup": "speedup",
    "speed up": "speedup", "requests": "requests", "n requests": "requests", "samples": "requests",
    "large model step": "steps", "large model steps": "steps",
}  # fmt: skip
"""Names that are one word of the trade. `decoding step` beside them is Sequoia's output."""
NOT_OURS = frozenset(
    [
        "prompt",
        "prompts",
        "prefill",
        "pp",
        "input",
        "inputs",
        "cache",
        "cached",
        "kv",
        "prefix",
        "http",
        "connection",
        "connections",
        "bytes",
        "created",
        "bucket",
        "http",
        "bound",
        "queue",
        "waiting",
        "memory",
        "mem",
        "graph",
        "graphs",
        "std",
        "min",
        "max",
        "p50",
        "p90",
        "p95",
        "p99",
        "median",
        "latency",
        "ttft",
        "encoded",
        "pending",
        "status",
        "port",
        "pid",
        "temperature",
        "seed",
        "version",
        "rss",
    ]
)


@dataclass(frozen=True)
class Name:
    """A name with what it may mean, its position (0-based as printed) and whether it alone says
    that drafts are meant (`plain` names such as "steps" do not)."""

    text: str
    meanings: tuple[Meaning, ...] = ()
    position: int | None = None
    ours: bool = False
    total: bool = False


def speed_of(text: str) -> Meaning | None:
    """What a name says of a number whose unit is tokens per second."""
    held = frozenset(_words(text[:80]))
    if held & (NOT_OURS | ACCEPT | {"draft", "drafted", "drafting"}):
        return None
    return "plain_speed" if held & PLAIN else "speed"


def _words(text: str) -> list[str]:
    text = re.sub(r"(?i)\b(tok(?:en)?s?|t)[/_]s\b", "tok per s", text)
    text = _CAMEL.sub(" ", text)
    text = re.sub(r"/", " per ", text.lower())
    return re.sub(r"[^a-zτγ0-9%]+", " ", text).split()


@lru_cache(maxsize=4096)
def name_of(text: str) -> Name:
    """The meanings that the words of `text` allow; none for a name that is not of this field."""
    words = _words(text[:80])
    joined, held = " ".join(words), frozenset(words)
    total = bool(held & {"total", "cumulative", "cum", "cur", "sum", "overall"})
    if not words or (held & NOT_OURS and joined not in ALONE):
        return Name(text)
    held -= {"num", "n", "total", "number", "of", "count", "ct", "cnt", "the", "decode"}
    ours = bool(held & (ACCEPT | DRAFT)) or joined in ALONE
    held -= METHODS
    place = _PLACE.search(joined)
    listed = bool(_OPEN_PLACE.search(joined)) or "positions" in held or joined.startswith("pos acc")
    if re.fullmatch(r"(?:position|pos) \d{1,3}", joined) and place:
        return Name(text, ("survival", "reached"), int(place.group(1)))
    if "speedup" in held or words[0] == "vs" or held >= {"speed", "up"}:
        return Name(text, ("speedup",))
    if (place or listed) and held & (ACCEPT | DRAFT):
        position = int(place.group(1)) if place else None
        if held & ACCEPT:
            return Name(text, ("survival", "reached"), position, ours=True)
        return Name(text, ("offered",), position, ours=True)
    bare = joined.removeprefix("n ").removeprefix("num ")
    if bare in ALONE or joined in ALONE:
        meaning: Meaning = ALONE.get(joined) or ALONE[bare]  # type: ignore[assignment]
        return Name(text, (meaning,), ours=ours, total=total)
    if joined in ("decoding step", "decoding steps"):
        return Name(text, ("generated",), total=total)
    found = _rated(words, held) or _counted(held)
    return Name(text, found, ours=ours, total=total)


def _rated(words: list[str], held: frozenset[str]) -> tuple[Meaning, ...]:
    """A mean, a share or a speed."""
    if "per" in words:
        at = words.index("per")
        over, under = frozenset(words[:at]), frozenset(words[at + 1 :])
        if under & SECOND and (over & TOKENS or over & OUTPUT):
            return ("plain_speed",) if over & PLAIN else ("speed",)
        if under & STEP and over & {"ms", "time"}:
            return ("step_ms",)
        if under & (STEP | {"draft"}):
            if over & ACCEPT:
                return ("mean_accepted", "tokens_per_step")
            if over & DRAFT:
                return ("mean_drafted",)
            if over & (TOKENS | OUTPUT):
                return ("tokens_per_step",)
        return ()
    if held & PLAIN and held & (SECOND | TOKENS | {"tps", "speed", "throughput"}):
        return ("plain_speed",)
    if held & {"ms"} and held & STEP:
        return ("step_ms",)
    if "histogram" in held or "hist" in held:
        return ("histogram",) if held & (ACCEPT | DRAFT) else ()
    if held <= MEAN | LENGTH and held & MEAN and held & LENGTH:
        return ("tokens_per_step", "mean_accepted")
    if held & ACCEPT and held & (LENGTH | MEAN) and not held & RATIO:
        return ("tokens_per_step", "mean_accepted")
    if held & RATIO and (held & (ACCEPT | {"hit"}) or held <= RATIO | MEAN):
        return ("share",)
    if held & DRAFT and held & (MEAN | LENGTH | {"size", "depth"}):
        return ("mean_drafted", "gamma") if not held & MEAN else ("mean_drafted",)
    if held & {"speed", "throughput", "tps"} and not held & (DRAFT | ACCEPT):
        return ("speed",)
    return ()


def _counted(held: frozenset[str]) -> tuple[Meaning, ...]:
    """A count."""
    if held & {"rejected", "rejects", "reject", "rejections"}:
        return ("rejected",)
    if held & ACCEPT:
        return ("accepted", "share") if held == {"acceptance"} else ("accepted",)
    if held & DRAFT:
        if held & STEP:
            return ("steps",)
        if held & TOKENS and "speculative" in held:
            return ("gamma", "drafted")
        return ("drafted",) if held & TOKENS else ("drafted", "steps", "gamma")
    if held & STEP and held <= STEP | {"target", "model", "large", "llm", "main"}:
        return ("steps",)
    if held & OUTPUT and held <= OUTPUT | TOKENS | {"new"}:
        return ("generated",)
    return ()
