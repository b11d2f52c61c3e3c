"""Fit what drafters cost an engine's host, and how their drafts are accepted, to measured steps.

    python -m tools.drafter_fit > specmath/data/drafters.toml
    python -m tools.drafter_fit --errors

Forwards are computed; the host's part is what is left of the step, by least squares on
log(computed / measured) with each source weighing once. A measured plain step anchors each row, so
that an error of the plain step sets nothing. `--errors` prints measured over computed steps with
everything computed, as a user gets them: before (the engine's own host costs), after, and after
with the row's own source left out of the fit.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from scipy.optimize import least_squares

from specmath import engines, models
from specmath.checks import FloatArray
from specmath.drafters import named
from specmath.drafters.host import ANY
from specmath.engines import MILLI, Engine
from specmath.serving.pair import ServedPair
from specmath.steptime import Placement
from specmath.trees import best_tree, branch_of, expected_tree_tokens

DATA = Path(__file__).parent.parent / "tests" / "data" / "drafters"
HEAD = """\
# Written by tools/drafter_fit.py: do not edit. Milliseconds of the host by kind of drafter and
# engine ("any": where the kind was not measured). error: 10 and 90% of measured over computed step
# with the row's source left out. state: how often an engine moves the states of linear attention
# for each verified position. depth: by how much the chance of a position falls for each
# past the trained depth. tree: share of what the choices before it missed that a next one catches.

"""


@dataclass(frozen=True)
class Row:
    """One measured step with a draft, and the plain one beside it; seconds."""

    id: str
    source: str
    kind: str
    engine: str
    pair: ServedPair
    gamma: int
    tokens: float
    plain: float
    spec: float
    per_token: bool
    fits: bool

    @cached_property
    def waiting(self) -> float:
        """What other requests' prompts took of each token, where the times are of tokens."""
        if not self.per_token or self.pair.batch == 1:
            return 0.0
        return max(0.0, self.plain - self.pair.plain_seconds)

    @cached_property
    def step(self) -> float:
        """The measured step with a draft."""
        return self.tokens * (self.spec - self.waiting) if self.per_token else self.spec

    @cached_property
    def plain_step(self) -> float:
        return self.plain - self.waiting

    @cached_property
    def forwards(self) -> float:
        """The step with its draft beyond a plain one, forwards alone."""
        return float(self.pair.seconds(self.gamma)) - self.pair.plain_seconds

    @cached_property
    def state(self) -> float:
        """Seconds of moving the states of linear attention once for all verified positions."""
        p = self.pair
        moved = p.batch * self.gamma * p.target.state_bytes() / p.place.tensor_parallel
        return moved / (p.place.device.bandwidth * p.place.memory_efficiency)

    def _more(self, host: FloatArray, states: float) -> float:
        """Seconds beyond the forwards; host: step, pass and sequence in ms."""
        counts = [1.0, float(self.pair.drafter.passes(self.gamma)), self.pair.batch]
        return float(host @ counts) * MILLI + states * self.state

    def ratio(self, host: FloatArray, states: float) -> float:
        """Measured over computed step, anchored on the plain one."""
        return self.step / (self.plain_step + self.forwards + self._more(host, states))

    def whole_ratio(self, host: FloatArray, states: float) -> float:
        """Measured over computed s with everything computed, as a user gets it."""
        more = self.forwards + self._more(host, states)
        return self.step / self.plain_step / (1.0 + more / self.pair.plain_seconds)

    @property
    def before(self) -> FloatArray:
        """The engine's own host costs."""
        own = _engine(self.engine)
        return np.array([own.step, own.pass_, own.draft_sequence]) / MILLI


def read(name: str) -> list[dict[str, str]]:
    """The rows of a data file, comments left out."""
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def steps() -> list[Row]:
    """Every measured step."""
    return [_row(row) for row in read("steps.csv")]


def _engine(name: str) -> Engine:
    return engines.named("vllm" if name == ANY else name)


