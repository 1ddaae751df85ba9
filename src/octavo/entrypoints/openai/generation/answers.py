"""What chat and completions share on the way out: admission, collecting, and errors in a stream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType
from starlette.responses import Response

from octavo.core.outputs import JoinedOutputs, SequenceOutput, TokenLogprobs
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.openai.generation.objects import FinishReason, Usage
from octavo.entrypoints.openai.generation.request import GenerationRequest, StreamOptions
from octavo.entrypoints.openai.generation.usage import UsageCounter
from octavo.entrypoints.openai.http.errors import INTERNAL_ERROR, ErrorDetail, error_detail
from octavo.entrypoints.openai.http.streaming import EventStream, client_closed, unless_disconnected
from octavo.entrypoints.openai.intake.context import Incoming, Scheduling
from octavo.entrypoints.openai.intake.open_requests import Generation, Ticket
from octavo.errors import RequestError

logger = logging.getLogger(__name__)


class EventWriter(Protocol):
    """The wire form of one response's events. `ping` is sent where there was nothing for long."""

    ping: bytes

    def begin(self) -> bytes:
        """What precedes the first output."""

    def write(self, choice: int, output: SequenceOutput) -> bytes:
        """The events that say `output`: none, one or several."""

    def end(self) -> bytes:
        """What follows the last output."""

    def fail(self, error: ErrorDetail) -> bytes:
        """What follows instead if there is an error."""


class Turn(Protocol):
    """What is asked of the engine. Admission estimates the work by `prompts`."""

    @property
    def params(self) -> SamplingParams: ...

    @property
    def prompts(self) -> Sequence[object]: ...

    async def make_requests(self) -> list[EngineRequest]:
        """Tokenise and compile. Raises `RequestError`."""


class Answer(Protocol):
    """The wire form of one response."""

    @property
    def id(self) -> str: ...

    async def whole(self, generation: Generation) -> Response: ...

    def writer(self, generation: Generation) -> EventWriter: ...


class AnswerHead:
    """What is the same in every chunk of a response."""

    def __init__(self, incoming: Incoming, body: GenerationRequest, response_id: str) -> None:
        self.id = response_id
        self.created = int(time.time())
        self.model = body.model or incoming.context.model.names[0]
        options = body.stream_options or StreamOptions()
        self.include_usage = bool(options.include_usage)
        self.has_continuous_usage = self.include_usage and bool(options.continuous_usage_stats)

    def chunk_usage(self, counter: UsageCounter) -> Usage | UnsetType | None:
        """What a chunk with content says of usage: nothing, null, or the count so far."""
        if self.has_continuous_usage:
            return counter.usage()
        return None if self.include_usage else UNSET


