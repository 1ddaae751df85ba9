"""The attention block of a decoder layer, written on ops: projections, rope, pages, attention."""

from __future__ import annotations

from dataclasses import dataclass, fields

from octavo.ops.interface import AttentionSpec, KeyOffset, Ops, V
from octavo.weights.weight import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWeights:
    """Shapes: query [H*D, K], key and value [Hk*D, K], output [K, H*D], biases by their rows.

    `query_norm` and `key_norm` (D,) normalise each head before rope.
    """

    query: Weight
    key: Weight
    value: Weight
    output: Weight
    query_bias: Weight | None = None
    key_bias: Weight | None = None
    value_bias: Weight | None = None
    output_bias: Weight | None = None
    query_norm: Weight | None = None
    key_norm: Weight | None = None

    def all(self) -> list[Weight]:
        weights = (getattr(self, each.name) for each in fields(self))
        return [weight for weight in weights if weight is not None]


def attention_block(
    ops: Ops[V],
    x: V,
    angles: V,
    weights: AttentionWeights,
    layer: int,
    spec: AttentionSpec,
    norm_eps: float,
    key_offset: KeyOffset | None = None,
) -> V:
    """[T, K] normalised activations -> [T, K], to be added to the residual stream."""
    qkv = ops.linear(
        x,
        (weights.query, weights.key, weights.value),
        (weights.query_bias, weights.key_bias, weights.value_bias),
    )
    query_width = spec.num_heads * spec.head_dim
    key_width = spec.num_kv_heads * spec.head_dim
    queries = qkv.columns(0, query_width)
    keys = qkv.columns(query_width, query_width + key_width)
    values = qkv.columns(query_width + key_width, qkv.width)
    if weights.query_norm is not None:
        queries = ops.head_rms_norm(queries, weights.query_norm, norm_eps)
    if weights.key_norm is not None:
        keys = ops.head_rms_norm(keys, weights.key_norm, norm_eps)
    queries = ops.rope(queries, angles, spec.head_dim)
    keys = ops.rope(keys, angles, spec.head_dim)
    ops.write_pages(keys, values, layer, key_offset)
    attended = ops.attention(queries, layer, spec)
    return ops.linear(attended, (weights.output,), (weights.output_bias,))
