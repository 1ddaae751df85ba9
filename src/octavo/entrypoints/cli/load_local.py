"""From options to a model that is loaded in this process, with a progress bar on the way."""

from __future__ import annotations

from octavo.config.engine import EngineConfig
from octavo.entrypoints.local import LocalEngine
from octavo.entrypoints.progress import counting_bar


def load(config: EngineConfig) -> LocalEngine:
    with counting_bar("Loading") as report:
        return LocalEngine(config, report)
