"""What a beam search finds on the context-hash model by its rules alone: no pages, no others."""

from __future__ import annotations

from octavo.core.request import EngineRequest
from octavo.scheduler.beams import BeamGroup, BeamRules, Hypothesis
from tests.fakes import BYTE_VOCAB, EOS, fake_candidates


def found_by_rules(request: EngineRequest, max_new_tokens: int = 10_000) -> list[Hypothesis]:
    params = request.sampling_params
    group = BeamGroup(BeamRules.of(params, frozenset({EOS}), max_new_tokens))
    while not group.is_over:
        contexts = [[*request.prompt_token_ids, *beam.token_ids] for beam in group.beams]
        group.advance([fake_candidates(context, BYTE_VOCAB) for context in contexts])
    return group.best(params.n)
