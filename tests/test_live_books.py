"""Files with cells typed over: what the formulas give is what the package says of those numbers.

In every form, by our own evaluator of templates; and the written workbooks by LibreOffice.
"""

from __future__ import annotations

import io
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from helpers.books import (
    ACCEPTANCE,
    COST,
    MONEY,
    every_form,
    scenario_with,
    typed_cells,
    typed_over,
)
from helpers.live_formulas import recalculate
from helpers.sheets import Sheet, cells_of

from specmath.drafts import evaluate, published_t5
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario
from specmath.tables import TABLES, beside, drafts_table
from specmath.tables.files import defined_names, file_bytes, to_xlsx
from specmath.tables.table import Table

FORMS = dict(every_form())
FEW = [
    "recorded range × run of its acceptance", "conditional × two times", "typed range × run, open",
    "survival × coverage, open", "mixture × one request", "alpha × closed loop",
]  # fmt: skip
NAMES = ("gamma", "regimes", "bill")

each_form = pytest.mark.parametrize("form", [
    pytest.param(form, marks=() if form in FEW else pytest.mark.slow) for form in FORMS
])  # fmt: skip


def tables(p: Prediction) -> dict[str, Table]:
    known = p.tpot is not None
    return {name: TABLES[name](p) for name in NAMES if known or name != "bill"}


def said_anew(table: Table, s: Scenario, typed: dict[str, float], gamma: int) -> Table:
    return TABLES[table.name](predict(scenario_with(s, typed, gamma)))


def differences(found: dict[str, list[Any]], expected: Table) -> list[str]:
    """Where they differ; an end that is no longer open is the number itself."""
    columns = {column.name: column.values for column in expected.columns}
    wrong = []
    for name, cells in found.items():
        base = re.sub("_(low|high)$", "", name)
        if name.startswith("corner") or base not in columns:
            continue
        for row, (cell, middle) in enumerate(zip(cells, columns[base], strict=True)):
            value = columns.get(name, columns[base])[row]
            value = middle if value is None and cell is not None else value
            if value is None or isinstance(value, str):
                same = (cell or None) == (value or None)
            else:
                same = cell is not None and cell == pytest.approx(value, rel=1e-9, abs=1e-11)
            if not same:
                wrong.append(f"{name}, row {row}: {cell} is not {value}")
    return wrong


# ── by templates ─────────────────────────────────────────────────────────────────────────────


@each_form
def test_what_is_typed_moves_what_the_package_moves(form: str) -> None:
    s, chosen = FORMS[form], random.Random(form)
    p = predict(s)
    for name, table in tables(p).items():
        cells = typed_cells(table)
        assert differences(recalculate(table), table) == [], name
        for _ in range(2):
            typed = typed_over(cells, chosen)
            found = recalculate(table, typed)
            expected = said_anew(table, s, typed, p.gamma)
            assert differences(found, expected) == [], (name, typed)


@each_form
def test_the_middle_stays_between_its_ends_whatever_is_typed(form: str) -> None:
    """Also what the package refuses: a low end above the high one."""
    chosen = random.Random(form)
    for table in tables(predict(FORMS[form])).values():
        cells = typed_cells(table)
        for _ in range(3):
            typed = {name: value * chosen.uniform(0.3, 1.7) for name, value in cells.items()}
            typed |= {n: round(v) or 1.0 for n, v in typed.items() if n.endswith(("gpus", "batch"))}
            found = recalculate(table, typed)
            for name in found:
                if not name.endswith("_low"):
                    continue
                base = name.removesuffix("_low")
                rows = zip(found[name], found.get(base, ()), found[f"{base}_high"], strict=False)
                for low, middle, high in rows:
                    if None not in (low, middle, high) and base != "tokens_per_step":
                        slack = 1e-12 * (1 + abs(middle))
                        assert low <= middle + slack, (table.name, name, typed)
                        assert high >= middle - slack, (table.name, name, typed)


