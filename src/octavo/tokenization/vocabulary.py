"""The tokenizer's data as a GGUF file states it, checked. Builds nothing and encodes nothing.

Keys: the `tokenizer.ggml.*` section of the GGUF specification. Raises `TokenizerError` with the
file, the key, what it holds and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from octavo.core.packed_texts import PackedTexts
from octavo.errors import TokenizerError

Number = TypeVar("Number", np.float32, np.int32)

MODELS: Final = ("gpt2", "llama")
MAX_VOCAB: Final = 1 << 21

END_OF_TURN_SPELLINGS: Final = frozenset(
    {
        "</s>",
        "<eos>",
        "<end_of_turn>",
        "<|end|>",
        "<|end_of_text|>",
        "<|end_of_turn|>",
        "<|endofturn|>",
        "<|endoftext|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|eot|>",
        "<|im_end|>",
        "<|EOT|>",
        "<|END_OF_TURN_TOKEN|>",
        "<｜end▁of▁sentence｜>",
    }
)
"""Control tokens that end an answer in some family of models, whether or not the file says so."""


FIM_SPELLINGS: Final = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<|fim_begin|>", "<|fim_hole|>", "<|fim_end|>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)
"""What stands before the prefix, the suffix and the missing middle in some family of models."""


class TokenType(IntEnum):
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """`types` is int32 [vocab_size]; `scores` float32 [vocab_size] or None; ids are in range.

    `pre` is the name of the rules that split text before merging, "" if the file names none.
    `fim_token_ids` stand before prefix, suffix and middle of a text with a gap, None if the model
    knows no such thing. `adds_bos` and `adds_eos` are None where the file leaves them to the kind
    of vocabulary.
    """

    source: object
    model: str
    pre: str
    tokens: PackedTexts
    types: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32] | None
    merges: PackedTexts
    bos_token_id: int | None
    eos_token_id: int | None
    unknown_token_id: int | None
    stop_token_ids: frozenset[int]
    adds_bos: bool | None
    adds_eos: bool | None
    adds_space_prefix: bool | None
    fim_token_ids: tuple[int, int, int] | None = None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], source: object) -> Vocabulary:
        section = _Section(metadata, source)
        model = section.text("model")
        if model not in MODELS:
            raise section.error("model", f"{model!r}", f"one of {', '.join(MODELS)}")
        tokens = section.texts("tokens")
        if not 1 <= len(tokens) <= MAX_VOCAB:
            raise section.error("tokens", f"{len(tokens)} strings", f"1 to {MAX_VOCAB}")
        ids = {name: section.token_id(f"{name}_token_id", len(tokens)) for name in _IDS}
        types = _types(section, tokens, [id_ for id_ in ids.values() if id_ is not None])
        return cls(
            source=source,
            model=model,
            pre=section.text("pre", default=""),
            tokens=tokens,
            types=types,
            scores=section.numbers("scores", len(tokens), np.float32),
            merges=section.texts("merges", default=PackedTexts.pack(())),
            bos_token_id=ids["bos"],
            eos_token_id=ids["eos"],
            unknown_token_id=ids["unknown"],
            stop_token_ids=_stop_ids(tokens, types, ids),
            adds_bos=section.truth("add_bos_token"),
            adds_eos=section.truth("add_eos_token"),
            adds_space_prefix=section.truth("add_space_prefix"),
            fim_token_ids=_fim_ids(section, tokens, types),
        )

    def ids_of(self, *types: TokenType) -> list[int]:
        """Ids of these types, ascending."""
        found: list[int] = np.flatnonzero(np.isin(self.types, types)).tolist()
        return found


_IDS = ("bos", "eos", "eot", "eom", "unknown", "padding")
_ENDS = ("eos", "eot", "eom")


def _types(section: _Section, tokens: PackedTexts, named: list[int]) -> npt.NDArray[np.int32]:
    """The file's types; what it names as bos, eos, ... is a control token whatever its type."""
    given = section.numbers("token_type", len(tokens), np.int32)
    types = np.full(len(tokens), TokenType.NORMAL, np.int32) if given is None else given.copy()
    outside = np.flatnonzero((types < TokenType.NORMAL) | (types > TokenType.BYTE))
    if outside.size:
        raise section.error("token_type", f"{types[outside[0]]} at {outside[0]}", "1 to 6")
    types[[id_ for id_ in named if types[id_] != TokenType.UNKNOWN]] = TokenType.CONTROL
    return types


def _stop_ids(
    tokens: PackedTexts, types: npt.NDArray[np.int32], ids: Mapping[str, int | None]
) -> frozenset[int]:
    named = {ids[name] for name in _ENDS}
    controls = np.flatnonzero(types == TokenType.CONTROL).tolist()
    spelled = {id_ for id_ in controls if tokens[id_] in END_OF_TURN_SPELLINGS}
    return frozenset(spelled | {id_ for id_ in named if id_ is not None})


def _fim_ids(
    section: _Section, tokens: PackedTexts, types: npt.NDArray[np.int32]
) -> tuple[int, int, int] | None:
    """As the file names them, or else as they are spelled."""
    prefix, suffix, middle = (
        section.token_id(f"fim_{part}_token_id", len(tokens)) for part in ("pre", "suf", "mid")
    )
    if prefix is not None and suffix is not None and middle is not None:
        return prefix, suffix, middle
    markers = np.flatnonzero(np.isin(types, (TokenType.CONTROL, TokenType.USER_DEFINED))).tolist()
    spelled = {tokens[id_]: id_ for id_ in markers}
    for before, after, gap in FIM_SPELLINGS:
        if spelled.keys() >= {before, after, gap}:
            return spelled[before], spelled[after], spelled[gap]
    return None


class _Section:
    """Typed access to the keys below `tokenizer.ggml.`."""

    def __init__(self, metadata: Mapping[str, object], source: object) -> None:
        self._metadata = metadata
        self._source = source

    def error(self, name: str, given: str, allowed: str) -> TokenizerError:
        return TokenizerError(
            f"{self._source}: tokenizer.ggml.{name} is {given}; {allowed} is supported"
        )

    def get(self, name: str) -> object:
        return self._metadata.get(f"tokenizer.ggml.{name}")

    def text(self, name: str, *, default: str | None = None) -> str:
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.error(name, _kind(value), "a string")
        return value

    def texts(self, name: str, *, default: PackedTexts | None = None) -> PackedTexts:
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, PackedTexts):
            raise self.error(name, _kind(value), "an array of strings")
        return value

    def truth(self, name: str) -> bool | None:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, _kind(value), "true or false")
        return value

    def token_id(self, name: str, vocab_size: int) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < vocab_size:
            given = str(value) if isinstance(value, int) else _kind(value)
            raise self.error(name, given, f"a token id below {vocab_size}")
        return value

    def numbers(self, name: str, count: int, dtype: type[Number]) -> npt.NDArray[Number] | None:
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, np.ndarray) or value.shape != (count,):
            raise self.error(name, _kind(value), f"an array of {count} numbers")
        if value.dtype != dtype or (dtype is np.float32 and not np.isfinite(value).all()):
            raise self.error(name, _kind(value), f"finite {np.dtype(dtype).name} values")
        return value


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, PackedTexts | np.ndarray):
        return f"an array of {len(value)}"
    return f"a {type(value).__name__}"
