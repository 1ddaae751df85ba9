"""The routes around generation: models, tokens, health, load, options, metrics, abort, cache."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from octavo import __version__
from octavo.config.options import shown_values
from octavo.entrypoints.openai.chat.template_fields import (
    checked_documents,
    checked_switches,
    wants_generation_prompt,
)
from octavo.entrypoints.openai.generation.logprobs import token_text
from octavo.entrypoints.openai.http.errors import json_response
from octavo.entrypoints.openai.intake.context import (
    ServerContext,
    receive_body,
    receive_counted,
    unknown_model,
)
from octavo.entrypoints.openai.utility.objects import (
    AbortedBody,
    DetokenizeBody,
    LoadBody,
    ModelCard,
    ModelList,
    ServerInfoBody,
    TokenizeBody,
    TokenizerInfoBody,
    VersionBody,
)
from octavo.entrypoints.openai.utility.request import AbortBody, DetokenizeRequest, TokenizeRequest
from octavo.errors import InvalidRequest, ServerDraining


def _context(request: Request) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


async def health(request: Request) -> Response:
    """200 while the engine answers and the server takes requests, else 503."""
    context = _context(request)
    if context.open_requests.is_draining:
        raise ServerDraining("the server is shutting down")
    await context.client.check_health()
    return Response()


async def version(request: Request) -> Response:  # noqa: ARG001  (every route has this shape)
    return json_response(VersionBody(__version__))


async def load(request: Request) -> Response:
    return json_response(LoadBody(len(_context(request).open_requests)))


async def server_info(request: Request) -> Response:
    context = _context(request)
    answer = ServerInfoBody(
        version=__version__,
        engine_config=shown_values(context.model.config),
        server_config=shown_values(context.options),
    )
    return json_response(answer)


async def metrics(request: Request) -> Response:
    return Response(_context(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)


async def steps(request: Request) -> Response:
    """The latest steps of the engine and how long they took, for `octavo simulate fit`."""
    return json_response(_context(request).steps.report())


async def list_models(request: Request) -> Response:
    return json_response(ModelList(data=_cards(_context(request))))


async def show_model(request: Request) -> Response:
    context = _context(request)
    name = str(request.path_params["model"])
    for card in _cards(context):
        if card.id == name:
            return json_response(card)
    raise unknown_model(name, context.model)


def _cards(context: ServerContext) -> list[ModelCard]:
    model = context.model
    return [
        ModelCard(
            id=name,
            created=model.created,
            root=model.names[0],
            max_model_len=model.max_model_len,
        )
        for name in model.names
    ]


async def tokenize(request: Request) -> Response:
    incoming, body = await receive_counted(request, TokenizeRequest)
    token_ids = await incoming.work(
        lambda: _token_ids(incoming.context, body), runs_foreign_code=body.messages is not None
    )
    tokenizer = incoming.context.inputs.tokenizer
    answer = TokenizeBody(
        count=len(token_ids),
        max_model_len=incoming.context.model.max_model_len,
        tokens=token_ids,
        token_strs=(
            [token_text(tokenizer, token_id) for token_id in token_ids]
            if body.return_token_strs
            else None
        ),
    )
    return json_response(answer)


def _token_ids(context: ServerContext, body: TokenizeRequest) -> list[int]:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequest("exactly one of prompt and messages is required", param="prompt")
    if body.messages is not None:
        return context.inputs.encode_messages(
            body.messages,
            add_generation_prompt=wants_generation_prompt(
                body.add_generation_prompt, is_continued=body.continue_final_message
            ),
            continue_final_message=body.continue_final_message,
            add_special_tokens=body.add_special_tokens,
            template_kwargs={
                **checked_documents(body.documents, context.inputs.template),
                **checked_switches(body.chat_template_kwargs, context.inputs.template),
            },
        )
    assert body.prompt is not None
    return context.inputs.encode(body.prompt, add_special_tokens=body.add_special_tokens)


async def detokenize(request: Request) -> Response:
    incoming, body = await receive_counted(request, DetokenizeRequest)
    inputs = incoming.context.inputs
    for token_id in body.tokens:
        if not 0 <= token_id < inputs.vocab_size:
            raise InvalidRequest(
                f"tokens has {token_id}; an integer from 0 to {inputs.vocab_size - 1} is allowed",
                param="tokens",
            )
    text = await incoming.work(
        lambda: inputs.tokenizer.decode(body.tokens, skip_special_tokens=False)
    )
    return json_response(DetokenizeBody(text))


async def tokenizer_info(request: Request) -> Response:
    context = _context(request)
    tokenizer, template = context.inputs.tokenizer, context.inputs.template

    def spelled(token_id: int | None) -> str | None:
        return None if token_id is None else tokenizer.decode([token_id], skip_special_tokens=False)

    answer = TokenizerInfoBody(
        bos_token=spelled(tokenizer.bos_token_id),
        eos_token=spelled(tokenizer.eos_token_id),
        add_bos_token=tokenizer.adds_bos,
        model_max_length=context.model.max_model_len,
        chat_template=None if template is None else template.source,
    )
    return json_response(answer)


async def abort_requests(request: Request) -> Response:
    incoming, body = await receive_body(request, AbortBody)
    context = incoming.context
    num_aborted = context.open_requests.abort(context.client, incoming.tenant, body.request_ids)
    return json_response(AbortedBody(num_aborted))


async def reset_prefix_cache(request: Request) -> Response:
    """As vLLM's: 200 and no body. Requests that come later find nothing that is cached now."""
    _context(request).client.reset_prefix_cache()
    return Response()
