"""The limits of what may be asked for, at each limit and one beyond."""

from __future__ import annotations

import msgspec
import pytest

from octavo.core.structured_outputs import (
    MAX_CHOICES,
    MAX_GRAMMAR_BYTES,
    MAX_REGEX_BYTES,
    MAX_SCHEMA_BYTES,
    StructuredOutputs,
)
from octavo.errors import InvalidRequest


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("json", MAX_SCHEMA_BYTES),
        ("structural_tag", MAX_SCHEMA_BYTES),
        ("grammar", MAX_GRAMMAR_BYTES),
        ("regex", MAX_REGEX_BYTES),
    ],
)
def test_texts_are_bounded_in_bytes(name: str, most: int) -> None:
    assert StructuredOutputs(**{name: "é" * (most // 2)}).kind == name  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=f"{name} has {most + 1} bytes") as error:
        StructuredOutputs(**{name: "a" * (most + 1)})  # type: ignore[arg-type]
    assert error.value.param == f"structured_outputs.{name}"


def test_choices_are_bounded_in_number_and_bytes() -> None:
    assert StructuredOutputs(choice=["a"] * MAX_CHOICES).kind == "choice"
    for bad in (["a"] * (MAX_CHOICES + 1), ["a" * (MAX_GRAMMAR_BYTES + 1)], [1], []):
        with pytest.raises(InvalidRequest):
            StructuredOutputs(choice=bad)  # type: ignore[arg-type]


def test_exactly_one_form_is_given() -> None:
    assert StructuredOutputs(json_object=True).kind == "json_object"
    for bad in ({}, {"json_object": False}, {"regex": "a", "choice": ["a"]}):
        with pytest.raises(InvalidRequest, match="exactly one of json, regex"):
            StructuredOutputs(**bad)
    with pytest.raises(InvalidRequest, match="both"):
        StructuredOutputs(json="{}", disable_any_whitespace=True, whitespace_pattern=" ")


def test_a_schema_may_be_a_dict() -> None:
    assert StructuredOutputs(json={"type": "object"}).json == '{"type": "object"}'
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    nan: dict[str, object] = {"const": float("nan")}
    for bad in (deep, nan, {"const": object()}):
        with pytest.raises(InvalidRequest, match="no JSON document"):
            StructuredOutputs(json=bad)


def test_text_is_unicode() -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        StructuredOutputs(regex="\ud800")
    with pytest.raises(InvalidRequest, match="must be a string"):
        StructuredOutputs(regex=3)  # type: ignore[arg-type]


def test_it_crosses_processes() -> None:
    outputs = StructuredOutputs(json="{}", whitespace_pattern=" ")
    data = msgspec.msgpack.encode(outputs)
    assert msgspec.msgpack.decode(data, type=StructuredOutputs) == outputs
