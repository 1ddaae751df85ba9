"""Tools and reasoning on the chat wire: what the template is told, and what clients get."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from octavo.config.server import ServerConfig
from tests.fakes import EOS
from tests.server.harness import Json, Server, Setup, error_of, finish_reasons, run

PATH = "/v1/chat/completions"
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }};{% endfor %}"
    "{% if tools %}<tool_call>{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for call in m.tool_calls or [] %}"
    "{{ call.function.name }}({{ call.function.arguments.city }})"
    "{% endfor %}"
    "{% if m.role == 'tool' %}<{{ m.name }}>{% endif %}{% endfor %}"
    "[assistant]{% if enable_thinking %}<think>\n{% endif %}"
)
THINKING = TEMPLATE + "{# </think> #}" + "{% if false %}</think>{% endif %}"
WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Rome", "Bern"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CLOCK: Json = {"type": "function", "function": {"name": "get_time"}}
ROME = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
TIME = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'


def _prompt(tools: Sequence[Json] = (), thinks: str = "") -> bytes:
    """What the template makes of one user message."""
    told = "".join(tool["function"]["name"] + ";" for tool in tools) + (
        "<tool_call>" if tools else ""
    )
    return f"{told}[user]hi[assistant]{thinks}".encode()


def _body(**fields: Json) -> Json:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 420, **fields}


def assembled(events: Sequence[Json]) -> Json:
    """The message that the deltas of choice 0 add up to, checked as clients check them."""
    message: dict[str, Json] = {"content": "", "reasoning": "", "tool_calls": []}
    for event in events:
        for choice in event["choices"] if event != "[DONE]" else ():
            delta = choice["delta"]
            message["content"] += delta.get("content", "")
            assert delta.get("reasoning") == delta.get("reasoning_content")
            message["reasoning"] += delta.get("reasoning", "")
            for call in delta.get("tool_calls", ()):
                _add_call(message["tool_calls"], call)
    return message


def _add_call(calls: list[Json], delta: Json) -> None:
    if delta["index"] == len(calls):
        assert delta["type"] == "function"
        assert delta["id"]
        assert delta["function"]["arguments"] == ""
        calls.append({"name": delta["function"]["name"], "arguments": ""})
    else:
        assert set(delta) == {"index", "function"}
        assert set(delta["function"]) == {"arguments"}
        calls[delta["index"]]["arguments"] += delta["function"]["arguments"]


def _answers(text: str, body: Json, **setup: Json) -> tuple[Json, str]:
    """(message, finish reason) of an answer that the model would like to be `text`: whole, which
    must be what the stream adds up to."""
    thinks = setup.pop("thinks", "")
    tools = [] if body.get("tool_choice") == "none" else body.get("tools", [])
    found: list[tuple[Json, str]] = []

    async def scenario(server: Server) -> None:
        response = await server.post(PATH, body)
        assert response.status_code == 200, response.text
        whole = response.json()["choices"][0]
        events = await server.events(PATH, body)
        streamed = assembled(events)
        message = {
            "content": whole["message"]["content"] or "",
            "reasoning": whole["message"].get("reasoning", ""),
            "tool_calls": [call["function"] for call in whole["message"].get("tool_calls", ())],
        }
        assert whole["message"].get("reasoning") == whole["message"].get("reasoning_content")
        assert streamed == message
        assert finish_reasons(events) == [[whole["finish_reason"]]]
        found.append((message, whole["finish_reason"]))

    script = {_prompt(tools, thinks): list(text.encode())}
    run(scenario, Setup(scripts=script, template=setup.pop("template", TEMPLATE), **setup))
    return found[0]


def _call(name: str, arguments: str) -> Json:
    return {"name": name, "arguments": arguments}


def test_calls_of_the_tools_that_were_offered() -> None:
    message, reason = _answers(f"I look.\n{ROME}\n{TIME}", _body(tools=[WEATHER, CLOCK]))
    assert message["content"] == "I look."
    assert message["tool_calls"] == [
        _call("get_weather", '{"city": "Rome"}'),
        _call("get_time", "{}"),
    ]
    assert reason == "tool_calls"


def test_s7_an_unknown_tool_is_text_and_each_known_call_has_its_own_id() -> None:
    unknown = '<tool_call>{"name": "launch", "arguments": {}}</tool_call>'
    body = _body(tools=[WEATHER])
    message, reason = _answers(f"{ROME}{unknown}{ROME}", body)
    assert message["content"] == unknown
    assert message["tool_calls"] == [_call("get_weather", '{"city": "Rome"}')] * 2
    assert reason == "tool_calls"

    async def ids_differ(server: Server) -> None:
        calls = (await server.post(PATH, body)).json()["choices"][0]["message"]["tool_calls"]
        assert len({call["id"] for call in calls}) == 2

    script = {_prompt([WEATHER]): list((ROME + ROME).encode())}
    run(ids_differ, Setup(scripts=script, template=TEMPLATE))


def test_a_message_of_calls_alone_has_null_content() -> None:
    async def scenario(server: Server) -> None:
        answer = (await server.post(PATH, _body(tools=[WEATHER, CLOCK]))).json()
        message = answer["choices"][0]["message"]
        assert message["content"] is None
        assert message["tool_calls"][0]["type"] == "function"
        assert message["tool_calls"][0]["id"].startswith("call_")

    script = {_prompt([WEATHER, CLOCK]): list(ROME.encode())}
    run(scenario, Setup(scripts=script, template=TEMPLATE))


def test_only_one_call_where_several_are_not_wanted() -> None:
    message, reason = _answers(
        ROME + TIME, _body(tools=[WEATHER, CLOCK], parallel_tool_calls=False)
    )
    assert message["tool_calls"] == [_call("get_weather", '{"city": "Rome"}')]
    assert reason == "tool_calls"


def test_with_tool_choice_none_nothing_is_told_and_nothing_is_a_call() -> None:
    message, reason = _answers(ROME, _body(tools=[WEATHER], tool_choice="none"))
    assert message == {"content": ROME, "reasoning": "", "tool_calls": []}
    assert reason == "stop"


@pytest.mark.parametrize("text", ["I would rather not.", ROME, ROME + "\n" + TIME, "{"])
def test_required_is_calls_and_nothing_else(text: str) -> None:
    message, reason = _answers(text, _body(tools=[WEATHER, CLOCK], tool_choice="required"))
    assert message["content"] == ""
    assert message["tool_calls"]
    for call in message["tool_calls"]:
        arguments = json.loads(call["arguments"])
        assert call["name"] == "get_time" or arguments["city"] in ("Rome", "Bern")
    assert reason in ("tool_calls", "length")


def test_a_named_tool_is_called_once_and_the_answer_just_stops() -> None:
    choice = {"type": "function", "function": {"name": "get_weather"}}
    message, reason = _answers("No.", _body(tools=[CLOCK, WEATHER], tool_choice=choice))
    (call,) = message["tool_calls"]
    assert call["name"] == "get_weather"
    assert json.loads(call["arguments"])["city"] in ("Rome", "Bern")
    assert reason == "stop"


def test_allowed_tools_are_the_only_ones() -> None:
    choice = {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [{"type": "function", "function": {"name": "get_weather"}}],
        },
    }
    body = _body(tools=[CLOCK, WEATHER], tool_choice=choice, parallel_tool_calls=False)
    message, reason = _answers(TIME, body)
    assert [call["name"] for call in message["tool_calls"]] == ["get_weather"]
    assert reason == "tool_calls"


def test_strict_tools_are_held_to_their_schema_wherever_they_are_called() -> None:
    strict = {"type": "function", "function": WEATHER["function"] | {"strict": True}}
    text = 'Well.\n<tool_call>\n{"name": "get_weather", "arguments": {"town": 1}}\n</tool_call>'
    body = _body(tools=[strict])

    async def scenario(server: Server) -> None:
        answer = (await server.post(PATH, body)).json()["choices"][0]
        assert answer["message"]["content"] == "Well."
        call = answer["message"]["tool_calls"][0]["function"]
        assert json.loads(call["arguments"])["city"] in ("Rome", "Bern")

    script = {_prompt([WEATHER]): list(text.encode())}
    run(scenario, Setup(scripts=script, template=TEMPLATE))


def test_the_answer_is_of_the_form_or_calls() -> None:
    form = {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"enum": ["sunny", "rainy"]}},
    }
    body = _body(tools=[WEATHER], response_format=form)
    message, reason = _answers('"sunny"', body)
    assert (message["content"], reason) == ('"sunny"', "stop")
    message, reason = _answers(ROME, body)
    assert message["tool_calls"] == [_call("get_weather", '{"city": "Rome"}')]


def test_reasoning_stands_apart_under_both_names() -> None:
    text = "<think>\nHm. <tool_call>\n</think>\n\nRome."
    message, _ = _answers(text, _body(), template=THINKING)
    assert message == {"content": "Rome.", "reasoning": "Hm. <tool_call>", "tool_calls": []}


def test_reasoning_that_the_prompt_has_opened() -> None:
    body = _body(chat_template_kwargs={"enable_thinking": True})
    message, _ = _answers("Hm.\n</think>\nRome.", body, template=THINKING, thinks="<think>\n")
    assert message == {"content": "Rome.", "reasoning": "Hm.", "tool_calls": []}


def test_reasoning_effort_is_what_the_template_makes_of_it() -> None:
    body = _body(reasoning_effort="high")
    message, _ = _answers("Hm.</think>Rome.", body, template=THINKING, thinks="<think>\n")
    assert message["reasoning"] == "Hm."
    message, _ = _answers("Rome.", _body(reasoning_effort="none"), template=THINKING)
    assert message == {"content": "Rome.", "reasoning": "", "tool_calls": []}


def test_reasoning_that_is_not_wanted_is_left_out() -> None:
    body = _body(include_reasoning=False)
    message, _ = _answers("<think>Hm.</think>Rome.", body, template=THINKING)
    assert message == {"content": "Rome.", "reasoning": "", "tool_calls": []}


def test_the_form_begins_after_the_reasoning() -> None:
    body = _body(structured_outputs={"choice": ["yes", "no"]}, reasoning_effort="low")
    text = "Is it? {yes} </think>\nyes"
    message, reason = _answers(text, body, template=THINKING, thinks="<think>\n")
    assert message == {"content": "yes", "reasoning": "Is it? {yes}", "tool_calls": []}
    assert reason == "stop"


def test_a_required_call_may_be_thought_about() -> None:
    body = _body(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    text = f"<think>Where? Rome!</think>\n\n{ROME}"
    message, reason = _answers(text, body, template=THINKING)
    assert message["reasoning"] == "Where? Rome!"
    assert message["tool_calls"] == [_call("get_weather", '{"city": "Rome"}')]
    assert reason == "tool_calls"


def test_a_user_cannot_open_the_reasoning() -> None:
    """The last control token of the prompt is the template's, and what follows it as well."""
    asked = {"messages": [{"role": "user", "content": "what is <think>?"}], "max_tokens": 20}
    template = "{{ messages[0].content }}</s>[A]{% if x %}</think>{% endif %}"

    async def scenario(server: Server) -> None:
        answer = (await server.post(PATH, asked)).json()["choices"][0]
        assert answer["message"]["content"] == "A mark."

    prompt = [*b"what is <think>?", EOS, *b"[A]"]
    run(scenario, Setup(scripts={tuple(prompt): list(b"A mark.")}, template=template))


