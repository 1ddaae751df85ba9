"""One turn of a chat, whatever its wire: the request to the engine, the parsed answer back.

Chat completions, responses and messages all pass here. Knows no response shape.
"""

from __future__ import annotations

from collections.abc import Mapping

from octavo.core.ranges import check_integer
from octavo.core.request import EngineRequest, ThinkingBudget
from octavo.entrypoints.openai.chat.params import chat_params
from octavo.entrypoints.openai.chat.parsed_answers import ParsedAnswers, Reading
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.template_fields import (
    checked_documents,
    checked_switches,
    wants_generation_prompt,
)
from octavo.entrypoints.openai.chat.tool_choice import answer_form, template_tools
from octavo.entrypoints.openai.generation.structured import compiled
from octavo.entrypoints.openai.intake.context import Incoming
from octavo.entrypoints.openai.intake.open_requests import Generation
from octavo.errors import UnsupportedParameter
from octavo.structured.answer_grammar import ReasoningState
from octavo.tokenization.chat_template import ChatTemplate

_THINKING_SWITCHES = ("enable_thinking", "thinking")
"""What templates of before `reasoning_effort` call it."""


class ChatTurn:
    """Raises `InvalidRequest` or `UnsupportedParameter` for what the model cannot do."""

    def __init__(self, incoming: Incoming, body: ChatRequest) -> None:
        context = incoming.context
        self._incoming = incoming
        self._inputs = context.inputs
        self._body = body
        self.params = chat_params(body)
        self._form = answer_form(
            body, context.model.dialects, takes_auto=context.options.enable_auto_tool_choice
        )
        self._template_kwargs = _template_kwargs(body, context.inputs.template)
        self._adds_prompt = wants_generation_prompt(
            body.add_generation_prompt, is_continued=body.continue_final_message
        )
        self._reasoning_state: ReasoningState = "none"
        self._reasoning_tokens = self._form.reasoning_tokens(context.inputs.tokenizer)
        self._check_thinking()
        if self.params.use_beam_search and not self._form.is_free:
            raise _unsupported(
                "use_beam_search",
                "is given with tools that must be called or are strict; drawn answers may have any",
            )

    @property
    def echo(self) -> str:
        """What stands before the answer if the client wants the text back that it goes on with."""
        last = self._body.messages[-1] if self._body.messages else {}
        if not self._body.echo or last.get("role") != "assistant":
            return ""
        content = last.get("content")
        if isinstance(content, str):
            return content
        return "".join(str(part["text"]) for part in content or () if "text" in part)

    @property
    def prompts(self) -> list[object]:
        """All that will be read, as far as its size tells how long that takes."""
        return [[*self._body.messages, self._template_kwargs]]

    async def make_requests(self) -> list[EngineRequest]:
        inputs, form = self._inputs, self._form
        ids = await self.prompt_ids()
        state = form.reasoning_state(inputs.tokenizer, ids)
        thinking = self._thinking(state)
        if thinking is not None and state == "open" and thinking.max_tokens == 0:
            ids, state, thinking = [*ids, thinking.end_token_id], "closed", None
        self._reasoning_state = state
        grammar = "" if form.is_free else await self._grammar(state)
        request = inputs.request(
            ids,
            self.params,
            param="messages",
            cache_salt=self._incoming.cache_salt(self._body),
            grammar=grammar,
            shown_token_ids=form.shown_token_ids(inputs.tokenizer),
            thinking=thinking,
        )
        return [request]

    async def _grammar(self, state: ReasoningState) -> str:
        incoming, form = self._incoming, self._form
        task = await incoming.work(lambda: form.task(state))
        tried = await compiled(incoming, self._body, task)
        return await incoming.work(lambda: form.grammar(tried, state, self._inputs.tokenizer))

    def _thinking(self, state: ReasoningState) -> ThinkingBudget | None:
        budget = self._body.thinking_token_budget
        if budget is None or self._reasoning_tokens is None or state == "closed":
            return None
        begin, end = self._reasoning_tokens
        return ThinkingBudget(budget, end, begin if state == "none" else None)

    def _check_thinking(self) -> None:
        """Raises `InvalidRequest` or `UnsupportedParameter`."""
        name, budget = "thinking_token_budget", self._body.thinking_token_budget
        if budget is None:
            return
        check_integer(name, budget, 0, 2**31 - 1)
        if self._reasoning_tokens is None:
            raise _unsupported(name, "is given; this model marks no reasoning by tokens")
        if self.params.logprobs is not None or self.params.picks_best:
            raise _unsupported(
                name,
                "is given with logprobs, best_of or use_beam_search; the token that ends the "
                "reasoning is not drawn",
            )

    async def prompt_ids(self) -> list[int]:
        """What the model is given to read."""
        return await self._incoming.work(self._encode, runs_foreign_code=True)

    def answers(self, generation: Generation) -> ParsedAnswers:
        reading = Reading(
            self._form,
            self._reasoning_state,
            self._reasoning_tokens,
            self._body.include_reasoning,
        )
        return ParsedAnswers(generation, reading)

    def _encode(self) -> list[int]:
        return self._inputs.encode_messages(
            self._body.messages,
            add_generation_prompt=self._adds_prompt,
            continue_final_message=self._body.continue_final_message,
            add_special_tokens=self._body.add_special_tokens,
            template_kwargs=self._template_kwargs,
        )


def _template_kwargs(body: ChatRequest, template: ChatTemplate | None) -> Mapping[str, object]:
    known = frozenset() if template is None else template.variables
    kwargs: dict[str, object] = {}
    if (tools := template_tools(body)) is not None:
        if "tools" not in known:
            raise _unknown_to_template("tools", "is given")
        kwargs["tools"] = tools
    if body.reasoning_effort is not None:
        kwargs |= _effort(body.reasoning_effort, known)
    kwargs |= checked_documents(body.documents, template)
    return kwargs | checked_switches(body.chat_template_kwargs, template)


def _effort(effort: str, known: frozenset[str]) -> dict[str, object]:
    if "reasoning_effort" in known:
        return {"reasoning_effort": effort}
    switches = [name for name in _THINKING_SWITCHES if name in known]
    if not switches:
        raise _unknown_to_template("reasoning_effort", f"is {effort!r}")
    return dict.fromkeys(switches, effort != "none")


def _unknown_to_template(name: str, what: str) -> UnsupportedParameter:
    return _unsupported(name, f"{what}; the chat template of this model has no place for it")


def _unsupported(name: str, what: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"{name} {what}", param=name, code="unsupported_parameter")
