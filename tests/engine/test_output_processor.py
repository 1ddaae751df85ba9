"""What a client sees of tokens: whole characters, no part of a stop string, aligned logprobs."""

from __future__ import annotations

import itertools

import pytest

from octavo.core.sampling_params import SamplingParams
from octavo.engine.output_processor import TextStream
from octavo.tokenization.tokenizer import Tokenizer
from tests.engine.drive_engine import Rig, saying
from tests.fakes import EOS, joined_text, make_request, make_scheduler
from tests.tokenization.small_models import sentencepiece_metadata

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def wishes(**values: object) -> SamplingParams:
    return SamplingParams(**{"temperature": 0.0, "max_tokens": 64, **values})  # type: ignore[arg-type]


def run(answer: str | list[int], **values: object) -> Rig:
    rig = Rig(choose=saying(answer))
    rig.answer(make_request("?", wishes(**values)))
    return rig


def test_the_deltas_join_to_the_whole_answer_and_eos_is_an_id_but_no_text() -> None:
    rig = run("hello")
    assert rig.text(("r", 0)) == "hello"
    assert rig.ids(("r", 0)) == [*b"hello", EOS]
    last = rig.last(("r", 0))
    assert (last.finish_reason, last.stop_reason) == ("stop", None)


def test_an_answer_continues_the_text_of_its_prompt() -> None:
    """The first space of a SentencePiece answer is a space of its own, unless nothing precedes."""
    tokenizer = Tokenizer.from_gguf(sentencepiece_metadata())
    bos, *hello = tokenizer.encode("hello", add_special_tokens=True)
    for preceding_id, text in ((hello[-1], " hello"), (bos, "hello")):
        rig = Rig(choose=saying(hello), tokenizer=tokenizer)
        rig.answer(make_request([preceding_id], wishes(max_tokens=len(hello))))
        assert rig.text(("r", 0)) == text


def test_characters_of_many_tokens_come_whole() -> None:
    """B3."""
    rig = run("a😀漢b")
    assert rig.text(("r", 0)) == "a😀漢b"
    assert all("\ufffd" not in output.text for output in rig.said["r", 0])


def test_an_answer_that_ends_within_a_character_ends_with_a_replacement() -> None:
    """B4."""
    rig = run("a😀", max_tokens=3)
    assert rig.text(("r", 0)) == "a\ufffd"
    assert rig.last(("r", 0)).finish_reason == "length"


def test_no_part_of_a_stop_string_over_many_tokens_is_ever_shown() -> None:
    """B1."""
    rig = run(ALPHABET, stop="DEFGHIJ")
    assert [output.text for output in rig.said["r", 0]] == [
        "A",
        "B",
        "C",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
    ]
    last = rig.last(("r", 0))
    assert (last.finish_reason, last.stop_reason) == ("stop", "DEFGHIJ")
    assert rig.ids(("r", 0)) == list(b"ABCDEFGHIJ")


def test_text_held_back_is_shown_when_the_match_fails() -> None:
    """B1."""
    rig = run("ABCDEFX", stop="DEFG")
    assert rig.text(("r", 0)) == "ABCDEFX"


@pytest.mark.parametrize("max_tokens", [5, 64])
def test_text_held_back_is_shown_when_the_answer_ends(max_tokens: int) -> None:
    """B1."""
    rig = run("ABCDE", stop="DEFG", max_tokens=max_tokens)
    assert rig.text(("r", 0)) == "ABCDE"
    assert rig.last(("r", 0)).stop_reason is None


def test_a_stop_string_is_matched_on_text_within_what_tokens_say() -> None:
    """B2: `Pari` inside ` Paris`."""
    rig = run("in Paris, of course", stop=["Pari"])
    assert rig.text(("r", 0)) == "in "
    assert rig.last(("r", 0)).stop_reason == "Pari"


def test_a_stop_string_can_be_kept_in_the_text() -> None:
    rig = run("one two three", stop="two", include_stop_str_in_output=True)
    assert rig.text(("r", 0)) == "one two"


def test_a_stop_string_on_the_last_allowed_token_is_a_stop() -> None:
    rig = run("abcdef", stop="c", max_tokens=3)
    assert rig.text(("r", 0)) == "ab"
    assert (rig.last(("r", 0)).finish_reason, rig.last(("r", 0)).stop_reason) == ("stop", "c")


def test_stop_strings_do_not_count_within_min_tokens() -> None:
    rig = run("stop and stop again", stop="stop", min_tokens=6)
    assert rig.text(("r", 0)) == "stop and "


def test_a_stop_token_is_an_id_but_no_text() -> None:
    rig = run("abcd", stop_token_ids=[ord("c")])
    assert rig.text(("r", 0)) == "ab"
    assert rig.ids(("r", 0)) == list(b"abc")
    assert rig.last(("r", 0)).stop_reason == ord("c")


