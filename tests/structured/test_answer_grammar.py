"""Whatever a dialect's grammar lets a model write, its parser reads, and the arguments obey."""

from __future__ import annotations

import json
import random

import jsonschema
import numpy as np
import pytest

from octavo.core.structured_outputs import StructuredOutputs
from octavo.core.tools import Tool
from octavo.errors import InvalidRequest, UnsupportedParameter
from octavo.parsing.dialects import REASONING_DIALECTS, TOOL_DIALECTS, ToolDialect
from octavo.parsing.events import ParsedOutput, gather
from octavo.parsing.parser import OutputParser
from octavo.structured.answer_grammar import AnswerRules, ReasoningState
from octavo.structured.grammar_text import task_grammar
from octavo.structured.lark_text import LarkSpelling
from octavo.structured.matcher import GrammarMatcher
from octavo.structured.task import respelled
from octavo.structured.vocabulary import GrammarVocabulary
from octavo.tokenization.spellings import Spellings
from tests.fakes import BYTE_VOCAB, EOS, ByteTokenizer
from tests.structured.vocabularies import byte_vocabulary

PROPERTIES = {
    "query": {"type": "string"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 9},
    "unit": {"enum": ["day", "week"]},
    "exact": {"type": "boolean"},
    "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
}
SEARCH = {
    "type": "object",
    "properties": PROPERTIES,
    "required": ["query", "unit"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "string", "enum": ["a", "b"]}},
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = (Tool("search", SEARCH, "tools[0]"), Tool("stop", NOTHING, "tools[1]"))
TAGS = {"type": "array", "items": {"$ref": "#/$defs/tag"}}
BRACED = {**SEARCH, "properties": {**PROPERTIES, "tags": TAGS}}
LOOP = {"type": "object", "properties": {"a": {"$ref": "#/$defs/o"}}}
NAMES = [name for name in TOOL_DIALECTS if name != "openai"]
VOCABULARY = byte_vocabulary()
LIKELY = b'"}])x</\n'
NO_CHARACTERS = bytes(range(0x80, 0x100)) + b"\\"


def _tools(name: str) -> tuple[Tool, ...]:
    """Braces cannot be held to a number of items."""
    is_braced = TOOL_DIALECTS[name].style.arguments == "braces"
    return (Tool("search", BRACED, "tools[0]"), TOOLS[1]) if is_braced else TOOLS


def _grammar(rules: AnswerRules) -> str:
    return task_grammar(rules.task(LarkSpelling()))


