"""Beam search and `best_of` over HTTP, with vLLM's names."""

from __future__ import annotations

import pytest

from octavo.core.sampling_params import SamplingParams
from tests.engine.beam_rules import found_by_rules
from tests.fakes import BOS, make_request
from tests.server.harness import MAX_NUM_SEQS, Json, Server, error_of, run

BEAMS: Json = {"use_beam_search": True, "n": 3, "max_tokens": 9, "length_penalty": 0.5}


def expected_texts(prompt: str, **params: Json) -> list[str]:
    request = make_request([BOS, *prompt.encode()], SamplingParams(**params))
    answers = found_by_rules(request)
    return [bytes(answer.beam.token_ids).decode(errors="replace") for answer in answers]


def test_n_is_the_beam_width_and_the_best_comes_first() -> None:
    async def scenario(server: Server) -> None:
        answer = (await server.complete(["hi", "yo"], **BEAMS)).json()
        texts = [choice["text"] for choice in answer["choices"]]
        assert texts == expected_texts("hi", **BEAMS) + expected_texts("yo", **BEAMS)
        assert [choice["index"] for choice in answer["choices"]] == list(range(6))
        assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
        assert answer["usage"]["completion_tokens"] == 6 * 9
        assert answer["usage"]["prompt_tokens"] == 6

    run(scenario)


def test_fewer_answers_than_beams() -> None:
    async def scenario(server: Server) -> None:
        body = {**BEAMS, "n": 1, "beam_width": 4, "early_stopping": "never"}
        choices = (await server.complete("hi", **body)).json()["choices"]
        assert [choice["text"] for choice in choices] == expected_texts("hi", **body)

    run(scenario)


def test_beams_can_chat() -> None:
    async def scenario(server: Server) -> None:
        answer = (await server.chat("hi", **BEAMS)).json()
        texts = [choice["message"]["content"] for choice in answer["choices"]]
        assert len(set(texts)) == 3
        assert server.num_finished("length") == 3

    run(scenario)


def test_the_best_of_several_are_the_answers() -> None:
    async def scenario(server: Server) -> None:
        fields = {"seed": 4, "max_tokens": 5}
        every = (await server.complete("hi", n=5, **fields)).json()["choices"]
        best = (await server.complete("hi", n=2, best_of=5, **fields)).json()["choices"]
        assert {choice["text"] for choice in best} < {choice["text"] for choice in every}
        assert [choice["index"] for choice in best] == [0, 1]
        assert [choice["logprobs"] for choice in best] == [None, None]

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"use_beam_search": True, "n": 2, "stream": True}, "use_beam_search"),
        ({"n": 1, "best_of": 2, "stream": True}, "best_of"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 21}, "best_of"),
        ({"use_beam_search": True, "n": 3, "beam_width": 2}, "beam_width"),
        ({"use_beam_search": True, "n": MAX_NUM_SEQS + 1}, "n"),
        ({"use_beam_search": True, "beam_width": MAX_NUM_SEQS + 1}, "beam_width"),
        ({"use_beam_search": True, "temperature": 0.5}, "temperature"),
        ({"use_beam_search": True, "stop": "x"}, "stop"),
        ({"use_beam_search": True, "stop_regex": "x"}, "stop_regex"),
        ({"use_beam_search": True, "early_stopping": "soon"}, "early_stopping"),
        ({"use_beam_search": True, "best_of": 3}, "best_of"),
        ({"use_beam_search": "yes"}, "use_beam_search"),
        ({"length_penalty": 2.0}, "length_penalty"),
        ({"early_stopping": True}, "early_stopping"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_name(fields: Json, param: str) -> None:
    async def scenario(server: Server) -> None:
        response = await server.complete("hi", **fields)
        assert response.status_code == 400
        assert error_of(response)["param"] == param
        await server.check_canary()

    run(scenario)


def test_spelled_out_defaults_ask_for_nothing() -> None:
    async def scenario(server: Server) -> None:
        neutral = {"use_beam_search": False, "length_penalty": 1, "best_of": None}
        for fields in (neutral, {"early_stopping": False, "beam_width": None, "best_of": 1}):
            response = await server.complete("hi", max_tokens=1, **fields)
            assert response.status_code == 200, response.text

    run(scenario)
