"""`/v1/messages` on the wire: blocks in, blocks out, streamed or not, and Anthropic's errors."""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx
import pytest

from octavo.config.server import ServerConfig
from tests.server.harness import Json, Server, Setup, run
from tests.server.test_responses_wire import THOUGHT, TOLD, scripted
from tests.server.test_tools_wire import CLOCK, ROME, TEMPLATE, THINKING, TIME, WEATHER

PATH = "/v1/messages"
HI = b"[user]hi[assistant]"
TOOLS = [
    {
        "name": tool["function"]["name"],
        "description": "d",
        "input_schema": tool["function"].get("parameters", {"type": "object"}),
    }
    for tool in (WEATHER, CLOCK)
]


def body_of(**fields: Json) -> Json:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 400, **fields}


async def create(server: Server, **fields: Json) -> Json:
    response = await server.post(PATH, body_of(**fields))
    assert response.status_code == 200, response.text
    return response.json()


def refused(response: httpx.Response, status: int = 400) -> Json:
    """The error, in Anthropic's shape."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"type", "error"}
    assert body["type"] == "error"
    assert body["error"]["message"]
    return body["error"]


def events_of(response: httpx.Response) -> list[Json]:
    assert response.status_code == 200, response.text
    events: list[Json] = []
    for block in response.text.split("\n\n"):
        if block:
            name, data = block.split("\n")
            event = json.loads(data.removeprefix("data: "))
            assert name == f"event: {event['type']}"
            events.append(event)
    return events


def assembled(events: Sequence[Json]) -> Json:
    """The message that the events add up to, checked as clients check them."""
    assert events[0]["type"] == "message_start"
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    message = events[0]["message"]
    assert (message["content"], message["stop_reason"]) == ([], None)
    arguments = ""
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
            arguments = ""
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(message["content"]) - 1
            delta = event["delta"]
            block = message["content"][-1]
            if delta["type"] == "input_json_delta":
                arguments += delta["partial_json"]
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
        else:
            assert event == {"type": "content_block_stop", "index": len(message["content"]) - 1}
            if message["content"][-1]["type"] == "tool_use":
                message["content"][-1]["input"] = json.loads(arguments)
    return {**message, **events[-2]["delta"], "usage": events[-2]["usage"]}


def without_ids(message: Json) -> Json:
    content = [{k: v for k, v in block.items() if k != "id"} for block in message["content"]]
    usage = message["usage"]
    num_input = usage["input_tokens"] + usage["cache_read_input_tokens"]
    told = {"num_input": num_input, "num_output": usage["output_tokens"]}
    return {**message, "id": "", "content": content, "usage": told}


def both_ways(setup: Setup, **fields: Json) -> Json:
    """The message, which is the same streamed."""
    found: list[Json] = []

    async def scenario(server: Server) -> None:
        whole = await create(server, **fields)
        events = events_of(await server.post(PATH, body_of(**fields, stream=True)))
        assert without_ids(assembled(events)) == without_ids(whole)
        found.append(whole)

    run(scenario, setup)
    return found[0]


def test_a_text_is_answered_by_a_text() -> None:
    message = both_ways(scripted({HI: "Hello"}), model="fake", metadata={"user_id": None})
    assert message["content"] == [{"type": "text", "text": "Hello", "citations": None}]
    assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "fake")
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert message["usage"]["output_tokens"] == 6


def test_text_and_calls_are_blocks_in_their_order() -> None:
    setup = scripted({TOLD + HI: f"I look.\n{ROME}\n{TIME}"})
    message = both_ways(setup, tools=TOOLS)
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "tool_use"]
    assert message["content"][1]["input"] == {"city": "Rome"}
    assert message["content"][2]["name"] == "get_time"
    assert message["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "any"}, {"get_weather", "get_time"}),
        ({"type": "tool", "name": "get_weather"}, {"get_weather"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"get_weather", "get_time"}),
    ],
)
def test_a_tool_that_must_be_called_is_called(choice: Json, names: set[str]) -> None:
    setup = scripted({TOLD + HI: ROME})
    message = both_ways(setup, tools=TOOLS, tool_choice=choice, temperature=0)
    assert message["stop_reason"] == "tool_use"
    assert {block["name"] for block in message["content"]} <= names


def test_a_conversation_with_calls_and_results_is_read_as_a_chat() -> None:
    prompt = (
        TOLD + b"[system]Be\nkind[user]hi\nthere[assistant]I look.get_weather(Rome)"
        b"[tool]Error: rain<get_weather>[user]so?[assistant]"
    )
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "there"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look.", "citations": None},
                {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "rain"}],
                },
                {"type": "text", "text": "so?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ]
    system = [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind"}]
    message = both_ways(
        scripted({prompt: "It rains."}),
        messages=messages,
        system=system,
        tools=TOOLS,
        max_tokens=64,
    )
    assert message["content"][0]["text"] == "It rains."


def test_thinking_is_a_block_of_its_own() -> None:
    setup = scripted({b"[user]hi[assistant]<think>\n": THOUGHT}, template=THINKING)
    message = both_ways(setup, thinking={"type": "adaptive"})
    assert message["content"] == [
        {"type": "thinking", "thinking": "Rome is\nin Italy.", "signature": ""},
        {"type": "text", "text": "It rains.", "citations": None},
    ]
    hidden = both_ways(setup, thinking={"type": "adaptive", "display": "omitted"})
    assert hidden["content"] == message["content"][1:]


def test_thinking_can_be_off() -> None:
    setup = scripted({HI: "Rome."}, template=THINKING)
    message = both_ways(setup, thinking={"type": "disabled"})
    assert message["content"][0]["text"] == "Rome."
    plain = both_ways(scripted({HI: "Rome."}, template=TEMPLATE), thinking={"type": "disabled"})
    assert plain["content"] == message["content"]


@pytest.mark.parametrize(
    ("fields", "reason", "sequence", "text"),
    [
        ({"max_tokens": 3}, "max_tokens", None, "Hel"),
        ({"stop_sequences": ["lo", "x"]}, "stop_sequence", "lo", "Hel"),
        ({"stop_sequences": []}, "end_turn", None, "Hello"),
    ],
)
def test_why_it_stopped_is_said(fields: Json, reason: str, sequence: str | None, text: str) -> None:
    message = both_ways(scripted({HI: "Hello"}), **fields)
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)
    assert message["content"][0]["text"] == text


def test_an_answer_that_is_begun_is_gone_on_with() -> None:
    template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if not loop.last %};{% endif %}"
        "{% endfor %}{% if add_generation_prompt %};[assistant]{% endif %}"
    )
    setup = scripted({b"[user]hi;[assistant]Hel": "lo"}, template=template)
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hel"}]
    assert both_ways(setup, messages=messages)["content"][0]["text"] == "lo"


def test_a_schema_holds_the_answer_to_it() -> None:
    schema = {"enum": ["a", "b"]}
    form = {"format": {"type": "json_schema", "schema": schema}}
    message = both_ways(scripted({HI: "no"}), output_config=form, temperature=0)
    assert json.loads(message["content"][0]["text"]) in ("a", "b")


def test_tokens_are_counted_as_they_would_be_read() -> None:
    async def scenario(server: Server) -> None:
        fields = {"system": "Be kind", "tools": TOOLS}
        made = await create(server, **fields)
        body = body_of(**fields)
        del body["max_tokens"]
        counted = await server.post(f"{PATH}/count_tokens", body)
        usage = made["usage"]
        assert counted.json() == {
            "input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]
        }
        assert refused(await server.post(f"{PATH}/count_tokens", {}))["param"] == "messages"

    run(scenario, Setup(template=TEMPLATE))


def test_the_key_may_be_in_anthropics_header() -> None:
    async def scenario(server: Server) -> None:
        body = body_of(max_tokens=1)
        for header in ({"x-api-key": "key"}, {"Authorization": "Bearer key"}):
            assert (await server.post(PATH, body, **header)).status_code == 200
        for header in ({}, {"x-api-key": "kex"}, {"x-api-key": ""}, {"x-api-key": "Bearer key"}):
            assert refused(await server.post(PATH, body, **header), 401)["type"] == (
                "authentication_error"
            )
        wrong = {"x-api-key": "key", "Authorization": "Bearer kex"}
        refused(await server.post(PATH, body, **wrong), 401)

    run(scenario, Setup(options=ServerConfig(api_key=("key",))))


def test_errors_have_anthropics_shape_wherever_they_come_from() -> None:
    async def scenario(server: Server) -> None:
        assert refused(await server.post(PATH, b"{"))["type"] == "invalid_request_error"
        assert refused(await server.post(PATH, body_of(model="x")), 404)["type"] == (
            "not_found_error"
        )
        large = body_of(system="x" * 5000)
        assert refused(await server.post(PATH, large), 413)["type"] == "request_too_large"
        assert refused(await server.post(PATH, body_of()), 500)["type"] == "api_error"
        server.context.open_requests.is_draining = True
        assert refused(await server.post(PATH, body_of()), 503)["type"] == "overloaded_error"
        server.context.open_requests.is_draining = False

    run(scenario, Setup(options=ServerConfig(max_body_bytes=4000), fail_on=(0,)))


def test_a_stream_that_fails_ends_with_an_error_event() -> None:
    async def scenario(server: Server) -> None:
        events = events_of(await server.post(PATH, body_of(stream=True)))
        assert events[-1]["type"] == "error"
        assert events[-1]["error"]["type"] == "api_error"
        assert "secret" not in json.dumps(events)

    run(scenario, Setup(fail_on=(3,)))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1000}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
         "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]},
         "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
         "messages[0].content[0]"),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tools": [{"name": "a"}]}, "tools[0]"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "a", "input_schema": {"oops": 1}}], "tool_choice": {"type": "any"}},
         "tools[0].input_schema"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.budget_tokens"),
        ({"output_config": {"effort": "high"}}, "thinking"),
        ({"temperature": -1}, "temperature"),
        ({"stop_sequences": ["x"] * 99}, "stop_sequences"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
        ({"container": "c"}, "container"),
        ({"top_logprobs": 1}, "top_logprobs"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named(fields: Json, param: str) -> None:
    template = TEMPLATE.replace("enable_thinking", "not_there")

    async def scenario(server: Server) -> None:
        assert refused(await server.post(PATH, body_of(**fields)))["param"] == param

    run(scenario, Setup(template=template))