@each_form
def test_no_cell_is_for_typing_and_does_nothing(form: str) -> None:
    """Of a workbook: the regimes and the bill are one, where at the γ of a measured run the bill
    follows from the run."""
    every = tables(predict(FORMS[form]))
    for book in ([every.pop("gamma")], [*every.values()]):
        typed = {n: v for table in book for n, v in typed_cells(table).items()}
        # ĉ counts where σ is above 0, so that nothing is left at 0.
        cells = {n: v or (1.0 if n == "draft_gpus" else 0.04) for n, v in typed.items()}
        before = [_with(table, cells) for table in book]
        for cell, value in cells.items():
            if FORMS[form].run_ms is not None and cell in ("overhead", "c_low", "c_high"):
                continue  # what a run shows holds them already, but for a run far from expected
            others = (cells | {cell: value * factor} for factor in (0.9, 1.5))
            moved = ([_with(table, other) for table in book] for other in others)
            assert any(after != before for after in moved), cell


def _with(table: Table, cells: dict[str, float]) -> dict[str, list[Any]]:
    own = typed_cells(table)
    return recalculate(table, {name: value for name, value in cells.items() if name in own})


def test_alpha_or_the_rates_are_cells_wherever_no_load_is_solved_for() -> None:
    for form, s in FORMS.items():
        p = predict(s)
        cells = typed_cells(TABLES["gamma"](p))
        acceptance = {
            c for c in cells if c.startswith(("alpha", "survival", "conditional", "share"))
        }
        assert acceptance or p.endpoint.pair is not None, form
        assert "usd_per_hour" in cells or p.tpot is None, form
    solved = "alpha × closed loop"
    assert "alpha" not in typed_cells(TABLES["gamma"](predict(FORMS[solved])))
    assert "alpha" in typed_cells(TABLES["gamma"](predict(FORMS["alpha × one request"])))


def test_where_a_value_is_from() -> None:
    """Computed is not called measured, nor assumed published."""

    def basis(**said: Any) -> dict[str, tuple[str, str]]:
        table = TABLES["gamma"](predict(Scenario(**MONEY | {"gamma": 3} | said)))
        return {i.name: (i.basis, i.source) for i in table.inputs}

    times = {"target_ms": 40, "draft_ms": 6}
    alpha = basis(accepted_per_step=2, measured_gamma=4, **times)["alpha"]
    assert alpha[0] == "computed"
    assert "accepted_per_step = 2 at γ = 4" in alpha[1]
    assert basis(alpha=0.7, **times)["target_ms"][0] == "measured"
    assert basis(alpha=0.7, **times)["alpha"][0] == "assumed"
    assert basis(alpha=0.7, acceptance_source="my_traffic", **times)["alpha"] == (
        "measured", "On your own traffic, as given in the scenario",
    )  # fmt: skip
    assert basis(alpha=0.7, **times)["c"][0] == "computed"
    assert basis(alpha=0.7, **times)["sigma"] == (
        "assumed", "Not given: what specmath assumes",
    )  # fmt: skip
    recorded = basis(acceptance_form="range", **times)["alpha_low"]
    assert recorded[0] == "published"
    assert re.search(r"n \d+, \d+ sources: \w", recorded[1]), "with its citation"
    assert basis(alpha=0.7, draft_form="range", target_ms=9)["c_low"][0] == "published"
    served = basis(alpha=0.7, gpu="H100 SXM", model="Llama-3.1-8B", draft="eagle3")
    assert served["plain_ms"] == ("computed", "By the step-time model")


# ── as written ───────────────────────────────────────────────────────────────────────────────


def books(form: str) -> dict[str, bytes]:
    s = FORMS[form]
    p = predict(s)
    return {
        name: file_bytes(table, s, "xlsx", beside=beside(name, p))
        for name, table in tables(p).items()
    }


def looks_typed(cell: Any) -> bool:
    return cell.font.color is not None and cell.font.color.rgb == "FF0000FF"


