"""Which layers of a model share pages, by their windows, and what a page then takes in bytes.

Layers that see all of a text and layers that see a window of it stand in different *groups*, so
that a window's pages can be given back. Every group has equally many layers, on *shelves* of a
page, so that pages are of one size whichever group they serve (the idea is that of
arXiv:2503.18292); a group that has fewer leaves shelves empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from octavo.core.model_config import LayerConfig, ModelConfig
from octavo.core.page_groups import PageGroups
from octavo.core.sequence import PAGE_TOKENS

MAX_GROUPS = 8
"""Each group costs a page's worth of bookkeeping per stripe."""


@dataclass(frozen=True, slots=True)
class PagePlan:
    """`places` are (group, shelf) of each layer. `page_bytes`: keys and values of one page."""

    groups: PageGroups
    places: tuple[tuple[int, int], ...]
    page_bytes: int

    def sequence_bytes(self, num_tokens: int) -> int:
        """What a sequence of so many tokens needs while it is computed."""
        return self.page_bytes * self.groups.num_pages(self.groups.num_stripes(num_tokens))

    def max_tokens(self, num_bytes: int, limit: int) -> int:
        """The longest sequence that so many bytes hold; at most `limit`."""
        return self.groups.max_tokens(num_bytes // self.page_bytes, limit)


def plan_pages(
    model: ModelConfig, kv_cache_dtype: str, max_model_len: int, max_step_tokens: int
) -> PagePlan:
    """Of all groups' sizes the one with which an answer of `max_model_len` tokens takes least; of
    equals, that with the fewest groups.

    Windows that are not narrower count as full attention: they give nothing back.
    """
    windows = [_window_within(layer, max_model_len) for layer in model.layers]
    plans = [
        PagePlan(PageGroups(of_groups, PAGE_TOKENS, max_step_tokens), places, page_bytes)
        for of_groups, places in _groupings(windows)
        for page_bytes in (_page_bytes(model.layers, places, kv_cache_dtype),)
    ]
    num_full = max_model_len // PAGE_TOKENS
    return min(plans, key=lambda plan: (_held_bytes(plan, num_full), plan.groups.num))


def _window_within(layer: LayerConfig, max_model_len: int) -> int:
    return layer.sliding_window if layer.sliding_window < max_model_len else 0


Places = tuple[tuple[int, int], ...]


def _groupings(windows: list[int]) -> Iterator[tuple[tuple[int, ...], Places]]:
    """Windows of the groups and places of the layers: all in one, and by size of group."""
    yield (0,), tuple((0, shelf) for shelf in range(len(windows)))
    order = sorted(set(windows), key=lambda window: (window > 0, -window))
    for size in range(1, len(windows) + 1):
        of_groups: list[int] = []
        places = [(0, 0)] * len(windows)
        for window in order:
            layers = [layer for layer, own in enumerate(windows) if own == window]
            for number, layer in enumerate(layers):
                places[layer] = (len(of_groups) + number // size, number % size)
            of_groups += [window] * -(-len(layers) // size)
        if len(of_groups) <= MAX_GROUPS:
            yield tuple(of_groups), tuple(places)


def _page_bytes(layers: tuple[LayerConfig, ...], places: Places, kv_cache_dtype: str) -> int:
    """A shelf takes what its largest layer takes."""
    shelves: dict[int, int] = {}
    for layer, (_, shelf) in zip(layers, places, strict=True):
        token_bytes = layer.kv_bytes_per_token(kv_cache_dtype)
        shelves[shelf] = max(token_bytes, shelves.get(shelf, 0))
    return PAGE_TOKENS * sum(shelves.values())


def _held_bytes(plan: PagePlan, num_full: int) -> int:
    """What a sequence holds that decodes behind so many stripes."""
    groups = plan.groups
    starts = (groups.first_kept(group, num_full) for group in range(groups.num))
    return plan.page_bytes * sum(num_full + 1 - start for start in starts)
