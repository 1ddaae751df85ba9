"""The dialects: how each family of models writes calls and reasoning, as data.

To add one, write its row here, its names in `registry.py`, and a sample in `tests/parsing/samples`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Protocol

from octavo.parsing.braced_calls import BracedCalls
from octavo.parsing.call_style import (
    CallStyle,
    braced_calls,
    json_calls,
    json_list,
    python_calls,
    tagged_calls,
)
from octavo.parsing.harmony import MARKERS as HARMONY_MARKERS
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

    forms: tuple[Form, ...]
    style: CallStyle
    is_harmony: bool = False


@dataclass(frozen=True, slots=True)
class ReasoningDialect:
    """`marks` is None for harmony's channels."""

    marks: ReasoningMarks | None

    @property
    def is_harmony(self) -> bool:
        return self.marks is None


def markers_of(dialect: ToolDialect | ReasoningDialect) -> frozenset[str]:
    """The texts that have a meaning in this dialect; its other words may be among them."""
    return HARMONY_MARKERS if dialect.is_harmony else frozenset(_texts_in(dialect))


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts_in(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts_in(getattr(value, field.name))


def _between(opener: str, closer: str, style: CallStyle) -> ToolDialect:
    return ToolDialect((Form(opener, JsonCalls((closer,))),), style)


def _sectioned(calls: HeadedCalls | TaggedCalls, style: CallStyle) -> ToolDialect:
    openers = filter(None, (calls.section_open, calls.call_open))
    return ToolDialect(tuple(Form(opener, calls) for opener in openers), style)


def _tagged(calls: TaggedCalls, *, quote: str = "", space: str = "") -> ToolDialect:
    return _sectioned(calls, tagged_calls(calls, quote=quote, space=space))


def _headed(calls: HeadedCalls, *, space: str = "") -> ToolDialect:
    """`space` stands around the arguments."""
    style = CallStyle(
        calls.call_open + calls.prefix + ("functions." if calls.numbered_ids else ""),
        (space if calls.fence else "") + calls.name_end + space,
        space + calls.fence + calls.call_close,
        begin=calls.section_open,
        separator=space,
        end=calls.section_close,
        numbered=calls.numbered_ids,
    )
    return _sectioned(calls, style)


_DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_CALL = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
_FUNCTION_TAGS = ("<function=", "</function>", ">", "<parameter=", ">", "</parameter>")

TOOL_DIALECTS: dict[str, ToolDialect] = {
    "hermes": _between(
        "<tool_call>", "</tool_call>", json_calls("<tool_call>\n", "\n</tool_call>")
    ),
    "longcat": _between(
        "<longcat_tool_call>",
        "</longcat_tool_call>",
        json_calls("<longcat_tool_call>\n", "\n</longcat_tool_call>"),
    ),
    "jamba": _between("<tool_calls>", "</tool_calls>", json_list("<tool_calls>", "</tool_calls>")),
    "internlm": _between(
        "<|action_start|><|plugin|>",
        "<|action_end|>",
        json_calls("<|action_start|><|plugin|>", "<|action_end|>", key="parameters"),
    ),
    "granite": ToolDialect(
        (
            Form("<|tool_call|>", JsonCalls()),
            Form("<tool_call>", JsonCalls(("</tool_call>",))),
        ),
        json_list("<|tool_call|>"),
    ),
    "phi4_mini_json": ToolDialect((Form("functools", JsonCalls()),), json_list("functools")),
    "xlam": ToolDialect((Form("[", JsonCalls(), only_first=True),), json_list("")),
    "llama3_json": ToolDialect(
        (
            Form("<|python_tag|>", JsonCalls()),
            Form("{", JsonCalls(), only_first=True),
        ),
        CallStyle('{"name": "', '", "parameters": ', "}", separator="; "),
    ),
    "pythonic": ToolDialect((Form("[", PythonCalls(), only_first=True),), python_calls("[", "]")),
    "llama4_pythonic": ToolDialect(
        (
            Form("<|python_start|>", PythonCalls(("<|python_end|>",))),
            Form("[", PythonCalls(), only_first=True),
        ),
        python_calls("<|python_start|>[", "]<|python_end|>"),
    ),
    "olmo3": ToolDialect(
        (Form("<function_calls>", PythonCalls(("</function_calls>",))),),
        python_calls("<function_calls>", "</function_calls>", separator="\n"),
    ),
    "lfm2": ToolDialect(
        (Form("<|tool_call_start|>", PythonCalls(("<|tool_call_end|>",))),),
        python_calls("<|tool_call_start|>[", "]<|tool_call_end|>"),
    ),
    "mistral": ToolDialect((Form("[TOOL_CALLS]", MistralCalls()),), json_list("[TOOL_CALLS]")),
    "deepseek_v3": _headed(
        HeadedCalls(
            *_DEEPSEEK_SECTION,
            *_DEEPSEEK_CALL,
            name_end="```json",
            prefix="function<｜tool▁sep｜>",
            fence="```",
        ),
        space="\n",
    ),
    "deepseek_v31": _headed(
        HeadedCalls(*_DEEPSEEK_SECTION, *_DEEPSEEK_CALL, name_end="<｜tool▁sep｜>")
    ),
    "kimi_k2": _headed(
        HeadedCalls(
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_end|>",
            name_end="<|tool_call_argument_begin|>",
            numbered_ids=True,
        )
    ),
    "qwen3_coder": _tagged(
        TaggedCalls("<tool_call>", "</tool_call>", *_FUNCTION_TAGS, newlines=True), space="\n"
    ),
    "seed_oss": _tagged(
        TaggedCalls("<seed:tool_call>", "</seed:tool_call>", *_FUNCTION_TAGS, newlines=True)
    ),
    "minimax_m2": _tagged(
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
        ),
        quote='"',
    ),
    "glm45": _tagged(
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
        ),
        python_calls("```tool_code\n", "\n```", separator="\n"),
    ),
    "functiongemma": ToolDialect(
        (Form("<start_function_call>", BracedCalls("<escape>", "<end_function_call>")),),
        braced_calls("<start_function_call>", "<escape>", "<end_function_call>"),
    ),
    "gemma4": ToolDialect(
        (Form("<|tool_call>", BracedCalls('<|"|>', "<tool_call|>")),),
        braced_calls("<|tool_call>", '<|"|>', "<tool_call|>"),
    ),
    "openai": ToolDialect(
        (),
        CallStyle(
            "<|channel|>commentary to=functions.",
            " <|constrain|>json<|message|>",
            "<|call|>",
            separator="<|start|>assistant",
        ),
        is_harmony=True,
    ),
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
