"""What is printed: in any encoding, into a full or closed output, out of hostile text."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from helpers.command_line import Capture, fault, run
from hypothesis import given
from hypothesis import strategies as st

from specmath.cli import main
from specmath.cli.output import print_rows
from specmath.cli.terminal import printable

ROOT = Path(__file__).resolve().parents[1]
BASIC = ("--alpha", "0.8", "--c", "0.1", "--gamma", "4")
ENCODINGS = ("cp1252", "latin-1", "ascii", "cp437", "koi8-r", "utf-16", "utf-8")
PRINTING = (
    ("--help",),
    ("predict", "--help"),
    ("logs", "drift", "--help"),
    ("predict", *BASIC),
    ("gamma", *BASIC, "--format", "csv"),
    ("predict", *BASIC, "--label", "γ ≤ 4 – 日本 \U0001f600", "--format", "json"),
)


# ── encodings ────────────────────────────────────────────────────────────────────────────────


def printed(monkeypatch: pytest.MonkeyPatch, encoding: str, *arguments: str) -> bytes:
    """What a command that succeeds writes to a standard output of that encoding."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        main(arguments)
        out.flush()
    return out.buffer.getvalue()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_no_encoding_raises(
    monkeypatch: pytest.MonkeyPatch, encoding: str, arguments: tuple[str, ...]
) -> None:
    out = printed(monkeypatch, encoding, *arguments)
    # click writes UTF-8 where the locale names nothing but ASCII.
    text = out.decode("utf-8" if encoding == "ascii" else encoding)
    if "json" in arguments:
        assert json.loads(text)["gamma"] == 4
        utf8 = printed(monkeypatch, "utf-8", *arguments).decode()
        assert json.loads(text) == json.loads(utf8)


def test_a_stream_in_memory_is_written() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["predict", *BASIC, "--label", "γ", "--format", "json"])
    assert "γ" in json.dumps(json.loads(out.getvalue()), ensure_ascii=False)


def test_what_an_encoding_lacks_is_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert b"which gamma to run" in printed(monkeypatch, "cp1252", "--help")
    assert "which γ to run" in printed(monkeypatch, "utf-8", "--help").decode()
    assert b"Turn it on at gamma=5: 2.46\xd7 faster" in printed(
        monkeypatch, "cp1252", "predict", *BASIC
    )


def test_a_process_with_an_old_code_page() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "specmath", "logs", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert b"FILE\x85" in done.stdout
    assert done.stderr == b""


# ── a full disk, a closed pipe ───────────────────────────────────────────────────────────────


def refused_output(stdout: int, arguments: tuple[str, ...], buffered: bool) -> tuple[int, str]:
    """Exit code and standard error where output fails, with Python's buffer and without."""
    command = [sys.executable, *([] if buffered else ["-u"]), "-m", "specmath", *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


SPEAKING = [
    ("--help",),
    pytest.param(("predict", "--help"), marks=pytest.mark.slow),
    ("crossover", "--format", "json"),
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("arguments", SPEAKING, ids=" ".join)
def test_a_full_output_is_one_sentence(arguments: tuple[str, ...], buffered: bool) -> None:
    with Path("/dev/full").open("wb") as full:
        done = refused_output(full.fileno(), arguments, buffered)
    assert done == (74, "Error: cannot write the output: No space left on device\n")


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("arguments", SPEAKING, ids=" ".join)
def test_a_reader_who_has_had_enough_is_no_fault(
    arguments: tuple[str, ...], buffered: bool
) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = refused_output(write, arguments, buffered)
    finally:
        os.close(write)
    assert done == (141, ""), "as a program that SIGPIPE ends"


# ── hostile text ─────────────────────────────────────────────────────────────────────────────

HOSTILE = "a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\u202ee\x85f\x00g\rh"


def steers(text: str) -> list[str]:
    """Characters that steer a terminal or turn the direction of writing."""
    kinds = ("Cc", "Zl", "Zp")
    turns = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return [
        sign for sign in text
        if sign not in "\t\n"
        and (unicodedata.category(sign) in kinds or unicodedata.bidirectional(sign) in turns
             or sign in "\u200e\u200f\u061c")
    ]  # fmt: skip


CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u2066\u200e\u2028"]


@given(st.text(st.sampled_from([*"a[]P;0m\\", *CONTROLS])))
def test_nothing_printable_steers(text: str) -> None:
    safe = printable(text)
    assert steers(safe) == []
    assert printable(safe) == safe
    assert safe.count("a") <= text.count("a")


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf"))))
def test_plain_text_stays(text: str) -> None:
    assert printable(f"{text}\n\t") == f"{text}\n\t"


def test_sequences_go_whole() -> None:
    assert printable(HOSTILE) == "abcdefgh"


@pytest.mark.parametrize("style", ["table", "csv", "json"])
def test_rows_of_hostile_text(capsys: Capture, style: str) -> None:
    rows = [{"engine": HOSTILE, "n": -1.5, "cells": ["=1+1", "@x"]}, {"engine": "=cmd()", "n": 2}]
    print_rows([row | {"cells": row.get("cells")} for row in rows], style)
    out = capsys.readouterr().out
    assert steers(out) == []
    if style == "json":
        assert json.loads(out)[0]["engine"] == HOSTILE
    if style == "csv":
        first, second = csv.DictReader(io.StringIO(out))
        assert (first["n"], second["engine"], first["cells"]) == ("-1.5", "'=cmd()", "'=1+1; '@x")


@pytest.mark.parametrize("style", ["table", "csv", "json"])
def test_a_log_of_hostile_text(capsys: Capture, tmp_path: Path, style: str) -> None:
    path = tmp_path / "bench.json"
    data = json.loads((ROOT / "tests/data/log_samples/vllm_bench_serve_result.json").read_text())
    data |= {"model_id": f"=cmd()|{HOSTILE}", "backend": f"=cmd()|{HOSTILE}"}
    path.write_text(json.dumps(data), "utf-8")
    assert steers(run(capsys, "logs", str(path), "--format", style)) == []


def test_a_refusal_of_hostile_text(capsys: Capture, tmp_path: Path) -> None:
    for arguments in (("model", f"x{HOSTILE}"), (f"x{HOSTILE}",), ("predict", f"--{HOSTILE}")):
        assert steers(fault(capsys, *arguments)) == []
