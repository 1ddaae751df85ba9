"""An option says what it takes, and refuses everything else by name, given and allowed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.engine import EngineConfig
from octavo.config.options import (
    from_keywords,
    option,
    options_of,
    parse_bytes,
    read_text,
    read_value,
)
from octavo.config.server import ServerConfig
from octavo.errors import ConfigError

SOURCE = Path(__file__).parents[2] / "src" / "octavo"


@dataclass(frozen=True, kw_only=True)
class Sample:
    count: int = option(1, "Count.", minimum=1, maximum=9)
    ratio: float = option(0.5, "Ratio.", minimum=0.0)
    size: int | None = option(None, "Size.", metavar="BYTES")
    mode: str = option("a", "Mode.", choices=("a", "b"))
    names: tuple[str, ...] = option((), "Names.")
    fast: bool = option(False, "Fast.")
    seed: int = option(0, "Seed.", minimum=0, maximum=2**63 - 1)


OPTIONS = {item.name: item for item in options_of(Sample)}


@pytest.mark.parametrize("config", [EngineConfig, ServerConfig])
def test_each_option_has_help_that_is_a_sentence(config: type) -> None:
    for item in options_of(config):
        assert item.help_text.endswith("."), item.name


@pytest.mark.parametrize("config", [EngineConfig, ServerConfig])
def test_each_option_is_read_somewhere(config: type) -> None:
    declared_in = {"config/engine.py", "config/server.py"}
    sources = [
        path.read_text()
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in declared_in
    ]
    own = (SOURCE / f"config/{config.__module__.rpartition('.')[2]}.py").read_text()
    for item in options_of(config):
        used = any(f".{item.name}" in text for text in sources) or f"self.{item.name}" in own
        assert used, f"{config.__name__}.{item.name} is declared and never read"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "3", 3),
        ("ratio", "2", 2.0),
        ("size", "512M", 512 << 20),
        ("size", "7", 7),
        ("mode", "b", "b"),
        ("names", "x, y", ("x", "y")),
        ("fast", "true", True),
        ("fast", "OFF", False),
    ],
)
def test_a_text_is_read(name: str, text: str, value: object) -> None:
    assert read_text(OPTIONS[name], text, origin="--x") == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("count", "0", "an integer from 1 up to 9"),
        ("count", "10", "an integer from 1 up to 9"),
        ("count", "1.5", "an integer from 1 up to 9"),
        ("count", "", "an integer from 1 up to 9"),
        ("ratio", "nan", "a number from 0.0"),
        ("ratio", "-0.1", "a number from 0.0"),
        ("seed", "-1", f"an integer from 0 up to {2**63 - 1}"),
        ("size", "12X", "a number of bytes, or one with K, M, G or T"),
        ("size", "-1", "a number of bytes, or one with K, M, G or T"),
        ("mode", "c", "one of a, b"),
        ("fast", "maybe", "true or false"),
        ("names", "", "a list of texts that are not empty"),
        ("names", "a,,b", "a list of texts that are not empty"),
    ],
)
def test_a_wrong_text_is_refused_by_flag_given_and_allowed(
    name: str, text: str, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_text(OPTIONS[name], text, origin=f"--{name}")
    message = str(caught.value)
    assert message.startswith(f"--{name} is ")
    assert allowed in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", True),
        ("count", "3"),
        ("count", None),
        ("count", 2.0),
        ("ratio", math.nan),
        ("ratio", "0.5"),
        ("fast", 1),
        ("mode", 1),
        ("names", (1,)),
        ("names", ("a", "")),
        ("size", 1.5),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match="is allowed"):
        read_value(OPTIONS[name], value, origin=name)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("ratio", 1, 1),
        ("size", "2K", 2048),
        ("size", None, None),
        ("names", "x", ("x",)),
        ("names", ["x", "y"], ("x", "y")),
    ],
)
def test_a_value_of_a_kindred_type_is_taken(name: str, value: object, read: object) -> None:
    assert read_value(OPTIONS[name], value, origin=name) == read


def test_a_refused_secret_is_not_repeated() -> None:
    item = next(item for item in options_of(ServerConfig) if item.name == "api_key")
    with pytest.raises(ConfigError) as refused:
        read_value(item, ("s3cret", ""), origin=item.flag)
    assert "--api-key" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_an_unknown_keyword_is_refused_with_near_ones() -> None:
    with pytest.raises(ConfigError, match="'max_num_seq' is not an option; did you mean max_num_s"):
        from_keywords(EngineConfig, {"max_num_seq": 3})


def test_a_size_may_be_given_as_text_in_keywords() -> None:
    assert from_keywords(EngineConfig, {"kv_cache_memory": "1G"}).kv_cache_memory == 1 << 30


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("block_size", 32),
        ("max_num_seqs", 0),
        ("dtype", "int4"),
        ("threads", 0),
        ("seed", -1),
        ("kv_cache_memory", 0),
        ("enable_prefix_caching", "yes"),
        ("quantization", "q2_k"),
    ],
)
def test_the_engine_refuses_what_it_cannot_honour(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')} is {value!r}"):
        EngineConfig(**{name: value})  # type: ignore[arg-type]


def test_quantised_matrices_have_no_other_type() -> None:
    assert EngineConfig(quantization="int8").quantization == "int8"
    with pytest.raises(ConfigError, match="--quantization is int8 and --dtype float32"):
        EngineConfig(quantization="int8", dtype="float32")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 65536),
        ("port", -1),
        ("max_num_queued_reqs", -1),
        ("max_body_bytes", 0),
        ("max_header_bytes", 10),
        ("max_num_connections", 0),
        ("max_sequences_per_request", 0),
        ("keep_alive_seconds", -1),
        ("stream_ping_seconds", 0.0),
        ("drain_timeout_seconds", -0.5),
        ("engine_stall_seconds", 0.0),
    ],
)
def test_the_server_refuses_what_it_cannot_honour(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"--{name.replace('_', '-')} is {value!r}")):
        ServerConfig(**{name: value})  # type: ignore[arg-type]


@given(st.integers(0, 10**6), st.sampled_from(["", "K", "m", "G", "t"]), st.sampled_from("B "))
def test_sizes_are_powers_of_1024(number: int, unit: str, tail: str) -> None:
    shift = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit.upper()]
    assert parse_bytes(f"{number}{unit}{tail}".strip()) == number << shift


@given(st.text(max_size=8))
def test_no_text_breaks_the_size_parser(text: str) -> None:
    size = parse_bytes(text)
    assert size is None or size >= 0
