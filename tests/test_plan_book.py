"""The plan's file with cells typed over: what its formulas give is what the package says anew."""

from __future__ import annotations

import functools
import io
import math
import random
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pytest
from helpers.command_line import Capture, fault, run
from helpers.live_formulas import recalculate
from helpers.sheets import Sheet, cells_of
from test_live_books import OFFICE, follow, looks_typed, through_office

import specmath
from specmath.capacity import Capacity, capacity
from specmath.plan.decided import PlanAnswer, decided
from specmath.plan.files import from_toml
from specmath.plan.peak import Line
from specmath.plan.record import plan_of
from specmath.predict import predict
from specmath.tables.files import file_bytes, letters_of
from specmath.tables.lines import drawn
from specmath.tables.plan_live import live_plan_table, plan_text
from specmath.tables.table import Column, Table
from specmath.theorems import alpha_from_tokens_per_step

NEAR = 0.005
"""How near to the law the largest rates of a file are."""

LEAST = 0.02
"""Shares of λ_max from which on they are."""

SERVED: tuple[dict[str, Any], ...] = (
    {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3"},
    {"gpu": "H100 SXM", "model": "Llama-3.3-70B", "tensor_parallel": 4, "draft": "eagle3",
     "usd_per_hour": 2.5},
    {"gpu": "L40S", "model": "Llama-3.1-8B", "draft": "ngram", "usd_per_hour": 1.0},
    {"gpu": "H200", "model": "Qwen3-32B", "tensor_parallel": 2, "draft": "eagle3"},
    {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B", "headroom": 0.0},
)  # fmt: skip
EXAMPLE = Path(specmath.__file__).parent / "data/plan_example.toml"
Endpoints = list[dict[str, Any]]


class Typed(NamedTuple):
    """A cell that is typed over: its column, its row, the value."""

    column: str
    row: int
    value: float


# ── plans ────────────────────────────────────────────────────────────────────────────────────


def random_acceptance(chosen: random.Random, draft: str) -> dict[str, Any]:
    kinds = ["alpha", "alpha", "range", "measured"] + ["mixture", "rates"] * (draft != "ngram")
    match chosen.choice(kinds):
        case "alpha":
            return {"alpha": round(chosen.uniform(0.4, 0.9), 3)}
        case "range":
            return {"work": chosen.choice(["chat", "code", "summarisation"])}
        case "measured":
            return {"accepted_per_step": round(chosen.uniform(0.8, 2.2), 2), "measured_gamma": 3}
        case "mixture":
            return {"mixture": [[0.6, 0.85], [0.4, 0.5]]}
    return {"rates": [0.8, 0.61, 0.42], "acceptance_form": "survival"}


def random_promises(chosen: random.Random, served: dict[str, Any]) -> dict[str, float]:
    """Of each kind, or none; some of them hard."""
    slow = 1.0 if served["model"] == "Llama-3.1-8B" and served["gpu"] != "L40S" else 3.0
    found: dict[str, float] = {}
    if chosen.random() < 0.5:
        found["slo_tpot_ms"] = round(slow * chosen.uniform(7, 22), 1)
    if chosen.random() < 0.35:
        found["slo_ttft_ms"] = round(slow * chosen.uniform(120, 600))
    if chosen.random() < 0.35:
        found["slo_e2e_ms"] = round(slow * chosen.uniform(2500, 7000))
    return found


def random_plan(seed: int) -> Endpoints:
    chosen = random.Random(seed)
    plan = []
    for e in range(chosen.randint(1, 3)):
        served = chosen.choice(SERVED)
        alike = chosen.random() < 0.5
        lengths = {"prompt_tokens": chosen.randint(200, 3000),
                   "output_tokens": chosen.randint(100, 500)}  # fmt: skip
        segments = []
        for i in range(count := chosen.randint(1, 4)):
            own = {} if alike else {"prompt_tokens": chosen.randint(200, 3000),
                                    "output_tokens": chosen.randint(100, 500)}  # fmt: skip
            segments.append({"name": f"kind {i}", "share": 1.0 / count, **own,
                             **random_acceptance(chosen, served["draft"]),
                             **random_promises(chosen, served)})  # fmt: skip
        plan.append({"name": f"endpoint {e}", **served, **lengths, "segments": segments,
                     "demand_requests_per_second": round(chosen.uniform(5, 200), 1)})  # fmt: skip
    return plan


@functools.cache
def answered(seed: int | str) -> tuple[Endpoints, PlanAnswer, Table]:
    """A random plan, or an odd one by its name."""
    plan = random_plan(seed) if isinstance(seed, int) else [CHAT | ODD[seed] | {"segments": TWO}]
    found = decided(plan_of(plan))
    return plan, found, live_plan_table(found)


def cells_to_type(table: Table) -> list[tuple[str, int]]:
    each = ((column, row) for column in table.columns for row in range(len(table)))
    return [(column.name, row) for column, row in each if table.typed(column, row)]


def another(table: Table, cell: tuple[str, int], gamma: int, chosen: random.Random) -> Typed:
    """Another value for the cell, which is possible."""
    name, row = cell
    now = table.column(name).values[row]
    assert isinstance(now, float | int)
    value = {
        "alpha": lambda: chosen.uniform(0.1, 0.97),
        "tokens_per_step": lambda: chosen.uniform(1.1, 0.9 * gamma + 1.0),
        "share": lambda: chosen.uniform(5.0, 90.0),
        "headroom": lambda: chosen.uniform(0.0, 0.6),
    }.get(name, lambda: now * chosen.uniform(0.3, 3.0))()
    return Typed(name, row, value)


# ── the package, asked anew ──────────────────────────────────────────────────────────────────


def places(table: Table) -> list[tuple[str, str]]:
    return [
        (str(row["endpoint"]), str(row["line"])) for row in table.rows()
    ]  # fmt: skip


def said_anew(plan: Endpoints, table: Table, typed: Typed) -> tuple[int, Capacity, Capacity]:
    """Which endpoint was changed, and what it carries: before, and with the value, at its γ."""
    endpoint, line = places(table)[typed.row]
    index = next(i for i, each in enumerate(plan) if each["name"] == endpoint)
    gamma = next(row["gamma"] for row in table.rows() if row["endpoint"] == endpoint)
    assert isinstance(gamma, int)
    given = plan[index]
    if typed.column in ("alpha", "tokens_per_step", "share"):
        segments = []
        for each in given["segments"]:
            mine = each["name"] == line
            segments.append(with_acceptance(each, typed, gamma) if mine else dict(each))
        if typed.column == "share":
            for each in segments:
                each["share"] = typed.value if each["name"] == line else 100.0 * each["share"]
            total = math.fsum(each["share"] for each in segments)
            for each in segments:
                each["share"] /= total
        changed = given | {"segments": segments}
    else:
        name = {"demand": "demand_requests_per_second"}.get(typed.column, typed.column)
        changed = given | {name: typed.value}
    before, after = (of_gamma(each, gamma) for each in (given, changed))
    return index, before, after


def with_acceptance(segment: dict[str, Any], typed: Typed, gamma: int) -> dict[str, Any]:
    if typed.column == "share":
        return dict(segment)
    acceptance = ("alpha", "accepted_per_step", "measured_gamma", "mixture", "rates",
                  "acceptance_form")  # fmt: skip
    kept = {name: value for name, value in segment.items() if name not in acceptance}
    if typed.column == "alpha":
        return kept | {"alpha": typed.value}
    # Any acceptance with as many tokens at that γ.
    alpha = float(alpha_from_tokens_per_step(typed.value, gamma))
    survival = [alpha**i for i in range(1, gamma + 1)]
    return kept | {"acceptance_form": "survival", "rates": survival}


def of_gamma(given: dict[str, Any], gamma: int) -> Capacity:
    (endpoint,) = plan_of([given]).endpoints
    s = endpoint.scenario.model_copy(update={"gamma": gamma})
    return capacity(predict(s, endpoint.parts))


def planned(found: PlanAnswer, index: int, anew: Capacity) -> Any:
    """The arm that the file's plan takes."""
    was = found.endpoints[index]
    for name in ("plain", "speculative"):
        if was.arm is getattr(was.capacity, name):
            return getattr(anew, name)
    return anew.switched or max(anew.plain, anew.speculative, key=lambda arm: arm.within.value)


def differences(
    plan: Endpoints, found: PlanAnswer, table: Table, typed: Typed, read: dict[str, list[Any]]
) -> list[str]:
    """Where the file says otherwise than the package."""
    index, before, anew = said_anew(plan, table, typed)
    row = next(i for i, (endpoint, line) in enumerate(places(table))
               if endpoint == plan[index]["name"] and line == "All requests")  # fmt: skip
    wrong: list[str] = []
    if before.speculative.within.value:
        rate, exact = read["rate"][row], anew.speculative.within.value
        if exact < LEAST * anew.speculative.most.value:
            return []
        if rate != pytest.approx(exact, rel=NEAR):
            wrong.append(f"rate {rate} is not {exact}")
    arms = {"_plain": anew.plain, "": planned(found, index, anew)}
    for end, arm in arms.items():
        if arm.needed is None or read[f"gpus{end}"][row] is None:
            continue
        needed = arm.needed.value
        edge = abs(needed - round(needed)) <= NEAR * needed
        slack = arm.gpus if edge and end == "" else 0
        gpus, usd = read[f"gpus{end}"][row], read[f"usd_per_month{end}"][row]
        if abs(gpus - arm.all_gpus.value) > slack + 1e-6:
            wrong.append(f"gpus{end} {gpus} is not {arm.all_gpus.value}, needed {needed}")
        elif not slack and usd != pytest.approx(arm.usd_per_month.value, rel=1e-9):
            wrong.append(f"usd{end} {usd} is not {arm.usd_per_month.value}")
    sums = [i for i, (_, line) in enumerate(places(table)) if line == "All requests"]
    each = [read["usd_per_month"][i] for i in sums]
    if None not in each and read["usd_per_month"][-1] != pytest.approx(math.fsum(each)):
        wrong.append("the sum of all endpoints is not their sum")
    return wrong


def gamma_at(table: Table, row: int) -> int:
    found = next(
        each["gamma"] for each in table.rows() if each["endpoint"] == places(table)[row][0]
    )
    assert isinstance(found, int)
    return found


SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_typed_moves_what_the_package_moves(seed: int) -> None:
    plan, found, table = answered(seed)
    chosen = random.Random(seed)
    cells = cells_to_type(table)
    assert cells
    for cell in chosen.sample(cells, min(8, len(cells))):
        typed = another(table, cell, gamma_at(table, cell[1]), chosen)
        try:
            read = recalculate(table, cells={cell: typed.value})
        except ZeroDivisionError:
            _, _, anew = said_anew(plan, table, typed)
            assert anew.speculative.within.value < LEAST * anew.speculative.most.value
            continue
        assert differences(plan, found, table, typed, read) == [], typed


@pytest.mark.parametrize("seed", SEEDS)
def test_as_written_it_is_what_was_decided(seed: int) -> None:
    _, found, table = answered(seed)
    read = recalculate(table)
    for column in table.columns:
        for cell, value in zip(read[column.name], column.values, strict=True):
            same = cell == value if isinstance(value, str | None) else (
                cell == pytest.approx(value, rel=1e-9, abs=1e-9))  # fmt: skip
            assert same, (column.name, cell, value)
    plain, ours = found.usd_per_month
    for name, bill in (("usd_per_month_plain", plain), ("usd_per_month", ours)):
        if bill is not None:
            assert table.column(name).values[-1] == pytest.approx(bill.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_cell_is_for_typing_and_does_nothing(seed: int) -> None:
    plan, _, table = answered(seed)
    before = recalculate(table)
    for cell in cells_to_type(table):
        now = table.column(cell[0]).values[cell[1]]
        assert isinstance(now, float | int)
        after = recalculate(table, cells={cell: 0.97 * now if now else 0.05})
        moved = [name for name in before if after[name] != before[name]]
        assert set(moved) - {cell[0]}, (plan, cell)


def test_one_rate_is_for_typing_and_several_are_typed_as_tokens() -> None:
    kinds: dict[str, dict[str, Any]] = {
        "α": {"alpha": 0.7}, "measured": {"accepted_per_step": 1.6, "measured_gamma": 3},
        "recorded": {"work": "code"}, "mixture": {"mixture": [[0.6, 0.85], [0.4, 0.5]]},
        "rates": {"rates": [0.8, 0.61], "acceptance_form": "survival"},
    }  # fmt: skip
    segments = [{"name": name, "share": 0.2, **said} for name, said in kinds.items()]
    table = live_plan_table(decided(plan_of([CHAT | {"gamma": 3, "segments": segments}])))
    typed = set(cells_to_type(table))
    for row, name in enumerate(kinds):
        one = name in ("α", "measured", "recorded")
        assert (("alpha", row) in typed, ("tokens_per_step", row) in typed) == (one, not one)
    assert table.column("alpha").values[0] == 0.7
    basis = dict(zip(kinds, table.column("basis").values, strict=False))
    assert basis == {"α": "assumed", "measured": "measured", "recorded": "published",
                     "mixture": "assumed", "rates": "measured"}  # fmt: skip


# ── by hand ──────────────────────────────────────────────────────────────────────────────────


def test_a_line_as_a_formula() -> None:
    """Through (1, 0), (2, 3), (4, 1): straight between, constant beyond."""
    line = Line((1.0, 2.0, 4.0), (0.0, 3.0, 1.0))
    expected = {0.0: 0.0, 1.0: 0.0, 1.5: 1.5, 2.0: 3.0, 3.0: 2.0, 4.0: 1.0, 9.0: 1.0}
    xs = Column("x", "", "", "", tuple(expected), editable=True)
    ys = Column("y", "", "", "", tuple(expected.values()), (drawn(line, "x"),) * len(expected))
    assert recalculate(Table("t", "t", (xs, ys)))["y"] == pytest.approx(list(expected.values()))


CHAT: dict[str, Any] = {
    "name": "chat", "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3",
    "prompt_tokens": 1000, "output_tokens": 200, "demand_requests_per_second": 100,
}  # fmt: skip


TWO = [{"name": "a", "share": 0.5, "alpha": 0.6}, {"name": "b", "share": 0.5, "alpha": 0.8}]


def test_tokens_and_replicas_by_hand() -> None:
    """α=0.5 in half of the tokens and 1 in the other, at γ=3: 1.875 and 4 tokens a step, together
    2/(1/1.875 + 1/4) = 2.553; λ_max then is what the law has of that τ."""
    segments = [{"name": "a", "share": 0.5, "alpha": 0.6}, {"name": "b", "share": 0.5, "alpha": 1}]
    found = decided(plan_of([CHAT | {"gamma": 3, "segments": segments, "headroom": 0.5}]))
    table = live_plan_table(found)
    read = recalculate(table, cells={("alpha", 0): 0.5})
    assert read["tokens_per_step"][:3] == pytest.approx([1.875, 4.0, 2 / (1 / 1.875 + 1 / 4)])
    rate = read["rate"][2]
    assert read["replicas"][2] == math.ceil(100 / (0.5 * rate))
    half = [segments[0] | {"alpha": 0.5}, segments[1]]
    assert rate == pytest.approx(of_gamma(CHAT | {"segments": half}, 3).speculative.most.value)


def test_shares_are_for_typing_where_segments_are_alike_alone() -> None:
    table = live_plan_table(decided(plan_of([CHAT | {"gamma": 3, "segments": TWO}])))
    assert {("share", 0), ("share", 1)} < set(cells_to_type(table))
    apart = [TWO[0], TWO[1] | {"prompt_tokens": 4000}]
    table = live_plan_table(decided(plan_of([CHAT | {"gamma": 3, "segments": apart}])))
    assert not {name for name, _ in cells_to_type(table)} & {"share"}
    assert "Share is fixed: segments differ in lengths" in str(table.rows()[0]["source"])


def test_what_a_file_cannot_follow_is_fixed_and_says_why() -> None:
    timed = CHAT | {"alpha": 0.8, "target_ms": 12, "gamma": 3}
    off = CHAT | {"alpha": 0.8, "gamma": 0}
    unmet = CHAT | {"alpha": 0.8, "gamma": 3, "slo_tpot_ms": 0.5}
    tree = CHAT | {"tree": "4:3:12", "segments": TWO}
    for given, why, typed in (
        (timed, "times were measured", {"usd_per_hour"}),
        (off, "nothing is drafted", {"demand", "headroom", "usd_per_hour"}),
        (unmet, "no rate is within what is promised", set[str]()),
        (tree, "a tree's tokens per step are no blend", {"demand", "headroom"}),
    ):
        table = live_plan_table(decided(plan_of([given])))
        assert {name for name, _ in cells_to_type(table)} <= typed | {"usd_per_hour"}, why
        assert f"Acceptance is fixed: {why}" in str(table.rows()[-2]["source"])
        recalculate(table)


ODD: dict[str, dict[str, Any]] = {
    "drafts that stop early": {"drafted_per_step": 2.5, "gamma": 5, "slo_e2e_ms": 4000},
    "one token": {"gamma": 3, "output_tokens": 1, "slo_e2e_ms": 800},
    "decode only": {"gamma": 3, "decode_only": "yes", "slo_tpot_ms": 12},
    "two pools": {
        "gamma": 3,
        "decode_only": "yes",
        "prefill_tensor_parallel": 2,
        "slo_ttft_ms": 120,
        "slo_tpot_ms": 12,
    },
    "two pools, whole requests": {
        "gamma": 3,
        "decode_only": "yes",
        "slo_e2e_ms": 3000,
        "transfer_gb_per_second": 20,
        "prompt_tokens": 4000,
    },
    "hits": {"gamma": 3, "prefix_hit": 0.6, "prefix_hit_speculative": 0.4, "slo_ttft_ms": 200},
    "coverage": {"draft": "ngram", "coverage": 0.4, "gamma": 4, "slo_tpot_ms": 14},
    "draft GPUs": {"draft": "Llama-3.2-1B", "draft_gpus": 1, "gamma": 3},
    "a day": {"day": [1] * 12 + [9] * 12, "gamma": 3},
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_endpoints_follow_too(odd: str) -> None:
    plan, found, table = answered(odd)
    chosen = random.Random(odd)
    assert recalculate(table)["usd_per_month"][-1] == pytest.approx(
        found.endpoints[0].arm.usd_per_month.value
    )
    for cell in cells_to_type(table):
        typed = another(table, cell, gamma_at(table, cell[1]), chosen)
        read = recalculate(table, cells={cell: typed.value})
        assert differences(plan, found, table, typed, read) == [], typed


# ── as written ───────────────────────────────────────────────────────────────────────────────


def example() -> tuple[PlanAnswer, Table]:
    found = decided(from_toml(EXAMPLE.read_text("utf-8")))
    return found, live_plan_table(found)


def test_blue_cells_are_numbers_that_formulas_follow() -> None:
    found, table = example()
    data = file_bytes(table, plan_text(found.plan), "xlsx")
    book = openpyxl.load_workbook(io.BytesIO(data))
    followed, blue = follow(book), 0
    for row in book["Results"].iter_rows():
        for cell in (cell for cell in row if looks_typed(cell)):
            blue += 1
            assert cell.data_type == "n", cell.coordinate
            assert ("Results", cell.coordinate) in followed, cell.coordinate
    assert blue == len(cells_to_type(table)) > 10
    longest = max(len(str(c.value)) for row in book["Results"].iter_rows() for c in row)
    assert longest < 8192, "what a cell holds"
    about = dict(row[:2] for row in book["About"].values)
    assert about["scenario"].startswith("Three endpoints; Chat: ")


@pytest.mark.parametrize("decimal", [".", ","])
def test_the_live_csv_follows_too(decimal: str) -> None:
    found, table = example()
    delimiter = ";" if decimal == "," else ","
    cells = cells_of(
        file_bytes(table, plan_text(found.plan), "formulas", delimiter, decimal), delimiter
    )
    cells[1][cells[0].index("alpha")] = "0.2".replace(".", decimal)
    sheet = Sheet(cells, decimal)
    expected = recalculate(table, cells={("alpha", 0): 0.2})
    for name in ("tokens_per_step", "rate", "gpus", "usd_per_month"):
        read = [value or None for value in sheet.column(name)]
        assert read == pytest.approx(expected[name]), name
    before = recalculate(table)["usd_per_month"][-1]
    assert expected["usd_per_month"][-1] > before, "less is accepted, and the month costs more"


def test_the_command_writes_it_and_keeps_what_is_not_its_own(
    capsys: Capture, tmp_path: Path
) -> None:
    book, rows = tmp_path / "plan.xlsx", tmp_path / "plan.csv"
    assert f"wrote {book}" in run(capsys, "plan", str(EXAMPLE), "-o", str(book))
    assert openpyxl.load_workbook(book)["Results"]["A2"].value == "Chat"
    run(capsys, "plan", str(EXAMPLE), "-o", str(rows))
    written = cells_of(rows.read_bytes())
    assert dict(zip(*written[:2], strict=True))["line"] == "talk"
    assert not any(cell.startswith("=") for row in written for cell in row)
    run(capsys, "plan", str(EXAMPLE), "-o", str(rows), "--kind", "formulas")
    assert any(cell.startswith("=") for row in cells_of(rows.read_bytes()) for cell in row)
    rows.write_text("mine")
    assert "--force" in fault(capsys, "plan", str(EXAMPLE), "-o", str(rows))
    assert rows.read_text() == "mine"


def test_a_file_that_cannot_be_meant_is_not_written(capsys: Capture, tmp_path: Path) -> None:
    plan = str(EXAMPLE)
    book, other, rows = (str(tmp_path / f"plan.{end}") for end in ("xlsx", "pdf", "csv"))
    for given, said in (
        (["-o", other], "must end in .xlsx or .csv"),
        (["-o", rows, "--kind", "xlsx"], "must end in .xlsx or .csv as its --kind has it"),
        (["--kind", "xlsx"], "--kind xlsx needs --out"),
        (["-o", book, "--beside", plan], "--out writes one plan"),
        (["-o", rows, "--decimal", ","], "delimiter and decimal"),
    ):
        assert said in fault(capsys, "plan", plan, *given), given
    assert not [*tmp_path.iterdir()]


# ── in LibreOffice ───────────────────────────────────────────────────────────────────────────


def typed_into(table: Table, text: str, typed: Typed) -> bytes:
    """The workbook after someone typed another number; saving drops every cached value."""
    book = openpyxl.load_workbook(io.BytesIO(file_bytes(table, text, "xlsx")))
    letter = letters_of([column.name for column in table.columns])[typed.column]
    cell = book["Results"][f"{letter}{typed.row + 2}"]
    assert looks_typed(cell), typed
    cell.value = typed.value
    saved = io.BytesIO()
    book.save(saved)
    return saved.getvalue()


@pytest.mark.slow
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_a_spreadsheet_gives_what_the_package_says(tmp_path: Path) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    made = []
    for seed in (*SEEDS, "two pools", "two pools, whole requests"):
        _, found, table = answered(seed)
        chosen = random.Random(f"100 {seed}")
        cells = cells_to_type(table)
        for cell in chosen.sample(cells, min(3, len(cells))):
            typed = another(table, cell, gamma_at(table, cell[1]), chosen)
            path = folder / f"{len(made)}.xlsx"
            path.write_bytes(typed_into(table, plan_text(found.plan), typed))
            made.append((seed, typed, path.name))
    through_office(folder)
    followed = 0
    for seed, typed, file in made:
        plan, found, table = answered(seed)
        book = openpyxl.load_workbook(folder / "out" / file, data_only=True)
        lines = list(book.worksheets[0].values)[1 : len(table) + 1]
        read = dict(zip((c.name for c in table.columns), map(list, zip(*lines, strict=True)),
                        strict=True))  # fmt: skip
        if any("#" in str(value) for values in read.values() for value in values):
            _, _, anew = said_anew(plan, table, typed)
            assert anew.speculative.within.value < LEAST * anew.speculative.most.value
            continue
        assert differences(plan, found, table, typed, read) == [], (seed, typed)
        followed += 1
    assert followed > 0.8 * len(made)
