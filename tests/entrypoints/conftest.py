"""One loaded SmolLM2 for all tests of the doors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import octavo


@pytest.fixture(scope="session")
def llm(smollm2_path: Path) -> Iterator[octavo.LLM]:
    options = {"max_model_len": 1024, "max_num_seqs": 8, "kv_cache_memory": "128M"}
    with octavo.LLM(str(smollm2_path), **options) as llm:
        yield llm
