"""transformers models of real files: the values of the file in a model class of transformers.

Reads tensors with octavo's GGUF reader (tested against the `gguf` package elsewhere), dequantises
with the `gguf` package, and knows the two conventions of converters: interleaved rows of query and
key for llama, norms with 1 added for gemma.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch
from gguf import GGMLQuantizationType
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.initialization import no_init_weights

from octavo.weights.gguf import GGUFFile
from tests.models.tiny import gguf_name


def smollm2_oracle(path: Path) -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
    )
    with no_init_weights():
        hf = LlamaForCausalLM(config)
    return _filled(hf, path, "llama", {"attn_q": 9, "attn_k": 3})


def gemma3_oracle(path: Path) -> PreTrainedModel:
    config = Gemma3TextConfig(
        vocab_size=262144,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window=512,
        max_position_embeddings=32768,
    )
    with no_init_weights():
        hf = Gemma3ForCausalLM(config)
    return _filled(hf, path, "gemma3", {})


def qwen05_oracle(path: Path) -> PreTrainedModel:
    config = Qwen2Config(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    )
    with no_init_weights():
        hf = Qwen2ForCausalLM(config)
    return _filled(hf, path, "qwen2", {})


def _filled(
    hf: PreTrainedModel, path: Path, architecture: str, interleaved_heads: dict[str, int]
) -> PreTrainedModel:
    hf.tie_weights()
    with GGUFFile.open(path) as file, torch.no_grad():
        for hf_name, parameter in hf.named_parameters():
            name, part = gguf_name(architecture, hf_name)
            values = _values(file, name).reshape(tuple(parameter.shape))
            if part in interleaved_heads:
                split = values.reshape(interleaved_heads[part], -1, 2, values.shape[1])
                values = split.swapaxes(1, 2).reshape(values.shape)
            if architecture == "gemma3" and parameter.ndim == 1:
                values = values - 1
            parameter.copy_(torch.tensor(values))
    return hf.float().eval()


def _values(file: GGUFFile, name: str) -> npt.NDArray[np.float32]:
    kind = GGMLQuantizationType[file.tensors[name].type_name]
    values: npt.NDArray[np.float32] = gguf.quants.dequantize(file.data(name), kind)
    return values