def _row(row: Mapping[str, str]) -> Row:
    text = row["model"]
    model = (DATA / text).read_text("utf-8") if text.endswith(".json") else text
    stored = None if row["weight_dtype"] == "native" else row["weight_dtype"]
    place = Placement(models.named(model), row["gpu"], int(row["tensor_parallel"]), stored)
    # Nothing of speculation, nor what is stored of it: a name that no row has.
    bare = replace(_engine(row["engine"]), name="", step=0.0, pass_=0.0, draft_sequence=0.0)
    return Row(
        id=row["id"],
        source=row["source"],
        kind=row["draft"],
        engine=row["engine"],
        pair=ServedPair(
            place, named(row["draft"]), int(row["batch"]), int(row["context_tokens"]), bare
        ),
        gamma=int(row["gamma"]),
        tokens=float(row["tokens_per_step"]),
        plain=float(row["plain_ms"]) * MILLI,
        spec=float(row["spec_ms"]) * MILLI,
        per_token=row["time"] == "tpot",
        fits=row["use"] == "fit",
    )


# ── host costs ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Group:
    """Host costs that one fit sets: of a kind on an engine, from the rows of `engines`; `free`:
    which of step, pass and sequence its rows can tell apart."""

    kind: str
    engine: str
    engines: tuple[str, ...]
    free: tuple[bool, bool, bool]

    def rows(self, every: Iterable[Row]) -> list[Row]:
        return [r for r in every if r.fits and r.kind == self.kind and r.engine in self.engines]


GPU_SERVERS = ("vllm", "sglang", "tensorrt-llm")
EAGLE3 = ("eagle3", "vllm")
GROUPS = (
    Group("eagle", "vllm", ("vllm",), (True, True, False)),
    Group(*EAGLE3, ("vllm",), (True, True, True)),
    Group("mtp", "llamacpp-cuda", ("llamacpp-cuda",), (True, True, False)),
    Group("mtp", ANY, ("sglang", ANY), (True, True, False)),
    Group("dflash", ANY, ("sglang",), (False, False, False)),
)
HYBRID = ("mtp", ANY), ("dflash", ANY)
"""Rows of targets with linear attention: they set the passes over its states. What a block head
costs the host cannot be told from it there: it is taken as EAGLE-3's."""

BLOCKS = ("block", "dflash", "dspark", "p-eagle")
TAKEN = {
    ("eagle3", ANY): EAGLE3,
    ("assistant", ANY): ("mtp", ANY),
    **{(kind, ANY): EAGLE3 for kind in BLOCKS},
    **{
        (kind, "llamacpp-cuda"): ("mtp", "llamacpp-cuda")
        for kind in ("eagle", "eagle3", "assistant", *BLOCKS)
    },
}
"""Kinds that were measured nowhere, or on another engine only, and whose values they take."""

SHARED = ("separate", "parallel_model", "layer_skip", "medusa", "ngram", "suffix")
"""Kinds that were not measured: the engine's own values, and EAGLE-3's cost of a sequence, for
what drafted does not matter to scheduling and rejection."""


def weights(rows: Sequence[Row]) -> FloatArray:
    """One for each source, shared by its rows."""
    counts = {r.source: sum(o.source == r.source for o in rows) for r in rows}
    return np.array([1.0 / counts[r.source] for r in rows])


def fitted(
    rows: Sequence[Row], free: Sequence[bool], states: float, known: FloatArray
) -> FloatArray:
    """Step, pass and sequence in ms, ≥ 0, at that many passes over the states; of those that are
    not free, the `known`."""
    chosen, each = np.array(free), np.sqrt(weights(rows))
    if not chosen.any():
        return known

    def values(x: FloatArray) -> FloatArray:
        full = known.copy()
        full[chosen] = x
        return full

    def residuals(x: FloatArray) -> FloatArray:
        return each * [np.log(r.ratio(values(x), states)) for r in rows]

    start = np.full(int(chosen.sum()), 0.3)
    return values(least_squares(residuals, start, bounds=(0.0, np.inf)).x)


