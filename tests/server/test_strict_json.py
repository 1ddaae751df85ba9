from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.entrypoints.openai.bodies.strict_json import (
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    Json,
    parse_json,
)
from octavo.errors import InvalidRequest

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**19), 10**19)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_ordinary_json_is_read_as_json_reads_it(value: Json, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert parse_json(body) == value


@given(
    st.binary(max_size=60) | st.text('[]{}",:\\0123456789.eE-ntfu ', max_size=60).map(str.encode)
)
def test_only_invalid_requests_escape(body: bytes) -> None:
    try:
        parse_json(body)
    except InvalidRequest:
        return


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_at_the_limit_and_one_beyond(opening: bytes, closing: bytes) -> None:
    def nested(depth: int) -> bytes:
        return opening * depth + b"0" + closing * depth

    parse_json(nested(MAX_DEPTH))
    with pytest.raises(InvalidRequest, match=f"deeper than {MAX_DEPTH}"):
        parse_json(nested(MAX_DEPTH + 1))


def test_brackets_in_texts_and_side_by_side_are_no_depth() -> None:
    assert parse_json(json.dumps("[" * 1000).encode()) == "[" * 1000
    assert parse_json(json.dumps('\\"[' * 1000).encode()) == '\\"[' * 1000
    assert parse_json(b"[" + b"[]," * 1000 + b"[]]") == [[]] * 1001


def test_integers_at_the_limit_and_one_digit_beyond() -> None:
    assert parse_json(b"9" * MAX_INTEGER_DIGITS) == 10**MAX_INTEGER_DIGITS - 1
    assert parse_json(b"-" + b"9" * MAX_INTEGER_DIGITS) == 1 - 10**MAX_INTEGER_DIGITS
    with pytest.raises(InvalidRequest, match="digits"):
        parse_json(b"9" * (MAX_INTEGER_DIGITS + 1))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "[NaN]"])
def test_numbers_that_json_does_not_have(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_json(text.encode())


def test_a_key_given_twice_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'n' is given twice") as caught:
        parse_json(b'{"a": {"n": 1, "n": 1}}')
    assert caught.value.param == "n"


def test_surrogates_must_come_in_pairs() -> None:
    assert parse_json(rb'"\ud83d\ude00"') == "\N{GRINNING FACE}"
    assert parse_json(rb'"\\ud800"') == "\\ud800"
    for half in (rb'"\ud83d"', rb'{"\uDE00": 1}'):
        with pytest.raises(InvalidRequest, match="surrogate"):
            parse_json(half)


@pytest.mark.parametrize(
    "body",
    [b"[" * 2_000_000, b"[]," * 1_000_000, b'"' + b"\\" * 2_000_001, b'{"a":1,' * 100_000],
    ids=range(4),
)
def test_hostile_megabytes_are_decided_quickly(body: bytes) -> None:
    start_time = time.process_time()
    with pytest.raises(InvalidRequest):
        parse_json(body)
    assert time.process_time() - start_time < 10  # linear; quadratic would take minutes
