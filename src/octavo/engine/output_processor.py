"""From token ids to what a client sees: text in whole characters, stop strings, log probabilities.

Owns the text of every live sequence. Must not know pages, budgets or who runs: it learns what a
step did to a sequence, and answers with an output, whose finish may be news to the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from octavo.core.outputs import FinishReason, SequenceOutput, TokenLogprobs
from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import Sequence
from octavo.scheduler.beams import Hypothesis
from octavo.scheduler.scheduler import SequenceUpdate
from octavo.scheduler.stopping import Finish
from octavo.tokenization.stop_matcher import StopMatcher

if TYPE_CHECKING:
    from octavo.structured.stop_regex import StopRegexes


class IncrementalDetokenizer(Protocol):
    """Ids in, whole characters out; `flush` gives what is left, replacing half a character."""

    def push(self, token_id: int) -> str: ...

    def flush(self) -> str: ...


class DetokenizerSource(Protocol):
    """The one thing that the output side asks of a tokenizer."""

    def detokenizer(
        self,
        *,
        skip_special_tokens: bool,
        preceding_id: int | None,
        shown_ids: Collection[int],
    ) -> IncrementalDetokenizer: ...


class TextStream:
    """The text of one sequence as far as it may be shown: no half character, no part of a stop."""

    def __init__(self, detokenizer: IncrementalDetokenizer, params: SamplingParams) -> None:
        self._detokenizer = detokenizer
        self._matcher: StopMatcher | None = None
        if params.stop_strings:
            self._matcher = StopMatcher(params.stop_strings, params.include_stop_str_in_output)
        self._regexes = _stop_regexes(params)

    def push(self, token_id: int, *, may_stop: bool) -> tuple[str, str | None]:
        """Text that may be shown now, and the stop string that has just been completed, if any, or
        the regex that has just matched.

        Unless `may_stop`, the token's text is shown as it is and can be no part of a stop string.
        Raises `StopFailed`.
        """
        return self._match(self._detokenizer.push(token_id), may_stop)

    def flush(self, *, may_stop: bool) -> tuple[str, str | None]:
        """The rest, when no more tokens come."""
        text, matched = self._match(self._detokenizer.flush(), may_stop)
        if matched is None and self._matcher is not None:
            text += self._matcher.flush()
        return text, matched

    def _match(self, text: str, may_stop: bool) -> tuple[str, str | None]:
        if not may_stop:
            return text, None
        found = None if self._regexes is None else self._regexes.find(text)
        end, regex = found or (len(text), None)
        if self._matcher is None:
            return text[:end], regex
        result = self._matcher.push(text[:end])
        if result.matched is not None or regex is None:
            return result.text, result.matched
        return result.text + self._matcher.flush(), regex


class OutputProcessor:
    """Outputs carry what is new since the last one. `start` each sequence before its first step;
    the output with a finish reason is its last."""

    def __init__(self, tokenizer: DetokenizerSource | None) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[Sequence, TextStream] = {}
        self._prompt_logprobs: dict[Sequence, list[TokenLogprobs | None]] = {}

    def start(self, sequence: Sequence) -> None:
        params = sequence.params
        detokenizer = None if params.use_beam_search else self._detokenizer(sequence)
        if detokenizer is not None:
            self._texts[sequence] = TextStream(detokenizer, params)
        if params.prompt_logprobs is not None and sequence.index == 0:
            self._prompt_logprobs[sequence] = [None] * sequence.num_prompt_tokens

    def process(self, update: SequenceUpdate) -> SequenceOutput | None:
        """What the client hears of a step; None while the prompt is still being computed."""
        self._collect_prompt_logprobs(update)
        token_id = update.result.token_id
        if token_id is None and update.finish is None:
            return None
        sequence = update.sequence
        text, finish = self._advance_text(sequence, token_id, update.finish)
        output = SequenceOutput(
            request_id=sequence.request.request_id,
            index=sequence.index,
            token_ids=[] if token_id is None else [token_id],
            text=text,
            logprobs=_new_logprobs(update),
            prompt_logprobs=self._prompt_logprobs.pop(sequence, None),
            finish_reason=finish.reason if finish is not None else None,
            stop_reason=finish.stop_reason if finish is not None else None,
            num_cached_tokens=sequence.num_cached_tokens,
            embedding=update.result.embedding,
        )
        if finish is not None:
            self.forget(sequence)
        return output

    def answer(self, sequence: Sequence, index: int, answer: Hypothesis) -> SequenceOutput:
        """One answer of the beam search that `sequence` stands for, whole."""
        token_ids = list(answer.beam.token_ids)
        is_shown = _is_shown(sequence.params, answer.finish)
        return SequenceOutput(
            request_id=sequence.request.request_id,
            index=index,
            token_ids=token_ids,
            text=self._whole_text(sequence, token_ids if is_shown else token_ids[:-1]),
            finish_reason=answer.finish.reason,
            stop_reason=answer.finish.stop_reason,
            num_cached_tokens=sequence.num_cached_tokens,
            cumulative_logprob=answer.beam.logprob,
        )

    def terminate(
        self, sequence: Sequence, reason: FinishReason, error: str | None = None
    ) -> SequenceOutput:
        """The last output of a sequence that ends from outside.

        An abort lets go of the text held back so far; after an error no text can be relied on.
        """
        text = self._flush(sequence)[0] if reason == "abort" else ""
        self.forget(sequence)
        return SequenceOutput(
            request_id=sequence.request.request_id,
            index=sequence.index,
            text=text,
            finish_reason=reason,
            num_cached_tokens=sequence.num_cached_tokens,
            error=error,
        )

    def forget(self, sequence: Sequence) -> None:
        """Nothing more will be said of it."""
        self._texts.pop(sequence, None)
        self._prompt_logprobs.pop(sequence, None)

    def _detokenizer(self, sequence: Sequence) -> IncrementalDetokenizer | None:
        params = sequence.params
        if not params.detokenize or self._tokenizer is None:
            return None
        return self._tokenizer.detokenizer(
            skip_special_tokens=params.skip_special_tokens,
            preceding_id=sequence.token_ids[sequence.num_prompt_tokens - 1],
            shown_ids=sequence.request.shown_token_ids,
        )

    def _whole_text(self, sequence: Sequence, token_ids: list[int]) -> str:
        detokenizer = self._detokenizer(sequence)
        if detokenizer is None:
            return ""
        return "".join(map(detokenizer.push, token_ids)) + detokenizer.flush()

    def _advance_text(
        self, sequence: Sequence, token_id: int | None, finish: Finish | None
    ) -> tuple[str, Finish | None]:
        """New text, and the finish after stop strings had their say. They win over lengths."""
        text, matched = "", None
        if token_id is not None and _is_shown(sequence.params, finish):
            text, matched = self._push(sequence, token_id)
        if matched is None and finish is not None:
            rest, matched = self._flush(sequence)
            text += rest
        return text, finish if matched is None else Finish("stop", matched)

    def _push(self, sequence: Sequence, token_id: int) -> tuple[str, str | None]:
        stream = self._texts.get(sequence)
        if stream is None:
            return "", None
        return stream.push(token_id, may_stop=_may_stop(sequence))

    def _flush(self, sequence: Sequence) -> tuple[str, str | None]:
        stream = self._texts.get(sequence)
        return ("", None) if stream is None else stream.flush(may_stop=_may_stop(sequence))

    def _collect_prompt_logprobs(self, update: SequenceUpdate) -> None:
        """By position, since rows that are computed again after preemption come again."""
        collected = self._prompt_logprobs.get(update.sequence)
        if collected is None or update.result.prompt_logprobs is None:
            return
        first = update.scheduled.start + 1
        for position, entry in enumerate(update.result.prompt_logprobs, first):
            if position < len(collected):
                collected[position] = entry


def _stop_regexes(params: SamplingParams) -> StopRegexes | None:
    if not params.stop_regexes:
        return None
    from octavo.structured.stop_regex import StopRegexes

    return StopRegexes(params.stop_regexes)


def _may_stop(sequence: Sequence) -> bool:
    """Stop strings count in text that comes after the first `min_tokens` tokens, as in vLLM."""
    return sequence.num_output_tokens > sequence.params.min_tokens


def _is_shown(params: SamplingParams, finish: Finish | None) -> bool:
    """A stop token is no text, unless asked for."""
    return finish is None or finish.reason != "stop" or params.include_stop_str_in_output


def _new_logprobs(update: SequenceUpdate) -> list[TokenLogprobs] | None:
    if update.sequence.params.logprobs is None:
        return None
    return [] if update.result.logprobs is None else [update.result.logprobs]
