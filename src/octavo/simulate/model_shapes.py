"""Sizes of decoder models: what a step must read and compute. Knows no accelerator.

Dense models only: a mixture of experts reads fewer weights than it holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

from octavo.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Counts of parameters follow from the sizes; biases, norms and position tables are left out.

    `is_gated`: three matrices in the feed-forward network, not two. `ties_embeddings`: the output
    matrix is the embedding table. Raises ConfigError for a size below 1.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    is_gated: bool = True
    ties_embeddings: bool = False

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise ConfigError(f"--model-params: {item.name} is {value}; 1 or more is allowed")
        if self.num_heads % self.num_kv_heads:
            raise ConfigError(
                f"--model-params: num_kv_heads is {self.num_kv_heads};"
                f" a divisor of num_heads ({self.num_heads}) is allowed"
            )

    @property
    def layer_parameters(self) -> int:
        attention = 2 * self.hidden_size * self.head_dim * (self.num_heads + self.num_kv_heads)
        matrices = 3 if self.is_gated else 2
        return attention + matrices * self.hidden_size * self.intermediate_size

    @property
    def output_parameters(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def num_parameters(self) -> int:
        tables = 1 if self.ties_embeddings else 2
        return self.num_layers * self.layer_parameters + tables * self.output_parameters

    def kv_bytes_per_token(self, element_bytes: float) -> float:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * element_bytes


def _shape(
    name: str, sizes: Sequence[int], *, is_gated: bool = True, ties_embeddings: bool = False
) -> ModelShape:
    """`sizes`: layers, width, heads, key/value heads, head, feed-forward width, vocabulary."""
    names = [item.name for item in fields(ModelShape)][1:8]
    return ModelShape(
        name=name,
        is_gated=is_gated,
        ties_embeddings=ties_embeddings,
        **dict(zip(names, sizes, strict=True)),
    )


MODEL_SHAPES: Mapping[str, ModelShape] = MappingProxyType(
    {
        shape.name: shape
        for shape in (
            _shape("smollm2-135m", (30, 576, 9, 3, 64, 1536, 49152), ties_embeddings=True),
            _shape("qwen2.5-0.5b", (24, 896, 14, 2, 64, 4864, 151936), ties_embeddings=True),
            _shape("qwen2.5-7b", (28, 3584, 28, 4, 128, 18944, 152064)),
            _shape("llama-8b", (32, 4096, 32, 8, 128, 14336, 128256)),
            _shape("llama-2-13b", (40, 5120, 40, 40, 128, 13824, 32000)),
            _shape("llama-2-70b", (80, 8192, 64, 8, 128, 28672, 32000)),
            _shape("llama-70b", (80, 8192, 64, 8, 128, 28672, 128256)),
            _shape("llama-405b", (126, 16384, 128, 8, 128, 53248, 128256)),
            _shape(
                *("opt-13b", (40, 5120, 40, 40, 128, 20480, 50272)),
                is_gated=False,
                ties_embeddings=True,
            ),
            _shape(
                *("opt-175b", (96, 12288, 96, 96, 128, 49152, 50272)),
                is_gated=False,
                ties_embeddings=True,
            ),
            _shape(
                *("gpt3-175b", (96, 12288, 96, 96, 128, 49152, 50257)),
                is_gated=False,
                ties_embeddings=True,
            ),
        )
    }
)
"""Sizes out of the models' own configuration files; OPT's and GPT-3's out of Zhang et al. 2022 and
Brown et al. 2020. llama-8b and -70b are Llama 3's."""


def find_shape(name: str, changes: Mapping[str, int]) -> ModelShape:
    """A known shape, or with `changes` one of other sizes. Raises ConfigError."""
    if name not in MODEL_SHAPES:
        raise ConfigError(f"--model is {name!r}; one of {', '.join(MODEL_SHAPES)} is allowed")
    values = {item.name: getattr(MODEL_SHAPES[name], item.name) for item in fields(ModelShape)}
    for key, value in changes.items():
        if key == "name" or key not in values:
            allowed = ", ".join(item for item in values if item != "name")
            raise ConfigError(f"--model-params names {key!r}; {allowed} are allowed")
        values[key] = bool(value) if isinstance(values[key], bool) else value
    if changes:
        values["name"] = f"{name} with " + ", ".join(f"{k}={v}" for k, v in changes.items())
    return ModelShape(**values)
