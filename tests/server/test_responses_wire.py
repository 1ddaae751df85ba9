"""`/v1/responses` on the wire: items in, items out, the same streamed or not, and what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import httpx
import pytest

from octavo.config.server import ServerConfig
from tests.server.harness import Json, Server, Setup, error_of, run
from tests.server.test_tools_wire import CLOCK, ROME, TEMPLATE, THINKING, TIME, WEATHER

PATH = "/v1/responses"
TOOLS = [{"type": "function", **tool["function"]} for tool in (WEATHER, CLOCK)]
TOLD = b"get_weather;get_time;<tool_call>"
THOUGHT = "Rome is\nin Italy.</think>It rains."


def scripted(script: dict[bytes, str], **fields: Json) -> Setup:
    """A model that answers each prompt so. Long answers need pages."""
    ids = {prompt: list(text.encode()) for prompt, text in script.items()}
    return Setup(scripts=ids, **{"template": TEMPLATE, **fields})


async def create(server: Server, given: Json, **fields: Json) -> Json:
    response = await server.post(PATH, {"input": given, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def events_of(response: httpx.Response) -> list[Json]:
    """The stream's events. Each is named by its type, and they are counted."""
    assert response.status_code == 200, response.text
    events: list[Json] = []
    for block in response.text.split("\n\n"):
        if block and not block.startswith(":"):
            name, data = block.split("\n")
            event = json.loads(data.removeprefix("data: "))
            assert name == f"event: {event['type']}"
            assert event["sequence_number"] == len(events)
            events.append(event)
    return events


def assembled(events: Sequence[Json]) -> list[Json]:
    """The items that the deltas add up to, which are what the items say when they are done."""
    items: list[Json] = []
    for event in events:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert event["output_index"] == len(items)
            items.append(event["item"])
            continue
        item = items[event["output_index"]] if "output_index" in event else {}
        if kind == "content_part.added":
            item["content"].append(event["part"])
        elif kind in ("output_text.delta", "reasoning_text.delta"):
            part = item["content"][event["content_index"]]
            part["text"] += event["delta"]
            part.get("logprobs", []).extend(event.get("logprobs", ()))
        elif kind == "function_call_arguments.delta":
            item["arguments"] += event["delta"]
        elif kind == "output_item.done":
            for name in {"status", "encrypted_content"} & set(item):
                item[name] = event["item"][name]
            assert event["item"] == item
    return items


def without_ids(response: Json) -> Json:
    """What two answers to the same have in common."""
    times = ("id", "created_at", "completed_at")
    output = [
        {name: value for name, value in item.items() if name not in ("id", "call_id")}
        for item in response["output"]
    ]
    return {**{k: v for k, v in response.items() if k not in times}, "output": output}


def both_ways(body: Json, setup: Setup) -> Json:
    """The response to `body`, which is the same streamed."""
    found: list[Json] = []

    async def scenario(server: Server) -> None:
        whole = await create(server, **body)
        events = events_of(await server.post(PATH, _streamed(body)))
        assert [event["type"] for event in events[:2]] == [
            "response.created",
            "response.in_progress",
        ]
        last = events[-1]["response"]
        assert events[-1]["type"] == f"response.{last['status']}"
        assert assembled(events) == last["output"]
        ignored = {"usage": {**last["usage"], "input_tokens_details": None}}
        usage = {"usage": {**whole["usage"], "input_tokens_details": None}}
        assert without_ids({**last, **ignored}) == without_ids({**whole, **usage})
        found.append(whole)

    run(scenario, setup)
    return found[0]


def _streamed(body: Json) -> Json:
    return {"input": body["given"], **{k: v for k, v in body.items() if k != "given"},
            "stream": True}  # fmt: skip


def test_a_text_is_answered_by_a_message() -> None:
    body = {"given": "hi", "metadata": {"a": "b"}, "temperature": 0, "user": "u"}
    response = both_ways(body, scripted({b"[user]hi[assistant]": "Hello"}))
    (message,) = response["output"]
    assert message["content"] == [
        {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    ]
    assert response["status"] == "completed"
    assert response["metadata"] == {"a": "b"}
    assert (response["temperature"], response["top_p"], response["user"]) == (0, 1, "u")
    assert response["usage"]["output_tokens"] == 6
    assert response["usage"]["total_tokens"] == 6 + response["usage"]["input_tokens"]


def test_text_and_calls_are_items_in_their_order() -> None:
    said = f"I look.\n{ROME}\n{TIME}"
    setup = scripted({TOLD + b"[user]hi[assistant]": said})
    response = both_ways({"given": "hi", "tools": TOOLS, "max_output_tokens": 420}, setup)
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["message", "function_call", "function_call"]
    assert [item["name"] for item in response["output"][1:]] == ["get_weather", "get_time"]
    assert response["output"][1]["arguments"] == '{"city": "Rome"}'
    assert response["tools"][0]["name"] == "get_weather"


def test_reasoning_is_an_item_of_its_own_and_comes_back_sealed() -> None:
    setup = scripted({b"[user]hi[assistant]<think>\n": THOUGHT}, template=THINKING)
    body = {
        "given": "hi",
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }
    response = both_ways(body, setup)
    thought, message = response["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "Rome is\nin Italy."}]
    assert message["content"][0]["text"] == "It rains."
    assert (
        0
        < response["usage"]["output_tokens_details"]["reasoning_tokens"]
        < (response["usage"]["output_tokens"])
    )
    assert thought["encrypted_content"]


def test_an_answer_that_is_cut_is_incomplete() -> None:
    setup = scripted({b"[user]hi[assistant]": "Hello"})
    response = both_ways({"given": "hi", "max_output_tokens": 3}, setup)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert response["output"][0]["content"][0]["text"] == "Hel"


def test_an_empty_answer_is_an_empty_message() -> None:
    response = both_ways({"given": "hi"}, scripted({b"[user]hi[assistant]": ""}))
    assert [part["text"] for item in response["output"] for part in item["content"]] == [""]


def test_a_schema_holds_the_answer_to_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9,
              "minimum": 0}}, "required": ["a"], "additionalProperties": False}  # fmt: skip
    text = {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}
    setup = scripted({b"[user]hi[assistant]": "I will not"})
    response = both_ways({"given": "hi", "text": text, "temperature": 0}, setup)
    assert json.loads(response["output"][0]["content"][0]["text"])["a"] in range(10)
    assert response["text"]["format"]["schema"] == schema


