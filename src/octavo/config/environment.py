"""The only reader of the process environment: `OCTAVO_*` variables and the place of the cache.

Knows names and raw texts; what a text means is decided by `config.options`.
"""

from __future__ import annotations

import os
from pathlib import Path

from octavo.errors import ConfigError

PREFIX = "OCTAVO_"
NOT_OPTIONS = frozenset({"OCTAVO_CACHE_DIR", "OCTAVO_TEST_MODELS"})
"""Variables of ours that are no flag."""

INJECTED = ("OCTAVO_SERVICE_", "OCTAVO_PORT_")
"""Kubernetes sets these for a service called "octavo"; they are not meant for us."""


def cache_folder() -> Path:
    """Where fetched models are kept: OCTAVO_CACHE_DIR, else `octavo` in the user's cache folder."""
    if chosen := os.environ.get("OCTAVO_CACHE_DIR"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "octavo"


def test_models_folder() -> Path | None:
    """The folder of large models that only tests use, if this machine has one."""
    chosen = os.environ.get("OCTAVO_TEST_MODELS")
    return Path(chosen) if chosen else None


def api_key() -> str:
    """The key to call a server with: OCTAVO_API_KEY, of several the first; '' if there is none."""
    return os.environ.get("OCTAVO_API_KEY", "").partition(",")[0].strip()


def child_environment(**changes: str) -> dict[str, str]:
    """Our environment with `changes`, for a child process."""
    return {**os.environ, **changes}


def option_texts(known: frozenset[str]) -> dict[str, str]:
    """The options that OCTAVO_* variables set: field name -> text.

    `known` are the field names of every command, so that a misspelt variable is refused
    (ConfigError) and one meant for another command is not.
    """
    texts: dict[str, str] = {}
    for variable, text in os.environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_OPTIONS:
            continue
        if variable.startswith(INJECTED):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in known:
            raise ConfigError(
                f"environment variable {variable} names no option;"
                f" variables are OCTAVO_ and a flag's name in capitals"
            )
        texts[name] = text
    return texts
