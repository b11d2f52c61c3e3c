"""Lines taken as columns mean what they mean one by one: the same log twice, told alike.

An escape sequence at the end of a line keeps it out of the columns and changes nothing else, so
that both ways through the code must tell the same: every number, warning and line number.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from specmath.logs import LogError, Reading, columns, read, stream
from specmath.logs.columns import FEWEST
from specmath.logs.engines import ENGINES

COLOUR = "\x1b[32m"
Lines = Callable[[random.Random, int], str]


def vllm(rng: random.Random, number: int) -> str:
    """An interval, one time in eight with something odd about it."""
    if rng.random() < 0.45:
        return (
            f"INFO 09-14 10:{number // 60 % 60:02}:{number % 60:02} [loggers.py:257] Engine 000: "
            f"Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: "
            f"{rng.uniform(50, 900):.1f} tokens/s, Running: 8 reqs"
        )
    gamma = rng.choice((3, 3, 3, 5))
    steps = rng.randint(20, 900)
    counts = sorted((rng.randint(0, steps) for _ in range(gamma)), reverse=True)
    accepted, drafted = sum(counts), gamma * steps
    rates = [f"{count / steps:.3f}" for count in counts]
    length, percent, speed = 1 + accepted / steps, 100 * accepted / drafted, drafted / 10
    odd = rng.randrange(56)
    if odd == 0:
        rates.reverse()
    elif odd == 1:
        accepted = drafted + 1
    elif odd == 2:
        percent += 5
    elif odd == 3:
        length += 0.4
    elif odd == 4:
        accepted = drafted = 0
    elif odd == 5:
        speed /= 60  # after an idle gap
    elif odd == 6:
        drafted -= drafted // 5  # drafts that stopped early
    head = f"INFO 09-14 10:{number // 60 % 60:02}:{number % 60:02} [metrics.py:100] SpecDecoding "
    era = rng.random()
    if era < 0.1:
        text = f"metrics: Draft acceptance rate: {percent:.1f}%, Mean acceptance length: "
        length -= rng.choice((0, 1))
        text += f"{length:.2f}, Accepted: {accepted} tokens, Drafted: {drafted} tokens"
        return head + text + f", Per-position acceptance rate: {', '.join(rates)}"
    text = (
        f"metrics: Mean acceptance length: {length:.2f}, Accepted throughput: 1.00 tokens/s, "
        f"Drafted throughput: {speed:.2f} tokens/s, Accepted: {accepted} tokens, Drafted: "
        f"{drafted} tokens, Per-position acceptance rate: {', '.join(rates)}, Avg Draft "
        f"acceptance rate: {percent:.1f}%"
    )
    return head + (text[: rng.randrange(40, len(text))] if odd == 7 else text)


def sglang(rng: random.Random, number: int) -> str:
    """γ = 3 of era B; for the first 40 lines of era A, and a few that fit neither."""
    length = rng.uniform(1.0, 4.0)
    rate = length / 4 if number < 40 else (length - 1) / 3
    if rng.randrange(150) == 0:
        rate = 0.5 * rate + 0.3
    tail = "" if rng.randrange(40) == 0 else f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
    return (
        f"[2026-05-04 10:{number // 60 % 60:02}:{number % 60:02} TP0] Decode batch, #running-req: "
        f"{rng.randint(0, 64)}, #token: 4388, token usage: 0.03, {tail}cuda graph: True, gen "
        "throughput (token/s): 1662.00, #queue-req: 0, "
    )


def llamacpp() -> Lines:
    """Requests over four slots, and totals of two ways to draft that restart now and then."""
    totals = {"draft-eagle3": [0, 0, 0], "ngram-mod": [0, 0, 0]}

    def line(rng: random.Random, number: int) -> str:
        head = f"0.{number:02}.204.190 I "
        steps, slot = rng.randint(1, 90), rng.randrange(4)
        counts = sorted((rng.randint(0, steps) for _ in range(4)), reverse=True)
        accepted, drafted = sum(counts), 4 * steps - rng.choice((0, 0, 0, steps))
        accepted = min(accepted, drafted)
        rates = ", ".join(f"{count / steps:.3f}" for count in counts)
        which = rng.randrange(5)
        if which < 2:
            prompt = "prompt " if which else "       "
            took = f"{rng.uniform(100, 9000):10.2f} ms / {accepted + steps + 1:5d} tokens"
            return (
                f"{head}slot print_timing: id  {slot} | task {number} | {prompt}eval time = {took}"
            )
        if which < 4:
            tail = rng.choice((
                "", f", mean len = {1 + accepted / steps:5.2f}",
                f", mean acceptance length = {1 + accepted / steps:5.2f}, acceptance rate per "
                f"position = ({rates})", ", mean le",
            ))  # fmt: skip
            return (
                f"{head}slot print_timing: id  {slot} | task {number} | draft acceptance = "
                f"{accepted / drafted:.5f} ({accepted:5d} accepted / {drafted:5d} generated){tail}"
            )
        kind = rng.choice(list(totals))
        if rng.randrange(60) == 0:
            totals[kind] = [0, 0, 0]
        now = [a + b for a, b in zip(totals[kind], (steps, drafted, accepted), strict=True)]
        totals[kind] = now
        mean = 1 + now[2] / now[0] + (0.3 if rng.randrange(60) == 0 else 0)
        more = f", #mean acc len = {mean:.2f}, #acc rate/pos = ({rates})"
        return (
            f"{head}statistics {kind:>16}: #calls(b,g,a) = 1 {now[0]} {now[0]}, #gen drafts = "
            f"{now[0]:6d}, #acc drafts = {now[0]:5d}, #gen tokens = {now[1]:6d}, #acc tokens = "
            f"{now[2]:5d}{rng.choice(('', more))}, dur(b,g,a) = 0.009, {number}.318, 0.171 ms"
        )

    return line


def between(rng: random.Random, lines: list[str], blocks: bool) -> list[str]:
    """Other lines among them: plain ones, JSON that quotes them, with `blocks` over several."""
    found = []
    for line in lines:
        found.append(line + rng.choice(("", "", "", "\r")))
        other = rng.randrange(60)
        if other == 0:
            found.append('127.0.0.1 - "POST /v1/chat HTTP/1.1" 200')
        elif other == 1:
            found.append(json.dumps({"log": line}))
        elif other == 2 and blocks:
            found += ["{", f'  "text": {json.dumps(line)}', "}"]
        elif other == 3:
            found.append(
                "draft acceptance, synthetic; SpecDecoding metrics: none; statistics of it"
            )
    return found


def singly(make: Callable[[str], object], lines: list[str]) -> object:
    """What `make` makes of the same lines, none of them in columns."""
    fewest, columns.FEWEST = columns.FEWEST, 10**9
    try:
        return make("\n".join(lines))
    finally:
        columns.FEWEST = fewest


def told(readings: list[Reading]) -> object:
    return [rounded(one.to_dict()) for one in readings]


def rounded(value: object) -> object:
    """Sums come out in another order: twelve digits."""
    if isinstance(value, float):
        return float(f"{value:.11e}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("piece", [1 << 20, 8192])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "all"])
def test_columns_tell_what_single_lines_tell(
    monkeypatch: pytest.MonkeyPatch, engine: str, piece: int, seed: int
) -> None:
    rng = random.Random(f"{engine} {seed}")
    kinds: dict[str, Lines] = {"vllm": vllm, "sglang": sglang, "llama.cpp": llamacpp()}
    made = list(kinds.values()) if engine == "all" else [kinds[engine]]
    lines = [made[i % len(made)](rng, i // len(made)) for i in range(900)]
    lines = between(rng, lines, blocks=piece < 1 << 20)  # a piece with blocks has no columns
    monkeypatch.setattr(stream, "PIECE", piece)
    monkeypatch.setattr(columns, "FEWEST", 8 if piece == 1 << 20 else 2)  # few alike in a short one
    taken = counted(monkeypatch)
    as_columns = read("\n".join(lines))
    assert sum(taken) > 200
    taken.clear()
    one_by_one = singly(lambda text: told(read(text)), lines)
    assert not any(taken)
    assert told(as_columns) == one_by_one


TOKENS = ("nan", "-1", "inf", "99999999999999999999999", "0", "1.0", "%", "", "\x00", "(", ",", "]")


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_broken_numbers_are_the_same_trouble_either_way(engine: str, seeds: range) -> None:
    """Spans of up to eight characters replaced by what no counter should be."""
    for seed in seeds:
        rng = random.Random(seed)
        kind = {"vllm": vllm, "sglang": sglang, "llama.cpp": llamacpp()}[engine]
        lines = [kind(rng, i) for i in range(50)]
        for _ in range(rng.randint(0, 20)):
            index = rng.randrange(50)
            line = lines[index]
            start = rng.randrange(len(line))
            lines[index] = line[:start] + rng.choice(TOKENS) + line[start + rng.randrange(8) :]
        gamma = rng.choice((None, 3, 5))
        text = "\n".join(lines)

        def make(text: str, gamma: int | None = gamma) -> object:
            return told(read(text, gamma=gamma))

        assert make(text) == singly(make, lines), seed


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
@pytest.mark.parametrize("wrapped", ["colour", "docker"])
def test_colours_in_front_and_dockers_json_change_nothing(
    monkeypatch: pytest.MonkeyPatch, wrapped: str, engine: str
) -> None:
    rng = random.Random(engine)
    kind = {"vllm": vllm, "sglang": sglang, "llama.cpp": llamacpp()}[engine]
    lines = [kind(rng, i) for i in range(200)]
    lines[60] = '"quoted" ' + lines[60]
    if wrapped == "colour":
        dressed = [COLOUR + line for line in lines]
    else:
        lines[50:53] = ["{", '  "text": 1', "}"]
        more = {"stream": "stderr", "time": "2026-05-04T10:00:00.123456789Z"}
        dressed = [
            json.dumps({"log": f"{line}\n"} | more, separators=(",", ":")) for line in lines
        ]  # fmt: skip
    taken = counted(monkeypatch)
    found = told(read("\n".join(dressed)))
    assert sum(taken) > 100
    assert found == singly(lambda text: told(read(text)), lines)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lines went as columns, call by call."""
    taken: list[int] = []
    original = columns.Waiting.__init__

    def counting(self, taker, bit, rows):  # type: ignore[no-untyped-def]
        taken.append(sum(map(len, rows)))
        original(self, taker, bit, rows)

    monkeypatch.setattr(columns.Waiting, "__init__", counting)
    return taken


