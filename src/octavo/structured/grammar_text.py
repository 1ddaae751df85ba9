"""From what a client asks for to the text of one grammar that the grammar library takes.

Meant for the worker process: hostile input may take all its time, memory and stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from llguidance import LLMatcher, StructTag
from llguidance.gbnf_to_lark import any_to_lark

from octavo.core.structured_outputs import StructuredKind, StructuredOutputs
from octavo.errors import InvalidRequest
from octavo.structured.schema_check import SchemaError, check_schema, subschemas
from octavo.structured.task import CONTENT, GrammarTask, SchemaPart

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
            schema = _at(schema, part.pointer)
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
    if isinstance(schema, bool):
        schema = {"allOf": [schema]}  # the library wants an object on the outside
    grammar = _compiled_schema(schema, outputs)
    error = LLMatcher.validate_grammar(grammar)
    if error:
        pointer, reason = _place_of(schema, outputs, error)
        raise SchemaError(pointer, _in_short(reason))
    return grammar


def _compiled_schema(schema: object, outputs: StructuredOutputs) -> str:
    return LLMatcher.grammar_from_json_schema(
        json.dumps(schema),
        overrides={
            "whitespace_flexible": not outputs.disable_any_whitespace,
            "whitespace_pattern": _whitespace(outputs),
        },
    )


def _whitespace(outputs: StructuredOutputs) -> str | None:
    if outputs.disable_any_whitespace:
        return None
    return outputs.whitespace_pattern or BOUNDED_WHITESPACE


def _place_of(root: object, outputs: StructuredOutputs, error: str) -> tuple[str, str]:
    """The innermost subschema that does not compile, and why."""
    place, reason = "", error
    document = _moved(root)
    for number, one in enumerate(subschemas(root)):
        if number == _MAX_PLACES_TRIED:
            break
        is_reference = isinstance(one.schema, dict) and "$ref" in one.schema
        if is_reference or not one.pointer.startswith(place):
            continue
        found = LLMatcher.validate_grammar(
            _compiled_schema(_pointed(document, one.pointer), outputs)
        )
        if found:
            place, reason = one.pointer, found
    return place, reason


def _at(root: object, pointer: str) -> object:
    """A schema that stands for what is at `pointer` in another one."""
    return _pointed(_moved(root), pointer)


def _pointed(moved: object, pointer: str) -> object:
    return {"$defs": {"root": moved}, "$ref": f"#/$defs/root{quote(pointer)}"}


def _moved(value: object, *, is_schema: bool = True) -> object:
    """The schema as it is when it stands at /$defs/root. Its depth has been checked."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _moved(item) for key, item in value.items()}
    ref = moved.get("$ref")
    if is_schema and isinstance(ref, str):
        moved["$ref"] = "#/$defs/root" + ref[1:]
    return moved


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
    if "%json" in outputs.grammar:
        raise _invalid("grammar", "%json is not supported; use json or structural_tag")
    try:
        lark = any_to_lark(outputs.grammar)
    except RecursionError:
        raise _invalid("grammar", "its rules are nested too deeply") from None
    except Exception as error:  # whatever the converter does not expect
        raise _invalid("grammar", str(error)) from None
    return _checked("grammar", LLMatcher.grammar_from_lark(lark))


def _structural_tag(outputs: StructuredOutputs) -> str:
    assert outputs.structural_tag is not None
    document = _parsed(outputs.structural_tag, "structural_tag")
    tags = _tags(document)
    return _checked("structural_tag", StructTag.to_grammar(tags, assume_special=False))


def _tags(document: object) -> list[StructTag]:
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
    return [_tag(number, item, triggers) for number, item in enumerate(structures)]


def _tag(number: int, item: object, triggers: list[str]) -> StructTag:
    where = f"structures[{number}]"
    if not isinstance(item, dict) or set(item) != {"begin", "schema", "end"}:
        raise _invalid("structural_tag", f"{where} needs begin, schema and end, and nothing else")
    begin, schema, end = item["begin"], item["schema"], item["end"]
    if not isinstance(begin, str) or not isinstance(end, str):
        raise _invalid("structural_tag", f"begin and end of {where} must be strings")
    trigger = next((trigger for trigger in triggers if begin.startswith(trigger)), None)
    if trigger is None:
        raise _invalid("structural_tag", f"begin of {where} starts with none of the triggers")
    check_schema(schema)
    if not isinstance(schema, dict):
        raise _invalid("structural_tag", f"schema of {where} must be an object")
    return StructTag(trigger=trigger, begin=begin, grammar=schema, end=end)


def _parsed(text: str, name: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _invalid(name, f"no JSON document: {error}") from None
    return value


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


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
