"""JSON schemas of what `predict`, `logs`, `measure` and `published` write, from the records.

    python -m tools.schemas

writes docs/schemas/*.json anew; tests/test_documents.py says when they must be, and lays them
beside real output. Keys may be added to an output; none goes and none changes its type.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from specmath.logs import Reading
from specmath.measure.report import Report
from specmath.published.rows import QUANTITIES
from specmath.published.score import METHODS
from specmath.published.summary import Group
from specmath.review.gammas import GammaRow
from specmath.scenario import SPECS
from specmath.tables.columns import COLUMNS
from specmath.tables.published import ROW_COLUMNS
from specmath.words.said import Said

__all__ = ["SCHEMAS", "schemas", "text_of"]

SCHEMAS = Path(__file__).parents[1] / "docs" / "schemas"

NUMBERS = (
    "alpha", "gamma", "c", "c_hat", "sigma", "coverage", "tokens_per_step", "verify_cost",
    "step_cost", "walltime_improvement", "operations_increase", "best_gamma", "recommended_gamma",
    "optimal_gamma", "crossover_gamma", "plain_error", "verdict_gamma", "prefill_share_plain",
    "prefill_share",
)  # fmt: skip
WHOLE = {"gamma", "verdict_gamma"}
UNKNOWN = (
    "walltime_improvement_low", "walltime_improvement_high", "tpot_plain_ms", "tpot_ms",
    "tpot_ms_low", "tpot_ms_high", "usd_per_million_tokens_plain", "usd_per_million_tokens",
    "usd_per_million_tokens_low", "usd_per_million_tokens_high", "batch_plain", "batch",
    "ttft_plain_ms", "ttft_ms", "e2e_plain_ms", "e2e_ms", "chain_walltime_improvement",
)  # fmt: skip
BILL = tuple(
    f"{name}{suffix}{end}"
    for suffix in ("_plain", "")
    for name in ("replicas", "usd_per_month")
    for end in ("", "_low", "_high")
)
MEANINGS = {
    "optimal_gamma": "Fastest γ up to 10,000 or where the cost ends",
    "crossover_gamma": "First γ ≥ 1 with operations increase ≥ walltime improvement; 0: none",
    "plain_error": "Error taken for the plain step, a share; 0 where it was given",
    "recommended_gamma": "The γ to run; 0: none pays in the middle of its interval",
    "verdict_gamma": "The γ that the verdict advises; 0 is plain decoding",
    "walltime_improvement": "Speedup at `gamma`; below 1 is slower than plain decoding",
    "chain_walltime_improvement": "Of a chain of as many tokens; null where no tree is drafted",
    "tpot_plain_ms": "Mean time per output token of plain decoding, ms",
    "prefill_share": "Share of the time per token that other requests' prompts take",
    "batch": "Sequences in a step",
    "ttft_ms": "Mean time to the first token, ms",
    "e2e_ms": "Mean time of a whole request, ms",
    "replicas": "Whole replicas that carry the demand",
    "usd_per_month": "USD a month of them",
}
"""Where no column and no field has the meaning of a key."""


def meaning_of(name: str) -> str:
    """The definition of a key: its own, its column's or its field's; of an end, of which."""
    for end in ("low", "high"):
        if name.endswith(f"_{end}"):
            whole = name.removesuffix(f"_{end}")
            return f"The {end} end of {whole}; null where nothing is open"
    if name in MEANINGS:
        return MEANINGS[name]
    if "_plain" in name:
        return f"{meaning_of(name.replace('_plain', ''))}, with plain decoding"
    return COLUMNS[name].definition if name in COLUMNS else SPECS[name].help


def predict_schema() -> dict[str, Any]:
    """`predict --format json`: one object."""
    properties: dict[str, Any] = {}
    for name in NUMBERS:
        kind = "integer" if name in WHOLE or name.endswith("_gamma") else "number"
        properties[name] = {"type": kind, "description": meaning_of(name)}
    for name in UNKNOWN:
        properties[name] = {"type": ["number", "null"], "description": meaning_of(name)}
    actions = ["use", "raise", "lower", "skip", "measure"]
    properties["verdict"] = {
        "enum": actions,
        "description": "on at the γ given or at the one recommended, on at a larger or a smaller "
        "γ, off, or measure first",
    }
    properties["loop"] = {
        "enum": ["held", "closed", "wave", "open", None],
        "description": "the load: held at a batch, closed (concurrency), one wave, or open "
        "(request rate); null where costs were given",
    }
    texts = {"error_bar": "what the intervals hold", "answer": "the verdict as a paragraph"}
    lists = {
        "assumed": "fields taken at their default",
        "notes": "what to know of the numbers",
        "measure_with": "commands to measure with, where the verdict is to measure",
    }
    for name, meaning in texts.items():
        properties[name] = {"type": "string", "description": meaning}
    for name, meaning in lists.items():
        texts_of = {"type": "array", "items": {"type": "string"}}
        properties[name] = texts_of | {"description": meaning}
    required = list(properties)
    for name in BILL:
        properties[name] = {"type": "number", "description": meaning_of(name)}
    return {"type": "object", "properties": properties, "required": required}


def logs_schema() -> dict[str, Any]:
    """`logs FILE --format json`: a reading, or a list of them."""
    adapters = [
        (name, "serialization", TypeAdapter(kind))
        for name, kind in (("reading", Reading), ("answer", Said), ("gamma", GammaRow))
    ]
    references, definitions = TypeAdapter.json_schemas(adapters)
    defs = definitions["$defs"]
    reading, row = defs["Reading"], defs["GammaRow"]
    reading["properties"]["facts"] = {
        "type": "object",
        "additionalProperties": {"type": ["number", "string"]},
    }
    reading["properties"]["tree"] = {"type": "boolean", "description": "Whether `shape` is tree"}
    reading["required"] = sorted(reading["properties"])
    # A word of Python's own cannot name a field.
    row["properties"]["from"] = row["properties"].pop("source")
    row["required"] = ["from" if name == "source" else name for name in row["required"]]
    defs["Answered"] = {
        "allOf": [references["reading", "serialization"]],
        "properties": {
            "answers": {"type": "array", "items": references["answer", "serialization"]},
            "gammas": {"type": "array", "items": references["gamma", "serialization"]},
            "scenario": {
                "type": ["object", "null"],
                "description": "What the calculator takes, as options: lists comma-joined",
            },
        },
        "required": ["answers", "gammas", "scenario"],
    }
    answered = {"$ref": "#/$defs/Answered"}
    return {"anyOf": [answered, {"type": "array", "items": answered}], "$defs": defs}


def measure_schema() -> dict[str, Any]:
    """The report of `measure --out`."""
    references, definitions = models_json_schema([(Report, "serialization")])
    return references[Report, "serialization"] | definitions


def published_schema() -> dict[str, Any]:
    """`published --format json`: the rows by every method, and the figures of groups."""
    numbers = {"predicted", "low", "high", "measured", "error", "gamma", "concurrency"}
    always = {
        "quantity": {"enum": list(QUANTITIES)},
        "method": {"enum": [*METHODS, "theirs"]},
        "id": {"type": "string"},
    }
    properties: dict[str, Any] = {}
    for name, meaning in ROW_COLUMNS.items():
        kind = always.get(name) or {"type": ["number" if name in numbers else "string", "null"]}
        properties[name] = kind | {"description": meaning.definition}
    row = {"type": "object", "properties": properties, "required": list(properties)}
    references, definitions = TypeAdapter.json_schemas(
        [("group", "serialization", TypeAdapter(Group))]
    )
    counts = {name: {"type": "integer"} for name in ("cases", "scored", "set_aside")}
    reason = {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "cases": {"type": "integer"}},
        "required": ["reason", "cases"],
    }
    summary: dict[str, Any] = {
        **counts,
        "reasons": {"type": "array", "items": reason},
        "groups": {"type": "array", "items": references["group", "serialization"]},
    }
    return {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": row},
            "summary": {"type": "object", "properties": summary, "required": list(summary)},
        },
        "required": ["rows", "summary"],
        **definitions,
    }


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by the name of its file."""
    made = {
        "predict": predict_schema(),
        "logs": logs_schema(),
        "measure": measure_schema(),
        "published": published_schema(),
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {name: head | {"title": f"specmath {name}"} | found for name, found in made.items()}


def text_of(schema: dict[str, Any]) -> str:
    """As it is written to its file."""
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for name, schema in schemas().items():
        (SCHEMAS / f"{name}.json").write_text(text_of(schema), encoding="utf-8")
