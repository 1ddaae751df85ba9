"""Which HTTP requests are generating, and how they end when the server stops.

Who may is decided by admission, before any work is done. Knows streams, but no wire format.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from octavo.core.outputs import DEADLINE_EXCEEDED, FORM_NOT_KEPT, STOP_REGEX_FAILED, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.engine.client import EngineClient
from octavo.engine.streams import OutputStream
from octavo.errors import (
    CapacityError,
    DeadlineExceeded,
    DeadlineUnreachable,
    EngineDead,
    InvalidRequest,
    RefusalCode,
    RequestError,
    ServerDraining,
)
from octavo.scheduler.admission.admission import Admission
from octavo.scheduler.admission.demand import LEAST_DEMAND, Demand, Grant, Refusal

PATIENT_POLL_SECONDS = 1.0
"""Who waits patiently looks again after this, for what is learned by time alone."""


OTHERS_LINGER_SECONDS = 2.0
"""Who was answered may soon come back: only after this are patient requests alone."""

ENOUGH_PATIENT_TOKENS = 512
"""Of prompts that are yet to be read: with so many, patient requests wait. Who comes next stands
behind all of them, and a batch that begins would else fill every slot at once."""


class GenerationFailed(RequestError):
    """The engine gave up on this one request."""

    status = 500
    type = "internal_error"


class Ticket:
    """The right to generate. `names` are the ids that an abort may give."""

    def __init__(
        self,
        owner: OpenRequests,
        grant: Grant,
        tenant: str,
        names: Collection[str],
        *,
        is_patient: bool = False,
    ) -> None:
        self._owner = owner
        self.grant = grant
        self.tenant = tenant
        self.names = names
        self.is_patient = is_patient
        self.streams: list[OutputStream] = []
        self.num_output_tokens = 0
        self.is_aborted = False

    def submit(self, client: EngineClient, requests: Sequence[EngineRequest]) -> Generation:
        self.tokenised(sum(len(request.prompt_token_ids) for request in requests))
        for request in requests:
            self.open(client, request)
        return Generation(self, requests)

    def open(self, client: EngineClient, request: EngineRequest) -> OutputStream:
        """One request whose tokens have been counted. Raises `EngineDead`."""
        stream = client.submit(request)
        self.streams.append(stream)
        return stream

    def tokenised(self, num_prompt_tokens: int) -> None:
        """All prompts together have so many tokens."""
        self._owner.tokenised(self, num_prompt_tokens)

    def started(self) -> None:
        """Something has come of every prompt."""
        self._owner.started(self)

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
        self._ticket = ticket
        self._streams = ticket.streams
        self._silent = set(range(len(requests)))  # prompts of which nothing has come
        self._waiter: asyncio.Future[None] | None = None
        self._failure: RequestError | None = None
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

        Raises `EngineDead`, `DeadlineExceeded` or `GenerationFailed` after all that came before.
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
                self._ticket.num_output_tokens += len(output.token_ids)
                if prompt_index in self._silent:
                    self._hear(prompt_index)
                choice = prompt_index * self.n + output.index
                if output.finish_reason == "error":
                    self._failure = failure_of(output)
                    output = replace(output, finish_reason=None)
                    if not output.token_ids:
                        continue
                news.append((choice, output))
        return news

    def _hear(self, prompt_index: int) -> None:
        self._silent.discard(prompt_index)
        if not self._silent:
            self._ticket.started()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def failure_of(output: SequenceOutput) -> RequestError:
    if output.error == DEADLINE_EXCEEDED:
        return DeadlineExceeded(DEADLINE_EXCEEDED)
    if output.error == FORM_NOT_KEPT:
        return InvalidRequest(FORM_NOT_KEPT, param="structured_outputs")
    if output.error == STOP_REGEX_FAILED:
        return InvalidRequest(STOP_REGEX_FAILED, param="stop_regex")
    return GenerationFailed(output.error or "the engine failed on this request")


@dataclass(frozen=True, slots=True)
class PatientShare:
    """How many sequences of patient requests run: alone, and beside others. One always may."""

    alone: int
    beside: int

    @classmethod
    def of(cls, num_slots: int, alone: int | None = None) -> PatientShare:
        """Alone they leave slots free for who comes; beside others they take few."""
        alone = num_slots - -(-num_slots // 8) if alone is None else alone
        return cls(alone, min(alone, num_slots // 8))


class OpenRequests:
    """`on_refused` hears the code of each refusal. `clock` is that of deadlines."""

    def __init__(
        self,
        admission: Admission,
        on_refused: Callable[[RefusalCode], None],
        share: PatientShare,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.admission = admission
        self._on_refused = on_refused
        self._share = share
        self._clock = clock
        self._num_patient_sequences = 0
        self._others_left_at = -math.inf
        self._changed = asyncio.Event()
        self._tickets: set[Ticket] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_draining = False

    def __len__(self) -> int:
        return len(self._tickets)

    def check(self, tenant: str) -> None:
        """Raises as `admit` would for any request, however small."""
        self._check_draining()
        if refusal := self.admission.refusal(tenant, LEAST_DEMAND, self._clock()):
            raise self._refused(refusal)

    def count(self, tenant: str) -> None:
        """A request that does not reach the engine. Raises `CapacityError` beyond the tenant's rate
        of requests."""
        if refusal := self.admission.count(tenant, self._clock()):
            raise self._refused(refusal)

    def admit(self, tenant: str, demand: Demand, names: Collection[str]) -> Ticket:
        """Raises `CapacityError`, `DeadlineUnreachable` or `ServerDraining`."""
        self._check_draining()
        grant = self.admission.admit(tenant, demand, self._clock())
        if isinstance(grant, Refusal):
            raise self._refused(grant)
        return self._open(Ticket(self, grant, tenant, names))

    def _open(self, ticket: Ticket) -> Ticket:
        self._tickets.add(ticket)
        self._idle.clear()
        if ticket.is_patient:
            self._num_patient_sequences += ticket.grant.num_sequences
        return ticket

    async def admit_patiently(self, tenant: str, demand: Demand, names: Collection[str]) -> Ticket:
        """Wait for room instead of being refused, and leave room for those who do not wait.

        Raises `DeadlineUnreachable` or `ServerDraining`.
        """
        while True:
            self._check_draining()
            seconds = PATIENT_POLL_SECONDS
            if self._has_patient_room(demand.num_sequences):
                grant = self.admission.admit(tenant, demand, self._clock())
                if isinstance(grant, Grant):
                    return self._open(Ticket(self, grant, tenant, names, is_patient=True))
                if grant.code == "deadline_unreachable":
                    raise self._refused(grant)
                seconds = min(seconds, grant.retry_after_seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    def _has_patient_room(self, num_sequences: int) -> bool:
        others = self.admission.num_sequences - self._num_patient_sequences
        is_alone = not others and self._clock() - self._others_left_at > OTHERS_LINGER_SECONDS
        room = self._share.alone if is_alone else self._share.beside
        num_beyond = self._num_patient_sequences + num_sequences - room
        if num_beyond > 0 and self._num_patient_sequences > 0:
            return False
        return self._num_unread_patient_tokens() < ENOUGH_PATIENT_TOKENS

    def _num_unread_patient_tokens(self) -> int:
        """O(open requests)."""
        grants = (ticket.grant for ticket in self._tickets if ticket.is_patient)
        return sum(grant.num_prompt_tokens for grant in grants if grant.is_queued)

    def tokenised(self, ticket: Ticket, num_prompt_tokens: int) -> None:
        self.admission.tokenised(ticket.grant, num_prompt_tokens, self._clock())

    def started(self, ticket: Ticket) -> None:
        self.admission.started(ticket.grant, self._clock())
        if ticket.is_patient:
            self._tell()

    def forget(self, ticket: Ticket) -> None:
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            self.admission.close(ticket.grant, ticket.num_output_tokens, self._clock())
            if ticket.is_patient:
                self._num_patient_sequences -= ticket.grant.num_sequences
            else:
                self._others_left_at = self._clock()
            self._tell()
            if not self._tickets:
                self._idle.set()

    def _tell(self) -> None:
        """Who waits patiently looks again."""
        self._changed.set()
        self._changed.clear()

    def _check_draining(self) -> None:
        if self.is_draining:
            raise ServerDraining("the server is shutting down", retry_after_seconds=5)

    def _refused(self, refusal: Refusal) -> CapacityError:
        self._on_refused(refusal.code)
        is_late = refusal.code == "deadline_unreachable"
        kind = DeadlineUnreachable if is_late else CapacityError
        return kind(
            refusal.message,
            code=refusal.code,
            retry_after_seconds=refusal.retry_after_seconds,
        )

    def abort(self, client: EngineClient, tenant: str, names: Sequence[str]) -> int:
        """Abort the tenant's requests with these names; clients get what there is. Returns how
        many. Names that clients give can be guessed: nobody ends another tenant's request."""
        wanted = set(names)
        found = [
            ticket
            for ticket in self._tickets
            if ticket.tenant == tenant and not wanted.isdisjoint(ticket.names)
        ]
        for ticket in found:
            ticket.is_aborted = True
            for stream in ticket.streams:
                client.abort(stream.request_id)
        return len(found)

    async def drain(self, timeout_seconds: float) -> None:
        """Admit nothing more; let what is open finish, and fail what has not in time."""
        self.is_draining = True
        self._tell()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        except TimeoutError:
            error = EngineDead("the server is shutting down; the request was not finished")
            for ticket in self._tickets:
                for stream in ticket.streams:
                    stream.fail(error)