def test_a_line_that_two_shapes_want_stays_a_line() -> None:
    both = "Decode batch, #running-req: 8, #token: 1, accept len: 2.50, accept rate: 0.50, x "
    both += vllm(random.Random(5), 1)
    lines = [both, *(sglang(random.Random(i), 60) for i in range(2 * FEWEST))]
    assert told(read("\n".join(lines))) == singly(lambda text: told(read(text)), lines)


# ── more than one thing on a line ────────────────────────────────────────────────────────────

INTERVAL = (
    "INFO 09-14 10:00:00 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.50, "
    "Accepted throughput: 60.00 tokens/s, Drafted throughput: 120.00 tokens/s, Accepted: 600 "
    "tokens, Drafted: 1200 tokens, Per-position acceptance rate: 0.700, 0.500, 0.300, Avg Draft "
    "acceptance rate: 50.0%"
)
THROUGHPUT = (
    "INFO 09-14 10:00:00 [loggers.py:257] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg "
    "generation throughput: 100.0 tokens/s, Running: 8 reqs"
)
DECODE = (
    "[2026-05-04 10:00:00 TP0] Decode batch, #running-req: 8, #token: 4388, token usage: 0.03, "
    "accept len: 2.50, accept rate: 0.50, cuda graph: True, #queue-req: 0, "
)
SLOT = "0.01.204.190 I slot print_timing: id  1 | task 7 | "
PROMPT = f"{SLOT}prompt eval time =     100.00 ms /    39 tokens"
EVAL = f"{SLOT}       eval time =    1000.00 ms /   120 tokens"
DRAFT = (
    f"{SLOT}draft acceptance = 0.50000 (   80 accepted /   160 generated), mean acceptance length "
    "=  3.00, acceptance rate per position = (0.800, 0.600, 0.400, 0.200)"
)
TOTALS = (
    "0.02.204.190 I statistics     draft-eagle3: #calls(b,g,a) = 1 40 40, #gen drafts =     40, "
    "#acc drafts =    32, #gen tokens =    160, #acc tokens =    80, #mean acc len = 3.00, #acc "
    "rate/pos = (0.800, 0.600, 0.400, 0.200), dur(b,g,a) = 0.009, 20.318, 0.171 ms"
)
HUGE = INTERVAL.replace("600 t", "500000000000123 t").replace("1200 t", "999999999999999 t")
PLAIN: dict[str, tuple[str, ...]] = {
    "vllm": (INTERVAL, THROUGHPUT),
    "sglang": (DECODE,),
    "llama.cpp": (EVAL, DRAFT, TOTALS),
}
ODD = {
    "prompt-eval, then a draft": ("llama.cpp", PROMPT + DRAFT),
    "prompt-eval, then eval": ("llama.cpp", PROMPT + EVAL),
    "statistics before eval": ("llama.cpp", "statistics of it " + EVAL),
    "statistics before a draft": ("llama.cpp", "statistics of it " + DRAFT),
    "statistics and a tab": ("llama.cpp", "statistics\tngram: #gen " + TOTALS),
    "another slot before": ("llama.cpp", "id 3 | task 9 | " + EVAL),
    "another mean before": ("llama.cpp", "mean len = 2.00 " + DRAFT),
    "other rates before": ("llama.cpp", "acc per pos = (0.900, 0.100) " + DRAFT),
    "metrics cut off, then a throughput": ("vllm", INTERVAL[:150] + THROUGHPUT),
    "throughput, then metrics": ("vllm", THROUGHPUT + INTERVAL),
    "metrics twice": ("vllm", INTERVAL + INTERVAL),
    "an average of nan": ("vllm", INTERVAL.replace("50.0%", "nan%")),
    "digits that are no ASCII": ("vllm", INTERVAL[: INTERVAL.index(", Avg Draft")] + "\u0665"),
    "a setting in the line": ("sglang", DECODE + "speculative_eagle_topk=4"),
    "a setting within it": ("sglang", DECODE.replace("#token", "speculative_eagle_topk=4, #token")),
    "other requests before": ("sglang", "#running-req: 99 " + DECODE),
    "another length before": ("sglang", "accept len: 3.00 " + DECODE),
    "another rate before": ("sglang", "accept rate: 0.60, " + DECODE),
    "a setting under colours": ("sglang", "speculative_\x1b[1meagle_topk=4 " + DECODE),
    "vLLM's, then SGLang's": ("vllm", INTERVAL + " " + DECODE),
    "SGLang's, then vLLM's": ("sglang", DECODE + INTERVAL),
    "llama.cpp's, then vLLM's": ("llama.cpp", EVAL + " " + INTERVAL),
    "vLLM's, then llama.cpp's": ("vllm", THROUGHPUT + " " + DRAFT),
    "a metric of another engine": ("vllm", "vllm:spec_decode_num_drafts 5 " + INTERVAL),
}


