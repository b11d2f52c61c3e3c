"""Foreign structures, foreign text, and what escapes on a page: each ends in one plain sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from hypothesis import given
from hypothesis import strategies as any_
from pydantic import TypeAdapter
from streamlit.runtime.scriptrunner_utils.exceptions import RerunException, StopException
from streamlit.testing.v1 import AppTest

from pages.ui import furniture, measure_pair
from pages.ui.frame import frame
from specmath.checks import InputError, plain_text, real, short, whole
from specmath.foreign import json_of, of_type
from specmath.logs import read

APP = Path(__file__).parents[1] / "app.py"
LONG = int("9" * 4000) ** 2
"""More digits than Python prints."""


@pytest.mark.parametrize(
    "value", [10**400, LONG, [LONG], "x" * 10**6, ["\x1b[31m\u202e"]], ids=lambda _: ""
)
@pytest.mark.parametrize("check", [real, whole])
def test_any_value_makes_one_short_line(check: Any, value: object) -> None:
    with pytest.raises(InputError, match=r"^n must be a") as caught:
        check("n", value, 0)
    message = str(caught.value)
    assert len(message) < 150
    assert message.isprintable()


@given(any_.text())
def test_plain_text_is_one_printable_line_and_keeps_what_is_seen(text: str) -> None:
    found = plain_text(text)
    assert plain_text(found) == found
    assert "\n" not in found
    visible = [c for c in text if c.isalnum() or c in "<>[]()*`"]
    assert [c for c in found if c.isalnum() or c in "<>[]()*`"] == visible
    assert not {"\x1b", "\u202e", "\u2066", "\x9b", "\u200b", "\ud800"} & {*found}


def test_short_says_how_it_would_be_written() -> None:
    assert short("a\nb") == "a b"
    assert short("ab", quoted=True) == "'ab'"
    assert short(LONG) == "a value too long to print"
    assert short("x" * 100, 10) == "x" * 9 + "…"


def test_json_that_cannot_be_read_is_one_sentence() -> None:
    for text in ("{", "[" * 100_000, "9" * 5000, b"\xff\xfe\x00"):
        with pytest.raises(InputError, match=r"^it is not JSON"):
            json_of("it", text)


def test_a_value_of_another_type_is_named_with_its_place() -> None:
    kind = TypeAdapter(dict[str, list[int]])
    assert of_type(kind, "map", {"a": [1]}) == {"a": [1]}
    for value, sentence in (
        ([1], "map must be a JSON object"),
        ({"a": 1}, "map.a must be a list, got 1"),
        ({"a": [1, 0.5]}, "map.a.1 must be a whole number, got 0.5"),
        ({"a": [1, "x"]}, r"map.a.1: must be a valid integer.*got 'x'"),
    ):
        with pytest.raises(InputError, match=sentence):
            of_type(kind, "map", value)
    with pytest.raises(InputError) as caught:
        of_type(kind, "map", {f"k{n}": n for n in range(1000)})
    assert str(caught.value).count(";") == 4


def test_a_number_beyond_all_counting_is_none_of_a_log() -> None:
    """A length of 1e308 once overflowed; now it says as little as one that is missing."""
    counts = {"total_accepted_draft_tokens": 69, "total_draft_tokens": 120}
    line = {"request_perf_metrics": {"speculative_decoding": counts}}
    (missing,) = read(json.dumps(line))
    for length in (1e308, 10**400, -1e308, float("nan"), "2.7", [2.7], True):
        (found,) = read(json.dumps(line | {"avg_decoded_tokens_per_iter": length}))
        assert found == missing
    (found,) = read(json.dumps(line | {"avg_decoded_tokens_per_iter": 2.725}))
    assert found.steps == 40


# ── the page ─────────────────────────────────────────────────────────────────────────────────


@given(any_.text(alphabet="\\`*_[]<>#|~$&!-+.:/@w1a ", max_size=12))
def test_every_mark_is_escaped_and_nothing_is_lost(text: str) -> None:
    shown = furniture.verbatim(text)
    plain = []
    rest = iter(shown.replace(furniture.JOINER, ""))
    for character in rest:
        escaped = character == "\\"
        plain.append(next(rest) if escaped else character)
        assert escaped or character not in "`*_[]<>#|~$&"
    assert "".join(plain) == " ".join(text.split())


@pytest.mark.parametrize("text", ["http://a.b", "HTTPS://a.b", "www.a.b", "me@a.b", ":home:"])
def test_what_markdown_would_find_in_plain_text_is_kept_apart(text: str) -> None:
    assert furniture.JOINER in furniture.verbatim(f"see {text} now")


def opened(**link: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    for name, value in link.items():
        app.query_params[name] = value
    return app.run()


def test_what_escapes_is_one_sentence_and_the_inputs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(alpha="0.6", gamma="3", c="0.1")
    app.switch_page("pages/gamma.py").run()
    app.number_input(key="extra_cost").set_value(7.0).run()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("by **nothing**\nat all")

    with monkeypatch.context() as patched:
        patched.setattr(furniture, "choices_of_gamma", fail)
        app.run()
        assert [box.value for box in app.exception] == []
        (said,) = [box.value for box in app.error]
        assert "ZeroDivisionError" in said
        assert r"by \*\*nothing\*\* at all" in said
        assert "Traceback" not in said
    app.run()
    assert not app.error
    assert app.number_input(key="extra_cost").value == 7.0  # below the page's failure, not drawn
    assert app.query_params["alpha"] == "0.6"


def test_a_refusal_that_nobody_took_is_said_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InputError("c must be >= 0, got -1")

    monkeypatch.setattr(furniture, "numbers", refuse)
    app = opened()
    assert [box.value for box in app.error] == [r"c must be \>= 0, got -1. Your inputs are kept."]


@pytest.mark.parametrize("control", [StopException, RerunException, KeyboardInterrupt])
def test_what_streamlit_raises_to_steer_passes(control: type[BaseException]) -> None:
    error = RerunException(None) if control is RerunException else control()  # type: ignore[arg-type]
    with pytest.raises(control), frame():
        raise error


def test_folders_only_where_nobody_else_reaches_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    for address, offered in (("127.0.0.1", True), ("localhost", True), ("::1", True),
                             ("0.0.0.0", False), ("", False), ("192.168.1.4", False)):  # fmt: skip
        monkeypatch.setattr(st, "get_option", lambda _, at=address: at)
        app = AppTest.from_function(_pair).run()
        (pairs,) = app.get("button_group")
        assert (measure_pair.FOLDERS in pairs.options) is offered
        assert any("Folders are off" in each.value for each in app.caption) is not offered


def _pair() -> None:
    from pages.ui import measure_pair

    measure_pair.models()
