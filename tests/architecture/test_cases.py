"""The table of cases names tests that exist, and leaves no case out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLE = (TESTS / "CASES.md").read_text()
ROWS = dict(re.findall(r"^\| ([A-Z]\d+) \|(.*)\|$", TABLE, re.MULTILINE))
PLACE = re.compile(r"`([\w/]+\.py)?(?:::(\w+))?`")
WANTED = {"A": 12, "B": 8, "S": 7, "T": 4, "L": 10}


def named_tests(text: str) -> list[tuple[str, str]]:
    """(file, test) of each place; the file of the place before where none is given."""
    places: list[tuple[str, str]] = []
    for file, test in PLACE.findall(text):
        if file or test:
            places.append((file or places[-1][0], test))
    return places


def test_no_case_is_left_out() -> None:
    assert set(ROWS) == {f"{kind}{i + 1}" for kind, num in WANTED.items() for i in range(num)}
    assert {case for case, row in ROWS.items() if not named_tests(row)} == {"L7"}


@pytest.mark.parametrize(("file", "test"), sorted(set(named_tests(TABLE))))
def test_a_named_test_exists(file: str, test: str) -> None:
    names = {
        node.name
        for node in ast.parse((TESTS / file).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert test in names or (not test and names)
