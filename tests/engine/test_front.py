"""Which chat template the front takes, and what it says of one that cannot be used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from octavo.config.engine import EngineConfig
from octavo.core.packed_texts import PackedTexts
from octavo.engine.front import load_template
from octavo.errors import ConfigError, TokenizerError
from octavo.tokenization.template_cage import MAX_TEMPLATE_CHARS
from octavo.weights.gguf import GGUFFile

OWN = "own {{ eos_token }}{{ messages[0].content }}"
METADATA = {
    "tokenizer.chat_template": OWN,
    "tokenizer.ggml.tokens": PackedTexts.pack(["<end>"]),
    "tokenizer.ggml.eos_token_id": 0,
}
PARTS = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]


def rendered(given: str, metadata: dict[str, object] = METADATA, content: str = "auto") -> str:
    file = cast("GGUFFile", SimpleNamespace(metadata=metadata, path=Path("m.gguf")))
    config = EngineConfig(chat_template=given, chat_template_content_format=content)
    template = load_template(file, config)
    assert template is not None
    return template.render(PARTS)


def test_a_given_template_stands_before_the_models_own(tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text("file {{ eos_token }}", encoding="utf-8")
    assert rendered("") == "own <end>a"
    assert rendered(str(path)) == "file <end>"
    assert rendered("text {{ eos_token }}") == "text <end>"
    assert rendered("{% if true %}text{% endif %}") == "text"
    assert rendered("text {{ 1 }}", {}) == "text 1"


def test_contents_are_given_as_the_option_says() -> None:
    shows = "{{ messages[0].content is string }}"
    loops = "{% for part in messages[0].content %}{{ part.text }}{% endfor %}"
    assert [rendered(shows, content=kind) for kind in ("auto", "string", "openai")] == [
        "True",
        "True",
        "False",
    ]
    assert [rendered(loops, content=kind) for kind in ("auto", "string", "openai")] == [
        "a",
        "",
        "a",
    ]


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    with pytest.raises(ConfigError, match=r"--chat-template is .*t\.jinja.*cannot be read"):
        rendered(str(path))
    path.write_bytes(b"\xff{{")
    with pytest.raises(ConfigError, match="cannot be read"):
        rendered(str(path))
    path.write_text("a" * (MAX_TEMPLATE_CHARS + 1), encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"--chat-template: .* characters; 131072 are allowed"):
        rendered(str(path))
    with pytest.raises(TokenizerError, match=r"--chat-template: .*include: not supported"):
        rendered("{% include 'x' %}")
    with pytest.raises(TokenizerError, match=r"m\.gguf: tokenizer\.chat_template: "):
        rendered("", {"tokenizer.chat_template": "{% include 'x' %}"})
