"""Rendered conversations equal transformers'; refusals carry the template's reason."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from transformers import PreTrainedTokenizerFast

from octavo.core.packed_texts import PackedTexts
from octavo.errors import TemplateError, TokenizerError
from octavo.tokenization.chat_template import ChatTemplate
from octavo.weights.gguf import GGUFFile
from tests.tokenization.chat_templates import ALL, CHATML, MISTRAL, PARTS

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
Conversation = list[dict[str, Any]]

PLAIN: dict[str, Conversation] = {
    "one turn": [{"role": "user", "content": "Hello there!"}],
    "three turns": [
        {"role": "user", "content": "  Grüße 🎉 \n"},
        {"role": "assistant", "content": "Hi.\n\nHow are <you>?"},
        {"role": "user", "content": "Say \"x\" & 'y' {{ not jinja }} {% raw %}"},
    ],
    "thoughts": [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\n2"},
        {"role": "user", "content": "sure?"},
    ],
}
SYSTEM: Conversation = [{"role": "system", "content": " Be brief. "}, *PLAIN["three turns"]]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Wetter für <Orte> & 'Städte'",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
TOOL_USE: Conversation = [
    {"role": "user", "content": "Weather in Zürich?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "weather", "arguments": {"city": "Zürich", "n": 1}},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"t": 21}'},
    {"role": "tool", "tool_call_id": "c2", "content": "sunny"},
    {"role": "assistant", "content": "21 °C"},
    {"role": "user", "content": "Thanks"},
]


def theirs(source: str, messages: Conversation, **kwargs: Any) -> str:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_backend(), chat_template=source, **TOKENS)
    kwargs.setdefault("add_generation_prompt", True)
    text = tokenizer.apply_chat_template(messages, tokenize=False, **kwargs)
    assert isinstance(text, str)
    return text


def _backend() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(tokenizers.models.BPE({"<s>": 0, "</s>": 1}, []))


@pytest.mark.parametrize("prompts", [False, True])
@pytest.mark.parametrize("conversation", PLAIN)
@pytest.mark.parametrize("name", ALL)
def test_well_known_templates_render_as_in_transformers(
    name: str, conversation: str, prompts: bool
) -> None:
    messages = PLAIN[conversation]
    ours = ChatTemplate(ALL[name], TOKENS).render(messages, add_generation_prompt=prompts)
    assert ours == theirs(ALL[name], messages, add_generation_prompt=prompts)


@pytest.mark.parametrize("name", [name for name in ALL if name != "mistral"])
def test_system_messages_and_variables_render_as_in_transformers(name: str) -> None:
    kwargs: dict[str, Any] = {
        "documents": [{"title": "a", "id": 1, "text": "x"}, {"title": "b", "id": 2, "text": "y"}],
        "extra": {"z": 0, "a": "1"},
        "enable_thinking": False,
    }
    ours = ChatTemplate(ALL[name], TOKENS).render(SYSTEM, **kwargs)
    assert ours == theirs(ALL[name], SYSTEM, **kwargs)


@pytest.mark.parametrize("name", ["llama3"])
def test_tool_use_renders_as_in_transformers(name: str) -> None:
    ours = ChatTemplate(ALL[name], TOKENS).render(TOOL_USE, tools=TOOLS)
    assert ours == theirs(ALL[name], TOOL_USE, tools=TOOLS)


@pytest.mark.parametrize("fixture", ["smollm2_path", "qwen05_path"])
def test_real_templates_render_as_in_transformers(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(fixture)
    template = ChatTemplate.from_gguf(GGUFFile.open(path).metadata)
    assert template is not None
    conversations = [*PLAIN.values(), SYSTEM, TOOL_USE]
    for messages in conversations:
        for kwargs in ({}, {"tools": TOOLS}, {"add_generation_prompt": False}):
            assert template.render(messages, **kwargs) == theirs(
                template.source, messages, **kwargs
            )


def test_two_user_messages_in_a_row_get_the_templates_reason() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(TemplateError, match=r"^roles must alternate user/assistant") as caught:
        ChatTemplate(MISTRAL, TOKENS).render(messages)
    assert caught.value.status == 400
    assert caught.value.param == "messages"


def test_null_content_and_parts_and_argument_text_are_rendered() -> None:
    messages: Conversation = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
        {"role": "assistant"},
    ]
    assert ChatTemplate(CHATML, TOKENS).render(messages, add_generation_prompt=False) == (
        "<|im_start|>user\na\nb<|im_end|>\n"
        "<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
    )
    assert ChatTemplate(PARTS, TOKENS).render(messages).startswith("[user](A)(b)[assistant]")


def test_a_developers_message_is_a_system_message_unless_the_template_knows_better() -> None:
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "a"}]
    rendered = ChatTemplate(CHATML, TOKENS).render(messages)
    assert rendered.startswith("<|im_start|>system\nbe brief<|im_end|>")
    assert messages[0]["role"] == "developer"
    roles = "{% for m in messages %}{{ m.role }} {% endfor %}"
    knowing = ChatTemplate(roles + "{# system or developer #}", TOKENS)
    assert knowing.render(messages) == "developer user "


def test_arguments_as_json_text_are_given_as_an_object() -> None:
    source = "{{ messages[0].tool_calls[0].function.arguments | tojson }}"
    for arguments, shown in (
        ('{"a": "ü"}', '{"a": "ü"}'),
        ("not json", '"not json"'),
        ("[1]", '"[1]"'),
        ("[" * 100_000, '"' + "[" * 100_000 + '"'),
    ):
        calls = [{"function": {"name": "f", "arguments": arguments}}]
        message = {"role": "assistant", "tool_calls": calls}
        assert ChatTemplate(source, {}).render([message]) == shown


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": "x"}, r"messages\[0\] must be an object with a text `role`"),
        ({"role": "user", "content": 3}, r"messages\[0\].content must be text, a list"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "type 'image_url'; only 'text'"),
        ({"role": "user", "content": ["x"]}, "type None; only 'text'"),
        ({"role": "user", "tool_calls": "x"}, "tool_calls must be a list"),
        ({"role": "user", "tool_calls": ["x"]}, "tool_calls must hold objects"),
    ],
)
def test_malformed_messages_are_refused(message: dict[str, Any], reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        ChatTemplate(CHATML, TOKENS).render([message])


@pytest.mark.parametrize("name", ["bos_token", "_x", " budget"])
def test_variables_of_ours_cannot_be_set(name: str) -> None:
    variables: dict[str, Any] = {name: "x"}
    with pytest.raises(TemplateError, match="cannot be set"):
        ChatTemplate(CHATML, TOKENS).render(PLAIN["one turn"], **variables)


def test_the_clock_is_the_callers() -> None:
    template = ChatTemplate(
        "{{ strftime_now('%Y-%m-%d 100%%') }}", {}, now=lambda: datetime(2031, 2, 3)
    )
    assert template.render(PLAIN["one turn"]) == "2031-02-03 100%"


def test_a_file_without_a_template_has_none() -> None:
    assert ChatTemplate.from_gguf({}) is None


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{% if %}", "line 1 of the chat template"),
        ("{% include 'other' %}", "uses include"),
        ("x" * 200_000, "200000 characters"),
        (7, "is of type int; a text is allowed"),
    ],
)
def test_an_unusable_template_is_the_files_fault_and_names_it(template: object, says: str) -> None:
    with pytest.raises(TokenizerError) as caught:
        ChatTemplate.from_gguf({"tokenizer.chat_template": template}, source="m.gguf")
    assert str(caught.value).startswith("m.gguf: tokenizer.chat_template")
    assert says in str(caught.value)


def test_special_tokens_come_from_the_file() -> None:
    template = ChatTemplate.from_gguf(
        {
            "tokenizer.chat_template": "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}",
            "tokenizer.ggml.tokens": PackedTexts.pack(["a", "b"]),
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 0,
        }
    )
    assert template is not None
    assert template.render(PLAIN["one turn"]) == "b|a|"
