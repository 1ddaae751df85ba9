"""Many replicas behind a router, in virtual time: the queue of events and what each one starts.

Owns the clock. Knows of an engine only that its steps start and end.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from octavo.config.tenants import Tenants
from octavo.errors import OctavoError
from octavo.simulate.records import MAX_POINTS, Finished, Point, Records
from octavo.simulate.replica import Replica, SimulatedSequence, make_sequence
from octavo.simulate.routers import OpenRequests, Router
from octavo.simulate.trace import TraceRequest

OnFinished = Callable[[int, int], None]


class SimulationError(OctavoError):
    """Requests are left that nothing will ever move again: the scheduler has starved them."""


@dataclass(frozen=True, slots=True)
class Source:
    """Requests in the order of arrival. With `num_clients`, each client sends the next one of all
    when its last one is answered, and arrival times mean nothing (a closed loop)."""

    requests: Sequence[TraceRequest]
    num_clients: int | None = None


class _Feed:
    """What is still to be sent: (when, number of the request), ascending."""

    def __init__(self, source: Source) -> None:
        self._source = source
        clients = source.num_clients
        num_sent = len(source.requests) if clients is None else min(clients, len(source.requests))
        self._pending = deque(
            (0.0 if clients else source.requests[number].arrival_seconds, number)
            for number in range(num_sent)
        )
        self._following = iter(range(num_sent, len(source.requests)))

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def next_seconds(self) -> float:
        return self._pending[0][0]

    def pop(self) -> tuple[float, int]:
        return self._pending.popleft()

    def answered(self, now: float) -> None:
        """A client is free again. (In an open loop nothing follows.)"""
        number = next(self._following, None)
        if number is not None:
            self._pending.append((now, number))


class Cluster:
    """`request_seconds` delay each request on its way to an engine. Runs once."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        router: Router,
        records: Records,
        tenants: Tenants,
        request_seconds: float = 0.0,
    ) -> None:
        self._replicas = replicas
        self._router = router
        self._records = records
        self._tenants = tenants
        self._request_seconds = request_seconds
        self._loads = OpenRequests(len(replicas))
        self._step_ends: list[tuple[float, int]] = []  # heap of (when, replica)

    def run(self, source: Source, on_finished: OnFinished | None = None) -> None:
        """All of `source`, to the end. Raises SimulationError if some of it never ends."""
        feed = _Feed(source)
        self._begin(source)
        num_ended, num_requests = 0, len(source.requests)
        while feed or self._step_ends:
            arrival = feed.next_seconds + self._request_seconds if feed else float("inf")
            if self._step_ends and self._step_ends[0][0] <= arrival:
                now, number = heapq.heappop(self._step_ends)
                num_done = self._end_step(number, now)
            else:
                now = arrival
                num_done = self._arrive(*feed.pop(), source, now)
            for _ in range(num_done):
                feed.answered(now)
            if num_done and on_finished is not None:
                num_ended += num_done
                on_finished(num_ended, num_requests)
            if now >= self._records.timeline.next_seconds:
                self._records.timeline.add(self._look(now))
        self._check_all_ended()

    def _begin(self, source: Source) -> None:
        """The timeline's first guess at an interval; it doubles when that was too short."""
        first, last = (source.requests[at].arrival_seconds for at in (0, -1))
        if source.num_clients is None:
            self._records.first_seconds = self._records.last_seconds = first
            self._records.last_arrival_seconds = last
            interval = (last - first) / MAX_POINTS
            timeline = self._records.timeline
            timeline.interval_seconds = max(timeline.interval_seconds, interval)

    def _arrive(self, sent: float, number: int, source: Source, now: float) -> int:
        """How many requests are over: this one if it is refused, others by their deadlines."""
        request = source.requests[number]
        chosen = self._router.choose(request, self._loads)
        weight = self._tenants.limits(request.tenant).weight
        sequence = make_sequence(request, number, sent, weight)
        answer = self._replicas[chosen].submit(sequence, now)
        if answer != "taken":
            self._records.count_refused(request.tenant, answer)
            return 1
        self._loads.change(chosen, 1)
        self._records.most_open = max(self._records.most_open, self._loads.total)
        if self._replicas[chosen].is_busy:
            return 0
        return self._start_step(chosen, now)

    def _start_step(self, number: int, now: float) -> int:
        """How many requests ended before it, without being answered."""
        replica = self._replicas[number]
        expired = replica.expire(now)
        for sequence in expired:
            self._loads.change(number, -1)
            self._records.num_expired[sequence.request.tenant] += 1
        end = replica.start_step(now)
        if end is not None:
            heapq.heappush(self._step_ends, (end, number))
        return len(expired)

    def _end_step(self, number: int, now: float) -> int:
        """How many requests ended with it."""
        replica = self._replicas[number]
        ended = replica.end_step()
        for sequence in ended:
            self._loads.change(number, -1)
            self._note(sequence, replica, now)
        return len(ended) + self._start_step(number, now)

    def _note(self, sequence: SimulatedSequence, replica: Replica, now: float) -> None:
        sent = sequence.request.arrival_time
        finished = self._records.finished.setdefault(sequence.request.tenant, Finished())
        finished.add(
            replica.steps.at(sequence.first_step) - sent,
            now - sent,
            sequence.num_prompt_tokens,
            sequence.num_output_tokens,
        )
        self._records.last_seconds = now

    def _look(self, now: float) -> Point:
        schedulers = [replica.scheduler for replica in self._replicas]
        num_pages = sum(one.kv.num_pages for one in schedulers)
        num_free = sum(one.kv.num_free_pages for one in schedulers)
        return Point(
            seconds=now,
            num_running=sum(one.num_running for one in schedulers),
            num_waiting=sum(one.num_waiting for one in schedulers),
            page_share=1 - num_free / num_pages,
        )

    def _check_all_ended(self) -> None:
        left = sum(one.scheduler.num_running + one.scheduler.num_waiting for one in self._replicas)
        if left:
            raise SimulationError(f"{left} requests wait and nothing will ever admit them")
