"""What an engine adds to the forwards: host time of a plain step, of a speculative one, of a pass.

How the defaults were found (vLLM, batch 1, Llama-3.1-8B on an H100; tests/test_drafters.py repeats
it). vLLM issue 20780 gives 7.07 ms a plain step and for EAGLE, K = 2 to 7, s = 1.087 + 0.105 γ.

    plain step  7.07 ms   6.40 forward and sampling         0.67 host: `host_seconds`
    slope       0.74 ms   0.59 the head's forward           0.15 host: `pass_seconds`
    intercept   0.62 ms   0.00 (v grows by 0.004 ms a γ)    0.63 host: `step_seconds`

So of EAGLE's slope four fifths are drafting, and its intercept is overhead alone. For EAGLE-3
(s = 1.181 + 0.144 γ: 1.02 ms a γ, 1.28 ms once) the same overheads and its smaller head (0.31 ms)
give 1.095 + 0.065 γ: 0.55 ms a pass and 0.61 ms a step remain unexplained. Its head was captured
in CUDA graphs too (pull request 17504). The miss is left as it is. Other engines have no such
measurement here: give your own seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from specmath.checks import InputError, real

__all__ = ["ENGINES", "EngineOverhead", "engine_overhead"]


@dataclass(frozen=True)
class EngineOverhead:
    """Seconds of host work: `host_seconds` in every step, `step_seconds` more in a step that
    speculates (scheduling drafts, rejection), `pass_seconds` more in each pass of the drafter."""

    host_seconds: float
    step_seconds: float
    pass_seconds: float
    source: str

    def __post_init__(self) -> None:
        for name in ("host_seconds", "step_seconds", "pass_seconds"):
            real(name, getattr(self, name), 0)


ENGINES: dict[str, EngineOverhead] = {
    "vllm": EngineOverhead(
        6.7e-4, 6.3e-4, 1.5e-4, "vLLM issue 20780 (July 2025): EAGLE, K = 2 to 7, batch 1, H100"
    ),
    "vllm-eager-draft": EngineOverhead(
        1.38e-3, 1.2e-3, 3e-4, "vLLM pull request 16035 (April 2025), before the head was captured"
    ),
    "none": EngineOverhead(0.0, 0.0, 0.0, "the forwards alone: a lower bound"),
}


def engine_overhead(name: str) -> EngineOverhead:
    """The overhead of an engine of the register; InputError names those known."""
    if name not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {name!r}")
    return ENGINES[name]
