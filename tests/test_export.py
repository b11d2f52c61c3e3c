"""The writers: layout, live formulas recalculated by an independent evaluator, hostile text."""

from __future__ import annotations

import datetime
import io
import re
import zipfile

import openpyxl
import pytest
from helpers.sheets import (
    FORMULAS,
    HOSTILE,
    MAX_GAMMA,
    Sheet,
    assert_same,
    brute_force,
    cells_of,
    gamma_table,
)
from hypothesis import given
from hypothesis import strategies as st

import specmath
from specmath.checks import InputError
from specmath.foreign import clean, neutralise
from specmath.tables.files import defined_names, to_csv, to_xlsx
from specmath.tables.table import Cell, Chart, Column, Input, Table

DAY = datetime.date(2026, 3, 9)


def test_csv_values_layout():
    data = to_csv(gamma_table(text="H100, batch 1"), scenario="my scenario", date=DAY)
    assert data.startswith(b"\xef\xbb\xbf")
    header, *rows = cells_of(data)
    assert header[:8] == [*FORMULAS, "note"]
    assert header[8:11] == ["specmath_version", "date", "scenario"]
    assert header[11:] == ["alpha", "c", "sigma", "price", "gpu"]
    assert data.splitlines()[0].removeprefix(b"\xef\xbb\xbf").isascii()
    stamp = [specmath.__version__, "2026-03-09", "my scenario"]
    for row in rows:
        assert row[7:] == ["H100, batch 1", *stamp, "0.8", "0.05", "0.125", "", "H100, batch 1"]
    # Whole precision: what is read back is the very same double; unknown is empty.
    for name, values in list(brute_force(0.8, 0.05, 0.125).items())[:6]:
        read = [row[header.index(name)] for row in rows]
        assert [float(cell) if cell else None for cell in read] == values
    assert [row[header.index("is_faster")] for row in rows] == ["0"] + ["1"] * 8


def test_date_is_today_where_none_is_given():
    before = datetime.date.today()
    read = cells_of(to_csv(gamma_table()))[1][9]
    assert before <= datetime.date.fromisoformat(read) <= datetime.date.today()


@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), (";", "."), (";", ",")])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_changing_alpha_in_the_csv_changes_the_table(alpha, delimiter, decimal):
    options = {"formulas": True, "delimiter": delimiter, "decimal": decimal}
    cells = cells_of(to_csv(gamma_table(alpha=0.8), date=DAY, **options), delimiter)
    cells[1][cells[0].index("alpha")] = repr(alpha).replace(".", decimal)
    sheet = Sheet(cells, decimal)
    assert sheet.column("alpha") == [alpha] * (MAX_GAMMA + 1)
    for name, expected in brute_force(alpha, 0.05, 0.125).items():
        assert_same(sheet.column(name), expected, 1e-14, name)
    assert sheet.column("price") == [None] * (MAX_GAMMA + 1)


def test_formulas_and_values_have_the_same_layout_and_only_operators():
    values, live = (cells_of(to_csv(gamma_table(), date=DAY, formulas=f)) for f in (False, True))
    assert values[0] == live[0]
    assert [len(row) for row in values] == [len(row) for row in live]
    formulas = [cell for row in live for cell in row if cell.startswith("=")]
    assert len(formulas) == 5 * 9 + 8 + 4 * 8
    for cell in formulas:
        assert re.fullmatch(r"=([A-Z]+\d+|[-+*/^<>=().\d])+", cell), cell
    assert live[3][1:5] == ["=B3*L4", "=C3+B4", "=(C4-1)/A4", "=1+N4*A4+A4*M4"]


def test_columns_beyond_z_have_two_letters():
    columns = [Column(f"x_{i}", "", "", "", (i, i)) for i in range(703)]
    last = Column("last", "", "", "", (1379, 0), ("{x_25}+{x_26}+{x_701}+{x_702}-75", None))
    cells = cells_of(to_csv(Table("t", "t", (*columns, last)), formulas=True))
    assert cells[1][703] == "=Z2+AA2+ZZ2+AAA2-75"
    assert Sheet(cells).at(1, 703) == 1379


@pytest.mark.parametrize(("delimiter", "decimal"), [(",", ","), ("\t", "."), (";", ""), ("", ".")])
def test_csv_options_that_would_not_read_back(delimiter, decimal):
    with pytest.raises(InputError, match=r"delimiter and decimal must be"):
        to_csv(gamma_table(), delimiter=delimiter, decimal=decimal)


