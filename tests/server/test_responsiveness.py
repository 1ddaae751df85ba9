"""While one request is being read, tokenised or rendered, others are answered (D13)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

import pytest

from tests.server.harness import TIMEOUT_SECONDS as PATIENCE
from tests.server.harness import ChatByteTokenizer, Json, Server, Setup, run

LARGE = {"metadata": {"x": "y" * 20_000}}


class HeldTokenizer(ChatByteTokenizer):
    """Begins to encode when asked, and goes on when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()

    def encode(
        self, text: str, *, add_special_tokens: bool, parse_special: bool = False
    ) -> list[int]:
        self._hold()
        return super().encode(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        )

    def encode_parts(self, parts: Iterable[str | int]) -> list[int]:
        self._hold()
        return super().encode_parts(parts)

    def _hold(self) -> None:
        self.has_begun.set()
        assert self.may_go_on.wait(PATIENCE)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "a", **LARGE}),
        ("/tokenize", {"prompt": "a", **LARGE}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], **LARGE}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("/tokenize", {"messages": [{"role": "user", "content": "a"}]}),
    ],
)
def test_health_is_answered_while_a_prompt_is_tokenised(path: str, body: Json) -> None:
    tokenizer = HeldTokenizer()

    async def scenario(server: Server) -> None:
        posting = asyncio.create_task(server.post(path, body))
        try:
            while not tokenizer.has_begun.is_set():
                await asyncio.sleep(0.001)
            for _ in range(20):
                assert (await server.http.get("/health")).status_code == 200
        finally:
            tokenizer.may_go_on.set()
        assert (await posting).status_code in (200, 400)

    run(scenario, Setup(tokenizer=tokenizer))