def test_log_probabilities_come_with_the_text() -> None:
    setup = scripted({b"[user]hi[assistant]": "Hello"})
    body = {"given": "hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    response = both_ways(body, setup)
    entries = response["output"][0]["content"][0]["logprobs"]
    assert "".join(entry["token"] for entry in entries) == "Hello"
    assert all(entry["logprob"] <= 0 for entry in entries)


def test_a_conversation_goes_on_from_a_stored_response() -> None:
    """With its calls and their results, and without its instructions."""
    first = TOLD + b"[system]Be kind[user]hi[assistant]"
    second = TOLD + b"[user]hi[assistant]I look.get_weather(Rome)[tool]rain<get_weather>[assistant]"
    setup = scripted({first: f"I look.\n{ROME}", second: "It rains."})

    async def scenario(server: Server) -> None:
        one = await create(server, "hi", instructions="Be kind", tools=TOOLS)
        call = one["output"][1]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
        two = await create(server, [result], tools=TOOLS, previous_response_id=one["id"])
        assert two["output"][0]["content"][0]["text"] == "It rains."
        assert two["previous_response_id"] == one["id"]
        by_hand = [{"role": "user", "content": "hi"}, *one["output"], result]
        three = await create(server, by_hand, tools=TOOLS, store=False)
        assert without_ids(three)["output"] == without_ids(two)["output"]
        listed = (await server.http.get(f"{PATH}/{two['id']}/input_items?order=asc")).json()
        kinds = [item["type"] for item in listed["data"]]
        assert kinds == ["message", "message", "function_call", "function_call_output"]
        assert all(item["id"] for item in listed["data"])
        assert error_of(await server.http.get(f"{PATH}/{three['id']}"), 404)
        error = error_of(
            await server.post(PATH, {"input": "x", "previous_response_id": three["id"]}), 404
        )
        assert error["param"] == "previous_response_id"
        counted = await server.post(
            f"{PATH}/input_tokens",
            {"input": [result], "tools": TOOLS, "previous_response_id": one["id"]},
        )
        assert counted.json()["input_tokens"] == two["usage"]["input_tokens"]

    run(scenario, setup)


def test_a_stored_response_is_looked_at_and_deleted_by_its_tenant_alone() -> None:
    alice, bob = ({"Authorization": f"Bearer {key}"} for key in ("alice", "bob"))

    async def scenario(server: Server) -> None:
        made = (await server.post(PATH, {"input": "hi", "max_output_tokens": 2}, **alice)).json()
        path = f"{PATH}/{made['id']}"
        assert (await server.http.get(path, headers=alice)).json() == made
        for other in (path, f"{path}/input_items"):
            error_of(await server.http.get(other, headers=bob), 404)
        error_of(await server.http.delete(path, headers=bob), 404)
        body = {"input": "x", "previous_response_id": made["id"]}
        error_of(await server.post(PATH, body, **bob), 404)
        error_of(await server.http.get(f"{path}?stream=true", headers=alice))
        gone = await server.http.delete(path, headers=alice)
        assert gone.json() == {"id": made["id"], "object": "response", "deleted": True}
        error_of(await server.http.get(path, headers=alice), 404)

    run(scenario, Setup(options=ServerConfig(api_key=("alice", "bob"))))


def test_the_oldest_response_of_a_tenant_goes_first() -> None:
    async def scenario(server: Server) -> None:
        made = [await create(server, f"hi {n}", max_output_tokens=1) for n in range(4)]
        found = [(await server.http.get(f"{PATH}/{one['id']}")).status_code for one in made]
        assert found == [404, 404, 200, 200]

    run(scenario, Setup(options=ServerConfig(response_store_count=2)))


def test_where_nothing_is_stored_who_asks_for_it_is_told() -> None:
    async def scenario(server: Server) -> None:
        made = await create(server, "hi", max_output_tokens=1)
        assert made["store"] is False
        for field in ("store", "background"):
            response = await server.post(PATH, {"input": "hi", field: True})
            assert error_of(response)["param"] == field

    run(scenario, Setup(options=ServerConfig(response_store_bytes=0)))


def test_a_response_in_the_background_is_asked_for_until_it_is_there() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        made = await create(server, "hi", background=True)
        assert made["status"] == "queued"
        path = f"{PATH}/{made['id']}"
        assert (await server.http.get(path)).json()["status"] == "in_progress"
        body = {"input": "x", "previous_response_id": made["id"]}
        assert error_of(await server.post(PATH, body))["param"] == "previous_response_id"
        server.brake.open()
        while (found := (await server.http.get(path)).json())["status"] == "in_progress":
            await asyncio.sleep(0.005)
        assert found["status"] == "completed"
        assert found["output"][0]["content"][0]["text"] == "Hello"
        assert (await server.post(f"{path}/cancel", {})).json() == found

    run(scenario, scripted({b"[user]hi[assistant]": "Hello"}))


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_work_in_the_background_can_be_stopped(how: str) -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        made = await create(server, "hi", background=True)
        path = f"{PATH}/{made['id']}"
        if how == "cancel":
            assert (await server.post(f"{path}/cancel", {})).json()["status"] == "cancelled"
            assert (await server.http.get(path)).json()["status"] == "cancelled"
        else:
            assert (await server.http.delete(path)).status_code == 200
            await asyncio.sleep(0)
            error_of(await server.http.get(path), 404)
        assert len(server.context.open_requests) == 0
        server.brake.open()

    run(scenario)


def test_what_fails_in_the_background_says_so() -> None:
    async def scenario(server: Server) -> None:
        made = await create(server, "hi", background=True)
        path = f"{PATH}/{made['id']}"
        while (found := (await server.http.get(path)).json())["status"] == "in_progress":
            await asyncio.sleep(0.005)
        assert found["status"] == "failed"
        assert found["error"]["code"] == "server_error"
        assert "secret" not in json.dumps(found)
        plain = await create(server, "hi", max_output_tokens=1)
        error_of(await server.post(f"{PATH}/{plain['id']}/cancel", {}))

    run(scenario, Setup(fail_on=(0,)))


def test_a_stream_that_fails_ends_with_a_failed_response() -> None:
    async def scenario(server: Server) -> None:
        events = events_of(await server.post(PATH, {"input": "hi", "stream": True}))
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["status"] == "failed"
        assert events[-1]["response"]["output"] == assembled(events)
        assert events[-1]["response"]["error"]["message"]

    run(scenario, Setup(fail_on=(2,)))


def test_the_oldest_messages_are_left_out_where_that_is_allowed() -> None:
    long = [
        {"role": "system", "content": "s"},
        *({"role": role, "content": f"{n:02}" + "x" * 40} for n in range(8)
          for role in ("user", "assistant")),
        {"role": "user", "content": "last"},
    ]  # fmt: skip
    kept = "".join(f"[{m['role']}]{m['content']}" for m in [long[0], *long[-9:]])

    async def scenario(server: Server) -> None:
        body = {"input": long, "max_output_tokens": 20}
        assert error_of(await server.post(PATH, body))["param"] == "input"
        found = await create(server, long, max_output_tokens=20, truncation="auto")
        assert found["output"][0]["content"][0]["text"] == "I know."
        huge = [{"role": "user", "content": "x" * 600}]
        error = error_of(await server.post(PATH, {"input": huge, "truncation": "auto"}))
        assert error["code"] == "context_length_exceeded"

    run(scenario, scripted({f"{kept}[assistant]".encode(): "I know."}))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"unknown": 1}, "unknown"),
        ({"n": 2}, "n"),
        ({"input": 1}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": "a"}, {"role": "nobody", "content": "a"}]},
         "input[1]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]},
         "input[0].content[0]"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0]"),
        ({"input": [{"type": "reasoning", "encrypted_content": "\u00e4"}]}, "input[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice"),
        ({"reasoning": {"summary": "detailed"}}, "reasoning"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"oops": 1}}}},
         "text.format"),
        ({"text": {"verbosity": "low"}}, "text"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"truncation": "middle"}, "truncation"),
        ({"background": True, "stream": True}, "background"),
        ({"background": True, "store": False}, "background"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named(fields: Json, param: str) -> None:
    async def scenario(server: Server) -> None:
        response = await server.post(PATH, {"input": "hi", **fields})
        assert error_of(response)["param"] == param
        assert "messages" not in response.json()["error"]["message"]

    run(scenario, Setup(template=TEMPLATE))


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"reasoning": {"effort": "high"}}, "reasoning.effort"), ({"tools": TOOLS}, "tools")],
)
def test_what_the_model_cannot_do_is_named(fields: Json, param: str) -> None:
    async def scenario(server: Server) -> None:
        assert error_of(await server.post(PATH, {"input": "hi", **fields}))["param"] == param

    run(scenario)
