"""How byte-level vocabularies cut text into words before merging, by the name the file gives.

Each rule is a sequence of regular expressions in Oniguruma's dialect, applied one after the other:
every match and every gap becomes a piece, and the next expression looks at each piece alone. The
names are those of `tokenizer.ggml.pre`; the expressions are published with the models' tokenizers.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class SplitRule:
    """`whole_words`: a word that is a token as it stands is not merged from its parts.

    `adds_bos` stands where the file does not say.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False


_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_QWEN2 = rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SYMBOLS}|{_SPACES}"
_QWEN35 = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_LLAMA3 = rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_SYMBOLS}|{_SPACES}"

_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_PATHS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_TEKKEN = rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}|{_PATHS}|{_SPACES}"
_GPT4O = (
    rf"{_BEFORE}{_UPPER}*{_LOWER}+{_SUFFIX}?|{_BEFORE}{_UPPER}+{_LOWER}*{_SUFFIX}?"
    rf"|\p{{N}}{{1,3}}|{_PATHS}|{_SPACES}"
)
_CJK = "[一-龥\u0800-一가-\ud7ff]+"
_DEEPSEEK3_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_FALCON_SYMBOLS = r"[\p{P}\$\+<=>\^~\|`]+"

_PLAIN = SplitRule((_GPT2,))
_DIGITS = SplitRule((r"\p{N}", _GPT2))
_LLAMA3_WHOLE = SplitRule((_LLAMA3,), whole_words=True, adds_bos=True)

SPLIT_RULES: Final = MappingProxyType(
    {
        "": _PLAIN,
        "default": _PLAIN,
        "gpt-2": _PLAIN,
        "gigachat": _PLAIN,
        "jais": _PLAIN,
        "jina-de": _PLAIN,
        "jina-en": _PLAIN,
        "jina-es": _PLAIN,
        "mpt": _PLAIN,
        "olmo": _PLAIN,
        "phi-2": _PLAIN,
        "roberta-bpe": _PLAIN,
        "trillion": _PLAIN,
        "codeshell": _DIGITS,
        "command-r": _DIGITS,
        "exaone": _DIGITS,
        "minerva-7b": _DIGITS,
        "refact": _DIGITS,
        "smollm": _DIGITS,
        "starcoder": _DIGITS,
        "deepseek-r1-qwen": SplitRule((_QWEN2,)),
        "hunyuan": SplitRule((_QWEN2,)),
        "megrez": SplitRule((_QWEN2,)),
        "qwen2": SplitRule((_QWEN2,)),
        "qwen35": SplitRule((_QWEN35,)),
        "stablelm2": SplitRule((_QWEN2,)),
        "falcon-h1": _LLAMA3_WHOLE,
        "falcon3": _LLAMA3_WHOLE,
        "lfm2": _LLAMA3_WHOLE,
        "llama-bpe": _LLAMA3_WHOLE,
        "llama-v3": _LLAMA3_WHOLE,
        "llama3": _LLAMA3_WHOLE,
        "pixtral": _LLAMA3_WHOLE,
        "chatglm-bpe": SplitRule((_LLAMA3,)),
        "dbrx": SplitRule((_LLAMA3,)),
        "glm4": SplitRule((_LLAMA3,)),
        "smaug-bpe": SplitRule((_LLAMA3,)),
        "tekken": SplitRule((_TEKKEN,), whole_words=True, adds_bos=True),
        "gpt-4o": SplitRule((_GPT4O,)),
        "llama4": SplitRule((_GPT4O,)),
        "deepseek-coder": SplitRule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
        "deepseek-v3": SplitRule((r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", _DEEPSEEK3_WORDS)),
        "hunyuan-dense": SplitRule((r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", _DEEPSEEK3_WORDS)),
        "bloom": SplitRule((_BLOOM,)),
        "gpt3-finnish": SplitRule((_BLOOM,)),
        "poro-chat": SplitRule((_BLOOM,)),
        "viking": SplitRule((_BLOOM, r"\p{N}")),
        "falcon": SplitRule((_FALCON_SYMBOLS, _GPT2, "[0-9][0-9][0-9]")),
    }
)
