"""Upper bounds of the histograms' buckets: as vLLM's dashboards expect, finer at the bottom."""

from __future__ import annotations

FIRST_TOKEN_SECONDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
BETWEEN_TOKENS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
    5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_SECONDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SEQUENCES = (1, 2, 5, 10, 20)


def token_buckets(max_tokens: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, ... up to `max_tokens`."""
    bounds = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
    return tuple(bound for bound in bounds if bound <= max_tokens) or (1,)
