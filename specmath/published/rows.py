"""A CSV of published measurements as rows of checked cells: which kind it is, and what is wrong."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from specmath.checks import InputError, short

__all__ = ["KINDS", "QUANTITIES", "Kind", "Quantity", "Rows", "read"]

Quantity = Literal["speedup", "tpot_ms", "ttft_mean_ms", "itl_mean_ms", "e2e_mean_ms", "e2e_p99_ms"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)

MOST_ROWS = 1_000_000
LONGEST_ID = 200


@dataclass(frozen=True)
class Kind:
    """One kind of CSV. A cell may be empty: not known.

    Attributes
    ----------
    name
        What it is called.
    marks
        Columns by which it is told and which it must have.
    numbers, counts, shares, texts
        Columns that hold numbers > 0, whole numbers >= 0, numbers within [0, 1]; the rest that is
        read.
    family
        A pattern of the names of more numbers > 0: another tool's.
    measured
        The column of each quantity.
    case
        The column of each attribute of a case that is a cell as it stands.
    engine, inputs
        Columns whose words tell the engine; columns whose doubt is the row's.
    """

    name: str
    marks: tuple[str, ...]
    numbers: tuple[str, ...]
    counts: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    family: str = ""
    measured: Mapping[Quantity, str] = field(default_factory=dict)
    case: Mapping[str, str] = field(default_factory=dict)
    engine: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> dict[str, str]:
        """Every column that is read, and what it holds: "number", "count", "share" or "text"."""
        held = {
            "text": (*self.marks, *self.texts), "number": self.numbers,
            "count": self.counts, "share": self.shares,
        }  # fmt: skip
        return {column: what for what, columns in held.items() for column in columns}

    def holds(self, column: str) -> str | None:
        """What a column holds; None of one that is not read."""
        if column in self.columns:
            return self.columns[column]
        return "number" if self.family and re.fullmatch(self.family, column) else None


KINDS = (
    Kind(
        "speedup",
        ("id", "target_model", "measured_speedup"),
        ("mean_accepted_len", "c", "measured_speedup", "predicted_by_authors"),
        shares=("alpha",),
        texts=("source", "year", "draft_method", "draft_model", "hardware", "batch",
               "task/dataset", "temperature", "gamma", "measured_kind", "notes"),
        measured={"speedup": "measured_speedup"},
        case={"model": "target_model", "hardware": "hardware", "drafter": "draft_method",
              "draft_model": "draft_model", "alpha": "alpha", "tau": "mean_accepted_len", "c": "c",
              "load": "batch"},
        engine=("source", "hardware"),
        inputs=("target_model", "hardware", "batch", "gamma"),
    ),
    Kind(
        "open loop",
        ("id", "model", "requests_per_second"),
        ("requests_per_second", "stage_seconds", "ttft_mean_ms", "itl_mean_ms", "e2e_mean_ms",
         "e2e_p99_ms", "ttft_p90_ms", "ttft_p99_ms", "e2e_p90_ms"),
        ("tensor_parallel", "question_tokens", "shared_system_prompt_tokens", "output_tokens",
         "output_tokens_measured", "max_num_seqs", "max_num_batched_tokens", "kv_tokens",
         "system_prompts", "users_per_system_prompt"),
        texts=("config", "gpu", "precision", "engine", "multi_turn", "source"),
        family=r"[\w-]+_(?:ttft_mean|itl_mean|e2e_mean|e2e_p99)",
        measured={"ttft_mean_ms": "ttft_mean_ms", "itl_mean_ms": "itl_mean_ms",
                  "e2e_mean_ms": "e2e_mean_ms", "e2e_p99_ms": "e2e_p99_ms"},
        case={"model": "model", "hardware": "gpu", "precision": "precision",
              "gpus": "tensor_parallel", "request_rate": "requests_per_second",
              "chunk_tokens": "max_num_batched_tokens"},
        engine=("engine",),
        inputs=("model", "gpu", "engine"),
    ),
    Kind(
        "plain",
        ("id", "model", "tpot_ms"),
        ("ttft_ms", "tpot_ms"),
        ("prompt_tokens", "output_tokens", "concurrency", "tensor_parallel", "attention_dp",
         "moe_tp", "moe_ep"),
        texts=("engine", "engine_version", "gpu", "precision", "gemm_dtype", "moe_dtype", "config",
               "source"),
        measured={"tpot_ms": "tpot_ms", "ttft_mean_ms": "ttft_ms"},
        case={"model": "model", "hardware": "gpu", "gpus": "tensor_parallel",
              "concurrency": "concurrency", "prompt_tokens": "prompt_tokens",
              "output_tokens": "output_tokens"},
        engine=("engine", "engine_version"),
        inputs=("model", "gpu", "engine"),
    ),
    Kind(
        "speculative",
        ("id", "target"),
        ("mean_batch", "tau", "plain_tpot_ms", "spec_tpot_ms", "plain_step_ms", "spec_step_ms",
         "plain_tok_s", "spec_tok_s", "speedup", "plain_p99_tpot_ms", "spec_p99_tpot_ms",
         "plain_p99_itl_ms", "spec_p99_itl_ms", "plain_ttft_ms", "spec_ttft_ms"),
        ("gamma", "gpus", "isl", "osl", "concurrency"),
        ("acceptance_per_drafted",),
        ("source", "url", "date", "weights", "kv_dtype", "drafter", "kind", "hardware", "engine",
         "workload", "temperature", "per_position", "tok_s_kind", "speedup_kind", "tier", "notes",
         "config"),
        measured={"speedup": "speedup", "tpot_ms": "spec_tpot_ms"},
        case={"model": "target", "hardware": "hardware", "drafter": "kind",
              "draft_model": "drafter", "precision": "weights", "kv_dtype": "kv_dtype",
              "gpus": "gpus", "gamma": "gamma", "tau": "tau", "step_ms": "spec_step_ms",
              "concurrency": "concurrency", "prompt_tokens": "isl", "output_tokens": "osl"},
        engine=("engine", "hardware"),
        inputs=("target", "hardware", "engine"),
    ),
)  # fmt: skip
"""The four kinds, as `specmath/data/published` has them."""


@dataclass(frozen=True)
class Rows:
    """The rows of one file, cells by column: text, a number, or None where empty. `unread`: columns
    that the file has and nothing reads."""

    kind: Kind
    name: str
    cells: tuple[Mapping[str, Any], ...]
    unread: tuple[str, ...]

    def placed(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each row with where it stands, for a message."""
        for number, cells in enumerate(self.cells, start=2):
            yield f"{self.name}, row {number} ({short(cells['id'])})", cells


