"""The engine's options, declared once: flags, YAML keys, variables and `LLM(...)` come from here.

A field's metadata carries its help text. `None` means "decide at start-up", which `config.resolve`
does, with reasons. Knows nothing of argparse, of the environment or of the server.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.config.front_limits import FrontLimits
from octavo.config.options import check, option
from octavo.config.pooler import POOLING_CHOICES, PoolerOptions, read_pooler_options
from octavo.errors import ConfigError

BLOCK_SIZE = 16
"""Tokens per page. The kernels are written for one vector register of 16 floats."""
ISA_LEVELS = (
    *("auto", "scalar"),
    *("avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"),
    *("neon", "neon_dotprod"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig(FrontLimits):
    """Raises ConfigError naming the first option that is out of range."""

    model: str = option("", "Path of a GGUF file, a catalogue name, or a hub id.", is_private=True)
    max_model_len: int | None = option(
        None,
        "Context length in tokens. Default: the model's own, at most 8192.",
        metavar="TOKENS",
        minimum=1,
    )
    max_num_seqs: int = option(
        64, "Sequences that run at the same time.", metavar="N", minimum=1, maximum=4096
    )
    max_num_batched_tokens: int = option(
        512,
        "Tokens computed in one step, at most.",
        metavar="TOKENS",
        minimum=1,
        maximum=65536,
    )
    max_step_seconds: float = option(
        0.0,
        "While answers are being written, prompts are read in chunks that keep a step below this"
        " time. 0: no bound but --max-num-batched-tokens.",
        metavar="SECONDS",
        minimum=0.0,
    )
    reserve_high_priority: float = option(
        0.0,
        "Share of sequences and of a step's tokens that only requests of a priority below 0 use.",
        metavar="SHARE",
        minimum=0.0,
        maximum=0.9,
    )
    block_size: int = option(
        BLOCK_SIZE, "Tokens per page of key/value memory. Only 16 is supported.", metavar="TOKENS"
    )
    kv_cache_memory: int | None = option(
        None,
        "Key/value memory: bytes, or a number with K, M, G. Default: by model and machine.",
        metavar="BYTES",
        minimum=1,
    )
    kv_cache_dtype: str = option(
        "auto",
        "Element type of keys and values. int16 and int8 (vLLM's int8_per_token_head): with one"
        " scale per token and head.",
        choices=("auto", "float32", "float16", "bfloat16", "int16", "int8", "int8_per_token_head"),
    )
    swap_space: int | None = option(
        None,
        "Memory that holds the pages of preempted sequences, so that they need not be computed"
        " again: bytes, or a number with K, M, G. Default: half of the key/value memory.",
        metavar="BYTES",
        minimum=0,
    )
    swap_dir: str = option(
        "",
        "Have the swap space in a file of this folder, not in memory.",
        metavar="DIR",
        is_private=True,
    )
    threads: int | None = option(
        None,
        "Threads that compute. Default: the cores of this machine.",
        metavar="N",
        minimum=1,
        maximum=1024,
    )
    dtype: str = option(
        "auto",
        "How weights are held: 'auto' as the file has them, or dequantised to the named type.",
        choices=("auto", "float32", "float16", "bfloat16"),
    )
    quantization: str = option(
        "none",
        "Round the float matrices of the file while it is loaded: int8 (= q8_0), or four bits.",
        choices=("none", "int8", "q8_0", "q4_0", "q4_k"),
    )
    isa: str = option(
        "auto",
        "Instruction-set level of the kernels (see `octavo inspect config`).",
        choices=ISA_LEVELS,
    )
    seed: int = option(
        0, "Seeds the requests that give none.", metavar="N", minimum=0, maximum=2**63 - 1
    )
    pooling_type: str = option(
        "auto",
        "What an embedding is made of: the mean of all tokens, the last or the first (cls) one."
        " 'auto': as the file says, else last.",
        choices=POOLING_CHOICES,
    )
    pooler_config: str = option(
        "",
        "The same as vLLM has it: a JSON object with pooling_type, normalize, dimensions.",
        metavar="JSON",
    )
    override_pooler_config: str = option("", "The older name of --pooler-config.", metavar="JSON")
    chat_template: str = option(
        "",
        "File that holds the chat template, or the template itself. Default: the model's own.",
        metavar="FILE",
        is_private=True,
    )
    chat_template_content_format: str = option(
        "auto",
        "Whether the chat template is given a message's content as one text or as OpenAI's list of"
        " parts. 'auto': a list if it loops over it.",
        choices=("auto", "string", "openai"),
    )
    preload_grammars: bool = option(
        False,
        "Take in the vocabulary for structured output at start, not with the first request that"
        " needs it, for which running answers stand still up to a second.",
    )
    enable_prefix_caching: bool = option(True, "Reuse the pages of equal prompt beginnings.")
    prefix_cache_dir: str = option(
        "",
        "Keep the cached prompt beginnings in a file of this folder from one start to the next."
        " The file can tell what was asked; only its owner may read it.",
        metavar="DIR",
        is_private=True,
    )
    prefix_cache_disk_bytes: int = option(
        1 << 30,
        "Size of that file, at most. Those used last are kept.",
        metavar="BYTES",
        minimum=1,
    )

    logits_processors: tuple[str, ...] = option(
        (),
        "Logits processor that requests may name: an entry point of octavo.logits_processors, or"
        " module:Class (docs/sampling.md). May be given several times.",
        metavar="NAME",
    )
    scheduling_policy: str = option(
        "fcfs",
        "Order in which waiting requests are admitted: fcfs, priority, sjf, fair, deadline,"
        " cache_aware, an entry point of octavo.scheduling_policies, or module:Class.",
        metavar="NAME",
    )
    priority_ageing_seconds: float = option(
        60.0,
        "With --scheduling-policy priority: waiting so long is worth one step of priority.",
        metavar="SECONDS",
        minimum=1,
        maximum=1e6,
    )
    deadline_horizon_seconds: float = option(
        60.0,
        "With --scheduling-policy deadline: a request without deadline is due after so long.",
        metavar="SECONDS",
        minimum=1,
        maximum=1e6,
    )

    def __post_init__(self) -> None:
        check(self)
        self._check_pooler()
        if self.block_size != BLOCK_SIZE:
            raise ConfigError(f"--block-size is {self.block_size}; only {BLOCK_SIZE} is supported")
        if self.quantization != "none" and self.dtype != "auto":
            raise ConfigError(
                f"--quantization is {self.quantization} and --dtype {self.dtype}; quantised"
                " matrices have no other type, so only --dtype auto is allowed"
            )
        if self.prefix_cache_dir and not self.enable_prefix_caching:
            raise ConfigError(
                f"--prefix-cache-dir is {self.prefix_cache_dir}, and there is no prefix cache to"
                " keep: --enable-prefix-caching is off"
            )
        if self.max_num_seqs > self.max_num_batched_tokens:
            raise ConfigError(
                f"--max-num-seqs is {self.max_num_seqs}; at most --max-num-batched-tokens"
                f" ({self.max_num_batched_tokens}) is allowed: each sequence gets a token per step"
            )

    @property
    def pooler(self) -> PoolerOptions:
        """What the two options that hold JSON say, of which one is empty."""
        name = "override-pooler-config" if self.override_pooler_config else "pooler-config"
        text = self.override_pooler_config or self.pooler_config
        return read_pooler_options(text, origin=f"--{name}")

    def _check_pooler(self) -> None:
        if self.pooler_config and self.override_pooler_config:
            raise ConfigError(
                "--pooler-config and --override-pooler-config are two names of one option; give one"
            )
        in_json = self.pooler.pooling_type
        if in_json is not None and self.pooling_type not in ("auto", in_json):
            raise ConfigError(
                f"--pooling-type is {self.pooling_type} and the pooler config has {in_json};"
                " give one"
            )
