"""A little of what `python -m tools.fuzz` does at length, and that it would tell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from specmath.checks import InputError
from tools import fuzz
from tools.doors import Door


@pytest.mark.parametrize("name", fuzz.DOORS)
def test_nothing_escapes(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    tally = fuzz.run(name, 2026, range(150))
    assert tally.escapes == []
    assert tally.accepted > 0
    assert tally.refused > 0


def test_an_input_follows_from_its_number() -> None:
    for name in fuzz.DOORS:
        assert fuzz.drawn(name, 1, 7) == fuzz.drawn(name, 1, 7)
        assert len({repr(fuzz.drawn(name, 1, number)) for number in range(20)}) > 10


def test_an_escape_is_told_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(text: str) -> None:
        if "bad" in text:
            raise KeyError(text)
        if "long" in text:
            raise InputError(text * 2000)
        raise InputError("no")

    words = ("fine", "good, then bad, then good", "long")
    door = Door(lambda rng: rng.choice(words), feed)
    monkeypatch.setitem(fuzz.DOORS, "links", door)
    tally = fuzz.run("links", 0, range(60))
    assert tally.refused == sum(fuzz.drawn("links", 0, n) == "fine" for n in range(60))
    assert {shown for _, place, shown in tally.escapes if "KeyError" in place} == {"'bad'"}
    assert any("a refusal of 8000" in place for _, place, _ in tally.escapes)


def test_a_slow_input_has_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "SECONDS", 0.05)

    def hang(_: object) -> None:
        while True:
            pass

    assert isinstance(fuzz.escaped(hang, ""), TimeoutError)


@pytest.mark.parametrize("escapes", [False, True])
def test_the_command_counts_and_ends_with_1_on_an_escape(
    escapes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def feed(_: object) -> None:
        if escapes:
            raise KeyError("x")

    monkeypatch.setitem(fuzz.DOORS, "links", Door(lambda _: "an input", feed))
    monkeypatch.setattr(sys, "argv", ["fuzz", "--door", "links", "--count", "7", "--seed", "3"])
    assert fuzz.main() == escapes
    out = capsys.readouterr().out
    counts = ["0", "0", "7"] if escapes else ["7", "0", "0"]
    assert out.splitlines()[1].split()[:5] == ["links", "7", *counts]
    assert ("--door links --seed 3 --from 0 --count 1" in out) is escapes
