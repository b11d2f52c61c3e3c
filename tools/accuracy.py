"""The public record predicted anew, and how far it lies off, in README.md and docs/published.md.

python -m tools.accuracy      # writes specmath/data/published/predicted.csv.gz, and what stands
                              # between the two marks of each document
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from specmath.published.case import Case, shipped
from specmath.published.kept import FILE, packed
from specmath.published.scenario import is_mixture, is_spread
from specmath.published.score import Scored, score
from specmath.published.summary import (
    BANDS,
    BEYOND,
    Group,
    band_of,
    group_of,
    judged,
    others,
    summarise,
    value_of,
)

__all__ = ["DOCUMENTS", "section", "summary", "written"]

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- record: begin -->", "<!-- record: end -->"
LOADED = 32
"""Requests in flight from which a server counts as loaded here."""
NAMED = 3
"""Sources named in a cell."""

FIGURES = ("n", "median", "bias", "within 10%", "within 20%", "sign right", "interval holds")


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns in which no row has anything are left out."""
    kept = [i for i in range(len(head)) if any(each[i] for each in rows)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(row(*(line[i] for i in kept)) for line in lines)


def figures(group: Group) -> list[str]:
    """The cells of `FIGURES`."""
    shares = (group.within_10, group.within_20, group.sign_right, group.coverage)
    return [
        f"{group.n:,}", f"{group.median:.1%}", f"{group.bias:+.1%}",
        *("" if share is None else f"{share:.0%}" for share in shares),
    ]  # fmt: skip


def grouped(
    rows: Sequence[Scored], name_of: Callable[[Scored], str], order: Sequence[str] = ()
) -> list[tuple[str, list[Scored]]]:
    """The rows by a name, in the order given, else the most first."""
    found: dict[str, list[Scored]] = {}
    for each in rows:
        found.setdefault(name_of(each), []).append(each)
    place = {name: i for i, name in enumerate(order)}
    return sorted(found.items(), key=lambda x: (place.get(x[0], len(place)), -len(x[1]), x[0]))


def sources(rows: Sequence[Scored], setters: Container[str]) -> str:
    """The largest sources by name with their rows, those with a star that set a number."""
    counts = Counter(
        each.case.source.split(",")[0].split(" (")[0].strip() + "*" * (each.case.source in setters)
        for each in rows
    )
    named = "; ".join(f"{name} {n}" for name, n in counts.most_common(NAMED))
    more = len(counts) - NAMED
    return named + (f"; {more} more" if more > 0 else "")


def methods(every: Sequence[Scored]) -> str:
    """By quantity and method."""
    groups = summarise(every).by("method")
    return table(
        ("quantity", "method", *FIGURES), [[g.quantity, g.method, *figures(g)] for g in groups]
    )


KINDS = ("dense", "mixture, tensor parallel", "mixture, experts or attention spread")
"""Of models without speculation, by how they are put on GPUs."""


def kind_of(case: Case) -> str:
    """Which of `KINDS` a plain row is."""
    return KINDS[0] if not is_mixture(case) else KINDS[1 + is_spread(case)]


def plain(fair: Sequence[Scored]) -> str:
    """TPOT without speculation, dense models and mixtures apart, by load."""
    own = [
        s
        for s in fair
        if s.case.kind == "plain" and s.quantity == "tpot_ms" and s.method == "hardware"
    ]
    bands = (*(name for _, name in BANDS), BEYOND)
    rows = []
    for kind, members in grouped(own, lambda s: kind_of(s.case), KINDS):
        rows.append([kind, "any", *figures(group_of(members, "", ""))])
        for band, each in grouped(members, lambda s: band_of(s.case.concurrency), bands):
            rows.append([kind, band, *figures(group_of(each, "", ""))])
    return table(("model", "in flight", *FIGURES), rows)


def drafters(fair: Sequence[Scored], setters: Container[str], least: int) -> str:
    """Speedups by drafter, of servers with at least so many requests in flight."""
    own = [
        s
        for s in fair
        if s.quantity == "speedup" and s.method == "hardware" and (s.case.concurrency or 0) >= least
    ]
    rows = [["any", *figures(group_of(own, "", "")), sources(own, setters)]] if own else []
    rows += [
        [name, *figures(group_of(each, "", "")), sources(each, setters)]
        for name, each in grouped(own, lambda s: value_of(s, "drafter"))
    ]
    return table(("drafter", *FIGURES, "sources"), rows)


def beside(fair: Sequence[Scored]) -> str:
    """Other tools on the rows that carry their predictions: means of the absolute error."""
    rows = [
        [o.quantity, o.tool, str(o.n), f"{o.theirs:.1%}", f"{o.ours:.1%}", o.method]
        for o in others(fair)
    ]
    return table(("quantity", "tool", "stages", "its mean error", "ours", "by"), rows)


def section(every: Sequence[Scored]) -> str:
    """Everything between the marks, of a scored record."""
    fair, told = judged(every), summarise(every)
    setters = {each.case.source for each in every if each.sets}
    parts = (
        f"Of {told.cases:,} published rows {told.scored:,} are predicted by some method; median "
        "and bias are of predicted / measured − 1, and rows that set a number of this product or "
        "repeat a run are not counted.",
        methods(every),
        "Time per output token of servers without speculation, from hardware alone, each row by an "
        "engine that was fitted without the rows of its model:",
        plain(fair),
        "Speedups from hardware alone, the acceptance known, by drafter (a star: other rows of "
        "that source set what the drafter costs, so that these are no independent test):",
        drafters(fair, setters, 1),
        f"The same where {LOADED} or more requests are in flight:",
        drafters(fair, setters, LOADED),
        "Stages of a real server at a fixed request rate, beside what other tools said of them:",
        beside(fair),
    )
    return "\n\n".join(parts)


def summary(every: Sequence[Scored]) -> str:
    """The figures that a newcomer asks for, of a scored record."""
    fair, told = judged(every), summarise(every)

    def of(quantity: str, method: str, keep: Callable[[Scored], bool] = lambda _: True) -> Group:
        rows = [s for s in fair if (s.quantity, s.method) == (quantity, method) and keep(s)]
        return group_of(rows, "", "")

    plain_of = [
        of("tpot_ms", "hardware", lambda s, k=kind: s.case.kind == "plain" and kind_of(s.case) == k)
        for kind in KINDS
    ]
    setters = {each.case.source for each in every if each.sets}
    speedups = of("speedup", "hardware")
    akin = of("speedup", "hardware", lambda s: s.case.source in setters).n
    loaded = of("speedup", "hardware", lambda s: (s.case.concurrency or 0) >= LOADED)
    rows = [
        ("plain time per token from hardware, dense models", plain_of[0]),
        ("the same, mixtures of experts, tensor parallel", plain_of[1]),
        ("the same, with experts or attention spread over groups", plain_of[2]),
        ("speedup from hardware, acceptance known", speedups),
        (f"the same, {LOADED} or more in flight", loaded),
        ("speedup from hardware and the plain speed", of("speedup", "anchored")),
        ("speedup from timed steps", of("speedup", "step timings")),
        ("speedup by Theorem 3.8 alone", of("speedup", "theorem")),
    ]
    return "\n\n".join(
        (
            f"Of {told.cases:,} published rows {told.scored:,} are predicted. Rows that set a "
            "number of this product are not counted; a plain row is judged by an engine fitted "
            f"without its model. {akin} of the {speedups.n} speedups from hardware are of sources "
            "whose other rows set what a drafter costs: no independent test.",
            table(("what", *FIGURES), [[name, *figures(group)] for name, group in rows]),
        )
    )


DOCUMENTS = {ROOT / "README.md": summary, ROOT / "docs" / "published.md": section}


def written(text: str, made: str) -> str:
    """A document with the section in its place; ValueError where its marks are not there once."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"the document must have {BEGIN} and {END} once each")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    found = score(shipped())
    Path(str(FILE)).write_bytes(packed(found))
    for path, made in DOCUMENTS.items():
        path.write_text(written(path.read_text("utf-8"), made(found)), encoding="utf-8")
