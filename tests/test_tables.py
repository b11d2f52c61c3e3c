"""Tables: what construction refuses, and that a template means what it says."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath.checks import InputError
from specmath.tables.table import Chart, Column, Input, Table, parse, render, shown


def column(name, values, formulas=(), **more):
    return Column(name, name.upper(), "", f"what {name} is", tuple(values), formulas, **more)


def table(*columns, inputs=(), chart=None):
    return Table("A table", "some_table", columns, tuple(inputs), chart)


X = column("x", (1, 2, 3))
K = Input("k", "K", "", "a constant", 2.5)


def test_some_rows_of_a_column_are_for_typing():
    given = column("given", (1, 2, 3), editable=(True, False, True))
    built = table(given, column("double", (2, 4, None), ("{given}*2",) * 3))
    # The last is followed by nothing that is known.
    assert [built.typed(given, row) for row in range(3)] == [True, False, False]
    with pytest.raises(InputError, match="column given must say of each of its 3 rows"):
        column("given", (1, 2, 3), editable=(True,))


def test_rows_and_columns_are_the_values():
    double = column("double", (2, 4, 6), ("{x}*2",) * 3)
    built = table(X, double)
    assert built.rows() == [{"x": 1, "double": 2}, {"x": 2, "double": 4}, {"x": 3, "double": 6}]
    assert built.column("double") is double
    with pytest.raises(InputError, match="one of x, double, got 'treble'"):
        built.column("treble")


def test_numpy_values_become_plain_cells_and_nan_becomes_unknown():
    values = (np.float64(0.5), np.int64(7), np.bool_(True), float("nan"), None, "text")
    stored = column("x", values).values
    assert stored == (0.5, 7, True, None, None, "text")
    assert [type(v) for v in stored] == [float, int, bool, type(None), type(None), str]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e308, 10**400, [1], 1j])
def test_a_value_that_no_cell_holds_is_refused(value):
    with pytest.raises(InputError, match="column x must hold numbers within ±1e"):
        column("x", (value,))
    with pytest.raises(InputError, match="input x must hold numbers within ±1e"):
        Input("x", "", "", "", value)


@pytest.mark.parametrize("name", ["", "α", "2x", "a b", "a-b", "=x", "x" * 101, "é", "x\n"])
def test_names_are_ascii_identifiers(name):
    with pytest.raises(InputError, match="must be an ASCII letter"):
        column(name, (1,))
    with pytest.raises(InputError, match="must be an ASCII letter"):
        Input(name, "", "", "", 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: table(), "at least 1 column and 1 row"),
        (lambda: table(column("x", ())), "at least 1 column and 1 row"),
        (lambda: table(X, column("y", (1, 2))), "column y must have 3 values .* got 2"),
        (lambda: table(X, X), "unique names, got 'x' twice"),
        (lambda: table(X, column("X", (1, 2, 3))), "unique names, got 'X' twice"),
        (lambda: table(X, inputs=[Input("x", "", "", "", 1)]), "unique names, got 'x' twice"),
        (lambda: table(column("date", (1,))), "unique names, got 'date' twice"),
        (lambda: column("y", (1, 2), ("1",)), r"as many formulas as values \(2\) or none, got 1"),
        (lambda: column("y", ("a",), ("1",)), "numbers where it has formulas, got 'a'"),
        (lambda: column("y", (1,), format="[red]0"), "format must be like"),
        (lambda: table(X, chart=Chart("x", ("z",))), "one of x, got 'z'"),
        (lambda: Chart("x", ()), "at least 1 y column"),
        (lambda: Chart("x", ("y",), colors=("#000000",) * 2), "1 colors or none, got 2"),
        (lambda: Chart("x", ("y",), colors=("red",)), "must look like \"#1f77b4\", got 'red'"),
    ],
)
def test_what_construction_refuses(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("formulas", "message"),
    [
        (("1", "{q}", "1"), r"column y, row 1: '\{q\}' must refer to one of x, y, k, got 'q'"),
        (("{x^}", "1", "1"), "row 0: .* must not look above the first row"),
        (("1", "{k^}", "1"), "must refer to one of x, y, got 'k'"),
        (("1", "{y}+1", "1"), "row 1 must not go round in a circle: y → y"),
    ],
)
def test_references_must_resolve(formulas, message):
    with pytest.raises(InputError, match=message):
        table(X, column("y", (1, 1, 1), formulas), inputs=[K])


def test_a_circle_through_two_columns_is_refused_and_a_step_down_the_rows_is_not():
    y = column("y", (1, 1), (None, "{z}"))
    with pytest.raises(InputError, match=r"circle: (y → z → y|z → y → z)"):
        table(y, column("z", (1, 1), (None, "{y}")))
    table(y, column("z", (1, 1), (None, "{y^}")))


@pytest.mark.parametrize("unknown", [None, math.nan, "text"])
def test_an_unknown_never_turns_into_a_number(unknown):
    # A spreadsheet reads an empty cell as 0, so 2*unknown would come out as 0.
    cost = column("cost", (1.0, unknown))
    with pytest.raises(InputError, match=r"row 1: .* refer to numbers .* cost is (None|'text')"):
        table(cost, column("twice", (2.0, 0.0), ("2*{cost}",) * 2))
    twice = table(cost, column("twice", (2.0, None), ("2*{cost}",) * 2)).column("twice")
    assert [twice.formula(0), twice.formula(1)] == ["2*{cost}", None]
    with pytest.raises(InputError, match="refer to numbers"):
        table(column("y", (1,), ("{k}",)), inputs=[Input("k", "", "", "", unknown)])


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " ",
        "SUM({x})",
        "A1",
        "{x}+A1",
        "-{x}",
        "2--1",
        "1+",
        "(1",
        "1)",
        ")1(",
        "()",
        "{x}{x}",
        "1 2",
        "1,5",
        "1;5",
        "{x}&{x}",
        "'a'!{x}",
        '"a"',
        "{x}%",
        "{x",
        "{x^",
        "{x!}",
        "=1",
        "1\n",
        "{α}",
        "1=",
        "1=>2",
        "1**2",
        ".5",
        "0x10",
        "1e",
        "2({x})",
        "{x}(2)",
        "cmd|' /C calc'!A0",
    ],
)
def test_what_is_not_a_formula(bad):
    with pytest.raises(InputError, match=r"^formula must"):
        parse(bad)


@given(st.text(alphabet="{}xy^+-*/=<>() 0123456789.eE,;&|!'\"\n\tAα@", max_size=14))
def test_whatever_parses_holds_operators_numbers_and_references_only(text):
    try:
        tokens = parse(text)
    except InputError:
        return
    assert re.fullmatch(r"[-+*/^<>=().0-9eE\s]*", re.sub(r"\{[A-Za-z]\w*(\^\d*)?\}", "", text))
    assert "".join(token.text for token in tokens) == re.sub(r"[{} ]|\^\d*(?=\})", "", text)


NUMBERS = st.floats(0, 1e6).map(lambda v: f"{v:.6g}") | st.integers(0, 99).map(str)
LEAVES = NUMBERS | st.sampled_from(["{x}", "{k}", "{x^}"])
OPERATORS = st.sampled_from(["+", "-", "*", "/", "^", ">=", "<=", "<>", "<", ">", "="])
FORMULAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(inner, OPERATORS, inner).map("".join) | inner.map(lambda text: f"( {text} )")
    ),
    max_leaves=12,
)


@given(FORMULAS)
def test_every_well_formed_template_renders_to_itself(template):
    back = render(template, lambda name, above: f"{{{name}{'^' * above}}}")
    assert back == template.replace(" ", "")


@given(FORMULAS)
def test_a_decimal_comma_changes_numbers_and_nothing_else(template):
    point = render(template, lambda name, above: "A.1")
    comma = render(template, lambda name, above: "A.1", decimal=",")
    assert comma.count("A.1") == point.count("A.1")
    assert comma.replace("A.1", "R").replace(",", ".") == point.replace("A.1", "R")
    assert "." not in comma.replace("A.1", "R")


def test_render_says_which_row():
    text = render("{x^}*(1+{k})^{x}", lambda name, above: f"{name}{'1' if above else '2'}")
    assert text == "x1*(1+k2)^x2"


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (None, "0.00", ""),
        (True, "0.00", "yes"),
        (False, "", "no"),
        ("free text", "0.00", "free text"),
        (7, "", "7"),
        (1234567, "", "1234567"),
        (0.123456789, "", "0.123457"),
        (2.184, '0.00"×"', "2.18×"),
        (0.61, "0%", "61%"),
        (0.0375, "0.0%", "3.8%"),
        (1234567.8, "#,##0", "1,234,568"),
        (-0.001, "0.00", "0.00"),
        (-1.5, "0.0", "-1.5"),
    ],
)
def test_shown(value, number_format, text):
    assert shown(value, number_format) == text
