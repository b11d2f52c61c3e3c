"""Names of checkpoints as people write them: the model's own name, and the format in the suffix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specmath.checks import InputError
from specmath.models.dtypes import dtype_name

__all__ = ["key", "owner", "readings"]

_GGUF = re.compile(r"[-_. ]((?:ud[-_])?(?:iq[1-4]|q[2-8]|tq[12])(?:_[0-9a-z]+)+|q[2-8](?:_?k)?)$")
_BITS = re.compile(r"[-_. ](\d{1,2}(?:\.\d{1,4})?[-_ ]?(?:bpw|bits?))$")
_LAST = re.compile(r"[-_. ]+([a-z0-9]+)$")
# What a checkpoint is called besides: how it was tuned, packed or by whom; never another shape.
_VARIANTS = frozenset({
    "instruct", "it", "chat", "base", "hf", "pt", "thinking", "preview", "exp", "latest", "sft",
    "dpo", "gguf", "mlx", "bnb", "unsloth", "dwq", "qat", "dynamic", "static", "block", "pertensor",
    "quantized", "quantised", "imatrix", "marlin", "abliterated", "kv", "model", "mtp",
    "terminus", "text", "hybrid", "calib", "class", "exl2", "exl3", "ptq",
})  # fmt: skip
_DATE = re.compile(r"\d{4}|\d{6}|\d{8}")
_VERSION = re.compile(r"[-_. ]v\d{1,2}(?:\.\d{1,2})*$")
_FORMATS = frozenset({
    "fp8", "nvfp4", "fp4", "mxfp4", "awq", "gptq", "int4", "int8", "bf16", "fp16", "f16", "w4a16",
    "w8a16", "w8a8", "w4a4", "w4a8", "autoround",
})  # fmt: skip
_METHODS = frozenset({"awq", "gptq", "autoround"})  # of 4 bits unless the name says more


def key(name: str) -> str:
    """Spelling without owner, case, spaces and separators: "meta-llama/Llama 3.1 8B"."""
    last = name.strip().rsplit("/", 1)[-1].lower()
    return "".join(c for c in last.removeprefix("meta-") if c not in " -_:")


def owner(name: str) -> str:
    """Who published it, in lower case: "nvidia" of "nvidia/Qwen3-8B-FP8"; "" where not said."""
    return name.strip().rpartition("/")[0].lower()


def readings(text: str) -> Iterator[tuple[str, str | None]]:
    """(name, stored format) of a checkpoint's name, from the whole to the barest.

    Each time one suffix less: a tuning ("-Instruct"), a date ("-0528"), a format ("-FP8", "-AWQ",
    "Q4_K_M", "4bit"). The format is the last one met from the right that has bits of its own.

    Examples
    --------
    >>> list(readings("Qwen/Qwen3-8B-GPTQ-Int4"))[-1]
    ('qwen3-8b', 'int4')
    """
    name = re.sub(r"[:()\[\]]+", " ", text.strip().rsplit("/", 1)[-1].lower().removesuffix(".gguf"))
    name = name.strip()
    dtype: str | None = None
    yield name, dtype
    while found := _suffix(name):
        name, stated = found[0].rstrip(" -_."), found[1]
        if stated is not None and (dtype is None or dtype in _METHODS):
            dtype = stated
        if name:
            yield name, dtype_name(dtype) if dtype else None


def _suffix(name: str) -> tuple[str, str | None] | None:
    """The name without its last suffix, and the format which that states; None: no suffix known."""
    for pattern in (_GGUF, _BITS):
        if match := pattern.search(name):
            stated = match[1].replace("ud_", "").replace("ud-", "")
            try:
                return name[: match.start()], dtype_name(stated)
            except InputError:  # like one, and none that is known
                return None
    if match := _VERSION.search(name):
        return name[: match.start()], None
    match = _LAST.search(name)
    if match is None:
        return None
    word = match[1]
    if word in _FORMATS:
        return name[: match.start()], word
    if word in _VARIANTS or _DATE.fullmatch(word):
        return name[: match.start()], None
    return None
