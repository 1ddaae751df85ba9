"""The door to stop regexes: the grammar library behind them takes a tenth of a second to load, so
it loads with the first request that has one. Knows no request but its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.core.sampling_params import SamplingParams

if TYPE_CHECKING:
    from octavo.structured.stop_regex import StopRegexes


def check_stop_regexes(params: SamplingParams) -> None:
    """Raises `InvalidRequest` for what is no regex, or none that can be looked for."""
    if params.stop_regexes:
        from octavo.structured.stop_regex import check_stop_regex

        for pattern in params.stop_regexes:
            check_stop_regex(pattern)


def stop_regexes(params: SamplingParams) -> StopRegexes | None:
    """Those of one text, at its beginning; None without any."""
    if not params.stop_regexes:
        return None
    from octavo.structured.stop_regex import StopRegexes

    return StopRegexes(params.stop_regexes)
