"""Memory while weights are loaded, in a process of its own, by what the system counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from octavo.weights.gguf import GGUFFile

LOAD = """
import sys
from octavo.bench.startup import status_bytes
from octavo.kernels._native import PackedMatrix, ThreadPool
from octavo.models.registry import model_from_gguf
from octavo.weights.gguf import GGUFFile
from octavo.weights.loader import load_weights

file = GGUFFile.open(sys.argv[1])
weights = model_from_gguf(file).weights()
pool = ThreadPool(2)
before = status_bytes("self", "VmRSS")
loaded = load_weights(file, weights, sys.argv[2], pool)
peak, after = status_bytes("self", "VmHWM"), status_bytes("self", "VmRSS")
packed = sum(held.num_bytes for held in loaded.values() if isinstance(held, PackedMatrix))
print(packed, peak - before, after - before)
"""


@pytest.mark.parametrize("dtype", ["auto", "bfloat16"])
def test_the_file_does_not_stand_beside_its_packed_weights(smollm2_path: Path, dtype: str) -> None:
    """At most the packed weights and twice the largest tensor; after that, nothing of the file."""
    with GGUFFile.open(smollm2_path) as file:
        largest = max(info.num_bytes for info in file.tensors.values())
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(smollm2_path), dtype],
        capture_output=True,
        text=True,
        check=True,
    )
    packed, peak, after = map(int, done.stdout.split())
    assert packed > 90 << 20
    assert peak <= packed + 2 * largest
    assert after <= packed + largest / 2