@pytest.mark.parametrize("case", ODD)
def test_a_line_with_a_second_mark_stays_a_line(case: str) -> None:
    engine, odd = ODD[case]
    lines = [*PLAIN[engine] * 2 * FEWEST, odd, *PLAIN[engine] * 2 * FEWEST]
    assert outcome("\n".join(lines)) == singly(outcome, lines)


def test_counts_above_what_a_float_holds_add_up_exactly() -> None:
    lines = [HUGE] * 30
    (reading,) = read("\n".join(lines))
    assert reading.drafted == 30 * 999_999_999_999_999
    assert reading.accepted == 30 * 500_000_000_000_123
    mixed = [line for pair in zip(lines, [INTERVAL] * 30, strict=True) for line in pair]
    assert outcome("\n".join(mixed)) == singly(outcome, mixed)


def test_a_shape_holds_marks_of_its_own_engine_only() -> None:
    """So what a common line holds besides is beside the shape."""
    seen = 0
    for line in (INTERVAL, THROUGHPUT, DECODE, PROMPT, EVAL, DRAFT, TOTALS):
        for engine in ENGINES:
            for found in (shape.search(line.encode()) for shape in engine.shapes):
                if found is not None:
                    seen += 1
                    others = [mark for one in ENGINES if one is not engine for mark in one.marks]
                    assert not [mark for mark in others if mark in found[0]], line
    assert seen == 7
    words = [word for engine in ENGINES for word in (*engine.marks, *engine.looks)]
    assert not [word for word in words if set(word) & set(b"0123456789.\n")]  # what is left out


