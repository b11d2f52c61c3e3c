"""Reports as files: JSON written and read strictly, the comparison as CSV."""

from __future__ import annotations

import csv
import io
import json

from pydantic import ValidationError

from specmath.checks import InputError
from specmath.measure.report import SCHEMA_VERSION, Comparison, Report
from specmath.sheets.export import neutralise

__all__ = ["read_report", "report_csv", "write_report"]

LARGEST_FILE = 50_000_000


def write_report(report: Report) -> str:
    """JSON text of a report; `read_report` gives an equal one back."""
    return report.model_dump_json(indent=1) + "\n"


def read_report(text: str) -> Report:
    """A report from JSON text; InputError says what is wrong and where, another version by name."""
    if len(text) > LARGEST_FILE:
        raise InputError(
            f"a report must have at most {LARGEST_FILE:,} characters, got {len(text):,}"
        )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON report: {error}") from error
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError("not a measurement report: it has no schema_version")
    if data["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"schema_version must be {SCHEMA_VERSION!r}, got {str(data['schema_version'])[:20]!r}: "
            "the report comes from another version of specmath; measure again"
        )
    try:
        return Report.model_validate(data)
    except ValidationError as error:
        faults = [_sentence(d["loc"], d["msg"], d["input"]) for d in error.errors()[:5]]
        raise InputError(f"damaged report: {'; '.join(faults)}") from error


def _sentence(place: tuple[int | str, ...], message: str, found: object) -> str:
    where = ".".join(map(str, place)) or "report"
    shown = "" if isinstance(found, (dict, list)) else f", got {str(found)[:40]!r}"
    return f"{where}: {message.removeprefix('Value error, ')}{shown}"


def report_csv(report: Report) -> str:
    """The comparison as CSV, one row a segment, temperature and γ, with relative errors."""
    out = io.StringIO()
    names = list(Comparison.model_fields)
    errors = ("theorem", "replay", "replay_v")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*names, *(f"{name}_error" for name in errors)])
    for row in report.comparison:
        cells = [getattr(row, name) for name in names]
        cells = [neutralise(cell) if isinstance(cell, str) else cell for cell in cells]
        writer.writerow([*cells, *(row.error(name) for name in errors)])
    return out.getvalue()
