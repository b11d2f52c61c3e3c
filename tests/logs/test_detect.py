"""Mixed, wrapped, packed, damaged and hostile input: what is read, and what is said."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from specmath.checks import InputError
from specmath.logs import LogError, Reading, read, stream

LINE = (
    "INFO 09-14 10:00:10 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.71, "
    "Accepted throughput: 104.70 tokens/s, Drafted throughput: 183.60 tokens/s, Accepted: 1047 "
    "tokens, Drafted: 1836 tokens, Per-position acceptance rate: 0.812, 0.562, 0.337, "
    "Avg Draft acceptance rate: 57.0%\n"
)
LLAMA = (
    "slot print_timing: id  0 | task 1 | draft acceptance = 0.5 (   50 accepted /   100 "
    "generated), mean len =  2.00\n"
)
NOISE = 'INFO:     10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK\n'


def test_mixed_engines_and_other_lines(sample):
    text = NOISE * 7 + LINE + NOISE + LLAMA + NOISE + LINE + NOISE
    readings = {one.engine: one for one in read(text)}
    assert readings["vllm"].steps == 2 * 612
    assert [window.line for window in readings["vllm"].windows] == [8, 12]
    assert readings["llama.cpp"].accepted == 50


def test_json_amid_log_lines(sample):
    response = sample("vllm_response_per_request.json").read_text()
    text = NOISE + LINE + "$ curl localhost/v1\n" + response + LINE + "data: [DONE]\n" + NOISE
    readings = {one.format: one for one in read(text)}
    assert readings["v1 log (2025-09 on)"].steps == 2 * 612
    assert readings["per-request response"].steps == 58


def test_all_samples_at_once(sample):
    """Every sample in one stream is read as it is alone (metrics pages left out: they add up)."""
    folder = sample("vllm_v0_log.txt").parent
    paths = [path for path in sorted(folder.glob("*.*")) if "prometheus" not in path.name]
    paths = [path for path in paths if path.suffix != ".md"]
    alone: list[Reading] = []
    for path in paths:
        try:
            alone += read(path)
        except LogError:
            continue
    text = "".join(path.read_text() + "\n" for path in paths)
    together = {(one.engine, one.format): one for one in read(text)}
    for one in alone:
        same = [a for a in alone if (a.engine, a.format) == (one.engine, one.format)]
        if len(same) == 1 and "meta_info" not in one.format:
            other = together[one.engine, one.format]
            assert (other.steps, other.drafted, other.accepted) == (
                one.steps,
                one.drafted,
                one.accepted,
            )


@pytest.mark.parametrize("key", ["log", "message", "MESSAGE"])
def test_lines_that_a_json_logger_wrapped(only, key):
    wrapped = json.dumps({key: LINE, "stream": "stdout"}) + "\n"
    assert only(NOISE + wrapped * 3).steps == 3 * 612


def test_colours_and_carriage_returns(only):
    coloured = "\x1b[32m" + LINE.replace("Accepted:", "\x1b[0mAccepted:").replace("\n", "\r\n")
    assert only(coloured).steps == 612


def test_bytes_streams_and_encodings(only, tmp_path):
    assert only(LINE.encode()).steps == 612
    assert only(io.BytesIO(LINE.encode())).steps == 612
    assert only(("\ufeff" + LINE).encode()).steps == 612
    # PowerShell's > writes UTF-16.
    assert only((LINE * 2).encode("utf-16")).steps == 2 * 612
    path = tmp_path / "server.log"
    path.write_bytes(b"\xff\xfe bad \x80 utf-8\n".replace(b"\xff\xfe", b"\xc3") + LINE.encode())
    assert only(path).windows[0].line == 2


def test_pieces_do_not_cut_lines(only, monkeypatch):
    """Lines and JSON values that straddle the pieces are read once."""
    monkeypatch.setattr(stream, "PIECE", 97)
    response = json.dumps({"x": [1, 2], "metrics": {}}, indent=2)
    text = (NOISE + LINE + response + "\n") * 20
    reading = only(text)
    assert reading.steps == 20 * 612
    lines = text.splitlines()
    assert [w.line for w in reading.windows] == [
        number for number, line in enumerate(lines, start=1) if "SpecDecoding" in line
    ]


def test_gzip(only, said, tmp_path):
    packed = gzip.compress((NOISE + LINE).encode() * 50)
    assert only(packed).steps == 50 * 612
    path = tmp_path / "server.log.gz"
    path.write_bytes(packed + packed)
    assert only(path).steps == 100 * 612
    # What came before the cut is read. (Stored, so that the cut falls inside the text.)
    stored = gzip.compress((NOISE + LINE).encode() * 50, compresslevel=0)
    cut = only(stored[: len(stored) // 2])
    assert 0 < cut.steps < 50 * 612
    assert said(cut, "cut off or damaged")


def test_gzip_bomb(monkeypatch):
    monkeypatch.setattr(stream, "BOMB_FLOOR", 1 << 20)
    bomb = gzip.compress(b"\0" * (8 << 20))
    with pytest.raises(LogError, match="refused as a gzip bomb"):
        read(bomb)
    monkeypatch.setattr(stream, "MOST_EXPANDED", 1000)
    with pytest.raises(LogError, match="gzip bomb"):
        read(gzip.compress(NOISE.encode() * 100))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (NOISE, "no speculation found.*'INFO: 10.0.0.1:5"),
        (bytes(range(256)) * 40, "looks binary"),
        (b"\x28\xb5\x2f\xfd....", "zstd-compressed"),
        (b"PK\x03\x04....", "zip-compressed"),
        (gzip.compress(b"", mtime=0)[:12], "cut off or damaged|empty"),
        ("server.log", "pass its Path"),
        ("{" * 100_000, "no speculation found"),
        ("[" * 100_000, "no speculation found"),
        ([], "no log given"),
        (3.5, "a source is text, bytes"),
    ],
)
def test_nothing_to_read_is_said(content, says):
    with pytest.raises(LogError, match=says):
        read([content] if isinstance(content, float) else content)


def test_missing_file(tmp_path):
    with pytest.raises(LogError, match=r"cannot open .*No such file"):
        read(tmp_path / "absent.log")
    with pytest.raises(LogError, match=r"cannot (open|read)"):
        read(tmp_path)


@pytest.mark.parametrize("gamma", [0, -1, 2.5, 1000, True])
def test_bad_gamma(gamma):
    with pytest.raises(InputError, match="gamma must be a whole number"):
        read(LINE, gamma=gamma)


def test_long_line_is_skipped(only, said, monkeypatch):
    monkeypatch.setattr(stream, "LONGEST_LINE", 1 << 12)
    monkeypatch.setattr(stream, "PIECE", 1 << 10)
    reading = only(LINE + "x" * 20_000 + "\n" + LINE)
    assert reading.steps == 2 * 612
    assert [window.line for window in reading.windows] == [1, 3]
    assert said(reading, "line 2: a line longer than")


def test_many_bad_lines_make_one_warning(only):
    reading = only(LINE + "INFO SpecDecoding metrics: Mean acc\n" * 5000)
    (warning,) = [text for text in reading.warnings if "cut off" in text]
    assert warning.startswith("line 2: ")
    assert warning.endswith("(and 4999 more like it)")


def test_windows_stay_bounded(only):
    """20 000 intervals keep at most 4096 windows, and lose no count."""
    reading = only(LINE * 20_000)
    assert len(reading.windows) <= 4097
    assert sum(window.steps for window in reading.windows) == reading.steps == 20_000 * 612
    assert all(
        window.survival == pytest.approx((0.812, 0.562, 0.337)) for window in reading.windows
    )


def test_to_dict_is_json(sample):
    for path in sample("vllm_v0_log.txt").parent.glob("*.*"):
        try:
            readings = read(path)
        except LogError:
            continue
        for reading in readings:
            data = json.loads(json.dumps(reading.to_dict(), allow_nan=False))
            for key in (
                "engine",
                "format",
                "steps",
                "drafted",
                "accepted",
                "tokens_per_step",
                "survival",
                "alpha",
                "gamma",
                "coverage",
                "warnings",
            ):
                assert key in data
            assert data["facts"] == dict(reading.facts)
