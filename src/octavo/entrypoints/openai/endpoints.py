"""The routes of the server, one row each. A route that is not here does not exist."""

from __future__ import annotations

from octavo.entrypoints.anthropic.endpoints import MESSAGE_ENDPOINTS
from octavo.entrypoints.openai.batches.endpoints import BATCH_ENDPOINTS
from octavo.entrypoints.openai.chat.objects import ChatBody, ChatChunk
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.routes import create_chat_completion
from octavo.entrypoints.openai.completions.objects import CompletionBody
from octavo.entrypoints.openai.completions.request import CompletionRequest
from octavo.entrypoints.openai.completions.routes import create_completion
from octavo.entrypoints.openai.pooling.endpoints import POOLING_ENDPOINTS
from octavo.entrypoints.openai.responses_api.endpoints import RESPONSE_ENDPOINTS
from octavo.entrypoints.openai.schema.endpoint import Endpoint
from octavo.entrypoints.openai.utility.endpoints import UTILITY_ENDPOINTS

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/chat/completions",
        handler=create_chat_completion,
        summary="Answer a conversation.",
        request=ChatRequest,
        answer=ChatBody,
        event=ChatChunk,
        takes_lines=True,
    ),
    Endpoint(
        method="POST",
        path="/v1/completions",
        handler=create_completion,
        summary="Continue a text or token ids.",
        request=CompletionRequest,
        answer=CompletionBody,
        event=CompletionBody,
        takes_lines=True,
    ),
    *POOLING_ENDPOINTS,
    *RESPONSE_ENDPOINTS,
    *MESSAGE_ENDPOINTS,
    *BATCH_ENDPOINTS,
    *UTILITY_ENDPOINTS,
)
