"""One published measurement as this product understands it, whichever kind of CSV it came from.

A row's cells, what its note says in fixed forms, and what `data/published/sources.toml` knows of
its source: spellings, how the server was loaded, which number of this product the row set.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from specmath.published.rows import Kind, Quantity, Rows, read

__all__ = [
    "FILES", "Case", "Code", "Noted", "Reason", "cases_of", "engine_of", "newer", "options",
    "read_notes", "said_of", "shipped", "spelt",
]  # fmt: skip

Code = Literal[
    "inferred", "lossy", "not measured", "no acceptance", "no gamma", "tree", "load",
    "drafter", "draft model", "no gpu", "gpu", "split", "no model", "model", "sparse draft cache",
    "cached prompts", "config", "refused", "not predicted", "theirs",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is not scored: a code, and what of the row it is about."""

    code: Code
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One row: what ran, how it was loaded, what was measured. None or "" is not known.

    Attributes
    ----------
    id, kind, source, citation
        The row's id and kind; who measured; where it can be read.
    model, config, hardware, engine, drafter, draft_model, precision, kv_dtype
        As written; `config` is the text of a config.json. `drafter` is "" without speculation.
    gpus
        GPUs of a replica that share every layer.
    gamma, depth
        Drafted tokens a step in a chain; passes of the drafter where the draft is a tree.
    alpha, tau, c
        Acceptance, tokens a step, cost of a draft's forward.
    verify, drafting, step, step_ms
        v, d and s in plain steps where they were timed, and the whole step in ms.
    plain_ms
        Time per token of plain decoding, ms: what a reader of the row may anchor on.
    load
        Requests in flight or sequences decoded together, as written.
    concurrency
        The same as a number.
    prompt_tokens, output_tokens, context_tokens, cached_tokens
        Of a request; `context_tokens` where it was held; those of the prompt that the prefix cache
        holds.
    chunk_tokens, request_rate
        Tokens of a step at most; requests a second of an open loop.
    attention_dp, experts, expert_slices
        Replicas of the attention, and ranks over which experts are spread; 1 is plain tensor
        parallelism.
    decode_only
        Whether prompts are read on other machines.
    ours
        Whether it is of the record that comes with specmath, and may have set what predicts it.
    measured
        What was measured, by quantity.
    doubt
        Why the row may not be scored at all.
    cells
        The row as read: where the tables of sources look.
    """

    id: str
    kind: str
    source: str
    citation: str
    model: str
    hardware: str
    engine: str
    measured: Mapping[Quantity, float]
    cells: Mapping[str, Any] = field(repr=False, compare=False)
    config: str = ""
    drafter: str = ""
    draft_model: str = ""
    precision: str = ""
    kv_dtype: str = ""
    gpus: int | None = None
    gamma: int | None = None
    depth: int | None = None
    alpha: float | None = None
    tau: float | None = None
    c: float | None = None
    verify: float | None = None
    drafting: float | None = None
    step: float | None = None
    step_ms: float | None = None
    plain_ms: float | None = None
    load: str = ""
    concurrency: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    context_tokens: int | None = None
    cached_tokens: int | None = None
    chunk_tokens: int | None = None
    request_rate: float | None = None
    attention_dp: int = 1
    experts: int = 1
    expert_slices: int = 1
    decode_only: bool = False
    ours: bool = False
    doubt: Reason | None = None

    @property
    def speculates(self) -> bool:
        """Whether a draft ran."""
        return bool(self.drafter)


FILES = {
    "published_speedups": "",
    "served_plain": "aiconfigurator (NVIDIA, Apache-2.0), measured serving points of August 2026",
    "served_speculative": "",
    "served_open_loop": "BLIS, measured stages of vLLM 0.15.1 on H100",
}
"""The files of the record, and who measured where a row does not say."""


@cache
def shipped() -> tuple[Case, ...]:
    """Every row of the record that comes with specmath, in the order of its files."""
    with resources.as_file(resources.files("specmath").joinpath("data/published")) as folder:
        texts = {name: (folder / f"{name}.csv").read_text("utf-8") for name in FILES}
        return tuple(
            case
            for name, source in FILES.items()
            for case in cases_of(read(texts[name], name), folder, source)
        )


def cases_of(rows: Rows, folder: Path | None = None, source: str | None = None) -> tuple[Case, ...]:
    """Each row of a file as a case.

    Parameters
    ----------
    rows
        The file as read.
    folder
        Where the config.json lie that a `config` column names; a row whose own cannot be read is
        a case that says so.
    source
        Of a file of the record only: who measured, where a row does not say.
    """
    configs = {name: _config(folder, name) for name in {row.get("config") for row in rows.cells}}
    ours, source = source is not None, source or rows.name
    return tuple(
        _case(rows.kind, cells, configs[cells.get("config")], cells["source"] or source, ours)
        for cells in rows.cells
    )


def _config(folder: Path | None, name: str | None) -> str | Reason:
    """The text of a config.json in that folder; never of a file elsewhere."""
    if not name:
        return ""
    path = Path(name)
    if folder is None or path.is_absolute() or ".." in path.parts:
        return Reason("config", name)
    try:
        return (folder / path).read_text("utf-8")
    except (OSError, ValueError):
        return Reason("config", name)


def _case(
    kind: Kind, cells: Mapping[str, Any], config: str | Reason, source: str, ours: bool
) -> Case:
    note = cells.get("notes") or ""
    known = {name: cells[column] for name, column in kind.case.items()}
    if "drafter" in known:
        known["drafter"] = known["drafter"] or "unnamed"
    if known.get("concurrency") is not None:
        known["load"] = str(known["concurrency"])
    doubt = _doubt([str(cells[name] or "") for name in kind.inputs], note)
    return Case(
        id=cells["id"], kind=kind.name, source=source, citation=cells.get("url") or source,
        engine=" ".join(cells[column] for column in kind.engine if cells[column]),
        measured={q: cells[c] for q, c in kind.measured.items() if cells[c] is not None},
        ours=ours, cells=cells, config=config if isinstance(config, str) else "",
        doubt=config if isinstance(config, Reason) else doubt,
        **(known | _MORE[kind.name](cells, read_notes(note, _whole(str(cells.get("gamma")))))),
    )  # fmt: skip


# ── what is no cell as it stands, by kind ────────────────────────────────────────────────────

_WHOLE = re.compile(r"\d{1,6}")
_LENGTHS = re.compile(r"(?:^|\s)(\d{1,6})(K?)/(\d{1,6})(K?)(?=$|\s)")
_HELD = re.compile(r"\bS=(\d+)\b")
_DEPTH = re.compile(r"\btree\b.*\bdepth (\d{1,3})\b")
_APART = re.compile(r"\bPD\b")
_DP = re.compile(r"\bdp_attention=True\b")


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _of_speedup(cells: Mapping[str, Any], noted: Noted) -> dict[str, Any]:
    """A task may be written "1K/1K", "8192/1024", "S=4096" or "PD"."""
    task, gamma = cells["task/dataset"], _whole(cells["gamma"])
    tree, lengths, held = (p.search(t) for p, t in (
        (_DEPTH, cells["gamma"]), (_LENGTHS, task), (_HELD, task)))  # fmt: skip
    prompt, output = (
        int(lengths[i]) * (1024 if lengths[i + 1] else 1) if lengths else None for i in (1, 3)
    )
    drafting = noted.drafting
    if drafting is None and gamma is not None and cells["c"] is not None:
        drafting = gamma * cells["c"]
    alone = 1e3 / noted.plain_speed if noted.plain_speed and cells["batch"] == "1" else None
    return {
        "gamma": gamma, "depth": tree and int(tree[1]), "verify": noted.verify,
        "drafting": drafting, "plain_ms": noted.plain or alone,
        "concurrency": _whole(cells["batch"]), "prompt_tokens": prompt, "output_tokens": output,
        "context_tokens": noted.prefill or (held and int(held[1])),
        "decode_only": bool(_APART.search(task)),
    }  # fmt: skip


def _of_plain(cells: Mapping[str, Any], _: Noted) -> dict[str, Any]:
    return {
        "precision": cells["moe_dtype"] or cells["gemm_dtype"] or cells["precision"],
        "attention_dp": cells["attention_dp"] or 1, "experts": cells["moe_ep"] or 1,
        "expert_slices": cells["moe_tp"] or 1,
    }  # fmt: skip


def _of_speculative(cells: Mapping[str, Any], noted: Noted) -> dict[str, Any]:
    """Of an aggregate rate no plain time follows, since the sequences in flight also read prompts;
    how often attention is replicated the row does not say."""
    rate, plain, spec = (cells[c] for c in ("plain_tok_s", "plain_step_ms", "spec_step_ms"))
    alone = 1e3 / rate if rate and cells["tok_s_kind"] == "single stream" else None
    return {
        "step": spec / plain if plain and spec else None, "verify": noted.verify,
        "drafting": noted.drafting, "plain_ms": cells["plain_tpot_ms"] or alone,
        "attention_dp": 2 if _DP.search(cells["notes"]) else 1,
    }  # fmt: skip


def _of_open_loop(cells: Mapping[str, Any], _: Noted) -> dict[str, Any]:
    """`output_tokens_measured` is (E2E − TTFT) / ITL + 1: the gaps that the client counted, which
    are fewer where it saw several tokens, or none, in a message. Where it is a fifth less than what
    was asked for, the times of requests spread too little for answers that ended early."""
    rate, question = cells["requests_per_second"], cells["question_tokens"]
    shared = cells["shared_system_prompt_tokens"] or 0
    return {
        "load": "" if rate is None else f"{rate:g} requests/s", "cached_tokens": shared,
        "prompt_tokens": None if question is None else question + shared,
        "output_tokens": cells["output_tokens"] or cells["output_tokens_measured"],
    }  # fmt: skip


_MORE: dict[str, Callable[[Mapping[str, Any], Noted], dict[str, Any]]] = {
    "speedup": _of_speedup, "plain": _of_plain, "speculative": _of_speculative,
    "open loop": _of_open_loop,
}  # fmt: skip


# ── what a note says in the fixed forms that this record writes; nothing else of it is read ──

_NUMBER = r"(\d+(?:\.\d+)?)"
_FORMS = {
    "plain": rf"\bT_AR={_NUMBER} ?ms",
    "verify": rf"\bT_V={_NUMBER} ?ms",
    "draft": rf"\bgT_D={_NUMBER} ?ms",
    "prefill": r"\bprefill=(\d+)\b",
    "speeds": rf"(?<![\d.]){_NUMBER}->{_NUMBER} tok/s(?!/GPU|/rank)",
    "baseline": rf"\bbaseline {_NUMBER} tok/s",
    "slopes": rf"\bc_draft {_NUMBER}, c_verify {_NUMBER} per extra token",
}
_PASS = re.compile(rf"\bT\((\d+)\)={_NUMBER}")
_INFERRED = re.compile(r"\b(?:presumed|believed|from memory)\b")
_LOSSY = re.compile(r"\blenience\b|\bNOT lossless\b|\bspeculative-accept-threshold")


class Noted(NamedTuple):
    """Numbers read from a note; None where it does not say. `verify`, `drafting`: v(γ) and d(γ) in
    plain steps; `plain`: ms of a plain step; `plain_speed`: tokens a second without speculation."""

    verify: float | None
    drafting: float | None
    plain: float | None
    prefill: int | None
    plain_speed: float | None


def read_notes(text: str, gamma: int | None) -> Noted:
    """The numbers of a note. v is that of the two times, else of a curve of passes over n tokens
    (straight between its points), else of a slope a token; d of the times, else of a slope.

    Examples
    --------
    >>> noted = read_notes("tier=A+; prefill=1024; gT_D=8.21ms; T_V=9.55ms; T_AR=8.27ms", 2)
    >>> round(noted.verify, 3), round(noted.drafting, 3), noted.prefill
    (1.155, 0.993, 1024)
    """
    hits = {name: re.search(form, text) for name, form in _FORMS.items()}
    found = {name: tuple(map(float, hit.groups())) for name, hit in hits.items() if hit}
    first = {name: values[0] for name, values in found.items() if values[0]}
    plain, verify, drafting = first.get("plain"), None, None
    if gamma is not None:
        if "slopes" in found:
            drafting, verify = gamma * found["slopes"][0], 1.0 + gamma * found["slopes"][1]
        passes = sorted((int(n), float(ms)) for n, ms in _PASS.findall(text) if float(ms))
        if len(passes) > 1 and passes[0][0] == 1 and gamma < passes[-1][0]:
            tokens, times = zip(*passes, strict=True)
            verify = float(np.interp(gamma + 1, tokens, times) / times[0])
        if plain and "verify" in first:
            verify = first["verify"] / plain
        if plain and "draft" in first:
            drafting = first["draft"] / plain
    prefill = int(first["prefill"]) if "prefill" in first else None
    return Noted(verify, drafting, plain, prefill, first.get("speeds") or first.get("baseline"))


def _doubt(inputs: list[str], note: str) -> Reason | None:
    """An input that was inferred by whoever read the source; or tokens accepted that exact
    sampling would have refused: no formula here is about a speedup so bought."""
    if any("?" in cell or _INFERRED.search(cell) for cell in inputs) or _INFERRED.search(note):
        return Reason("inferred")
    return Reason("lossy") if _LOSSY.search(note) else None


# ── what data/published/sources.toml says ────────────────────────────────────────────────────


Table = Literal["arrivals", "lengths", "in_flight", "sets", "unlike", "cache"]


@cache
def _sources() -> dict[str, Any]:
    place = resources.files("specmath").joinpath("data/published/sources.toml")
    return tomllib.loads(place.read_text(encoding="utf-8"))


def spelt(table: str, text: str) -> str:
    """The catalogue's spelling of a name that a row writes in its own way; else the name."""
    found: str = _sources()[table].get(text, text)
    return found


