"""From what a client asks for to the text of one grammar that the grammar library takes.

Meant for the worker process: hostile input may take all its time, memory and stack.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from llguidance import LLMatcher, StructTag

from octavo.core.structured_outputs import StructuredKind, StructuredOutputs
from octavo.errors import InvalidRequest
from octavo.structured.grammar_dialect import lark_text
from octavo.structured.schema_check import check_schema
from octavo.structured.schema_rewrite import ALLOWED_ESCAPES, for_library, moved, pointed
from octavo.structured.schema_tree import SchemaError, subschemas
from octavo.structured.task import CONTENT, GrammarTask, SchemaPart

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

BOUNDED_WHITESPACE: Final = r"[ \n\r\t]{1,40}"
"""Models that are forced to go on but do not know how would write white space for ever."""
MAX_TAGS: Final = 128
_MAX_PLACES_TRIED: Final = 200
"""Subschemas that are compiled one by one to find the one that is at fault."""
_QUANTIFIER_TWICE: Final = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[*+{]")
_ESCAPES_AND_CLASSES: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def grammar_text(outputs: StructuredOutputs) -> str:
    """Raises `InvalidRequest` that names the field, and the place in it where that is known."""
    return _TRANSLATIONS[outputs.kind](outputs)


def task_grammar(task: GrammarTask) -> str:
    """The grammar of a task. The one of its Lark text comes first. Raises as `grammar_text`."""
    if not task.lark:
        assert task.outputs is not None
        return grammar_text(task.outputs)
    grammars: list[object] = [{"name": "answer", "lark_grammar": task.lark}]
    grammars += [_part_grammar(part) for part in task.parts]
    if task.outputs is not None:
        grammars.append(_named(CONTENT, grammar_text(task.outputs)))
    grammar = json.dumps({"grammars": grammars})
    if error := LLMatcher.validate_grammar(grammar):
        raise InvalidRequest(f"{task.param}: {_in_short(error):.500}", param=task.param)
    return grammar


def _part_grammar(part: SchemaPart) -> object:
    try:
        schema: object = json.loads(part.text)
        check_schema(schema)
        if part.pointer:
            schema = pointed(moved(schema), part.pointer)
        return _named(part.name, _schema_grammar(schema, StructuredOutputs(json_object=True)))
    except InvalidRequest as error:
        raise InvalidRequest(f"{part.place}: {error.message}", param=part.place) from None


def _named(name: str, grammar: str) -> object:
    """A grammar's text as one among several."""
    if not grammar.startswith("{"):
        return {"name": name, "lark_grammar": grammar}
    (only,) = json.loads(grammar)["grammars"]
    return {**only, "name": name}


def _schema(outputs: StructuredOutputs) -> str:
    assert isinstance(outputs.json, str)
    schema = _parsed(outputs.json, "json")
    if outputs.disable_additional_properties:
        _close_objects(schema)
    return _schema_grammar(schema, outputs)


def _close_objects(root: object) -> None:
    for one in subschemas(root):
        if isinstance(one.schema, dict) and "properties" in one.schema:
            one.schema.setdefault("additionalProperties", False)


def _json_object(outputs: StructuredOutputs) -> str:
    return _schema_grammar({"type": "object"}, outputs)


def _schema_grammar(schema: object, outputs: StructuredOutputs) -> str:
    check_schema(schema)
    grammar = _compiled_schema(schema, outputs)
    error = LLMatcher.validate_grammar(grammar)
    if error:
        pointer, reason = _place_of(schema, outputs, error)
        raise SchemaError(pointer, _in_short(reason))
    return grammar


def _compiled_schema(schema: object, outputs: StructuredOutputs) -> str:
    return LLMatcher.grammar_from_json_schema(
        json.dumps(for_library(schema)), overrides=_writing(outputs)
    )


def _writing(outputs: StructuredOutputs) -> JsonCompileOptions:
    """How JSON may be written."""
    return {
        "json_allowed_escapes": ALLOWED_ESCAPES,
        "whitespace_flexible": not outputs.disable_any_whitespace,
        "whitespace_pattern": _whitespace(outputs),
    }


def _whitespace(outputs: StructuredOutputs) -> str | None:
    if outputs.disable_any_whitespace:
        return None
    return outputs.whitespace_pattern or BOUNDED_WHITESPACE


