"""From a Hugging Face config.json to a `Model`; what cannot be modelled is refused by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specmath.checks import InputError, plain_text, short
from specmath.foreign import json_of
from specmath.models import families
from specmath.models.attention_config import attention_needs, read_attention
from specmath.models.config_fields import Fields, cannot_model
from specmath.models.dtypes import dtype_name
from specmath.models.layers import LayerGroup
from specmath.models.mlp_config import mlp_needs, read_mlp
from specmath.models.model import Model, part_parameters
from specmath.models.quantisation_config import read_kv_dtype, read_quantisation

__all__ = ["from_config", "load"]

_LAYERS = ("num_hidden_layers", "n_layer")
_HIDDEN = ("hidden_size", "n_embd")
_CONTEXT = ("max_position_embeddings", "n_positions")
QUANTISATION = "quantization_config"
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
# Where a multimodal config keeps its language model.
_NESTED = ("text_config", "language_config", "llm_config", "thinker_config")
# Field -> what it means. Any of these present and not zero, false or empty: refused.
_UNMODELLED = {
    "is_encoder_decoder": "encoder-decoder",
    "_diffusers_version": "diffusion",
    "ssm_cfg": "state-space layers (Mamba)",
    "ssm_state_size": "state-space layers (Mamba)",
    "state_size": "state-space layers (Mamba)",
    "mamba_d_state": "state-space layers (Mamba)",
    "mamba_num_heads": "state-space layers (Mamba)",
    "hybrid_override_pattern": "state-space layers (Mamba)",
    "linear_attn_config": "Kimi delta attention",
    "cross_attention_layers": "cross-attention to an image encoder",
    "num_kv_shared_layers": "layers that share one cache",
    "hidden_size_per_layer_input": "per-layer embeddings",
    "block_configs": "layers of different sizes",
    "sparse_attention_config": "block-sparse attention",
    "attention_other_setting": "windowed layers with heads of their own",
    "compress_ratios": "compressed sparse attention",
    "draft_vocab_size": "a draft head (a drafter, not a model)",
    "medusa_num_heads": "a Medusa head (a drafter, not a model)",
}


def from_config(config: Mapping[str, Any], name: str = "", source: str = "") -> Model:
    """The model that a config.json describes.

    Parameters
    ----------
    config
        The parsed JSON: a decoder, dense or mixture of experts, with full, sliding-window, latent
        (MLA, also with a sparse-attention index) or gated-delta-net attention; of a multimodal
        config the text part.
    name
        The config's `_name_or_path` or `model_type` unless given.
    source
        Where it was read, kept in the record.

    Returns
    -------
    Model
        Its `notes` say what was not counted or had to be presumed.

    Raises
    ------
    InputError
        Missing fields, all by name; a field out of range or of the wrong type; or "cannot model:
        ..." for an architecture not covered.

    Examples
    --------
    >>> model = from_config({
    ...     "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    ...     "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    ...     "vocab_size": 128256, "tie_word_embeddings": True,
    ... })
    >>> model.parameters
    1235814400
    """
    if not isinstance(config, Mapping):
        raise InputError(f"config must be a JSON object, got {type(config).__name__}")
    fields, notes = _text_part(config)
    _refuse_unmodelled(fields)
    needs = [_HIDDEN, _LAYERS, ("vocab_size",), *attention_needs(fields), *mlp_needs(fields)]
    fields.require(needs)
    hidden = fields.whole(*_HIDDEN)
    layers = _layer_groups(fields, hidden)
    published = _published_dtype(fields)
    base = "bf16" if published == "fp32" else published  # engines serve no 32-bit weights
    family = fields.family
    path = plain_text(short(fields.raw("_name_or_path", default=""), 200))
    tied = fields.flag("tie_word_embeddings", default=family in families.TIED_BY_DEFAULT)
    vocab = fields.whole("vocab_size")
    sizes = part_parameters(layers, hidden) | {"head": 0 if tied else vocab * hidden}
    quantisation = read_quantisation(fields, sum(group.count for group in layers), sizes)
    return Model(
        name=name or path or family or "model",
        hidden=hidden,
        vocab=vocab,
        layers=layers,
        tied_embeddings=tied,
        weight_dtype=base if quantisation is None else quantisation.dtype,
        kv_dtype=read_kv_dtype(fields) or base,
        base_dtype=base,
        quantisation=quantisation,
        max_context=fields.whole(*_CONTEXT) if fields.has(*_CONTEXT) else None,
        position_parameters=hidden * _positions(fields),
        final_norm_parameters=hidden * (2 if family in families.LAYER_NORM_BIAS else 1),
        mtp_layers=fields.whole(*_MTP, low=0, default=0),
        family=family,
        source=source,
        notes=notes + _notes(fields),
    )


def load(path_or_text: str | Path, name: str = "") -> Model:
    """A model from a config.json: a path to the file, its folder, or the JSON text itself.

    Raises InputError where the file cannot be read, is not JSON, or as `from_config` does.
    """
    text = str(path_or_text)
    if isinstance(path_or_text, Path) or not text.lstrip().startswith(("{", "[")):
        path = Path(path_or_text)
        try:
            path = path / "config.json" if path.is_dir() else path
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            named = short(path_or_text, quoted=True)
            raise InputError(f"config cannot be read from {named}: {short(error, 200)}") from error
        name = name or (path.stem if path.stem != "config" else path.parent.name)
        return from_config(_with_quantisation(json_of("config", text), path), name=name)
    return from_config(json_of("config", text), name=name)


def _with_quantisation(config: Any, path: Path) -> Any:
    """The config with what NVIDIA's checkpoints keep beside it, in hf_quant_config.json."""
    beside = path.with_name(path.name.replace("config", "hf_quant_config"))
    if not isinstance(config, dict) or config.get(QUANTISATION) or beside == path:
        return config
    try:
        text = beside.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return config
    found = json_of("hf_quant_config", text)
    stated = found.get("quantization") if isinstance(found, dict) else None
    return {**config, QUANTISATION: stated} if isinstance(stated, dict) else config


