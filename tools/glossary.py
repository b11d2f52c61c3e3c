"""The glossary page: the README's words, every input and every column, each defined once.

    python -m tools.glossary

writes docs/glossary.md anew; tests/test_documents.py says when it must be.
"""

from __future__ import annotations

from pathlib import Path

from specmath.scenario import SPECS
from specmath.tables.columns import COLUMNS

__all__ = ["GLOSSARY", "glossary"]

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"

HEAD = """# Glossary

Made by `python -m tools.glossary` from the README, the scenario's fields and the columns of the
tables.

"""
GROUPS = {
    "scenario": "The scenario",
    "acceptance": "Acceptance",
    "gamma": "Drafted tokens",
    "draft": "Draft cost",
    "served": "From GPU, models and load",
    "verify": "Verification",
    "load": "Load",
    "hardware": "Replica",
    "traffic": "Traffic",
    "money": "Money",
}
"""Headings of the groups of fields, in the order of the page."""


def words() -> str:
    """The table of words of the README."""
    text = (ROOT / "README.md").read_text("utf-8")
    return text.split("\n## Words\n", 1)[1].split("\n## ", 1)[0].strip()


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def inputs(group: str) -> list[str]:
    """The fields of one group: option, label, accepted values, meaning."""
    specs = [spec for spec in SPECS.values() if spec.group == group]
    rows = []
    for spec in specs:
        bounds = spec.bounds + (", or unknown" if spec.unknown else "")
        rows.append(row(f"`{spec.name}`", spec.title, bounds, spec.help))
    return rows


def glossary() -> str:
    """The whole page."""
    parts = [HEAD, "## Words\n\n", words(), "\n\n## Inputs\n\nAs options: `--measured-gamma 4`.\n"]
    for group, heading in GROUPS.items():
        head = ("name", "label", "accepted", "meaning")
        lines = [f"\n### {heading}\n", row(*head), row(*("---",) * len(head)), *inputs(group)]
        parts.append("\n".join(lines) + "\n")
    head = ("column", "label", "unit", "meaning")
    lines = ["\n## Columns\n", row(*head), row(*("---",) * len(head))]
    lines += [row(f"`{n}`", m.label, m.unit, m.definition) for n, m in COLUMNS.items()]
    parts.append("\n".join(lines) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    GLOSSARY.write_text(glossary(), encoding="utf-8")
