"""litellm against real servers: what its providers for OpenAI and for vLLM send and read."""

from __future__ import annotations

import asyncio
import importlib
import json
import warnings
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.server.test_real_structured import WEATHER

pytestmark = pytest.mark.filterwarnings("ignore")  # its own, which are many
MESSAGES = [{"role": "user", "content": "Name three fruits."}]


@pytest.fixture(scope="module")
def litellm() -> Any:
    """Imported when first used, since that takes seconds, and told not to look into the network."""
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        environment.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        module: Any = importlib.import_module("litellm")
    module.suppress_debug_info = True
    return module


@pytest.fixture(autouse=True)
def event_loop_of_this_thread() -> Iterator[None]:
    """One that is closed: litellm asks for the thread's, which makes one if none was ever set."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def _at(url: str, provider: str = "openai") -> dict[str, Any]:
    return {
        "model": f"{provider}/m",
        "api_base": f"{url}/v1",
        "api_key": "key",
        "num_retries": 0,
        "max_retries": 0,
    }


def _chat(url: str, provider: str) -> dict[str, Any]:
    return {**_at(url, provider), "messages": MESSAGES, "temperature": 0, "max_tokens": 12}


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_chats_are_the_same_whole_streamed_and_asynchronous(
    litellm: Any, client: openai.OpenAI, url: str, provider: str
) -> None:
    asked = _chat(url, provider)
    direct = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "Name three fruits."}],
        temperature=0,
        max_tokens=12,
    )
    whole = litellm.completion(**asked)
    text = direct.choices[0].message.content
    assert whole.choices[0].message.content == text
    assert direct.usage is not None
    assert whole.usage.completion_tokens == direct.usage.completion_tokens
    chunks = list(litellm.completion(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == text
    assert chunks[-1].usage.completion_tokens == direct.usage.completion_tokens

    async def later() -> tuple[str, str]:
        answer = await litellm.acompletion(**asked)
        stream = await litellm.acompletion(**asked, stream=True)
        parts = [one.choices[0].delta.content or "" async for one in stream if one.choices]
        return answer.choices[0].message.content, "".join(parts)

    assert asyncio.run(later()) == (text, text)


def test_texts_are_completed(litellm: Any, client: openai.OpenAI, url: str) -> None:
    fields: Any = {"prompt": "One, two,", "temperature": 0, "max_tokens": 6}
    asked = {**_at(url, "text-completion-openai"), **fields}
    direct = client.completions.create(model="m", **fields).choices[0].text
    assert litellm.text_completion(**asked).choices[0].text == direct
    stream = litellm.text_completion(**asked, stream=True)
    assert "".join(one.choices[0].text or "" for one in stream) == direct


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_texts_become_vectors(litellm: Any, client: openai.OpenAI, url: str, provider: str) -> None:
    texts = ["a cat", "un chat"]
    answer = litellm.embedding(**_at(url, provider), input=texts)
    direct = client.embeddings.create(model="m", input=texts, encoding_format="float")
    assert [one["embedding"] for one in answer.data] == [one.embedding for one in direct.data]


def test_answers_keep_to_a_schema(litellm: Any, url: str) -> None:
    schema = {
        "type": "object",
        "properties": {"fruit": {"enum": ["apple", "pear"]}},
        "required": ["fruit"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": schema, "strict": True}}
    answer = litellm.completion(**_chat(url, "openai") | {"max_tokens": 30}, response_format=form)
    assert json.loads(answer.choices[0].message.content)["fruit"] in ("apple", "pear")


def test_tools_are_called_whole_and_streamed(litellm: Any, qwen05_url: str) -> None:
    asked = _chat(qwen05_url, "openai") | {
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [WEATHER],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 60,
    }
    whole = litellm.completion(**asked)
    (call,) = whole.choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["city"] == "Paris"
    built = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)))
    (streamed,) = built.choices[0].message.tool_calls
    assert (streamed.function.name, streamed.function.arguments) == (
        call.function.name,
        call.function.arguments,
    )
    assert built.choices[0].finish_reason == whole.choices[0].finish_reason == "tool_calls"
    told = {"role": "tool", "tool_call_id": call.id, "content": '{"celsius": 21}'}
    after = asked | {"messages": [*asked["messages"], whole.choices[0].message, told]}
    assert litellm.completion(**after | {"tool_choice": "none"}).choices[0].message.content


def test_errors_are_of_its_classes(litellm: Any, smollm2_url: str) -> None:
    asked = _chat(smollm2_url, "openai")
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        litellm.completion(**asked | {"temperature": -1})
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(**asked | {"api_key": "kex"})
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**asked | {"model": "openai/other"})
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**asked | {"messages": [{"role": "user", "content": "x " * 3000}]})
