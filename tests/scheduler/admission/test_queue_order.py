"""Who is told to stand before a newcomer is who the real policy would admit before it."""

from __future__ import annotations

import math
import random

import pytest

from octavo.config.engine import EngineConfig
from octavo.scheduler.admission.queue_order import Place, QueueOrder, Waiting, queue_order
from octavo.scheduler.policies.exercises import SECONDS_PER_TOKEN, Facts
from octavo.scheduler.policies.registry import policy_factory
from octavo.scheduler.policy import Ticket

BY_KEY = ("fcfs", "priority", "deadline", "sjf")


def place(
    arrival: float = 0.0,
    *,
    tenant: str = "t",
    priority: int = 0,
    deadline: float = math.inf,
    prompt: int = 10,
    answer: int = 10,
    sequences: int = 1,
    weight: float = 1.0,
) -> Place:
    ticket = Ticket(
        request_id="",
        index=0,
        tenant=tenant,
        priority=priority,
        arrival_time=arrival,
        num_prompt_tokens=prompt,
        max_new_tokens=answer,
        deadline=deadline,
    )
    return Place(ticket, sequences, weight, SECONDS_PER_TOKEN * (prompt + answer))


def order_of(policy: str, **options: object) -> QueueOrder:
    return queue_order(EngineConfig(scheduling_policy=policy, **options))  # type: ignore[arg-type]


def crowd(seed: int, size: int) -> list[Place]:
    """By arrival. Deadlines are far enough to be met, answers shorter than the usual one."""
    source = random.Random(seed)
    return [
        place(
            float(number),
            priority=source.randint(-3, 3),
            deadline=number + source.choice([50.0, 80.0, 200.0, math.inf]),
            prompt=source.randint(1, 500),
            answer=source.randint(1, 50),
            sequences=source.randint(1, 3),
        )
        for number in range(size)
    ]


def total(places: list[Place]) -> Waiting:
    tokens = sum(one.ticket.num_prompt_tokens for one in places)
    return Waiting(sum(one.num_sequences for one in places), tokens)


@pytest.mark.parametrize("name", BY_KEY)
@pytest.mark.parametrize("seed", range(5))
def test_those_ahead_are_those_whom_the_policy_admits_before(name: str, seed: int) -> None:
    *waiting, newcomer = crowd(seed, 30)
    config = EngineConfig(
        scheduling_policy=name, priority_ageing_seconds=5.0, deadline_horizon_seconds=100.0
    )
    policy, order = policy_factory(config)(Facts()), queue_order(config)
    now = newcomer.ticket.arrival_time
    for one in waiting:
        order.add(one)
        policy.add(one.ticket, now)
    gone = waiting.pop(7)
    order.remove(gone)
    policy.remove(gone.ticket)
    policy.add(newcomer.ticket, now)
    by_ticket = {one.ticket: one for one in waiting}
    before = []
    while (head := policy.head(now)) is not newcomer.ticket:
        assert head is not None
        before.append(by_ticket[head])
        policy.remove(head)
    assert order.ahead_of(newcomer) == total(before)


@pytest.mark.parametrize("name", [*BY_KEY, "fair", "cache_aware"])
def test_nobody_stands_in_a_queue_that_all_have_left(name: str) -> None:
    order = order_of(name)
    places = crowd(1, 20)
    for one in places:
        order.add(one)
    for one in random.Random(2).sample(places, len(places)):
        order.remove(one)
    assert order.ahead_of(place(99.0, priority=99)) == Waiting(0, 0)


def test_the_cache_is_not_foreseen_and_rules_from_outside_are_not_known() -> None:
    order = order_of("cache_aware")
    order.add(place(prompt=30, sequences=2))
    assert order.ahead_of(place(1.0, priority=-9)) == Waiting(2, 30)


def flood(order: QueueOrder, tenant: str, number: int, weight: float = 1.0) -> None:
    for _ in range(number):
        order.add(place(tenant=tenant, prompt=100, weight=weight))


def test_a_tenant_without_a_queue_waits_for_no_flood() -> None:
    order = order_of("fair")
    flood(order, "busy", 50)
    assert order.ahead_of(place(tenant="quiet")) == Waiting(0, 0)
    assert order.ahead_of(place(tenant="busy")) == Waiting(50, 5000)


@pytest.mark.parametrize(("weight", "ahead"), [(1.0, Waiting(6, 600)), (3.0, Waiting(12, 1200))])
def test_others_get_their_share_while_ones_own_queue_is_served(
    weight: float, ahead: Waiting
) -> None:
    order = order_of("fair")
    flood(order, "busy", 50, weight)
    flood(order, "quiet", 3)
    assert order.ahead_of(place(tenant="quiet")) == ahead