def known_of(group: Group, every: Sequence[Row]) -> FloatArray:
    """What a group takes from EAGLE-3's fit where its own rows cannot tell."""
    nothing = np.zeros(3)
    head = next(g for g in GROUPS if (g.kind, g.engine) == EAGLE3)
    if group == head or not set(group.engines) & {*GPU_SERVERS}:
        return nothing
    return fitted(head.rows(every), head.free, 0.0, nothing)


def state_passes(every: Sequence[Row]) -> float:
    """Passes over the states at which the rows of hybrid targets are met best."""
    groups = [g for g in GROUPS if (g.kind, g.engine) in HYBRID]
    known = {g: known_of(g, every) for g in groups}

    def residuals(x: FloatArray) -> FloatArray:
        found: list[FloatArray] = []
        for group in groups:
            rows = group.rows(every)
            host = fitted(rows, group.free, float(x[0]), known[group])
            logs = [np.log(r.ratio(host, float(x[0]))) for r in rows]
            found.append(np.sqrt(weights(rows)) * logs)
        return np.concatenate(found)

    return float(least_squares(residuals, [2.0], bounds=(0.0, np.inf), diff_step=0.05).x[0])


def states_of(row: Row, passes: float) -> float:
    return passes if row.engine in (*GPU_SERVERS, ANY) else 0.0


def left_out(group: Group, every: Sequence[Row], passes: float) -> dict[str, float]:
    """Measured over computed step of each row with its own source left out of the fit."""
    rows = group.rows(every)
    found = {}
    for source in {r.source for r in rows}:
        others = [r for r in rows if r.source != source]
        if others:
            host = fitted(others, group.free, states_of(others[0], passes), known_of(group, every))
            for r in rows:
                if r.source == source:
                    found[r.id] = r.whole_ratio(host, states_of(r, passes))
    return found


def host_rows(every: Sequence[Row], passes: float) -> list[dict[str, Any]]:
    """The table of host costs."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for group in GROUPS:
        if not any(group.free):
            continue
        rows = group.rows(every)
        host = fitted(rows, group.free, states_of(rows[0], passes), known_of(group, every))
        step, each, sequence = host.round(3)
        unseen = list(left_out(group, every, passes).values())
        row = {"kind": group.kind, "engine": group.engine, "step_ms": float(step),
               "pass_ms": float(each), "sequence_ms": float(sequence), "n": len(rows)}  # fmt: skip
        if unseen:
            row["error"] = [round(float(q), 2) for q in np.quantile(unseen, (0.1, 0.9))]
        row["source"] = "; ".join(dict.fromkeys(r.source for r in rows))
        found[group.kind, group.engine] = row
    for (kind, engine), of in TAKEN.items():
        said = {"n": 0, "source": f"assumed as {of[0]} on {of[1]}"}
        found[kind, engine] = found[of] | {"kind": kind, "engine": engine} | said
        found[kind, engine].pop("error", None)
    sequence = found[EAGLE3]["sequence_ms"]
    for kind in SHARED:
        found[kind, ANY] = {
            "kind": kind, "engine": ANY, "step_ms": 0.0, "pass_ms": 0.0, "sequence_ms": sequence,
            "n": 0, "source": "assumed: the engine's own, and a sequence as eagle3 on vllm",
        }  # fmt: skip
    return list(found.values())


# ── acceptance ───────────────────────────────────────────────────────────────────────────────


def fall_past_depth() -> dict[str, Any]:
    """By how much the chance of a position falls for each position past the trained depth."""
    falls: dict[str, list[float]] = {}
    for row in read("positions.csv"):
        rates, trained = [float(rate) for rate in row["survival"].split()], int(row["trained"])
        if len(rates) > trained:
            each = [now / then for then, now in zip([1.0, *rates], rates, strict=False)]
            fall = 1.0 - (each[-1] / each[trained - 1]) ** (1.0 / (len(rates) - trained))
            falls.setdefault(row["source"], []).append(fall)
    every = [fall for each in falls.values() for fall in each]
    return {
        "fall": round(statistics.fmean(statistics.fmean(each) for each in falls.values()), 3),
        "range": [round(min(every), 3), round(max(every), 3)],
        "n": len(every),
        "source": "; ".join(falls),
    }


def next_choice() -> dict[str, Any]:
    """The share of what the choices before it missed that a node's next choice catches."""
    sources: dict[str, list[tuple[int, int, int, float]]] = {}
    for row in read("trees.csv"):
        shape = int(row["depth"]), int(row["topk"]), int(row["nodes"])
        sources.setdefault(row["source"], []).append((*shape, float(row["tokens_per_step"])))

    def errors(share: float, alpha: float, rows: Sequence[tuple[int, int, int, float]]) -> list:
        found = []
        for depth, topk, nodes, tokens in rows:
            branch = branch_of(alpha, topk, share)
            tree = best_tree(branch, nodes, max_depth=depth)
            found.append(np.log(expected_tree_tokens(tree, branch) / tokens))
        return found

    def best(share: float, rows: Sequence[tuple[int, int, int, float]]) -> list:
        each = (errors(share, alpha, rows) for alpha in np.arange(0.30, 0.80, 0.01))
        return min(each, key=lambda e: float(np.square(e).sum()))

    def miss(share: float) -> float:
        means = [float(np.square(best(share, rows)).mean()) for rows in sources.values()]
        return statistics.fmean(means)

    share = min((round(s, 2) for s in np.arange(0.05, 0.60, 0.05)), key=miss)
    every = [e for rows in sources.values() for e in best(share, rows)]
    return {
        "share": float(share),
        "rms": round(float(np.sqrt(np.square(every).mean())), 3),
        "n": len(every),
        "source": "; ".join(sources),
    }


