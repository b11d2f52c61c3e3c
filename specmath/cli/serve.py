"""serve: the app in a browser."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import click

import specmath
from specmath.checks import InputError

__all__ = ["serve_command"]


def app_file() -> Path:
    """`app.py`, with `pages/` beside it: within an installed package, or beside the package."""
    package = Path(specmath.__file__).resolve().parent
    for folder in (package / "_app", package.parent):
        if (folder / "app.py").is_file() and (folder / "pages").is_dir():
            return folder / "app.py"
    raise InputError("the app is not installed here; run this from the project's folder")


@click.command("serve", epilog="\b\nExample: specmath serve --port 8600")
@click.option("--port", type=click.IntRange(1, 65535), default=8501)
@click.option("--headless", is_flag=True, help="Do not open a browser.")
def serve_command(port: int, headless: bool) -> None:
    """Open the app in a browser, on this machine only."""
    app = app_file()
    # Streamlit reads .streamlit/config.toml in its folder. It runs in this process, not in one
    # of its own: a signal reaches it, and nothing is left running.
    os.chdir(app.parent)
    sys.argv = ["streamlit", "run", str(app), f"--server.port={port}"]
    if headless:
        sys.argv.append("--server.headless=true")
    runpy.run_module("streamlit", run_name="__main__", alter_sys=True)
