"""Real models keep to schemas and call tools, through every part of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import jsonschema

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.engine.factory import load_engine
from octavo.engine.in_process import InProcessEngine
from octavo.entrypoints.openai.served_app import ServedApp
from tests.server.harness import Json, error_of, finish_reasons, parse_events
from tests.server.test_tools_wire import assembled

PATH = "/v1/chat/completions"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "hobbies": {"type": "array", "items": {"enum": ["chess", "tennis"]}, "maxItems": 2},
    },
    "required": ["name", "age", "hobbies"],
    "additionalProperties": False,
}
WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def _serve(path: Path, scenario: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    config = EngineConfig(model=str(path), max_model_len=1024, max_num_seqs=4)
    options = ServerConfig(served_model_name=("m",), engine_process=False)

    async def serve() -> None:
        client = InProcessEngine(load_engine(config))
        app = ServedApp(client, config, options).app
        await client.start()
        transport = httpx.ASGITransport(app)
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=300
            ) as http:
                await scenario(http)
        finally:
            await client.shutdown()

    asyncio.run(serve())


async def _chat(http: httpx.AsyncClient, content: str, **fields: Json) -> Json:
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 120, **fields}
    response = await http.post(PATH, json=body)
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    streamed = await http.post(PATH, json=body | {"stream": True})
    events = parse_events(streamed.text)
    message = assembled(events)
    assert message["content"] == (choice["message"]["content"] or "")
    calls = choice["message"].get("tool_calls", ())
    assert message["tool_calls"] == [call["function"] for call in calls]
    assert finish_reasons(events) == [[choice["finish_reason"]]]
    return choice


def test_smollm2_keeps_to_a_schema_and_is_told_of_no_tool(smollm2_path: Path) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}

    async def scenario(http: httpx.AsyncClient) -> None:
        for seed in range(5):
            choice = await _chat(
                http, "Describe a person as JSON.", response_format=form, seed=seed, temperature=1
            )
            assert choice["finish_reason"] == "stop", choice
            jsonschema.validate(json.loads(choice["message"]["content"]), PERSON)
        choice = await _chat(http, "Rain?", structured_outputs={"choice": ["yes", "no"]})
        assert choice["message"]["content"] in ("yes", "no")
        body = {"messages": [{"role": "user", "content": "Rain?"}], "tools": [WEATHER]}
        error_of(await http.post(PATH, json=body))

    _serve(smollm2_path, scenario)


def test_qwen_calls_the_weather(qwen05_path: Path) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}

    async def scenario(http: httpx.AsyncClient) -> None:
        for tool_choice, reason in (("required", "tool_calls"), (named, "stop")):
            choice = await _chat(
                http,
                "What is the weather in Paris right now?",
                tools=[WEATHER],
                tool_choice=tool_choice,
                parallel_tool_calls=False,
                temperature=0,
            )
            assert choice["finish_reason"] == reason
            (call,) = choice["message"]["tool_calls"]
            assert call["function"]["name"] == "get_weather"
            arguments = json.loads(call["function"]["arguments"])
            jsonschema.validate(arguments, WEATHER["function"]["parameters"])
            assert arguments["city"] == "Paris"

    _serve(qwen05_path, scenario)
