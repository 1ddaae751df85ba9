"""instructor against real servers: models of pydantic by tools and by schemas, whole and in
parts."""

from __future__ import annotations

from typing import Any, Literal

import openai
import pydantic
import pytest

from tests.server.test_openai_chat import Box, Size

instructor = pytest.importorskip("instructor", reason="install the extra test-instructor")
pytestmark = pytest.mark.filterwarnings("ignore")  # its own
ASKED: Any = {
    "model": "m",
    "messages": [{"role": "user", "content": "Describe a small box: its size, its colour."}],
    "temperature": 0,
    "max_tokens": 250,
    "max_retries": 0,
}


class Parcel(pydantic.BaseModel, extra="forbid"):
    """Without an enum: parts are validated strictly, and a string is then none."""

    colour: Literal["red", "blue"]
    size: Size
    inner: Size | None


def _by(client: openai.OpenAI, mode: str) -> Any:
    return instructor.from_openai(client, mode=instructor.Mode[mode])


def test_a_schema_makes_a_model(client: openai.OpenAI) -> None:
    box = _by(client, "JSON_SCHEMA").chat.completions.create(**ASKED, response_model=Box)
    assert isinstance(box, Box)


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT"])
def test_a_named_tool_makes_a_model(qwen: openai.OpenAI, mode: str) -> None:
    box, raw = _by(qwen, mode).chat.completions.create_with_completion(**ASKED, response_model=Box)
    assert isinstance(box, Box)
    assert raw.choices[0].message.tool_calls[0].function.name == "Box"


@pytest.mark.parametrize("mode", ["JSON", "MD_JSON"])
def test_json_without_a_schema_makes_a_model(qwen: openai.OpenAI, mode: str) -> None:
    """The model is told of the schema in words alone."""
    size = _by(qwen, mode).chat.completions.create(
        **ASKED | {"messages": [{"role": "user", "content": "A box is 3 cm wide."}]},
        response_model=Size,
    )
    assert (size.width, size.unit) == (3, "cm")


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
def test_parts_of_a_model_are_streamed(qwen: openai.OpenAI, mode: str) -> None:
    parts = list(_by(qwen, mode).chat.completions.create_partial(**ASKED, response_model=Parcel))
    assert len(parts) > 3
    assert parts[0].inner is None
    assert Parcel.model_validate(parts[-1].model_dump())


def test_several_models_are_streamed_one_after_the_other(qwen: openai.OpenAI) -> None:
    sizes = _by(qwen, "TOOLS").chat.completions.create_iterable(
        **ASKED | {"messages": [{"role": "user", "content": "Give two sizes: 3 cm and 5 m."}]},
        response_model=Size,
    )
    assert all(isinstance(one, Size) for one in [*sizes] or [None])
