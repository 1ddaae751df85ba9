"""The best of several sequences: what those of one request have said, until the last has ended.

Knows outputs and log probabilities; must not know who computes or reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from octavo.core.outputs import JoinedOutputs, RequestTimes, SequenceOutput


@dataclass(slots=True)
class _Drawn:
    """One sequence so far. `times` are there when it has ended."""

    outputs: JoinedOutputs
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
            self._drawn[output.index] = _Drawn(JoinedOutputs(output), logprob)
        else:
            drawn.outputs.add(output)
            drawn.logprob += logprob

    def ended(self, index: int, times: RequestTimes) -> None:
        self._drawn[index].times = times
        self._num_open -= 1

    def best(self, count: int) -> list[tuple[SequenceOutput, RequestTimes]]:
        """The answers, best first, numbered anew. Equal ones keep their order."""
        ranked = sorted(self._drawn.values(), key=lambda drawn: -drawn.logprob)
        return [
            (
                replace(drawn.outputs.output(), index=rank, cumulative_logprob=drawn.logprob),
                drawn.times,
            )
            for rank, drawn in enumerate(ranked[:count])
            if drawn.times is not None
        ]
