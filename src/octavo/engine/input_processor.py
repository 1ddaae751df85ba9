"""From what a client sends (text, token ids or chat messages) to a checked `EngineRequest`.

Owns every check that needs the vocabulary or the context length; `SamplingParams` has checked its
ranges already. What passes here cannot break a step. Must not know the engine, nor HTTP.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from octavo.core.pooling import Pooler, PoolingParams
from octavo.core.request import EngineRequest, ThinkingBudget
from octavo.core.sampling_params import SamplingParams
from octavo.engine.stop_regexes import check_stop_regexes
from octavo.errors import InvalidRequest, PromptTooLong, UnsupportedParameter
from octavo.sampling.processors.guarded import GuardedProcessors
from octavo.structured.compiler import GrammarCompiler
from octavo.structured.task import GrammarTask
from octavo.tokenization.chat import encode_chat
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.phrases import Phrases
from octavo.tokenization.tokenizer import Tokenizer

Message = Mapping[str, object]

NO_ANSWER = SamplingParams(max_tokens=0, detokenize=False)
"""Of a request whose answer is a vector."""

CHEAP_BYTES_PER_TOKEN = 16
"""Texts up to so many bytes per token of context are tokenised without asking whether they fit."""


class InputProcessor:
    """`vocab_size` is the number of rows of the model's embedding, `max_model_len` the tokens that
    prompt and answer may have together, `max_num_seqs` how many beams can run, `pooler` what an
    embedding is. May be used by many threads. Ids are allowed that have both a row and a spelling;
    either side may be padded."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        *,
        vocab_size: int,
        max_model_len: int,
        max_num_seqs: int,
        pooler: Pooler,
        grammars: GrammarCompiler | None = None,
        processors: GuardedProcessors | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.vocab_size = min(vocab_size, tokenizer.vocab_size)
        self.max_model_len = max_model_len
        self.max_num_seqs = max_num_seqs
        self.pooler = pooler
        self._phrases = Phrases(tokenizer)
        self.grammars = grammars or GrammarCompiler()
        self._processors = processors or GuardedProcessors({})

    def completion(
        self,
        prompt: str | list[int],
        params: SamplingParams,
        *,
        cache_salt: str = "",
        grammar: str | None = None,
    ) -> EngineRequest:
        """A request that continues a text or token ids. Raises `InvalidRequest`, `PromptTooLong`.

        Spellings of control tokens in a text become control tokens: it is the whole context, and
        its author writes it as a chat template would. An empty text is the BOS token alone.
        """
        is_cut = params.truncate_prompt_tokens is not None
        if isinstance(prompt, str):
            ids = self.encode(prompt)
        else:
            ids = self._checked_ids(prompt, may_be_long=is_cut)
        return self.request(ids, params, param="prompt", cache_salt=cache_salt, grammar=grammar)

    def chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams,
        *,
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, object] | None = None,
        cache_salt: str = "",
    ) -> EngineRequest:
        """A request that answers a conversation. Contents never become control tokens.

        Raises as `completion`, and `TemplateError` if the model's template refuses the messages.
        """
        ids = self.encode_messages(
            messages, add_generation_prompt=add_generation_prompt, template_kwargs=template_kwargs
        )
        return self.request(ids, params, param="messages", cache_salt=cache_salt)

    def embedding(
        self,
        prompt: str | list[int],
        params: PoolingParams,
        *,
        param: str = "input",
        add_special_tokens: bool = True,
        cache_salt: str = "",
    ) -> EngineRequest:
        """A request for the vector of a text or of token ids. `param` names it in errors.

        Raises as `completion`. A text is data here: it spells no control tokens.
        """
        pooling = self.pooler.pooling(params)
        if isinstance(prompt, str):
            ids = self.encode(
                prompt, add_special_tokens=add_special_tokens, parse_special=False, param=param
            )
        else:
            ids = self._checked_ids(params.truncated(prompt, self.max_model_len), param)
        ids = params.truncated(ids, self.max_model_len)
        request = self.request(ids, NO_ANSWER, param=param, cache_salt=cache_salt)
        return replace(request, pooling=pooling)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        param: str = "prompt",
    ) -> list[int]:
        """The prompt ids of a text; with `add_special_tokens` exactly one BOS if the model starts
        with one, whether or not the text spells it. Raises `InvalidRequest`, `PromptTooLong`."""
        self._check_text((text,), param)
        ids = self.tokenizer.encode(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        )
        bos = self.tokenizer.bos_token_id
        return [bos] if not ids and add_special_tokens and bos is not None else ids

    def encode_messages(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        add_special_tokens: bool = True,
        template_kwargs: Mapping[str, object] | None = None,
    ) -> list[int]:
        """The prompt ids of a conversation, as `encode_chat` makes them."""
        if self.template is None:
            raise InvalidRequest("this model has no chat template", param="messages")
        if not messages:
            raise InvalidRequest("messages is empty; at least one is needed", param="messages")
        self._check_text(strings_in(messages), "messages")
        return encode_chat(
            self.tokenizer,
            self.template,
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            add_special_tokens=add_special_tokens,
            kwargs=template_kwargs or {},
        )

    def encode_gap(self, before: str | list[int], after: str) -> list[int]:
        """The prompt ids of a text with a gap, whose middle the model is to fill. Neither part
        becomes control tokens. Raises `InvalidRequest`, `PromptTooLong`, and `UnsupportedParameter`
        if the model has no tokens for it."""
        if self.tokenizer.fim_token_ids is None:
            raise UnsupportedParameter(
                "suffix is given; this model has no tokens for filling a gap",
                param="suffix",
            )
        prefix_id, suffix_id, middle_id = self.tokenizer.fim_token_ids
        bos = self.tokenizer.bos_token_id
        ids = [bos] if self.tokenizer.adds_bos and bos is not None else []
        ids.append(prefix_id)
        if isinstance(before, str):
            ids += self._plain(before)
        else:
            ids += self._checked_ids(before)
        return [*ids, suffix_id, *self._plain(after), middle_id]

    def _plain(self, text: str) -> list[int]:
        return self.encode(text, add_special_tokens=False, parse_special=False)

    def request(
        self,
        ids: list[int],
        params: SamplingParams,
        *,
        param: str,
        cache_salt: str = "",
        grammar: str | None = None,
        shown_token_ids: Sequence[int] = (),
        thinking: ThinkingBudget | None = None,
    ) -> EngineRequest:
        """A request of encoded ids, which come from the field `param`. Without `grammar`, what the
        answer must be is compiled here, which may take a second. Raises as `completion`."""
        if not ids:
            raise InvalidRequest(f"{param} has no tokens; at least one is needed", param=param)
        self._check_params(params)
        if params.truncate_prompt_tokens is not None:
            ids = self._truncated(ids, params)
        return EngineRequest(
            request_id=uuid.uuid4().hex,
            prompt_token_ids=ids,
            sampling_params=self._with_max_tokens(len(ids), params, param),
            arrival_time=time.time(),
            cache_salt=cache_salt,
            bad_word_ids=self._known(self._phrases.words(params.bad_words or ())),
            dry_breaker_ids=self._known(
                self._phrases.breakers(params.dry_breakers) if params.has_dry else ()
            ),
            grammar=self._grammar(params) if grammar is None else grammar,
            shown_token_ids=list(shown_token_ids),
            thinking=thinking,
        )

    def _truncated(self, ids: list[int], params: SamplingParams) -> list[int]:
        """As many tokens as asked for, or as fit; a BOS at the beginning stays there."""
        asked = params.truncate_prompt_tokens
        most = self.max_model_len - (params.max_tokens or 1)
        num_kept = min(most, asked) if asked is not None and asked > 0 else most
        if num_kept < 1 or len(ids) <= num_kept:
            return ids
        if params.truncation_side == "right":
            return ids[:num_kept]
        has_bos = self.tokenizer.adds_bos and ids[0] == self.tokenizer.bos_token_id
        return [*ids[:1], *ids[len(ids) - num_kept + 1 :]] if has_bos else ids[-num_kept:]

    def _known(self, sequences: Iterable[list[int]]) -> list[list[int]]:
        """Those that the model can say at all."""
        return [ids for ids in sequences if max(ids) < self.vocab_size]

    def _grammar(self, params: SamplingParams) -> str:
        if params.structured_outputs is None:
            return ""
        return self.grammars.compile(GrammarTask(params.structured_outputs))

    def _with_max_tokens(
        self, num_prompt_tokens: int, params: SamplingParams, param: str
    ) -> SamplingParams:
        """With a definite `max_tokens`: as asked if it fits, or the rest of the context."""
        room = self.max_model_len - num_prompt_tokens
        if params.max_tokens is None and room >= 1:
            return replace(params, max_tokens=room)
        if params.max_tokens is not None and params.max_tokens <= room:
            return params
        asked = f" and max_tokens is {params.max_tokens}" if params.max_tokens is not None else ""
        raise PromptTooLong(
            f"{param} has {num_prompt_tokens} tokens{asked}; this model's maximum context length "
            f"is {self.max_model_len} tokens, prompt and answer together",
            param=param,
        )

    def _check_params(self, params: SamplingParams) -> None:
        if params.num_beams > self.max_num_seqs:
            name = "n" if params.beam_width is None else "beam_width"
            raise InvalidRequest(
                f"{name} is {params.num_beams} with use_beam_search; at most max_num_seqs, "
                f"{self.max_num_seqs}, is allowed",
                param=name,
            )
        self._processors.check(params.logits_processors or ())
        cut = params.truncate_prompt_tokens
        if cut is not None and cut > self.max_model_len:
            raise InvalidRequest(
                f"truncate_prompt_tokens is {cut}; -1, or 1 to the context length, "
                f"{self.max_model_len}, is allowed",
                param="truncate_prompt_tokens",
            )
        for param in ("stop", "stop_regex"):
            if getattr(params, param) and not params.detokenize:
                raise InvalidRequest(f"{param} needs detokenize; it is false", param=param)
        check_stop_regexes(params)
        for name, ids in (
            ("stop_token_ids", params.stop_token_ids or ()),
            ("logit_bias", params.logit_bias or ()),
            ("allowed_token_ids", params.allowed_token_ids or ()),
        ):
            for token_id in ids:
                if token_id >= self.vocab_size:
                    raise InvalidRequest(
                        f"{name} has the token id {token_id}; {self._allowed_ids}", param=name
                    )

    def _checked_ids(
        self, prompt: list[int], param: str = "prompt", *, may_be_long: bool = False
    ) -> list[int]:
        if len(prompt) > self.max_model_len and not may_be_long:
            raise PromptTooLong(
                f"{param} has {len(prompt)} tokens; "
                f"this model's maximum context length is {self.max_model_len} tokens",
                param=param,
            )
        for position, token_id in enumerate(prompt):
            if type(token_id) is not int or not 0 <= token_id < self.vocab_size:
                raise InvalidRequest(
                    f"{param}[{position}] is {_shown(token_id)}; {self._allowed_ids}", param=param
                )
        return list(prompt)

    def _check_text(self, texts: Iterator[str] | tuple[str, ...], param: str) -> None:
        """Refuse, before tokenising, what is no Unicode text or cannot fit whatever its tokens."""
        num_bytes = 0
        for text in texts:
            try:
                num_bytes += len(text.encode())
            except UnicodeEncodeError:
                raise InvalidRequest(
                    f"{param} has half of a surrogate pair; Unicode text is allowed", param=param
                ) from None
        if num_bytes <= self.max_model_len * CHEAP_BYTES_PER_TOKEN:
            return
        max_bytes = self.max_model_len * self._longest_token_bytes
        if num_bytes > max_bytes:
            raise PromptTooLong(
                f"{param} has {num_bytes} bytes; a context of {self.max_model_len} tokens holds "
                f"at most {max_bytes}",
                param=param,
            )

    @property
    def _allowed_ids(self) -> str:
        return f"an integer from 0 to {self.vocab_size - 1} is allowed"

    @cached_property
    def _longest_token_bytes(self) -> int:
        """Looked up when the first long text comes: it walks the vocabulary."""
        return max(len(self.tokenizer.token_bytes(i)) for i in range(self.tokenizer.vocab_size))


def strings_in(value: object) -> Iterator[str]:
    """Every string within messages, however nested."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from strings_in(item)


def _shown(value: object) -> str:
    """For a message: any value in few characters (and huge integers cannot be printed at all)."""
    if type(value) is int and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)[:40]
