"""The schema exam: whatever a model would say, the answer obeys the schema, or the schema is
refused with the place of what cannot be promised."""

from __future__ import annotations

import json
import zlib

import pytest

from octavo.core.structured_outputs import StructuredOutputs
from octavo.errors import InvalidRequest
from octavo.structured.grammar_text import grammar_text
from octavo.structured.matcher import GrammarMatcher
from octavo.structured.schema_tree import SchemaError
from octavo.structured.vocabulary import GrammarVocabulary
from tests.structured.exam_schemas import (
    ExamSchema,
    all_schemas,
    random_schemas,
    refused_schemas,
    written_schemas,
)
from tests.structured.json_checks import violations
from tests.structured.random_answers import random_answer
from tests.structured.vocabularies import byte_vocabulary

NUM_SEEDS = 10


@pytest.fixture(scope="module")
def vocabulary() -> GrammarVocabulary:
    return byte_vocabulary()


def grammar_of(schema: object) -> str:
    return grammar_text(StructuredOutputs(json=json.dumps(schema)))


def test_there_are_enough_schemas() -> None:
    assert len(written_schemas()) >= 200
    assert len({json.dumps(one.schema) for one in all_schemas()}) >= 300


@pytest.mark.parametrize("number", range(8))
def test_every_answer_obeys_its_schema(vocabulary: GrammarVocabulary, number: int) -> None:
    for one in written_schemas()[number::8]:
        assert check(vocabulary, one, grammar_of(one.schema)), f"{one.name}: no answer ended"


def test_random_schemas_are_obeyed_or_refused(vocabulary: GrammarVocabulary) -> None:
    num_accepted = 0
    for one in random_schemas():
        try:
            grammar = grammar_of(one.schema)
        except SchemaError:
            continue
        num_accepted += 1
        check(vocabulary, one, grammar)
    assert num_accepted > 0.9 * len(random_schemas())


def check(vocabulary: GrammarVocabulary, one: ExamSchema, grammar: str) -> int:
    """The number of answers that ended; all of them obey."""
    start = GrammarMatcher.compile(vocabulary, grammar)
    hints = json.dumps(one.schema, ensure_ascii=False)
    num_ended = 0
    for number in range(NUM_SEEDS):
        seed = zlib.crc32(one.name.encode()) + number
        answer = random_answer(vocabulary, start.copy(), seed, hints)
        if answer is not None:
            num_ended += 1
            assert violations(one.schema, answer) == [], f"{one.name}: {answer}"
    return num_ended


@pytest.mark.parametrize("one", refused_schemas(), ids=lambda one: one.name)
def test_what_cannot_be_promised_is_refused_with_its_place(one: ExamSchema) -> None:
    with pytest.raises(InvalidRequest) as refused:
        grammar_of(one.schema)
    pointer = one.name.partition("#")[0]
    assert f"JSON schema at {pointer}: " in refused.value.message
    assert refused.value.param == "structured_outputs.json"
