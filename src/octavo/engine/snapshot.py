"""What the engine says of itself after each step: the scheduler's and the pages' figures together.

How many wait makes no difference to its cost; how many run, only in every sixteenth step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from heapq import nlargest

from octavo.core.outputs import EngineStats
from octavo.engine.counters import EngineCounts
from octavo.scheduler.scheduler import Scheduler

MAX_TENANTS = 32
"""Tenants whose waiting sequences are reported: those with the most."""


STEPS_BETWEEN_LOOKS = 16


class Snapshots:
    """Of one scheduler. What costs a look at every running sequence is looked at now and then."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._num_unread_tokens = 0
        self._num_wasted_slots = 0

    def take(self, counts: EngineCounts) -> EngineStats:
        scheduler = self._scheduler
        if counts.num_steps % STEPS_BETWEEN_LOOKS == 0 or not scheduler.has_work:
            self._num_unread_tokens = scheduler.num_unread_tokens()
            self._num_wasted_slots = scheduler.kv.num_wasted_slots()
        kv = scheduler.kv.stats()
        _, token_seconds, sequence_seconds, _ = scheduler.step_time.coefficients
        return EngineStats(
            num_running=scheduler.num_running,
            num_waiting=scheduler.num_waiting,
            num_pages=kv.num_pages,
            num_used_pages=kv.num_used_pages,
            num_cached_pages=kv.num_cached_pages,
            num_preemptions=scheduler.counters.num_preemptions,
            prefix_cache_queries=kv.prefix_queries,
            prefix_cache_hits=kv.prefix_hits,
            num_waiting_tokens=self._num_unread_tokens,
            prompt_seconds_per_token=scheduler.seconds_per_prompt_token(),
            step_seconds_per_sequence=token_seconds + sequence_seconds,
            num_swapped=kv.num_swapped_sequences,
            num_copied_pages=kv.num_copies,
            num_swapped_out_pages=kv.num_swap_outs,
            num_swapped_in_pages=kv.num_swap_ins,
            num_wasted_tokens=scheduler.counters.num_wasted_tokens,
            num_wasted_slots=self._num_wasted_slots,
            num_expired=scheduler.counters.num_expired,
            num_saved_pages=kv.num_saved_pages,
            num_pinned_pages=kv.num_pinned_pages,
            num_evicted_pages=kv.num_evictions,
            num_waiting_by_reason=scheduler.waiting_by_reason(),
            num_waiting_by_tenant=_largest(scheduler.waiting_by_tenant()),
            cpu_seconds=time.process_time(),
            **asdict(counts),
        )


def _largest(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(nlargest(MAX_TENANTS, counts.items(), key=lambda item: item[1]))
