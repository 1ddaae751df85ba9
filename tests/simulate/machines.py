"""A machine for tests whose times can be computed by hand, and short ways to a simulation."""

from __future__ import annotations

from collections.abc import Sequence

from octavo.config.engine import EngineConfig
from octavo.core.step_load import StepLoad
from octavo.simulate.cluster import Source
from octavo.simulate.simulation import Run, Setup, simulate
from octavo.simulate.trace import TraceRequest


class LinearTimes:
    """A step takes `fixed` seconds and `per_token` for each token."""

    def __init__(
        self,
        fixed: float = 0.01,
        per_token: float = 0.001,
        request_seconds: float = 0.0,
        arrival_seconds: float = 0.0,
    ) -> None:
        self._fixed = fixed
        self._per_token = per_token
        self.request_seconds = request_seconds
        self.arrival_seconds = arrival_seconds
        self.assumptions = ["linear"]

    def seconds(self, load: StepLoad) -> float:
        return self._fixed + self._per_token * load.num_tokens


def request(
    at: float = 0.0,
    prompt: int = 20,
    answer: int = 5,
    *,
    tenant: str = "",
    priority: int = 0,
    prefix: tuple[tuple[int, int], ...] = (),
    max_tokens: int | None = None,
    timeout: float | None = None,
) -> TraceRequest:
    return TraceRequest(
        arrival_seconds=at,
        num_prompt_tokens=prompt,
        num_answer_tokens=answer,
        tenant=tenant,
        priority=priority,
        prefix=prefix,
        max_tokens=max_tokens,
        timeout_seconds=timeout,
    )


def engine(
    *,
    max_num_seqs: int = 8,
    max_num_batched_tokens: int = 64,
    **options: object,
) -> EngineConfig:
    return EngineConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=4096,
        **options,  # type: ignore[arg-type]
    )


def run_of(
    requests: Sequence[TraceRequest],
    config: EngineConfig | None = None,
    *,
    num_pages: int = 1000,
    times: LinearTimes | None = None,
    num_replicas: int = 1,
    clients: int | None = None,
    **changes: object,
) -> Run:
    """`changes` are of the setup."""
    setup = Setup(
        times=times or LinearTimes(),
        num_pages=num_pages,
        engine=config or engine(),
        num_replicas=num_replicas,
        **changes,  # type: ignore[arg-type]
    )
    return simulate(setup, Source(requests, clients))
