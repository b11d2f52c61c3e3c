"""Measure: the measurement that runs, and the report on screen."""

import streamlit as st

from pages.ui.furniture import verbatim
from pages.ui.measure_job import Job, Kept, connected, keep
from pages.ui.measure_job import kept as kept_here
from pages.ui.state import MEASUREMENT
from specmath.checks import InputError
from specmath.measure.report import Report, read_report

TICK_SECONDS = 1.0


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


def keep_here(what: Kept) -> None:
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
        words += "" if left is None else f"; about {duration(left)} left"
    bar, button = st.columns([5, 1], vertical_alignment="center")
    bar.progress(running.share, text=f"{running.share:.0%} {words}")
    if button.button("Cancel", icon=":material/stop:", disabled=stopping, width="stretch"):
        running.cancel.set()
        st.rerun(scope="fragment")
    st.caption("Cancel keeps what is finished by then, and marks it.")


def duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def failure() -> str:
    """Why the last measurement ended without a report; "" where it did not."""
    return str(st.session_state.get("measure_error", ""))


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
            keep_here(Kept(report=opened))
            st.rerun()
        except UnicodeDecodeError:
            fault = f"{found.name} is not UTF-8 text"
        except InputError as error:
            fault = f"{found.name}: {error}"
        st.session_state["measure_fault"] = f"{fault}. Nothing was opened"
    say(st.session_state["measure_fault"])


def say(fault: str) -> None:
    if fault:
        st.error(f"{verbatim(fault)}.", icon=":material/error:")
