"""A whole decoder-only model: embedding, layers, last norm and head. Written on ops."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.core.model_config import ModelConfig, RopeConfig
from octavo.layers.decoder_layer import DecoderLayer, decoder_layer
from octavo.ops.interface import Activation, Ops, V
from octavo.weights.names import OUTPUT, OUTPUT_NORM, TOKEN_EMBEDDING
from octavo.weights.weight import Weight


@dataclass(frozen=True, slots=True)
class Decoder:
    """What model files build: their facts, and the weights of each layer in order."""

    config: ModelConfig
    layers: tuple[DecoderLayer, ...]
    activation: Activation

    @property
    def embedding(self) -> Weight:
        return Weight(TOKEN_EMBEDDING, (self.config.vocab_size, self.config.hidden_size))

    @property
    def norm(self) -> Weight:
        return Weight(OUTPUT_NORM, (self.config.hidden_size,))

    @property
    def head(self) -> Weight:
        """[vocabulary, K]; the embedding itself where a model ties the two."""
        if self.config.ties_embeddings:
            return self.embedding
        return Weight(OUTPUT, (self.config.vocab_size, self.config.hidden_size))

    def weights(self) -> list[Weight]:
        ends = dict.fromkeys((self.embedding, self.norm, self.head))
        return [*ends, *(weight for layer in self.layers for weight in layer.weights())]

    def forward(self, ops: Ops[V]) -> V:
        """Logits [L, vocabulary]."""
        config = self.config
        with ops.scope("embed"):
            x = ops.embed(self.embedding, scale=config.embedding_scale)
        angles = self._angles(ops)
        for index, layer in enumerate(self.layers):
            rope = config.layers[index].rope
            x = decoder_layer(ops, x, angles[rope], layer, index, config, self.activation)
        with ops.scope("head"):
            return self._logits(ops, x)

    def _angles(self, ops: Ops[V]) -> dict[RopeConfig, V]:
        """Angles of each distinct rotary embedding, computed once per step for all layers."""
        with ops.scope("rope"):
            ropes = dict.fromkeys(layer.rope for layer in self.config.layers)
            return {rope: ops.rope_angles(rope) for rope in ropes}

    def _logits(self, ops: Ops[V], x: V) -> V:
        """Last norm and head run on the wanted rows alone: [T, K] -> [L, vocabulary]."""
        wanted = ops.rms_norm(ops.gather_rows(x), self.norm, self.config.norm_eps)
        logits = ops.linear(wanted, (self.head,))
        cap = self.config.logits_softcap
        return ops.softcap(logits, cap) if cap else logits
