"""Native executables of model files, with as few parts as possible, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from octavo.core.schedule import ScheduledStep
from octavo.kernels._native import KvCache, ThreadPool
from octavo.models.registry import model_from_gguf
from octavo.runner.executable import ProgramExecutable
from octavo.runner.load import compile_for_file
from octavo.runner.step import Step, StepLimits
from octavo.weights.gguf import GGUFFile
from octavo.weights.loader import load_weights

LIMITS = StepLimits(max_tokens=512, max_sequences=8, max_logit_rows=512, max_context_tokens=1024)


@dataclass(frozen=True, kw_only=True)
class NativeOptions:
    level: str
    dtype: str = "auto"
    kv_dtype: str = "float32"
    num_threads: int = 2
    num_pages: int = 128
    fuse: bool = True


class NativeModel:
    """A model file bound to the native core; `logits` runs one step."""

    def __init__(self, path: Path, options: NativeOptions) -> None:
        file = GGUFFile.open(path)
        self.model = model_from_gguf(file)
        program = compile_for_file(file, self.model, options.dtype, fuse=options.fuse)
        pool = ThreadPool(options.num_threads)
        weights = load_weights(file, self.model.weights(), options.dtype, pool)
        layers = [(layer.num_kv_heads, layer.head_dim) for layer in self.model.config.layers]
        pages = KvCache(options.num_pages, layers, options.kv_dtype)
        self.step = Step(LIMITS)
        self.executable = ProgramExecutable(program, weights, pages, pool, options.level, self.step)

    def logits(self, scheduled: ScheduledStep) -> npt.NDArray[np.float32]:
        """[logit rows, vocabulary], a copy."""
        self.step.fill(scheduled)
        return self.executable.run().copy()
