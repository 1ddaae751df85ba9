"""What has to be equal for a page of one process to be worth anything in another, as a digest.

Pages depend on the weights and on every bit of the arithmetic. Both are taken from what is there,
not from names: the model's file, the compiled program, the native core.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from octavo import __version__
from octavo.config.engine import EngineConfig
from octavo.core.page_plan import PagePlan
from octavo.kernels import _native
from octavo.ops.program import Program
from octavo.weights.gguf import GGUFFile

DIGEST_BYTES = 32
SAMPLE_BYTES = 4096
"""Of each tensor. Reading all of the weights would take as long as loading them."""


def page_identity(file: GGUFFile, config: EngineConfig, program: Program, plan: PagePlan) -> bytes:
    """`config` has been resolved. A few milliseconds for a model of gigabytes."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    parts = (
        __version__.encode(),
        repr((config.isa, config.kv_cache_dtype, config.dtype, config.quantization)).encode(),
        program.to_text().encode(),
        repr((plan.groups.windows, plan.places)).encode(),
        blake2b(_native_core()).digest(),
        model_digest(file),
    )
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def model_digest(file: GGUFFile) -> bytes:
    """Header and tensor infos as they stand in the file, its size, and the beginning of each
    tensor: two trainings of one architecture have all the rest in common."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    digest.update(file.path.stat().st_size.to_bytes(8, "little"))
    with file.path.open("rb") as raw:
        digest.update(raw.read(min(info.offset for info in file.tensors.values())))
        for info in file.tensors.values():
            raw.seek(info.offset)
            digest.update(raw.read(min(info.num_bytes, SAMPLE_BYTES)))
    return digest.digest()


def _native_core() -> bytes:
    path = _native.__file__
    assert path is not None, "an extension module has a file"
    return Path(path).read_bytes()
