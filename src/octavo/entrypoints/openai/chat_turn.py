"""One turn of a chat, whatever its wire: the request to the engine, the parsed answer back.

Chat completions, responses and messages all pass here. Knows no response shape.
"""

from __future__ import annotations

from collections.abc import Mapping

from octavo.core.request import EngineRequest
from octavo.entrypoints.openai.chat_request import ChatRequest
from octavo.entrypoints.openai.context import Incoming
from octavo.entrypoints.openai.open_requests import Generation
from octavo.entrypoints.openai.parsed_answers import ParsedAnswers
from octavo.entrypoints.openai.sampling import chat_params
from octavo.entrypoints.openai.template_fields import (
    checked_documents,
    checked_switches,
    wants_generation_prompt,
)
from octavo.entrypoints.openai.tool_choice import answer_form, template_tools
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
        if self.params.use_beam_search and not self._form.is_free:
            raise UnsupportedParameter(
                "use_beam_search is given with tools that must be called or are strict; drawn "
                "answers may have them",
                param="use_beam_search",
                code="unsupported_parameter",
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
        incoming, inputs, form = self._incoming, self._incoming.context.inputs, self._form
        ids = await self.prompt_ids()
        state = self._reasoning_state = form.reasoning_state(inputs.tokenizer, ids)
        grammar = ""
        if not form.is_free:
            tried = await incoming.compiled(self._body, form.task(state))
            grammar = form.grammar(tried, state, inputs.tokenizer)
        request = inputs.request(
            ids,
            self.params,
            param="messages",
            cache_salt=incoming.cache_salt(self._body),
            grammar=grammar,
            shown_token_ids=form.shown_token_ids(inputs.tokenizer),
        )
        return [request]

    async def prompt_ids(self) -> list[int]:
        """What the model is given to read."""
        return await self._incoming.work(self._encode)

    def answers(self, generation: Generation) -> ParsedAnswers:
        return ParsedAnswers(
            generation,
            self._form,
            reasoning_state=self._reasoning_state,
            include_reasoning=self._body.include_reasoning,
        )

    def _encode(self) -> list[int]:
        return self._incoming.context.inputs.encode_messages(
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
    return UnsupportedParameter(
        f"{name} {what}; the chat template of this model has no place for it",
        param=name,
        code="unsupported_parameter",
    )
