"""`POST /v1/completions`: from the decoded body to the whole answer or its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

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
from octavo.entrypoints.openai.context import Incoming, new_id, receive_body
from octavo.entrypoints.openai.errors import json_response
from octavo.entrypoints.openai.logprobs import CompletionLogprobsWriter, prompt_logprobs
from octavo.entrypoints.openai.open_requests import Generation
from octavo.entrypoints.openai.requests import CompletionRequest
from octavo.entrypoints.openai.responses import (
    CompletionBody,
    CompletionChoice,
    PromptLogprobs,
    Usage,
)
from octavo.entrypoints.openai.sampling import completion_params
from octavo.entrypoints.openai.streaming import DONE, event
from octavo.entrypoints.openai.usage import UsageCounter


async def create_completion(request: Request) -> Response:
    incoming, body = await receive_body(request, CompletionRequest)
    params = completion_params(body)
    prompts = body.prompts
    inputs = incoming.context.inputs
    salt = incoming.cache_salt(body)

    def make_request(prompt: str | list[int]) -> EngineRequest:
        if isinstance(prompt, str) and not body.add_special_tokens:
            prompt = inputs.encode(prompt, add_special_tokens=False)
        return inputs.completion(prompt, params, cache_salt=salt)

    def make_requests() -> list[EngineRequest]:
        return [make_request(prompt) for prompt in prompts]

    answer = CompletionAnswer(incoming, body, prompts)
    return await respond(incoming, body, answer, params.n * len(prompts), make_requests)


class CompletionAnswer:
    """The wire form of one completion, of one or more prompts."""

    def __init__(
        self, incoming: Incoming, body: CompletionRequest, prompts: Sequence[str | list[int]]
    ) -> None:
        self.id = new_id("cmpl")
        self._head = AnswerHead(incoming, body, self.id)
        self._tokenizer = incoming.context.inputs.tokenizer
        self._prompts = prompts
        self._echo = body.echo
        self._wants_logprobs = body.logprobs is not None
        self._wants_prompt_logprobs = body.prompt_logprobs is not None

    async def whole(self, generation: Generation) -> Response:
        records, usage = await collect(generation)
        choices = [
            self._choice(index, record, records[index - index % generation.n], generation)
            for index, record in enumerate(records)
        ]
        return json_response(self._body(choices, usage))

    async def events(self, generation: Generation) -> AsyncIterator[bytes]:
        """Per choice: the echo if asked for, its text, its finish. Then usage and the end mark."""
        counter = UsageCounter(generation.requests)
        writers: dict[int, CompletionLogprobsWriter] = {}
        prompts = _PromptRecords()
        async for index, output in prompts.first(generation):
            counter.add(index, output)
            usage = self._head.chunk_usage(counter)
            if index not in writers:
                writers[index] = CompletionLogprobsWriter(self._tokenizer)
                if self._echo:
                    entries = prompts.entries(index // generation.n)
                    yield self._chunk(
                        self._echoed(index, generation, entries, writers[index]), usage
                    )
            if output.text or (self._wants_logprobs and output.logprobs):
                yield self._chunk(self._piece(index, output, writers[index]), usage)
            if output.finish_reason is not None:
                yield self._chunk(_finish(index, output), usage)
        if self._head.include_usage:
            yield event(self._body([], counter.usage()))
        yield DONE

    def _choice(
        self, index: int, record: ChoiceRecord, first: ChoiceRecord, generation: Generation
    ) -> CompletionChoice:
        """A whole choice; `first` is the record of its prompt's first sequence."""
        prompt_index = index // generation.n
        token_ids: list[int] = record.token_ids
        entries: list[TokenLogprobs | None] = [*record.logprobs]
        text = record.text
        if self._echo:
            text = self._prompt_text(prompt_index) + text
            token_ids = generation.requests[prompt_index].prompt_token_ids + token_ids
            entries = [*(first.prompt_logprobs or ()), *entries]
        writer = CompletionLogprobsWriter(self._tokenizer)
        return CompletionChoice(
            index=index,
            text=text,
            logprobs=writer.write(token_ids, entries) if self._wants_logprobs else None,
            finish_reason=record.finish_reason,
            stop_reason=record.stop_reason,
            prompt_logprobs=self._prompt_logprobs(first),
        )

    def _prompt_text(self, prompt_index: int) -> str:
        prompt = self._prompts[prompt_index]
        if isinstance(prompt, str):
            return prompt
        return self._tokenizer.decode(prompt, skip_special_tokens=False)

    def _prompt_logprobs(self, record: ChoiceRecord) -> PromptLogprobs | UnsetType:
        if not self._wants_prompt_logprobs or record.prompt_logprobs is None:
            return UNSET
        return prompt_logprobs(self._tokenizer, record.prompt_logprobs)

    def _echoed(
        self,
        index: int,
        generation: Generation,
        entries: Sequence[TokenLogprobs | None],
        writer: CompletionLogprobsWriter,
    ) -> CompletionChoice:
        prompt_index = index // generation.n
        token_ids = generation.requests[prompt_index].prompt_token_ids
        logprobs = writer.write(token_ids, entries) if self._wants_logprobs else None
        return CompletionChoice(
            index=index, text=self._prompt_text(prompt_index), logprobs=logprobs
        )

    def _piece(
        self, index: int, output: SequenceOutput, writer: CompletionLogprobsWriter
    ) -> CompletionChoice:
        logprobs = None
        if self._wants_logprobs:
            logprobs = writer.write(output.token_ids, output.logprobs or ())
        return CompletionChoice(index=index, text=output.text, logprobs=logprobs)

    def _chunk(self, choice: CompletionChoice, usage: Usage | UnsetType | None) -> bytes:
        return event(self._body([choice], usage))

    def _body(
        self, choices: list[CompletionChoice], usage: Usage | UnsetType | None
    ) -> CompletionBody:
        return CompletionBody(
            id=self.id,
            created=self._head.created,
            model=self._head.model,
            choices=choices,
            usage=usage,
        )


class _PromptRecords:
    """Log probabilities of each prompt, which come with the first output of its first sequence."""

    def __init__(self) -> None:
        self._entries: dict[int, Sequence[TokenLogprobs | None]] = {}

    def entries(self, prompt_index: int) -> Sequence[TokenLogprobs | None]:
        return self._entries[prompt_index]

    async def first(self, generation: Generation) -> AsyncIterator[tuple[int, SequenceOutput]]:
        """The generation's outputs, those of a prompt held back until its first sequence spoke."""
        held: dict[int, list[tuple[int, SequenceOutput]]] = {}
        async for index, output in generation.outputs():
            prompt_index = index // generation.n
            if prompt_index in self._entries:
                yield index, output
            elif output.index != 0:
                held.setdefault(prompt_index, []).append((index, output))
            else:
                self._entries[prompt_index] = output.prompt_logprobs or ()
                yield index, output
                for item in held.pop(prompt_index, ()):
                    yield item


def _finish(index: int, output: SequenceOutput) -> CompletionChoice:
    return CompletionChoice(
        index=index,
        text="",
        finish_reason=wire_finish_reason(output),
        stop_reason=output.stop_reason,
    )
