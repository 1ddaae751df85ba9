"""Typed access to metadata: the value, or an error that names key, value and what is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.errors import WeightError
from octavo.weights.metadata import (
    MetadataValue,
    metadata_bool,
    metadata_float,
    metadata_int,
    metadata_ints,
    metadata_str,
)

META: dict[str, MetadataValue] = {
    "layers": 30,
    "heads": np.array([4, 8], np.int32),
    "eps": 1e-5,
    "flag": True,
    "name": "llama",
    "nan": float("nan"),
    "wide": np.array([1.5]),
    "long": "x\n" * 500,
}


def test_values_of_the_right_type_are_returned() -> None:
    assert metadata_int(META, "layers", 1, 100) == 30
    assert metadata_ints(META, "layers", 1, 100, count=3) == (30, 30, 30)
    assert metadata_ints(META, "heads", 1, 8, count=2) == (4, 8)
    assert metadata_float(META, "eps", 0.0, 1.0) == 1e-5
    assert metadata_float(META, "layers", 0.0, 100.0) == 30.0
    assert metadata_bool(META, "flag") is True
    assert metadata_str(META, "name", choices=("llama", "qwen2")) == "llama"


def test_default_stands_in_for_an_absent_key_only() -> None:
    assert metadata_int(META, "absent", 1, 9, default=5) == 5
    assert metadata_ints(META, "absent", 1, 9, count=2, default=5) == (5, 5)
    assert metadata_bool(META, "absent", default=False) is False
    assert metadata_str(META, "absent", default="") == ""
    with pytest.raises(WeightError, match="the key absent is missing"):
        metadata_float(META, "absent", 0.0, 1.0)
    with pytest.raises(WeightError, match="layers is 30"):
        metadata_int(META, "layers", 1, 9, default=5)


def test_refusals_name_key_value_and_range() -> None:
    with pytest.raises(WeightError, match=r"m\.gguf: layers is 30; an integer from 1 to 8 is"):
        metadata_int(META, "layers", 1, 8, file="m.gguf")
    with pytest.raises(WeightError, match="flag is True; an integer"):
        metadata_int(META, "flag", 0, 8)
    with pytest.raises(WeightError, match="eps is 1e-05; an integer"):
        metadata_ints(META, "eps", 0, 8, count=2)
    with pytest.raises(WeightError, match="heads is an array of 2 int32 values; an integer or 3"):
        metadata_ints(META, "heads", 0, 8, count=3)
    with pytest.raises(WeightError, match="heads is 8; integers from 0 to 4"):
        metadata_ints(META, "heads", 0, 4, count=2)
    with pytest.raises(WeightError, match="wide is an array"):
        metadata_ints(META, "wide", 0, 4, count=1)
    with pytest.raises(WeightError, match="nan is nan; a finite number"):
        metadata_float(META, "nan", 0.0, 1.0)
    with pytest.raises(WeightError, match="layers is 30; true or false"):
        metadata_bool(META, "layers")
    with pytest.raises(WeightError, match="name is 'llama'; one of qwen2, gemma3"):
        metadata_str(META, "name", choices=("qwen2", "gemma3"))


def test_a_long_value_makes_a_short_line() -> None:
    with pytest.raises(WeightError) as caught:
        metadata_int(META, "long", 0, 1)
    assert len(str(caught.value)) < 160
    assert "\n" not in str(caught.value)