LEAF = st.sampled_from(["{x}", "{k}", "{x^}", "2", "0.5", "1e-3", "3"])
EXPRESSION = st.recursive(
    LEAF.map(lambda leaf: (leaf, leaf)),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(
        # The template leaves out the brackets that precedence makes needless.
        lambda t: (f"({t[0][0]}){t[1]}({t[2][0]})", f"({t[0][1]}{t[1]}{t[2][1]})")
    ),
    max_leaves=8,
)


@given(EXPRESSION, st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_any_formula_reaches_the_csv_as_meant(expression, before, here, k):
    """Templates against Python's own arithmetic, through a CSV with decimal commas."""
    template, plain = expression
    names = {"{x^}": "before", "{x}": "here", "{k}": "k"}
    for reference, name in names.items():
        plain = plain.replace(reference, name)
    try:
        value = eval(plain, {"before": before, "here": here, "k": k})
    except ZeroDivisionError:
        return
    table = Table(
        "t",
        "t",
        (
            Column("x", "", "", "", (before, here)),
            Column("y", "", "", "", (0, value), (None, template)),
        ),
        (Input("k", "", "", "", k),),
    )
    cells = cells_of(to_csv(table, formulas=True, delimiter=";", decimal=","), ";")
    assert Sheet(cells, ",").column("y")[1] == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text):
    safe = neutralise(text)
    assert "'" in safe
    assert neutralise(safe) == safe
    assert len(safe.splitlines()) == 1
    assert safe.replace("'", "").strip() == clean(text).replace("'", "").strip()


def starts_formula(cell: str) -> bool:
    return cell.strip().lstrip('"').lstrip()[:1] in tuple("=+-@")


@given(st.text() | st.text(alphabet="=+-@,;|\"' \t\r\nx1()", max_size=12))
def test_no_text_starts_a_formula_under_either_delimiter(text):
    table = Table("t", "t", (Column("x", "", "", "", (text,)),))
    data = to_csv(table, scenario=text, date=DAY)
    header, row = cells_of(data)
    assert len(row) == len(header) == 4
    assert row[0] == row[3] == neutralise(text) == neutralise(neutralise(text))
    assert not re.search(r"[\t\r\n]", row[0])
    for delimiter in ",;|":
        for cells in cells_of(data, delimiter):
            assert not any(cell and starts_formula(cell) for cell in cells), (delimiter, cells)


@given(st.text(alphabet=st.characters(codec="ascii", categories=("L", "N")), max_size=30))
def test_ordinary_text_is_left_alone(text):
    for plain in (text, f"{text} (α = 0.8), T5-small: a+b", f"{text}'s"):
        assert neutralise(plain) == plain


def test_text_that_no_cell_holds():
    with pytest.raises(InputError, match="at most 32767 characters, got 32768"):
        to_csv(gamma_table(), scenario="x" * 32_768)
    with pytest.raises(InputError, match="at most 32767 characters, got 32768"):
        to_xlsx(gamma_table(), scenario="x" * 32_768)
    assert cells_of(to_csv(gamma_table(), scenario="\ud800 \x00"))[1][10] == "   "


def workbook(table: Table, values: bool = False):
    data = to_xlsx(table, scenario="my scenario", date=DAY)
    return openpyxl.load_workbook(io.BytesIO(data), data_only=values)


def test_workbook_carries_live_formulas_and_their_values():
    live, cached = workbook(gamma_table()), workbook(gamma_table(), values=True)
    assert live.sheetnames == ["Results", "Inputs", "Definitions", "About"]
    results = live["Results"]
    assert results.freeze_panes == "B2"
    assert [cell.value for cell in results[1]][:3] == [
        "Gamma (tokens)",
        "assumed",
        "Tokens_Per_Step",
    ]
    row = [cell.value for cell in results[4]]
    assert row[:3] == [2, "=B3*alpha", "=C3+B4"]
    assert row[4] == "=1+sigma*A4+A4*c_draft"
    assert results["F4"].number_format == '0.00"×"'
    for col, (name, expected) in enumerate(brute_force(0.8, 0.05, 0.125).items(), start=1):
        read = [cached["Results"].cell(line, col).value for line in range(2, MAX_GAMMA + 3)]
        # The file keeps 16 digits.
        assert_same(read, expected, 1e-15, name)
        assert [type(v) is bool for v in read] == [type(v) is bool for v in expected], name


