"""An engine on the context-hash model, or on a script, stepped until it has nothing more to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from octavo.core.outputs import RequestTimes, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.engine.engine import Engine
from octavo.engine.output_processor import DetokenizerSource
from octavo.scheduler.scheduler import Scheduler
from tests.fakes import (
    EOS,
    ByteTokenizer,
    FakeClock,
    FakeRunner,
    joined_ids,
    joined_text,
    make_scheduler,
)

Key = tuple[str, int]


class Rig:
    """An engine, the parts it was made of, and everything that it said, by sequence.

    Fails at once if a sequence says anything after its terminal output.
    """

    def __init__(
        self,
        *,
        scheduler: Scheduler | None = None,
        choose: Callable[[list[int], int], int] | None = None,
        fail_on: Iterable[int] = (),
        seed: int = 0,
        tokenizer: DetokenizerSource | None = None,
    ) -> None:
        self.scheduler = scheduler or make_scheduler(eos_token_ids=frozenset({EOS}))
        kv = self.scheduler.kv
        self.runner = FakeRunner(
            kv.num_pages, kv.page_tokens, choose, fail_on=fail_on, groups=kv.groups
        )
        self.clock = FakeClock()
        self.engine = Engine(
            self.scheduler, self.runner, tokenizer or ByteTokenizer(), seed, self.clock
        )
        self.said: dict[Key, list[SequenceOutput]] = {}
        self.times: dict[Key, RequestTimes] = {}

    def step(self) -> list[SequenceOutput]:
        outputs = self.engine.step()
        for output in outputs.outputs:
            history = self.said.setdefault((output.request_id, output.index), [])
            assert not history or history[-1].finish_reason is None, "said more after the end"
            history.append(output)
        for request_id, index, times in outputs.finished:
            assert (request_id, index) not in self.times, "finished twice"
            self.times[request_id, index] = times
        return outputs.outputs

    def drain(self, max_steps: int = 2000) -> None:
        """Step until idle. Then everybody has ended, and no page is held."""
        for _ in range(max_steps):
            if not self.engine.has_work:
                break
            self.step()
        assert not self.engine.has_work, "no end in sight"
        assert all(history[-1].finish_reason for history in self.said.values())
        assert self.times.keys() == self.said.keys()
        self.scheduler.kv.check_invariants()
        stats = self.engine.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_used_pages) == (0, 0, 0)

    def answer(self, request: EngineRequest) -> list[SequenceOutput]:
        """Everything said of sequence 0 of `request`, run until all is done."""
        self.engine.submit(request)
        self.drain()
        return self.said[request.request_id, 0]

    def text(self, key: Key) -> str:
        return joined_text(self.said[key])

    def ids(self, key: Key) -> list[int]:
        return joined_ids(self.said[key])

    def last(self, key: Key) -> SequenceOutput:
        return self.said[key][-1]


def saying(answer: str | list[int]) -> Callable[[list[int], int], int]:
    """A model that answers every prompt, which must be one token, with `answer`, then with EOS."""
    ids = list(answer.encode()) if isinstance(answer, str) else answer
    return lambda context, _: ids[len(context) - 1] if len(context) <= len(ids) else EOS
