"""`POST /v1/completions`: from the decoded body to the whole answer or its events."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from octavo.core.outputs import SequenceOutput, TokenLogprobs
from octavo.core.request import EngineRequest
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.completions.objects import CompletionBody, CompletionChoice
from octavo.entrypoints.openai.completions.params import completion_params
from octavo.entrypoints.openai.completions.request import CompletionRequest
from octavo.entrypoints.openai.generation.answers import (
    AnswerHead,
    ChoiceRecord,
    collect,
    respond,
    wire_finish_reason,
)
from octavo.entrypoints.openai.generation.logprobs import (
    CompletionLogprobsWriter,
    TokenIdSpelling,
    TokenSpelling,
    prompt_logprobs,
)
from octavo.entrypoints.openai.generation.objects import PromptLogprobs, Usage
from octavo.entrypoints.openai.generation.structured import compiled
from octavo.entrypoints.openai.generation.usage import UsageCounter
from octavo.entrypoints.openai.http.errors import ErrorBody, ErrorDetail, json_response
from octavo.entrypoints.openai.http.streaming import DONE, PING, TextEvent, event
from octavo.entrypoints.openai.intake.context import Incoming, receive_body
from octavo.entrypoints.openai.intake.open_requests import Generation
from octavo.errors import UnsupportedParameter
from octavo.structured.task import GrammarTask


async def create_completion(request: Request) -> Response:
    incoming, body = await receive_body(request, CompletionRequest)
    turn = CompletionTurn(incoming, body)
    return await respond(incoming, body, turn, CompletionAnswer(incoming, body, turn.prompts))


class CompletionTurn:
    """From the body to the engine's requests, one for each prompt."""

    def __init__(self, incoming: Incoming, body: CompletionRequest) -> None:
        self._incoming = incoming
        self._body = body
        self._inputs = incoming.context.inputs
        self.params = completion_params(body)
        self.prompts = body.prompts
        if body.suffix and body.echo:
            raise UnsupportedParameter(
                "suffix is given with echo; use one of them",
                param="suffix",
                code="unsupported_parameter",
            )

    async def make_requests(self) -> list[EngineRequest]:
        outputs = self.params.structured_outputs
        grammar = ""
        if outputs is not None:
            grammar = await compiled(self._incoming, self._body, GrammarTask(outputs))
        return await self._incoming.work(
            lambda: [self._make_request(prompt, grammar) for prompt in self.prompts]
        )

    def _make_request(self, prompt: str | list[int], grammar: str) -> EngineRequest:
        salt = self._incoming.cache_salt(self._body)
        if self._body.suffix:
            ids = self._inputs.encode_gap(prompt, self._body.suffix)
            return self._inputs.request(
                ids, self.params, param="prompt", cache_salt=salt, grammar=grammar
            )
        if isinstance(prompt, str) and not self._body.add_special_tokens:
            prompt = self._inputs.encode(prompt, add_special_tokens=False)
        return self._inputs.completion(prompt, self.params, cache_salt=salt, grammar=grammar)


class CompletionAnswer:
    """The wire form of one completion, of one or more prompts."""

    def __init__(
        self, incoming: Incoming, body: CompletionRequest, prompts: Sequence[str | list[int]]
    ) -> None:
        self.id = new_id("cmpl-")
        self.head = AnswerHead(incoming, body, self.id)
        self._tokenizer = incoming.context.inputs.tokenizer
        named_by_id = body.return_tokens_as_token_ids
        self.spelling: TokenSpelling = (
            TokenIdSpelling(self._tokenizer) if named_by_id else self._tokenizer
        )
        self._prompts = prompts
        self._is_cut = body.truncate_prompt_tokens is not None
        self.echo = body.echo
        self.wants_ids = body.return_token_ids
        self.wants_logprobs = body.logprobs is not None
        self._wants_prompt_logprobs = body.prompt_logprobs is not None

    async def whole(self, generation: Generation) -> Response:
        records, usage = await collect(generation)
        choices = [
            self._choice(index, record, records[index - index % generation.n], generation)
            for index, record in enumerate(records)
        ]
        return json_response(self.body(choices, usage))

    def writer(self, generation: Generation) -> CompletionEvents:
        return CompletionEvents(self, generation)

    def _choice(
        self, index: int, record: ChoiceRecord, first: ChoiceRecord, generation: Generation
    ) -> CompletionChoice:
        """A whole choice; `first` is the record of its prompt's first sequence."""
        prompt_index = index // generation.n
        token_ids: list[int] = record.token_ids
        entries: list[TokenLogprobs | None] = [*record.logprobs]
        text = record.text
        if self.echo:
            text = self.prompt_text(prompt_index, generation) + text
            token_ids = generation.requests[prompt_index].prompt_token_ids + token_ids
            entries = [*(first.prompt_logprobs or ()), *entries]
        writer = CompletionLogprobsWriter(self.spelling)
        request = generation.requests[prompt_index]
        return CompletionChoice(
            index=index,
            text=text,
            logprobs=writer.write(token_ids, entries) if self.wants_logprobs else None,
            finish_reason=record.finish_reason,
            stop_reason=record.stop_reason,
            prompt_logprobs=self._prompt_logprobs(first),
            prompt_token_ids=request.prompt_token_ids if self.wants_ids else UNSET,
            token_ids=record.token_ids if self.wants_ids else UNSET,
        )

    def prompt_text(self, prompt_index: int, generation: Generation) -> str:
        prompt = self._prompts[prompt_index]
        if isinstance(prompt, str) and not self._is_cut:
            return prompt
        ids = generation.requests[prompt_index].prompt_token_ids
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def _prompt_logprobs(self, record: ChoiceRecord) -> PromptLogprobs | UnsetType:
        if not self._wants_prompt_logprobs or record.prompt_logprobs is None:
            return UNSET
        return prompt_logprobs(self.spelling, record.prompt_logprobs)

    def body(
        self, choices: list[CompletionChoice], usage: Usage | UnsetType | None
    ) -> CompletionBody:
        return CompletionBody(
            id=self.id,
            created=self.head.created,
            model=self.head.model,
            choices=choices,
            usage=usage,
        )