def _place_of(root: object, outputs: StructuredOutputs, error: str) -> tuple[str, str]:
    """The innermost subschema that does not compile, and why."""
    place, reason = "", error
    document = moved(root)
    for number, one in enumerate(subschemas(root)):
        if number == _MAX_PLACES_TRIED:
            break
        tells_nothing = one.schema is False or (
            isinstance(one.schema, dict) and "$ref" in one.schema
        )
        if tells_nothing or not one.pointer.startswith(place):
            continue
        found = LLMatcher.validate_grammar(
            _compiled_schema(pointed(document, one.pointer), outputs)
        )
        if found:
            place, reason = one.pointer, found
    return place, reason


def _regex(outputs: StructuredOutputs) -> str:
    assert outputs.regex is not None
    if _QUANTIFIER_TWICE.search(_ESCAPES_AND_CLASSES.sub("x", outputs.regex)):
        raise _invalid("regex", "multiple repeat: a quantifier follows a quantifier")
    return _checked("regex", LLMatcher.grammar_from_regex(outputs.regex))


def _choice(outputs: StructuredOutputs) -> str:
    assert outputs.choice is not None
    words = " | ".join(json.dumps(word, ensure_ascii=False) for word in outputs.choice)
    return _checked("choice", LLMatcher.grammar_from_lark(f"start: {words}"))


def _grammar(outputs: StructuredOutputs) -> str:
    assert outputs.grammar is not None
    try:
        lark = lark_text(outputs.grammar)
    except ValueError as error:
        raise _invalid("grammar", str(error)) from None
    return _checked("grammar", LLMatcher.grammar_from_lark(lark))


def _structural_tag(outputs: StructuredOutputs) -> str:
    assert outputs.structural_tag is not None
    document = _parsed(outputs.structural_tag, "structural_tag")
    tags = _tags(document, _writing(outputs))
    return _checked("structural_tag", StructTag.to_grammar(tags, assume_special=False))


def _tags(document: object, writing: JsonCompileOptions) -> list[StructTag]:
    """Of vLLM's form: {"structures": [{"begin", "schema", "end"}, ...], "triggers": [...]}."""
    if not isinstance(document, dict):
        raise _invalid("structural_tag", "an object is needed")
    unknown = set(document) - {"type", "structures", "triggers"}
    if unknown or document.get("type", "structural_tag") != "structural_tag":
        raise _invalid("structural_tag", "type, structures and triggers are allowed")
    structures, triggers = document.get("structures"), document.get("triggers")
    if not isinstance(structures, list) or not 1 <= len(structures) <= MAX_TAGS:
        raise _invalid("structural_tag", f"structures must be a list of 1 to {MAX_TAGS} objects")
    if not isinstance(triggers, list) or not all(isinstance(x, str) and x for x in triggers):
        raise _invalid("structural_tag", "triggers must be a list of strings that are not empty")
    return [_tag(number, item, triggers, writing) for number, item in enumerate(structures)]


def _tag(number: int, item: object, triggers: list[str], writing: JsonCompileOptions) -> StructTag:
    where = f"structures[{number}]"
    if not isinstance(item, dict) or set(item) != {"begin", "schema", "end"}:
        raise _invalid("structural_tag", f"{where} needs begin, schema and end, and nothing else")
    begin, schema, end = item["begin"], item["schema"], item["end"]
    if not isinstance(begin, str) or not isinstance(end, str):
        raise _invalid("structural_tag", f"begin and end of {where} must be strings")
    trigger = next((trigger for trigger in triggers if begin.startswith(trigger)), None)
    if trigger is None:
        raise _invalid("structural_tag", f"begin of {where} starts with none of the triggers")
    try:
        check_schema(schema)
    except SchemaError as error:
        raise _invalid("structural_tag", f"{where}: {error.message}") from None
    grammar = for_library(schema)
    assert isinstance(grammar, dict)
    grammar["x-guidance"] = {key: value for key, value in writing.items() if value is not None}
    return StructTag(trigger=trigger, begin=begin, grammar=grammar, end=end)


def _parsed(text: str, name: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float)
    except (ValueError, RecursionError) as error:
        raise _invalid(name, f"no JSON document: {error}") from None
    return value


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def _finite_float(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text:.60} is beyond a double")
    return number


def _checked(name: str, grammar: str) -> str:
    error = LLMatcher.validate_grammar(grammar)
    if error:
        raise _invalid(name, _in_short(error))
    return grammar


def _in_short(error: str) -> str:
    """The line that says what is wrong, without the text that it is wrong in."""
    return error.rpartition("error: ")[2].partition("\n")[0]


def _invalid(name: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: {reason:.500}", param=f"structured_outputs.{name}")


_TRANSLATIONS: Final[Mapping[StructuredKind, Callable[[StructuredOutputs], str]]] = {
    "json": _schema,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "json_object": _json_object,
    "structural_tag": _structural_tag,
}