def follow(book: openpyxl.Workbook) -> set[tuple[str, str]]:
    """Every cell that some formula of the book refers to."""
    named = {}
    for name, defined in book.defined_names.items():
        sheet, cell = defined.attr_text.replace("$", "").replace("'", "").split("!")
        named[name] = (sheet, cell)
    found = set()
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    for word in re.findall(r"[A-Za-z_]\w*", cell.value):
                        found.add(named.get(word, (sheet.title, word)))
    return found


@each_form
def test_every_cell_that_looks_like_an_input_has_a_formula_that_follows(form: str) -> None:
    s = FORMS[form]
    p = predict(s)
    every = books(form)
    for name in ("alpha_gamma", "draft_cost", "crossover", *(("batch",) if s.gpu else ())):
        every[name] = file_bytes(TABLES[name](p), s, "xlsx")
    for name, data in every.items():
        book = openpyxl.load_workbook(io.BytesIO(data))
        followed, typed = follow(book), 0
        for sheet in book:
            for row in sheet.iter_rows():
                for cell in (cell for cell in row if looks_typed(cell)):
                    typed += 1
                    assert cell.data_type == "n", (name, sheet.title, cell.coordinate)
                    assert (sheet.title, cell.coordinate) in followed, (name, cell.coordinate)
        free = [c for t in (TABLES[name](p), *beside(name, p)) for c in typed_cells(t)]
        assert bool(typed) == bool(free) or name == "alpha_gamma"
        assert ("use" in {row[0] for row in book["About"].values}) == bool(typed)


def test_the_candidates_can_be_typed_over() -> None:
    book = openpyxl.load_workbook(io.BytesIO(to_xlsx(drafts_table(evaluate(published_t5())))))
    heads = [cell.value for cell in book["Results"][1]]
    blue = [looks_typed(cell) for cell in book["Results"][2]]
    shown = [head.split(" (")[0] for head, typed in zip(heads, blue, strict=True) if typed]
    assert shown == ["α", "c", "γ", "Measured"]


def test_the_cost_workbook_has_the_bill_as_a_sheet() -> None:
    said = ACCEPTANCE["alpha"] | COST["ratio with all"] | MONEY | {"gamma": 3}
    s = Scenario(**said)
    p = predict(s)
    for name in ("regimes", "bill"):
        data = file_bytes(TABLES[name](p), s, "xlsx", beside=beside(name, p))
        sheets = openpyxl.load_workbook(io.BytesIO(data)).sheetnames
        assert set(sheets) == {"Regimes", "Bill", "Inputs", "Definitions", "About"}
    unpriced = predict(Scenario(alpha=0.8, c=0.1, gamma=3))
    assert beside("regimes", unpriced) == ()


def test_the_bill_by_hand() -> None:
    """α=1, γ=1, c=0.25: 2 tokens in 1.25 steps, 1.6×; 8 sequences at 40 ms are 200 tokens/s plain
    and 320 with it. 1000 tokens/s: 5 and 3.125 → 4 replicas of $2 an hour."""
    s = Scenario(alpha=1, c=0.25, overhead=0.0, sigma=0.0, gamma=1, target_ms=40, batch=8,
                 usd_per_hour=2, demand_tokens_per_second=1000, headroom=0)  # fmt: skip
    table = TABLES["bill"](predict(s))
    rows = {row["quantity"]: row for row in table.rows()}
    expected = {
        "Time per token": (40, 25), "One replica kept busy": (200, 320),
        "Replicas, before rounding up": (5, 3.125), "Replicas": (5, 4),
        "Bill a month (730 h)": (5 * 2 * 730, 4 * 2 * 730),
        "Kept busy, per 1M output tokens": (2 / 3600 * 1e6 / 200, 2 / 3600 * 1e6 / 320),
        "Kept busy, output tokens for $1": (200 * 3600 / 2, 320 * 3600 / 2),
    }  # fmt: skip
    assert set(rows) == set(expected)
    for name, (plain, ours) in expected.items():
        assert rows[name]["plain"] == pytest.approx(plain), name
        assert rows[name]["speculative"] == pytest.approx(ours), name
        assert rows[name]["change"] == pytest.approx(ours - plain), name


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("form", FEW)
def test_the_live_csv_follows_too(form: str, decimal: str) -> None:
    """By references and operators alone, replicas rounded up among them."""
    s, chosen = FORMS[form], random.Random(form)
    p = predict(s)
    for name, table in tables(p).items():
        typed = typed_over(typed_cells(table), chosen)
        delimiter = ";" if decimal == "," else ","
        cells = cells_of(file_bytes(table, s, "formulas", delimiter, decimal), delimiter)
        for cell, value in typed.items():
            cells[1][cells[0].index(cell)] = repr(value).replace(".", decimal)
        sheet = Sheet(cells, decimal)
        read = {c.name: sheet.column(c.name) for c in table.columns}
        expected = said_anew(table, s, typed, p.gamma)
        assert differences(read, expected) == [], (name, typed)


