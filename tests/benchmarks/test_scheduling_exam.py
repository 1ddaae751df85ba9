"""What the exams of scheduling policies send, and how they count what does not come back."""

from __future__ import annotations

import json

import pytest

from benchmarks.scheduling.exam import Stream, client, latencies, row, ttfts
from benchmarks.scheduling.fairness import tokens_per_second
from benchmarks.scheduling.orders import streams, without_priority
from octavo.bench.load import Outcome
from octavo.bench.workload import LoadRequest


def test_a_clients_fields_go_into_the_body_and_its_tenant_into_the_key() -> None:
    sender = client("http://127.0.0.1:1", "calm", {"priority": -1})
    body = json.loads(sender.body(LoadRequest("the", num_prompt_tokens=1, max_tokens=7)))
    assert body["priority"] == -1
    assert body["max_tokens"] == 7
    assert body["model"] is None
    assert sender.headers["Authorization"] == "Bearer calm"


def test_who_gets_no_token_or_no_end_has_waited_forever() -> None:
    answered = Outcome(5, 2, [0.1, 0.2], 0.3)
    cut = Outcome(5, 0, [0.2], 0.3, error="expired")
    never = Outcome(5, error="refused")
    assert ttfts([never, cut, answered]) == [0.1, 0.2, float("inf")]
    assert latencies([never, cut, answered]) == [0.3, float("inf"), float("inf")]
    assert row("all", ttfts([never, cut, answered])).split() == ["all", "3", "-", "200", "-", "-"]


def test_streams_of_different_names_say_different_things() -> None:
    for exam in ("priority", "sjf", "deadline"):
        first, second = streams(exam, rate=20, seconds=1)
        assert first.requests()[0].prompt != second.requests()[0].prompt
        assert first.requests() == first.requests()


def test_fcfs_is_sent_the_same_without_priorities() -> None:
    urgent = streams("priority", rate=20, seconds=1)[0]
    plain = without_priority(urgent)
    assert urgent.fields == {"priority": -1}
    assert plain.fields == {}
    assert isinstance(plain, Stream)
    assert plain.requests() == urgent.requests()


def test_what_a_stream_asks_for_are_the_tokens_of_its_prompts_and_answers() -> None:
    stream = Stream(name="a", rate=2, seconds=10, input_lengths="100", output_lengths="16")
    assert tokens_per_second(stream) == pytest.approx(2 * 116)
