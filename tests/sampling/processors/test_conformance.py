"""A processor that keeps the contract passes; those that break it are found out."""

from __future__ import annotations

import pytest

from octavo.config.plugin_report import verdict
from octavo.sampling.processors.conformance import (
    CHECKS,
    Check,
    check_arguments_are_judged,
    check_cost,
    check_rows_depend_on_nothing_else,
    check_rows_stay_possible,
    check_tokens_are_only_read,
    check_version,
    main,
)
from octavo.sampling.processors.contract import Arguments, ProcessorFactory
from tests.sampling.processors import examples

ARGUMENTS: Arguments = {"ids": [5, 6]}
EXAMPLES = "tests.sampling.processors.examples"


@pytest.mark.parametrize("check", CHECKS)
def test_a_good_processor_conforms(check: Check) -> None:
    check(examples.Bans, ARGUMENTS)


@pytest.mark.parametrize(
    ("factory", "check", "complaint"),
    [
        (examples.Old, check_version, "contract_version is 0"),
        (examples.Lenient, check_arguments_are_judged, "accepted and ignored"),
        (examples.Confused, check_arguments_are_judged, "KeyError"),
        (examples.Raising, check_rows_stay_possible, "failed on this request"),
        (examples.NotANumber, check_rows_stay_possible, "token 3 nan"),
        (examples.Infinite, check_rows_stay_possible, "token 3 inf"),
        (examples.BansAll, check_rows_stay_possible, "left no token"),
        (examples.Allows, check_rows_stay_possible, "that the model excludes"),
        (examples.Counting, check_rows_depend_on_nothing_else, "differs"),
        (examples.Writing, check_tokens_are_only_read, "changes the tokens"),
        (examples.Slow, check_cost, "a large row costs"),
    ],
)
def test_a_broken_one_is_found_out(factory: ProcessorFactory, check: Check, complaint: str) -> None:
    assert complaint in verdict(check, factory, ARGUMENTS)


def test_the_command_prints_one_line_per_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{EXAMPLES}:Bans", '{"ids": [5]}']) == 0
    assert capsys.readouterr().out.count("ok ") == len(CHECKS)
    assert main([f"{EXAMPLES}:BansAll"]) == 1
    assert "FAILED  rows stay possible: ProcessorFailed" in capsys.readouterr().out
    for wrong in ([], ["nothing"], [f"{EXAMPLES}:Bans", "{"], [f"{EXAMPLES}:Bans", "7"]):
        assert main(wrong) == 2
        assert capsys.readouterr().err
