"""Names of dialects, and the dialect that a template speaks."""

from __future__ import annotations

import pytest

from octavo.errors import ConfigError
from octavo.parsing.dialects import REASONING_DIALECTS, TOOL_DIALECTS
from octavo.parsing.registry import (
    REASONING_ALIASES,
    REASONING_SIGNS,
    TOOL_ALIASES,
    TOOL_SIGNS,
    find_reasoning_dialect,
    find_tool_dialect,
    reasoning_dialect,
    tool_dialect,
)
from tests.tokenization.chat_templates import CHATML, GEMMA, LLAMA3, MISTRAL, THINKING


def test_every_alias_and_sign_names_a_dialect() -> None:
    for name in [*TOOL_ALIASES, *(sign.dialect for sign in TOOL_SIGNS)]:
        assert tool_dialect(name) in TOOL_DIALECTS.values()
    for name in [*REASONING_ALIASES, *(sign.dialect for sign in REASONING_SIGNS)]:
        assert reasoning_dialect(name) in REASONING_DIALECTS.values()


def test_an_alias_hides_no_dialect() -> None:
    assert not TOOL_ALIASES.keys() & TOOL_DIALECTS.keys()
    assert not REASONING_ALIASES.keys() & REASONING_DIALECTS.keys()


def test_an_unknown_name_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(ConfigError, match=r"--tool-call-parser is 'hermse'.*hermes"):
        tool_dialect("hermse")
    with pytest.raises(ConfigError, match=r"--reasoning-parser is 'qwen4'.*qwen3"):
        reasoning_dialect("qwen4")


@pytest.mark.parametrize("sign", TOOL_SIGNS, ids=lambda sign: sign.dialect)
def test_no_sign_is_hidden_by_a_more_general_one(sign: object) -> None:
    assert isinstance(sign, type(TOOL_SIGNS[0]))
    assert find_tool_dialect("\n".join(sign.markers), sign.architecture) == sign.dialect


@pytest.mark.parametrize("sign", REASONING_SIGNS, ids=lambda sign: sign.dialect)
def test_no_sign_of_reasoning_is_hidden_by_a_more_general_one(sign: object) -> None:
    assert isinstance(sign, type(REASONING_SIGNS[0]))
    assert find_reasoning_dialect("\n".join(sign.markers)) == sign.dialect


def test_templates_tell_their_dialects() -> None:
    assert find_tool_dialect(LLAMA3) == "llama3_json"
    assert find_tool_dialect(GEMMA, "gemma3") == "gemma"
    assert find_tool_dialect(GEMMA) is None
    assert find_tool_dialect(CHATML) is None
    assert find_tool_dialect(MISTRAL) is None
    assert find_reasoning_dialect(THINKING) == "deepseek_r1"
    assert find_reasoning_dialect(CHATML) is None


def test_a_prompt_tells_whether_it_opened_the_reasoning() -> None:
    marks = reasoning_dialect("qwen3").marks
    assert marks is not None
    assert marks.is_open("<|im_start|>assistant\n<think>\n")
    assert not marks.is_open("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not marks.is_open("<|im_start|>assistant\n")
