"""The dialects: how each family of models writes calls and reasoning, as data.

To add one, write its row here, its names in `registry.py`, and a sample in `tests/parsing/samples`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from octavo.parsing.braced_calls import BracedCalls
from octavo.parsing.headed_calls import HeadedCalls, MistralCalls
from octavo.parsing.json_calls import JsonCalls
from octavo.parsing.python_calls import PythonCalls
from octavo.parsing.reader import Reader, Steps
from octavo.parsing.reasoning import ReasoningMarks
from octavo.parsing.tagged_calls import TaggedCalls


class Calls(Protocol):
    """How the calls of a form are written."""

    def read(self, reader: Reader, opener: str) -> Steps[None]:
        """Read on after the opener. `Mismatch`: what is held is content after all."""


@dataclass(frozen=True, slots=True)
class Form:
    """A marker and what follows it. `only_first`: the marker is an ordinary character, which means
    a call only where the answer begins with it."""

    opener: str
    calls: Calls
    only_first: bool = False


@dataclass(frozen=True, slots=True)
class ToolDialect:
    """No opener may be the beginning of another. `is_harmony`: channels, which are no forms."""

    forms: tuple[Form, ...] = ()
    is_harmony: bool = False


@dataclass(frozen=True, slots=True)
class ReasoningDialect:
    """`marks` is None for harmony's channels."""

    marks: ReasoningMarks | None


def _between(opener: str, closer: str) -> ToolDialect:
    return ToolDialect((Form(opener, JsonCalls((closer,))),))


def _sectioned(calls: HeadedCalls | TaggedCalls) -> ToolDialect:
    openers = filter(None, (calls.section_open, calls.call_open))
    return ToolDialect(tuple(Form(opener, calls) for opener in openers))


_DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
_FUNCTION_TAGS = ("<function=", "</function>", ">", "<parameter=", ">", "</parameter>")

TOOL_DIALECTS: dict[str, ToolDialect] = {
    "hermes": _between("<tool_call>", "</tool_call>"),
    "longcat": _between("<longcat_tool_call>", "</longcat_tool_call>"),
    "jamba": _between("<tool_calls>", "</tool_calls>"),
    "internlm": _between("<|action_start|><|plugin|>", "<|action_end|>"),
    "granite": ToolDialect(
        (
            Form("<|tool_call|>", JsonCalls()),
            Form("<tool_call>", JsonCalls(("</tool_call>",))),
        )
    ),
    "phi4_mini_json": ToolDialect((Form("functools", JsonCalls()),)),
    "xlam": ToolDialect((Form("[", JsonCalls(), only_first=True),)),
    "llama3_json": ToolDialect(
        (
            Form("<|python_tag|>", JsonCalls()),
            Form("{", JsonCalls(), only_first=True),
        )
    ),
    "pythonic": ToolDialect((Form("[", PythonCalls(), only_first=True),)),
    "llama4_pythonic": ToolDialect(
        (
            Form("<|python_start|>", PythonCalls(("<|python_end|>",))),
            Form("[", PythonCalls(), only_first=True),
        )
    ),
    "olmo3": ToolDialect((Form("<function_calls>", PythonCalls(("</function_calls>",))),)),
    "lfm2": ToolDialect((Form("<|tool_call_start|>", PythonCalls(("<|tool_call_end|>",))),)),
    "mistral": ToolDialect((Form("[TOOL_CALLS]", MistralCalls()),)),
    "deepseek_v3": _sectioned(
        HeadedCalls(
            *_DEEPSEEK_SECTION,
            *_DEEPSEEK_CALL,
            name_end="```json",
            prefix="function<｜tool▁sep｜>",
            fence="```",
        )
    ),
    "deepseek_v31": _sectioned(
        HeadedCalls(*_DEEPSEEK_SECTION, *_DEEPSEEK_CALL, name_end="<｜tool▁sep｜>")
    ),
    "kimi_k2": _sectioned(
        HeadedCalls(
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_end|>",
            name_end="<|tool_call_argument_begin|>",
            numbered_ids=True,
        )
    ),
    "qwen3_coder": _sectioned(
        TaggedCalls("<tool_call>", "</tool_call>", *_FUNCTION_TAGS, newlines=True)
    ),
    "seed_oss": _sectioned(
        TaggedCalls("<seed:tool_call>", "</seed:tool_call>", *_FUNCTION_TAGS, newlines=True)
    ),
    "minimax_m2": _sectioned(
        TaggedCalls(
            "<minimax:tool_call>",
            "</minimax:tool_call>",
            "<invoke name=",
            "</invoke>",
            ">",
            "<parameter name=",
            ">",
            "</parameter>",
            newlines=True,
        )
    ),
    "glm45": _sectioned(
        TaggedCalls(
            "",
            "",
            "<tool_call>",
            "</tool_call>",
            "\n",
            "<arg_key>",
            "</arg_key>",
            "</arg_value>",
            value_open="<arg_value>",
        )
    ),
    "gemma": ToolDialect(
        (
            Form("```tool_code", PythonCalls(("```",))),
            Form("```tool_call", JsonCalls(("```",))),
            Form("```json", JsonCalls(("```",))),
        )
    ),
    "functiongemma": ToolDialect(
        (Form("<start_function_call>", BracedCalls("<escape>", "<end_function_call>")),)
    ),
    "gemma4": ToolDialect((Form("<|tool_call>", BracedCalls('<|"|>', "<tool_call|>")),)),
    "openai": ToolDialect(is_harmony=True),
}

_THINK = (("<think>",), ("</think>",))

REASONING_DIALECTS: dict[str, ReasoningDialect] = {
    "deepseek_r1": ReasoningDialect(ReasoningMarks(*_THINK)),
    "kimi_k2": ReasoningDialect(ReasoningMarks(*_THINK, ("<|tool_calls_section_begin|>",))),
    "mistral": ReasoningDialect(ReasoningMarks(("[THINK]",), ("[/THINK]",))),
    "seed_oss": ReasoningDialect(ReasoningMarks(("<seed:think>",), ("</seed:think>",))),
    "granite": ReasoningDialect(
        ReasoningMarks(
            ("Here is my thought process:", "Here's my thought process:"),
            ("Here is my response:", "Here's my response:"),
        )
    ),
    "gemma4": ReasoningDialect(
        ReasoningMarks(("<|channel>thought",), ("<channel|>",), ("<|tool_call>",))
    ),
    "openai_gptoss": ReasoningDialect(None),
}