class ChoiceRecord:
    """All that has come of one choice."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprobs] = []
        self.prompt_logprobs: list[TokenLogprobs | None] | None = None
        self.finish_reason: FinishReason = "stop"
        self.stop_reason: int | str | None = None

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def add(self, output: SequenceOutput) -> None:
        self._texts.append(output.text)
        self.token_ids += output.token_ids
        self.logprobs += output.logprobs or ()
        self.prompt_logprobs = output.prompt_logprobs or self.prompt_logprobs
        if output.finish_reason is not None:
            self.finish_reason = wire_finish_reason(output)
            self.stop_reason = output.stop_reason


def wire_finish_reason(output: SequenceOutput) -> FinishReason:
    """Of a finished output that is no error: errors have been raised before."""
    assert output.finish_reason is not None
    assert output.finish_reason != "error"
    return output.finish_reason


async def collect(generation: Generation) -> tuple[list[ChoiceRecord], Usage]:
    """Wait for all of it. Raises as `Generation.news`."""
    counter = UsageCounter(generation.requests)
    records = [ChoiceRecord() for _ in range(generation.num_choices)]
    while news := await generation.news():
        for choice, output in news:
            counter.add(choice, output)
            records[choice].add(output)
    return records, counter.usage()


async def respond_apart(
    incoming: Incoming, body: GenerationRequest, turn: Turn, answer: Answer
) -> asyncio.Task[Response]:
    """Admit, and answer in a task that goes on when the client goes away. Raises `RequestError`."""
    ticket = await incoming.admit(body, turn.params, turn.prompts, answer.id)
    task = asyncio.create_task(_whole(incoming, body, ticket, turn, answer))
    task.add_done_callback(lambda _: ticket.close())
    return task


async def respond(
    incoming: Incoming, body: GenerationRequest, turn: Turn, answer: Answer
) -> Response:
    """Admit, tokenise, compile, submit, and answer whole or as events. Raises `RequestError`.

    Ends at once, whatever is being done, when the client goes away.
    """
    options = incoming.context.options
    ticket = await incoming.admit(body, turn.params, turn.prompts, answer.id)
    with contextlib.ExitStack() as stack:
        stack.callback(ticket.close)
        if not body.stream:
            work = _whole(incoming, body, ticket, turn, answer)
            return await unless_disconnected(incoming.request, work) or client_closed()
        begin = _begin(incoming, body, ticket, turn)
        generation = await unless_disconnected(incoming.request, begin)
        if generation is None:
            return client_closed()
        interval = _Interval(body.stream_interval or 1)
        events = _Events(generation, answer.writer(generation), interval)
        stream = EventStream(
            events.next, ticket.close, options.stream_ping_seconds, events.writer.ping
        )
        stack.pop_all()
        return stream


async def _begin(
    incoming: Incoming, body: GenerationRequest, ticket: Ticket, turn: Turn
) -> Generation:
    scheduling = Scheduling.of(incoming, body)
    requests = await turn.make_requests()
    client = incoming.context.client
    return ticket.submit(client, [scheduling.mark(one) for one in requests])


async def _whole(
    incoming: Incoming, body: GenerationRequest, ticket: Ticket, turn: Turn, answer: Answer
) -> Response:
    return await answer.whole(await _begin(incoming, body, ticket, turn))


class _Interval:
    """Puts outputs of one choice together until they have so many tokens. A choice's first and last
    output are not held back."""

    def __init__(self, num_tokens: int) -> None:
        self._num_tokens = num_tokens
        self._begun: set[int] = set()
        self._held: dict[int, JoinedOutputs] = {}

    def due(
        self, news: Sequence[tuple[int, SequenceOutput]]
    ) -> Sequence[tuple[int, SequenceOutput]]:
        if self._num_tokens == 1:
            return news
        due = []
        for choice, output in news:
            if choice in self._held:
                self._held[choice].add(output)
            else:
                self._held[choice] = JoinedOutputs(output)
            is_full = self._held[choice].num_tokens >= self._num_tokens
            if is_full or output.finish_reason is not None or choice not in self._begun:
                due.append((choice, self._held.pop(choice).output()))
                self._begun.add(choice)
        return due

    def rest(self) -> list[tuple[int, SequenceOutput]]:
        """What is held when nothing more comes."""
        rest = [(choice, held.output()) for choice, held in self._held.items()]
        self._held.clear()
        return rest


class _Events:
    """A generation as bytes: all that is new in one piece, and the end with the last output."""

    def __init__(self, generation: Generation, writer: EventWriter, interval: _Interval) -> None:
        self.writer = writer
        self._generation = generation
        self._interval = interval
        self._has_begun = False
        self._is_over = False

    async def next(self) -> bytes:
        """Nothing at the end. An error after the status line is the last event; the end mark does
        not follow it."""
        data = b"" if self._has_begun else self.writer.begin()
        self._has_begun = True
        try:
            while not data and not self._is_over:
                data = self._written(self._interval.due(await self._generation.news()))
                if self._generation.is_over:
                    self._is_over = True
                    data += self.writer.end()
        except RequestError as error:
            self._is_over = True
            return self._written(self._interval.rest()) + self.writer.fail(error_detail(error))
        except Exception:
            logger.exception("a stream failed")
            self._is_over = True
            return self.writer.fail(INTERNAL_ERROR.error)
        return data

    def _written(self, outputs: Iterable[tuple[int, SequenceOutput]]) -> bytes:
        return b"".join([self.writer.write(choice, output) for choice, output in outputs])
