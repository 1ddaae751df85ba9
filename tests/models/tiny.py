"""Small random models: built by transformers, written to GGUF by the `gguf` package.

The transformers model is left with exactly the values that the file holds, after quantisation, so
that it is the oracle for the file. Nothing here uses octavo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gemma3.modeling_gemma3 import eager_attention_forward

F32 = npt.NDArray[np.float32]
VOCABULARY = 192


def _capped_attention(
    module: torch.nn.Module, *args: torch.Tensor, **kwargs: object
) -> tuple[torch.Tensor, torch.Tensor]:
    softcap = getattr(module, "attn_logit_softcapping", None)
    result: tuple[torch.Tensor, torch.Tensor] = eager_attention_forward(
        module, *args, softcap=softcap, **kwargs
    )
    return result


ALL_ATTENTION_FUNCTIONS.register("capped", _capped_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register("capped", eager_mask)

# Tensor type of each matrix, by the last part of its GGUF name; "" is the default.
Types = dict[str, str]
PLAIN: Types = {"": "F32"}
MIXED: Types = {
    "": "Q4_0",
    "token_embd": "Q8_0",
    "attn_v": "Q8_0",
    "ffn_down": "Q5_1",
    "ffn_gate": "Q4_1",
    "attn_output": "Q5_0",
}


@dataclass(frozen=True)
class TinyModel:
    """`hf` computes in float32 with the dequantised values of the file at `path`."""

    path: Path
    hf: PreTrainedModel


@dataclass(frozen=True)
class Recipe:
    """How one architecture is built and written. `keys` go under `<architecture>.`"""

    build: Callable[[], PreTrainedModel]
    architecture: str
    keys: dict[str, int | float | str] = field(default_factory=dict)


def _llama() -> PreTrainedModel:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=96,
            intermediate_size=160,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=512,
            rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
            rms_norm_eps=1e-5,
        )
    )


def _tied_llama_with_rope_factors() -> PreTrainedModel:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=32,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        )
    )


def _qwen2() -> PreTrainedModel:
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        )
    )


def _gemma3(**options: object) -> PreTrainedModel:
    settings: dict[str, object] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "sliding_window": 20,
        "query_pre_attn_scalar": 32,
        "max_position_embeddings": 512,
    }
    return Gemma3ForCausalLM(Gemma3TextConfig(**(settings | options)))


def _gemma3_with_everything() -> PreTrainedModel:
    linear = {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0}
    local = {"rope_type": "default", "rope_theta": 20000.0}
    return _gemma3(
        num_hidden_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        query_pre_attn_scalar=50,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=3.0,
        rope_parameters={"full_attention": linear, "sliding_attention": local},
    )


RECIPES = {
    "llama": Recipe(_llama, "llama", {"rope.freq_base": 5000.0, "rope.dimension_count": 16}),
    "llama-tied-rope-factors": Recipe(
        _tied_llama_with_rope_factors,
        "llama",
        {"attention.key_length": 32, "attention.value_length": 32},
    ),
    "qwen2": Recipe(_qwen2, "qwen2", {"rope.freq_base": 1e6}),
    "gemma3": Recipe(
        _gemma3,
        "gemma3",
        {
            "attention.key_length": 32,
            "attention.value_length": 32,
            "attention.sliding_window": 20,
            "rope.freq_base": 1e6,
        },
    ),
    "gemma3-everything": Recipe(
        _gemma3_with_everything,
        "gemma3",
        {
            "attention.key_length": 32,
            "attention.value_length": 32,
            "attention.sliding_window": 20,
            "attention.sliding_window_pattern": 2,
            "attention.scale": 50**-0.5,
            "rope.freq_base": 1e6,
            "rope.freq_base_swa": 20000.0,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 3.0,
        },
    ),
}


def write_tiny(name: str, folder: Path, types: Types = PLAIN, seed: int = 0) -> TinyModel:
    """Build, randomise, write, and read back what the file holds into the transformers model.

    Its attention honours the soft cap, which transformers' own Gemma 3 reads and then leaves out.
    """
    recipe = RECIPES[name]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        hf = recipe.build().float().eval()
        hf.set_attn_implementation("capped")
        _randomise(hf)
    path = folder / f"{name}-{seed}-{'-'.join(types.values())}.gguf"
    writer = gguf.GGUFWriter(path, recipe.architecture)
    _write_keys(writer, recipe, hf)
    for hf_name, parameter in hf.named_parameters():
        _write_tensor(writer, recipe, hf, hf_name, parameter, types)
    if name == "llama-tied-rope-factors":
        writer.add_tensor("rope_freqs.weight", _rope_factors(hf))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyModel(path, hf)


def _randomise(hf: PreTrainedModel) -> None:
    """Values of the size that trained models have; the default initialisation is far smaller."""
    with torch.no_grad():
        for name, parameter in hf.named_parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=parameter.shape[1] ** -0.5)
            elif name.endswith("bias"):
                parameter.normal_(std=0.3)
            else:
                parameter.add_(torch.empty_like(parameter).normal_(std=0.2))


def _write_keys(writer: gguf.GGUFWriter, recipe: Recipe, hf: PreTrainedModel) -> None:
    config = hf.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if config.num_key_value_heads != config.num_attention_heads:
        writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    for key, value in recipe.keys.items():
        key = f"{recipe.architecture}.{key}"
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)


HF_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GEMMA_PARTS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
HF_ENDS = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}


def gguf_name(architecture: str, hf_name: str) -> tuple[str, str]:
    """(name in the file, last part without suffix)."""
    stem, _, suffix = hf_name.removeprefix("model.").rpartition(".")
    if not stem.startswith("layers."):
        return f"{HF_ENDS[stem]}.{suffix}", HF_ENDS[stem]
    _, layer, part = stem.split(".", 2)
    parts = HF_PARTS | GEMMA_PARTS if architecture == "gemma3" else HF_PARTS
    return f"blk.{layer}.{parts[part]}.{suffix}", parts[part]


def _write_tensor(
    writer: gguf.GGUFWriter,
    recipe: Recipe,
    hf: PreTrainedModel,
    hf_name: str,
    parameter: torch.nn.Parameter,
    types: Types,
) -> None:
    name, part = gguf_name(recipe.architecture, hf_name)
    values = parameter.detach().numpy().copy()
    if parameter.ndim == 1:
        if recipe.architecture == "gemma3":
            values += 1
        writer.add_tensor(name, _interleaved(recipe, hf, part, values))
        return
    kind = GGMLQuantizationType[types.get(part, types[""])]
    quantized = gguf.quants.quantize(values, kind)
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(gguf.quants.dequantize(quantized, kind)))
    writer.add_tensor(name, _interleaved(recipe, hf, part, quantized), raw_dtype=kind)


def _interleaved(
    recipe: Recipe, hf: PreTrainedModel, part: str, rows: npt.NDArray[np.generic]
) -> npt.NDArray[np.generic]:
    """Rows of query and key as the llama converter stores them: halves of each head interleaved."""
    config = hf.config
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    if recipe.architecture != "llama" or part not in heads:
        return rows
    split = rows.reshape(heads[part], 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(rows.shape))


def _rope_factors(hf: PreTrainedModel) -> F32:
    """What the llama3 scheme divides each frequency by, told from the model's own frequencies."""
    rotary = hf.model.rotary_emb
    theta = hf.config.rope_parameters["rope_theta"]
    dim = hf.config.head_dim
    plain = theta ** -(np.arange(0, dim, 2) / dim)
    factors: F32 = (plain / rotary.inv_freq.numpy()).astype(np.float32)
    return factors
