"""`POST /v1/chat/completions`: from the decoded body to the whole answer or its events; and to what
the model would read, without an answer."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from octavo.core.outputs import TokenLogprobs
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.chat.events import ChatEvents
from octavo.entrypoints.openai.chat.objects import (
    ChatBody,
    ChatChoice,
    ChatMessage,
    FunctionCall,
    RenderedBody,
    ToolCallBody,
)
from octavo.entrypoints.openai.chat.parsed_answers import WholeAnswer
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.turn import ChatTurn
from octavo.entrypoints.openai.generation.answers import AnswerHead, ChoiceRecord, respond
from octavo.entrypoints.openai.generation.logprobs import (
    TokenIdSpelling,
    TokenSpelling,
    chat_logprobs,
    prompt_logprobs,
)
from octavo.entrypoints.openai.generation.objects import ChatLogprobs, PromptLogprobs
from octavo.entrypoints.openai.http.errors import json_response
from octavo.entrypoints.openai.intake.context import Incoming, receive_body, receive_counted
from octavo.entrypoints.openai.intake.open_requests import Generation
from octavo.parsing.events import ParsedOutput


async def create_chat_completion(request: Request) -> Response:
    incoming, body = await receive_body(request, ChatRequest)
    turn = ChatTurn(incoming, body)
    return await respond(incoming, body, turn, ChatAnswer(incoming, body, turn))


async def render_chat(request: Request) -> Response:
    """As what a model reads a chat completion's conversation, tools and all."""
    incoming, body = await receive_counted(request, ChatRequest)
    ids = await ChatTurn(incoming, body).prompt_ids()
    tokenizer = incoming.context.inputs.tokenizer
    text = await incoming.work(lambda: tokenizer.decode(ids, skip_special_tokens=False))
    return json_response(RenderedBody(prompt=text, prompt_token_ids=ids))


class ChatAnswer:
    """The wire form of one chat completion."""

    def __init__(self, incoming: Incoming, body: ChatRequest, turn: ChatTurn) -> None:
        self.id = new_id("chatcmpl-")
        self._turn = turn
        self._head = AnswerHead(incoming, body, self.id)
        tokenizer = incoming.context.inputs.tokenizer
        named_by_id = body.return_tokens_as_token_ids
        self._spelling: TokenSpelling = TokenIdSpelling(tokenizer) if named_by_id else tokenizer
        self._wants_logprobs = bool(body.logprobs)
        self._wants_ids = body.return_token_ids

    async def whole(self, generation: Generation) -> Response:
        answers = self._turn.answers(generation)
        wholes = await answers.collect()
        body = ChatBody(
            id=self.id,
            created=self._head.created,
            model=self._head.model,
            choices=[self._choice(index, whole) for index, whole in enumerate(wholes)],
            usage=answers.counter.usage(),
            prompt_logprobs=self._prompt_logprobs(wholes[0].record),
            prompt_token_ids=(
                generation.requests[0].prompt_token_ids if self._wants_ids else UNSET
            ),
        )
        return json_response(body)

    def writer(self, generation: Generation) -> ChatEvents:
        spelling = self._spelling if self._wants_logprobs else None
        return ChatEvents(
            self._head,
            self._turn.answers(generation),
            spelling,
            echo=self._turn.echo,
            prompt_ids=generation.requests[0].prompt_token_ids if self._wants_ids else None,
        )

    def _choice(self, index: int, whole: WholeAnswer) -> ChatChoice:
        return ChatChoice(
            index=index,
            message=_message(whole.parsed, self._turn.echo),
            logprobs=self._logprobs(whole.record.logprobs),
            finish_reason=whole.finish_reason,
            stop_reason=whole.record.stop_reason,
            token_ids=whole.record.token_ids if self._wants_ids else UNSET,
        )

    def _prompt_logprobs(self, record: ChoiceRecord) -> PromptLogprobs | UnsetType:
        if record.prompt_logprobs is None:
            return UNSET
        return prompt_logprobs(self._spelling, record.prompt_logprobs)

    def _logprobs(self, entries: list[TokenLogprobs] | None) -> ChatLogprobs | None:
        return chat_logprobs(self._spelling, entries or ()) if self._wants_logprobs else None


def _message(parsed: ParsedOutput, echo: str) -> ChatMessage:
    calls = [
        ToolCallBody(call.id, FunctionCall(call.name, call.arguments)) for call in parsed.tool_calls
    ]
    return ChatMessage(
        content=(echo + parsed.content) or (None if calls else ""),
        reasoning=parsed.reasoning or UNSET,
        reasoning_content=parsed.reasoning or UNSET,
        tool_calls=calls or UNSET,
    )
