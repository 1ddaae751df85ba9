"""Byte-level BPE ("gpt2" in GGUF): every byte is a printable character, words are merged by rank.

Scheme: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.2.
Control tokens are left out of the model on purpose: no text can be merged into one.
"""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers import models, pre_tokenizers

from octavo.errors import TokenizerError
from octavo.tokenization.split_rules import SPLIT_RULES, SplitRule
from octavo.tokenization.vocabulary import TokenType, Vocabulary


def split_rule(vocabulary: Vocabulary) -> SplitRule:
    rule = SPLIT_RULES.get(vocabulary.pre)
    if rule is None:
        known = ", ".join(name for name in SPLIT_RULES if name)
        raise TokenizerError(
            f"{vocabulary.source}: tokenizer.ggml.pre is {vocabulary.pre!r}, which is not known; "
            f"known: {known}"
        )
    return rule


def byte_level_tokenizer(vocabulary: Vocabulary, hidden: Iterable[int]) -> tokenizers.Tokenizer:
    """Encodes plain text. Tokens of the ids `hidden` cannot come out.

    A byte for which the vocabulary has no token (real ones lack some control characters) is left
    out of the ids: the model was never shown one.
    """
    rule = split_rule(vocabulary)
    ids = {token: id_ for id_, token in enumerate(vocabulary.tokens)}
    for id_ in hidden:
        ids.pop(vocabulary.tokens[id_], None)
    try:
        model = models.BPE(ids, _merges(vocabulary), ignore_merges=rule.whole_words)
    except Exception as error:  # the library raises nothing more precise
        raise TokenizerError(f"{vocabulary.source}: tokenizer.ggml.merges: {error}") from None
    tokenizer = tokenizers.Tokenizer(model)
    splits = [
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") for pattern in rule.patterns
    ]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    return tokenizer


def _merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    if not vocabulary.merges:
        raise TokenizerError(f"{vocabulary.source}: tokenizer.ggml.merges is missing or empty")
    parts = [merge.partition(" ") for merge in vocabulary.merges]
    if not all(map(all, parts)):
        index = next(index for index, part in enumerate(parts) if not all(part))
        raise TokenizerError(
            f"{vocabulary.source}: tokenizer.ggml.merges[{index}] is "
            f"{vocabulary.merges[index]!r:.80}; two tokens with a space between them are needed"
        )
    return [(left, right) for left, _, right in parts]


def is_marker(token: str, token_type: int) -> bool:
    """Whether a token of a byte-level vocabulary is matched only where control tokens are.

    Control tokens are, and user-defined ones spelled in brackets, such as <tool_call>: user text
    must not spell them by accident. Other user-defined tokens (runs of spaces) are ordinary text.
    """
    if token_type == TokenType.USER_DEFINED:
        return len(token) > 2 and token[0] in "<[" and token[-1] in ">]"
    return token_type in (TokenType.CONTROL, TokenType.UNKNOWN)
