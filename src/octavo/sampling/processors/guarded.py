"""Processors that may be wrong, in an engine that must go on: what they do is checked.

An exception or an impossible row ends the request that asked, with an error, and no other. A call
that never returns is beyond it. Knows no batch: one row at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from octavo.core.processor_call import ProcessorCall
from octavo.errors import InvalidRequest
from octavo.sampling.processors.contract import Logits, LogitsProcessor, TokenIds

logger = logging.getLogger(__name__)

MAX_REASON_CHARS = 300


class ProcessorFailed(Exception):
    """The text is for the client."""


class GuardedProcessors:
    """All processors of a process, by name."""

    def __init__(self, processors: Mapping[str, LogitsProcessor]) -> None:
        self._processors = dict(processors)

    def check(self, calls: Sequence[ProcessorCall]) -> None:
        """Whether a request may ask for these. Raises `InvalidRequest`."""
        for call in calls:
            processor = self._processors.get(call.qualname)
            if processor is None:
                known = ", ".join(self._processors) or "none: see --logits-processors"
                raise _refused(f"has {call.qualname[:64]!r}; this server has {known}")
            try:
                processor.check(MappingProxyType(call.kwargs))
            except ValueError as error:
                raise _refused(f": {call.qualname}: {error!s:.{MAX_REASON_CHARS}}") from None
            except Exception:
                logger.exception("the logits processor %s failed to check", call.qualname)
                raise _refused(f": {call.qualname} cannot judge these kwargs") from None

    def changed(
        self,
        row: Logits,
        token_ids: TokenIds,
        num_prompt_tokens: int,
        calls: Sequence[ProcessorCall],
    ) -> tuple[TokenIds, Logits]:
        """The tokens whose logits `calls` change, and by how much. `row` itself stays as it is.

        Raises `ProcessorFailed`.
        """
        tokens = token_ids.view()
        tokens.flags.writeable = False
        changed = row.copy()
        for call in calls:
            try:
                self._processors[call.qualname].apply(
                    changed, tokens, num_prompt_tokens, MappingProxyType(call.kwargs)
                )
            except Exception:
                logger.exception("the logits processor %s failed on a request", call.qualname)
                raise ProcessorFailed(
                    f"the logits processor {call.qualname} failed on this request; the server's log"
                    " has the details"
                ) from None
            _check_row(call.qualname, row, changed)
        ids = np.flatnonzero((changed != row) & ~np.isnan(row)).astype(np.int32)
        return ids, changed[ids] - row[ids]


def _check_row(name: str, row: Logits, changed: Logits) -> None:
    """Where the model itself has no number, or excludes a token, nothing can be changed."""
    bad = ~(changed < np.inf) & ~np.isnan(row)
    what = ""
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        what = f"made the logit of token {at} {changed[at]}"
    elif ((row == -np.inf) & (changed != row)).any():
        what = "allowed a token that the model excludes"
    elif not (changed > -np.inf).any():
        what = "left no token to choose"
    if what:
        logger.error("the logits processor %s %s", name, what)
        raise ProcessorFailed(f"the logits processor {name} {what}")


def _refused(what: str) -> InvalidRequest:
    space = "" if what.startswith(":") else " "
    return InvalidRequest(f"logits_processors{space}{what}", param="logits_processors")
