"""Windows of the text, and what the figures mean."""

from __future__ import annotations

import argparse
import hashlib
import math
from pathlib import Path

import pytest

from benchmarks.perplexity import REFERENCE, TEXT, perplexity, report_of, surprise, windows_of


def test_the_text_is_the_one_that_the_figures_are_of() -> None:
    digest = hashlib.sha256(TEXT.read_bytes()).hexdigest()
    assert digest == "b3fda46382095289f8478981f585caea1f09745d54c01d6a5488ba410ae8ef63"


def test_guessing_among_ten_has_perplexity_ten() -> None:
    windows = [[0] * 5, [0] * 3]
    assert perplexity(6 * math.log(10), windows) == pytest.approx(10.0)


def test_the_excess_is_in_per_cent_of_the_reference() -> None:
    arguments = argparse.Namespace(threads=1, tokens=8, window=4, octavo=[])
    report = report_of(Path("m.gguf"), arguments, {REFERENCE: 20.0, "KV int8": 20.1})
    assert report.results["KV int8, excess in %"] == pytest.approx(0.5)


def test_windows_cover_the_text_and_reading_them_costs_the_same_each_time(
    smollm2_path: Path,
) -> None:
    path = smollm2_path
    windows = windows_of(path, num_tokens=40, window_tokens=16)
    assert [len(ids) for ids in windows] == [16, 16, 8]
    options: dict[str, object] = {"kv_cache_memory": 1 << 24}
    first = surprise(path, windows, 1, options)
    assert first == surprise(path, windows, 2, options)
    assert first == pytest.approx(sum(surprise(path, [one], 1, options) for one in windows))
    assert 1 < perplexity(first, windows) < 49152
