"""The instruction-set levels of this build, and what the configuration calls them."""

from __future__ import annotations

import pytest

from octavo.config.engine import ISA_LEVELS
from octavo.kernels import _native
from tests.kernels.harness import OneKernel, StepArrays


def test_every_level_can_be_asked_for_by_name() -> None:
    levels = _native.isa_levels()
    assert levels[-1] == "scalar"
    assert set(levels) < set(ISA_LEVELS)


def test_an_unknown_level_is_refused_with_the_names_of_those_that_run() -> None:
    kernel = OneKernel("sse9")
    x = kernel.output(16)
    with pytest.raises(ValueError, match='level is "sse9"; this machine runs scalar'):
        kernel.bind("add", [x, x], [x], step=StepArrays(1))
