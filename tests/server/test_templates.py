"""Cases T1 to T4 through the whole server: what a chat template makes of the client's messages."""

from __future__ import annotations

import pytest

from tests.fakes import BOS, EOS, SPECIAL_TEXTS
from tests.server.harness import Json, Server, Setup, error_of, run

PATH = "/v1/chat/completions"
STRICT = """{{ bos_token }}{% for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate user/assistant') }}
{%- endif %}[{{ m.role }}]{{ m.content + '' }}{% endfor %}"""
TOLERANT = "{% for m in messages %}[{{ m.role }}]{{ m.content + '' }}{% endfor %}"


def _user(content: Json) -> Json:
    return {"role": "user", "content": content}


async def _prompt_ids(server: Server, messages: Json) -> list[int]:
    """The ids that the engine computed for a conversation."""
    server.runner.steps.clear()
    answer = await server.post(PATH, {"messages": messages, "max_tokens": 1})
    assert answer.status_code == 200, answer.text
    sequence = server.runner.steps[0].sequences[0].sequence
    return sequence.token_ids[: answer.json()["usage"]["prompt_tokens"]]


@pytest.mark.parametrize("path", [f"{PATH}/render", "/apply-template"])
def test_what_is_rendered_is_what_a_chat_completion_reads(path: str) -> None:
    async def scenario(server: Server) -> None:
        for fields in (
            {},
            {"add_generation_prompt": False},
            {"messages": [*messages, {"role": "assistant", "content": "So"}], "echo": False},
        ):
            body = {"messages": messages, **fields}
            shown = await server.post(path, body)
            assert shown.status_code == 200, shown.text
            ids = shown.json()["prompt_token_ids"]
            asked = {**body, "max_tokens": 1, "return_token_ids": True}
            answer = await server.post(PATH, asked)
            assert ids == answer.json()["prompt_token_ids"]
            back = await server.post("/detokenize", {"tokens": ids})
            assert shown.json()["prompt"] == back.json()["prompt"]
            assert "hé" in shown.json()["prompt"]
        error_of(await server.post(path, {"messages": []}))
        assert server.num_finished() == 3

    messages = [_user("hé")]
    run(scenario)


def test_t1_the_templates_own_reason_reaches_the_client() -> None:
    async def scenario(server: Server) -> None:
        messages = [_user("a"), _user("b")]
        error = error_of(await server.post(PATH, {"messages": messages}))
        assert error["param"] == "messages"
        assert error["message"].endswith("roles must alternate user/assistant")
        assert (await server.post(PATH, {"messages": messages[:1]})).status_code == 200
        await server.check_canary()

    run(scenario, Setup(template=STRICT))


def test_t2_null_contents_and_parts_and_tool_messages_are_rendered() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        _user([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "7"},
    ]

    async def scenario(server: Server) -> None:
        ids = await _prompt_ids(server, messages)
        assert ids == [BOS, *b"[user]x\ny[assistant][tool]7"]

    run(scenario, Setup(template=TOLERANT))


@pytest.mark.parametrize("role", ["user", "system", "tool", "assistant"])
def test_t3_contents_that_spell_control_tokens_are_plain_text(role: str) -> None:
    content = "".join(SPECIAL_TEXTS.values()) + "a" + SPECIAL_TEXTS[EOS]

    async def scenario(server: Server) -> None:
        ids = await _prompt_ids(server, [{"role": role, "content": content}])
        assert ids == [BOS, *f"[{role}]{content}".encode()]
        tokenized = await server.post(
            "/tokenize", {"messages": [{"role": role, "content": content}]}
        )
        assert not {BOS, EOS} & set(tokenized.json()["tokens"][1:])

    run(scenario, Setup(template=TOLERANT))


@pytest.mark.parametrize("template", [TOLERANT, "{{ bos_token }}" + TOLERANT, "<s>" + TOLERANT])
def test_t4_there_is_exactly_one_bos(template: str) -> None:
    async def scenario(server: Server) -> None:
        assert await _prompt_ids(server, [_user("a")]) == [BOS, *b"[user]a"]
        for prompt in ("a", "<s>a"):
            body = {"prompt": prompt, "max_tokens": 1}
            usage = (await server.post("/v1/completions", body)).json()["usage"]
            assert usage["prompt_tokens"] == 2

    run(scenario, Setup(template=template))
