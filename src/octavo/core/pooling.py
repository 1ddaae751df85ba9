"""How a sequence becomes one vector: what a client may wish, and what was decided for a request.

Knows no model: the bounds of `dimensions` are checked by whoever knows the model's width.
"""

from __future__ import annotations

import typing
from typing import Literal

import msgspec

from octavo.core.ranges import check_integer
from octavo.errors import InvalidRequest

PoolingType = Literal["mean", "last", "cls"]
POOLING_TYPES: tuple[PoolingType, ...] = typing.get_args(PoolingType)


class PoolingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Names are vLLM's. None leaves a choice to the engine's options.

    `truncate_prompt_tokens` keeps so many tokens of a longer prompt, -1 as many as the context
    holds: the last ones, or with `truncation_side` "right" the first. `dimensions` cuts the vector
    to its first numbers (Kusupati et al. 2022). `normalize`, also called `use_activation`, makes
    its length 1. Raises `InvalidRequest` naming the first bad field.
    """

    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] = "left"
    dimensions: int | None = None
    normalize: bool | None = None
    use_activation: bool | None = None

    def __post_init__(self) -> None:
        if self.truncate_prompt_tokens != -1 and self.truncate_prompt_tokens is not None:
            check_integer("truncate_prompt_tokens", self.truncate_prompt_tokens, 1, 2**31 - 1)
        if self.truncation_side not in ("left", "right"):
            raise InvalidRequest(
                f"truncation_side is {self.truncation_side!r}; 'left' or 'right' is allowed",
                param="truncation_side",
            )
        if self.dimensions is not None:
            check_integer("dimensions", self.dimensions, 1, 2**31 - 1)
        if None not in (self.normalize, self.use_activation) and (
            self.normalize != self.use_activation
        ):
            raise InvalidRequest(
                f"normalize is {self.normalize} and use_activation {self.use_activation}; they are"
                " one wish",
                param="normalize",
            )

    def truncated(self, token_ids: list[int], max_model_len: int) -> list[int]:
        """What is left of a prompt. One that stays too long is for somebody else to refuse."""
        limit = self.truncate_prompt_tokens
        most = max_model_len if limit == -1 else limit
        if most is None or len(token_ids) <= most:
            return token_ids
        return token_ids[-most:] if self.truncation_side == "left" else token_ids[:most]


class Pooling(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the hidden states of one sequence, after the model's last norm: their mean,
    that of the last token or that of the first; its first `dimensions` numbers; then divided by
    their Euclidean length if `normalize`."""

    method: PoolingType
    normalize: bool
    dimensions: int

    @property
    def needs_every_token(self) -> bool:
        """Whether a token whose keys and values are cached has to be computed all the same."""
        return self.method != "last"


class Pooler(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine does where a request leaves it open. `hidden_size` is the model's width."""

    method: PoolingType
    normalize: bool
    dimensions: int
    hidden_size: int

    def pooling(self, params: PoolingParams) -> Pooling:
        """Raises `InvalidRequest` for more dimensions than the model has."""
        if params.dimensions is not None:
            check_integer("dimensions", params.dimensions, 1, self.hidden_size)
        wishes = (params.normalize, params.use_activation, self.normalize)
        return Pooling(
            method=self.method,
            normalize=next(wish for wish in wishes if wish is not None),
            dimensions=params.dimensions or self.dimensions,
        )
