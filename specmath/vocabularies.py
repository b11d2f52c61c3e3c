"""What an engine does with a draft model of another vocabulary: data/vocabularies.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from specmath.models import Model

__all__ = ["Does", "Mismatch", "Rule", "mismatch", "rules"]

Does = Literal["refuses", "translates", "goes on", "unknown"]
Difference = Literal["sizes", "tokens", "unsure"]


@dataclass(frozen=True)
class Rule:
    """How one engine treats two vocabularies; see the head of the data file."""

    label: str
    padding: int
    sizes: Does
    tokens: Does
    said: Mapping[str, str]
    source: str


@dataclass(frozen=True)
class Mismatch:
    """How the vocabularies of a target and a draft differ, and what the engine then does.

    `difference`: "sizes" of the tables; "tokens" under the same numbers; "unsure" where the tokens
    of one of them are not known and the sizes are no reason to doubt. `does`, `said`: what the
    engine does, and how; "unknown" and "" where nothing is known of it.
    """

    difference: Difference
    target: Model
    draft: Model
    does: Does
    said: str
    engine: str
    source: str


@cache
def rules() -> Mapping[str, Rule]:
    """What is known, by the scenario's name of the engine."""
    text = resources.files("specmath").joinpath("data/vocabularies.toml").read_text("utf-8")
    return {
        engine: Rule(
            entry["label"], entry["padding"], entry["sizes"], entry["tokens"], entry["said"],
            entry["source"],
        )
        for entry in tomllib.loads(text).values()
        for engine in entry["engines"]
    }  # fmt: skip


def mismatch(engine: str, target: Model, draft: Model) -> Mismatch | None:
    """How a draft's vocabulary differs from its target's for an engine; None where it does not.

    Parameters
    ----------
    engine
        A scenario's name of it.
    target, draft
        Models; of one from a pasted config.json the tokens are not known.

    Returns
    -------
    Mismatch or None
        None too where the tables differ by no more than the engine takes for padding.

    Examples
    --------
    >>> from specmath.models import find
    >>> mismatch("vllm", find("Llama-3.3-70B"), find("Llama-3.2-1B")) is None
    True
    >>> found = mismatch("vllm", find("Qwen2.5-7B"), find("Qwen2.5-0.5B"))
    >>> found.difference, found.does
    ('sizes', 'refuses')
    """
    rule = rules().get(engine)
    known = bool(target.tokenizer and draft.tokenizer)
    other = known and target.tokenizer != draft.tokenizer
    apart = abs(target.vocab - draft.vocab) > (0 if rule is None else rule.padding)
    if not (other or apart):
        return None if known else Mismatch("unsure", target, draft, "unknown", "", "", "")
    difference: Difference = "tokens" if other else "sizes"
    if rule is None:
        return Mismatch(difference, target, draft, "unknown", "", "", "")
    does, said = (rule.sizes, rule.said["sizes"]) if apart else (rule.tokens, rule.said["tokens"])
    return Mismatch(difference, target, draft, does, said, rule.label, rule.source)
