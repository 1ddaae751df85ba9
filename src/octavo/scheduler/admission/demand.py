"""What a request asks for, what a server allows, and what becomes of the request: plain data."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.errors import RefusalCode
from octavo.scheduler.admission.queue_order import Place
from octavo.scheduler.admission.tenant_table import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionBounds:
    """The server's own. A request larger than all of a bound may come when nothing else is there.

    `num_slots` sequences run at the same time, `max_sequences` may be open: slots and queue.
    """

    num_slots: int
    max_sequences: int
    max_queued_tokens: int | None = None
    max_queue_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a request asks for. Bytes of text are estimated as tokens, `num_prompt_ids` are exact.

    `max_output_tokens` and `min_output_tokens` are of each sequence; None is no limit. `is_unread`
    stands for whatever its tenant may ask for, however urgent.
    """

    num_sequences: int = 1
    num_text_bytes: int = 0
    num_prompt_ids: int = 0
    max_output_tokens: int | None = 0
    min_output_tokens: int = 0
    deadline: float | None = None
    priority: int = 0
    is_unread: bool = False


LEAST_DEMAND = Demand(num_prompt_ids=1, is_unread=True)
"""What is refused to this is refused to any request: it need not even be read."""


@dataclass(frozen=True, slots=True)
class Refusal:
    code: RefusalCode
    message: str
    retry_after_seconds: int


@dataclass(slots=True, eq=False)
class Grant:
    """An admitted request, until `Admission.close`. Tokens are estimates until `tokenised`."""

    tenant: Tenant
    demand: Demand
    place: Place
    num_output_tokens: int
    num_charged_tokens: float = 0
    expected_end: float = 0
    is_tokenised: bool = False
    is_queued: bool = False
    is_open: bool = True

    @property
    def num_sequences(self) -> int:
        return self.place.num_sequences

    @property
    def num_prompt_tokens(self) -> int:
        return self.place.ticket.num_prompt_tokens
