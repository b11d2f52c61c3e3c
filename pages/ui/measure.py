"""Measure: what to measure, the measurement that runs, the way to open an earlier report."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.ui.furniture import verbatim
from pages.ui.measure_job import Job, Kept, Models, connected, keep
from pages.ui.measure_job import kept as kept_here
from pages.ui.state import MEASUREMENT
from specmath.checks import InputError
from specmath.measure.pairs import BUILTIN, SHIPPED, SMOLLM2, builtin_prompts
from specmath.measure.plan import Plan, Prompt, parse_prompts, real_numbers, spread, whole_numbers
from specmath.measure.report import Report, read_report
from specmath.measure.server.client import is_loopback
from specmath.measure.torch_model import commands, lacking

OURS, PASTED, FILE = "Shipped with specmath", "Paste my own", "Open a file"
OURS_ARE = {
    BUILTIN: "Prose, code, JSON and grounded text that the pair never saw in training.",
    SMOLLM2: "Twelve short tasks, asked as chat: prose, code, JSON and grounded.",
}
TICK_SECONDS = 1.0
DEMO_TOKENS_PER_SECOND = 15
"""Of SmolLM2 on a processor: 15 to 24 were seen."""


# ── what to measure ──────────────────────────────────────────────────────────────────────────


def settings(busy: bool) -> None:
    """The inputs, the button that starts a measurement of them, and why the last one failed."""
    pair, prompts, numbers = st.columns([4, 4, 3], gap="medium")
    with pair:
        pair_of = models()
    with prompts:
        given = _prompts(pair_of.target)
    with numbers:
        asked = _numbers()
    try:
        plan = asked(given())
    except InputError as error:
        st.error(f"{verbatim(str(error))}.", icon=":material/error:")
        plan = None
    missing = [] if pair_of.target == BUILTIN else lacking(pair_of.target == SMOLLM2)
    if missing:
        _say_how_to_install(missing)
    left, right = st.columns([1, 3], vertical_alignment="center")
    with left:
        if st.button(
            "Measure", type="primary", icon=":material/straighten:", width="stretch",
            disabled=busy or plan is None or bool(missing),
        ):  # fmt: skip
            begun = Job(pair_of, plan, connected())
            st.session_state["measurement"] = begun
            st.session_state["measure_error"] = ""
            _keep(Kept(begun))
            st.rerun()
    _say(failure())
    if plan is not None:
        right.caption(
            f"{plan.units:,} texts of up to {plan.output_tokens:,} tokens"
            f"{_expected(pair_of, plan)}. Nothing leaves this machine. It goes on while you read "
            "other pages or load this one anew, and stops 30 s after this tab is closed: "
            "its address then opens what is done."
        )


def _say_how_to_install(missing: list[str]) -> None:
    steps = ", then ".join(f"`{command}`" for command in commands(missing))
    st.info(
        f"This pair needs {', '.join(f'`{name}`' for name in missing)}, not installed here. In the "
        f"folder of this project run {steps}, and start the app again. The built-in pair needs "
        "nothing more.",
        icon=":material/download:",
    )


def _expected(models: Models, plan: Plan) -> str:
    """How long, where that is long and known before it starts."""
    if models.target != SMOLLM2:
        return ""
    seconds = plan.units * plan.output_tokens / DEMO_TOKENS_PER_SECOND
    return f": about {_duration(seconds)} on a processor; fewer γ, prompts or tokens shorten it"


def _prompts(target: str) -> Callable[[], list[Prompt]]:
    """The widgets now, the prompts later: what is wrong with them is said below the columns."""
    source = kept("prompts", OURS, st.selectbox, "Prompts", [OURS, PASTED, FILE])
    if source == OURS:
        st.caption(OURS_ARE.get(target, "Short texts of four kinds. Your own traffic says more."))
        return SHIPPED[target][1] if target in SHIPPED else builtin_prompts
    if source == PASTED:
        text = kept(
            "pasted", "", st.text_area, "Prompts, parted by blank lines", height=130,
            placeholder="A prompt\n\nAnother prompt",
        )  # fmt: skip
        return lambda: parse_prompts("pasted.txt", text.encode("utf-8", "replace"))
    found = st.file_uploader(
        "Prompts", type=["txt", "json", "jsonl"], key="measure_file",
        label_visibility="collapsed", help="txt: parted by blank lines. json, jsonl: strings, or "
        "objects with text, and optionally segment and response.",
    )  # fmt: skip
    st.caption("json and jsonl entries may carry text, segment and response.")
    if found is not None:
        st.session_state["measure_prompts_file"] = (found.name, found.getvalue())
    name, content = st.session_state.get("measure_prompts_file", ("", b""))
    if found is None and name:
        st.caption(f"In use: {verbatim(name)}")
    return lambda: parse_prompts(name, content) if name else _no_file()


def _no_file() -> list[Prompt]:
    raise InputError("prompts must be given, got no file yet")


def _numbers() -> Callable[[list[Prompt]], Plan]:
    """The widgets now, the plan later, as for the prompts."""
    left, right = st.columns(2)
    with left:
        temperatures = kept("temperatures", "0, 1", st.text_input, "Temperatures")
        count = kept("count", 8, st.number_input, "Prompts used", min_value=1, step=1,
                     help="Segments are taken in turn.")  # fmt: skip
    with right:
        gammas = kept("gammas", "1-8", st.text_input, "γ",
                      help="Each is replayed and really run: 1-8 or 1,2,4.")  # fmt: skip
        tokens = kept("tokens", 48, st.number_input, "Tokens a text", min_value=1, step=16)
    top_p = kept("top_p", 1.0, st.number_input, "Top-p", min_value=0.01, max_value=1.0, step=0.05,
                 help="1 samples from the whole distribution.")  # fmt: skip
    own = st.session_state["measure_choices"]["prompts"] != OURS

    def plan(prompts: list[Prompt]) -> Plan:
        run = tuple(gamma for gamma in whole_numbers("γ", gammas) if gamma > 0)
        if not run:
            raise InputError(f"γ must hold a whole number >= 1, got {gammas!r}")
        return Plan(
            prompts=tuple(spread(prompts, count)), top_p=top_p, gammas=(0, *run), run_gammas=run,
            temperatures=real_numbers("temperatures", temperatures), output_tokens=tokens,
            own_prompts=own,
        )  # fmt: skip

    return plan


def failure() -> str:
    """Why the last measurement ended without a report; "" where it did not."""
    return str(st.session_state.get("measure_error", ""))


# ── which pair ───────────────────────────────────────────────────────────────────────────────


BUILTIN_PAIR, DEMO, FOLDERS = "Built-in", "SmolLM2-135M", "Folders"
LOOK_UP = {"ngram": "N-gram look-up in the text"}
SKIP = {"skip": "The target with layers left out"}
BUILTIN_DRAFTS = {
    "model": "Draft model", "model:argmax": "Draft model, takes its most likely token",
    **LOOK_UP, **SKIP,
}  # fmt: skip
DEMO_DRAFTS = {
    **LOOK_UP, "trained": "Trained draft of two layers, output head of few tokens",
    "trained:full": "Trained draft of two layers, whole output head", **SKIP,
}  # fmt: skip
FOLDER_DRAFTS = {"model": "A second model", **LOOK_UP, **SKIP}
READY = {
    BUILTIN_PAIR: (
        BUILTIN, BUILTIN_DRAFTS, "3-5",
        "The pair that ships with specmath: a target of 1.2 million parameters, small "
        "enough for any CPU. It shows how measuring works; its numbers are not yours.",
    ),
    DEMO: (
        SMOLLM2, DEMO_DRAFTS, "27,28",
        "SmolLM2-135M-Instruct from the package registry, without a hub: a small but real "
        "model. Look-up pays on grounded text, and hardly elsewhere; the trained draft ran at "
        "0.73× to 0.88× where it was measured, as scoring two tokens cost 1.65 plain steps.",
    ),
}  # fmt: skip
"""Pairs that need no folder: what the package calls them, their drafts, layers to leave out."""


def models() -> Models:
    """The pair that the widgets name."""
    pairs = [BUILTIN_PAIR, DEMO, FOLDERS]
    if not is_loopback(st.get_option("server.address") or ""):
        pairs.remove(FOLDERS)
        st.caption("Folders are off: others reach this app, and could try any path of its machine.")
    where = kept("pair", BUILTIN_PAIR, st.segmented_control, "Pair", pairs, required=True)
    if where in READY:
        target, drafts, layers, about = READY[where]
        kind = _draft(f"{target}_draft", drafts, about)
        return Models(target, _with_layers(kind, target, layers))
    target = kept(
        "target", "", st.text_input, "Target: folder or hub name",
        placeholder="a folder with config.json, or organisation/model",
    )  # fmt: skip
    kind = _draft("draft_kind", FOLDER_DRAFTS)
    argmax = False
    if kind == "model":
        draft = kept(
            "draft", "", st.text_input, "Draft: folder or hub name",
            placeholder="one with the same tokenizer",
        )  # fmt: skip
        argmax = kept("argmax", False, st.checkbox, "Draft takes its most likely token")
    else:
        draft = _with_layers(kind, "folder", "")
    dtype = kept(
        "dtype", "auto", st.selectbox, "Numbers", ["auto", "float32", "bfloat16", "float16"]
    )
    chat = kept("chat", False, st.checkbox, "Wrap prompts in the model's chat template")
    return Models(target, draft, dtype, chat, argmax)


def _draft(name: str, drafts: dict[str, str], help: str | None = None) -> str:
    return str(kept(
        name, next(iter(drafts)), st.selectbox, "Draft", list(drafts),
        format_func=drafts.__getitem__, help=help,
    ))  # fmt: skip


def _with_layers(kind: str, pair: str, layers: str) -> str:
    """The draft as the package writes it."""
    if kind != "skip":
        return kind
    written = kept(
        f"layers_{pair}", layers, st.text_input, "Layers left out, from 0",
        placeholder="20-29 or 3,7,11",
    )  # fmt: skip
    return f"skip:{written}"


# ── choices stay when the page is left and entered again ─────────────────────────────────────


def kept_value(name: str, default: Any) -> Any:
    """What `kept` will show."""
    choices = st.session_state.setdefault("measure_choices", {})
    return st.session_state.get(f"measure_{name}", choices.get(name, default))


def forget(name: str) -> None:
    """Let a kept widget start again from its default."""
    st.session_state.pop(f"measure_{name}", None)
    st.session_state["measure_choices"].pop(name, None)


def kept(name: str, default: Any, widget: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """A widget that keeps its value when the page is left and entered again."""
    key = f"measure_{name}"
    if key not in st.session_state:  # to set it again would undo what is being typed
        st.session_state[key] = kept_value(name, default)
    st.session_state["measure_choices"][name] = widget(*given, key=key, **more)
    return st.session_state["measure_choices"][name]


# ── the measurement that runs ────────────────────────────────────────────────────────────────


def job() -> Job | None:
    """The session's measurement; what it found is taken over once it has ended."""
    found: Job | None = st.session_state.get("measurement")
    if found is None or found.alive:
        return found
    del st.session_state["measurement"]
    if found.report is not None:
        st.session_state["measured"] = found.report
    st.session_state["measure_error"] = found.error
    return None


