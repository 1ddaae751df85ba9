"""Answers of a form, however that is asked for, and forms that are none (S1 to S5, D13)."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

import jsonschema
import pytest

from octavo.structured.compiler import GrammarCompiler
from tests.server.harness import (
    Json,
    Server,
    Setup,
    choice_texts,
    error_of,
    finish_reasons,
    run,
)
from tests.server.test_disconnect import AsgiClient

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "name": {"enum": ["Ann", "Bob"]}},
    "required": ["ok", "name"],
    "additionalProperties": False,
}
SILENT = """
import sys, time
from octavo.structured.frames import frame
sys.stdout.buffer.write(frame(b""))
sys.stdout.flush()
time.sleep(60)
"""
TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "maxItems": 2, "items": {"$ref": "#"}}},
    "additionalProperties": False,
}


def _is_person(text: str) -> None:
    jsonschema.validate(json.loads(text), SCHEMA)


def _is(*texts: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        assert text in texts

    return check


def _is_object(text: str) -> None:
    assert isinstance(json.loads(text), dict)


def _is_closed(text: str) -> None:
    assert set(json.loads(text)) <= {"a"}


def _is_tagged(text: str) -> None:
    head, _, rest = text.partition("<f>")
    assert not rest or json.loads(rest.partition("</f>")[0]) is not None
    assert "<f>" not in head


TAG = {"structures": [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}], "triggers": ["<f>"]}
WAYS: list[tuple[Json, Callable[[str], None]]] = [
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        _is_person,
    ),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, _is_person),
    ({"response_format": {"type": "structural_tag", **TAG}, "ignore_eos": False}, _is_tagged),
    ({"structured_outputs": {"json": SCHEMA}}, _is_person),
    ({"structured_outputs": {"json": json.dumps(SCHEMA), "whitespace_pattern": " ?"}}, _is_person),
    (
        {"structured_outputs": {"json": {"properties": {"a": {"type": "null"}}, "type": "object"},
                                "disable_additional_properties": True}},
        _is_closed,
    ),
    ({"structured_outputs": {"choice": ["yes", "no"]}}, _is("yes", "no")),
    ({"structured_outputs": {"regex": "a{3}|b"}}, _is("aaa", "b")),
    ({"structured_outputs": {"grammar": 'root ::= "x" | "y"'}}, _is("x", "y")),
    ({"structured_outputs": {"structural_tag": json.dumps(TAG)}}, _is_tagged),
    ({"guided_json": SCHEMA, "guided_decoding_backend": "outlines"}, _is_person),
    ({"guided_json": json.dumps(SCHEMA), "guided_whitespace_pattern": ""}, _is_person),
    ({"guided_choice": ["yes", "no"]}, _is("yes", "no")),
    ({"guided_regex": "a{3}|b"}, _is("aaa", "b")),
    ({"guided_grammar": 'start: "x" | "y"'}, _is("x", "y")),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "check"), WAYS)
def test_every_way_of_asking_in_chat_and_completions_whole_and_streamed(
    fields: Json, check: Callable[[str], None]
) -> None:
    messages = [{"role": "user", "content": "say"}]

    async def scenario(server: Server) -> None:
        for path, prompt in (
            ("/v1/completions", {"prompt": "say"}),
            ("/v1/chat/completions", {"messages": messages}),
        ):
            body = {**prompt, **fields, "max_tokens": 400, "seed": 3, "n": 2}
            response = await server.post(path, body)
            assert response.status_code == 200, response.text
            choices = response.json()["choices"]
            events = await server.events(path, body)
            texts = [one["text"] if "text" in one else one["message"]["content"] for one in choices]
            assert choice_texts(events, 2) == texts
            assert finish_reasons(events, 2) == [[one["finish_reason"]] for one in choices]
            for choice, text in zip(choices, texts, strict=True):
                if choice["finish_reason"] == "stop":
                    check(text)
            is_free = check is _is_tagged  # and none that draws bytes by chance comes to an end
            assert is_free or "stop" in {choice["finish_reason"] for choice in choices}

    run(scenario)


def _refused(param: str, says: str, **fields: Json) -> None:
    async def scenario(server: Server) -> None:
        start = time.monotonic()
        error = error_of(await server.complete("a", **fields))
        assert time.monotonic() - start < 20  # of one second, on a machine that does much else
        assert error["param"] == param
        assert says in error["message"]
        await server.check_canary()

    run(scenario)


@pytest.mark.parametrize("regex", ["foo**", "(", "[z-a]", "a{99999}{99999}"])
def test_s1_regexes_that_are_none_or_too_much(regex: str) -> None:
    _refused("structured_outputs.regex", "", structured_outputs={"regex": regex})
    _refused("guided_regex", "", guided_regex=regex)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"properties": {"a": {"type": "text"}}}, "/properties/a/type"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "/properties/a/$ref"),
        ({"items": {"enum": []}}, "/items/enum"),
        ({"anyOf": [{"minimum": 2, "maximum": 1}]}, "/anyOf/0"),
        ({"not": {}}, "/not"),
    ],
)
def test_s2_schemas_that_cannot_be_kept_are_named_by_their_place(schema: Json, place: str) -> None:
    _refused("structured_outputs.json", place, structured_outputs={"json": schema})
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    _refused("response_format", place, response_format=form)
    _refused("guided_json", place, guided_json=schema)


@pytest.mark.parametrize(
    "grammar",
    ['root ::= root "a" | "b"', "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000],
)
def test_s3_grammars_that_recur_or_are_nested_end_nobody(grammar: str) -> None:
    async def scenario(server: Server) -> None:
        response = await server.complete("a", structured_outputs={"grammar": grammar})
        if response.status_code == 200:
            text = response.json()["choices"][0]["text"]
            assert text.startswith("b")
            assert set(text[1:]) <= {"a"}
        else:
            assert error_of(response)["param"] == "structured_outputs.grammar"
        await server.check_canary()

    run(scenario)


def test_s4_a_schema_that_refers_to_itself() -> None:
    async def scenario(server: Server) -> None:
        for seed in range(5):
            body = {"structured_outputs": {"json": TREE}, "max_tokens": 300, "seed": seed}
            choice = (await server.complete("a", **body)).json()["choices"][0]
            if choice["finish_reason"] == "stop":
                jsonschema.validate(json.loads(choice["text"]), TREE)

    run(scenario)


def test_s5_any_json_at_all() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}

    async def scenario(server: Server) -> None:
        for seed in range(5):
            body = {"response_format": form, "max_tokens": 200, "seed": seed}
            choice = (await server.complete("a", **body)).json()["choices"][0]
            assert choice["finish_reason"] in ("stop", "length")
            if choice["finish_reason"] == "stop":
                json.loads(choice["text"])

    run(scenario)


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("structured_outputs", {"guided_json": {}, "structured_outputs": {"regex": "a"}}),
        ("response_format", {"guided_regex": "a", "response_format": {"type": "json_object"}}),
        ("guided_choice", {"guided_regex": "a", "guided_choice": ["a"]}),
        ("structured_outputs", {"structured_outputs": {"regex": "a", "choice": ["a"]}}),
        ("structured_outputs", {"structured_outputs": {}}),
        ("structured_outputs.choice", {"structured_outputs": {"choice": []}}),
        ("structured_outputs.whitespace_pattern",
         {"structured_outputs": {"regex": "a", "whitespace_pattern": " "}}),
        ("structured_outputs.json", {"structured_outputs": {"json": "{"}}),
        ("structured_outputs", {"structured_outputs": {"jsn": {}}}),
        ("response_format", {"response_format": {"type": "json_schema"}}),
        ("response_format", {"response_format": {"type": "json_schema", "json_schema": {}}}),
        ("guided_whitespace_pattern", {"guided_whitespace_pattern": " "}),
        ("guided_decoding_backend", {"guided_json": {}, "guided_decoding_backend": "x"}),
        ("structured_outputs", {"structured_outputs": {"regex": "a"}, "use_beam_search": True,
                                "temperature": 0}),
    ],
)  # fmt: skip
def test_forms_that_contradict_themselves_or_each_other(param: str, fields: Json) -> None:
    _refused(param, "", **fields)


def test_a_form_that_asks_for_nothing() -> None:
    async def scenario(server: Server) -> None:
        for fields in ({"response_format": {"type": "text"}}, {"guided_json_object": False}):
            plain = await server.complete("a", max_tokens=8, seed=1)
            same = await server.complete("a", max_tokens=8, seed=1, **fields)
            assert same.json()["choices"] == plain.json()["choices"]

    run(scenario)


def _silent() -> Setup:
    return Setup(compiler=GrammarCompiler(command=[sys.executable, "-c", SILENT]))


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_may_go_while_its_grammar_is_compiled(stream: bool) -> None:
    async def scenario(server: Server) -> None:
        body = {"prompt": "a", "structured_outputs": {"regex": "a"}, "stream": stream}
        clients = [AsgiClient(server, "/v1/completions", body) for _ in range(3)]
        while len(server.context.open_requests) < 3:
            await asyncio.sleep(0.001)
        for client in clients:
            client.disconnect()
        await asyncio.wait_for(asyncio.gather(*(client.task for client in clients)), 0.5)
        assert len(server.context.open_requests) == 0
        await server.check_canary()

    run(scenario, _silent())


def test_d13_health_answers_while_grammars_take_all_they_may() -> None:
    bombs = ["(" * 200 + f"a{{{n}}}" + ")*" * 200 for n in (3000, 3001, 3002)]

    async def scenario(server: Server) -> None:
        work = [
            asyncio.create_task(server.complete("a", structured_outputs={"regex": bomb}))
            for bomb in bombs
        ]
        slowest = 0.0
        while not all(task.done() for task in work):
            start = time.thread_time()
            assert (await server.http.get("/health")).status_code == 200
            slowest = max(slowest, time.thread_time() - start)
            await asyncio.sleep(0.005)
        assert slowest < 0.25
        for task in work:
            error_of(await task)

    run(scenario)
