"""From the text of an option to code that an installed package offers, or that `module:Name` names.

Imports and calls foreign code when asked to. Of contracts it knows that they have versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeVar

from octavo.errors import ConfigError

Facts = TypeVar("Facts")
Plugin = TypeVar("Plugin")


def load_plugin(
    flag: str, name: str, group: str, own_names: Iterable[str] = ()
) -> Callable[..., object]:
    """What `name` stands for: an entry point of `group`, or `module:Name`. Something to call.

    `own_names` are shown beside those of the entry points. Raises ConfigError that names `flag`.
    """
    found = _by_reference(flag, name) if ":" in name else _entry_point(flag, name, group, own_names)
    if not callable(found):
        raise ConfigError(f"{flag} {name} is {found!r}; a class or function is allowed")
    return found


def make_plugin(
    option: str, factory: Callable[[Facts], Plugin], facts: Facts, contract_version: int
) -> Plugin:
    """What `factory` makes, if it is of this version of its contract.

    `option` is the flag and what it says. Raises ConfigError that begins with it.
    """
    try:
        plugin = factory(facts)
        version = getattr(plugin, "contract_version", None)
    except Exception as error:  # foreign code, which may raise anything
        raise ConfigError(f"{option} cannot be made: {type(error).__name__}: {error}") from error
    if version != contract_version:
        raise ConfigError(
            f"{option} has contract_version {version!r}; {contract_version} is allowed"
        )
    return plugin


def _by_reference(flag: str, name: str) -> object:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # the module is foreign code, which may raise anything
        raise ConfigError(
            f"{flag} {name} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _entry_point(flag: str, name: str, group: str, own_names: Iterable[str]) -> object:
    found = {entry.name: entry for entry in entry_points(group=group)}
    if name not in found:
        own = list(own_names)
        known = [*own, *sorted(set(found) - set(own))]
        allowed = f"{', '.join(known)}, a name" if known else "a name"
        raise ConfigError(
            f"{flag} is {name!r}; {allowed} from the entry points of {group}, or module:Class is"
            " allowed"
        )
    try:
        return found[name].load()
    except Exception as error:  # as above
        raise ConfigError(
            f"{flag} {name} ({found[name].value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