# ── in LibreOffice ───────────────────────────────────────────────────────────────────────────

OFFICE = shutil.which("soffice") or shutil.which("libreoffice")


def typed_into(data: bytes, typed: dict[str, float], table: Table) -> bytes:
    """The workbook after someone typed other numbers; saving drops every cached value."""
    book = openpyxl.load_workbook(io.BytesIO(data))
    names = defined_names(table.inputs)
    for name, value in typed.items():
        sheet, cell = book.defined_names[names[name]].attr_text.replace("$", "").split("!")
        assert looks_typed(book[sheet][cell]), name
        book[sheet][cell] = value
    saved = io.BytesIO()
    book.save(saved)
    return saved.getvalue()


def through_office(folder: Path) -> None:
    """Every workbook of the folder, in one start of the program."""
    profile = folder.parent / "profile"
    command = [str(OFFICE), f"-env:UserInstallation={profile.as_uri()}", "--headless"]
    command += ["--norestore", "--convert-to", "xlsx:Calc MS Excel 2007 XML"]
    files = sorted(map(str, folder.glob("*.xlsx")))
    subprocess.run([*command, "--outdir", str(folder / "out"), *files], check=True,
                   capture_output=True, timeout=900)  # fmt: skip


def office_agrees(forms: list[str], folder: Path) -> None:
    made = []
    folder.mkdir()
    for form in forms:
        s = FORMS[form]
        p, chosen = predict(s), random.Random(form)
        every = tables(p)
        for name, table in every.items():
            # One number of a cell in every sheet: the regimes and the bill share their inputs.
            cells = {n: v for t in (table, *beside(name, p)) for n, v in typed_cells(t).items()}
            typed = typed_over(cells, chosen)
            inputs = table if name == "gamma" else _sharing(table, beside(name, p))
            data = typed_into(file_bytes(table, s, "xlsx", beside=beside(name, p)), typed, inputs)
            path = folder / f"{len(made)}.xlsx"
            path.write_bytes(data)
            made.append((form, name, typed, table, said_anew(table, s, typed, p.gamma), path.name))
    through_office(folder)
    for form, name, typed, table, expected, file in made:
        book = openpyxl.load_workbook(folder / "out" / file, data_only=True)
        read = list(book.worksheets[0].values)[1 : len(table) + 1]
        columns = zip(*read, strict=True)
        found = dict(zip((c.name for c in table.columns), map(list, columns), strict=False))
        assert differences(found, expected) == [], (form, name, typed)


def _sharing(table: Table, others: tuple[Table, ...]) -> Table:
    """The table with the inputs of all that share its workbook."""
    inputs = {item.name: item for t in (table, *others) for item in t.inputs}
    return Table(table.title, table.name, table.columns, tuple(inputs.values()))


@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_a_spreadsheet_gives_what_the_package_says(tmp_path: Path) -> None:
    office_agrees(FEW, tmp_path / "books")


@pytest.mark.slow
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_a_spreadsheet_gives_what_the_package_says_in_every_form(tmp_path: Path) -> None:
    office_agrees(random.Random(5).sample(sorted(FORMS), 10), tmp_path / "books")