SPRINKLED = (
    *(word.decode() for engine in ENGINES for word in (*engine.marks, *engine.looks)),
    "#running-req: 99", "accept len: 3.00,", "accept rate: 0.10,", "speculative_eagle_topk=4",
    "num_spec_tokens=2", "id 2 | task 5 |", "mean len = 2.00", "acc per pos = (0.900, 0.100)",
    "synthetic rejection_sample", "SpecDecoding metrics: ", "Decode batch, ", "Decode batch",
    "eval time = 5 ms / 7 tokens", "statistics\tx: ", "\u0665", "nan", "\x1b[1m", "\x1b[", "\r",
)  # fmt: skip


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 60), marks=pytest.mark.slow)])
def test_lines_glued_cut_and_sprinkled_are_the_same_either_way(
    monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    """Newlines lost, lines cut short, marks where none belong."""
    taken = counted(monkeypatch)
    for seed in seeds:
        rng = random.Random(seed)
        kinds: list[Lines] = [vllm, sglang, llamacpp()]
        if seed % 2:
            kinds = [rng.choice(kinds)]
        lines = [rng.choice(kinds)(rng, i) for i in range(70)]
        for _ in range(rng.randint(1, 12)):
            spoil(rng, lines)
        found, truth = outcome("\n".join(lines)), singly(outcome, lines)
        assert found == truth, (seed, lines)
    assert sum(taken) > 10 * len(seeds)


def spoil(rng: random.Random, lines: list[str]) -> None:
    """Glue, cut or sprinkle one of the lines."""
    index = rng.randrange(len(lines) - 1)
    line = lines[index]
    at = rng.randrange(len(line) + 1)
    which = rng.randrange(4)
    if which == 0:
        lines[index : index + 2] = [line + rng.choice(("", " ")) + lines[index + 1]]
    elif which == 1:
        lines[index : index + 2] = [line[:at] + lines[index + 1]]
    elif which == 2:
        lines[index] = line[:at]
    else:
        lines[index] = line[:at] + rng.choice(SPRINKLED) + line[at:]


def outcome(text: str) -> object:
    """What reading tells, or why it refuses."""
    try:
        return told(read(text))
    except LogError as error:
        return str(error)
