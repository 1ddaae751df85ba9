"""From what `--scheduling-policy` says to a policy: an own one, an entry point, or `module:Class`.

Own policies are listed here, with the options that they take. Those from outside are imported when
they are asked for, checked against the contract, and guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Final, cast

from octavo.config.engine import EngineConfig
from octavo.config.plugins import load_plugin, make_plugin
from octavo.scheduler.policies.cache_aware import CacheAware
from octavo.scheduler.policies.deadline import Deadline
from octavo.scheduler.policies.fair import Fair
from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policies.guarded import GuardedPolicy
from octavo.scheduler.policies.priority import Priority
from octavo.scheduler.policies.sjf import Sjf
from octavo.scheduler.policy import (
    CONTRACT_VERSION,
    PolicyFactory,
    PolicyFacts,
    SchedulingPolicy,
)

FLAG = "--scheduling-policy"
ENTRY_POINT_GROUP = "octavo.scheduling_policies"


def _priority(config: EngineConfig) -> PolicyFactory:
    return partial(Priority, ageing_seconds=config.priority_ageing_seconds)


def _deadline(config: EngineConfig) -> PolicyFactory:
    return partial(Deadline, horizon_seconds=config.deadline_horizon_seconds)


POLICIES: Final = MappingProxyType[str, Callable[[EngineConfig], PolicyFactory]](
    {
        "fcfs": lambda _: Fcfs,
        "priority": _priority,
        "sjf": lambda _: Sjf,
        "fair": lambda _: Fair,
        "deadline": _deadline,
        "cache_aware": lambda _: CacheAware,
    }
)


def policy_factory(config: EngineConfig) -> PolicyFactory:
    """How to make the policy that `config.scheduling_policy` names. Raises ConfigError.

    A policy from outside comes in a `GuardedPolicy`; if it cannot be made, or is of another version
    of the contract, the factory raises ConfigError.
    """
    if config.scheduling_policy in POLICIES:
        return POLICIES[config.scheduling_policy](config)
    return partial(_make_guarded, config.scheduling_policy, find_factory(config))


def find_factory(config: EngineConfig) -> PolicyFactory:
    """As `policy_factory`, but unguarded and unchecked: for tests of a policy."""
    name = config.scheduling_policy
    if name in POLICIES:
        return POLICIES[name](config)
    found = load_plugin(FLAG, name, ENTRY_POINT_GROUP, POLICIES)
    return cast("PolicyFactory", found)


def _make_guarded(name: str, factory: PolicyFactory, facts: PolicyFacts) -> SchedulingPolicy:
    return GuardedPolicy(make_plugin(f"{FLAG} {name}", factory, facts, CONTRACT_VERSION))
