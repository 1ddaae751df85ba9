"""The official clients on batches, responses and messages, against a real server on a real model:
what they send is understood, and what they get they can parse."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from typing import Any, Literal

import anthropic
import openai
import pydantic
import pytest

from tests.server.real_server import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def url(smollm2_url: str) -> str:
    """What is told here does not depend on the model."""
    return smollm2_url


def test_openai_runs_a_batch(client: openai.OpenAI) -> None:
    lines = [
        {
            "custom_id": f"q{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "m",
                "messages": [{"role": "user", "content": f"Say {number}"}],
                "max_tokens": 4,
            },
        }
        for number in range(9)
    ]
    data = "\n".join(map(json.dumps, lines)).encode()
    file = client.files.create(file=("in.jsonl", io.BytesIO(data)), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"for": "test"},
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
        batch = client.batches.retrieve(batch.id)
    assert batch.status == "completed"
    assert batch.request_counts is not None
    assert batch.request_counts.completed == 9
    assert batch.usage is not None
    assert batch.usage.output_tokens > 0
    assert batch.output_file_id is not None
    records = [json.loads(x) for x in client.files.content(batch.output_file_id).text.splitlines()]
    assert {one["custom_id"] for one in records} == {f"q{number}" for number in range(9)}
    assert [one.id for one in client.batches.list(limit=1)] == [batch.id]
    assert {one.purpose for one in client.files.list(limit=1)} == {"batch", "batch_output"}
    assert client.files.retrieve(file.id) == file
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.BadRequestError, match="completed"):
        client.batches.cancel(batch.id)


class Answer(pydantic.BaseModel):
    city: Literal["Rome", "Paris"]
    size: int = pydantic.Field(ge=0, le=9)


def test_openai_makes_responses_and_goes_on_from_them(client: openai.OpenAI) -> None:
    first = client.responses.create(
        model="m", input="My name is Ada.", instructions="Be short.", max_output_tokens=12
    )
    assert first.output_text
    assert first.usage is not None
    second = client.responses.create(
        model="m", input="What is my name?", previous_response_id=first.id, max_output_tokens=8
    )
    assert client.responses.retrieve(second.id) == second
    items = list(client.responses.input_items.list(second.id, order="asc"))
    assert [getattr(item, "role", None) for item in items] == ["user", "assistant", "user"]
    count = client.responses.input_tokens.count(
        model="m", input="What is my name?", previous_response_id=first.id
    )
    assert second.usage is not None
    assert count.input_tokens == second.usage.input_tokens
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)


def test_openai_streams_a_response(client: openai.OpenAI) -> None:
    asked: Any = {"model": "m", "input": "Say hello", "temperature": 0}
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        text = "".join(one.delta for one in stream if one.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert text == final.output_text == whole.output_text


def test_openai_parses_a_response_by_a_model_of_pydantic(client: openai.OpenAI) -> None:
    parsed = client.responses.parse(
        model="m", input="Where is the Colosseum?", text_format=Answer, max_output_tokens=60
    )
    assert isinstance(parsed.output_parsed, Answer)


def test_openai_waits_for_a_response_in_the_background(client: openai.OpenAI) -> None:
    made = client.responses.create(model="m", input="Count", background=True, max_output_tokens=8)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while made.status in ("queued", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
        made = client.responses.retrieve(made.id)
    assert made.output_text
    assert client.responses.cancel(made.id).status == made.status


def test_openai_is_told_what_is_not_supported(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="m", input="x", tools=[{"type": "web_search"}])
    assert caught.value.param == "tools[0].type"


@pytest.fixture(scope="module")
def claude(url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=url, api_key="key", max_retries=0, timeout=PATIENCE_SECONDS
    ) as client:
        yield client


def test_anthropic_creates_counts_and_streams(claude: anthropic.Anthropic) -> None:
    asked: Any = {
        "model": "m",
        "system": "Be short.",
        "messages": [{"role": "user", "content": "Say hello"}],
    }
    limits: Any = {"max_tokens": 12, "extra_body": {"temperature": 0}}
    message = claude.messages.create(**asked, **limits)
    assert message.content[0].type == "text"
    assert message.stop_reason in ("max_tokens", "end_turn")
    counted = claude.messages.count_tokens(**asked)
    usage = message.usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    with claude.messages.stream(**asked, **limits) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].type == "text"
    assert text == final.content[0].text == message.content[0].text
    assert final.stop_reason == message.stop_reason
    assert final.usage.output_tokens == usage.output_tokens


def test_anthropic_reads_errors(claude: anthropic.Anthropic, url: str) -> None:
    asked: Any = {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
    with pytest.raises(anthropic.NotFoundError, match="not served"):
        claude.messages.create(model="other", **asked)
    with pytest.raises(anthropic.BadRequestError, match="container"):
        claude.messages.create(model="m", container="c", **asked)
    with (
        anthropic.Anthropic(base_url=url, api_key="kex", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError, match="x-api-key"),
    ):
        stranger.messages.create(model="m", **asked)
