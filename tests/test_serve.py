"""serve: one process that ends when told to, from the project's folder and from a wheel."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60.0
"""Longer than any start or stop takes on a busy machine."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
    except OSError:
        return False
    return True


def heeds_hangup() -> None:
    """Tests that nohup runs hand on to what they start that SIGHUP is to be ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def serving(python: Path | str, port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`specmath serve` of that Python, once it answers; killed where the test left it running."""
    command = [str(python), "-m", "specmath", "serve", "--headless", f"--port={port}"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=heeds_hangup if os.name == "posix" else None,
    )
    try:
        deadline = time.monotonic() + SECONDS
        while not answers(port):
            assert process.poll() is None, f"serve ended with {process.returncode}"
            assert time.monotonic() < deadline, "serve never answered"
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_leaves_nothing_running(name: str) -> None:
    port = free_port()
    with serving(sys.executable, port, ROOT) as process:
        process.send_signal(getattr(signal, name))
        process.wait(SECONDS)
        assert not answers(port)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel, and this one's packages beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr:
        pytest.skip("the build backend of pyproject.toml cannot be fetched")
    assert done.returncode == 0, done.stderr
    venv.create(folder / "venv")
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    scheme = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    site = Path(sysconfig.get_path("purelib", "venv", scheme))
    (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    (wheel,) = folder.glob("*.whl")
    install = [*pip, "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, cwd=folder, check=True)
    return python


@pytest.mark.slow
def test_an_installed_wheel_serves_the_app(installed: Path, tmp_path: Path) -> None:
    place = [str(installed), "-c", "import specmath; print(specmath.__file__)"]
    found = subprocess.run(place, cwd=tmp_path, capture_output=True, text=True, check=True)
    package = Path(found.stdout.strip()).parent
    assert package.is_relative_to(installed.parents[1])
    port = free_port()
    with serving(installed, port, tmp_path) as process:
        process.terminate()
        process.wait(SECONDS)
    code = (
        "from streamlit.testing.v1 import AppTest\n"
        "app = AppTest.from_file('app.py', default_timeout=60).run()\n"
        "assert app.header[0].value == 'Should I turn it on?', app.header\n"
        "assert not app.exception, app.exception\n"
        "import specmath; print(specmath.__file__)\n"
    )
    done = subprocess.run(
        [str(installed), "-c", code], cwd=package / "_app", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == package
    config = (package / "_app" / ".streamlit" / "config.toml").read_text("utf-8")
    assert config == (ROOT / ".streamlit" / "config.toml").read_text("utf-8")


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_package_and_pages(installed: Path, tmp_path: Path) -> None:
    code = "import specmath, pathlib; print(pathlib.Path(specmath.__file__).parent)"
    done = subprocess.run(
        [str(installed), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    package = Path(done.stdout.strip())
    listed = subprocess.run(
        ["git", "ls-files", "specmath", "pages", "app.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git repository")
    for name in listed.stdout.splitlines():
        inside = name.removeprefix("specmath/") if name.startswith("specmath/") else f"_app/{name}"
        assert (package / inside).is_file(), name
