"""What a grammar allows next, what it forces, and that it never fails open."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from octavo.core.structured_outputs import StructuredOutputs
from octavo.engine.grammars import load_grammar_vocabulary
from octavo.sampling.masks import num_mask_words
from octavo.structured.grammar_text import grammar_text
from octavo.structured.matcher import GrammarMatcher
from octavo.structured.vocabulary import GrammarVocabulary
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from tests.fakes import EOS
from tests.structured.vocabularies import byte_vocabulary

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def vocabulary() -> GrammarVocabulary:
    return byte_vocabulary()


def matcher_of(vocabulary: GrammarVocabulary, outputs: StructuredOutputs) -> GrammarMatcher:
    return GrammarMatcher.compile(vocabulary, grammar_text(outputs))


def allowed(vocabulary: GrammarVocabulary, matcher: GrammarMatcher) -> set[int]:
    words = np.full(num_mask_words(vocabulary.vocab_size), 2**32 - 1, np.uint32)
    matcher.fill_mask(words)
    return set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist())


def characters(text: str) -> set[int]:
    return set(text.encode())


def test_a_mask_holds_what_may_come_next(vocabulary: GrammarVocabulary) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(regex="a[b-d]+"))
    assert allowed(vocabulary, matcher) == characters("a")
    assert matcher.accept(b"a")
    assert allowed(vocabulary, matcher) == characters("bcd")
    assert not matcher.may_end
    assert matcher.accept(b"dd")
    assert allowed(vocabulary, matcher) == characters("bcd") | {EOS}
    assert matcher.may_end
    assert not matcher.is_complete
    assert matcher.accept([EOS])
    assert matcher.is_complete


def test_a_text_that_cannot_go_on_is_complete_without_an_end_token(
    vocabulary: GrammarVocabulary,
) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(choice=["yes", "no"]))
    assert not matcher.is_complete
    assert matcher.accept(b"no")
    assert matcher.is_complete
    assert allowed(vocabulary, matcher) == {EOS}


def test_forced_tokens_are_those_that_must_come(vocabulary: GrammarVocabulary) -> None:
    outputs = StructuredOutputs(json=json.dumps(PERSON), disable_any_whitespace=True)
    matcher = matcher_of(vocabulary, outputs)
    assert bytes(matcher.forced_tokens()) == b'{"name":"'
    assert matcher.accept(matcher.forced_tokens())
    assert matcher.forced_tokens() == []
    assert matcher.accept(b'Ed"')
    assert bytes(matcher.forced_tokens()) == b',"age":'
    silent = byte_vocabulary(can_encode=False)
    assert matcher_of(silent, outputs).forced_tokens() == []


def test_tokens_can_be_taken_back(vocabulary: GrammarVocabulary) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(regex="ab(c|d)e"))
    assert matcher.accept(b"abce")
    assert matcher.is_complete
    assert matcher.roll_back(2)
    assert not matcher.is_complete
    assert allowed(vocabulary, matcher) == characters("cd")


def test_copies_go_their_own_ways(vocabulary: GrammarVocabulary) -> None:
    first = matcher_of(vocabulary, StructuredOutputs(regex="a(b|c)d"))
    second = first.copy()
    assert first.accept(b"ab")
    assert second.accept(b"ac")
    assert not second.accept(b"b")
    assert first.accept(b"d")
    assert (first.error, first.is_complete) == ("", True)


def test_after_a_wrong_token_nothing_is_allowed(vocabulary: GrammarVocabulary) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(regex="ab"))
    assert not matcher.accept(b"x")
    assert matcher.error
    assert allowed(vocabulary, matcher) == set()
    assert not matcher.is_complete
    assert matcher.forced_tokens() == []


def test_a_grammar_that_breaks_its_limits_allows_nothing(vocabulary: GrammarVocabulary) -> None:
    regex = r"[\p{L}\p{N}]{5,50000}(\w|\p{Han}){3,9999}x"
    matcher = matcher_of(vocabulary, StructuredOutputs(regex=regex))
    matcher.accept(b"ab" * 100)
    assert allowed(vocabulary, matcher) == set()
    assert "lexer" in matcher.error


def test_white_space_is_bounded(vocabulary: GrammarVocabulary) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(json_object=True))
    assert matcher.accept(b"{" + b" " * 40)
    assert allowed(vocabulary, matcher) == characters('"}')
    compact = StructuredOutputs(json_object=True, disable_any_whitespace=True)
    matcher = matcher_of(vocabulary, compact)
    assert matcher.accept(b"{")
    assert allowed(vocabulary, matcher) == characters('"}')


@pytest.mark.parametrize("word", ["yes", 'n"o\\\n', "\0", "é🙂", "a|b.*", ""])
def test_a_choice_is_taken_literally(vocabulary: GrammarVocabulary, word: str) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(choice=[word, "other"]))
    assert matcher.accept(word.encode())
    assert matcher.may_end


def test_a_schema_may_refer_to_itself(vocabulary: GrammarVocabulary) -> None:
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["children"],
        "additionalProperties": False,
    }
    matcher = matcher_of(vocabulary, StructuredOutputs(json=json.dumps(node)))
    assert matcher.accept(b'{"children": [{"children": []}, {"children": [{"children": []}]}]}')
    assert matcher.is_complete


OBJECT = {"properties": {"a": {"type": "integer"}, "é": {"type": "null"}}, "type": "object"}
DATE = {"type": "string", "format": "date"}
TIMES = {"enum": ["23:59:60Z", "23:59:59Z"], "format": "time"}
UNICODE = {"$defs": {"größe 1": {"type": "integer"}}, "$ref": "#/$defs/größe 1"}
QUOTED = {"$defs": {"größe 1": {"type": "integer"}}, "$ref": "#/$defs/gr%C3%B6%C3%9Fe%201"}
NAMED_REF = {"$defs": {"a": {"type": "integer"}}, "const": {"$ref": "#/$defs/a"}}
HOST = {"type": "string", "format": "hostname"}
EMAIL = {"type": "string", "format": "email"}


@pytest.mark.parametrize(
    ("schema", "text", "is_allowed"),
    [
        (OBJECT, '{"a":1,"b":"x"}', True),
        (OBJECT, r'{"\u0061":"x"}', False),
        (OBJECT, r'{"\u00e9":1}', False),
        ({"patternProperties": {"^a": {"type": "null"}}, "type": "object"}, r'{"\u0061":1}', False),
        ({"type": "string"}, r'"\ud800"', False),
        (DATE, '"2024-02-29"', True),
        (DATE, '"2000-02-29"', True),
        (DATE, '"2023-02-29"', False),
        (DATE, '"1900-02-29"', False),
        (DATE, '"2023-04-31"', False),
        (DATE, '"0000-01-01"', False),
        (TIMES, '"23:59:59Z"', True),
        (TIMES, '"23:59:60Z"', False),
        ({"format": "date-time"}, '"2024-02-29T10:00:59.5+01:00"', True),
        ({"format": "date-time"}, '"2023-02-29T10:00:59Z"', False),
        ({"format": "date-time"}, '"2024-02-29T10:00:60Z"', False),
        (HOST, '"' + ".".join(["a" * 62] * 4) + '"', True),
        (HOST, '"' + ".".join(["a" * 63] * 4) + '"', False),
        (EMAIL, '"' + "a" * 64 + '@b.c"', True),
        (EMAIL, '"' + "a" * 65 + '@b.c"', False),
        (EMAIL, '"a@' + "b" * 63 + '.c"', True),
        (EMAIL, '"a@' + "b" * 64 + '.c"', False),
        (EMAIL, '"a@' + ".".join(["b" * 60] * 5) + '"', False),
        (EMAIL, '"a@[1.2.3.4]"', True),
        (UNICODE, "12", True),
        (QUOTED, "12", True),
        (NAMED_REF, '{"$ref":"#/$defs/a"}', True),
    ],
)
def test_what_the_library_leaves_open_is_closed(
    vocabulary: GrammarVocabulary, schema: object, text: str, is_allowed: bool
) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(json=json.dumps(schema)))
    assert (matcher.accept(text.encode()) and matcher.may_end) == is_allowed


def test_the_schema_of_a_tag_is_held_as_any_other(vocabulary: GrammarVocabulary) -> None:
    tags = {
        "structures": [{"begin": "<a>", "schema": OBJECT, "end": "</a>"}],
        "triggers": ["<a>"],
    }
    matcher = matcher_of(vocabulary, StructuredOutputs(structural_tag=json.dumps(tags)))
    assert matcher.accept(b"<a>{" + b" " * 40)
    assert allowed(vocabulary, matcher) == characters('"}')
    assert matcher.accept(b'"')
    assert allowed(vocabulary, matcher) & characters("\\u") == characters("\\u")
    assert matcher.accept(b"\\")
    assert allowed(vocabulary, matcher) == characters('\\"bfnrt')


def test_left_recursion_is_handled(vocabulary: GrammarVocabulary) -> None:
    matcher = matcher_of(vocabulary, StructuredOutputs(grammar='root ::= root "a" | "b"'))
    assert matcher.accept(b"b" + b"a" * 1000)
    assert allowed(vocabulary, matcher) == characters("a") | {EOS}


def test_a_tag_leaves_the_text_around_it_free(vocabulary: GrammarVocabulary) -> None:
    tags = {
        "structures": [{"begin": "<f=x>", "schema": PERSON, "end": "</f>"}],
        "triggers": ["<f="],
    }
    matcher = matcher_of(vocabulary, StructuredOutputs(structural_tag=json.dumps(tags)))
    assert matcher.accept(b"Any <text> <f=x>")
    assert not allowed(vocabulary, matcher) & characters("}a<")
    assert matcher.accept(b'{"name": "Ed", "age": 3}')
    assert bytes(matcher.forced_tokens()) == b"</f>"
    assert matcher.accept(b"</f> and more <")
    assert matcher.accept([EOS])


@pytest.mark.real_model
@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_forced_tokens_are_those_of_the_models_tokenizer(
    model: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(model)
    with GGUFFile.open(path) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata, source=path)
    vocabulary = load_grammar_vocabulary(path, tokenizer.vocab_size)
    text = "once there was a hippopotamus" * 3
    matcher = matcher_of(vocabulary, StructuredOutputs(regex=f"(a|b){text}[0-9]"))
    first = tokenizer.encode("a", add_special_tokens=False)
    assert matcher.accept(first)
    whole = tokenizer.encode("a" + text, add_special_tokens=False)
    forced = [*first, *matcher.forced_tokens()]
    assert len(forced) > len(whole) - 4
    assert tokenizer.decode(forced) == tokenizer.decode(whole)[: len(tokenizer.decode(forced))]
