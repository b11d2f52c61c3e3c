"""Lines alike, their numbers, and where words stand: each against the plain way of finding it."""

from __future__ import annotations

import random
import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specmath.logs.alike import Alike, Forms, Letters
from specmath.logs.engines import ENGINES
from specmath.logs.marks import Marks

WORDS = sorted({mark for engine in ENGINES for mark in engine.marks})
LINE = re.compile(rb"took {1,9}(\d{1,20}(?:\.\d{1,15})?) ms(?: of {1,3}(\d{1,6}))?$")


def forms(pattern: re.Pattern[bytes] = LINE) -> Forms:
    return Forms([pattern], [], lambda _: None, lambda text: "took" in text)


def alike(lines: list[bytes], of: Forms) -> list[tuple[Alike | None, list[int]]]:
    """The lines by form, with their indices."""
    letters = Letters(b"\n" + b"\n".join(lines))
    return [(of.of(letters, text, which), which.tolist()) for text, which in letters.kinds()]


@given(st.lists(st.tuples(
    st.integers(0, 10**18), st.none() | st.integers(0, 10**9).map(str), st.integers(1, 9),
), min_size=1, max_size=30))  # fmt: skip
def test_a_number_is_the_float_that_its_text_is(rows: list[tuple[int, str | None, int]]) -> None:
    """Whole ones, with a point, of more digits than a float holds, and under any padding."""
    texts = [f"{whole}.{rest}" if rest else f"{whole}" for whole, rest, _ in rows]
    lines = [
        f"took{' ' * blanks}{text} ms".encode()
        for text, (_, _, blanks) in zip(texts, rows, strict=True)
    ]
    seen = 0
    for part, which in alike(lines, forms()):
        assert part is not None
        found = part.numbers([part.form.groups[1], part.form.groups[2]])
        assert found[:, 0].tolist() == [float(texts[i]) for i in which]
        assert np.isnan(found[:, 1]).all()
        assert part.texts(part.form.line) == [lines[i] for i in which]
        seen += len(which)
    assert seen == len(lines)


def test_a_line_too_long_for_the_pattern_takes_its_likes_out() -> None:
    """21 digits do not match: those lines are looked at one by one, as all of their form are."""
    short, long = b"took 1 ms", b"took " + b"9" * 21 + b" ms"
    ((part, which),) = alike([short, long, short], forms())
    assert part is None
    assert which == [0, 1, 2]


def test_what_a_form_is_holds_for_later_lines_within_its_lengths_only() -> None:
    known = forms()
    ((first, _),) = alike([b"took  1 ms", b"took    12345 ms"], known)
    ((again, _),) = alike([b"took   123 ms"], known)
    assert first is not None
    assert again is not None
    assert again.form is first.form  # not looked up again
    for lines in ([b"took 7 ms"], [b"took " + b"9" * 21 + b" ms"], [b"took 7 ms"]):
        ((part, _),) = alike(lines, known)
        assert (part is not None) == bool(LINE.search(lines[0]))


def test_every_stem_is_found_where_it_stands() -> None:
    """Random lines with marks, cut marks and letters of marks among them, against `in`."""
    marks, rng = Marks(ENGINES), random.Random(8)
    letters = b"".join(WORDS)
    for _ in range(60):
        lines = []
        for _ in range(40):
            parts = [rng.choice(WORDS)[: rng.choice((3, 99, 99))] for _ in range(rng.randrange(3))]
            parts += [bytes(rng.choices(letters, k=rng.randrange(30))) for _ in range(2)]
            rng.shuffle(parts)
            lines.append(b"".join(parts).replace(b"\n", b" "))
        wanted = {
            (index, sum(2 << i for i, engine in enumerate(ENGINES)
                        if any(mark in line for mark in engine.marks)))
            for index, line in enumerate(lines)
        }  # fmt: skip
        data = b"\n" + b"\n".join(lines)
        found = {(index, bits) for index, _, _, bits in marks.lines(data)}
        assert found == {(index, bits) for index, bits in wanted if bits}
