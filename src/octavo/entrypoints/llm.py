"""The offline door: `LLM(model).generate(...)` and `.chat(...)`, with vLLM's names.

Holds no policy of its own: prompts become requests, the engine's deltas become results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from msgspec.structs import replace

from octavo.config.engine import EngineConfig
from octavo.config.options import from_keywords
from octavo.core.outputs import EngineStats, RequestTimes, SequenceOutput
from octavo.core.pooling import PoolingParams
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.beam_search import BeamSearchOutput, BeamSearchParams, beams_of
from octavo.entrypoints.embedding import (
    EmbeddingRequestOutput,
    PoolingRequestOutput,
    ScoringRequestOutput,
    as_embedding,
    as_score,
    run_pooling,
)
from octavo.entrypoints.local import LocalEngine
from octavo.entrypoints.progress import BatchBar
from octavo.entrypoints.results import RequestOutput, ResultBuilder
from octavo.errors import EngineDead, InvalidRequest
from octavo.tokenization.tokenizer import Tokenizer

Prompt = str | list[int] | Mapping[str, object]
"""A text, token ids, {"prompt": text} or {"prompt_token_ids": ids}, the latter two also with a
"cache_salt"; a "prompt" beside the ids is only shown in the result."""

PROMPT_FIELDS = ("prompt", "prompt_token_ids", "cache_salt")

Message = Mapping[str, object]
Conversation = Sequence[Message]
Params = TypeVar("Params", SamplingParams, PoolingParams)


@dataclass(frozen=True, slots=True)
class _Prepared:
    request: EngineRequest
    prompt: str | None


class LLM:
    """A model in this process. Not for use by several threads at once.

    `model` is a path of a GGUF file, a catalogue name or a hub id; `engine_options` are the flags
    of `octavo serve` with underscores. Raises ConfigError on an unknown option, FetchError or
    WeightError on a model that cannot be had.
    """

    def __init__(self, model: str, **engine_options: object) -> None:
        config = from_keywords(EngineConfig, {"model": model, **engine_options})
        self._engine = LocalEngine(config)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Complete each prompt; results in the order of the prompts.

        One SamplingParams serves all prompts, or there is one for each. Raises RequestError,
        before anything runs, if any prompt cannot be honoured.
        """
        batch = _prompts(prompts)
        all_params = _spread(sampling_params or SamplingParams(), SamplingParams, len(batch))
        prepared = [
            self._prepare_prompt(prompt, params)
            for prompt, params in zip(batch, all_params, strict=True)
        ]
        return self._run(prepared, use_tqdm)

    def chat(
        self,
        messages: Conversation | Sequence[Conversation],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: bool = True,
        add_generation_prompt: bool = True,
        chat_template_kwargs: Mapping[str, object] | None = None,
    ) -> list[RequestOutput]:
        """Answer one conversation, or each of a list of them. Otherwise as `generate`."""
        batch = _conversations(messages)
        all_params = _spread(sampling_params or SamplingParams(), SamplingParams, len(batch))
        prepared = [
            _Prepared(
                self._engine.front.inputs.chat(
                    conversation,
                    params,
                    add_generation_prompt=add_generation_prompt,
                    template_kwargs=chat_template_kwargs,
                ),
                prompt=None,
            )
            for conversation, params in zip(batch, all_params, strict=True)
        ]
        return self._run(prepared, use_tqdm)

    def beam_search(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: BeamSearchParams,
        use_tqdm: bool = False,
    ) -> list[BeamSearchOutput]:
        """The `beam_width` most probable continuations of each prompt. Otherwise as `generate`."""
        results = self.generate(prompts, params.sampling_params(), use_tqdm)
        return [beams_of(result, params, self.get_tokenizer()) for result in results]

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        use_tqdm: bool = True,
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
    ) -> list[EmbeddingRequestOutput]:
        """The vector of each prompt, in their order (docs/embeddings.md).

        One PoolingParams serves all prompts, or there is one for each. Raises RequestError, before
        anything runs, if any prompt cannot be honoured.
        """
        return [as_embedding(result) for result in self._pool(prompts, pooling_params, use_tqdm)]

    def encode(
        self,
        prompts: Prompt | Sequence[Prompt],
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        *,
        use_tqdm: bool = True,
        pooling_task: str = "embed",
    ) -> list[PoolingRequestOutput]:
        """As `embed`, with numpy vectors. The only `pooling_task` is "embed"."""
        if pooling_task != "embed":
            raise InvalidRequest(
                f"pooling_task is {pooling_task!r}; 'embed' is allowed", param="pooling_task"
            )
        return self._pool(prompts, pooling_params, use_tqdm)

    def score(
        self,
        data_1: Prompt | Sequence[Prompt],
        data_2: Prompt | Sequence[Prompt],
        *,
        use_tqdm: bool = True,
        pooling_params: PoolingParams | None = None,
    ) -> list[ScoringRequestOutput]:
        """Cosines of vectors: of one prompt with each of the others, or of two lists, prompt by
        prompt. Whatever `pooling_params` say, vectors have length 1 here."""
        left, right = _prompts(data_1), _prompts(data_2)
        if len(left) not in (1, len(right)):
            raise InvalidRequest(
                f"data_1 has {len(left)} prompts and data_2 {len(right)}; one, or as many on both"
                " sides, are allowed",
                param="data_1",
            )
        params = replace(pooling_params or PoolingParams(), normalize=True, use_activation=None)
        results = self._pool([*left, *right], params, use_tqdm)
        lefts, rights = results[: len(left)], results[len(left) :]
        lefts = lefts * len(rights) if len(lefts) == 1 else lefts
        return [as_score(one, other) for one, other in zip(lefts, rights, strict=True)]

    def get_tokenizer(self) -> Tokenizer:
        return self._engine.front.tokenizer

    def get_default_sampling_params(self) -> SamplingParams:
        """What `generate` and `chat` use when they are given none."""
        return SamplingParams()

    def get_metrics(self) -> EngineStats:
        """Counters and gauges of the engine as they stand."""
        return self._engine.stats()

    def reset_prefix_cache(self) -> bool:
        """Forget all cached prompt beginnings. Always true, which is vLLM's answer for success."""
        self._engine.reset_prefix_cache()
        return True

    def shutdown(self) -> None:
        """Save the prefix cache if it has a folder, and give memory and threads back. The object
        is of no use afterwards."""
        self._engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    def _prepare_prompt(self, prompt: Prompt, params: SamplingParams) -> _Prepared:
        text, content, cache_salt = _read_prompt(prompt)
        inputs = self._engine.front.inputs
        return _Prepared(inputs.completion(content, params, cache_salt=cache_salt), text)

    def _pool(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: PoolingParams | Sequence[PoolingParams] | None,
        use_tqdm: bool,
    ) -> list[PoolingRequestOutput]:
        batch = _prompts(prompts)
        wishes = _spread(PoolingParams() if params is None else params, PoolingParams, len(batch))
        requests = []
        for prompt, wish in zip(batch, wishes, strict=True):
            _, content, salt = _read_prompt(prompt)
            request = self._engine.front.inputs.embedding(
                content, wish, param="prompt", cache_salt=salt
            )
            requests.append(request)
        return run_pooling(self._engine, requests, use_tqdm=use_tqdm)

    def _run(self, prepared: Sequence[_Prepared], use_tqdm: bool) -> list[RequestOutput]:
        tokenizer = self.get_tokenizer()
        builders = {
            item.request.request_id: ResultBuilder(item.request, item.prompt, tokenizer)
            for item in prepared
        }

        def keep_times(request_id: str, index: int, times: RequestTimes) -> None:
            if index == 0:
                builders[request_id].result.metrics = times

        requests = [item.request for item in prepared]
        with BatchBar(len(requests), is_shown=use_tqdm) as bar:
            for delta in self._engine.run(requests, on_finished=keep_times):
                builder = builders[delta.request_id]
                _add(builder, delta)
                bar.add(num_tokens=len(delta.token_ids), num_prompts=int(builder.result.finished))
        return [builder.result for builder in builders.values()]


