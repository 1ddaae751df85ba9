"""Reads a YAML file that must hold a mapping. Knows no option."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import yaml

from octavo.errors import ConfigError


def yaml_mapping(file: Path, flag: str) -> dict[object, object]:
    """The file's mapping; none of its keys twice. Raises ConfigError."""
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _StrictLoader)
    except OSError as error:
        raise ConfigError(f"{flag} {file}: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        # Without the quoted line, which may hold a secret.
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{file}: not YAML: {error.problem}{place}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file}: a mapping at the top is allowed, not a {type(content).__name__}"
        )
    return content


class _StrictLoader(yaml.SafeLoader):
    """Of two equal keys the plain one would take the last, and say nothing."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
