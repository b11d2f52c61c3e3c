"""What every command answered before, field by field: structure may move, numbers may not."""

from __future__ import annotations

import gzip
import json

import pytest
from golden.make import GOLDEN, answer, commands, differences

BEFORE = json.loads(gzip.decompress(GOLDEN.read_bytes()))


def test_every_command_has_its_answer() -> None:
    assert set(BEFORE) == set(commands())


@pytest.mark.parametrize("command", sorted(BEFORE))
def test_the_answer_is_what_it_was(command: str) -> None:
    now = json.loads(json.dumps(answer(command)))
    assert differences("", BEFORE[command], now) == []


def test_a_moved_number_a_lost_key_and_a_changed_code_are_seen() -> None:
    before = {"a": 1.0, "b": ["x", 2], "c": "use", "d": "said in words"}
    assert differences("", before, before | {"more": 1, "d": "other words"}) == []
    for changed in ({"a": 1.0 + 1e-8}, {"b": ["x", 3]}, {"b": ["x"]}, {"c": "skip"}, {"a": None}):
        assert len(differences("", before, before | changed)) == 1
    assert differences("", before, {}) != []
