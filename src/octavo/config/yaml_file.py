"""Reads a YAML file that must hold a mapping. Knows no option."""

from __future__ import annotations

from pathlib import Path

import yaml

from octavo.errors import ConfigError


def yaml_mapping(file: Path) -> dict[str, object]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: a mapping of flag names to values is allowed")
    return content
