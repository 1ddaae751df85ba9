"""D6: a stream adds up to the whole answer, whatever was asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest

from octavo.config.server import ServerConfig
from octavo.core.outputs import FORM_NOT_KEPT
from tests.fakes import EOS
from tests.masked_runner import MaskedRunner
from tests.sampled_runner import SampledRunner
from tests.server.harness import Brake, Json, Server, Setup, run
from tests.server.random_requests import SCRIPTS, TEMPLATE, random_request

NUM_REQUESTS = 500
NUM_PARTS = 20
NUM_AT_ONCE = 4


class SampledSetup(Setup):
    def make_runner(self, brake: Brake) -> MaskedRunner:
        return SampledRunner(self.num_pages, 4, follow_script, on_run=brake.wait)


def follow_script(context: list[int], _seed: int) -> int:
    """The next byte of the script that the prompt names, which EOS ends."""
    text = bytes(token if token < 256 else 0 for token in context)
    found = re.search(rb"#(\d)#", text)
    script = SCRIPTS[int(found[1]) if found else 0].encode()
    position = len(text) - (text.rfind(b"[assistant]") + len(b"[assistant]"))
    return script[position] if position < len(script) else EOS


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_a_stream_adds_up_to_the_whole_answer(part: int) -> None:
    async def scenario(server: Server) -> None:
        seeds = range(part, NUM_REQUESTS, NUM_PARTS)
        for first in range(0, len(seeds), NUM_AT_ONCE):
            await asyncio.gather(*(compare(server, x) for x in seeds[first : first + NUM_AT_ONCE]))

    options = ServerConfig(max_num_queued_reqs=64)
    run(scenario, SampledSetup(template=TEMPLATE, options=options, num_pages=2048))


async def compare(server: Server, seed: int) -> None:
    path, body = random_request(seed)
    usage = {"stream_options": {"include_usage": True, "continuous_usage_stats": seed % 3 == 0}}
    response, events = await asyncio.gather(
        server.post(path, {**body, "cache_salt": f"whole {seed}"}),
        server.events(path, {**body, **usage, "cache_salt": f"stream {seed}"}),
    )
    whole = response.json()
    if "error" in whole:  # what nobody can know before: no token is left that all parameters allow
        assert (response.status_code, whole["error"]["message"]) == (400, FORM_NOT_KEPT)
        assert events[-1] == whole
        assert "[DONE]" not in events
        return
    assert events[-1] == "[DONE]"
    assert events.count("[DONE]") == 1
    *chunks, last = events[:-1]
    assert last["choices"] == []
    assert last["usage"] == whole["usage"]
    assert summed(chunks, len(whole["choices"])) == [said(one) for one in whole["choices"]], seed


def said(choice: Json) -> Json:
    """What a whole answer's choice says."""
    message = choice.get("message", {})
    return {
        "text": choice.get("text", message.get("content") or ""),
        "reasoning": message.get("reasoning", ""),
        "calls": [call["function"] for call in message.get("tool_calls", ())],
        "logprobs": choice["logprobs"],
        "token_ids": choice.get("token_ids", []),
        "ends": [(choice["finish_reason"], choice.get("stop_reason"))],
    }


def summed(chunks: Sequence[Json], num_choices: int) -> list[Json]:
    """The same of all chunks."""
    choices: list[Json] = [
        {"text": "", "reasoning": "", "calls": [], "logprobs": None, "token_ids": [], "ends": []}
        for _ in range(num_choices)
    ]
    for chunk in chunks:
        for choice in chunk["choices"]:
            add(choices[choice["index"]], choice)
    return choices


def add(total: Json, choice: Json) -> None:
    assert not total["ends"], "something comes after the finish reason"
    delta = choice.get("delta", {})
    total["text"] += choice.get("text", delta.get("content") or "")
    total["reasoning"] += delta.get("reasoning", "")
    total["token_ids"] += choice.get("token_ids") or []
    for call in delta.get("tool_calls", ()):
        if call["index"] == len(total["calls"]):
            total["calls"].append({"name": call["function"]["name"], "arguments": ""})
        total["calls"][call["index"]]["arguments"] += call["function"]["arguments"]
    if choice.get("logprobs"):
        total["logprobs"] = total["logprobs"] or {name: [] for name in choice["logprobs"]}
        for name, values in choice["logprobs"].items():
            total["logprobs"][name] += values
    if choice["finish_reason"] is not None:
        total["ends"].append((choice["finish_reason"], choice.get("stop_reason")))