class CompletionEvents:
    """Per choice: the echo if asked for, its text, its finish. Then usage and the end mark."""

    ping = PING

    def __init__(self, answer: CompletionAnswer, generation: Generation) -> None:
        self._answer = answer
        self._generation = generation
        self._counter = UsageCounter(generation.requests)
        self._writers: dict[int, CompletionLogprobsWriter] = {}
        self._texts: dict[int, TextEvent] = {}
        # Log probabilities of each prompt come with the first output of its first sequence; the
        # others' outputs are held back until then.
        self._prompt_entries: dict[int, Sequence[TokenLogprobs | None]] = {}
        self._held: dict[int, list[tuple[int, SequenceOutput]]] = {}

    def begin(self) -> bytes:
        return b""

    def write(self, choice: int, output: SequenceOutput) -> bytes:
        prompt_index = choice // self._generation.n
        if prompt_index in self._prompt_entries:
            return self._say(choice, output)
        if output.index != 0:
            self._held.setdefault(prompt_index, []).append((choice, output))
            return b""
        self._prompt_entries[prompt_index] = output.prompt_logprobs or ()
        held = self._held.pop(prompt_index, ())
        return b"".join([self._say(*one) for one in ((choice, output), *held)])

    def end(self) -> bytes:
        if not self._answer.head.include_usage:
            return DONE
        return event(self._answer.body([], self._counter.usage())) + DONE

    def fail(self, error: ErrorDetail) -> bytes:
        return event(ErrorBody(error))

    def _say(self, choice: int, output: SequenceOutput) -> bytes:
        self._counter.add(choice, output)
        usage = self._answer.head.chunk_usage(self._counter)
        data = b""
        if choice not in self._writers:
            data = self._begin(choice, usage)
        wants = self._answer.wants_logprobs, self._answer.wants_ids
        if any(wants) and (output.text or output.token_ids):
            data += self._with_tokens(choice, output, usage)
        elif output.text:
            data += (
                self._text(choice, output.text, usage)
                if self._answer.head.has_continuous_usage
                else self._texts[choice].with_text(output.text)
            )
        if output.finish_reason is not None:
            data += event(self._answer.body([_finish(choice, output)], usage))
        return data

    def _begin(self, choice: int, usage: Usage | UnsetType | None) -> bytes:
        """Ready for the texts of a choice; its echo and the prompt's ids if asked for."""
        answer = self._answer
        writer = self._writers[choice] = CompletionLogprobsWriter(answer.spelling)
        self._texts[choice] = TextEvent(lambda text: self._text(choice, text, usage))
        if not (answer.echo or answer.wants_ids):
            return b""
        prompt_index = choice // self._generation.n
        token_ids = self._generation.requests[prompt_index].prompt_token_ids
        logprobs = None
        if answer.echo and answer.wants_logprobs:
            logprobs = writer.write(token_ids, self._prompt_entries[prompt_index])
        piece = CompletionChoice(
            index=choice,
            text=answer.prompt_text(prompt_index, self._generation) if answer.echo else "",
            logprobs=logprobs,
            prompt_token_ids=token_ids if answer.wants_ids else UNSET,
        )
        return event(answer.body([piece], usage))

    def _with_tokens(
        self, choice: int, output: SequenceOutput, usage: Usage | UnsetType | None
    ) -> bytes:
        """A text with the log probabilities and ids of its tokens, as far as asked for."""
        answer = self._answer
        logprobs = None
        if answer.wants_logprobs:
            logprobs = self._writers[choice].write(output.token_ids, output.logprobs or ())
        piece = CompletionChoice(
            index=choice,
            text=output.text,
            logprobs=logprobs,
            token_ids=output.token_ids if answer.wants_ids else UNSET,
        )
        return event(answer.body([piece], usage))

    def _text(self, choice: int, text: str, usage: Usage | UnsetType | None) -> bytes:
        return event(self._answer.body([CompletionChoice(index=choice, text=text)], usage))


def _finish(index: int, output: SequenceOutput) -> CompletionChoice:
    return CompletionChoice(
        index=index,
        text="",
        finish_reason=wire_finish_reason(output),
        stop_reason=output.stop_reason,
    )
