"""The offline class on a real model: vLLM's names, one answer per prompt, errors before work."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from octavo import LLM, BeamSearchParams, SamplingParams, StructuredOutputs
from octavo.entrypoints.llm import Prompt
from octavo.entrypoints.results import RequestOutput
from octavo.errors import ConfigError, FetchError, InvalidRequest, PromptTooLong, RequestError
from octavo.hub.catalogue import CATALOGUE

GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
PROMPTS = ["The capital of France is", "One, two, three,", "def add(a, b):", "Once upon a time"]


def texts(results: list[RequestOutput]) -> list[str]:
    return [result.outputs[0].text for result in results]


def test_a_question_is_answered(llm: LLM) -> None:
    question = [
        {"role": "system", "content": CATALOGUE["smollm2"].system_message},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    (result,) = llm.chat(question, SamplingParams(temperature=0.0, max_tokens=32), use_tqdm=False)
    assert "Paris" in result.outputs[0].text
    assert result.outputs[0].finish_reason == "stop"
    assert result.prompt is None


def test_a_larger_model_answers_and_continues_code(qwen15_path: Path) -> None:
    """The answer's ids are the greedy ones of transformers in float32 on the file's values (which
    takes 10 GB, so it was done once, by the oracle of `tests/models` with this model's sizes)."""
    question = [
        {"role": "user", "content": "What is the capital of France? Answer in one sentence."}
    ]
    options = {"max_model_len": 256, "max_num_seqs": 4, "kv_cache_memory": "64M"}
    with LLM(str(qwen15_path), **options) as llm:
        (answer,) = llm.chat(question, GREEDY, use_tqdm=False)
        params = SamplingParams(temperature=0.0, max_tokens=26)
        (code,) = llm.generate("def fibonacci(n):\n", params, use_tqdm=False)
    assert answer.outputs[0].token_ids == [785, 6722, 315, 9625, 374, 12095, 13, 151645]
    assert answer.outputs[0].text == "The capital of France is Paris."
    assert answer.outputs[0].finish_reason == "stop"
    # After this, "0" and "1" are a near-tie (-0.67 and -0.72) that the type of pages decides.
    assert code.outputs[0].text.startswith("    if n <= ")
    assert "\n        return " in code.outputs[0].text


def test_a_batch_gives_each_prompt_what_it_gets_alone(llm: LLM) -> None:
    together = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    alone = [llm.generate(prompt, GREEDY, use_tqdm=False)[0] for prompt in PROMPTS]
    assert texts(together) == texts(alone)
    assert [result.prompt for result in together] == PROMPTS
    for result in together:
        assert result.finished
        assert result.outputs[0].finish_reason == "length"
        assert len(result.outputs[0].token_ids) == 12


@pytest.mark.parametrize(
    "tiny", [{"temperature": 1e-4}, {"temperature": 1e-30}, {"top_p": 1e-4}, {"temperature": 1e-6}]
)
def test_tiny_values_choose_greedily(llm: LLM, tiny: dict[str, float]) -> None:
    """A6."""
    params = SamplingParams(**{"temperature": 1.0, "max_tokens": 12, "seed": 1, **tiny})  # type: ignore[arg-type]
    greedy = llm.generate(PROMPTS[0], GREEDY, use_tqdm=False)
    assert texts(llm.generate(PROMPTS[0], params, use_tqdm=False)) == texts(greedy)


def test_a_prompt_may_come_as_text_mapping_or_ids(llm: LLM) -> None:
    ids = llm.get_tokenizer().encode(PROMPTS[0], add_special_tokens=True)
    prompts: list[Prompt] = [
        PROMPTS[0],
        {"prompt": PROMPTS[0]},
        {"prompt_token_ids": ids},
        {"prompt_token_ids": ids, "prompt": "shown", "cache_salt": "mine"},
        {"prompt": PROMPTS[0], "prompt_token_ids": None, "multi_modal_data": None},
        ids,
    ]
    results = llm.generate(prompts, GREEDY, use_tqdm=False)
    assert len(set(texts(results))) == 1
    assert [result.prompt for result in results] == [
        PROMPTS[0], PROMPTS[0], None, "shown", PROMPTS[0], None,
    ]  # fmt: skip
    assert all(result.prompt_token_ids == ids for result in results)


def test_token_ids_are_one_prompt_and_lists_of_them_a_batch(llm: LLM) -> None:
    ids = llm.get_tokenizer().encode(PROMPTS[0], add_special_tokens=True)
    one = llm.generate(ids, GREEDY, use_tqdm=False)
    batch = llm.generate([ids, ids[:2]], GREEDY, use_tqdm=False)
    assert texts(one) == texts(llm.generate(PROMPTS[0], GREEDY, use_tqdm=False))
    assert [result.prompt_token_ids for result in one + batch] == [ids, ids, ids[:2]]


def test_a_cache_salt_shares_no_pages(llm: LLM) -> None:
    text = "Salted prompts are cached apart from all the others. " * 4
    salts = ("mine", "yours", "mine")
    cached = [
        llm.generate({"prompt": text, "cache_salt": salt}, GREEDY, use_tqdm=False)[0]
        for salt in salts
    ]
    assert [result.num_cached_tokens > 0 for result in cached] == [False, False, True]


def test_without_params_the_default_ones_are_used(llm: LLM) -> None:
    (result,) = llm.generate(PROMPTS[0], use_tqdm=False)
    (answer,) = result.outputs
    max_tokens = llm.get_default_sampling_params().max_tokens
    assert answer.finished()
    if answer.finish_reason == "length":
        assert len(answer.token_ids) == max_tokens
    else:  # drawn at temperature 1, without a seed: it may also end by itself
        assert answer.finish_reason == "stop"
        assert max_tokens is not None
        assert len(answer.token_ids) <= max_tokens


def test_min_tokens_keeps_the_models_own_stop_tokens_out(llm: LLM) -> None:
    question = [
        {"role": "system", "content": "Answer in plain English."},
        {"role": "user", "content": "What is the capital of France?"},
    ]

    def answer(min_tokens: int) -> list[int]:
        params = SamplingParams(temperature=0.0, max_tokens=32, min_tokens=min_tokens)
        (result,) = llm.chat(question, params, use_tqdm=False)
        return result.outputs[0].token_ids

    stopped, kept_going = answer(0), answer(32)
    assert len(stopped) < 32
    assert len(kept_going) == 32
    assert stopped[-1] not in kept_going


def test_each_prompt_may_have_its_own_params(llm: LLM) -> None:
    params = [SamplingParams(temperature=0.0, max_tokens=length) for length in (1, 2)]
    results = llm.generate(PROMPTS[:2], params, use_tqdm=False)
    assert [len(result.outputs[0].token_ids) for result in results] == [1, 2]


def test_a_seed_fixes_the_draw_and_n_answers_differ(llm: LLM) -> None:
    params = SamplingParams(n=3, seed=7, temperature=1.5, max_tokens=8)
    first, second = (llm.generate(PROMPTS[3], params, use_tqdm=False)[0] for _ in range(2))
    answers = [item.text for item in first.outputs]
    assert answers == [item.text for item in second.outputs]
    assert [item.index for item in first.outputs] == [0, 1, 2]
    assert len(set(answers)) > 1


def test_logprobs_are_returned_when_asked_for(llm: LLM) -> None:
    params = SamplingParams(temperature=0.0, max_tokens=3, logprobs=2, prompt_logprobs=1)
    (result,) = llm.generate(PROMPTS[0], params, use_tqdm=False)
    answer = result.outputs[0]
    assert answer.logprobs is not None
    assert answer.cumulative_logprob is not None
    for token_id, position in zip(answer.token_ids, answer.logprobs, strict=True):
        assert position[token_id].rank == 1
        assert position[token_id].logprob <= 0.0
        assert len(position) == 2
    chosen = [
        position[token_id].logprob
        for token_id, position in zip(answer.token_ids, answer.logprobs, strict=True)
    ]
    assert answer.cumulative_logprob == pytest.approx(sum(chosen))
    assert result.prompt_logprobs is not None
    assert len(result.prompt_logprobs) == len(result.prompt_token_ids)
    assert result.prompt_logprobs[0] is None
    assert all(result.prompt_logprobs[1:])


def test_a_stop_string_ends_the_answer(llm: LLM) -> None:
    whole = llm.generate(PROMPTS[1], GREEDY, use_tqdm=False)[0].outputs[0].text
    stop = whole[4:7]
    params = SamplingParams(temperature=0.0, max_tokens=12, stop=stop)
    answer = llm.generate(PROMPTS[1], params, use_tqdm=False)[0].outputs[0]
    assert answer.text == whole[: whole.index(stop)]
    assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)


