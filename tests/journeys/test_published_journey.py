"""Somebody asks how far the numbers can be trusted."""

from __future__ import annotations

import csv
import io

import pytest
from driver import Visitor, until

from specmath.published.case import shipped
from specmath.scenario.files import build, to_link
from specmath.scenario.forms import EXAMPLE_PAIR

pytestmark = pytest.mark.browser


def test_from_a_prediction_to_the_rows_behind_it(visitor: Visitor) -> None:
    """Own hardware, the nearest case, another quantity, the table to take away."""
    visitor.open("what_if", **to_link(build({"alpha": 0.7, "gamma": 3, **EXAMPLE_PAIR})))
    visitor.go_to("published")
    visitor.says(f"of {len(shipped()):,} published rows are predicted")
    main = visitor.page.get_by_test_id("stMain")
    assert "published rows have this kind of drafter" in main.inner_text()
    visitor.choose("Measured", "Time per output token")
    visitor.settle()
    visitor.choose("Told apart by", "Engine")
    visitor.settle()

    def shows_engines() -> None:
        names = {trace for figure in visitor.figures() for trace in figure}
        assert {"vllm", "sglang", "tensorrt-llm", "equal"} <= names

    until(shows_engines)
    box = visitor.unfold("Table: Published rows, predicted and measured")
    button = box.get_by_role("button", name="CSV", exact=True)
    name, data = visitor.download(button)
    assert name == "specmath-published.csv"
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))
    assert {row["id"] for row in rows} >= {case.id for case in shipped()}
