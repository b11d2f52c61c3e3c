"""Whether anybody still looks at the app: the browser tab of a session."""

from collections.abc import Callable

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx


def connected() -> Callable[[], bool]:
    """Asks, from any thread, whether the tab that runs this script is open and connected.

    A closed tab, a lost network and a computer asleep all end its connection. Without a server (a
    script run by a test) the answer is always yes.
    """
    context = get_script_run_ctx()
    if context is None or not runtime.exists():
        return lambda: True
    session, server = context.session_id, runtime.get_instance()
    return lambda: server.is_active_session(session)
