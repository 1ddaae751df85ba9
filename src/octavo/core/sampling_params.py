"""How to choose tokens and when to stop: one request's wishes, checked for range on construction.

Knows no vocabulary and no model; ids are checked against those by `engine.input_processor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from octavo.core.processor_call import MAX_PROCESSORS, ProcessorCall
from octavo.core.ranges import Range, check_ids, check_integer, check_real
from octavo.core.repetition_detection import RepetitionDetection
from octavo.core.structured_outputs import StructuredOutputs
from octavo.core.token_filters import FILTER_RANGES, TokenFilters
from octavo.errors import InvalidRequest, UnsupportedParameter

MAX_N = 128
MAX_BEST_OF = 20
MAX_BEAM_WIDTH = 64
MAX_STOP_STRINGS = 64
MAX_STOP_REGEXES = 4
MAX_STOP_CHARS = 1024
MAX_LOGIT_BIAS = 65536
MAX_LOGPROBS = 20
GREEDY_TEMPERATURE = 1e-5
"""Temperatures below this choose greedily: dividing by them would only overflow."""

_MANY = 2**31 - 1

RANGES = (
    Range("temperature", 0.0, 100.0),
    Range("top_p", 0.0, 1.0, low_open=True),
    Range("top_k", -1, _MANY),
    Range("min_p", 0.0, 1.0),
    Range("presence_penalty", -2.0, 2.0),
    Range("frequency_penalty", -2.0, 2.0),
    Range("repetition_penalty", 0.0, 100.0, low_open=True),
    Range("seed", -(2**63), 2**64 - 1),
    Range("max_tokens", 0, _MANY),
    Range("min_tokens", 0, _MANY),
    Range("logprobs", 0, MAX_LOGPROBS),
    Range("prompt_logprobs", 0, MAX_LOGPROBS),
    Range("length_penalty", -10.0, 10.0),
    Range("truncate_prompt_tokens", -1, _MANY),
    *FILTER_RANGES,
)
"""Of single numbers. `n`, `best_of` and `beam_width` have bounds that depend on each other."""
_OPTIONAL = frozenset(
    {"seed", "max_tokens", "logprobs", "prompt_logprobs", "truncate_prompt_tokens"}
)

_ALLOWED_WITH_BEAMS: tuple[tuple[str, tuple[float | None, ...]], ...] = (
    ("temperature", (0.0, 1.0)),
    ("top_p", (1.0,)),
    ("top_k", (0, -1)),
    ("min_p", (0.0,)),
    ("top_n_sigma", (-1.0, 0.0)),
    ("typical_p", (1.0,)),
    ("xtc_probability", (0.0,)),
    ("dynatemp_range", (0.0,)),
    ("mirostat", (0,)),
    ("dry_multiplier", (0.0,)),
    ("repetition_detection", (None,)),
    ("best_of", (None, 1)),
    ("logprobs", (None,)),
    ("prompt_logprobs", (None,)),
    ("logits_processors", (None,)),
)
"""Beams are not drawn, and their texts are not known before the end."""


class SamplingParams(TokenFilters, frozen=True, kw_only=True, omit_defaults=True):
    """Names and defaults are vLLM's. Raises `InvalidRequest` naming the first bad field.

    `top_k` 0 or -1 means all. `logprobs` n returns the chosen token's log probability and the n
    most probable ones (of the raw logits, before penalties and temperature). `prompt_logprobs`
    likewise for the prompt. `seed` fixes the draw by (seed, position), whatever else runs.
    `spaces_between_special_tokens` changes nothing: no tokenizer here writes any, as
    transformers' fast ones do not.

    With `best_of` so many sequences are drawn, and the `n` of the highest cumulative log
    probability are the answers, best first.

    With `use_beam_search` the answers are the `n` best of `beam_width` (None: n) beams, best first,
    as transformers finds them. A beam is worth the sum of its log probabilities divided by its
    length to the power of `length_penalty`; `early_stopping` says when to stop: true at the first
    `beam_width` beams that ended, false when the best open beam would not be worth more if it ended
    now, "never" when it could not be at any length. Bias, penalties and `min_tokens` act on log
    probabilities there.

    With `structured_outputs` the answer has that form, unless a limit of length or a stop string
    ends it early. Bias and bans act among the tokens that the form allows.

    `stop_regex` ends an answer at the first character at which a regex has matched; what matched
    stays in the text, and of a `stop` that is complete there, too, the answer ends before it.

    `truncate_prompt_tokens` keeps so many tokens of a prompt, -1 as many as fit beside max_tokens;
    `truncation_side` is where tokens are left out.

    `logits_processors` are those that `--logits-processors` loaded (`docs/sampling.md`).
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_regex: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    repetition_detection: RepetitionDetection | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    detokenize: bool = True
    best_of: int | None = None
    use_beam_search: bool = False
    beam_width: int | None = None
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    structured_outputs: StructuredOutputs | None = None
    logits_processors: list[ProcessorCall] | None = None
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] = "left"

    def __post_init__(self) -> None:
        check_integer("n", self.n, 1, MAX_BEAM_WIDTH if self.use_beam_search else MAX_N)
        for limits in RANGES:
            value = getattr(self, limits.name)
            if value is not None or limits.name not in _OPTIONAL:
                limits.check(value)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InvalidRequest(
                f"min_tokens is {self.min_tokens}, more than max_tokens {self.max_tokens}",
                param="min_tokens",
            )
        if self.truncate_prompt_tokens == 0:
            raise InvalidRequest(
                "truncate_prompt_tokens is 0; -1, or 1 and more, is allowed",
                param="truncate_prompt_tokens",
            )
        if self.truncation_side not in ("left", "right"):
            raise InvalidRequest(
                f"truncation_side is {self.truncation_side!r}; 'left' or 'right' is allowed",
                param="truncation_side",
            )
        self._check_stops()
        self._check_logit_bias()
        if len(self.logits_processors or ()) > MAX_PROCESSORS:
            raise InvalidRequest(
                f"logits_processors has {len(self.logits_processors or ())} entries; at most "
                f"{MAX_PROCESSORS} are allowed",
                param="logits_processors",
            )
        if self.best_of is not None:
            check_integer("best_of", self.best_of, self.n, MAX_BEST_OF)
        self.check_filters()
        if self.repetition_detection is not None:
            self.repetition_detection.check()
        if self.is_greedy and self.dynatemp_range > 0:
            raise InvalidRequest(
                f"dynatemp_range is {self.dynatemp_range} with temperature {self.temperature}, "
                "which must be above 0",
                param="dynatemp_range",
            )
        self._check_beams()

    def _check_stops(self) -> None:
        for name, texts, most in (
            ("stop", self.stop_strings, MAX_STOP_STRINGS),
            ("stop_regex", self.stop_regexes, MAX_STOP_REGEXES),
        ):
            if len(texts) > most:
                raise InvalidRequest(
                    f"{name} has {len(texts)} strings; at most {most} are allowed",
                    param=name,
                )
            for text in texts:
                if not isinstance(text, str) or not 1 <= len(text) <= MAX_STOP_CHARS:
                    raise InvalidRequest(
                        f"each {name} must be a string of 1 to {MAX_STOP_CHARS} characters",
                        param=name,
                    )
        check_ids("stop_token_ids", self.stop_token_ids)

    def _check_logit_bias(self) -> None:
        if self.logit_bias is None:
            return
        if len(self.logit_bias) > MAX_LOGIT_BIAS:
            raise InvalidRequest(
                f"logit_bias has {len(self.logit_bias)} entries; at most {MAX_LOGIT_BIAS}",
                param="logit_bias",
            )
        check_ids("logit_bias", list(self.logit_bias))
        for token_id, bias in self.logit_bias.items():
            check_real(f"logit_bias[{token_id}]", bias, -100.0, 100.0)

    def _check_beams(self) -> None:
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise InvalidRequest(
                f"early_stopping is {self.early_stopping!r}; true, false or 'never' is allowed",
                param="early_stopping",
            )
        if not self.use_beam_search:
            self._refuse_beam_options()
            return
        if self.beam_width is not None:
            check_integer("beam_width", self.beam_width, self.n, MAX_BEAM_WIDTH)
        if self.max_tokens == 0:
            raise InvalidRequest(
                "max_tokens is 0; with use_beam_search at least 1 is allowed", param="max_tokens"
            )
        self._refuse_sampling_options()

    def _refuse_beam_options(self) -> None:
        for name, default in (
            ("beam_width", None),
            ("length_penalty", 1.0),
            ("early_stopping", False),
        ):
            if getattr(self, name) != default:
                raise InvalidRequest(
                    f"{name} is given without use_beam_search, which must be true", param=name
                )

    def _refuse_sampling_options(self) -> None:
        if self.structured_outputs is not None:
            raise UnsupportedParameter(
                "structured_outputs are given with use_beam_search; drawn answers may have them",
                param="structured_outputs",
                code="unsupported_parameter",
            )
        for name in ("stop", "stop_regex"):
            if getattr(self, name):
                raise UnsupportedParameter(
                    f"{name} is given with use_beam_search; stop_token_ids is allowed",
                    param=name,
                    code="unsupported_parameter",
                )
        for name, allowed in _ALLOWED_WITH_BEAMS:
            value = getattr(self, name)
            if value not in allowed:
                words = " or ".join("no value" if word is None else repr(word) for word in allowed)
                raise UnsupportedParameter(
                    f"{name} is {value!r}; with use_beam_search {words} is allowed",
                    param=name,
                    code="unsupported_parameter",
                )

    @property
    def num_beams(self) -> int:
        """How many beams the search follows; 0 if there is none."""
        if not self.use_beam_search:
            return 0
        return self.n if self.beam_width is None else self.beam_width

    @property
    def num_sequences(self) -> int:
        """How many run, of which the `n` best are the answers if they are more."""
        return self.num_beams or self.best_of or self.n

    @property
    def picks_best(self) -> bool:
        """Whether nothing can be said before the last of its sequences has ended."""
        return self.use_beam_search or self.num_sequences > self.n

    @property
    def stop_strings(self) -> Sequence[str]:
        return _several(self.stop)

    @property
    def stop_regexes(self) -> Sequence[str]:
        return _several(self.stop_regex)

    @property
    def is_greedy(self) -> bool:
        return self.temperature < GREEDY_TEMPERATURE


def _several(given: str | list[str] | None) -> Sequence[str]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else given
