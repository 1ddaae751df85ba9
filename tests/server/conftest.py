"""Real servers that all tests of a run share: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

from tests.server.real_server import PATIENCE_SECONDS, RealServers


@pytest.fixture(scope="session")
def real_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServers]:
    with ExitStack() as ends:
        yield RealServers(ends, tmp_path_factory.mktemp("batches"))


@pytest.fixture(scope="session")
def smollm2_url(real_servers: RealServers, smollm2_path: Path) -> str:
    """A server of SmolLM2, whose chat template knows no tools."""
    return real_servers.url(smollm2_path)


@pytest.fixture(scope="session")
def qwen05_url(real_servers: RealServers, qwen05_path: Path) -> str:
    """A server of Qwen2.5-0.5B, which calls tools."""
    return real_servers.url(qwen05_path)


@pytest.fixture(params=["smollm2_path", "qwen05_path"])
def url(request: pytest.FixtureRequest, real_servers: RealServers) -> str:
    """The servers of both, one after the other."""
    return real_servers.url(request.getfixturevalue(request.param))


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai_client(url) as client:
        yield client


@pytest.fixture
def qwen(qwen05_url: str) -> Iterator[openai.OpenAI]:
    with openai_client(qwen05_url) as client:
        yield client


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{url}/v1", api_key="key", max_retries=0, timeout=PATIENCE_SECONDS
    )
