"""Admission on the wire: what a request demands, its deadline and its priority, and who listens.

The decision itself is `scheduler.admission`'s. Knows no route.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from octavo.config.server import MAX_TIMEOUT_SECONDS
from octavo.config.tenants import TenantLimits
from octavo.core.outputs import EngineOutputs
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.client import EngineObserver
from octavo.engine.input_processor import strings_in
from octavo.engine.step_log import StepLog
from octavo.errors import InvalidRequest, UnsupportedParameter
from octavo.scheduler.admission.admission import Admission
from octavo.scheduler.admission.demand import Demand
from octavo.scheduler.admission.estimates import num_text_bytes

TIMEOUT_HEADER = "X-Request-Timeout"


class FrontObserver:
    """An `EngineObserver`: tells another one, lets admission learn, and logs steps."""

    def __init__(self, observer: EngineObserver, admission: Admission, steps: StepLog) -> None:
        self._observer = observer
        self._admission = admission
        self._steps = steps

    def submitted(self, request: EngineRequest) -> None:
        self._observer.submitted(request)

    def stepped(self, outputs: EngineOutputs) -> None:
        self._admission.load = outputs.stats
        self._steps.add(outputs.steps)
        for _, _, times in outputs.finished:
            self._admission.estimates.finished(times)
        self._observer.stepped(outputs)

    def lost(self, request_ids: Iterable[str]) -> None:
        self._observer.lost(request_ids)


def demand_of(
    prompts: Sequence[object], params: SamplingParams, deadline: float | None, priority: int
) -> Demand:
    """A prompt is a text, token ids, or messages."""
    num_bytes = num_ids = 0
    for prompt in prompts:
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
            num_ids += len(prompt)
        else:
            num_bytes += sum(map(num_text_bytes, strings_in(prompt)))
    return Demand(
        num_sequences=params.num_sequences * len(prompts),
        num_text_bytes=num_bytes,
        num_prompt_ids=num_ids,
        max_output_tokens=params.max_tokens,
        min_output_tokens=_least_tokens(params),
        deadline=deadline,
        priority=priority,
    )


def _least_tokens(params: SamplingParams) -> int:
    """What a sequence generates at least."""
    stops = (params.stop_strings, params.stop_regexes, params.stop_token_ids)
    if params.ignore_eos and not any(stops):
        return params.max_tokens or params.min_tokens
    return params.min_tokens


def deadline_of(
    arrival_time: float, given: float | None, header: str | None, default: float | None
) -> float | None:
    """When the answer must be complete: the earlier of what body and header say, else the server's
    default; None is never. Raises `InvalidRequest`."""
    timeouts = []
    if given is not None:
        _check_timeout(given, "timeout", param="timeout")
        timeouts.append(given)
    if header is not None:
        timeouts.append(_header_seconds(header))
    if not timeouts and default is not None:
        timeouts.append(default)
    return arrival_time + min(timeouts) if timeouts else None


def _header_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    _check_timeout(seconds, f"the header {TIMEOUT_HEADER}", shown=text)
    return seconds


def _check_timeout(
    seconds: float, name: str, *, shown: str | None = None, param: str | None = None
) -> None:
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        given = f"{seconds:g}" if shown is None else repr(shown[:32])
        raise InvalidRequest(
            f"{name} is {given}; seconds above 0 and up to {MAX_TIMEOUT_SECONDS} are allowed",
            param=param,
        )


def priority_of(given: int | None, limits: TenantLimits, *, is_used: bool) -> int:
    """The request's priority, within its tenant's bounds. Raises `InvalidRequest`, and
    `UnsupportedParameter` if the server's policy would ignore it."""
    low, high = limits.min_priority, limits.max_priority
    if given is None or (given == 0 and not is_used):
        return min(max(0, low), high)
    if not is_used:
        raise UnsupportedParameter(
            f"priority is {given}; only 0 is allowed unless the server runs with "
            "--scheduling-policy priority or --reserve-high-priority",
            param="priority",
            code="unsupported_parameter",
        )
    if not low <= given <= high:
        raise InvalidRequest(
            f"priority is {given}; from {low} to {high} is allowed for this tenant",
            param="priority",
        )
    return given