def test_metrics_and_cached_tokens_are_told(llm: LLM) -> None:
    prompt = "A sheet of paper folded three times makes an octavo, " * 4
    llm.generate(prompt, GREEDY, use_tqdm=False)
    (again,) = llm.generate(prompt, GREEDY, use_tqdm=False)
    assert again.num_cached_tokens >= 16
    assert again.metrics is not None
    assert again.metrics.num_generation_tokens == 12
    stats = llm.get_metrics()
    assert (stats.num_running, stats.num_waiting, stats.num_used_pages) == (0, 0, 0)


def test_several_conversations_are_a_batch(llm: LLM) -> None:
    conversations = [[{"role": "user", "content": text}] for text in ("Hi", "Name a colour.")]
    assert len(llm.chat(conversations, GREEDY, use_tqdm=False)) == 2


def test_an_empty_batch_has_no_results(llm: LLM) -> None:
    assert llm.generate([], GREEDY) == []


@pytest.mark.parametrize(
    ("prompts", "error"),
    [
        (["fine", {"prompt_token_ids": [10**6]}], InvalidRequest),
        (["fine", {"text": "x"}], InvalidRequest),
        (["fine", 3], InvalidRequest),
        (["fine", {"prompt": "x", "multi_modal_data": {"image": 1}}], InvalidRequest),
        (["fine", {}], InvalidRequest),
        (["fine", []], InvalidRequest),
        ([5, True], InvalidRequest),
        (["fine", {"prompt_token_ids": [5] * 2000}], PromptTooLong),
    ],
)
def test_one_bad_prompt_is_refused_before_any_runs(
    llm: LLM, prompts: list[str], error: type[RequestError]
) -> None:
    steps = llm.get_metrics().num_steps
    with pytest.raises(error):
        llm.generate(prompts, GREEDY, use_tqdm=False)
    assert llm.get_metrics().num_steps == steps
    assert len(texts(llm.generate("fine", GREEDY, use_tqdm=False))) == 1


