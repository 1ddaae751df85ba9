"""The official openai client's chats on real servers: whole, streamed, asynchronous and parsed are
one answer, and what goes wrong is the error that the client has a class for."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import openai
import pydantic
import pytest
from pydantic import Field

from octavo.config.server import ServerConfig
from tests.server.harness import Server, Setup
from tests.server.test_real_socket import serve

ASKED: Any = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Name three fruits."}]},
    ],
    "temperature": 0,
    "max_completion_tokens": 16,
}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(pydantic.BaseModel, extra="forbid"):
    width: Annotated[int, Field(ge=1, le=9)]
    unit: Literal["cm", "m"]


class Box(pydantic.BaseModel, extra="forbid"):
    """A nested model with an enum, an optional field, a list and a field of another's kind. Closed:
    a small model goes on adding fields where it may."""

    colour: Colour
    size: Size
    label: Annotated[str, Field(max_length=8)] | None
    others: Annotated[list[Colour], Field(max_length=2)]
    inner: Size | None


BOX: Any = {
    "model": "m",
    "messages": [{"role": "user", "content": "Describe a small box as JSON."}],
    "seed": 1,
    "max_tokens": 200,
}


def test_whole_streamed_and_asynchronous_chats_are_one_answer(
    client: openai.OpenAI, url: str
) -> None:
    whole = client.chat.completions.create(**ASKED)
    chunks = list(
        client.chat.completions.create(**ASKED, stream=True, stream_options={"include_usage": True})
    )
    text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    assert text == whole.choices[0].message.content
    assert [one.usage is not None for one in chunks] == [False] * (len(chunks) - 1) + [True]
    assert whole.usage is not None
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert len({one.id for one in chunks}) == 1

    async def ask() -> tuple[openai.types.chat.ChatCompletion, str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as later:
            answers = await asyncio.gather(
                *(later.chat.completions.create(**ASKED) for _ in range(3))
            )
            assert len({one.choices[0].message.content for one in answers}) == 1
            stream = await later.chat.completions.create(**ASKED, stream=True)
            parts = [one.choices[0].delta.content or "" async for one in stream if one.choices]
            return answers[0], "".join(parts)

    answer, streamed = asyncio.run(ask())
    assert answer.choices == whole.choices
    assert streamed == text


def test_the_stream_helper_tells_of_content_and_of_its_end(client: openai.OpenAI) -> None:
    asked = {**ASKED, "max_completion_tokens": 200, "stop": [",", "\n"]}  # a cut is an error to it
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    text, done, probable = "", [], []
    with client.chat.completions.stream(
        **asked, logprobs=True, top_logprobs=2, stream_options={"include_usage": True}
    ) as stream:
        for event in stream:
            if event.type == "content.delta":
                text += event.delta
                assert event.snapshot == text
            elif event.type == "content.done":
                done.append(event.content)
            elif event.type == "logprobs.content.delta":
                probable += event.content
        final = stream.get_final_completion()
    assert done == [text]
    assert final.choices[0].message.content == text == whole.choices[0].message.content
    assert final.choices[0].finish_reason == whole.choices[0].finish_reason
    assert whole.choices[0].logprobs is not None
    assert probable == whole.choices[0].logprobs.content
    assert final.usage is not None
    assert whole.usage is not None
    assert final.usage.completion_tokens == whole.usage.completion_tokens


def test_an_answer_is_parsed_by_a_nested_model(client: openai.OpenAI) -> None:
    whole = client.chat.completions.parse(**BOX, response_format=Box)
    box = whole.choices[0].message.parsed
    assert isinstance(box, Box)
    with client.chat.completions.stream(**BOX, response_format=Box) as stream:
        (done,) = [event for event in stream if event.type == "content.done"]
    assert done.parsed == box


def test_a_parsed_answer_that_is_cut_off_is_told_as_such(client: openai.OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**BOX | {"max_tokens": 3}, response_format=Box)


def test_several_choices_and_stop_texts(client: openai.OpenAI) -> None:
    asked = ASKED | {"temperature": 1, "seed": 3, "n": 2, "stop": ["."]}
    whole = client.chat.completions.create(**asked)
    with client.chat.completions.stream(**asked) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    contents = [one.message.content for one in whole.choices]
    assert [one.message.content for one in final.choices] == contents
    assert len(contents) == 2
    assert not any("." in (content or "") for content in contents)


def test_texts_are_completed_and_their_prompts_echoed(client: openai.OpenAI) -> None:
    asked: Any = {"model": "m", "prompt": ["One two", "A b"], "temperature": 0, "max_tokens": 4}
    whole = client.completions.create(**asked, echo=True, logprobs=1)
    assert [
        one.text[: len(prompt)] for one, prompt in zip(whole.choices, asked["prompt"], strict=True)
    ] == asked["prompt"]
    for choice in whole.choices:
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs is not None
        assert choice.logprobs.token_logprobs[0] is None
        assert "".join(choice.logprobs.tokens or ()) == choice.text
    texts = ["", ""]
    for chunk in client.completions.create(**asked, stream=True):
        for piece in chunk.choices:
            texts[piece.index] += piece.text
    assert [prompt + text for prompt, text in zip(asked["prompt"], texts, strict=True)] == [
        one.text for one in whole.choices
    ]


def test_models_are_listed_and_requests_have_the_name_their_client_gave(
    client: openai.OpenAI,
) -> None:
    assert [one.id for one in client.models.list()] == ["m"]
    assert client.models.retrieve("m").owned_by
    named = client.chat.completions.create(**ASKED, extra_headers={"X-Request-Id": "mine-1"})
    assert named._request_id == "mine-1"


@pytest.fixture
def smollm2(smollm2_url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{smollm2_url}/v1", api_key="key", max_retries=0)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temperature": -1}, "temperature", None),
        (
            {"max_tokens": 100_000, "max_completion_tokens": openai.omit},
            "messages",
            "context_length_exceeded",
        ),
        ({"extra_body": {"temprature": 1}}, "temprature", None),
        ({"extra_body": {"audio": {"voice": "x"}}}, "audio", "unsupported_parameter"),
        (
            {"messages": [{"role": "user", "content": "x " * 3000}]},
            "messages",
            "context_length_exceeded",
        ),
        ({"tools": [openai.pydantic_function_tool(Size)]}, "tools", None),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "strin"}},
                }
            },
            "response_format",
            None,
        ),
    ],
)
def test_bad_requests_name_what_is_wrong(
    smollm2: openai.OpenAI, fields: dict[str, Any], param: str, code: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        smollm2.chat.completions.create(**ASKED | fields)
    assert caught.value.param == param
    if code is not None:
        assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as streamed:
        smollm2.chat.completions.create(**ASKED | fields, stream=True)
    assert streamed.value.body == caught.value.body


def test_unknown_keys_models_and_pages_have_their_own_classes(smollm2: openai.OpenAI) -> None:
    for key in ("kex", "key2"):
        with pytest.raises(openai.AuthenticationError) as caught:
            smollm2.with_options(api_key=key).chat.completions.create(**ASKED)
        assert caught.value.code == "invalid_api_key"
    with pytest.raises(openai.NotFoundError) as missing:
        smollm2.chat.completions.create(**ASKED | {"model": "gpt-4o"})
    assert (missing.value.param, missing.value.code) == ("model", "model_not_found")
    with pytest.raises(openai.NotFoundError):
        smollm2.models.retrieve("gpt-4o")
    with pytest.raises(openai.NotFoundError):
        smollm2.images.generate(prompt="a cat")


def _on_a_limited_server(scenario: Callable[[openai.AsyncOpenAI], Awaitable[None]]) -> None:
    async def on_socket(_server: Server, url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            await scenario(client)

    options = ServerConfig(requests_per_second=1, request_burst=1)
    serve(on_socket, Setup(options=options))


def test_too_many_requests_wait_as_long_as_they_are_told() -> None:
    """The client would try again after half a second at most: too soon, unless it is told."""
    asked: Any = {"model": "fake", "prompt": "a", "max_tokens": 1}

    async def scenario(client: openai.AsyncOpenAI) -> None:
        await client.completions.create(**asked)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.with_options(max_retries=0).completions.create(**asked)
        assert caught.value.code == "rate_limit_requests"
        assert caught.value.response.headers["retry-after"] == "1"
        assert (await client.with_options(max_retries=1).completions.create(**asked)).choices

    _on_a_limited_server(scenario)
