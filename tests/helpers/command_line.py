"""Commands run in this process: what they print, or how they refuse."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from specmath.cli import cli, main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> str:
    """Standard output of a command that succeeds and says nothing on stderr."""
    code = None
    try:
        main(arguments)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert (code or 0, err) == (0, "")
    return out


def invoked(*arguments: str, stdin: bytes | None = None) -> Result:
    """Whatever comes of a command: for exit codes that are answers, and for standard input."""
    return CliRunner().invoke(cli, arguments, input=stdin)


def fault(capsys: Capture, *arguments: str) -> str:
    """Standard error of a command that exits 2 with nothing on stdout."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert "Traceback" not in err
    return err