def _walk(grammar: str, draw: random.Random, endings: list[bytes], start: str = "") -> str:
    """A text that begins so and that the grammar allows from end to end: bytes by chance, but those
    that close something more often than others, or none would ever end."""
    matcher = GrammarMatcher.compile(VOCABULARY, grammar)
    words = np.zeros((VOCABULARY.vocab_size + 31) // 32, np.uint32)
    text = bytearray(start.encode())
    assert matcher.accept(list(text)), matcher.error
    while len(text) < 4000:
        matcher.fill_mask(words)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        allowed = {int(token) for token in np.flatnonzero(bits)}
        assert allowed, (bytes(text), matcher.error)
        if EOS in allowed and (len(allowed) == 1 or draw.random() < 0.5):
            return text.decode()
        text.append(_draw(allowed - {EOS}, bytes(text), draw, endings))
        assert matcher.accept(text[-1:])
        if matcher.is_complete:
            return text.decode()
    raise AssertionError(f"no end: {text.decode(errors='replace')[:200]}")


def _draw(allowed: set[int], text: bytes, draw: random.Random, endings: list[bytes]) -> int:
    for ending in endings:
        begun = next(n for n in range(len(ending) - 1, -1, -1) if text.endswith(ending[:n]))
        if ending[begun] in allowed and draw.random() < (0.95 if begun else 0.2):
            return ending[begun]
    likely = allowed & set(LIKELY)
    plain = allowed - set(NO_CHARACTERS)
    pool = likely if likely and draw.random() < 0.7 else plain or allowed
    return draw.choice(sorted(pool))


def _endings(dialect: ToolDialect) -> list[bytes]:
    style = dialect.style
    texts = [style.quote, style.space + (style.tags.value_close if style.tags else "")]
    return [text.encode() for text in texts if text]


def _parsed(
    name: str, text: str, reasoning: str = "", state: ReasoningState = "none"
) -> ParsedOutput:
    parser = OutputParser(
        TOOL_DIALECTS[name],
        REASONING_DIALECTS[reasoning] if reasoning else None,
        {tool.name: tool.parameters for tool in _tools(name)},
        reasoning_open=state == "open",
    )
    return gather(parser.feed(text) + parser.finish())


def _check_calls(name: str, parsed: ParsedOutput) -> None:
    schemas = {tool.name: tool.parameters for tool in _tools(name)}
    for call in parsed.tool_calls:
        assert call.complete
        jsonschema.validate(json.loads(call.arguments), schemas[call.name])


@pytest.mark.parametrize("is_single", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_required_calls_are_read_and_obey(name: str, is_single: bool) -> None:
    dialect = TOOL_DIALECTS[name]
    rules = AnswerRules(dialect=dialect, tools=_tools(name), must_call=True, is_single=is_single)
    grammar = _grammar(rules)
    for seed in range(6):
        text = _walk(grammar, random.Random(seed), _endings(dialect))
        parsed = _parsed(name, text)
        assert not parsed.content, text
        assert parsed.tool_calls, text
        assert not is_single or len(parsed.tool_calls) == 1
        _check_calls(name, parsed)


@pytest.mark.parametrize("name", NAMES)
def test_calls_amid_text_are_read_and_obey(name: str) -> None:
    dialect = TOOL_DIALECTS[name]
    grammar = _grammar(AnswerRules(dialect=dialect, tools=_tools(name)))
    form = dialect.forms[0] if not dialect.forms[0].only_first else dialect.forms[-1]
    for seed in range(6):
        start = form.opener if form.only_first else f"Well, {form.opener}"
        text = _walk(grammar, random.Random(seed), _endings(dialect), start)
        parsed = _parsed(name, text)
        assert parsed.tool_calls, text
        assert parsed.content.startswith("" if form.only_first else "Well,")
        _check_calls(name, parsed)


@pytest.mark.parametrize("state", ["none", "open", "closed"])
@pytest.mark.parametrize(
    "reasoning", [name for name in REASONING_DIALECTS if name != "openai_gptoss"]
)
def test_the_form_follows_the_reasoning(reasoning: str, state: ReasoningState) -> None:
    outputs = StructuredOutputs(choice=["yes", "no"])
    marks = REASONING_DIALECTS[reasoning].marks
    assert marks is not None
    rules = AnswerRules(
        outputs=outputs, reasoning=REASONING_DIALECTS[reasoning], reasoning_state=state
    )
    grammar = _grammar(rules)
    thought = 0
    for seed in range(8):
        text = _walk(grammar, random.Random(seed), [marks.closes[0].encode()])
        parsed = _parsed("hermes", text, reasoning, state)
        assert parsed.content in ("yes", "no"), text
        thought += bool(parsed.reasoning)
    assert bool(thought) == (state != "closed")


def test_harmony_thinks_and_calls_in_channels() -> None:
    dialect = TOOL_DIALECTS["openai"]
    reasoning = REASONING_DIALECTS["openai_gptoss"]
    rules = AnswerRules(
        dialect=dialect, tools=TOOLS, must_call=True, is_single=True, reasoning=reasoning
    )
    matcher = GrammarMatcher.compile(VOCABULARY, _grammar(rules))
    text = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{}<|call|>"
    )
    assert matcher.accept(list(text.encode())), matcher.error
    assert matcher.is_complete
    parsed = _parsed("openai", text, "openai_gptoss")
    assert (parsed.reasoning, parsed.tool_calls[0].name) == ("Hm.", "stop")


def test_control_tokens_stand_by_their_ids() -> None:
    """The grammar is tried with marks as text, and then spelled with tokens."""

    spelled = {"<tool_call>": BYTE_VOCAB + 2, "</tool_call>": BYTE_VOCAB + 3}

    class Marked(ByteTokenizer):
        vocab_size = BYTE_VOCAB + 4

    marks = Spellings(spelled)
    rules = AnswerRules(
        dialect=TOOL_DIALECTS["hermes"], tools=TOOLS[1:], must_call=True, is_single=True
    )
    tried = _grammar(rules)
    grammar = respelled(tried, rules.task(LarkSpelling(marks, marks)).lark)
    vocabulary = GrammarVocabulary(Marked(), Marked.vocab_size, lambda text: list(text.encode()))
    matcher = GrammarMatcher.compile(vocabulary, grammar)
    forced = matcher.forced_tokens()
    assert forced[0] == BYTE_VOCAB + 2
    assert bytes(forced[1:]).startswith(b'\n{"name": "stop", "arguments": {')


@pytest.mark.parametrize(
    ("dialect", "parameters", "says"),
    [
        ("qwen3_coder", {"properties": {"a": {"type": "string", "pattern": "x"}}}, "pattern"),
        ("qwen3_coder", {"properties": {"a b": {"type": "string"}}}, "name"),
        ("glm45", {"anyOf": []}, "more than what properties"),
        ("pythonic", {"properties": {"a-b": {}}}, "name"),
        ("gemma4", {"properties": {"a": {"type": ["string", "null"]}}}, "several types"),
        ("gemma4", {"properties": {"a": {"$ref": "#/$defs/o"}}, "$defs": {"o": LOOP}}, "deeply"),
    ],
)
def test_what_a_notation_cannot_be_held_to_is_refused(
    dialect: str, parameters: dict[str, object], says: str
) -> None:
    tools = (Tool("f", {"type": "object", **parameters}, "tools[0].function.parameters"),)
    rules = AnswerRules(dialect=TOOL_DIALECTS[dialect], tools=tools, must_call=True)
    with pytest.raises(UnsupportedParameter, match=says) as refused:
        rules.task(LarkSpelling())
    assert refused.value.param == "tools[0].function.parameters"


def test_a_schema_that_is_none_is_named_by_its_place() -> None:
    tools = (Tool("f", {"properties": {"a": {"type": "text"}}}, "tools[0].function.parameters"),)
    rules = AnswerRules(dialect=TOOL_DIALECTS["hermes"], tools=tools, must_call=True)
    with pytest.raises(InvalidRequest, match="/properties/a/type") as refused:
        _grammar(rules)
    assert refused.value.param == "tools[0].function.parameters"
