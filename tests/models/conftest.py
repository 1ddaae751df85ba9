"""Fixtures of tiny models, built once per session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tests.models.tiny import PLAIN, TinyModel, Types, write_tiny

MakeTiny = Callable[..., TinyModel]


@pytest.fixture(scope="session")
def make_tiny(tmp_path_factory: pytest.TempPathFactory) -> MakeTiny:
    """make_tiny(name, types=PLAIN): the model of that recipe with tensors of those types."""
    folder = tmp_path_factory.mktemp("tiny")
    made: dict[tuple[str, str], TinyModel] = {}

    def make(name: str, types: Types = PLAIN) -> TinyModel:
        key = (name, str(types))
        if key not in made:
            made[key] = write_tiny(name, folder, types)
        return made[key]

    return make


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread() -> Iterator[None]:
    """Small tensors on many threads are slower, by a lot when the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
