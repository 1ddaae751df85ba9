"""Dialects by name, by the names that users know, and by what a chat template says.

Raises `ConfigError` for a name that does not exist. Knows no model but its template's text and the
name of its architecture.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.errors import ConfigError
from octavo.parsing.dialects import (
    REASONING_DIALECTS,
    TOOL_DIALECTS,
    ReasoningDialect,
    ToolDialect,
)

TOOL_ALIASES: dict[str, str] = {
    "qwen": "hermes",
    "qwen25": "hermes",
    "qwen3_json": "hermes",
    "granite4": "hermes",
    "ernie45": "hermes",
    "hunyuan_a13b": "jamba",
    "llama3": "llama3_json",
    "llama4_json": "llama3_json",
    "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v31",
    "qwen3_xml": "qwen3_coder",
    "step3p5": "qwen3_coder",
    "glm": "glm45",
    "glm47": "glm45",
    "minimax-m2": "minimax_m2",
    "gpt-oss": "openai",
}
"""vLLM's and SGLang's names of the same dialects."""

REASONING_ALIASES: dict[str, str] = {
    "deepseek-r1": "deepseek_r1",
    "deepseek_v3": "deepseek_r1",
    "deepseek-v3": "deepseek_r1",
    "qwen3": "deepseek_r1",
    "qwen3-thinking": "deepseek_r1",
    "glm45": "deepseek_r1",
    "glm47": "deepseek_r1",
    "holo2": "deepseek_r1",
    "mimo": "deepseek_r1",
    "minimax": "deepseek_r1",
    "minimax_m2": "deepseek_r1",
    "nano_v3": "deepseek_r1",
    "nemotron_v3": "deepseek_r1",
    "olmo3": "deepseek_r1",
    "step3": "deepseek_r1",
    "step3p5": "deepseek_r1",
    "kimi": "kimi_k2",
    "gpt-oss": "openai_gptoss",
}


NO_DIALECT = "none"
"""Instead of a name: the text is passed on as the model writes it."""


@dataclass(frozen=True, slots=True)
class Dialects:
    """How a model writes calls and reasoning, as far as that is known."""

    tools: ToolDialect | None = None
    reasoning: ReasoningDialect | None = None


NO_DIALECTS = Dialects()


@dataclass(frozen=True, slots=True)
class Sign:
    """All `markers` in a template, and an architecture that begins so, mean this dialect."""

    dialect: str
    markers: tuple[str, ...]
    architecture: str = ""


TOOL_SIGNS = (
    Sign("openai", ("<|channel|>", "to=functions.")),
    Sign("gemma4", ("<|tool_call>",)),
    Sign("functiongemma", ("<start_function_call>",)),
    Sign("kimi_k2", ("<|tool_calls_section_begin|>",)),
    Sign("deepseek_v3", ("<｜tool▁calls▁begin｜>", "```json")),
    Sign("deepseek_v31", ("<｜tool▁calls▁begin｜>",)),
    Sign("minimax_m2", ("<minimax:tool_call>",)),
    Sign("seed_oss", ("<seed:tool_call>",)),
    Sign("longcat", ("<longcat_tool_call>",)),
    Sign("glm45", ("<tool_call>", "<arg_key>")),
    Sign("qwen3_coder", ("<tool_call>", "<function=")),
    Sign("granite", ("<|tool_call|>",)),
    Sign("hermes", ("<tool_call>",)),
    Sign("jamba", ("<tool_calls>",)),
    Sign("olmo3", ("<function_calls>",)),
    Sign("lfm2", ("<|tool_call_start|>",)),
    Sign("internlm", ("<|action_start|>", "<|plugin|>")),
    Sign("mistral", ("[TOOL_CALLS]",)),
    Sign("phi4_mini_json", ("functools",)),
    Sign("llama4_pythonic", ("<|python_start|>",)),
    Sign("llama3_json", ("<|start_header_id|>", '"parameters": ')),
    Sign("gemma", ("<start_of_turn>",), "gemma"),
)
"""The first that fits is meant, so the more special come first."""

REASONING_SIGNS = (
    Sign("openai_gptoss", ("<|channel|>", "analysis")),
    Sign("gemma4", ("<|channel>", "<channel|>")),
    Sign("mistral", ("[THINK]",)),
    Sign("seed_oss", ("<seed:think>",)),
    Sign("kimi_k2", ("</think>", "<|tool_calls_section_begin|>")),
    Sign("deepseek_r1", ("</think>",)),
    Sign("granite", ("Here is my thought process:",)),
)


def tool_dialect(name: str) -> ToolDialect:
    dialect = TOOL_DIALECTS.get(TOOL_ALIASES.get(name, name))
    if dialect is None:
        raise _unknown("tool-call-parser", name, [*TOOL_DIALECTS, *TOOL_ALIASES])
    return dialect


def reasoning_dialect(name: str) -> ReasoningDialect:
    dialect = REASONING_DIALECTS.get(REASONING_ALIASES.get(name, name))
    if dialect is None:
        raise _unknown("reasoning-parser", name, [*REASONING_DIALECTS, *REASONING_ALIASES])
    return dialect


def find_tool_dialect(chat_template: str, architecture: str = "") -> str | None:
    """The name of the dialect whose calls a template writes."""
    return _find(TOOL_SIGNS, chat_template, architecture)


def find_reasoning_dialect(chat_template: str, architecture: str = "") -> str | None:
    """The name of the dialect whose reasoning a template writes or takes away."""
    return _find(REASONING_SIGNS, chat_template, architecture)


def dialects_of(
    chat_template: str, architecture: str = "", *, tools: str = "", reasoning: str = ""
) -> Dialects:
    """Those that are named, else those of the template. `NO_DIALECT` is none."""
    tools = tools or find_tool_dialect(chat_template, architecture) or NO_DIALECT
    reasoning = reasoning or find_reasoning_dialect(chat_template, architecture) or NO_DIALECT
    return Dialects(
        None if tools == NO_DIALECT else tool_dialect(tools),
        None if reasoning == NO_DIALECT else reasoning_dialect(reasoning),
    )


def _find(signs: tuple[Sign, ...], template: str, architecture: str) -> str | None:
    for sign in signs:
        if architecture.startswith(sign.architecture) and all(
            marker in template for marker in sign.markers
        ):
            return sign.dialect
    return None


def _unknown(option: str, name: str, allowed: list[str]) -> ConfigError:
    names = ", ".join(sorted([*allowed, NO_DIALECT]))
    return ConfigError(f"--{option} is {name!r}; allowed are {names}")
