"""The same answer alone or in any crowd: the whole engine on the context-hash model, with `==`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from tests.engine.drive_engine import Rig
from tests.fakes import EOS, make_request, make_scheduler

Said = tuple[list[int], str, list[object], str | None, int | str | None]

REQUESTS = st.lists(
    st.builds(
        lambda prompt, params: (prompt, params),
        st.text("ab", min_size=1, max_size=20),
        st.builds(
            SamplingParams,
            n=st.sampled_from([1, 1, 1, 3]),
            temperature=st.sampled_from([0.0, 1.0]),
            seed=st.integers(0, 3),
            max_tokens=st.integers(0, 12),
            stop=st.sampled_from([None, ["\x01"], ["a", "\x80\x02"]]),
            logprobs=st.sampled_from([None, 0]),
            prompt_logprobs=st.sampled_from([None, None, 0]),
            mirostat=st.sampled_from([0, 0, 2]),
        ),
    ),
    min_size=1,
    max_size=7,
)


def whole(outputs: list[SequenceOutput]) -> Said:
    """What was said, however it was cut into deltas."""
    return (
        [token_id for out in outputs for token_id in out.token_ids],
        "".join(out.text for out in outputs),
        [entry for out in outputs for entry in (out.logprobs or []) + (out.prompt_logprobs or [])],
        outputs[-1].finish_reason,
        outputs[-1].stop_reason,
    )


def run_together(requests: list[EngineRequest], rig: Rig) -> dict[tuple[str, int], Said]:
    for request in requests:
        rig.engine.submit(request)
    rig.drain()
    return {key: whole(outputs) for key, outputs in rig.said.items()}


def run_alone(requests: list[EngineRequest]) -> dict[tuple[str, int], Said]:
    alone: dict[tuple[str, int], Said] = {}
    for request in requests:
        scheduler = make_scheduler(
            num_pages=100, max_num_batched_tokens=256, enable_prefix_caching=False
        )
        alone |= run_together([request], Rig(scheduler=scheduler))
    return alone


@settings(max_examples=60, deadline=None)
@given(
    wanted=REQUESTS,
    num_pages=st.integers(9, 30),
    chunk=st.sampled_from([8, 11, 64]),
    max_num_seqs=st.sampled_from([1, 2, 8]),
    caching=st.booleans(),
    repeats=st.integers(1, 2),
)
def test_alone_equals_batched_chunked_cached_and_preempted(
    wanted: list[tuple[str, SamplingParams]],
    num_pages: int,
    chunk: int,
    max_num_seqs: int,
    caching: bool,
    repeats: int,
) -> None:
    requests = [make_request(p, params, request_id=str(i)) for i, (p, params) in enumerate(wanted)]
    scheduler = make_scheduler(
        num_pages=num_pages,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=chunk,
        enable_prefix_caching=caching,
        eos_token_ids=frozenset({EOS}),
    )
    rig = Rig(scheduler=scheduler)
    alone = run_alone(requests)
    for _ in range(repeats):
        rig.said.clear()
        rig.times.clear()
        assert run_together(requests, rig) == alone


def test_the_preempted_case_does_preempt() -> None:
    """Lest the property above holds because nothing happens."""
    scheduler = make_scheduler(num_pages=9, max_num_batched_tokens=64)
    rig = Rig(scheduler=scheduler)
    requests = [
        make_request("ab" * 3, SamplingParams(max_tokens=24, seed=i, mirostat=2), request_id=str(i))
        for i in range(8)
    ]
    assert run_together(requests, rig) == run_alone(requests)
    assert rig.engine.stats().num_preemptions > 5
    assert sum(times.num_preemptions for times in rig.times.values()) > 5