def _add(builder: ResultBuilder, delta: SequenceOutput) -> None:
    if delta.finish_reason == "error":
        raise EngineDead(delta.error or "the engine failed; the request was not finished")
    builder.add(delta)


def _prompts(prompts: Prompt | Sequence[Prompt]) -> Sequence[Prompt]:
    """Token ids on their own are one prompt, a list of anything else is a batch."""
    if isinstance(prompts, str | Mapping):
        return [prompts]
    is_one = len(prompts) > 0 and all(type(item) is int for item in prompts)
    return [prompts] if is_one else prompts  # type: ignore[list-item, return-value]


def _read_prompt(prompt: Prompt) -> tuple[str | None, str | list[int], str]:
    """The text, if there is one, what to complete, and the cache salt."""
    fields = _fields(prompt)
    text, token_ids, salt = (fields.get(name) for name in PROMPT_FIELDS)
    is_text = isinstance(text, str) or (text is None and token_ids is not None)
    is_whole = fields.keys() <= set(PROMPT_FIELDS) and isinstance(salt, str | None)
    if not is_text or not is_whole or not isinstance(token_ids, list | None):
        raise InvalidRequest(
            f"prompt is {prompt!r:.80}; a text, a list of token ids, {{'prompt': text}} or"
            " {'prompt_token_ids': [ids]} is allowed, with a 'cache_salt' if wanted",
            param="prompt",
        )
    content = text if token_ids is None else token_ids
    return text, content, salt or ""  # type: ignore[return-value]


def _fields(prompt: Prompt) -> Mapping[str, object]:
    """Any prompt in its mapping form."""
    if isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, list):
        return {"prompt_token_ids": prompt}
    if not isinstance(prompt, Mapping):
        return {}
    return {name: value for name, value in prompt.items() if value is not None}


def _conversations(messages: Conversation | Sequence[Conversation]) -> list[Conversation]:
    if all(isinstance(item, Mapping) for item in messages):
        return [messages]  # type: ignore[list-item]
    return list(messages)  # type: ignore[arg-type]


def _spread(
    params: Params | Sequence[Params], kind: type[Params], num_prompts: int
) -> list[Params]:
    """One for each prompt."""
    if isinstance(params, kind):
        return [params] * num_prompts
    assert isinstance(params, Sequence)
    if len(params) != num_prompts:
        name = "pooling_params" if kind is PoolingParams else "sampling_params"
        raise InvalidRequest(
            f"{len(params)} {name} for {num_prompts} prompts; one for all,"
            " or one for each is allowed",
            param=name,
        )
    return list(params)
