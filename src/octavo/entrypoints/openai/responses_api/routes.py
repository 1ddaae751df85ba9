"""`/v1/responses`: create, look at, go on from, cancel and delete responses.

A response is a chat in other words: what is asked becomes a chat turn, and what comes of it items.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.bodies.limits import check_limits
from octavo.entrypoints.openai.bodies.paging import check_query, page_of
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.turn import ChatTurn
from octavo.entrypoints.openai.generation.answers import respond, respond_apart
from octavo.entrypoints.openai.http.errors import INTERNAL_ERROR, json_response
from octavo.entrypoints.openai.intake.context import Incoming, receive_body, receive_counted
from octavo.entrypoints.openai.intake.open_requests import Generation
from octavo.entrypoints.openai.responses_api.answer import (
    SEALED,
    ResponseAnswer,
    ResponseMaker,
    new_response,
)
from octavo.entrypoints.openai.responses_api.fitting import FittingTurn
from octavo.entrypoints.openai.responses_api.items import input_items, messages_of
from octavo.entrypoints.openai.responses_api.objects import (
    InputItems,
    InputTokens,
    ResponseDeleted,
    ResponseError,
    ResponseObject,
)
from octavo.entrypoints.openai.responses_api.request import Item, ResponsesRequest
from octavo.entrypoints.openai.responses_api.store import ResponseStore, StoredResponse
from octavo.entrypoints.openai.responses_api.translate import (
    chat_request,
    in_terms_of_responses,
)
from octavo.errors import InvalidRequest, RequestError, UnsupportedParameter

logger = logging.getLogger(__name__)

_ID_PREFIXES = {"message": "msg_", "function_call": "fc_", "reasoning": "rs_"}
DEFAULT_PAGE, MAX_PAGE = 20, 100


async def create_response(request: Request) -> Response:
    incoming, body = await receive_body(request, ResponsesRequest)
    store = _store(request)
    _check(incoming, body, store)
    earlier, given = _earlier_items(incoming, body), input_items(body.input)
    with in_terms_of_responses():
        chat = _chat(incoming, body, earlier, given)
        turn = (FittingTurn if body.truncation == "auto" else ChatTurn)(incoming, chat)
        stores = store.is_on and _wants_store(incoming, body)
        response = new_response(
            body, new_id("resp_"), incoming.context.model.names[0], turn.params, stores=stores
        )

        def make(generation: Generation) -> ResponseMaker:
            return ResponseMaker(
                response,
                turn.answers(generation),
                incoming.context.inputs.tokenizer,
                seals=SEALED in (body.include or ()),
                wants_logprobs=bool(chat.logprobs),
            )

        stored = StoredResponse(
            incoming.tenant, response, [*earlier, *map(_with_id, given)], len(earlier)
        )

        def keep(response: ResponseObject) -> None:  # noqa: ARG001  (it is the one that is stored)
            if stores:
                store.put(stored)

        answer = ResponseAnswer(response, make, keep)
        if body.background:
            return _leave_to(store, stored, await respond_apart(incoming, chat, turn, answer))
        return await respond(incoming, chat, turn, answer)


async def count_input_tokens(request: Request) -> Response:
    incoming, body = await receive_counted(request, ResponsesRequest)
    earlier, given = _earlier_items(incoming, body), input_items(body.input)
    with in_terms_of_responses():
        ids = await ChatTurn(incoming, _chat(incoming, body, earlier, given)).prompt_ids()
    return json_response(InputTokens(input_tokens=len(ids)))


async def show_response(request: Request) -> Response:
    check_query(request.query_params, ("stream",))
    if request.query_params.get("stream", "false") != "false":
        raise UnsupportedParameter(
            "stream is asked of a stored response; only a new one can be streamed",
            param="stream",
            code="unsupported_parameter",
        )
    return json_response(_stored(request).response)


async def delete_response(request: Request) -> Response:
    stored = _stored(request)
    _store(request).delete(stored)
    await _stop(stored)
    return json_response(ResponseDeleted(id=stored.response.id))


async def cancel_response(request: Request) -> Response:
    """Of one that is over nothing changes."""
    stored = _stored(request)
    if not stored.response.background:
        raise InvalidRequest(
            "the response was not made in the background; only such can be cancelled",
            param="response_id",
        )
    await _stop(stored)
    return json_response(stored.response)


async def _stop(stored: StoredResponse) -> None:
    if stored.work is not None:
        stored.work.cancel()
        await asyncio.wait((stored.work,))


async def list_input_items(request: Request) -> Response:
    query = request.query_params
    check_query(query, ("limit", "after", "order"))
    items = [_Listed(item) for item in reversed(_stored(request).inputs)]
    page = page_of(items, query, default_limit=DEFAULT_PAGE, max_limit=MAX_PAGE)
    shown = InputItems(
        data=[one.item for one in page.data],
        first_id=page.first_id,
        last_id=page.last_id,
        has_more=page.has_more,
    )
    return json_response(shown)


class _Listed:
    """An item as a page wants it."""

    def __init__(self, item: Item) -> None:
        self.item = item

    @property
    def id(self) -> str:
        return str(self.item["id"])


def _store(request: Request) -> ResponseStore:
    store: ResponseStore = request.app.state.responses
    return store


def _stored(request: Request) -> StoredResponse:
    return _store(request).get(request.state.tenant, str(request.path_params["response_id"]))


def _check(incoming: Incoming, body: ResponsesRequest, store: ResponseStore) -> None:
    """Raises `InvalidRequest` or `UnsupportedParameter` for what does not go together here."""
    if body.store and not store.is_on:
        raise UnsupportedParameter(
            "store is true; this server stores no responses (see --response-store-bytes)",
            param="store",
            code="unsupported_parameter",
        )
    if not body.background:
        return
    if body.stream:
        raise UnsupportedParameter(
            "background is true with stream; ask for one of them",
            param="background",
            code="unsupported_parameter",
        )
    if body.store is False or not store.is_on or incoming.entry is not None:
        raise InvalidRequest(
            "background is true where nothing is stored; nobody could ask for the response",
            param="background",
        )


def _wants_store(incoming: Incoming, body: ResponsesRequest) -> bool:
    """Lines of a batch have their answers in a file already."""
    return incoming.entry is None if body.store is None else body.store


def _earlier_items(incoming: Incoming, body: ResponsesRequest) -> list[Item]:
    """Of the conversation that is gone on with. Raises `NotFound` or `InvalidRequest`."""
    if body.previous_response_id is None:
        return []
    stored = _store(incoming.request).get(
        incoming.tenant, body.previous_response_id, param="previous_response_id"
    )
    if stored.work is not None:
        raise InvalidRequest(
            f"the response {body.previous_response_id} is not complete yet",
            param="previous_response_id",
        )
    return stored.items


def _chat(
    incoming: Incoming, body: ResponsesRequest, earlier: Sequence[Item], given: Sequence[Item]
) -> ChatRequest:
    messages = messages_of([*earlier, *given], first=len(earlier))
    chat = chat_request(body, messages)
    check_limits(chat, incoming.context.options)
    return chat


def _with_id(item: Item) -> Item:
    """Items that clients list have one."""
    if item.get("id"):
        return item
    return {**item, "id": new_id(_ID_PREFIXES.get(str(item.get("type")), "fco_"))}


def _leave_to(
    store: ResponseStore, stored: StoredResponse, work: asyncio.Task[Response]
) -> Response:
    """Answer at once; `work` completes the stored response later."""
    stored.response.status = "queued"
    answer = json_response(stored.response)
    stored.response.status = "in_progress"
    stored.work = work
    store.put(stored)
    work.add_done_callback(lambda done: _settle(store, stored, done))
    return answer


def _settle(store: ResponseStore, stored: StoredResponse, done: asyncio.Task[Response]) -> None:
    response = stored.response
    stored.work = None
    error = None if done.cancelled() else done.exception()
    if done.cancelled():
        response.status = "cancelled"
    elif isinstance(error, RequestError):
        _fail(response, error.code or "server_error", error.message)
    elif error is not None:
        logger.error("a response in the background failed", exc_info=error)
        _fail(response, "server_error", INTERNAL_ERROR.error.message)
    if store.holds(stored):  # it may have been deleted meanwhile
        store.put(stored)


def _fail(response: ResponseObject, code: str, message: str) -> None:
    response.status = "failed"
    response.error = ResponseError(code=code, message=message)
