"""Renders chat messages with the model file's own template, in a cage. Makes text, no token ids.

Semantics are those that published templates are written for (jinja2 with trimmed blocks, loop
controls, `raise_exception`, `strftime_now`, `tojson` that keeps Unicode); limits are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import jinja2
from jinja2 import meta, nodes

from octavo.config.front_limits import FrontLimits
from octavo.core.packed_texts import PackedTexts
from octavo.errors import TemplateError, TokenizerError
from octavo.tokenization.messages import Message, map_texts, prepare_messages
from octavo.tokenization.template_budget import Budget
from octavo.tokenization.template_cage import MAX_TEMPLATE_CHARS, TemplateCage
from octavo.tokenization.template_filters import BUDGET, time_formatter

OUTPUT_FACTOR: Final = 4
"""A rendering may be so many times longer than the messages, and some characters more."""

DEFAULT_LIMITS: Final = FrontLimits()
_KEY: Final = "tokenizer.chat_template"
_SPECIAL_TOKENS: Final = ("bos", "eos", "unknown", "padding")
_VARIABLES: Final = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTemplate:
    """Thread-safe. Raises `TemplateError` at once if the template uses what the cage forbids.
    `variables` are the names that it asks for.

    `special_tokens` maps variables such as "bos_token" to spellings. `now` is the clock of
    `strftime_now`. With `keeps_parts` a message's content may be a list of parts, without it is one
    text; None: as the template looks.
    """

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        *,
        now: Callable[[], datetime] = datetime.now,
        limits: FrontLimits = DEFAULT_LIMITS,
        keeps_parts: bool | None = None,
    ) -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise TemplateError(
                f"the chat template has {len(source)} characters; {MAX_TEMPLATE_CHARS} are allowed"
            )
        cage = TemplateCage()
        cage.globals["strftime_now"] = time_formatter(now)
        try:
            tree = cage.parse(source)
            self.variables = frozenset(meta.find_undeclared_variables(tree))
            loops = _loops_over_content(tree)
            self._keeps_parts = loops if keeps_parts is None else keeps_parts
            self._template = cage.from_string(tree)
        except TemplateError:
            raise
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"line {error.lineno} of the chat template: {error.message}"
            ) from None
        except (RecursionError, MemoryError, SyntaxError):
            raise TemplateError("the chat template is nested too deeply") from None
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._limits = limits

    @classmethod
    def from_gguf(
        cls,
        metadata: Mapping[str, object],
        source: object = "model file",
        *,
        text: str | None = None,
        limits: FrontLimits = DEFAULT_LIMITS,
        keeps_parts: bool | None = None,
    ) -> ChatTemplate | None:
        """The template of a model file, None if it has none; or another `text` with the file's
        special tokens. `source` names what holds it in errors.

        Raises `TokenizerError`: a template that cannot be used is the file's fault, no client's.
        """
        found: object = text
        if found is None:
            found, source = metadata.get(_KEY), f"{source}: {_KEY}"
        if found is None:
            return None
        if not isinstance(found, str):
            kind = type(found).__name__
            raise TokenizerError(f"{source} is of type {kind}; a text is allowed")
        tokens = metadata.get("tokenizer.ggml.tokens")
        special = {}
        for name, variable in zip(_SPECIAL_TOKENS, _VARIABLES, strict=True):
            token_id = metadata.get(f"tokenizer.ggml.{name}_token_id")
            if not isinstance(tokens, PackedTexts) or not isinstance(token_id, int):
                continue
            if 0 <= token_id < len(tokens):
                special[variable] = tokens[token_id]
        try:
            return cls(found, special, limits=limits, keeps_parts=keeps_parts)
        except TemplateError as error:
            raise TokenizerError(f"{source}: {error.message}") from None

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        **kwargs: object,
    ) -> str:
        """The prompt. `kwargs` are further variables (`tools`, `documents`, switches of the model).

        Raises `TemplateError` with the template's own reason if it refuses the messages, and if it
        fails or breaks a limit.
        """
        for name in kwargs:
            if name.startswith("_") or name in _VARIABLES or " " in name:
                raise TemplateError(f"{name!r} cannot be set for a chat template", param=name)
        prepared = prepare_messages(
            messages,
            keeps_parts=self._keeps_parts,
            knows_developer="developer" in self.source,
        )
        budget = self._budget([prepared, kwargs])
        variables = {
            "tools": None,
            "documents": None,
            **self._special_tokens,
            **kwargs,
            "messages": prepared,
            "add_generation_prompt": add_generation_prompt,
            BUDGET: budget,
        }
        try:
            return self._run(variables, budget)
        except TemplateError:
            raise
        except jinja2.TemplateError as error:
            raise TemplateError(f"the chat template: {error.message}", param="messages") from None
        except Exception as error:  # whatever the template's own arithmetic raises
            raise TemplateError(
                f"the chat template failed: {type(error).__name__}: {error!s:.300}",
                param="messages",
            ) from None

    def _budget(self, given: Sequence[object]) -> Budget:
        limits = self._limits
        return Budget(OUTPUT_FACTOR * _num_chars(given) + limits.template_output_chars, limits)

    def _run(self, variables: Mapping[str, object], budget: Budget) -> str:
        chunks: list[str] = []
        num_chars = 0
        for chunk in self._template.generate(variables):
            num_chars += len(chunk)
            budget.chars(num_chars)
            chunks.append(chunk)
        return "".join(chunks)


def _num_chars(value: object) -> int:
    count = 0

    def add(text: str) -> str:
        nonlocal count
        count += len(text)
        return text

    map_texts(value, add)
    return count


def _loops_over_content(tree: nodes.Template) -> bool:
    """Whether the template takes a message's content as a list of parts: it loops over it."""
    return any(_is_content(loop.iter) for loop in tree.find_all(nodes.For))


def _is_content(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Name):
        return node.name == "content"
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    return (
        isinstance(node, nodes.Getitem)
        and isinstance(node.arg, nodes.Const)
        and node.arg.value == "content"
    )
