"""Grammars are tried in a process of its own: what passes, what is refused, what survives."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from octavo.config.front_limits import FrontLimits
from octavo.core.structured_outputs import StructuredOutputs
from octavo.errors import InvalidRequest, OctavoError
from octavo.structured.compiler import GrammarCompiler
from octavo.structured.task import GrammarTask

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
        }
    },
    "$ref": "#/$defs/node",
}
TAGS: dict[str, Any] = {
    "type": "structural_tag",
    "structures": [{"begin": "<f=x>", "schema": {"type": "object"}, "end": "</f>"}],
    "triggers": ["<f="],
}
TOO_SLOW = "start: " + " ".join(f'("a"{{1,{i}}})' for i in range(1, 3000))
TOO_DEEP = "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000


@pytest.fixture(scope="module")
def compiler() -> Iterator[GrammarCompiler]:
    compiler = GrammarCompiler()
    yield compiler
    compiler.close()


def schema(value: object) -> StructuredOutputs:
    return StructuredOutputs(json=json.dumps(value))


@pytest.mark.parametrize(
    "outputs",
    [
        schema({}),
        schema(True),
        schema(TREE),
        StructuredOutputs(json_object=True),
        StructuredOutputs(json_object=True, disable_any_whitespace=True),
        StructuredOutputs(json_object=True, whitespace_pattern=" ?"),
        StructuredOutputs(regex=r"[*+]{3}\**a*?"),
        StructuredOutputs(choice=["yes", 'n"o\\\n', "\0", "é", ""]),
        StructuredOutputs(grammar='start: start "a" | "b"'),
        StructuredOutputs(grammar='root ::= root "a" | "b" [0-9]+\n'),
        StructuredOutputs(structural_tag=json.dumps(TAGS)),
    ],
    ids=str,
)
def test_what_is_well_formed_compiles(
    compiler: GrammarCompiler, outputs: StructuredOutputs
) -> None:
    assert compiler.compile(GrammarTask(outputs))


@pytest.mark.parametrize(
    ("outputs", "param", "message"),
    [
        (schema({"properties": {"a": {"minimum": 5, "maximum": 3, "type": "integer"}}}),
         "json", "at /properties/a: minimum"),
        (schema({"$defs": {"n": {"items": {"$ref": "#/$defs/n"}, "pattern": "("}},
                 "properties": {"x": {"$ref": "#/$defs/n"}}}), "json", r"at /\$defs/n: .*unclosed"),
        (schema({"oneOf": [{"type": "number"}, {"type": "integer"}]}), "json", "at /: oneOf"),
        (schema({"items": {"type": "integer", "multipleOf": 3, "minimum": 1, "maximum": 2},
                 "type": "array", "minItems": 1}), "json", "at /items: .*multiple of 3"),
        (schema({"enum": []}), "json", "at /enum"),
        (schema(False), "json", "false"),
        (schema({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                 "$ref": "#/$defs/a"}), "json", "no text is of this form"),
        (StructuredOutputs(json="{"), "json", "no JSON document"),
        (StructuredOutputs(json='{"const": NaN}'), "json", "NaN is no JSON"),
        (StructuredOutputs(json="[" * 20_000), "json", "no JSON document"),
        (StructuredOutputs(regex="foo**"), "regex", "multiple repeat"),
        (StructuredOutputs(regex="a{99999}{99999}"), "regex", "multiple repeat"),
        (StructuredOutputs(regex="("), "regex", "unclosed group"),
        (StructuredOutputs(regex="[z-a]"), "regex", "invalid character class range"),
        (StructuredOutputs(regex="(?=a)b"), "regex", "look-around"),
        (StructuredOutputs(regex="(" * 2000 + ")" * 2000), "regex", "nest"),
        (StructuredOutputs(grammar="start: nowhere"), "grammar", "unknown name"),
        (StructuredOutputs(grammar="start: a\na: b\nb: a"), "grammar", "no text is of this form"),
        (StructuredOutputs(grammar='start: %json {"nullable": true}'), "grammar", "%json"),
        (StructuredOutputs(grammar=TOO_DEEP), "grammar", "nested too deeply"),
        (StructuredOutputs(grammar=TOO_SLOW), "grammar", "takes too long"),
        (StructuredOutputs(structural_tag="{}"), "structural_tag", "structures"),
        (StructuredOutputs(structural_tag=json.dumps({**TAGS, "triggers": ["<g"]})),
         "structural_tag", "none of the triggers"),
        (StructuredOutputs(structural_tag=json.dumps(
            {**TAGS, "structures": [{**TAGS["structures"][0], "schema": {"not": {}}}]})),
         "structural_tag", r"structures\[0\]: JSON schema at /not"),
        (StructuredOutputs(json='{"const": 1e999}'), "json", "1e999 is beyond a double"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_and_the_next_one_compiles(
    compiler: GrammarCompiler, outputs: StructuredOutputs, param: str, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"(?s){message}") as refused:
        compiler.compile(GrammarTask(outputs))
    assert refused.value.param == f"structured_outputs.{param}"
    assert compiler.compile(GrammarTask(StructuredOutputs(regex="a+")))


def test_an_answer_is_remembered() -> None:
    """Without the process that gave it, a worker would have to start anew."""
    command = [sys.executable, "-m", "octavo.structured.worker"]
    compiler = GrammarCompiler(command=command)
    first = compiler.compile(GrammarTask(schema(TREE)))
    compiler.close()
    compiler._command = ("/bin/false",)
    assert compiler.compile(GrammarTask(schema(TREE))) == first
    with pytest.raises(OctavoError, match="does not start"):
        compiler.compile(GrammarTask(schema({})))


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    compiler = GrammarCompiler(FrontLimits(grammar_cache_bytes=600))
    for number in range(50):
        compiler.compile(GrammarTask(StructuredOutputs(regex=f"a{{{number}}}")))
    cache = compiler._cache
    compiler.close()
    assert 0 < cache._num_bytes <= 600
    assert 1 < len(cache._answers) < 20
    assert b"a{49}" in next(reversed(cache._answers))


SILENT = """
import sys, time
from octavo.structured.frames import frame
sys.stdout.buffer.write(frame(b""))
sys.stdout.flush()
time.sleep(60)
"""
GREEDY = """
import sys
from octavo.structured import worker
from octavo.structured.frames import WorkerLimits
worker.answer_to = lambda *_: bytearray(1 << 30)
worker.serve(sys.stdin.buffer, sys.stdout.buffer, WorkerLimits(1, 256 << 20, 32))
"""


def test_a_worker_that_is_silent_is_ended_after_a_second() -> None:
    compiler = GrammarCompiler(command=[sys.executable, "-c", SILENT])
    start = time.monotonic()
    with pytest.raises(InvalidRequest, match="takes too long"):
        compiler.compile(GrammarTask(StructuredOutputs(regex="a")))
    assert time.monotonic() - start < 15
    assert compiler._worker is None


def test_memory_of_a_worker_is_bounded() -> None:
    compiler = GrammarCompiler(command=[sys.executable, "-c", GREEDY])
    with pytest.raises(InvalidRequest, match="too much memory"):
        compiler.compile(GrammarTask(StructuredOutputs(regex="a")))
    compiler.close()
