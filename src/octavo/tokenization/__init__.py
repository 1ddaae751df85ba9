"""Text to token ids and back: vocabulary, detokeniser, stop strings, chat template."""

from octavo.tokenization.chat import encode_chat
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.detokenizer import Detokenizer
from octavo.tokenization.stop_matcher import StopMatcher, StopResult
from octavo.tokenization.tokenizer import Tokenizer

__all__ = [
    "ChatTemplate",
    "Detokenizer",
    "StopMatcher",
    "StopResult",
    "Tokenizer",
    "encode_chat",
]
