"""Fixtures that every test may use: the real models, fetched and checked once into octavo's cache.

A test that takes a real model's fixture is marked `real_model`. The large models are not fetched:
tests that want one are deselected, with a line in the summary, unless the folder that
OCTAVO_TEST_MODELS names holds its file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from octavo.config.environment import test_models_folder
from octavo.hub.find import find_model

# No test is about time: a busy machine must not fail one.
settings.register_profile("octavo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("octavo")
# For a night: `pytest --hypothesis-profile=octavo-long tests/kv/test_kv_properties.py`.
settings.register_profile("octavo-long", settings.get_profile("octavo"), max_examples=40_000)

CATALOGUE_FIXTURES = {"smollm2_path": "smollm2", "gemma3_path": "gemma3-270m"}
LARGE_FIXTURES = {
    "qwen05_path": "qwen2.5-0.5b-q4.gguf",
    "qwen15_path": "qwen2.5-1.5b-q4.gguf",
}
DESELECTED = pytest.StashKey[dict[str, int]]()


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1: llama architecture, chat template, byte-level BPE."""
    return find_model(CATALOGUE_FIXTURES["smollm2_path"])


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """gemma-3-270m, Q4_K_M: gemma3 architecture, base model, SentencePiece of 262k tokens."""
    return find_model(CATALOGUE_FIXTURES["gemma3_path"])


@pytest.fixture(scope="session")
def qwen05_path() -> Path:
    """Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: qwen2 architecture, biases, tied embeddings."""
    return _large_model("qwen05_path")


@pytest.fixture(scope="session")
def qwen15_path() -> Path:
    """Qwen2.5-Coder-1.5B-Instruct, Q4_K_M."""
    return _large_model("qwen15_path")


def _large_model(fixture: str) -> Path:
    path = _large_file(fixture)
    assert path is not None, f"tests with {fixture} are deselected where its file is missing"
    return path


def _large_file(fixture: str) -> Path | None:
    folder = test_models_folder()
    if folder is None or not (folder / LARGE_FIXTURES[fixture]).is_file():
        return None
    return folder / LARGE_FIXTURES[fixture]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    missing: dict[str, int] = {}
    for item in items:
        wanted = _wanted(item)
        if wanted & {*CATALOGUE_FIXTURES, *LARGE_FIXTURES}:
            item.add_marker(pytest.mark.real_model)
        absent = [name for name in LARGE_FIXTURES if name in wanted and _large_file(name) is None]
        for name in absent:
            missing[name] = missing.get(name, 0) + 1
        (deselected if absent else kept).append(item)
    config.stash[DESELECTED] = missing
    if deselected:
        items[:] = kept
        config.hook.pytest_deselected(items=deselected)


def _wanted(item: pytest.Item) -> set[object]:
    """The fixtures a test takes, and those whose names it is parametrised with."""
    call = getattr(item, "callspec", None)
    named = (
        [] if call is None else [value for value in call.params.values() if isinstance(value, str)]
    )
    return {*getattr(item, "fixturenames", ()), *named}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for name, count in config.stash.get(DESELECTED, {}).items():
        terminalreporter.write_line(
            f"deselected {count} tests that need {LARGE_FIXTURES[name]}"
            " (put it in a folder that OCTAVO_TEST_MODELS names)",
            yellow=True,
        )
