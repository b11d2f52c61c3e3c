"""What a prompt costs the sequences that decode meanwhile: the increment of the steps it shares.

A chunk of a prompt shares a step with the sequences that decode, and the weights are read once:

    increment = T(batch + chunk) − T(batch) + attention of the chunk over what stands before it

T is a forward with next to nothing in the cache, so that the cache of the decoding sequences, which
both forwards read, does not count. With nobody decoding the chunk pays the whole forward.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, real, whole
from specmath.steptime.operators import AttentionShard
from specmath.steptime.roofline import Placement

__all__ = [
    "CHUNK_TOKENS", "LEAST_CHUNK", "attention_seconds", "prefill_seconds", "shared_seconds",
]  # fmt: skip

CHUNK_TOKENS = 8192
"""vLLM's `max_num_batched_tokens` for a server on a large GPU: tokens of one step at most."""

LEAST_CHUNK = 128
"""What a chunk is at least, where the decoding sequences fill a step."""


PIECES = 64
"""Pieces of a prompt at most over which its attention is summed."""


def prefill_seconds(
    place: Placement,
    prompt_tokens: ArrayLike,
    batch: ArrayLike,
    *,
    chunk_tokens: int = CHUNK_TOKENS,
    cached_tokens: ArrayLike = 0,
) -> FloatArray:
    """Seconds that one prompt adds to the steps it shares with `batch` decoding sequences.

    Σ over its chunks of T(batch + n) − T(batch) + attention(n, what stands before), where a chunk
    holds what the decoding sequences leave of `chunk_tokens`.

    Parameters
    ----------
    place
        The model where it runs.
    prompt_tokens
        Of the whole prompt, ≥ 0; array_like.
    batch
        Sequences that decode meanwhile, ≥ 0 (0: the prompt pays the whole forward); array_like.
    chunk_tokens
        Tokens of one step at most, ≥ 1.
    cached_tokens
        Tokens at the prompt's start that the prefix cache holds, ≥ 0: read, not computed.

    Returns
    -------
    FloatArray
        Seconds, of the broadcast shape; 0 where nothing is to be computed.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Chunked prefill: Sarathi-Serve, Agrawal et al. 2024, arXiv 2403.02310.

    Examples
    --------
    >>> from specmath import models
    >>> place = Placement(models.find("Llama-3.1-8B"), "h100")
    >>> alone, shared = prefill_seconds(place, 512, [0, 16])
    >>> bool(shared < alone)
    True
    """
    prompt = real("prompt_tokens", prompt_tokens, 0)
    cached = real("cached_tokens", cached_tokens, 0)
    decoding = real("batch", batch, 0)
    step = int(whole("chunk_tokens", chunk_tokens, 1))
    p, k, b = np.broadcast_arrays(prompt, np.minimum(cached, prompt), decoding)
    fresh = np.ceil(p - k)
    size = np.maximum(step - b, min(LEAST_CHUNK, step))
    full, rest = np.divmod(fresh, size)
    base, chunk, last = shared_seconds(place, np.stack([b, b + size, b + rest]))
    total = full * (chunk - base) + np.where(rest > 0, last - base, 0.0)
    most = math.ceil(float((fresh / size).max(initial=0.0)))
    # Attention grows with what stands before: a sum over few pieces is that over the chunks.
    each = size if most <= PIECES else fresh / PIECES
    for number in range(min(most, PIECES)):
        piece = np.clip(fresh - number * each, 0.0, each)
        total = total + attention_seconds(place, piece, k + number * each + piece / 2)
    return np.asarray(total)


def shared_seconds(place: Placement, tokens: FloatArray) -> FloatArray:
    """A forward over `tokens` with next to nothing in the cache, without the output head, which a
    prompt needs for its last token alone; 0 for none."""
    count = np.maximum(np.rint(tokens), 1)
    together = place.tensor_parallel // place.attention_dp
    outputs = math.ceil(place.model.vocab / together)
    own = np.ceil(count / place.attention_dp)
    head = place.product_seconds(outputs, place.model.hidden, own)
    return np.where(tokens > 0, place.step(count, 1, 1).total - head, 0.0)


def attention_seconds(place: Placement, tokens: FloatArray, context: FloatArray) -> FloatArray:
    """Arithmetic of `tokens` queries over a mean context; the cache is read once a chunk, which the
    arithmetic hides. Groups with sequences of their own read prompts side by side."""
    rates = place.sixteen_bit
    speed = rates.peak * rates.coefficients.attention_arithmetic_efficiency
    over = np.maximum(context, 1.0)
    flops = sum(layer.count * _query_flops(layer, over) for layer in place.part.attention)
    return np.asarray(tokens / place.attention_dp * flops / speed)


def _query_flops(layer: AttentionShard, context: FloatArray) -> FloatArray:
    """FLOPs of one query token of a prompt. Latent attention is not absorbed there: each head has
    keys and values of its own (DeepSeek-V2, arXiv 2405.04434, section 2.1), 3.4 times fewer."""
    a = layer.attention
    if a.kind != "mla" or a.index_topk:
        return layer.flops(context)
    width = a.nope_head_dim + a.rope_head_dim + a.v_head_dim
    return context * (2.0 * a.heads * width) * layer.head_share
