"""`/v1/messages`: Anthropic's API. A message is a chat turn in other words."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from octavo.entrypoints.anthropic.answer import MessageAnswer
from octavo.entrypoints.anthropic.objects import TokenCount
from octavo.entrypoints.anthropic.request import CountTokensRequest, MessagesRequest, PromptBody
from octavo.entrypoints.anthropic.translate import chat_request, in_terms_of_messages
from octavo.entrypoints.openai.bodies.limits import check_limits
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.turn import ChatTurn
from octavo.entrypoints.openai.generation.answers import respond
from octavo.entrypoints.openai.http.errors import json_response
from octavo.entrypoints.openai.intake.context import Incoming, receive_body, receive_counted


async def create_message(request: Request) -> Response:
    incoming, body = await receive_body(request, MessagesRequest)
    with in_terms_of_messages():
        chat = _chat(incoming, body)
        turn = ChatTurn(incoming, chat)
        answer = MessageAnswer(turn, body.model or incoming.context.model.names[0])
        return await respond(incoming, chat, turn, answer)


async def count_tokens(request: Request) -> Response:
    incoming, body = await receive_counted(request, CountTokensRequest)
    with in_terms_of_messages():
        ids = await ChatTurn(incoming, _chat(incoming, body)).prompt_ids()
    return json_response(TokenCount(input_tokens=len(ids)))


def _chat(incoming: Incoming, body: PromptBody) -> ChatRequest:
    chat = chat_request(body, incoming.context)
    check_limits(chat, incoming.context.options)
    return chat