def _text_part(config: Mapping[str, Any]) -> tuple[Fields, tuple[str, ...]]:
    """The language model's fields (of a multimodal config the nested part, then the rest)."""
    inner: Mapping[str, Any] = config
    notes: tuple[str, ...] = ()
    while nested := next((k for k in _NESTED if isinstance(inner.get(k), Mapping)), None):
        inner = inner[nested]
        notes = (f"only the language model ({nested}) is counted, no vision or audio tower",)
    merged = {**config, **{key: value for key, value in inner.items() if value is not None}}
    if "tie_word_embeddings" in config:  # of two, the outer one is obeyed
        merged["tie_word_embeddings"] = config["tie_word_embeddings"]
    fields = Fields(merged)
    return fields.with_defaults(families.DEFAULTS.get(fields.family, {})), notes


def _refuse_unmodelled(fields: Fields) -> None:
    family = fields.family
    if family in families.UNSUPPORTED:
        raise cannot_model(families.UNSUPPORTED[family], f"model_type = {family}")
    for field, what in _UNMODELLED.items():
        if fields.raw(field):
            raise cannot_model(what, field)
    # MiniMax lists its attention a layer: 1 is softmax, anything else lightning attention.
    if any(kind != 1 for kind in fields.listed("attn_type_list")):
        raise cannot_model("lightning attention", "attn_type_list")
    if fields.raw("word_embed_proj_dim", default=0) not in (0, fields.raw(*_HIDDEN)):
        raise cannot_model("embeddings narrower than the layers", "word_embed_proj_dim")


def _layer_groups(fields: Fields, hidden: int) -> tuple[LayerGroup, ...]:
    """Equal layers are gathered wherever they stand: only their number matters here."""
    layer_count = fields.whole(*_LAYERS)
    if layer_count > 10_000:
        raise InputError(f"num_hidden_layers must be <= 10000, got {layer_count}")
    norms = (4 if fields.family in families.FOUR_NORMS else 2) * hidden
    norms *= 2 if fields.family in families.LAYER_NORM_BIAS else 1
    attention = read_attention(fields, hidden, layer_count)
    kinds = Counter(zip(attention, read_mlp(fields, hidden, layer_count), strict=True))
    return tuple(LayerGroup(count, *kind, norms) for kind, count in kinds.items())


def _published_dtype(fields: Fields) -> str:
    """The format of the weights that no quantisation covers, as published."""
    name = fields.name_of("torch_dtype", "dtype")
    found = fields.raw("torch_dtype", "dtype", default="auto")
    return "bf16" if name is None or found == "auto" else dtype_name(found, name)


def _positions(fields: Fields) -> int:
    """Learned positions of GPT-2 and OPT (which keeps two more than it uses)."""
    more = {"gpt2": 0, "opt": 2}.get(fields.family)
    return 0 if more is None else fields.whole(*_CONTEXT) + more


def _notes(fields: Fields) -> tuple[str, ...]:
    notes = []
    if heads := fields.whole(*_MTP, low=0, default=0):
        notes.append(f"multi-token-prediction layers not counted: {heads}")
    if _published_dtype(fields) == "fp32":
        notes.append("published in fp32, counted in bf16: engines serve it in 16 bits")
    if fields.has("attention_chunk_size") and not fields.has("hybrid_layer_pattern"):
        notes.append("chunked attention is counted as a sliding window of the chunk's length")
    if fields.family and fields.family not in families.KNOWN:
        notes.append(
            f"model_type {fields.family!r} is not one that was checked: read by its fields, "
            "presuming a gated feed-forward and two norms a layer"
        )
    return tuple(notes)
