"""Tokens that follow from a drawn one without being drawn: by a grammar, or by the end of a budget.

Knows sequences and grammars, and nothing of how a step is computed or who reads the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from octavo.core.schedule import SequenceResult
from octavo.core.sequence import Sequence
from octavo.engine.grammars import SequenceGrammars
from octavo.scheduler.scheduler import SequenceUpdate
from octavo.scheduler.stopping import Finish, finish_of


class LeftGrammar(Exception):
    """A token was drawn that the sequence's grammar does not allow."""


class ForcedTokens:
    def __init__(
        self,
        grammars: SequenceGrammars | None,
        eos_token_ids: Set[int],
        max_sequence_tokens: int,
    ) -> None:
        self._grammars = grammars
        self._eos_token_ids = eos_token_ids
        self._max_sequence_tokens = max_sequence_tokens

    def follow(self, update: SequenceUpdate) -> Iterator[SequenceUpdate]:
        """The update, and what follows from it. Each is to be dealt with before the next is asked
        for. Raises `LeftGrammar`."""
        yield from self._by_grammar(update)
        sequence = update.sequence
        if update.result.token_id is not None and _has_thought_enough(sequence):
            thinking = sequence.request.thinking
            assert thinking is not None
            yield from self._by_grammar(self._appended(update, thinking.end_token_id))

    def _by_grammar(self, update: SequenceUpdate) -> Iterator[SequenceUpdate]:
        sequence, token_id = update.sequence, update.result.token_id
        if self._grammars is None or not sequence.request.grammar or token_id is None:
            yield update
            return
        params = sequence.params
        advance = self._grammars.advance(
            sequence, token_id, may_force=params.logprobs is None and not params.picks_best
        )
        if advance.error:
            raise LeftGrammar(advance.error)
        yield update
        for forced in advance.forced:
            if sequence.is_finished:
                return
            yield self._appended(update, forced)
        if advance.is_complete and not sequence.is_finished:
            yield SequenceUpdate(sequence, update.scheduled, SequenceResult(), Finish("stop"))

    def _appended(self, update: SequenceUpdate, token_id: int) -> SequenceUpdate:
        sequence = update.sequence
        sequence.token_ids.append(token_id)
        finish = finish_of(sequence, self._eos_token_ids, self._max_sequence_tokens)
        return SequenceUpdate(sequence, update.scheduled, SequenceResult(token_id=token_id), finish)


def _has_thought_enough(sequence: Sequence) -> bool:
    """Whether its reasoning has just come to the end of its budget."""
    thinking = sequence.request.thinking
    if thinking is None or sequence.is_finished:
        return False
    num_opening = 0 if thinking.begin_token_id is None else 1
    if sequence.num_output_tokens != thinking.max_tokens + num_opening:
        return False
    answer = sequence.token_ids[sequence.num_prompt_tokens :]
    is_reasoning = not num_opening or answer[0] == thinking.begin_token_id
    return is_reasoning and thinking.end_token_id not in answer