def options(table: str, text: str) -> tuple[str, ...] | None:
    """What a cell may stand for, best first; None where the table has no entry."""
    found = _sources()[table].get(text)
    return None if found is None else tuple(found)


@lru_cache(maxsize=1024)
def engine_of(text: str) -> str | None:
    """The engine that a row or its source names; None where it names none."""
    small = text.lower()
    fits = (e["name"] for e in _sources()["engine"] if all(word in small for word in e["words"]))
    return next(fits, None)


def newer(engine: str, version: tuple[int, int]) -> str | None:
    """The entry of data/engines.toml that plain decoding is like from a version on; None where it
    is the engine's own."""
    for entry in _sources()["version"]:
        major, minor = map(int, entry["since"].split("."))
        if entry["engine"] == engine and version >= (major, minor):
            return str(entry["is"])
    return None


def said_of(table: Table, case: Case) -> str:
    """What a table of sources says of a row, "" where nothing: how requests came, their
    mean lengths over those named, how many were in flight where the cell is contradicted, the
    number of this product that the row set, the code of what ran otherwise than a scenario can
    say, the declared format of the KV cache.

    The first entry counts all of whose cells begin as it says (a list: in one of these ways); a
    column that the kind of file lacks, or a blank one, is that of the case.
    """
    for entry in _sources()[table]:
        if all(_begins(case, column, start) for column, start in entry["where"].items()):
            return str(entry["is"])
    return ""


def _begins(case: Case, column: str, start: str | list[str]) -> bool:
    cell = str(case.cells.get(column) or getattr(case, column, ""))
    return cell.startswith(start if isinstance(start, str) else tuple(start))
