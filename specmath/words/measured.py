"""A measurement in words: what was found, where, what its report says about itself."""

from __future__ import annotations

from datetime import UTC, datetime

from specmath.measure.report import Interval, Report, ReportPart, SelfCheck
from specmath.measure.server.costs import ServerCosts
from specmath.measure.server.load import Load
from specmath.measure.server.replay_endpoints import Replayed
from specmath.measure.server.runs import drafted
from specmath.numbers import count, faster, ratio, significant

__all__ = [
    "check_said", "claims_said", "clock_said", "costs_said", "costs_warnings", "headline",
    "interval_said", "load_said", "replay_warnings", "where_measured",
]  # fmt: skip

GREEDY_SHARE = 0.98
"""Share of tokens that are the model's most probable one, above which a text looks greedy."""

CHECKS = {
    "broken draft": "The draft looks broken: α is {alpha:.3f} at best. Wrong tokenizer, wrong "
    "weights or a head of another model give such numbers; a weak draft does not.",
    "empty look-up": "Look-up finds next to nothing in this text: α is {alpha:.3f} at best.",
    "greedy same": "Greedy speculative output is identical to plain.",
    "greedy differs": "Greedy output differs from plain decoding at γ = {gammas}: a pass over "
    "several tokens rounds differently, which flips near-ties in low precision.",
    "steps agree": "Steps agree with the replay of the same texts: largest |z| {z:.1f}.",
    "steps differ": "Steps do not agree with the replay of the same texts (T={temperature:g}, "
    "γ={gamma:g}: z = {z:.1f}). Draft and target may sample at different temperatures, or "
    "near-ties were rounded differently in the scoring pass.",
    "fastest": "Fastest over all text: {speedup:.2f}× at T={temperature:g}, γ={gamma:g}.",
    "none faster": "No γ that was run is faster than plain decoding; {speedup:.2f}× at "
    "T={temperature:g}, γ={gamma:g}.",
    "busy": "The machine was busy with other work (load {load:.1f} on {cores:g} cores): times and "
    "measured speedups are rough. Acceptance does not suffer.",
    "padded heads": "Output heads are padded differently ({target:.0f} and {draft:.0f} rows): both "
    "are cut to the smaller, whose rows are all the tokenizer has.",
    "larger draft": "The draft is larger than the target ({draft:,.0f} against {target:,.0f} "
    "parameters): it can only be slower.",
    "dear draft": "One draft forward takes {c:.2f} target forwards.",
    "speed agrees": "Measured and replayed speedup agree within their errors at every γ.",
    "speed differs": "Measured and replayed speedup differ by more than their errors "
    "(T={temperature:g}, γ={gamma:g}: {speedup:.2f}× against {predicted:.2f}×): the machine "
    "changed while it measured, or a run spends time that its timed steps do not show. Measure "
    "again on a quiet machine; of the two, the measured one happened.",
    "speed untold": "Whether measured and replayed speedup agree cannot be told "
    "(T={temperature:g}, γ={gamma:g}: {speedup:.2f}× against {predicted:.2f}×): the interval of "
    "the replay is ±{width:.0%}, and beyond ±50% next to anything agrees. Measure longer, or on a "
    "quiet machine.",
    "eager": "Eager transformers, batch 1: acceptance carries over to a server, c and v do not. "
    "A server replays captured graphs, serves many requests at once and keeps its cache elsewhere.",
    "unread tensors": "{count:g} tensors of the checkpoint have no place in the model that its "
    "config.json names, and were left out.",
    "left out": "Batch {batch:g} at context {context:g} ran out of memory and was not timed.",
    "resumed": "{runs:,.0f} of the runs were done before an interruption, at another time: "
    "compare speeds across it with care.",
}


def check_said(check: SelfCheck) -> str:
    """What a report says about itself; one of before already is a sentence."""
    if check.message:
        return check.message
    return CHECKS[check.code].format(**check.values, gammas=", ".join(map(str, check.gammas)))


def headline(report: Report, part: ReportPart) -> tuple[str, str]:
    """What was found there: the outcome in bold words, and the numbers behind it."""
    row, ran = report.acceptance_of(part), report.best_of(part)
    numbers = f"α = {interval_said(row.alpha)}"
    if report.costs is not None:
        numbers += f", c = {interval_said(report.costs.c)}"
    if ran is None:
        return "acceptance is known, no speculative run was finished.", f"{numbers}."
    run = report.run_of(part, ran.gamma)
    said = (
        f"Predicted: {ratio(ran.replay_v_speedup)} by replay with measured costs, "
        f"{ratio(ran.theorem_speedup)} by the theorem. {numbers}."
    )
    outcome = f"γ={ran.gamma} ran {faster(ran.speedup)}"
    if run is None or (between := run.speedup) is None:
        return f"{outcome}.", said
    interval = f"(95%: {significant(between.low)} to {ratio(between.high)})"
    if between.low <= 1 <= between.high:
        said += " A quiet machine, more prompts or longer texts narrow it."
        return f"{outcome}, within the noise {interval}.", said
    return f"{outcome} {interval}.", said


def where_measured(report: Report) -> str:
    """Machine, date, pair and how much text, for the line below the answer."""
    machine, pair, settings = report.machine, report.pair, report.settings
    processor = f"{machine.accelerator}, {machine.processor}".removeprefix(", ")
    draft = f" ({pair.draft_parameters:,} parameters)" if pair.draft_parameters else ""
    return (
        f"Measured on {processor}, {count(machine.threads, 'thread')}, {_day(report.created)}, in "
        f"{report.seconds:.0f} s: {pair.target} ({pair.target_parameters:,} parameters) with "
        f"{pair.draft}{draft}, {pair.dtype}; {count(settings.prompts, 'prompt')}, up to "
        f"{settings.output_tokens:,} tokens each. {machine.software}."
    )