def test_workbook_inputs_are_named_cells():
    book = workbook(gamma_table())
    targets = {name: defined.attr_text for name, defined in book.defined_names.items()}
    assert targets["alpha"] == "Inputs!$B$2"
    assert targets["c_draft"] == "Inputs!$B$3"
    assert [book["Inputs"].cell(line, 2).value for line in range(2, 6)] == [0.8, 0.05, 0.125, None]
    assert [book["Inputs"].cell(line, 4).value for line in (2, 3)] == ["alpha", "c_draft"]


def test_names_that_excel_reads_as_references_are_changed():
    names = ["alpha", "c", "r", "R1C1", "tp8", "b1", "c_hat", "h100", "c_draft", "gamma", "true"]
    inputs = tuple(Input(name, "", "", "", 1) for name in names)
    table = Table("t", "t", (Column("x", "", "", "", (1,)),), inputs)
    assert list(defined_names(table.inputs).values()) == [
        *("alpha", "c_draft_", "r_", "R1C1_", "tp8_", "b1_", "c_hat", "h100_", "c_draft"),
        *("gamma", "true_"),
    ]
    # XlsxWriter itself warns of names that Excel refuses, and leaves them out.
    assert set(workbook(table).defined_names) == set(defined_names(table.inputs).values())


def test_workbook_definitions_and_about():
    book = workbook(gamma_table(text="=1+1"))
    definitions = {row[0]: row[1:] for row in book["Definitions"].values}
    assert definitions["name".title()] == ("Label", "Unit", "Definition", "Basis", "Source")
    assert definitions["speedup"] == ("Speedup", None, "speedup, from sums", "computed", None)
    assert definitions["c"][3] == "assumed"
    assert set(definitions) == {"Name", *FORMULAS, "note", "alpha", "c", "sigma", "price", "gpu"}
    about = dict(row[:2] for row in book["About"].values)
    assert about["title"] == "=1+1"
    assert about["specmath_version"] == specmath.__version__
    assert about["date"] == "2026-03-09"
    assert about["scenario"] == "my scenario"


@pytest.mark.parametrize("text", HOSTILE)
def test_workbook_text_is_never_a_formula(text):
    """User text in every place: stored as a string, and no title of the chart is a reference."""
    table = gamma_table(text=text)
    book = workbook(table)
    note = book["Results"]["H2"]
    assert (note.data_type, note.value) == ("s", clean(text))
    wanted = {f"={f}" for f in ("1", "alpha", "c_draft")}
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    assert sheet.title == "Results", cell
                    assert cell.value in wanted or re.match(r"=[A-Z1(]", cell.value), cell
                    assert cell.column <= 7, cell
    with zipfile.ZipFile(io.BytesIO(to_xlsx(table))) as parts:
        chart = parts.read("xl/charts/chart1.xml").decode()
    references = re.findall(r"<c:f>(.*?)</c:f>", chart)
    assert len(references) == 6
    assert all(r.startswith("Results!$") for r in references)


def chart_xml(x: tuple[Cell, ...]) -> str:
    y = tuple(float(i) for i in range(len(x)))
    columns = (Column("x", "The x", "tokens", "", x), Column("y", "The y", "×", "", y))
    table = Table("A title", "t", columns, chart=Chart("x", ("y",), colors=("#123456",)))
    with zipfile.ZipFile(io.BytesIO(to_xlsx(table))) as parts:
        return parts.read("xl/charts/chart1.xml").decode()


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        ((0, 1, 2, 3), "lineChart"),
        ((0.1, 0.2, 0.3), "lineChart"),
        (("a", "b", "c"), "lineChart"),
        ((1,), "lineChart"),
        ((1, 2, 4, 8), "scatterChart"),
        ((0.5, 0.6, 0.9), "scatterChart"),
    ],
)
def test_chart_keeps_distances_on_the_x_axis(x, kind):
    xml = chart_xml(x)
    assert f"<c:{kind}>" in xml
    assert {"The x (tokens)", "The y (×)", "A title"} <= set(re.findall(r"<a:t>(.*?)</a:t>", xml))
    assert "123456" in xml
    assert "Results!$B$2" + (f":$B${len(x) + 1}" if len(x) > 1 else "") in xml


def test_table_without_inputs_or_chart():
    book = workbook(Table("t", "t", (Column("x", "", "", "", (1, None, "a", True)),)))
    assert book.sheetnames == ["Results", "Definitions", "About"]
    assert [row[0] for row in book["Results"].values] == ["x", 1, None, "a", True]


def test_equal_tables_give_equal_bytes():
    assert to_xlsx(gamma_table(), date=DAY) == to_xlsx(gamma_table(), date=DAY)
    assert to_xlsx(gamma_table(), date=DAY) != to_xlsx(gamma_table(alpha=0.7), date=DAY)
