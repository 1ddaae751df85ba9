"""Which HTTP requests are generating, how many may, and how they end when the server stops.

The bound is checked before any work is done for a request. Knows streams, but no wire format.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.engine.client import EngineClient
from octavo.engine.streams import OutputStream
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
        self.requests = requests
        self.n = requests[0].sampling_params.n
        self._streams = ticket.streams
        self._waiter: asyncio.Future[None] | None = None
        self._failure: GenerationFailed | None = None
        for stream in self._streams:
            stream.on_news = self._wake

    @property
    def num_choices(self) -> int:
        return self.n * len(self.requests)

    @property
    def is_over(self) -> bool:
        """All outputs have been given, and there was no error."""
        return self._failure is None and all(stream.is_over for stream in self._streams)

    async def news(self) -> list[tuple[int, SequenceOutput]]:
        """(choice, output) of what is new, in one go; nothing at the end.

        Raises `EngineDead` or `GenerationFailed` after all that came before.
        """
        while self._failure is None:
            news = self._take()
            if news:
                return news
            if self._failure is None and self.is_over:
                return []
            for stream in self._streams:
                if stream.error is not None:
                    raise stream.error
            if self._failure is None:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        raise self._failure

    def _take(self) -> list[tuple[int, SequenceOutput]]:
        news = []
        for prompt_index, stream in enumerate(self._streams):
            for output in stream.take():
                choice = prompt_index * self.n + output.index
                if output.finish_reason == "error":
                    self._failure = GenerationFailed(
                        output.error or "the engine failed on this request"
                    )
                    output = replace(output, finish_reason=None)
                    if not output.token_ids:
                        continue
                news.append((choice, output))
        return news

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


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