def _day(created: str) -> str:
    try:
        at = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at.tzinfo else f"{at:%Y-%m-%d %H:%M}"


def clock_said(report: Report) -> str:
    """What the times are, where they are not those of a clock on the wall; else ""."""
    if report.settings.clock == "wall":
        return ""
    return (
        "Times of the pair are processor time of its one thread, which other programs hardly "
        "change."
    )


def interval_said(found: Interval) -> str:
    """0.412 (0.39 to 0.44); the value alone where nothing is open."""
    value, low, high = map(significant, (found.value, found.low, found.high))
    return value if found.low == found.high else f"{value} ({low} to {high})"


# ── a server ─────────────────────────────────────────────────────────────────────────────────


def load_said(load: Load) -> str:
    """Which ITL this is, and what failed."""
    text = "itl: gaps between the chunks a client receives; "
    unsaid = "the server does not say how many tokens a chunk holds, TPOT counts all of them"
    if not load.counted:
        unsaid = "the server does not say how many tokens it sent: neither TPOT nor tokens a second"
    text += "itl_token: between tokens, 0 within a chunk" if load.exact_tokens else unsaid
    if load.failed:
        text += f". {len(load.failed)} requests failed, the first: {load.failed[0]}"
    if load.taken:
        text += (
            f". {count(load.taken, 'request')} of the checkpoint, which metrics and throughput do "
            "not hold"
        )
    missing = load.plan.requests - len(load.streams) - len(load.failed)
    if missing > 0:
        why = "stopped" if load.stopped else "the server was gone, or --seconds were over"
        text += f". {count(missing, 'request')} not sent: {why}"
    return f"{text}."


def claims_said(plain: Load, speculative: Load) -> list[str]:
    """What the two runs of a comparison were said to be and, by their own counts, were not."""
    said = []
    if count_of := drafted(plain):
        said.append(
            f"the run called plain drafted {count_of:,.0f} tokens, as its server says: it is no "
            "baseline"
        )
    if drafted(speculative) == 0:
        said.append(
            "the run called speculative drafted nothing, as its server says: whatever differs is "
            "not speculation"
        )
    return said


BESIDE_V = {
    "vllm": "a prompt runs outside the graphs of decode steps, so v may be high",
    "sglang": "a prompt runs outside the graphs of decode steps, so v may be high",
}
"""By engine, in what a prompt of γ+1 tokens differs from their verification."""


def costs_said(costs: ServerCosts) -> list[str]:
    """What was measured and where, then the plain step and c."""
    said = []
    if (steps := costs.steps) is not None:
        clock = "its own clock" if steps.own_clock else "our clock, over the connection"
        said.append(
            f"{steps.engine}, {steps.model}: batch 1, {steps.context:,} tokens in the cache, "
            f"{clock}, {count(len(steps.plain), 'round')}."
        )
    ms = interval_said(Interval.of(costs.plain_ms))
    said.append(f"Plain step: {ms} ms.")
    if (draft := costs.draft) is not None:
        said.append(f"c = {interval_said(Interval.of(draft.c))}, from {draft.found}.")
    return said


def costs_warnings(costs: ServerCosts) -> list[str]:
    """What these numbers do not hold."""
    said = []
    if (steps := costs.steps) is not None:
        if steps.head_share is None:
            said.append(
                "v is that of a prompt: the output head multiplies one row of it, not γ+1; "
                "--head-share (vocabulary × hidden size ÷ parameters) puts that right, else h of a "
                "run with speculation holds it"
            )
        else:
            said.append(
                f"v is that of a prompt, in which the output head ({steps.head_share:.0%} of the "
                "parameters) multiplies one row: its further rows are counted as the other "
                "parameters'"
            )
        if steps.engine in BESIDE_V:
            said.append(f"v on {steps.engine}: {BESIDE_V[steps.engine]}")
        if not steps.cached:
            said.append(
                "the server does not say whether the prefix came from its cache (vLLM does with "
                "--enable-prompt-tokens-details): if not, v is too near 1"
            )
    elif costs.loads:
        said.append(
            "v is that of γ+1 requests, each with a cache of its own: too high where attention "
            "takes much of a step"
        )
    if any(run.tau_from == "given" for run in costs.runs):
        said.append("runs that you gave have no interval")
    if costs.runs and costs.draft is None:
        said.append("c is not known: drafting and h are one number")
    return said


def replay_warnings(found: Replayed) -> list[str]:
    """What speaks against taking these numbers for the target's own text."""
    said = list(found.skipped)
    if found.ended:
        said.append(f"ended early, after {count(found.acceptance.texts, 'text')}: {found.ended}")
    if found.unknown:
        said.append(
            f"{found.unknown} tokens have no probability from one of the servers (not among those "
            "it lists): they count as not accepted, so α is a lower bound"
        )
    if found.mode == "greedy" and found.own_share < GREEDY_SHARE:
        said.append(
            f"only {found.own_share:.1%} of the tokens are the target's own most probable one: "
            "this text was not written by it at temperature 0, so greedy replay does not hold"
        )
    if found.mode != "greedy" and found.own_share > GREEDY_SHARE:
        said.append(
            f"{found.own_share:.1%} of the tokens are the target's most probable one: this text "
            "looks greedy; this replay is for text sampled at temperature 1 without top-p"
        )
    return said