# ── the file, and its errors ─────────────────────────────────────────────────────────────────


def document() -> dict[str, Any]:
    """Everything that is written."""
    every = steps()
    passes = round(state_passes(every), 2)
    rows = [r for g in GROUPS if (g.kind, g.engine) in HYBRID for r in g.rows(every)]
    return {
        "host": host_rows(every, passes),
        "state": {
            "passes": dict.fromkeys(GPU_SERVERS, passes),
            "n": len(rows),
            "source": "; ".join(dict.fromkeys(r.source for r in rows))
            + " on SGLang; vLLM and TensorRT-LLM assumed alike",
        },
        "depth": fall_past_depth(),
        "tree": next_choice(),
    }


def error_lines() -> Iterable[str]:
    """Computed over measured speedup less 1, in per cent: median over the rows of each kind, engine
    and source."""
    every, found = steps(), document()
    passes = found["state"]["passes"]["vllm"]
    known = {(row["kind"], row["engine"]): row for row in found["host"]}
    unseen: dict[str, float] = {}
    for group in GROUPS:
        unseen |= left_out(group, every, passes)
    table: dict[tuple[str, ...], list[tuple[float, float, float]]] = {}
    for r in every:
        row = known.get((r.kind, r.engine)) or known[r.kind, ANY]
        host = np.array([row["step_ms"], row["pass_ms"], row["sequence_ms"]])
        three = (
            r.whole_ratio(r.before, 0.0),
            r.whole_ratio(host, states_of(r, passes)),
            unseen.get(r.id, np.nan),
        )
        key = (r.kind, r.engine, r.source, "fit" if r.fits else "check")
        table.setdefault(key, []).append(three)
    yield "kind engine use n | before after left-out | source"
    for (kind, engine, source, use), ratios in table.items():
        said = " ".join(
            f"{100 * (q - 1):+6.1f}%" for q in np.median(np.array(ratios, dtype=float), axis=0)
        )
        yield f"{kind} {engine} {use} {len(ratios)} | {said} | {source}"


if __name__ == "__main__":
    if "--errors" in sys.argv:
        print("\n".join(error_lines()))
    else:
        print(HEAD + tomli_w.dumps(document()))
