"""Whether a task is within the sizes and depths that the options allow, before it is compiled.

Sizes are looked at where the task comes from, depths where it is tried. Compiles nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from octavo.config.front_limits import FrontLimits
from octavo.core.structured_outputs import StructuredOutputs
from octavo.errors import InvalidRequest
from octavo.structured.schema_tree import SchemaError, subschemas
from octavo.structured.task import GrammarTask


def check_sizes(task: GrammarTask, limits: FrontLimits) -> None:
    """Raises `InvalidRequest` naming the field, what was given, and the option."""
    if task.outputs is not None:
        _check_outputs(task.outputs, limits)
    for part in task.parts:
        _check_bytes(part.place, part.text, limits.max_schema_bytes, "max-schema-bytes")


def _check_outputs(outputs: StructuredOutputs, limits: FrontLimits) -> None:
    for name, most, option in (
        ("json", limits.max_schema_bytes, "max-schema-bytes"),
        ("structural_tag", limits.max_schema_bytes, "max-schema-bytes"),
        ("grammar", limits.max_grammar_bytes, "max-grammar-bytes"),
        ("regex", limits.max_regex_bytes, "max-regex-bytes"),
    ):
        text = getattr(outputs, name)
        if text is not None:
            _check_bytes(f"structured_outputs.{name}", text, most, option)
    if outputs.choice is not None:
        param, num_choices = "structured_outputs.choice", len(outputs.choice)
        if num_choices > limits.max_choices:
            raise _refused(param, f"{num_choices} entries", limits.max_choices, "max-choices")
        text = "".join(outputs.choice)
        _check_bytes(param, text, limits.max_grammar_bytes, "max-grammar-bytes")


def _check_bytes(param: str, text: str, most: int, option: str) -> None:
    num_bytes = len(text.encode())
    if num_bytes > most:
        raise _refused(param, f"{num_bytes} bytes", most, option)


def _refused(param: str, given: str, most: int, option: str) -> InvalidRequest:
    name = param.removeprefix("structured_outputs.")
    return InvalidRequest(
        f"{name} has {given}; at most {most} are allowed (see --{option})", param=param
    )


def check_depths(task: GrammarTask, max_depth: int) -> None:
    """Raises `InvalidRequest` for more schemas in each other than `max_depth`, or for what is no
    schema at all. Texts that are no JSON pass: who compiles them says what is wrong."""
    for place, schema in _schemas(task):
        try:
            for _ in subschemas(schema, max_depth):
                pass
        except SchemaError as error:
            if place:
                raise InvalidRequest(f"{place}: {error.message}", param=place) from None
            raise


def _schemas(task: GrammarTask) -> Iterator[tuple[str, object]]:
    """All schemas, each with the name of where it stands; "" for the field `json`."""
    for part in task.parts:
        yield part.place, _parsed(part.text)
    if task.outputs is None:
        return
    if isinstance(task.outputs.json, str):
        yield "", _parsed(task.outputs.json)
    tag = _parsed(task.outputs.structural_tag or "")
    structures = tag.get("structures") if isinstance(tag, dict) else None
    for structure in structures if isinstance(structures, list) else ():
        if isinstance(structure, dict):
            yield "structured_outputs.structural_tag", structure.get("schema")


def _parsed(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
