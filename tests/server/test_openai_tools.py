"""The official openai client calls tools on a real server of Qwen2.5-0.5B: whole, streamed, parsed,
and answered."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel, Field

from tests.server.test_real_structured import WEATHER


class GetWeather(BaseModel):
    """Get the current weather in a city."""

    city: str = Field(max_length=20, description="Name of the city")
    days: int | None = Field(ge=1, le=7)


NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}
ASKED: Any = {
    "model": "m",
    "messages": [{"role": "user", "content": "What is the weather in Paris right now?"}],
    "temperature": 0,
    "max_tokens": 100,
}


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_a_call_is_the_same_whole_and_put_together_from_a_stream(
    qwen: openai.OpenAI, choice: Any
) -> None:
    asked = {**ASKED, "tools": [WEATHER], "tool_choice": choice, "parallel_tool_calls": False}
    whole = qwen.chat.completions.create(**asked).choices[0]
    assert whole.message.tool_calls is not None
    (call,) = whole.message.tool_calls
    assert call.type == "function"
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] == "Paris"
    deltas, done = "", []
    with qwen.chat.completions.stream(**asked) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.delta":
                deltas += event.arguments_delta
                assert event.arguments == deltas
            elif event.type == "tool_calls.function.arguments.done":
                done.append((event.index, event.name, event.arguments))
        final = stream.get_final_completion().choices[0]
    assert done == [(0, "get_weather", deltas)]
    assert deltas == call.function.arguments
    assert final.message.tool_calls is not None
    assert final.message.tool_calls[0].id
    assert final.finish_reason == whole.finish_reason


def test_a_tool_of_pydantic_is_parsed_and_its_result_answered(qwen: openai.OpenAI) -> None:
    asked = {**ASKED, "tools": [openai.pydantic_function_tool(GetWeather)]}
    parsed = qwen.chat.completions.parse(**asked, tool_choice="required", parallel_tool_calls=False)
    message = parsed.choices[0].message
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert isinstance(call.function.parsed_arguments, GetWeather)
    assert call.function.parsed_arguments.city.startswith("Paris")
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees, sunny"}
    answer = qwen.chat.completions.create(
        **asked | {"messages": [*asked["messages"], message, result], "tool_choice": "none"}
    )
    assert "21" in (answer.choices[0].message.content or "")


def test_calls_may_be_several_unless_they_are_forbidden(qwen: openai.OpenAI) -> None:
    asked = {
        **ASKED,
        "messages": [{"role": "user", "content": "Weather in Rome, in Paris and in Bern?"}],
        "tools": [WEATHER],
        "tool_choice": "required",
    }
    several = qwen.chat.completions.create(**asked, parallel_tool_calls=True).choices[0].message
    assert several.tool_calls
    assert len({call.id for call in several.tool_calls}) == len(several.tool_calls)
    one = qwen.chat.completions.create(**asked, parallel_tool_calls=False).choices[0].message
    assert one.tool_calls is not None
    assert len(one.tool_calls) == 1
    none = qwen.chat.completions.create(**asked | {"tool_choice": "none"}).choices[0].message
    assert not none.tool_calls
    assert none.content
