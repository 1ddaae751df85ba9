"""The options that bound grammars hold at their limit, and refuse one beyond it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from octavo.config.front_limits import FrontLimits
from octavo.core.structured_outputs import StructuredOutputs
from octavo.errors import InvalidRequest
from octavo.structured.compiler import GrammarCompiler
from octavo.structured.task import GrammarTask, SchemaPart

SMALL = FrontLimits(
    max_schema_bytes=400,
    max_schema_depth=3,
    max_grammar_bytes=40,
    max_regex_bytes=5,
    max_choices=3,
)
SLOW = StructuredOutputs(grammar="start: " + " ".join(f'("a"{{1,{i}}})' for i in range(1, 3000)))


def padded(value: Mapping[str, object], num_bytes: int) -> str:
    text = json.dumps(value)
    return text + " " * (num_bytes - len(text))


def nested(depth: int) -> dict[str, Any]:
    """So many schemas in each other."""
    return {"type": "array", "items": nested(depth - 1)} if depth > 1 else {"type": "null"}


def tag(schema: object) -> dict[str, Any]:
    return {"structures": [{"begin": "<f>", "schema": schema, "end": "</f>"}], "triggers": ["<f>"]}


def tool(text: str) -> GrammarTask:
    return GrammarTask(None, "start: @part", (SchemaPart("part", text, "", "tools[0]"),))


def outputs(**fields: Any) -> GrammarTask:
    return GrammarTask(StructuredOutputs(**fields))


AT_AND_BEYOND = {
    "json": (
        outputs(json=padded({}, 400)),
        outputs(json=padded({}, 401)),
        "json has 401 bytes; at most 400 are allowed (see --max-schema-bytes)",
    ),
    "structural_tag": (
        outputs(structural_tag=padded(tag({}), 400)),
        outputs(structural_tag=padded(tag({}), 401)),
        "structural_tag has 401 bytes; at most 400 are allowed (see --max-schema-bytes)",
    ),
    "tools[0]": (
        tool(padded({}, 400)),
        tool(padded({}, 401)),
        "tools[0] has 401 bytes; at most 400 are allowed (see --max-schema-bytes)",
    ),
    "grammar": (
        outputs(grammar='start: "a"' + " " * 30),
        outputs(grammar='start: "a"' + " " * 31),
        "grammar has 41 bytes; at most 40 are allowed (see --max-grammar-bytes)",
    ),
    "regex": (
        outputs(regex="aaaaa"),
        outputs(regex="aaaaaa"),
        "regex has 6 bytes; at most 5 are allowed (see --max-regex-bytes)",
    ),
    "choice": (
        outputs(choice=["a", "b", "c"]),
        outputs(choice=["a", "b", "c", "d"]),
        "choice has 4 entries; at most 3 are allowed (see --max-choices)",
    ),
    "choice of bytes": (
        outputs(choice=["é" * 20]),
        outputs(choice=["é" * 20, "a"]),
        "choice has 41 bytes; at most 40 are allowed (see --max-grammar-bytes)",
    ),
    "json depth": (
        outputs(json=json.dumps(nested(3))),
        outputs(json=json.dumps(nested(4))),
        "JSON schema at /items/items/items: more than 3 schemas in each other",
    ),
    "structural_tag depth": (
        outputs(structural_tag=json.dumps(tag(nested(3)))),
        outputs(structural_tag=json.dumps(tag(nested(4)))),
        "more than 3 schemas in each other",
    ),
    "tools[0] depth": (
        tool(json.dumps(nested(3))),
        tool(json.dumps(nested(4))),
        "tools[0]: JSON schema at /items/items/items: more than 3 schemas in each other",
    ),
}


@pytest.mark.parametrize("case", AT_AND_BEYOND)
def test_sizes_and_depths_hold_at_the_limit_and_one_beyond(case: str) -> None:
    at_limit, beyond, says = AT_AND_BEYOND[case]
    compiler = GrammarCompiler(SMALL)
    assert compiler.compile(at_limit)
    for refuse in (compiler.compile, lambda task: compiler.start(task).result()):
        with pytest.raises(InvalidRequest) as refused:
            refuse(beyond)
        assert says in refused.value.message
        name = case.partition(" ")[0]
        assert refused.value.param == (name if name == "tools[0]" else f"structured_outputs.{name}")
    compiler.close()


def test_a_grammar_has_so_many_seconds_as_the_option_says() -> None:
    compiler = GrammarCompiler(FrontLimits(grammar_seconds=0.2))
    compiler.compile(outputs(regex="a"))  # so that the process has started
    start = time.monotonic()
    with pytest.raises(InvalidRequest, match=r"takes too long .*--grammar-seconds"):
        compiler.compile(GrammarTask(SLOW))
    assert 0.2 <= time.monotonic() - start < 0.9
    compiler.close()


def test_a_grammar_has_so_much_memory_as_the_option_says() -> None:
    """With the default it comes as far as a bound of the grammar library."""
    large = StructuredOutputs(
        grammar="start: " + " ".join(f'("a"{{1,{i}}})' for i in range(1, 600))
    )
    for limits, says in (
        (FrontLimits(grammar_memory_bytes=16 << 20, grammar_seconds=20), "--grammar-memory-bytes"),
        (FrontLimits(grammar_seconds=20), "Too many items"),
    ):
        compiler = GrammarCompiler(limits)
        with pytest.raises(InvalidRequest, match=says):
            compiler.compile(GrammarTask(large))
        compiler.close()
