"""Text to token ids and back: vocabulary, detokeniser, stop strings, chat template.

Imports nothing: the engine's own process turns ids into text, and needs neither the tokenizer
library nor the template engine for that.
"""