def _keep(what: Kept) -> None:
    """Keep it in the server's memory for this page loaded anew."""
    what.choices = dict(st.session_state.get("measure_choices", {}))
    st.session_state["measure_key"] = keep(what)


def recall() -> str:
    """On the page's first run in a session, take over the measurement that its address names; from
    then on the address names the session's own. Why it could not, "" where nothing failed."""
    fault, named = "", st.query_params.get(MEASUREMENT, "")
    if named and "measure_key" not in st.session_state:
        st.session_state["measure_key"] = named
        if (found := kept_here(named)) is None:
            fault = (
                "The measurement of this address is not kept by this server any more: open its "
                "report (JSON), or measure again"
            )
            del st.session_state["measure_key"]
            del st.query_params[MEASUREMENT]
        else:
            st.session_state.setdefault("measure_choices", {}).update(found.choices)
            if found.job is not None:
                found.job.watch_too(connected())
                st.session_state["measurement"] = found.job
            else:
                st.session_state["measured"] = found.report
    key = st.session_state.get("measure_key")
    if key is not None and st.query_params.get(MEASUREMENT) != key:
        st.query_params[MEASUREMENT] = key
    return fault


@st.fragment(run_every=TICK_SECONDS)
def watch(running: Job) -> None:
    """Progress, time left, Cancel: drawn anew each second without the rest of the page."""
    if not running.alive:
        st.rerun()
    stopping = running.cancel.is_set()
    left = running.seconds_left
    words = "stopping; what is done is being scored" if stopping else running.doing
    if not stopping:
        words += "" if left is None else f"; about {_duration(left)} left"
    bar, button = st.columns([5, 1], vertical_alignment="center")
    bar.progress(running.share, text=f"{running.share:.0%} {words}")
    if button.button("Cancel", icon=":material/stop:", disabled=stopping, width="stretch"):
        running.cancel.set()
        st.rerun(scope="fragment")
    st.caption("Cancel keeps what is finished by then, and marks it.")


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"


# ── the report on screen ─────────────────────────────────────────────────────────────────────


def measured() -> Report | None:
    """The report on screen: measured in this session, or opened."""
    return st.session_state.get("measured")


def open_report() -> None:
    """Open the JSON of an earlier report; one that cannot be read changes nothing."""
    found = st.file_uploader("Open an earlier report (JSON)", type="json", key="measure_report")
    if found is None:
        return
    if st.session_state.get("measure_opened") != found.file_id:
        st.session_state["measure_opened"] = found.file_id
        st.session_state["measure_fault"] = ""
        try:
            opened = read_report(found.getvalue().decode("utf-8"))
            st.session_state["measured"] = opened
            st.session_state["measure_error"] = ""
            _keep(Kept(report=opened))
            st.rerun()
        except UnicodeDecodeError:
            fault = f"{found.name} is not UTF-8 text"
        except InputError as error:
            fault = f"{found.name}: {error}"
        st.session_state["measure_fault"] = f"{fault}. Nothing was opened"
    _say(st.session_state["measure_fault"])


def _say(fault: str) -> None:
    if fault:
        st.error(f"{verbatim(fault)}.", icon=":material/error:")
