"""The model files, run by the torch reference, compute what transformers computes."""

import numpy as np
import pytest

from octavo.runner.reference import ReferenceExecutable
from octavo.runner.step import Step, StepLimits
from tests.models.checks import file_weights, hf_logits, open_model, sequence_of, step_of
from tests.models.conftest import MakeTiny
from tests.models.tiny import RECIPES, VOCABULARY

LIMITS = StepLimits(max_tokens=64, max_sequences=4, max_logit_rows=64, max_context_tokens=128)


@pytest.mark.parametrize("name", RECIPES)
def test_reference_logits_equal_transformers(name: str, make_tiny: MakeTiny) -> None:
    tiny = make_tiny(name)
    _, model = open_model(tiny.path)
    step = Step(LIMITS)
    executable = ReferenceExecutable(model, file_weights(tiny.path, model), 16, step)
    ids = np.random.default_rng(1).integers(0, VOCABULARY, 60).tolist()
    expected = hf_logits(tiny.hf, ids)
    sequence = sequence_of(ids, first_page=3)
    got = []
    for start, stop in ((0, 37), (37, 38), (38, 60)):
        step.fill(step_of((sequence, start, stop)))
        got.append(executable.run())
    difference = np.abs(np.concatenate(got) - expected).max()
    assert difference <= 2e-5 * np.abs(expected).max()
