"""The events of a streamed chat completion. Knows the wire, and neither engine nor dialect."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from octavo.core.outputs import SequenceOutput
from octavo.entrypoints.openai.chat.objects import (
    ChatChunk,
    ChatChunkChoice,
    ChatDelta,
    FunctionDelta,
    ToolCallDelta,
)
from octavo.entrypoints.openai.chat.parsed_answers import AnswerDelta, ParsedAnswers
from octavo.entrypoints.openai.generation.answers import AnswerHead
from octavo.entrypoints.openai.generation.logprobs import TokenSpelling, chat_logprobs
from octavo.entrypoints.openai.generation.objects import ChatLogprobs, Usage
from octavo.entrypoints.openai.http.errors import ErrorBody, ErrorDetail
from octavo.entrypoints.openai.http.streaming import DONE, PING, TextEvent, event
from octavo.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallStart,
)


class ChatEvents:
    """Per choice: its role, what it says, its finish. Then usage if asked for, and the end mark.

    `spelling` is given when log probabilities are wanted.
    """

    ping = PING

    def __init__(
        self,
        head: AnswerHead,
        answers: ParsedAnswers,
        spelling: TokenSpelling | None,
        *,
        echo: str = "",
        prompt_ids: list[int] | None = None,
    ) -> None:
        self._head = head
        self._echo = echo
        self._prompt_ids = prompt_ids
        self._answers = answers
        self._spelling = spelling
        self._texts: dict[int, TextEvent] = {}

    def begin(self) -> bytes:
        return b""

    def write(self, choice: int, output: SequenceOutput) -> bytes:
        delta = self._answers.parse(choice, output)
        usage = self._head.chunk_usage(self._answers.counter)
        data = b""
        if choice not in self._texts:
            self._texts[choice] = TextEvent(lambda text: self._text(choice, text, usage))
            data = self._begin(choice, usage)
        data += self._events(delta, usage)
        if delta.finish_reason is not None:
            data += self._chunk(_finish(delta), usage)
        return data

    def end(self) -> bytes:
        if not self._head.include_usage:
            return DONE
        return self._chunk(None, self._answers.counter.usage()) + DONE

    def fail(self, error: ErrorDetail) -> bytes:
        return event(ErrorBody(error))

    def _events(self, delta: AnswerDelta, usage: Usage | UnsetType | None) -> bytes:
        """Log probabilities and ids stand in the first chunk of what came with them."""
        logprobs = self._logprobs(delta.output)
        token_ids = UNSET if self._prompt_ids is None else delta.output.token_ids
        says = [(one, said) for one in delta.events if (said := _delta(one)) is not None]
        if logprobs is not None or token_ids:
            first = says.pop(0)[1] if says else ChatDelta(content="")
            chunk = ChatChunkChoice(
                index=delta.choice, delta=first, logprobs=logprobs, token_ids=token_ids
            )
            data = self._chunk(chunk, usage)
        else:
            data = b""
        for one, said in says:
            if isinstance(one, ContentDelta) and not self._head.has_continuous_usage:
                data += self._texts[delta.choice].with_text(one.text)
            else:
                data += self._said(delta.choice, said, usage)
        return data

    def _begin(self, choice: int, usage: Usage | UnsetType | None) -> bytes:
        """A choice's role, and what its text goes on with. The first says the prompt's ids."""
        is_first = len(self._texts) == 1 and self._prompt_ids is not None
        role = ChatChunkChoice(index=choice, delta=ChatDelta(role="assistant", content=""))
        data = self._chunk(role, usage, self._prompt_ids if is_first else None)
        return data + self._text(choice, self._echo, usage) if self._echo else data

    def _logprobs(self, output: SequenceOutput) -> ChatLogprobs | None:
        if self._spelling is None or not output.logprobs:
            return None
        return chat_logprobs(self._spelling, output.logprobs)

    def _text(self, choice: int, text: str, usage: Usage | UnsetType | None) -> bytes:
        return self._said(choice, ChatDelta(content=text), usage)

    def _said(self, choice: int, delta: ChatDelta, usage: Usage | UnsetType | None) -> bytes:
        return self._chunk(ChatChunkChoice(index=choice, delta=delta), usage)

    def _chunk(
        self,
        choice: ChatChunkChoice | None,
        usage: Usage | UnsetType | None,
        prompt_ids: list[int] | None = None,
    ) -> bytes:
        chunk = ChatChunk(
            id=self._head.id,
            created=self._head.created,
            model=self._head.model,
            choices=[] if choice is None else [choice],
            usage=usage,
            prompt_token_ids=UNSET if prompt_ids is None else prompt_ids,
        )
        return event(chunk)


def _delta(one: Event) -> ChatDelta | None:
    """What an event is on the wire: the end of a call is nothing there."""
    match one:
        case ContentDelta(text):
            return ChatDelta(content=text)
        case ReasoningDelta(text):
            return ChatDelta(reasoning=text, reasoning_content=text)
        case ToolCallStart(index, call_id, name):
            call = ToolCallDelta(index, FunctionDelta("", name), call_id, "function")
            return ChatDelta(tool_calls=[call])
        case ArgumentsDelta(index, text):
            return ChatDelta(tool_calls=[ToolCallDelta(index, FunctionDelta(text))])
    return None


def _finish(delta: AnswerDelta) -> ChatChunkChoice:
    return ChatChunkChoice(
        index=delta.choice,
        delta=ChatDelta(),
        finish_reason=delta.finish_reason,
        stop_reason=delta.output.stop_reason,
    )