def test_params_must_match_the_prompts_in_number(llm: LLM) -> None:
    with pytest.raises(InvalidRequest, match="1 sampling_params for 2 prompts"):
        llm.generate(PROMPTS[:2], [GREEDY], use_tqdm=False)


def test_an_unknown_option_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match="'max_model_length' is not an option; did you mean"):
        LLM("smollm2", max_model_length=3)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(FetchError, match="did you mean smollm2"):
        LLM("smollm")


def test_beam_search_returns_whole_texts_best_first(llm: LLM) -> None:
    params = BeamSearchParams(beam_width=4, max_tokens=8)
    prompts: list[Prompt] = ["The capital of France is", [338, 258]]
    first, second = llm.beam_search(prompts, params)
    logprobs = [sequence.cum_logprob for sequence in first.sequences]
    assert logprobs == sorted(logprobs, reverse=True)
    assert all(one.text.startswith("The capital of France is") for one in first.sequences)
    assert "Paris" in first.sequences[0].text
    for sequence in second.sequences:
        assert sequence.tokens[:2] == [338, 258]
        assert len(sequence.tokens) == 10
        assert sequence.finish_reason == "length"


def test_a_beam_is_worth_its_own_log_probabilities(llm: LLM) -> None:
    prompt = "The capital of France is"
    params = BeamSearchParams(beam_width=2, max_tokens=4, ignore_eos=True)
    (found,) = llm.beam_search(prompt, params)
    for beam in found.sequences:
        asked = SamplingParams(max_tokens=0, prompt_logprobs=0)
        (scored,) = llm.generate([beam.tokens], asked, use_tqdm=False)
        assert scored.prompt_logprobs is not None
        entries = [entry for entry in scored.prompt_logprobs[-4:] if entry is not None]
        total = sum(next(iter(entry.values())).logprob for entry in entries)
        assert beam.cum_logprob == pytest.approx(total, abs=1e-6)


