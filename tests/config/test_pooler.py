"""The pooler's options: vLLM's JSON, the flag of its own, and what the file says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from octavo.config.engine import EngineConfig
from octavo.config.pooler import PoolerOptions, read_pooler_options
from octavo.errors import ConfigError
from tests.config.test_resolve import model, resolved

HIDDEN_SIZE = model().hidden_size


def decided(config: EngineConfig, said_by_the_file: str = "") -> str:
    return resolved(config, replace(model(), pooling_type=said_by_the_file)).config.pooling_type


def test_vllms_json_is_read() -> None:
    text = '{"pooling_type": "MEAN", "normalize": false, "dimensions": 64}'
    wanted = PoolerOptions(pooling_type="mean", normalize=False, dimensions=64)
    assert read_pooler_options(text, origin="--pooler-config") == wanted
    newer = '{"seq_pooling_type": "CLS", "use_activation": true, "dimensions": null}'
    assert read_pooler_options(newer, origin="x") == PoolerOptions(pooling_type="cls")
    assert read_pooler_options("", origin="x") == PoolerOptions()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        "[]",
        '{"pooling_type": "ALL"}',
        '{"pooling_type": 1}',
        '{"normalize": 1}',
        '{"dimensions": 0}',
        '{"dimensions": true}',
        '{"enable_chunked_processing": true}',
    ],
)
def test_other_json_is_refused(text: str) -> None:
    for name in ("pooler_config", "override_pooler_config"):
        with pytest.raises(ConfigError, match="--" + name.replace("_", "-")):
            EngineConfig(**{name: text})  # type: ignore[arg-type]


def test_the_type_is_given_or_the_files_or_last() -> None:
    assert decided(EngineConfig()) == "last"
    assert decided(EngineConfig(), "mean") == "mean"
    assert decided(EngineConfig(pooling_type="cls"), "mean") == "cls"
    assert decided(EngineConfig(override_pooler_config='{"pooling_type": "CLS"}'), "mean") == "cls"


def test_what_says_it_twice_is_refused() -> None:
    config = '{"pooling_type": "MEAN"}'
    with pytest.raises(ConfigError, match="two names of one option"):
        EngineConfig(pooler_config=config, override_pooler_config=config)
    with pytest.raises(ConfigError, match="--pooling-type is last"):
        EngineConfig(pooler_config=config, pooling_type="last")


def test_more_dimensions_than_the_model_has_are_refused() -> None:
    decided(EngineConfig(pooler_config=f'{{"dimensions": {HIDDEN_SIZE}}}'))
    with pytest.raises(ConfigError, match=f"dimensions {HIDDEN_SIZE + 1}; .* have {HIDDEN_SIZE}"):
        decided(EngineConfig(pooler_config=f'{{"dimensions": {HIDDEN_SIZE + 1}}}'))
