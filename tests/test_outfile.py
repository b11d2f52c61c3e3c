"""Files that are written: whole or not at all, never over a stranger's, refused before the work."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from helpers.command_line import Capture, fault, run

import specmath.cli.measure
import specmath.cli.server
from specmath.checks import InputError
from specmath.cli import cli, main
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.groups import Later
from specmath.measure import read_report
from specmath.outfile import BENCHMARK, COMPARISON, REPORT, SCENARIO, TABLE, refuse, write_file
from specmath.scenario import EXAMPLE
from specmath.scenario.files import to_toml

ROOT = Path(__file__).resolve().parents[1]
BASIC = ("--alpha", "0.8", "--c", "0.1", "--gamma", "4")
QUICK = ("measure", "--draft", "ngram", "--count", "3", "--tokens", "8", "--gammas", "1-2",
         "--rounds", "2", "--temperature", "0")  # fmt: skip
WRITERS = {
    ("export", *BASIC, "--out"): b"gamma;by hand\n4;my own notes\n",
    (*QUICK, "--out"): b'{"schema_version": 3, "mine": true}'.replace(b"schema", b"my_schema"),
    (*QUICK, "--csv"): b"segment,notes\nall,mine\n",
    (*QUICK, "--scenario-out"): b"[scenario]\nalpha = 0.5\n",
    ("rollout", *BASIC, "--write"): b'specmath = "1"\n[scenario]\nalpha = 0.5\n',
    ("measure", "server", "http://127.0.0.1:9", "--save"): b'{"backend": "vllm"}',
}
"""The commands with each option that names a file to write, and a stranger's file of that kind."""


# ── written whole or not at all ──────────────────────────────────────────────────────────────


def test_write_file_replaces_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_file(path, b"old")
    path.chmod(0o640)
    write_file(str(path), b"new and longer")
    assert path.read_bytes() == b"new and longer"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["table.csv"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_write_file_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "table.csv"
    write_file(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_write_file_follows_links_and_does_not_replace_devices_or_folders(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "table.csv"
    target.write_bytes(b"old")
    (tmp_path / "link.csv").symlink_to(target)
    write_file(tmp_path / "link.csv", b"new")
    assert target.read_bytes() == b"new"
    assert (tmp_path / "link.csv").is_symlink()
    write_file(os.devnull, b"gone")
    assert Path(os.devnull).is_char_device()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path, b"x")
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "no such folder" / "x", b"x")


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_kill_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    size, path = 30_000_000, tmp_path / "big"
    code = (
        "import itertools, sys\nfrom specmath.outfile import write_file\n"
        f"for letter in itertools.cycle((b'a', b'b')): write_file(sys.argv[1], letter * {size})"
    )
    for kill in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT)
        while not path.exists():
            assert writer.poll() is None
            time.sleep(0.01)
        time.sleep(0.03 * kill)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        data = path.read_bytes()
        assert len(data) == size
        assert data in (b"a" * size, b"b" * size)


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk."""
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    code = (
        "import resource, signal, sys\nfrom specmath.outfile import write_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_file(sys.argv[1], bytes(100_000))"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "OSError" in done.stderr
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_measurement_that_cannot_be_written_is_printed_all_the_same(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SystemExit) as stop:
        main([*QUICK, "--out", str(tmp_path / "r.json"), "--format", "csv"])
    out, err = capsys.readouterr()
    assert stop.value.code == 74
    said = f"Error: cannot write {tmp_path / 'r.json'}: No space left on device"
    assert err.strip().splitlines()[-1] == said
    assert out.startswith("segment,temperature,gamma,")


# ── refused before the work ──────────────────────────────────────────────────────────────────


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a command begins what takes long."""

    def begun(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(specmath.cli.measure, "measure", begun)
    monkeypatch.setattr(specmath.cli.server, "run_load", begun)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", WRITERS, ids=lambda command: f"{command[0]} {command[-1]}")
def test_what_cannot_be_written_is_refused(
    capsys: Capture, tmp_path: Path, command: tuple[str, ...]
) -> None:
    stranger = tmp_path / "mine"
    stranger.write_bytes(WRITERS[command])
    for path, words in (
        (tmp_path, "it is a folder"),
        (tmp_path / "none" / "x", "No such file"),
        (stranger / "x", "Not a directory"),
        (tmp_path / ("x" * 300), "too long"),
        (stranger, "--force"),
    ):
        err = fault(capsys, *command, str(path))
        assert words in err, err
        assert str(path) in err
    assert stranger.read_bytes() == WRITERS[command]
    assert os.listdir(tmp_path) == ["mine"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_what_is_read_only_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o444)
    with pytest.raises(InputError, match="read-only"):
        refuse(tmp_path / "file", TABLE, force=True)
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="Permission"):
        refuse(tmp_path / "new", TABLE)


