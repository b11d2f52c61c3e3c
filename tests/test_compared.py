"""Scenarios side by side: the fields in which they differ, and each one's own prediction."""

from __future__ import annotations

import pytest

from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.tables.compared import compared_table, differing


def test_rows_are_the_predictions_and_columns_the_differences() -> None:
    """160/72 = 2.222 at γ=4 and 1.888/1.2 = 1.573 at γ=1, both at no overhead."""
    known = {"alpha": 0.888, "target_ms": 40.0, "draft_ms": 8.0, "sigma": 0.0, "overhead": 0.01}
    both = [predict(Scenario(gamma=g, **known)) for g in (4, 1)]
    table = compared_table([("Pinned 1", both[0]), ("Now", both[1])])
    assert differing(both) == ("gamma",)
    assert table.column("field_gamma").values == ("4", "1")
    speeds = table.column("walltime_improvement").values
    assert speeds == tuple(p.speedup.value for p in both)
    assert speeds[1] == pytest.approx(1.888 / 1.21)
    assert table.column("tpot_ms").values == pytest.approx([40 / s for s in speeds])
    assert table.column("decision").values == ("on", "on")


def test_what_only_one_of_them_knows_is_unknown_in_the_other() -> None:
    timed = predict(Scenario(alpha=0.8, target_ms=40, draft_ms=4, gamma=4, label="ours"))
    bare = predict(Scenario(alpha=0.8, c=0.1, gamma=4))
    table = compared_table([("Pinned 1", timed), ("Now", bare)])
    assert table.column("tpot_ms").values[1] is None
    assert table.column("field_target_ms").values == ("40.0", "–")
    assert "label" not in differing([timed, bare])
    assert differing([timed, timed]) == ()
