"""The wire form of one response: whole, as events, or made while nobody waits.

Knows the store only as a function that is told when the response is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec
from starlette.responses import Response

from octavo.core.outputs import SequenceOutput
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.openai.chat.parsed_answers import ParsedAnswers
from octavo.entrypoints.openai.generation.logprobs import chat_logprobs
from octavo.entrypoints.openai.generation.objects import ChatLogprob, FinishReason, Usage
from octavo.entrypoints.openai.http.errors import ErrorDetail, json_response
from octavo.entrypoints.openai.http.streaming import PING, named_event
from octavo.entrypoints.openai.intake.open_requests import Generation
from octavo.entrypoints.openai.responses_api.events import (
    ResponseEvent,
    StateEvent,
    StateEventType,
)
from octavo.entrypoints.openai.responses_api.objects import (
    IncompleteDetails,
    InputTokensDetails,
    OutputTokensDetails,
    ResponseError,
    ResponseObject,
    ResponseUsage,
)
from octavo.entrypoints.openai.responses_api.output import OutputItems
from octavo.entrypoints.openai.responses_api.request import (
    Reasoning,
    ResponsesRequest,
    TextConfig,
    TextFormat,
)
from octavo.entrypoints.openai.responses_api.translate import function_tools
from octavo.parsing.events import ContentDelta
from octavo.tokenization.tokenizer import Tokenizer

SEALED = "reasoning.encrypted_content"


def new_response(
    body: ResponsesRequest, response_id: str, model: str, params: SamplingParams, *, stores: bool
) -> ResponseObject:
    """What is known before the model has said anything."""
    text = body.text or TextConfig()
    return ResponseObject(
        id=response_id,
        created_at=int(time.time()),
        status="in_progress",
        background=bool(body.background),
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        max_tool_calls=body.max_tool_calls,
        metadata=body.metadata or {},
        model=body.model or model,
        parallel_tool_calls=body.parallel_tool_calls is not False,
        previous_response_id=body.previous_response_id,
        prompt_cache_key=body.prompt_cache_key,
        reasoning=body.reasoning or Reasoning(),
        safety_identifier=body.safety_identifier,
        store=stores,
        temperature=params.temperature,
        text=msgspec.structs.replace(text, format=text.format or TextFormat(type="text")),
        tool_choice=body.tool_choice or "auto",
        tools=function_tools(body.tools),
        top_logprobs=body.top_logprobs or 0,
        top_p=params.top_p,
        truncation=body.truncation or "disabled",
        user=body.user,
    )


class ResponseMaker:
    """Brings a response from what it is to what the engine says, output by output."""

    def __init__(
        self,
        response: ResponseObject,
        answers: ParsedAnswers,
        tokenizer: Tokenizer,
        *,
        seals: bool,
        wants_logprobs: bool,
    ) -> None:
        self.response = response
        self._answers = answers
        self._tokenizer = tokenizer
        self._wants_logprobs = wants_logprobs
        self._logprobs: list[ChatLogprob] = []  # of tokens whose text has not come yet
        self.items = OutputItems(seals=seals)

    def add(self, choice: int, output: SequenceOutput) -> Iterable[ResponseEvent]:
        """The events that say so. The last output makes the response complete."""
        delta = self._answers.parse(choice, output)
        self._note_logprobs(output)
        for event in delta.events:
            logprobs = self._logprobs if isinstance(event, ContentDelta) else []
            yield from self.items.add(event, logprobs)
            logprobs.clear()
        if delta.finish_reason is not None:
            self.items.add_logprobs(self._logprobs)
            yield from self.items.finish(is_cut=delta.finish_reason in ("length", "abort"))
            self._complete(delta.finish_reason)

    def fail(self, error: ErrorDetail) -> Iterable[ResponseEvent]:
        """The response ends with an error, and with what was said before it."""
        yield from self.items.finish(is_cut=True)
        self._end()
        self.response.status = "failed"
        code = error.code or "server_error"
        self.response.error = ResponseError(code=code, message=error.message)

    def _complete(self, reason: FinishReason) -> None:
        self._end()
        self.response.status = "completed"
        if reason == "length":
            self.response.status = "incomplete"
            self.response.incomplete_details = IncompleteDetails(reason="max_output_tokens")
        elif reason == "abort":
            self.response.status = "cancelled"

    def _end(self) -> None:
        num_reasoning = self._answers.counter.num_reasoning_tokens
        if num_reasoning is None:  # marked by no tokens, so that they are counted in the text
            reasoning = self.items.reasoning
            num_reasoning = len(self._tokenizer.encode(reasoning, add_special_tokens=False))
        self.response.completed_at = int(time.time())
        self.response.output = list(self.items.items)
        self.response.usage = _usage(self._answers.counter.usage(), num_reasoning)

    def _note_logprobs(self, output: SequenceOutput) -> None:
        """Of tokens that have a text: what ends an answer is no part of it."""
        if self._wants_logprobs and output.logprobs:
            entries = chat_logprobs(self._tokenizer, output.logprobs).content
            self._logprobs += [entry for entry in entries if entry.bytes]


def _usage(usage: Usage, num_reasoning_tokens: int) -> ResponseUsage:
    cached = usage.prompt_tokens_details.cached_tokens
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=cached),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputTokensDetails(
            reasoning_tokens=min(num_reasoning_tokens, usage.completion_tokens)
        ),
        total_tokens=usage.total_tokens,
    )


MakerOf = Callable[[Generation], ResponseMaker]
OnComplete = Callable[[ResponseObject], None]


class ResponseAnswer:
    """`make` gives the maker of a generation. `on_complete` hears of the response when the model
    has said all of it, before the client does."""

    def __init__(self, response: ResponseObject, make: MakerOf, on_complete: OnComplete) -> None:
        self.id = response.id
        self.response = response
        self._make = make
        self._on_complete = on_complete

    async def whole(self, generation: Generation) -> Response:
        maker = self._make(generation)
        while news := await generation.news():
            for choice, output in news:
                for _ in maker.add(choice, output):
                    pass
        self._on_complete(self.response)
        return json_response(self.response)

    def writer(self, generation: Generation) -> ResponseEvents:
        return ResponseEvents(self._make(generation), self._on_complete)


class ResponseEvents:
    """The response as it begins, what is said, and the response as it ends. No end mark."""

    ping = PING

    def __init__(self, maker: ResponseMaker, on_complete: OnComplete) -> None:
        self._maker = maker
        self._on_complete = on_complete

    def begin(self) -> bytes:
        return self._state("response.created") + self._state("response.in_progress")

    def write(self, choice: int, output: SequenceOutput) -> bytes:
        events = self._maker.add(choice, output)
        return b"".join([named_event(event.type, event) for event in events])

    def end(self) -> bytes:
        response = self._maker.response
        self._on_complete(response)
        is_cut = response.status != "completed"
        return self._state("response.incomplete" if is_cut else "response.completed")

    def fail(self, error: ErrorDetail) -> bytes:
        said = b"".join([named_event(one.type, one) for one in self._maker.fail(error)])
        self._on_complete(self._maker.response)
        return said + self._state("response.failed")

    def _state(self, kind: StateEventType) -> bytes:
        number = next(self._maker.items.numbers)
        response = self._maker.response
        return named_event(kind, StateEvent(type=kind, sequence_number=number, response=response))
