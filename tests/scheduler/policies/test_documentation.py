"""What docs/scheduling.md says is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from octavo.scheduler.policies.conformance import CHECKS, Check
from octavo.scheduler.policies.registry import POLICIES
from octavo.scheduler.policy import PolicyFactory

TEXT = (Path(__file__).parents[3] / "docs" / "scheduling.md").read_text()


def example() -> PolicyFactory:
    code = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
    names: dict[str, PolicyFactory] = {}
    exec(code, names)
    return names["ShortAnswersFirst"]


@pytest.mark.parametrize("check", CHECKS)
def test_the_example_conforms(check: Check) -> None:
    check(example())


def test_every_policy_is_in_both_tables() -> None:
    for name in POLICIES:
        assert len(re.findall(rf"^\| `{name}`", TEXT, re.MULTILINE)) == 2
