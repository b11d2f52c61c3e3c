"""Whatever arrives: LogError or readings whose numbers can be; no other exception escapes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specmath.checks import InputError
from specmath.logs import LogError, read, read_rates
from tools.doors import check_reading
from tools.mutations import TOKENS

FOLDER = Path(__file__).parents[1] / "data" / "log_samples"
SAMPLES = {
    path.name: path.read_bytes()
    for path in sorted([*FOLDER.glob("*.*"), *FOLDER.glob("captured_llamacpp/*.*")])
    if path.suffix != ".md"
}
PACKAGE = str(Path("specmath") / "logs")


def attempt(data: bytes, gamma: int | None = None) -> None:
    try:
        readings = read(data, gamma=gamma)
    except LogError:
        return
    assert readings
    for reading in readings:
        check_reading(reading)


@st.composite
def mutated(draw, name):
    """A sample with a few spans replaced, doubled, or cut."""
    data = SAMPLES[name]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(start + draw(st.integers(0, 12)), len(data))
        action = draw(st.sampled_from(["token", "bytes", "double", "cut"]))
        if action == "token":
            data = data[:start] + draw(st.sampled_from(TOKENS)) + data[end:]
        elif action == "bytes":
            data = data[:start] + draw(st.binary(max_size=8)) + data[end:]
        elif action == "double":
            data = data[:end] + data[start:]
        else:
            data = data[:start]
    return data


@pytest.mark.parametrize("name", SAMPLES)
def test_mutated_samples(name):
    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(mutated(name), st.sampled_from([None, 1, 3, 200]))
    def run(data, gamma):
        attempt(data, gamma)

    run()


@pytest.mark.parametrize("name", SAMPLES)
def test_numbers_replaced(name):
    """Every number of a sample in turn becomes something no counter should be."""
    rng = random.Random(name)
    data = SAMPLES[name]
    spans = []
    start = None
    for index, byte in enumerate(data + b" "):
        digit = chr(byte).isdigit() or byte == ord(".")
        if digit and start is None:
            start = index
        elif not digit and start is not None:
            spans.append((start, index))
            start = None
    for begin, end in rng.sample(spans, min(len(spans), 25)):
        attempt(data[:begin] + rng.choice(TOKENS) + data[end:])


@settings(max_examples=50)
@given(st.one_of(st.binary(max_size=400), st.text(max_size=300).map(str.encode)))
def test_any_bytes(data):
    attempt(data)
    attempt(b"\x1f\x8b" + data)
    attempt(b"vllm:spec_decode_num_drafts_total" + data)


@settings(max_examples=150)
@given(st.one_of(st.text(max_size=80), st.text("0123456789.,%-() [];e", max_size=80)))
def test_any_paste(text):
    try:
        rates = read_rates(text)
    except InputError:
        return
    assert rates
    assert all(1.0 >= a >= b >= 0.0 for a, b in zip((1.0, *rates), rates, strict=False))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
SHAPES = [name for name in SAMPLES if name.endswith((".json", ".jsonl")) and "captured" not in name]


@pytest.mark.parametrize("name", SHAPES)
def test_documents_with_any_value_in_any_place(name):
    """One value of a document replaced by any JSON value, NaN and infinities included."""
    text = SAMPLES[name].decode().splitlines()[0] if name.endswith("l") else SAMPLES[name].decode()
    document = json.loads(text)
    places = []

    def walk(value, path):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            places.append((*path, key))
            if isinstance(inner, (dict, list)):
                walk(inner, (*path, key))

    walk(document, ())

    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(places), JSON_VALUES)
    def run(place, value):
        changed = json.loads(text)
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        attempt(json.dumps(changed).encode())

    run()


class Lines:
    """Lines of specmath.logs that ran: what the coverage-guided search looks for."""

    def __init__(self):
        self.seen = set()
        self.new = 0

    def trace(self, frame, event, _):
        if PACKAGE not in frame.f_code.co_filename:
            return None
        return self.line

    def line(self, frame, event, _):
        place = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and place not in self.seen:
            self.seen.add(place)
            self.new += 1
        return self.line


@pytest.mark.parametrize("rounds", [60, pytest.param(800, marks=pytest.mark.slow)])
def test_coverage_guided_search(rounds):
    """Mutants that reach a new line join the corpus; texts of at most 4 kB."""
    rng = random.Random(2026)
    corpus = [data[:4000] for data in SAMPLES.values()]
    lines = Lines()
    before = sys.gettrace()
    for round_number in range(rounds):
        data = bytearray(rng.choice(corpus))
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(data))
            other = rng.choice(corpus)
            start = rng.randint(0, len(other))
            splice = other[start : start + rng.randint(1, 300)]
            data[at : at + rng.randint(0, 10)] = rng.choice([rng.choice(TOKENS), splice])
        found, data = lines.new, bytes(data[:4000])
        sys.settrace(lines.trace)
        try:
            attempt(data, rng.choice([None, 3]))
        finally:
            sys.settrace(before)
        if lines.new > found and round_number:
            corpus.append(data)
    assert lines.new > 1000
