"""The routes of responses, one row each."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from octavo.entrypoints.openai.responses_api import routes
from octavo.entrypoints.openai.responses_api.events import ResponseEvent
from octavo.entrypoints.openai.responses_api.objects import (
    InputItems,
    InputTokens,
    ResponseDeleted,
    ResponseObject,
)
from octavo.entrypoints.openai.responses_api.request import ResponsesRequest
from octavo.entrypoints.openai.schema.endpoint import Endpoint

RESPONSE_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/responses",
        handler=routes.create_response,
        summary="Answer items, perhaps those of an earlier response first.",
        request=ResponsesRequest,
        answer=ResponseObject,
        event=ResponseEvent,
        has_end_mark=False,
    ),
    Endpoint(
        method="POST",
        path="/v1/responses/input_tokens",
        handler=routes.count_input_tokens,
        summary="How many tokens a response would read.",
        request=ResponsesRequest,
        answer=InputTokens,
    ),
    Endpoint(
        method="GET",
        path="/v1/responses/{response_id}",
        handler=routes.show_response,
        summary="A stored response.",
        query=(("stream", Literal["false"]),),
        answer=ResponseObject,
        statuses=(404,),
    ),
    Endpoint(
        method="DELETE",
        path="/v1/responses/{response_id}",
        handler=routes.delete_response,
        summary="Forget a stored response.",
        answer=ResponseDeleted,
        statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/v1/responses/{response_id}/cancel",
        handler=routes.cancel_response,
        summary="End a response that is made in the background.",
        answer=ResponseObject,
        statuses=(404,),
    ),
    Endpoint(
        method="GET",
        path="/v1/responses/{response_id}/input_items",
        handler=routes.list_input_items,
        summary="What a stored response answered.",
        query=(
            ("limit", Annotated[int, msgspec.Meta(ge=1, le=routes.MAX_PAGE)]),
            ("after", str),
            ("order", Literal["asc", "desc"]),
        ),
        answer=InputItems,
        statuses=(404,),
    ),
)
