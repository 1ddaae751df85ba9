"""What a client sends is checked against vocabulary and context before any work is done for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from octavo.core.pooling import PoolingParams
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.input_processor import InputProcessor
from octavo.errors import InvalidRequest, PromptTooLong, RequestError
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from tests.fakes import BOS, HIDDEN_SIZE, POOLER, ByteTokenizer

CONTEXT = 32
VOCAB = ByteTokenizer.vocab_size
ALLOWED = "an integer from 0 to 257 is allowed"


def processor(*, bos_token_id: int | None = BOS) -> InputProcessor:
    tokenizer = cast(Tokenizer, ByteTokenizer(bos_token_id=bos_token_id))
    return InputProcessor(
        tokenizer,
        None,
        vocab_size=VOCAB,
        max_model_len=CONTEXT,
        max_num_seqs=4,
        pooler=POOLER,
    )


def complete(prompt: object, **wishes: object) -> EngineRequest:
    params = SamplingParams(**{"max_tokens": 4, **wishes})  # type: ignore[arg-type]
    return processor().completion(prompt, params)  # type: ignore[arg-type]


def refusal(call: Callable[[], object]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        call()
    return caught.value


def test_a_text_becomes_ids_behind_one_bos() -> None:
    assert complete("ab").prompt_token_ids == [BOS, *b"ab"]


def test_a_text_that_spells_its_bos_gets_no_second_one() -> None:
    """T4."""
    assert complete("<s>ab").prompt_token_ids == [BOS, *b"ab"]


def test_ids_are_taken_as_they_are() -> None:
    assert complete([5, 257, 0]).prompt_token_ids == [5, 257, 0]


def test_every_request_gets_an_id_of_ours() -> None:
    """A12."""
    front = processor()
    ids = {front.completion("a", SamplingParams()).request_id for _ in range(50)}
    assert len(ids) == 50


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ([-1], "prompt[0] is -1"),
        ([1, VOCAB], f"prompt[1] is {VOCAB}"),
        ([2**63 - 1], "prompt[0] is 9223372036854775807"),
        ([10**5000], "prompt[0] is an integer of 16610 bits"),
        ([1.5], "prompt[0] is 1.5"),
        ([True], "prompt[0] is True"),
        (["a"], "prompt[0] is 'a'"),
        ([None], "prompt[0] is None"),
        ([[1]], "prompt[0] is [1]"),
    ],
)
def test_ids_outside_the_vocabulary_or_no_integers_are_refused(
    prompt: list[object], shown: str
) -> None:
    """A3."""
    error = refusal(lambda: complete(prompt))
    assert (type(error), error.param) == (InvalidRequest, "prompt")
    assert error.message == f"{shown}; {ALLOWED}"


def test_an_empty_text_is_the_bos_or_refused_without_one() -> None:
    """A4."""
    assert complete("").prompt_token_ids == [BOS]
    error = refusal(lambda: processor(bos_token_id=None).completion("", SamplingParams()))
    assert (type(error), error.param) == (InvalidRequest, "prompt")


def test_empty_ids_are_refused() -> None:
    """A4."""
    error = refusal(lambda: complete([]))
    assert (type(error), error.param) == (InvalidRequest, "prompt")
    assert "no tokens" in error.message


@pytest.mark.parametrize("name", ["stop_token_ids", "logit_bias", "allowed_token_ids"])
@pytest.mark.parametrize("min_tokens", [0, 1])
def test_wished_ids_outside_the_vocabulary_are_refused_by_name(name: str, min_tokens: int) -> None:
    """A1, A2."""
    ids = [1, VOCAB + 1]
    good = {"logit_bias": {VOCAB - 1: -100.0}}.get(name, [VOCAB - 1])
    bad = {"logit_bias": dict.fromkeys(ids, 0.0)}.get(name, ids)
    complete("a", min_tokens=min_tokens, **{name: good})
    error = refusal(lambda: complete("a", min_tokens=min_tokens, **{name: bad}))
    assert (type(error), error.param) == (InvalidRequest, name)
    assert error.message == f"{name} has the token id {VOCAB + 1}; {ALLOWED}"


@pytest.mark.parametrize("num_prompt", [1, 20, 31])
def test_prompt_and_answer_may_fill_the_context_exactly(num_prompt: int) -> None:
    """A10."""
    prompt = [1] * num_prompt
    assert complete(prompt, max_tokens=CONTEXT - num_prompt).sampling_params.max_tokens
    error = refusal(lambda: complete(prompt, max_tokens=CONTEXT - num_prompt + 1))
    assert (type(error), error.param) == (PromptTooLong, "prompt")
    assert error.code == "context_length_exceeded"
    assert f"has {num_prompt} tokens and max_tokens is {CONTEXT - num_prompt + 1};" in error.message
    assert f"this model's maximum context length is {CONTEXT} tokens" in error.message


def test_a_prompt_that_fills_the_context_alone_can_only_be_read() -> None:
    """A10, A5."""
    assert complete([1] * CONTEXT, max_tokens=0).sampling_params.max_tokens == 0
    for max_tokens in (1, None):
        error = refusal(lambda m=max_tokens: complete([1] * CONTEXT, max_tokens=m))  # type: ignore[misc]
        assert type(error) is PromptTooLong
    assert type(refusal(lambda: complete([1] * (CONTEXT + 1), max_tokens=0))) is PromptTooLong


def test_without_max_tokens_the_rest_of_the_context_is_meant() -> None:
    assert complete([1] * 10, max_tokens=None).sampling_params.max_tokens == CONTEXT - 10


def test_min_tokens_must_fit_the_rest_of_the_context_too() -> None:
    error = refusal(lambda: complete([1] * 10, max_tokens=None, min_tokens=CONTEXT))
    assert (type(error), error.param) == (InvalidRequest, "min_tokens")


def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenised() -> None:
    front = processor()
    error = refusal(lambda: front.completion("x" * 100_000, SamplingParams()))
    assert (type(error), error.param) == (PromptTooLong, "prompt")
    assert "has 100000 bytes" in error.message
    assert cast(ByteTokenizer, front.tokenizer).num_encoded_chars == 0


def test_half_a_surrogate_pair_is_refused() -> None:
    error = refusal(lambda: complete("a\ud800"))
    assert (type(error), error.param) == (InvalidRequest, "prompt")


def test_stop_strings_without_detokenisation_are_refused() -> None:
    error = refusal(lambda: complete("a", stop="x", detokenize=False))
    assert (type(error), error.param) == (InvalidRequest, "stop")


@pytest.mark.parametrize(("num_rows", "num_ids"), [(VOCAB - 1, VOCAB - 1), (VOCAB + 9, VOCAB)])
def test_an_id_needs_both_a_row_and_a_spelling(num_rows: int, num_ids: int) -> None:
    tokenizer = cast(Tokenizer, ByteTokenizer())
    front = InputProcessor(
        tokenizer,
        None,
        vocab_size=num_rows,
        max_model_len=CONTEXT,
        max_num_seqs=4,
        pooler=POOLER,
    )
    front.completion([num_ids - 1], SamplingParams())
    assert refusal(lambda: front.completion([num_ids], SamplingParams())).param == "prompt"


@pytest.mark.parametrize(("given", "name"), [({"n": 5}, "n"), ({"beam_width": 5}, "beam_width")])
def test_more_beams_than_can_run_are_refused(given: dict[str, Any], name: str) -> None:
    processor().completion("a", SamplingParams(use_beam_search=True, n=4))
    params = SamplingParams(use_beam_search=True, **given)
    error = refusal(lambda: processor().completion("a", params))
    assert error.param == name
    assert error.message == f"{name} is 5 with use_beam_search; at most max_num_seqs, 4, is allowed"


def test_the_salt_reaches_the_request() -> None:
    assert processor().completion("a", SamplingParams(), cache_salt="t").cache_salt == "t"


def test_a_model_without_a_template_cannot_chat() -> None:
    error = refusal(lambda: processor().chat([{"role": "user", "content": "a"}], SamplingParams()))
    assert error.message == "this model has no chat template"


@pytest.fixture(scope="module")
def chatty(smollm2_path: Path) -> InputProcessor:
    """The input side of a real model with a chat template."""
    with GGUFFile.open(smollm2_path) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata)
        template = ChatTemplate.from_gguf(file.metadata)
    return InputProcessor(
        tokenizer,
        template,
        vocab_size=tokenizer.vocab_size,
        max_model_len=CONTEXT * 4,
        max_num_seqs=4,
        pooler=POOLER,
    )


@pytest.mark.real_model
def test_messages_become_ids_and_the_rest_of_the_context_is_for_the_answer(
    chatty: InputProcessor,
) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    request = chatty.chat(messages, SamplingParams(max_tokens=None))
    ids = request.prompt_token_ids
    shown = chatty.tokenizer.decode(ids, skip_special_tokens=False)
    assert shown.endswith("capital of France?<|im_end|>\n<|im_start|>assistant\n")
    assert request.sampling_params.max_tokens == CONTEXT * 4 - len(ids)


@pytest.mark.real_model
@pytest.mark.parametrize("num_words", [200, 200_000])
def test_messages_that_do_not_fit_are_refused(chatty: InputProcessor, num_words: int) -> None:
    messages = [{"role": "user", "content": "word " * num_words}]
    error = refusal(lambda: chatty.chat(messages, SamplingParams(max_tokens=None)))
    assert (type(error), error.param) == (PromptTooLong, "messages")


@pytest.mark.real_model
def test_no_messages_are_refused(chatty: InputProcessor) -> None:
    error = refusal(lambda: chatty.chat([], SamplingParams()))
    assert (type(error), error.param) == (InvalidRequest, "messages")


@pytest.mark.real_model
def test_half_a_surrogate_pair_in_a_message_is_refused(chatty: InputProcessor) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a\ud800"}]}]
    assert refusal(lambda: chatty.chat(messages, SamplingParams())).param == "messages"


def test_texts_of_the_parameters_become_ids() -> None:
    request = complete("a", bad_words=["xy"], dry_multiplier=1.0, dry_sequence_breakers=["b", "a"])
    assert request.bad_word_ids == [[*b"xy"]]
    assert request.dry_breaker_ids == [[*b"a"], [*b"b"]]


def test_breakers_are_looked_for_only_where_dry_is_asked_for() -> None:
    assert complete("a").dry_breaker_ids == []
    assert complete("a", dry_multiplier=1.0).dry_breaker_ids == [[i] for i in sorted(b'\n:"*')]


def test_a_text_to_embed_is_data_and_wants_no_token() -> None:
    request = processor().embedding("<s>ab", PoolingParams(dimensions=3))
    assert request.prompt_token_ids == [BOS, *b"<s>ab"]
    assert request.sampling_params.max_tokens == 0
    assert request.pooling == POOLER.pooling(PoolingParams(dimensions=3))


def test_a_prompt_to_embed_may_fill_the_context_and_be_cut_to_it() -> None:
    whole = [*b"a" * CONTEXT]
    assert processor().embedding(whole, PoolingParams()).prompt_token_ids == whole
    for prompt in ([*whole, 1], "a" * CONTEXT):
        error = refusal(lambda: processor().embedding(prompt, PoolingParams()))  # noqa: B023
        assert (type(error), error.param) == (PromptTooLong, "input")
    cut = processor().embedding([*whole, 1], PoolingParams(truncate_prompt_tokens=-1))
    assert cut.prompt_token_ids == [*whole[1:], 1]
    last = processor().embedding("abcd", PoolingParams(truncate_prompt_tokens=2))
    assert last.prompt_token_ids == [*b"cd"]


@pytest.mark.parametrize("prompt", [[], [-1], [VOCAB], [True], ["a"]])
def test_ids_to_embed_are_checked(prompt: list[Any]) -> None:
    error = refusal(lambda: processor().embedding(prompt, PoolingParams(), param="documents"))
    assert error.param == "documents"


def test_more_dimensions_than_the_model_has_are_refused() -> None:
    processor().embedding("a", PoolingParams(dimensions=HIDDEN_SIZE))
    params = PoolingParams(dimensions=HIDDEN_SIZE + 1)
    error = refusal(lambda: processor().embedding("a", params))
    assert error.message == f"dimensions is 9; an integer from 1 to {HIDDEN_SIZE} is allowed"
