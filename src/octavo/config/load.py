"""The options of one run, merged: a flag wins over the YAML file, it over the environment, it over
the default. Knows nothing of argparse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from octavo.config.environment import option_texts
from octavo.config.options import Option, options_of, read_text, read_value, unknown_option

FlagValue = str | bool | list[str]


def load_options(
    declared: tuple[type, ...],
    everywhere: tuple[type, ...],
    flags: Mapping[str, FlagValue],
    yaml_file: Path | None,
) -> dict[type, dict[str, object]]:
    """Keyword values for each dataclass of `declared`, the options of one command.

    `flags` holds what the command line gave, by field name. `everywhere` are the dataclasses of all
    commands, whose variables may be set without harm. Raises ConfigError.
    """
    known = {item.name: item for config in declared for item in options_of(config)}
    all_names = frozenset(item.name for config in everywhere for item in options_of(config))
    values: dict[str, object] = {}
    for name, text in option_texts(all_names).items():
        if name in known:
            values[name] = read_text(known[name], text, origin=f"OCTAVO_{name.upper()}")
    if yaml_file is not None:
        values |= _read_yaml(yaml_file, known)
    for name, given in flags.items():
        values[name] = _read_flag(known[name], given)
    return {
        config: {item.name: values[item.name] for item in options_of(config) if item.name in values}
        for config in declared
    }


def _read_flag(item: Option, given: FlagValue) -> object:
    if isinstance(given, str):
        return read_text(item, given, origin=item.flag)
    return read_value(item, given, origin=item.flag)


def _read_yaml(file: Path, known: Mapping[str, Option]) -> dict[str, object]:
    """A mapping of long flag names (without dashes in front) to values."""
    by_key = {item.key: item for item in known.values()}
    values = {}
    # Only now: few runs have such a file, and its parser takes 18 ms to import.
    from octavo.config.yaml_file import yaml_mapping

    for key, value in yaml_mapping(file, "--config").items():
        if key not in by_key:
            raise unknown_option(str(key), by_key, origin=f"{file}: ")
        item = by_key[key]
        values[item.name] = read_value(item, value, origin=f"{file}: {key}")
    return values
