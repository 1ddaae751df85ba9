"""From the wire's three ways of asking for a form to one `StructuredOutputs`, and to
a grammar that was tried in the cage of `structured.compiler`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec

from octavo.core.structured_outputs import StructuredOutputs
from octavo.entrypoints.openai.generation.structured_fields import (
    Document,
    ResponseFormat,
    StructuredFields,
    StructuredOutputsBody,
)
from octavo.entrypoints.openai.intake.context import Incoming
from octavo.errors import InvalidRequest
from octavo.structured.task import GrammarTask

Result = TypeVar("Result")

_GUIDED = ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_json_object")


def structured_outputs(request: StructuredFields) -> StructuredOutputs | None:
    """What form the answer must have, if any. Raises `InvalidRequest` that names the field."""
    guided = [name for name in _GUIDED if getattr(request, name) not in (None, False)]
    given = [*guided]
    if request.structured_outputs is not None:
        given.append("structured_outputs")
    if request.response_format is not None and request.response_format.type != "text":
        given.append("response_format")
    if len(given) > 1:
        raise InvalidRequest(
            f"{' and '.join(given)} are given together; one of them is allowed", param=given[-1]
        )
    if request.guided_whitespace_pattern is not None and not guided:
        raise InvalidRequest(
            "guided_whitespace_pattern is given without guided_json or guided_json_object",
            param="guided_whitespace_pattern",
        )
    if not given:
        return None
    return named(request, lambda: _outputs(request, given[0]))


def named(request: StructuredFields, make: Callable[[], Result]) -> Result:
    """What `make` returns; an error of its in a field's terms, not in those of the engine."""
    try:
        return make()
    except InvalidRequest as error:
        raise in_terms_of(request, error) from None


def in_terms_of(request: StructuredFields, error: InvalidRequest) -> InvalidRequest:
    """An error of `structured_outputs.KIND` under the name that the client used."""
    kind = (error.param or "").removeprefix("structured_outputs.")
    if kind == error.param or request.structured_outputs is not None:
        return error
    if request.response_format is not None and request.response_format.type != "text":
        return InvalidRequest(error.message, param="response_format")
    name = "guided_json" if kind == "json" else f"guided_{kind}"
    return InvalidRequest(error.message, param=name)


async def compiled(incoming: Incoming, body: StructuredFields, task: GrammarTask) -> str:
    """The text of a grammar. Raises `InvalidRequest` that names the field and the place."""
    compiling = incoming.context.inputs.grammars.start(task)
    try:
        return await asyncio.wrap_future(compiling)
    except InvalidRequest as error:
        raise in_terms_of(body, error) from None


def _outputs(request: StructuredFields, name: str) -> StructuredOutputs:
    if name == "response_format":
        assert request.response_format is not None
        return _of_format(request.response_format)
    if request.structured_outputs is not None:
        return _of_body(request.structured_outputs)
    guided = StructuredOutputsBody(
        json=request.guided_json,
        regex=request.guided_regex,
        choice=request.guided_choice,
        grammar=request.guided_grammar,
        json_object=request.guided_json_object,
        whitespace_pattern=request.guided_whitespace_pattern,
    )
    return _of_body(guided)


def _of_body(body: StructuredOutputsBody) -> StructuredOutputs:
    return StructuredOutputs(
        json=_text(body.json),
        regex=body.regex,
        choice=body.choice,
        grammar=body.grammar,
        json_object=body.json_object,
        structural_tag=_text(body.structural_tag),
        whitespace_pattern=body.whitespace_pattern,
        disable_any_whitespace=body.disable_any_whitespace,
        disable_additional_properties=body.disable_additional_properties,
    )


def _of_format(wanted: ResponseFormat) -> StructuredOutputs:
    if wanted.type == "json_object":
        if wanted.schema is None:
            return StructuredOutputs(json_object=True)
        return StructuredOutputs(json=_text(wanted.schema))
    if wanted.type == "json_schema":
        if wanted.json_schema is None or wanted.json_schema.schema is None:
            raise InvalidRequest(
                "response_format of type json_schema needs json_schema.schema, a JSON schema",
                param="response_format",
            )
        return StructuredOutputs(json=_text(wanted.json_schema.schema))
    tag = {"structures": wanted.structures, "triggers": wanted.triggers}
    return StructuredOutputs(structural_tag=_text(tag))


def _text(document: Document | str | bool | None) -> str | None:
    """A text is a JSON document that is written out already."""
    if document is None or isinstance(document, str):
        return document
    return msgspec.json.encode(document).decode()
