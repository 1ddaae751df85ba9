"""`POST /v1/chat/completions`: from the decoded body to the whole answer or its events."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from octavo.core.outputs import SequenceOutput, TokenLogprobs
from octavo.core.request import EngineRequest
from octavo.entrypoints.openai.answers import (
    AnswerHead,
    ChoiceRecord,
    collect,
    respond,
    wire_finish_reason,
)
from octavo.entrypoints.openai.chat_request import ChatRequest
from octavo.entrypoints.openai.context import Incoming, new_id, receive_body
from octavo.entrypoints.openai.errors import json_response
from octavo.entrypoints.openai.logprobs import TokenSpelling, chat_logprobs, prompt_logprobs
from octavo.entrypoints.openai.open_requests import Generation
from octavo.entrypoints.openai.responses import (
    ChatBody,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatDelta,
    ChatLogprobs,
    ChatMessage,
    PromptLogprobs,
    Usage,
)
from octavo.entrypoints.openai.sampling import chat_params
from octavo.entrypoints.openai.streaming import DONE, TextEvent, event
from octavo.entrypoints.openai.usage import UsageCounter


async def create_chat_completion(request: Request) -> Response:
    incoming, body = await receive_body(request, ChatRequest)
    params = chat_params(body)

    def make_requests() -> list[EngineRequest]:
        made = incoming.context.inputs.chat(
            body.messages,
            params,
            add_generation_prompt=body.add_generation_prompt,
            template_kwargs=body.chat_template_kwargs,
            cache_salt=incoming.cache_salt(body),
        )
        return [made]

    answer = ChatAnswer(incoming, body)
    return await respond(incoming, body, answer, params, [body.messages], make_requests)


class ChatAnswer:
    """The wire form of one chat completion."""

    def __init__(self, incoming: Incoming, body: ChatRequest) -> None:
        self.id = new_id("chatcmpl")
        self._head = AnswerHead(incoming, body, self.id)
        self._spelling = incoming.context.inputs.tokenizer
        self._wants_logprobs = bool(body.logprobs)

    async def whole(self, generation: Generation) -> Response:
        records, usage = await collect(generation)
        body = ChatBody(
            id=self.id,
            created=self._head.created,
            model=self._head.model,
            choices=[self._choice(index, record) for index, record in enumerate(records)],
            usage=usage,
            prompt_logprobs=self._prompt_logprobs(records[0]),
        )
        return json_response(body)

    def writer(self, generation: Generation) -> ChatEvents:
        spelling = self._spelling if self._wants_logprobs else None
        return ChatEvents(self._head, generation, spelling)

    def _choice(self, index: int, record: ChoiceRecord) -> ChatChoice:
        return ChatChoice(
            index=index,
            message=ChatMessage(record.text),
            logprobs=self._logprobs(record.logprobs),
            finish_reason=record.finish_reason,
            stop_reason=record.stop_reason,
        )

    def _prompt_logprobs(self, record: ChoiceRecord) -> PromptLogprobs | UnsetType:
        if record.prompt_logprobs is None:
            return UNSET
        return prompt_logprobs(self._spelling, record.prompt_logprobs)

    def _logprobs(self, entries: list[TokenLogprobs] | None) -> ChatLogprobs | None:
        return chat_logprobs(self._spelling, entries or ()) if self._wants_logprobs else None


class ChatEvents:
    """Per choice: its role, its text, its finish. Then usage if asked for, and the end mark.

    `spelling` is given when log probabilities are wanted.
    """

    def __init__(
        self, head: AnswerHead, generation: Generation, spelling: TokenSpelling | None
    ) -> None:
        self._head = head
        self._counter = UsageCounter(generation.requests)
        self._spelling = spelling
        self._texts: dict[int, TextEvent] = {}

    def write(self, choice: int, output: SequenceOutput) -> bytes:
        self._counter.add(choice, output)
        usage = self._head.chunk_usage(self._counter)
        data = b""
        if choice not in self._texts:
            self._texts[choice] = TextEvent(lambda text: self._text(choice, text, usage))
            delta = ChatDelta(role="assistant", content="")
            data = self._chunk(ChatChunkChoice(index=choice, delta=delta), usage)
        if self._spelling is not None and output.logprobs:
            data += self._text(choice, output.text, usage, output.logprobs)
        elif output.text:
            data += (
                self._text(choice, output.text, usage)
                if self._head.has_continuous_usage
                else self._texts[choice].with_text(output.text)
            )
        if output.finish_reason is not None:
            data += self._chunk(_finish(choice, output), usage)
        return data

    def end(self) -> bytes:
        usage = self._chunk(None, self._counter.usage()) if self._head.include_usage else b""
        return usage + DONE

    def _text(
        self,
        choice: int,
        text: str,
        usage: Usage | UnsetType | None,
        entries: list[TokenLogprobs] | None = None,
    ) -> bytes:
        logprobs = None if self._spelling is None else chat_logprobs(self._spelling, entries or ())
        delta = ChatDelta(content=text)
        return self._chunk(ChatChunkChoice(index=choice, delta=delta, logprobs=logprobs), usage)

    def _chunk(self, choice: ChatChunkChoice | None, usage: Usage | UnsetType | None) -> bytes:
        chunk = ChatChunk(
            id=self._head.id,
            created=self._head.created,
            model=self._head.model,
            choices=[] if choice is None else [choice],
            usage=usage,
        )
        return event(chunk)


def _finish(index: int, output: SequenceOutput) -> ChatChunkChoice:
    return ChatChunkChoice(
        index=index,
        delta=ChatDelta(),
        finish_reason=wire_finish_reason(output),
        stop_reason=output.stop_reason,
    )