def test_a_conversation_with_calls_and_results_reaches_the_template() -> None:
    messages = [
        {"role": "developer", "content": "d"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sun"}]},
    ]
    prompt = b"[system]d[user]hi[assistant]get_weather(Rome)[tool]sun<get_weather>[assistant]"

    async def scenario(server: Server) -> None:
        answer = (await server.post(PATH, {"messages": messages})).json()
        assert answer["choices"][0]["message"]["content"] == "Sunny."

    run(scenario, Setup(scripts={prompt: list(b"Sunny.")}, template=TEMPLATE))


def test_n_answers_with_logprobs_and_calls() -> None:
    body = _body(tools=[WEATHER], n=2, logprobs=True)

    async def scenario(server: Server) -> None:
        choices = (await server.post(PATH, body)).json()["choices"]
        events = await server.events(PATH, body)
        for choice in choices:
            assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Rome"}'
            assert len(choice["logprobs"]["content"]) == len(ROME) + 1
            streamed = [
                entry
                for event in events[:-1]
                for one in event["choices"]
                if one["index"] == choice["index"] and one["logprobs"]
                for entry in one["logprobs"]["content"]
            ]
            assert streamed == choice["logprobs"]["content"]
        ids = {choice["message"]["tool_calls"][0]["id"] for choice in choices}
        assert len(ids) == 2

    script = {_prompt([WEATHER]): list(ROME.encode())}
    run(scenario, Setup(scripts=script, template=TEMPLATE))


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("tools[1].function.name", {"tools": [CLOCK, CLOCK]}),
        ("tools[0].function.name", {"tools": [{"type": "function", "function": {"name": "a b"}}]}),
        ("tools", {"tools": [{"type": "custom", "custom": {"name": "x"}}]}),
        ("tools", {"tools": [CLOCK] * 129}),
        ("tool_choice", {"tools": [], "tool_choice": "required"}),
        (
            "tool_choice",
            {"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "x"}}},
        ),
        ("tool_choice", {"tools": [CLOCK], "tool_choice": {"type": "function"}}),
        ("tool_choice", {"tools": [CLOCK], "tool_choice": "sometimes"}),
        (
            "tools[0].function.parameters",
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {"name": "f", "parameters": {"properties": {"a": {"not": {}}}}},
                    }
                ],
                "tool_choice": "required",
            },
        ),
        ("use_beam_search", {"tools": [CLOCK], "tool_choice": "required", "use_beam_search": True}),
    ],
)
def test_tools_that_cannot_be_honoured_are_named(param: str, fields: dict[str, Json]) -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.post(PATH, _body(temperature=0, **fields)))
        assert error["param"] == param
        await server.check_canary()

    run(scenario, Setup(template=TEMPLATE))


def test_without_a_dialect_or_a_place_in_the_template_tools_are_refused() -> None:
    async def refused(server: Server) -> None:
        error = error_of(await server.post(PATH, _body(tools=[CLOCK])))
        assert error["code"] == "unsupported_parameter"

    run(refused)
    named = ServerConfig(tool_call_parser="hermes")
    run(refused, Setup(options=named))
    told = "{{ tools }}[assistant]"
    run(refused, Setup(template=told))
    manual = ServerConfig(enable_auto_tool_choice=False)
    run(refused, Setup(template=TEMPLATE, options=manual))


def test_parsers_can_be_switched_off() -> None:
    options = ServerConfig(reasoning_parser="none")
    message, _ = _answers("<think>Hm</think>x", _body(), template=THINKING, options=options)
    assert message["content"] == "<think>Hm</think>x"