def read(text: str, name: str, kinds: tuple[Kind, ...] = KINDS, *, unique: bool = True) -> Rows:
    """The rows of a CSV text; `name` stands in the messages.

    The kind is told by the column names. Any column but those of `marks` may be left out.

    Parameters
    ----------
    text, name
        The file.
    kinds
        What it may be.
    unique
        Whether an id may stand once only.

    Raises
    ------
    InputError
        The text is no CSV, of none of the kinds, has a row of another length, an empty or repeated
        id, or a cell that is no number of its column's range.

    Examples
    --------
    >>> found = read("id,target_model,measured_speedup\\na,Llama-3.1-8B,1.5\\n", "mine.csv")
    >>> found.kind.name, found.cells[0]["measured_speedup"]
    ('speedup', 1.5)
    """
    lines = _lines(text.removeprefix("\ufeff"), name)
    header = [column.strip() for column in lines[0]]
    kind = _kind_of(header, name, kinds)
    held = [(column, kind.holds(column)) for column in header]
    empty = {column: "" if what == "text" else None for column, what in kind.columns.items()}
    at, seen, cells = header.index("id"), dict[str, int](), []
    for number, line in enumerate(lines[1:], start=2):
        where = f"{name}, row {number}"
        if len(line) != len(header):
            raise InputError(
                f"{where} must have {len(header)} cells as the header has, got {len(line)}"
                " (quote a cell with a comma in it, and write decimal points)"
            )
        key = line[at].strip()
        if not key or len(key) > LONGEST_ID:
            raise InputError(
                f"{where} must have an id of 1 to {LONGEST_ID} characters, got {len(key)}"
            )
        if unique and seen.setdefault(key, number) != number:
            raise InputError(
                f"{name} must have unique ids, got {short(key)!r} in rows {seen[key]} and {number}"
            )
        row: dict[str, Any] = dict(empty)
        for (column, what), text in zip(held, line, strict=True):
            if what is not None:
                row[column] = _cell(what, column, text.strip(), f"{where} ({short(key)})")
        cells.append(row)
    return Rows(kind, name, tuple(cells), tuple(c for c, what in held if what is None))


def _lines(text: str, name: str) -> list[list[str]]:
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
    except csv.Error as error:
        raise InputError(f"{name} is no CSV that can be read: {error}") from error
    if len(lines) < 2:
        raise InputError(f"{name} must have a header and at least 1 row, got {len(lines)} lines")
    if len(lines) > MOST_ROWS + 1:
        raise InputError(f"{name} must have at most {MOST_ROWS:,} rows, got {len(lines) - 1:,}")
    return lines


def _kind_of(header: list[str], name: str, kinds: tuple[Kind, ...]) -> Kind:
    if len(header) == 1 and ";" in header[0]:
        raise InputError(f"{name} must separate its cells by commas, got semicolons")
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise InputError(f"{name} must name each column once, got {short(twice[0])!r} twice")
    found = next((kind for kind in kinds if {*kind.marks} <= {*header}), None)
    if found is not None:
        return found
    wanted = "; or ".join(f"{', '.join(kind.marks)} ({kind.name})" for kind in kinds)
    raise InputError(f"{name} must have the columns {wanted}, got {short(', '.join(header))}")


_RANGES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "number": ("a number > 0", lambda value: value > 0),
    "count": ("a whole number >= 0", lambda value: value >= 0 and value == int(value)),
    "share": ("a number from 0 to 1", lambda value: 0 <= value <= 1),
}


def _cell(what: str, column: str, text: str, where: str) -> str | float | int | None:
    if what == "text":
        return text
    if text == "":
        return None
    wanted, within = _RANGES[what]
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and within(value)):
        comma = ", with a decimal point" if "," in text else ""
        raise InputError(f"{where}: {column} must be {wanted}{comma}, got {short(text)!r}")
    return int(value) if what == "count" else value
