from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.engine import EngineConfig
from octavo.core.outputs import (
    EngineFacts,
    EngineOutputs,
    EngineStats,
    SequenceOutput,
    TokenLogprobs,
)
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.step_load import MeasuredStep, StepLoad
from octavo.engine import frames
from octavo.engine.engine_loop import AbortRequest, StopEngine
from octavo.engine.frames import (
    EngineReady,
    EngineStepped,
    FrameEncoder,
    FrameError,
    FromWorker,
    Heartbeat,
    LoadEngine,
    LoadFailed,
    LoadProgress,
    SubmitRequest,
    ToWorker,
    from_worker_decoder,
    to_worker_decoder,
)

TO_WORKER: list[ToWorker] = [
    LoadEngine(EngineConfig(model="m", max_model_len=7)),
    SubmitRequest(
        EngineRequest(
            request_id="r",
            prompt_token_ids=[1, 2, 3],
            sampling_params=SamplingParams(logit_bias={5: -1.0}, stop=["x"], seed=2**63),
            arrival_time=1.5,
        )
    ),
    AbortRequest("r"),
    StopEngine(),
]
FROM_WORKER: list[FromWorker] = [
    LoadProgress(1, 2),
    LoadFailed("ConfigError", "bad"),
    EngineReady(EngineFacts(num_pages=3, start_seconds={"load": 0.5})),
    EngineStepped(
        EngineOutputs(
            outputs=[
                SequenceOutput(
                    request_id="r",
                    text="é",
                    logprobs=[TokenLogprobs(1, float("-inf"), 2, [3], [-0.5])],
                    prompt_logprobs=[None],
                    finish_reason="stop",
                    stop_reason="x",
                )
            ],
            steps=[MeasuredStep(StepLoad(5, 2, 1, 9, 10, 13), 0.5)],
            stats=EngineStats(num_pages=3),
        )
    ),
    Heartbeat(0.25),
]


@given(st.lists(st.sampled_from(TO_WORKER), max_size=5), st.data())
def test_messages_survive_any_cut_of_the_stream(
    messages: list[ToWorker], data: st.DataObject
) -> None:
    encoder, decoder = FrameEncoder(), to_worker_decoder()
    stream = b"".join(map(encoder.encode, messages))
    received: list[ToWorker] = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        received += decoder.feed(stream[:cut])
        stream = stream[cut:]
    assert received == messages


@pytest.mark.parametrize("message", FROM_WORKER, ids=lambda message: type(message).__name__)
def test_every_message_of_the_worker_survives(message: FromWorker) -> None:
    assert from_worker_decoder().feed(FrameEncoder().encode(message)) == [message]


@given(st.binary(max_size=200))
def test_only_frame_errors_escape_from_garbage(data: bytes) -> None:
    for decoder in (to_worker_decoder(), from_worker_decoder()):
        try:
            decoder.feed(struct.pack(">I", len(data)) + data)
        except FrameError:
            continue


def test_a_length_beyond_the_limit_is_refused_before_the_bytes_come() -> None:
    with pytest.raises(FrameError, match=str(frames.MAX_FRAME_BYTES + 1)):
        to_worker_decoder().feed(struct.pack(">I", frames.MAX_FRAME_BYTES + 1))


def test_the_length_limit_itself_is_allowed() -> None:
    assert to_worker_decoder().feed(struct.pack(">I", frames.MAX_FRAME_BYTES)) == []


def test_an_oversized_message_is_not_sent() -> None:
    message = LoadFailed("x", "y" * frames.MAX_FRAME_BYTES)
    with pytest.raises(FrameError):
        FrameEncoder().encode(message)


def test_values_out_of_range_are_refused_by_the_decoder() -> None:
    body = msgspec.msgpack.encode(
        {
            "type": "submit",
            "request": {
                "request_id": "r",
                "prompt_token_ids": [1],
                "sampling_params": {"n": 0},
                "arrival_time": 0.0,
            },
        }
    )
    with pytest.raises(FrameError, match="n is 0"):
        to_worker_decoder().feed(struct.pack(">I", len(body)) + body)