@pytest.mark.usefixtures("no_work")
def test_a_file_that_is_read_is_not_written(capsys: Capture, tmp_path: Path) -> None:
    scenario, link = tmp_path / "s.toml", tmp_path / "link.toml"
    scenario.write_text(to_toml(EXAMPLE), "utf-8")
    link.symlink_to(scenario)
    for path in (scenario, link):
        err = fault(capsys, "export", "--scenario", str(scenario), "-o", str(path), "--force")
        assert "is read by this command" in err
    prompts = tmp_path / "p.txt"
    prompts.write_text("One.", "utf-8")
    given = (*QUICK, "--prompts", str(prompts), "--out", str(prompts), "--force")
    assert "is read by this command" in fault(capsys, *given)
    same = str(tmp_path / "same")
    assert "written twice" in fault(capsys, *QUICK, "--out", same, "--csv", same)
    assert scenario.read_text("utf-8") == to_toml(EXAMPLE)
    assert prompts.read_text("utf-8") == "One."


# ── what is replaced ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["values", "formulas", "xlsx"])
def test_a_table_replaces_a_table(capsys: Capture, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "plan"
    again = ("export", *BASIC, "--kind", kind, "-o", str(path))
    run(capsys, *again, "--table", "crossover")
    crossover = path.read_bytes()
    run(capsys, *again)
    assert path.read_bytes() != crossover
    path.write_bytes(b"")
    run(capsys, *again)
    path.write_bytes(b"PK but no workbook")
    assert "--force" in fault(capsys, *again)
    run(capsys, *again, "--force")
    assert path.read_bytes() != b"PK but no workbook"


def test_a_measurement_replaces_a_measurement_of_its_kind(capsys: Capture, tmp_path: Path) -> None:
    flags = ("--out", "--csv", "--scenario-out")
    paths = [str(tmp_path / flag) for flag in flags]
    for _ in range(2):
        main([*QUICK, *(part for pair in zip(flags, paths, strict=True) for part in pair)])
    capsys.readouterr()
    report = Path(paths[0]).read_text("utf-8")
    assert read_report(report).status == "complete"
    for flag, path in zip(flags, [*paths[1:], paths[0]], strict=True):
        assert "--force" in fault(capsys, *QUICK, flag, path)
    assert Path(paths[0]).read_text("utf-8") == report


def test_half_a_character_is_written_escaped(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    put(str(path), json.dumps({"model": "\ud800γ"}, ensure_ascii=False))
    assert json.loads(path.read_text("utf-8")) == {"model": "\ud800γ"}


def test_a_name_that_is_no_file_is_not_read(capsys: Capture, tmp_path: Path) -> None:
    """`--draft ngram` names a drafter: a report may have that name. A device takes two."""
    again = (*QUICK, "--out", "ngram")
    with contextlib.chdir(tmp_path):
        main(again)
    assert read_report((tmp_path / "ngram").read_text("utf-8"))
    main((*QUICK, "--out", os.devnull, "--csv", os.devnull))
    capsys.readouterr()


def test_what_is_not_made_is_not_written(capsys: Capture, tmp_path: Path) -> None:
    err = fault(capsys, "measure", "--timing-only", "--csv", str(tmp_path / "times.csv"))
    assert "makes no report" in err


def test_each_mark_is_of_its_kind_alone() -> None:
    heads = {
        TABLE: b"\xef\xbb\xbfgamma,walltime_improvement,specmath_version,date,scenario\r\n",
        REPORT: b'{\n "schema_version": "1",\n "created": "2026"',
        COMPARISON: b"segment,temperature,gamma,tokens,steps,tokens_per_step\r\n",
        SCENARIO: b'specmath = "1"\n\n[scenario]\n',
        BENCHMARK: b'{\n  "specmath_version": "0.1.0",\n  "backend": "vllm"',
    }
    for kind, head in heads.items():
        assert [mark for mark in heads if mark.search(head)] == [kind]


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        found = command.load() if isinstance(command, Later) else command
        if isinstance(found, click.Group):
            yield from commands(found, f"{path} {name}")
        else:
            yield f"{path} {name}".strip(), found


def test_every_option_that_names_a_file_to_write_goes_through_one_door() -> None:
    writing = {}
    for path, command in commands(cli):
        for option in command.params:
            if isinstance(option.type, Destination):
                assert isinstance(command, WritingCommand)
                writing.setdefault(path, set()).update(option.opts)
            elif isinstance(option.type, click.Path):
                assert option.type.exists, f"{path} {option.opts} is not a file to read"
            assert not isinstance(option.type, click.File)
    assert writing == {
        "export": {"-o", "--out"},
        "measure pair": {"--out", "--csv", "--scenario-out"},
        "measure show": {"--out", "--csv", "--html", "--scenario-out"},
        "measure server costs": {"--save"},
        "measure server load": {"--save", "--checkpoint"},
        "measure server replay": {"--checkpoint"},
        "plan": {"-o", "--out"},
        "report": {"-o", "--out"},
        "rollout": {"--write"},
    }


def test_no_module_writes_a_file_by_itself() -> None:
    """Neither text, bytes nor an opened file: `outfile` alone."""
    own = re.compile(r"\.write_(text|bytes)\(|\bopen\([^)]*[\"'][rbt]*[wxa+][rbt+]*[\"']|savetxt")
    for path in (ROOT / "specmath").rglob("*.py"):
        if path.name != "outfile.py":
            assert not own.search(path.read_text("utf-8")), path
