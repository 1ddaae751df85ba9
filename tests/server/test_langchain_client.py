"""langchain-openai against real servers: chats, tools, structured output and embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import langchain_openai
import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from tests.server.test_openai_chat import Box

pytestmark = pytest.mark.filterwarnings("ignore")  # its own
TEXTS = ["a cat sat on the mat", "ein Hund", "naïve — 猫"]


def _model(url: str, **fields: Any) -> langchain_openai.ChatOpenAI:
    options: Any = {"temperature": 0, "max_tokens": 12, "max_retries": 0, **fields}
    return langchain_openai.ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="key", **options)


@tool  # type: ignore[untyped-decorator]
def get_weather(city: str) -> str:
    """Get the current weather in a city."""
    return f"21 degrees in {city}"


def test_chats_are_invoked_streamed_and_batched(client: openai.OpenAI, url: str) -> None:
    question = "Name three fruits."
    direct = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": question}],
        temperature=0,
        max_tokens=12,
    )
    model = _model(url, stream_usage=True)
    whole = model.invoke(question)
    assert whole.content == direct.choices[0].message.content
    assert direct.usage is not None
    assert whole.usage_metadata["total_tokens"] == direct.usage.total_tokens
    chunks = list(model.stream(question))
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert total.content == whole.content
    assert total.usage_metadata["total_tokens"] == direct.usage.total_tokens
    assert len(chunks) > 2
    assert [one.content for one in model.batch([question, question])] == [whole.content] * 2


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output_is_a_model_of_pydantic(qwen05_url: str, method: str) -> None:
    model = _model(qwen05_url, max_tokens=200).with_structured_output(Box, method=method)
    assert isinstance(model.invoke("Describe a small box."), Box)


def test_structured_output_needs_no_tools(smollm2_url: str) -> None:
    model = _model(smollm2_url, max_tokens=200).with_structured_output(Box, method="json_schema")
    assert isinstance(model.invoke("Describe a small box."), Box)


def test_bound_tools_are_called_and_answered(qwen05_url: str) -> None:
    question = HumanMessage("What is the weather in Paris?")
    model = _model(qwen05_url, max_tokens=60)
    bound = model.bind_tools([get_weather], tool_choice="any", parallel_tool_calls=False)
    asked = bound.invoke([question])
    assert isinstance(asked, AIMessage)
    (call,) = asked.tool_calls
    assert call["name"] == "get_weather"
    assert call["args"]["city"].startswith("Paris")
    chunks = list(bound.stream([question]))
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert [(one["name"], one["args"]) for one in total.tool_calls] == [
        (call["name"], call["args"])
    ]
    told = get_weather.invoke(call)
    assert isinstance(told, ToolMessage)
    after = model.bind_tools([get_weather], tool_choice="none").invoke([question, asked, told])
    assert after.content
    named = model.bind_tools([get_weather], tool_choice="get_weather").invoke([question])
    assert [one["name"] for one in named.tool_calls] == ["get_weather"]


class _ModelsEncoding:
    """In place of tiktoken's files, which it would fetch: the served model's own vocabulary."""

    def __init__(self, model: Path) -> None:
        metadata = GGUFFile.open(model).metadata
        self._tokenizer = Tokenizer.from_gguf(metadata, source=model)

    def encode_ordinary(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)


def test_token_ids_and_texts_become_the_same_vectors(
    smollm2_url: str, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless told otherwise it sends texts as lists of token ids."""
    sent: list[Any] = []
    create = openai.resources.Embeddings.create

    def watched(self: Any, **fields: Any) -> Any:
        sent.append(fields["input"])
        return create(self, **fields)

    monkeypatch.setattr(openai.resources.Embeddings, "create", watched)
    monkeypatch.setattr("tiktoken.get_encoding", lambda _name: _ModelsEncoding(smollm2_path))
    options: Any = {"model": "m", "base_url": f"{smollm2_url}/v1", "api_key": "key"}
    by_ids = langchain_openai.OpenAIEmbeddings(**options)
    by_texts = langchain_openai.OpenAIEmbeddings(**options, check_embedding_ctx_length=False)
    vectors = by_ids.embed_documents(TEXTS)
    assert isinstance(sent[0][0][0], int)
    assert vectors == by_texts.embed_documents(TEXTS)
    assert sent[-1] == TEXTS
    assert by_ids.embed_query(TEXTS[0]) == vectors[0]