def test_a_stop_token_can_be_kept_in_the_text() -> None:
    rig = run("abcd", stop_token_ids=[ord("c")], include_stop_str_in_output=True)
    assert rig.text(("r", 0)) == "abc"


def test_special_tokens_are_text_if_asked_for() -> None:
    rig = run([ord("a"), EOS, ord("b")], ignore_eos=True, max_tokens=3, skip_special_tokens=False)
    assert rig.text(("r", 0)) == "a</s>b"


def test_without_detokenisation_there_are_ids_only() -> None:
    rig = run("hello", detokenize=False)
    assert rig.text(("r", 0)) == ""
    assert rig.ids(("r", 0)) == [*b"hello", EOS]


def test_there_is_one_logprob_for_each_token() -> None:
    rig = run("hello", logprobs=0)
    for output in rig.said["r", 0]:
        assert output.logprobs is not None
        assert [entry.token_id for entry in output.logprobs] == output.token_ids


def test_without_wish_there_are_no_logprobs() -> None:
    rig = run("hello")
    assert all(output.logprobs is None for output in rig.said["r", 0])


def test_prompt_logprobs_come_once_with_the_first_output_and_begin_with_none() -> None:
    rig = Rig(scheduler=make_scheduler(max_num_batched_tokens=8))
    first, *rest = rig.answer(make_request("a prompt of 21 bytes.", wishes(prompt_logprobs=0)))
    assert first.prompt_logprobs is not None
    assert first.prompt_logprobs[0] is None
    ids = [entry.token_id for entry in first.prompt_logprobs[1:] if entry is not None]
    assert ids == list(b" prompt of 21 bytes.")
    assert all(output.prompt_logprobs is None for output in rest)


def test_prompt_logprobs_are_the_same_in_any_chunks_and_after_a_cached_run() -> None:
    request = make_request("a prompt of 21 bytes.", wishes(prompt_logprobs=0, max_tokens=2))
    whole = Rig(scheduler=make_scheduler(max_num_batched_tokens=64))
    chunked = Rig(scheduler=make_scheduler(max_num_batched_tokens=64, max_logit_rows=8))
    chunked.answer(make_request("a prompt of 21 bytes.", request_id="fills the cache"))
    expected = whole.answer(request)[0].prompt_logprobs
    assert chunked.answer(request)[0].prompt_logprobs == expected


def test_no_tokens_wanted_gives_prompt_logprobs_and_a_length() -> None:
    """A5."""
    rig = Rig()
    (only,) = rig.answer(make_request("prompt", wishes(max_tokens=0, prompt_logprobs=1)))
    assert only.prompt_logprobs is not None
    assert len(only.prompt_logprobs) == 6
    assert (only.token_ids, only.text, only.finish_reason) == ([], "", "length")


def test_only_sequence_0_brings_prompt_logprobs() -> None:
    rig = Rig()
    rig.answer(make_request("prompt", wishes(n=3, prompt_logprobs=1)))
    assert rig.said["r", 0][0].prompt_logprobs is not None
    assert all(out.prompt_logprobs is None for i in (1, 2) for out in rig.said["r", i])


def test_an_aborted_answer_shows_what_was_held_back() -> None:
    rig = Rig(choose=saying("ABCDEFGH"))
    rig.engine.submit(make_request("?", wishes(stop="CDEFX")))
    for _ in range(4):
        rig.step()
    rig.engine.abort("r")
    rig.drain()
    assert joined_text(rig.said["r", 0]) == "ABCD"
    assert rig.last(("r", 0)).finish_reason == "abort"


class Pieces:
    """A detokenizer whose token i is the text `pieces[i]`."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces

    def push(self, token_id: int) -> str:
        return self._pieces[token_id]

    def flush(self) -> str:
        return ""


@pytest.mark.parametrize("cuts", [(), (1,), (4,), (2, 5), (3, 4, 5), tuple(range(1, 9))])
@pytest.mark.parametrize(
    ("fields", "shown", "stop"),
    [
        ({"stop_regex": "c+"}, "abc", "c+"),
        ({"stop_regex": "d.", "stop": "xyz"}, "abccde", "d."),
        ({"stop_regex": "d.", "stop": "cde"}, "abc", "cde"),
        ({"stop_regex": "d.", "stop": "defg"}, "abccde", "d."),
    ],
)
def test_a_regex_ends_the_text_at_its_character_however_tokens_cut_it(
    cuts: tuple[int, ...], fields: dict[str, str], shown: str, stop: str
) -> None:
    text, places = "abccdefgh", (0, *cuts, 9)
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    stream = TextStream(Pieces(*pieces), wishes(**fields))
    seen, matched = "", None
    for token_id in range(len(pieces)):
        new, matched = stream.push(token_id, may_stop=True)
        seen += new
        if matched is not None:
            break
    assert (seen, matched) == (shown, stop)
