"""Native programs of tiny models: equal to transformers within tolerance, on every level."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.kernels._native import isa_levels
from tests.models.checks import F32, hf_logits, sequence_of, step_of
from tests.models.conftest import MakeTiny
from tests.models.native import NativeModel, NativeOptions
from tests.models.tiny import MIXED, RECIPES, VOCABULARY

IDS = np.random.default_rng(1).integers(0, VOCABULARY, 60).tolist()
LEVELS = isa_levels()


def _logits_in_chunks(native: NativeModel) -> F32:
    sequence = sequence_of(IDS, first_page=3)
    chunks = ((0, 37), (37, 38), (38, 60))
    steps = [step_of((sequence, start, stop)) for start, stop in chunks]
    return np.concatenate([native.logits(step) for step in steps])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RECIPES)
def test_float_programs_equal_transformers(name: str, level: str, make_tiny: MakeTiny) -> None:
    tiny = make_tiny(name)
    expected = hf_logits(tiny.hf, IDS)
    got = _logits_in_chunks(NativeModel(tiny.path, NativeOptions(level=level)))
    assert np.abs(got - expected).max() <= 2e-4 * np.abs(expected).max()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RECIPES)
def test_dequantised_programs_equal_transformers(
    name: str, level: str, make_tiny: MakeTiny
) -> None:
    tiny = make_tiny(name, MIXED)
    expected = hf_logits(tiny.hf, IDS)
    got = _logits_in_chunks(NativeModel(tiny.path, NativeOptions(level=level, dtype="float32")))
    assert np.abs(got - expected).max() <= 2e-4 * np.abs(expected).max()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RECIPES)
def test_quantised_programs_are_near_transformers(
    name: str, level: str, make_tiny: MakeTiny
) -> None:
    """Activations of 8 bits cost about half a per cent per product."""
    tiny = make_tiny(name, MIXED)
    expected = hf_logits(tiny.hf, IDS)
    got = _logits_in_chunks(NativeModel(tiny.path, NativeOptions(level=level)))
    error = np.sqrt(np.mean((got - expected) ** 2) / np.mean(expected**2))
    assert error <= 0.03


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_fusion_changes_nothing(name: str, level: str, dtype: str, make_tiny: MakeTiny) -> None:
    path = make_tiny(name, MIXED).path
    fused = NativeModel(path, NativeOptions(level=level, dtype=dtype))
    unfused = NativeModel(path, NativeOptions(level=level, dtype=dtype, fuse=False))
    assert np.array_equal(_logits_in_chunks(fused), _logits_in_chunks(unfused))
