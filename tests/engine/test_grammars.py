"""Answers that keep to a grammar, on the context-hash model: whatever else runs, whoever goes."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable

import jsonschema
import pytest

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.structured_outputs import StructuredOutputs
from octavo.engine.engine import Engine
from octavo.engine.grammars import LoadVocabulary
from octavo.errors import InvalidRequest
from octavo.structured.grammar_text import grammar_text
from octavo.structured.vocabulary import GrammarVocabulary
from tests.fakes import (
    BYTE_VOCAB,
    EOS,
    ByteTokenizer,
    joined_ids,
    joined_text,
    make_request,
    make_scheduler,
)
from tests.masked_runner import MaskedRunner
from tests.structured.vocabularies import byte_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{1,5}$"},
        "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
    },
    "required": ["name", "ok"],
    "additionalProperties": False,
}
PERSON = StructuredOutputs(json=json.dumps(SCHEMA), disable_any_whitespace=True)
LETTERS = StructuredOutputs(regex="abc(d|e)fgh")
Key = tuple[str, int]


class Rig:
    def __init__(
        self,
        *,
        obeys: bool = True,
        num_pages: int = 64,
        swap_slots: int = 0,
        load_vocabulary: LoadVocabulary = byte_vocabulary,
    ) -> None:
        self.scheduler = make_scheduler(
            num_pages=num_pages, eos_token_ids=frozenset({EOS}), num_swap_slots=swap_slots
        )
        kv = self.scheduler.kv
        self.runner = MaskedRunner(kv.num_pages, 4, obeys=obeys, load_vocabulary=load_vocabulary)
        self.engine = Engine(
            self.scheduler, self.runner, ByteTokenizer(), grammars=self.runner.grammars
        )
        self.said: dict[Key, list[SequenceOutput]] = {}

    def step(self) -> None:
        for output in self.engine.step().outputs:
            key = (output.request_id, output.index)
            history = self.said.setdefault(key, [])
            assert not history or history[-1].finish_reason is None, "said more after the end"
            history.append(output)

    def run(self, *requests: EngineRequest) -> dict[Key, list[SequenceOutput]]:
        for request in requests:
            self.engine.submit(request)
        while self.engine.has_work:
            self.step()
        assert self.engine.stats().num_used_pages == 0
        assert not self.runner.grammars._matchers
        return self.said


def structured(
    outputs: StructuredOutputs, *, name: str = "r", prompt: str = "say", **fields: object
) -> EngineRequest:
    params = {"temperature": 1.0, "max_tokens": 100, "seed": 1, **fields}
    request = make_request(
        prompt,
        SamplingParams(structured_outputs=outputs, **params),  # type: ignore[arg-type]
        request_id=name,
    )
    return EngineRequest(
        request_id=name,
        prompt_token_ids=request.prompt_token_ids,
        sampling_params=request.sampling_params,
        arrival_time=request.arrival_time,
        grammar=grammar_text(outputs),
    )


def free(name: str) -> EngineRequest:
    params = SamplingParams(max_tokens=20, seed=5, temperature=1.0)
    return make_request("talk", params, request_id=name)


def reason(outputs: list[SequenceOutput]) -> str | None:
    return outputs[-1].finish_reason


def test_answers_obey_the_schema_and_end_by_themselves() -> None:
    for seed in range(30):
        said = Rig().run(structured(PERSON, seed=seed, n=2))
        for outputs in said.values():
            assert reason(outputs) == "stop"
            assert outputs[-1].stop_reason is None
            jsonschema.validate(json.loads(joined_text(outputs)), SCHEMA)
            assert joined_text(outputs).encode() == bytes(joined_ids(outputs))


def test_the_same_answer_alone_and_in_a_crowd_that_is_short_of_pages() -> None:
    requests = [structured(PERSON, name=f"s{i}", prompt=f"say {i}", seed=i) for i in range(6)]
    alone: dict[Key, list[int]] = {}
    for request in requests:
        alone |= {key: joined_ids(outputs) for key, outputs in Rig().run(request).items()}
    for swap_slots in (0, 8):
        rig = Rig(num_pages=18, swap_slots=swap_slots)
        crowd = rig.run(*itertools.chain(*zip(requests, map(free, "abcdef"), strict=True)))
        assert rig.scheduler.num_preemptions > 0
        assert {key: joined_ids(crowd[key]) for key in alone} == alone
    others = Rig().run(*map(free, "abcdef"))
    assert {key: joined_ids(crowd[key]) for key in others} == {
        key: joined_ids(outputs) for key, outputs in others.items()
    }


def test_forced_tokens_take_no_step_of_their_own() -> None:
    rig = Rig()
    said = rig.run(structured(LETTERS))
    assert joined_text(said["r", 0]) in {"abcdfgh", "abcefgh"}
    assert reason(said["r", 0]) == "stop"
    # The prompt and "a"; "bc" and "d" or "e"; the rest follows at once.
    assert [step.num_tokens for step in rig.runner.steps] == [3, 3]
    assert rig.engine.stats().num_generation_tokens == 7


def test_with_logprobs_every_token_is_drawn() -> None:
    rig = Rig()
    said = rig.run(structured(LETTERS, logprobs=0))
    logprobs = [entry for output in said["r", 0] for entry in output.logprobs or []]
    assert len(logprobs) == len(joined_ids(said["r", 0])) == 7
    assert len(rig.runner.steps) == 7


def test_the_best_of_several_is_structured() -> None:
    said = Rig().run(structured(PERSON, n=2, best_of=4))
    assert set(said) == {("r", 0), ("r", 1)}
    for outputs in said.values():
        assert reason(outputs) == "stop"
        jsonschema.validate(json.loads(joined_text(outputs)), SCHEMA)


def test_who_preloads_pays_for_the_vocabulary_before_the_first_grammar() -> None:
    threads: list[str] = []

    def load() -> GrammarVocabulary:
        threads.append(threading.current_thread().name)
        return byte_vocabulary()

    rig = Rig(load_vocabulary=load)
    rig.runner.grammars.preload()
    assert len(threads) == 1
    rig.run(structured(LETTERS))
    rig.run(structured(LETTERS, name="s"))
    assert len(threads) == 1
    assert threads[0].startswith("grammar-compiler")


@pytest.mark.parametrize("max_tokens", range(1, 7))
def test_a_limit_of_length_cuts_forced_tokens(max_tokens: int) -> None:
    said = Rig().run(structured(LETTERS, max_tokens=max_tokens))
    assert len(joined_ids(said["r", 0])) == max_tokens
    assert reason(said["r", 0]) == "length"


def test_a_stop_string_ends_an_answer_within_forced_tokens() -> None:
    said = Rig().run(structured(LETTERS, stop=["fg"]))
    assert joined_text(said["r", 0]) in {"abcd", "abce"}
    assert (reason(said["r", 0]), said["r", 0][-1].stop_reason) == ("stop", "fg")


def test_a_token_outside_the_grammar_ends_its_sequence_only() -> None:
    rig = Rig(obeys=False)
    said = rig.run(structured(StructuredOutputs(regex="[0-9]{50}")), free("other"))
    assert reason(said["r", 0]) == "error"
    assert "structured_outputs" in (said["r", 0][-1].error or "")
    assert reason(said["other", 0]) == "length"


@pytest.mark.parametrize("max_tokens", [1, 100])
def test_a_vocabulary_that_cannot_be_loaded_is_the_error_of_who_needs_it(max_tokens: int) -> None:
    def fail() -> GrammarVocabulary:
        raise OSError("the file is gone")

    rig = Rig(load_vocabulary=fail)
    said = rig.run(structured(LETTERS, max_tokens=max_tokens, n=2), free("other"))
    assert [reason(said["r", i]) for i in range(2)] == ["error", "error"]
    assert joined_ids(said["r", 0]) == []
    assert reason(said["other", 0]) == "length"


@pytest.mark.parametrize("num_steps", range(5))
def test_an_abort_leaves_nothing(num_steps: int) -> None:
    rig = Rig()
    rig.engine.submit(structured(StructuredOutputs(regex="[a-z]{60}"), n=3))
    for _ in range(num_steps):
        rig.step()
    rig.engine.abort("r")
    said = rig.run(free("other"))
    assert all(reason(said["r", index]) == "abort" for index in range(3))


def without_grammars(rig: Rig) -> EngineRequest:
    rig.engine._grammars = None
    return structured(LETTERS)


@pytest.mark.parametrize(
    "spoil",
    [
        without_grammars,
        lambda _: make_request("a", SamplingParams(structured_outputs=LETTERS)),
    ],
    ids=["engine without grammars", "request without its grammar"],
)
def test_what_cannot_be_kept_is_refused(spoil: Callable[[Rig], EngineRequest]) -> None:
    rig = Rig()
    request = spoil(rig)
    with pytest.raises(InvalidRequest, match="structured_outputs need a grammar"):
        rig.engine.submit(request)
    assert not rig.engine.has_work


def test_a_stop_token_ends_a_text_that_may_end() -> None:
    """Where the grammar could go on, the model's end token is one of the allowed ones."""
    lengths = set()
    for seed in range(40):
        said = Rig().run(structured(StructuredOutputs(regex="(ab)*"), seed=seed, max_tokens=40))
        text = joined_text(said["r", 0])
        assert text == "ab" * (len(text) // 2)
        assert reason(said["r", 0]) == "stop"
        assert joined_ids(said["r", 0])[-1] == EOS > BYTE_VOCAB
        lengths.add(len(text))
    assert len(lengths) > 2


def test_others_run_while_a_grammar_is_compiled_and_an_abort_does_not_wait() -> None:
    gate = threading.Event()

    def load() -> GrammarVocabulary:
        assert gate.wait(30)
        return byte_vocabulary()

    rig = Rig(load_vocabulary=load)
    for request in (structured(LETTERS, n=2), structured(LETTERS, name="gone"), free("other")):
        rig.engine.submit(request)
    while ("other", 0) not in rig.said or reason(rig.said["other", 0]) is None:
        rig.step()
    assert set(rig.said) == {("other", 0)}
    rig.engine.abort("gone")
    rig.step()
    assert reason(rig.said["gone", 0]) == "abort"
    assert rig.engine.has_work
    gate.set()
    said = rig.run()
    assert [reason(said["r", index]) for index in range(2)] == ["stop", "stop"]
