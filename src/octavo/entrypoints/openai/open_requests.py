"""Which HTTP requests are generating, how many may, and how they end when the server stops.

The bound is checked before any work is done for a request. Knows streams, but no wire format.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.engine.client import EngineClient
from octavo.engine.streams import OutputStream
from octavo.entrypoints.openai.streaming import merge
from octavo.errors import CapacityError, EngineDead, RequestError, ServerDraining


class GenerationFailed(RequestError):
    """The engine gave up on this one request."""

    status = 500
    type = "internal_error"


class Ticket:
    """The right to generate. `names` are the ids that an abort may give."""

    def __init__(self, owner: OpenRequests, num_sequences: int, names: Sequence[str]) -> None:
        self._owner = owner
        self.num_sequences = num_sequences
        self.names = names
        self.streams: list[OutputStream] = []

    def submit(self, client: EngineClient, requests: Sequence[EngineRequest]) -> Generation:
        for request in requests:
            self.streams.append(client.submit(request))
        return Generation(self, requests)

    def close(self) -> None:
        """Abort what has not finished and give the right back. Idempotent."""
        for stream in self.streams:
            stream.close()
        self._owner.forget(self)


class Generation:
    """The outputs of one HTTP request. A choice is a prompt's index times n, plus a sequence's."""

    def __init__(self, ticket: Ticket, requests: Sequence[EngineRequest]) -> None:
        self.ticket = ticket
        self.requests = requests
        self.n = requests[0].sampling_params.n

    @property
    def num_choices(self) -> int:
        return self.n * len(self.requests)

    async def outputs(self) -> AsyncIterator[tuple[int, SequenceOutput]]:
        """(choice, output) as they come. Raises `EngineDead` or `GenerationFailed`."""
        async for prompt_index, output in merge(self.ticket.streams):
            choice = prompt_index * self.n + output.index
            if output.finish_reason != "error":
                yield choice, output
                continue
            if output.token_ids:
                yield choice, replace(output, finish_reason=None)
            raise GenerationFailed(output.error or "the engine failed on this request")


class OpenRequests:
    """`max_num_sequences` is slots plus queue. A request larger than all of it may run alone."""

    def __init__(self, max_num_sequences: int) -> None:
        self._max_num_sequences = max_num_sequences
        self._num_sequences = 0
        self._tickets: set[Ticket] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_draining = False

    def __len__(self) -> int:
        return len(self._tickets)

    def admit(self, num_sequences: int, names: Sequence[str]) -> Ticket:
        """Raises `CapacityError` or `ServerDraining`."""
        if self.is_draining:
            raise ServerDraining("the server is shutting down", retry_after_seconds=5)
        cost = min(num_sequences, self._max_num_sequences)
        if self._num_sequences + cost > self._max_num_sequences:
            raise CapacityError(
                f"{self._num_sequences} sequences are running or waiting; with {num_sequences} "
                f"more there would be more than {self._max_num_sequences}",
                code="queue_full",
            )
        ticket = Ticket(self, cost, names)
        self._tickets.add(ticket)
        self._num_sequences += cost
        self._idle.clear()
        return ticket

    def forget(self, ticket: Ticket) -> None:
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            self._num_sequences -= ticket.num_sequences
            if not self._tickets:
                self._idle.set()

    def abort(self, client: EngineClient, names: Sequence[str]) -> int:
        """Abort the requests with these names; clients get what there is. Returns how many."""
        wanted = set(names)
        found = [ticket for ticket in self._tickets if not wanted.isdisjoint(ticket.names)]
        for ticket in found:
            for stream in ticket.streams:
                client.abort(stream.request_id)
        return len(found)

    async def drain(self, timeout_seconds: float) -> None:
        """Admit nothing more; let what is open finish, and fail what has not in time."""
        self.is_draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        except TimeoutError:
            error = EngineDead("the server is shutting down; the request was not finished")
            for ticket in self._tickets:
                for stream in ticket.streams:
                    stream.fail(error)