def test_beams_are_not_drawn(llm: LLM) -> None:
    with pytest.raises(RequestError, match=r"with use_beam_search 0\.0 or 1\.0 is"):
        llm.beam_search("x", BeamSearchParams(beam_width=2, max_tokens=4, temperature=0.7))


def test_a_prefix_cache_survives_a_restart_until_it_is_reset(
    smollm2_path: Path, tmp_path: Path
) -> None:
    options = {"max_model_len": 256, "max_num_seqs": 4, "prefix_cache_dir": str(tmp_path)}
    prompt = "The list of the numbers: " + ", ".join(map(str, range(40)))

    def ask(llm: LLM) -> tuple[list[int], int]:
        (result,) = llm.generate(prompt, GREEDY, use_tqdm=False)
        return result.outputs[0].token_ids, result.num_cached_tokens

    with LLM(str(smollm2_path), **options) as llm:
        expected, num_cached = ask(llm)
        assert num_cached == 0
    (file,) = tmp_path.iterdir()
    assert file.name == f"{smollm2_path.name}.prefixes"
    with LLM(str(smollm2_path), **options) as llm:
        token_ids, num_cached = ask(llm)
        assert token_ids == expected
        assert num_cached >= 96
        assert llm.reset_prefix_cache()
        assert ask(llm) == (expected, 0)


PERSON: dict[str, object] = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "maxLength": 12},
        "nationality": {"enum": ["French", "German"]},
        "age": {"type": "integer", "minimum": 1, "maximum": 99},
    },
    "required": ["first_name", "nationality", "age"],
    "additionalProperties": False,
}


def test_answers_have_the_form_that_is_asked_for(llm: LLM) -> None:
    """Alone and in a batch with others the same; drawn or greedy."""
    outputs = StructuredOutputs(json=PERSON)
    params = [
        SamplingParams(structured_outputs=outputs, seed=seed, max_tokens=100, temperature=t)
        for seed, t in enumerate([0.0, 1.0, 1.5, 2.0])
    ]
    alone = [llm.generate("Describe a person.", one, use_tqdm=False)[0] for one in params]
    for result in alone:
        jsonschema.validate(json.loads(result.outputs[0].text), PERSON)
        assert result.outputs[0].finish_reason == "stop"
    prompts = ["Describe a person."] * len(params) + PROMPTS
    batch = llm.generate(prompts, [*params, *([GREEDY] * len(PROMPTS))], use_tqdm=False)
    assert texts(batch[: len(params)]) == texts(alone)
    assert texts(batch[len(params) :]) == texts(llm.generate(PROMPTS, GREEDY, use_tqdm=False))


def test_the_better_of_two_forms_is_chosen(llm: LLM) -> None:
    params = SamplingParams(
        temperature=0.0, structured_outputs=StructuredOutputs(choice=["Berlin", "Paris"])
    )
    (result,) = llm.generate("The capital of France is ", params, use_tqdm=False)
    assert result.outputs[0].text == "Paris"


def test_a_form_that_cannot_be_kept_is_refused_before_anything_runs(llm: LLM) -> None:
    bad: dict[str, object] = {"properties": {"a": {"enum": []}}}
    params = SamplingParams(structured_outputs=StructuredOutputs(json=bad))
    with pytest.raises(InvalidRequest, match="at /properties/a/enum"):
        llm.generate("a", params, use_tqdm=False)
