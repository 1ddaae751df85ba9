"""What arrives in a simulation: requests as lengths, names and times. Knows no engine and no file.

A request's prompt has no text. Its token ids are made up so that two prompts are equal exactly as
far as their `prefix` parts are.
"""

from __future__ import annotations

import msgspec


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`prefix` are the parts that the prompt begins with, (name, number of tokens): prompts that
    begin with equal parts share pages. `num_answer_tokens` is what the model will say; the engine
    learns only `max_tokens`, None for no bound of the client's own. Smaller `priority` runs first.
    """

    arrival_seconds: float
    num_prompt_tokens: int
    num_answer_tokens: int
    tenant: str = ""
    priority: int = 0
    prefix: tuple[tuple[int, int], ...] = ()
    max_tokens: int | None = None
    timeout_seconds: float | None = None


def prompt_token_ids(request: TraceRequest, number: int) -> list[int]:
    """Even ids for parts that others may share, odd ones for what is the request's own. `number` is
    of the request in its trace."""
    ids: list[int] = []
    for name, num_tokens in request.prefix:
        ids += [2 * name] * num_tokens
    del ids[request.num_prompt_tokens :]
    return ids + [2 * number + 1] * (request.num_prompt_tokens - len(ids))


def mean_rate(requests: list[TraceRequest]) -> float:
    """Requests per second over the time in which they arrive; 0 if they all come at once."""
    span = requests[-1].arrival_seconds - requests[0].arrival_seconds if requests else 0.0
    return (len(requests) - 1) / span if span > 0 else 0.0
