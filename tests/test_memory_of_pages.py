"""What is too long for an address: kept in the server under a short key, bounded, and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui import memory
from pages.ui.state import DRAFTS, KEPT, PINS
from specmath.checks import InputError
from specmath.drafts import Listed
from specmath.scenario import Scenario
from specmath.scenario.files import build, drafts_in, from_toml, to_link, to_toml
from specmath.scenario.forms import EXAMPLE_PAIR

ROOT = Path(__file__).parents[1]
LONG = json.dumps({
    "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "comment": "x" * 3000,
})  # fmt: skip


def visit(page: str | None, **parameters: Any) -> AppTest:
    """A session of its own, as after F5: it knows the address and nothing else."""
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    for name, value in parameters.items():
        app.query_params[name] = value
    app.run()
    if page is not None:
        app.switch_page(f"pages/{page}.py").run()
    assert [box.value for box in app.exception] == []
    return app


def address(app: AppTest) -> dict[str, str]:
    """Its parameters, one value each."""
    each = app.query_params.items()
    return {name: value if isinstance(value, str) else value[0] for name, value in each}


# ── the memory ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_TEXTS", memory.OrderedDict())


@pytest.mark.usefixtures("empty")
def test_the_same_text_has_the_same_short_key_and_comes_back() -> None:
    key, other = memory.keep("a" * 5000), memory.keep("b")
    assert key is not None
    assert key == memory.keep("a" * 5000) != other
    assert len(key) == 12
    assert memory.kept(key) == "a" * 5000
    assert memory.kept("nothing-like") is None


@pytest.mark.usefixtures("empty")
def test_it_is_bounded_in_number_and_in_size_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = memory.keep("first"), memory.keep("second")
    assert first
    assert second
    memory.kept(first)  # asked for: now the other is the oldest
    for i in range(memory.MOST_TEXTS - 1):
        memory.keep(f"text {i}")
    assert (memory.kept(first), memory.kept(second)) == ("first", None)
    assert len(memory._TEXTS) == memory.MOST_TEXTS
    monkeypatch.setattr(memory, "MOST_CHARACTERS", 5000)
    memory.keep("c" * 4000)
    assert sum(map(len, memory._TEXTS.values())) <= 5000
    assert memory.keep("d" * (memory.LONGEST + 1)) is None


# ── a scenario that is too long for a link ───────────────────────────────────────────────────


def long_scenario() -> Scenario:
    return build({"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, "model": LONG})


def test_a_pasted_config_survives_a_page_that_is_loaded_anew() -> None:
    app = visit("batch", **to_link(build({"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR})))
    app.text_area(key="paste_model").set_value(LONG).run()
    assert app.session_state["scenario"].model == LONG
    found = address(app)
    assert {*found} == {KEPT}
    assert len(found[KEPT]) < 20
    again = visit("batch", **found)
    assert again.session_state["scenario"] == app.session_state["scenario"] == long_scenario()
    assert address(again) == found
    assert not again.warning
    again.session_state["drawer_file"] = True
    again.run()
    told = " ".join(box.value for box in again.sidebar.caption)
    assert "a key to this server's memory instead" in told


def test_a_key_that_is_no_longer_known_is_said_and_gives_no_answer() -> None:
    app = visit(None, kept="AAAAAAAAAAAA")
    told = " ".join(box.value for box in app.warning).replace("\\", "")
    assert "does not know it any more" in told
    assert not app.success
    assert any("The inputs are right" in button.label for button in app.button)


# ── drafts that a person listed ──────────────────────────────────────────────────────────────


def test_a_list_of_drafts_survives_a_page_that_is_loaded_anew() -> None:
    served = to_link(build({"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR}))
    app = visit("drafts", **served)
    assert DRAFTS not in address(app)
    (box,) = [b for b in app.multiselect if str(b.key).startswith("compared")]
    box.set_value(["Qwen3-0.6B"]).run()
    found = address(app)
    assert {n: v for n, v in found.items() if n != DRAFTS} == served
    again = visit("drafts", **found)
    assert Listed.from_dict(again.session_state["drafts"]) == Listed((), ("Qwen3-0.6B",))
    (box,) = [b for b in again.multiselect if str(b.key).startswith("compared")]
    assert box.value == ["Qwen3-0.6B"]
    assert address(again) == found
    # It goes along to another page, and is dropped from the address once the list is empty.
    again.switch_page("pages/cost.py").run()
    again.switch_page("pages/drafts.py").run()
    assert Listed.from_dict(again.session_state["drafts"]).compared == ("Qwen3-0.6B",)
    (box,) = [b for b in again.multiselect if str(b.key).startswith("compared")]
    box.set_value([]).run()
    assert DRAFTS not in address(again)


def test_a_list_that_is_no_longer_known_is_said_where_it_stood() -> None:
    served = to_link(build({"alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR}))
    app = visit("drafts", **served, drafts="AAAAAAAAAAAA")
    told = " ".join(box.value for box in app.warning)
    assert "The list of drafts of this address was kept in the memory of a server" in told
    assert app.success or app.info, "the rest of the page has its answer"
    assert "N\u2011gram" in " ".join(box.value for box in app.markdown)


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def test_what_was_listed_goes_into_the_file_and_comes_back() -> None:
    s = long_scenario()
    listed = Listed(
        (("mine", 0.9, 0.02, 7.0, None), (None, None, None, None, 2.0)), ("Qwen3-0.6B",)
    )
    text = to_toml(s, listed.to_dict())
    assert from_toml(text) == s
    assert Listed.from_dict(drafts_in(text)) == listed
    assert Listed.from_dict(drafts_in(to_toml(s))) == Listed()


@pytest.mark.parametrize(
    "drafts",
    [
        "5", "[1]", '{rows = 5}', '{rows = [{alpha = "x"}]}', "{rows = [{beta = 0.5}]}",
        "{compared = [1]}", "{other = 1}", "{rows = [{draft = true}]}",
    ],
)  # fmt: skip
def test_drafts_of_another_kind_in_a_file_are_refused(drafts: str) -> None:
    text = f"drafts = {drafts}\n{to_toml(long_scenario())}"
    with pytest.raises(InputError, match="drafts must be rows of draft, alpha, c, gamma"):
        Listed.from_dict(drafts_in(text))


# ── side by side ─────────────────────────────────────────────────────────────────────────────


def test_what_is_pinned_is_compared_survives_f5_and_is_gone_with_its_server() -> None:
    served = build({"alpha": 0.8, **EXAMPLE_PAIR, "concurrency": 16, "prompt_tokens": 500})
    busy = served.model_copy(update={"concurrency": 64})
    app = visit(None, **to_link(served))
    press(app, "Pin this scenario to compare")
    assert "Side by side" not in [head.value for head in visit(None, **to_link(busy)).subheader]

    again = visit(None, **(to_link(busy) | {PINS: address(app)[PINS]}))
    assert again.session_state["scenario"] == busy
    text = " ".join(block.value for block in again.markdown)
    assert "| Pinned 1 | 16 |" in text.replace("\u00a0", " ")
    assert "| Now | 64 |" in text
    press(again, "Back to pinned 1")
    assert again.session_state["scenario"] == served
    press(again, "Unpin all")
    assert PINS not in address(again)

    lost = visit(None, **(to_link(busy) | {PINS: "AAAAAAAAAAAA"}))
    assert "What was pinned in this address was kept in the memory" in lost.warning[0].value


def press(app: AppTest, label: str) -> None:
    (button,) = [each for each in app.button if each.label == label]
    button.click().run()
    assert [box.value for box in app.exception] == []
