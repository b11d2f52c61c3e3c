"""Target, draft and tokenizer: the built-in pair, or models from folders and hub names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import specmath
from specmath.checks import InputError
from specmath.measure.drafts import Draft, ModelDraft, NgramDraft, layer_skip
from specmath.measure.engine import LanguageModel
from specmath.measure.llama import NumpyLlama
from specmath.measure.prompts import Prompt, read_prompts
from specmath.measure.tokenizer import ByteBpe, Tokenizer, tokenizer_difference
from specmath.measure.torch_engine import TorchModel, TorchTokenizer
from specmath.measure.torch_load import load_model

__all__ = [
    "BUILTIN",
    "Pair",
    "builtin_folder",
    "builtin_pair",
    "builtin_prompts",
    "load_pair",
    "self_made_draft",
]

BUILTIN = "builtin"


@dataclass(frozen=True)
class Pair:
    """What is measured; `notes` say what a reader of the numbers should know about it."""

    target: LanguageModel
    draft: Draft
    tokenizer: Tokenizer
    notes: tuple[str, ...] = field(default=())

    @property
    def draft_model(self) -> LanguageModel | None:
        return self.draft.model if isinstance(self.draft, ModelDraft) else None


def builtin_folder() -> Path:
    return Path(specmath.__file__).parent / "data" / "builtin_pair"


def builtin_prompts() -> list[Prompt]:
    """The built-in pair's prompts: prose, code, json and grounded, none seen in training."""
    return read_prompts(builtin_folder() / "prompts.json")


def builtin_pair(draft: str = "model") -> Pair:
    """The pair that ships with the package, in numpy. `draft` as in `load_pair`."""
    folder = builtin_folder()
    target, tokenizer = _builtin_model("target"), ByteBpe.load(folder / "target")
    if draft in ("model", "model:argmax"):
        return Pair(
            target, ModelDraft(_builtin_model("draft"), argmax=draft == "model:argmax"), tokenizer
        )
    made = self_made_draft(draft, target)
    if made is None:
        raise InputError(f"draft of the built-in pair must be {_FORMS}, got {draft!r}")
    return Pair(target, made, tokenizer)


def _builtin_model(part: str) -> NumpyLlama:
    return replace(NumpyLlama.load(builtin_folder() / part), name=f"built-in {part}")


def load_pair(
    target: str,
    draft: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    device_map: str | Mapping[str, int | str] | None = None,
    chat: bool = False,
    argmax: bool = False,
) -> Pair:
    """A pair from local folders or hub names, through transformers.

    draft: a folder or hub name, "ngram" or "ngram:5" (longest n-gram), "skip:20-29" or
    "skip:3,7,11" (layers left out, numbered from 0). `argmax`: the draft takes its most likely
    token at any temperature. target = "builtin" gives the built-in pair. InputError: as
    `load_model`; different tokenizers, with the reason.
    """
    if target == BUILTIN:
        return builtin_pair("model:argmax" if argmax and draft == "model" else draft)
    loaded = load_model(target, dtype=dtype, device=device, device_map=device_map)
    tokenizer = TorchTokenizer(loaded.folder, chat=chat, stop_ids=_stop_ids(loaded))
    made = self_made_draft(draft, loaded, argmax)
    if made is not None:
        return Pair(loaded, made, tokenizer)
    second = load_model(draft, dtype=dtype, device=device, device_map=device_map)
    reason = tokenizer_difference(tokenizer.vocabulary, TorchTokenizer(second.folder).vocabulary)
    if reason:
        raise InputError(
            f"{draft} cannot draft for {target}: their tokenizers differ ({reason}). Speculation "
            "compares token ids, so both must share one vocabulary"
        )
    return Pair(loaded, ModelDraft(second, argmax), tokenizer, _compared(loaded, second))


def _compared(target: TorchModel, draft: TorchModel) -> tuple[str, ...]:
    """Bring both heads to one width, and say what is odd about the sizes."""
    notes = []
    if target.vocabulary != draft.vocabulary:
        notes.append(
            f"Output heads are padded differently ({target.vocabulary} and {draft.vocabulary} "
            "rows): both are cut to the smaller, whose rows are all the tokenizer has."
        )
        target.vocabulary = draft.vocabulary = min(target.vocabulary, draft.vocabulary)
    if draft.parameters > target.parameters:
        notes.append(
            f"The draft is larger than the target ({draft.parameters:,} against "
            f"{target.parameters:,} parameters): it can only be slower."
        )
    return tuple(notes)


def _stop_ids(model: TorchModel) -> tuple[int, ...]:
    own = getattr(model.model.generation_config, "eos_token_id", None)
    if own is None:
        return ()
    return tuple(own) if isinstance(own, (list, tuple)) else (int(own),)


_FORMS = '"model", "model:argmax", "ngram", "ngram:N" or "skip:FIRST-LAST"'


def self_made_draft(text: str, target: LanguageModel, argmax: bool = False) -> Draft | None:
    """A draft that needs no second model, or None where `text` names one."""
    kind, _, rest = text.partition(":")
    if kind == "ngram":
        if rest and not rest.isdigit():
            raise InputError(f"ngram:N needs a whole number >= 1, got {text!r}")
        return NgramDraft(longest=int(rest) if rest else 3)
    if kind == "skip":
        return layer_skip(target, _layers(text, rest), argmax=argmax)
    return None


def _layers(text: str, rest: str) -> list[int]:
    """'20-29' or '3,7,11' or both."""
    layers: list[int] = []
    for part in rest.split(","):
        span = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if span is None:
            raise InputError(f"skip: needs layers such as skip:20-29 or skip:3,7, got {text!r}")
        first = int(span[1])
        layers += range(first, int(span[2] or first) + 1)
    return layers
