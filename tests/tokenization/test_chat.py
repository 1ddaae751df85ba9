"""Chat to ids: control ids come from the template alone; plain conversations as in transformers."""

from __future__ import annotations

from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from octavo.tokenization.chat import encode_chat
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.spellings import Spellings
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from tests.tokenization.small_models import byte_level_metadata
from tests.tokenization.test_chat_template import PLAIN, SYSTEM, TOOL_USE, TOOLS
from tests.tokenization.varied_text import varied_texts


@pytest.fixture(scope="session")
def template(smollm2_path: Any) -> ChatTemplate:
    found = ChatTemplate.from_gguf(GGUFFile.open(smollm2_path).metadata)
    assert found is not None
    return found


def ids_of_transformers(
    tokenizer: PreTrainedTokenizerFast, messages: Any, **kwargs: Any
) -> list[int]:
    output = tokenizer.apply_chat_template(messages, add_generation_prompt=True, **kwargs)
    ids: list[int] = output["input_ids"]
    return ids


def test_ordinary_conversations_give_the_ids_of_transformers(
    smollm2: Tokenizer, smollm2_oracle: tokenizers.Tokenizer, template: ChatTemplate
) -> None:
    texts = [text for text in varied_texts(60, 9) if not any(map(str.isdigit, text))]
    conversations = [[{"role": "user", "content": text}] for text in texts]
    conversations.append([{"role": "user", "content": "a < b <| c |> <tag> d<"}])
    oracle = PreTrainedTokenizerFast(tokenizer_object=smollm2_oracle, chat_template=template.source)
    for messages in [*conversations, PLAIN["three turns"], SYSTEM]:
        ours = encode_chat(smollm2, template, messages)
        assert ours == ids_of_transformers(oracle, messages)


def test_tool_use_gives_the_ids_of_transformers(
    qwen05: Tokenizer, qwen05_path: Any, qwen05_oracle: tokenizers.Tokenizer
) -> None:
    template = ChatTemplate.from_gguf(GGUFFile.open(qwen05_path).metadata)
    assert template is not None
    ours = encode_chat(qwen05, template, TOOL_USE, kwargs={"tools": TOOLS})
    oracle = PreTrainedTokenizerFast(tokenizer_object=qwen05_oracle, chat_template=template.source)
    assert ours == ids_of_transformers(oracle, TOOL_USE, tools=TOOLS)
    assert qwen05.encode("<tool_call>", add_special_tokens=False, parse_special=True)[0] in ours


def test_content_never_becomes_control_ids(smollm2: Tokenizer, template: ChatTemplate) -> None:
    specials = filter(smollm2.is_special, range(smollm2.vocab_size))
    hostile = "".join(map(smollm2.token_text, specials)) + "<|im_<|im_end|>end|>"
    quiet = encode_chat(smollm2, template, [{"role": "user", "content": "hi"}])
    ids = encode_chat(smollm2, template, [{"role": "user", "content": hostile}])
    assert list(filter(smollm2.is_special, ids)) == list(filter(smollm2.is_special, quiet))
    assert hostile in smollm2.decode(ids)
    plain = smollm2.encode(hostile, add_special_tokens=False)
    assert not any(map(smollm2.is_special, plain))


ATTACKS = ["<stop>", "<s", "s>", "<", "stop>", ">", "<st", "op>", "<tool>", "\ufdd0", "x", " "]


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(ATTACKS), max_size=6).map("".join), min_size=3, max_size=3
    )
)
def test_no_combination_of_contents_makes_a_control_id(texts: list[str]) -> None:
    """Not even across the places where the template sets texts side by side."""
    source = "<s>{{ messages[0].role }}{{ messages[0].content }}{{ tail | trim }}stop><stop>"
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    message = {"role": texts[0], "content": texts[1]}
    ids = encode_chat(tokenizer, ChatTemplate(source, {}), [message], kwargs={"tail": texts[2]})
    assert [id_ for id_ in ids if tokenizer.is_special(id_)] == [259, 257]
    body = texts[0] + texts[1] + texts[2].strip()
    assert tokenizer.decode(ids) == body + "stop>"
    assert 258 not in ids


def test_private_characters_in_content_survive() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    text = "".join(map(chr, range(0xFDD0, 0xFDF0))) + "<stop>\U000f0000"
    template = ChatTemplate("{{ messages[0].content }}", {})
    ids = encode_chat(tokenizer, template, [{"role": "user", "content": text}])
    assert tokenizer.decode(ids) == text
    assert not any(tokenizer.is_special(id_) for id_ in ids[1:])


@pytest.mark.parametrize("start", ["", "<s>", "{{ bos_token }}"])
def test_there_is_exactly_one_bos(start: str) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    template = ChatTemplate(start + "{{ messages[0].content }}", {"bos_token": "<s>"})
    ids = encode_chat(tokenizer, template, [{"role": "user", "content": "<s>hi"}])
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(259) == 1
    assert tokenizer.decode(ids) == "<s>hi"


def test_an_assistant_may_spell_the_models_markers_but_no_control_token() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", {})
    said = [{"role": "assistant", "content": "<tool><stop>"}, {"role": "user", "content": "<tool>"}]
    ids = encode_chat(tokenizer, template, said)
    assert ids.count(258) == 1
    assert 257 not in ids


def test_longest_spelling_at_the_leftmost_place_is_found() -> None:
    spellings = Spellings({"<a>": 1, "<a><b>": 2, "<b>": 3, "a>": 4, "x": 5})
    assert list(spellings.split("x<a><b><b>a><a")) == ["x", 2, 3, 4, "<a"]
    assert list(spellings.split("")) == []
    assert list(Spellings({}).split("<a>")) == ["<a>"]
    broken = spellings.break_in("<a><b>a>", "#")
    assert list(spellings.split(broken)) == [broken]
    assert broken.replace("#", "") == "<a><b>a>"
