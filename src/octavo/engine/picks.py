"""The best of several sequences: what those of one request have said, until the last has ended.

Knows outputs and log probabilities; must not know who computes or reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from octavo.core.outputs import RequestTimes, SequenceOutput, merge_outputs


@dataclass(slots=True)
class _Drawn:
    """One sequence so far. `times` are there when it has ended."""

    said: list[SequenceOutput]
    logprob: float
    times: RequestTimes | None = None


class BestOf:
    """Of `num_sequences` the most probable are the answers."""

    def __init__(self, num_sequences: int) -> None:
        self._num_open = num_sequences
        self._drawn: dict[int, _Drawn] = {}

    @property
    def is_complete(self) -> bool:
        return self._num_open == 0

    def add(self, output: SequenceOutput, logprob: float) -> None:
        """What one sequence has to say, and the log probability of the tokens in it."""
        drawn = self._drawn.get(output.index)
        if drawn is None:
            self._drawn[output.index] = _Drawn([output], logprob)
        else:
            drawn.said.append(output)
            drawn.logprob += logprob

    def ended(self, index: int, times: RequestTimes) -> None:
        self._drawn[index].times = times
        self._num_open -= 1

    def best(self, count: int) -> list[tuple[SequenceOutput, RequestTimes]]:
        """The answers, best first, numbered anew. Equal ones keep their order."""
        ranked = sorted(self._drawn.values(), key=lambda drawn: -drawn.logprob)
        return [
            (_answer(drawn, rank), drawn.times)
            for rank, drawn in enumerate(ranked[:count])
            if drawn.times is not None
        ]


def _answer(drawn: _Drawn, rank: int) -> SequenceOutput:
    """All that was said as one, put together once: its length is paid once, not for every token."""
    return replace(merge_outputs(drawn.said), index=rank, cumulative_logprob=drawn.logprob)
