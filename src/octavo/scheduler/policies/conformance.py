"""Whether a scheduling policy keeps its contract: checks that an outside author can run.

    python -m octavo.scheduler.policies.conformance NAME | module:Class

Or in one's own tests:

    @pytest.mark.parametrize("check", CHECKS)
    def test_conforms(check): check(MyPolicy)

A check takes a factory and raises `NonConforming` with what was found. Knows no policy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from octavo.config.engine import EngineConfig
from octavo.config.plugin_report import demand, report
from octavo.errors import ConfigError
from octavo.scheduler.policies.exercises import (
    UNFAVOURABLE,
    Facts,
    becomes_head,
    exercised,
    lines_per_turn,
    make_ticket,
)
from octavo.scheduler.policies.registry import find_factory
from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFactory

Check = Callable[[PolicyFactory], None]


def check_version(factory: PolicyFactory) -> None:
    """It is of this version of the contract."""
    version = factory(Facts()).contract_version
    demand(version == CONTRACT_VERSION, f"contract_version is {version}, not {CONTRACT_VERSION}")


def check_nothing_is_lost_or_invented(factory: PolicyFactory) -> None:
    """Whatever comes, goes and is charged for, exactly those wait who came and did not go."""
    for seed in range(20):
        policy, here, now = exercised(factory, seed)
        for left in range(len(here), 0, -1):
            demand(len(policy) == left, f"len is {len(policy)} while {left} wait")
            head = policy.head(now)
            demand(head in here, f"head is {head} and does not wait")
            assert head is not None
            here.remove(head)
            policy.remove(head)
        demand(len(policy) == 0, f"len is {len(policy)} while nobody waits")
        demand(policy.head(now) is None, "there is a head while nobody waits")


def check_head_is_stable(factory: PolicyFactory) -> None:
    """Asked again at the same time, it names the same, until somebody comes, goes or is charged."""
    for seed in range(20):
        policy, here, now = exercised(factory, seed)
        head = policy.head(now)
        for _ in range(3):
            len(policy)
            policy.remove(make_ticket())  # who is not here changes nothing
            demand(policy.head(now) is head, f"head changes by being asked, {len(here)} waiting")


def check_remove_is_idempotent(factory: PolicyFactory) -> None:
    """Who is not here can be removed, before the first and after the last, and may come again."""
    policy = factory(Facts())
    ticket, other = make_ticket(), make_ticket(tenant="a")
    policy.remove(ticket)
    policy.add(ticket, 0.0)
    policy.add(other, 0.0)
    policy.remove(ticket)
    policy.remove(ticket)
    demand(len(policy) == 1, "removing twice removes two")
    demand(policy.head(0.0) is other, "who was removed is still in the way")
    policy.add(ticket, 1.0)
    policy.remove(other)
    demand(policy.head(1.0) is ticket, "who comes again is lost")


def check_equal_tickets_are_two(factory: PolicyFactory) -> None:
    """Tickets are compared by identity, so two with the same fields are two."""
    policy = factory(Facts())
    twins = [make_ticket(), make_ticket()]
    for ticket in twins:
        policy.add(ticket, 0.0)
    first = policy.head(0.0)
    demand(any(first is ticket for ticket in twins), f"head is {first} and does not wait")
    assert first is not None
    policy.remove(first)
    second = policy.head(0.0)
    demand(second is not first and any(second is ticket for ticket in twins), "a twin is lost")


def check_nobody_starves(factory: PolicyFactory) -> None:
    """However unloved, a ticket is next in the end, though a favourite comes with each second."""
    for name, victim, favourite in UNFAVOURABLE:
        policy = factory(Facts())
        served, unloved = victim(0.0), victim(0.0)
        policy.add(served, 0.0)
        policy.head(0.0)
        policy.remove(served)
        crowd = [favourite(0.0, number) for number in range(8)]
        for ticket in (*crowd[:4], unloved, *crowd[4:]):
            policy.add(ticket, 0.0)
        policy.charge(served, 2000)  # its tenant has had its share
        demand(becomes_head(policy, unloved, favourite), f"{name} starves: {unloved}")


def check_cost_of_head_does_not_grow(factory: PolicyFactory) -> None:
    """A turn (one comes, the head is asked for thrice and goes) executes about as many lines of
    Python, those of the facts and of reading tickets included, with 100,000 waiting as with 1,000.

    What happens inside one call of a C function on plain numbers is not seen.
    """
    few = lines_per_turn(factory, 1_000)
    limit = 3 * few + 50
    demand(
        lines_per_turn(factory, 100_000, limit) <= limit,
        f"a turn executes {few:.0f} lines with 1,000 waiting, and over {limit:.0f} with 100,000",
    )


CHECKS: tuple[Check, ...] = (
    check_version,
    check_nothing_is_lost_or_invented,
    check_head_is_stable,
    check_remove_is_idempotent,
    check_equal_tickets_are_two,
    check_nobody_starves,
    check_cost_of_head_does_not_grow,
)


def main(arguments: list[str]) -> int:
    """One line per check; 1 if any fails, 2 if there is no such policy."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m octavo.scheduler.policies.conformance NAME\n")
        return 2
    try:
        factory = find_factory(EngineConfig(scheduling_policy=arguments[0]))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return report(CHECKS, factory)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
