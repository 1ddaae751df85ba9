"""The routes of Anthropic's API, one row each."""

from __future__ import annotations

from octavo.entrypoints.anthropic import routes
from octavo.entrypoints.anthropic.errors import MessageErrorBody, message_error
from octavo.entrypoints.anthropic.objects import Message, MessageEvent, TokenCount
from octavo.entrypoints.anthropic.request import CountTokensRequest, MessagesRequest
from octavo.entrypoints.openai.schema.endpoint import Endpoint

MESSAGE_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/messages",
        handler=routes.create_message,
        summary="Answer a conversation, in Anthropic's form.",
        request=MessagesRequest,
        answer=Message,
        event=MessageEvent,
        has_end_mark=False,
        error=MessageErrorBody,
        error_shape=message_error,
    ),
    Endpoint(
        method="POST",
        path="/v1/messages/count_tokens",
        handler=routes.count_tokens,
        summary="How many tokens a message would read.",
        request=CountTokensRequest,
        answer=TokenCount,
        error=MessageErrorBody,
        error_shape=message_error,
    ),
)
