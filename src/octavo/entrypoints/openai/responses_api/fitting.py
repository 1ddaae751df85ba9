"""A turn whose oldest messages are left out if the conversation is too long: `truncation: auto`.

Instructions stay, and what is kept begins with a message of the user, so that no result of a tool
loses its call.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.openai.chat.parsed_answers import ParsedAnswers
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.turn import ChatTurn
from octavo.entrypoints.openai.intake.context import Incoming
from octavo.entrypoints.openai.intake.open_requests import Generation
from octavo.errors import PromptTooLong

_STAYS = ("system", "developer")


class FittingTurn:
    """As `ChatTurn`."""

    def __init__(self, incoming: Incoming, body: ChatRequest) -> None:
        self._incoming = incoming
        self._body = body
        self._turn = ChatTurn(incoming, body)

    @property
    def params(self) -> SamplingParams:
        return self._turn.params

    @property
    def prompts(self) -> Sequence[object]:
        return self._turn.prompts

    def answers(self, generation: Generation) -> ParsedAnswers:
        return self._turn.answers(generation)

    async def make_requests(self) -> list[EngineRequest]:
        """Leaves out as little as possible. Raises as `ChatTurn` if the last question alone does
        not fit."""
        try:
            return await self._turn.make_requests()
        except PromptTooLong:
            self._turn = await self._fitting() or self._turn
        return await self._turn.make_requests()

    async def _fitting(self) -> ChatTurn | None:
        messages = self._body.messages
        roles = [message.get("role") for message in messages]
        num_staying = next((n for n, role in enumerate(roles) if role not in _STAYS), len(roles))
        starts = [n for n, role in enumerate(roles) if role == "user" and n > num_staying]
        fits: dict[int, bool] = {}
        low, high = 0, len(starts)
        while low < high:  # the later it starts, the shorter it is
            middle = (low + high) // 2
            fits[middle] = await self._fits(self._without(num_staying, starts[middle]))
            low, high = (low, middle) if fits[middle] else (middle + 1, high)
        return self._without(num_staying, starts[low]) if fits.get(low) else None

    def _without(self, num_staying: int, start: int) -> ChatTurn:
        messages = self._body.messages
        kept = [*messages[:num_staying], *messages[start:]]
        return ChatTurn(self._incoming, replace(self._body, messages=kept))

    async def _fits(self, turn: ChatTurn) -> bool:
        try:
            num_ids = len(await turn.prompt_ids())
        except PromptTooLong:
            return False
        room = self._incoming.context.model.max_model_len - num_ids
        return room >= (turn.params.max_tokens or 1)
