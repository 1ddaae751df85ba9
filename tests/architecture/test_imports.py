"""Who imports whom, and what stays out of a process that does not need it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "octavo"
MAY_USE_TORCH = {"octavo.ops.torch_reference", "octavo.runner.reference"}
HEAVY = {
    "numpy",
    "starlette",
    "tokenizers",
    "jinja2",
    "rich",
    "huggingface_hub",
    "torch",
    "msgspec",
}


def loaded_by(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def all_modules() -> list[str]:
    names = []
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[-1] not in {"__init__", "__main__"}:
            names.append(".".join(("octavo", *parts)))
    return sorted(names)


def test_layers_import_only_what_stands_below() -> None:
    """In a process of its own: import-linter sets up logging and silences every logger it finds."""
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(%s))"
    arguments = f"config_filename={str(ROOT / 'pyproject.toml')!r}, no_cache=True"
    done = subprocess.run(
        [sys.executable, "-c", lint % arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_nothing_but_the_reference_loads_torch() -> None:
    imports = "\n".join(f"import {name}" for name in all_modules() if name not in MAY_USE_TORCH)
    assert "torch" not in loaded_by(imports)


def test_import_octavo_is_light() -> None:
    assert not loaded_by("import octavo") & HEAVY


def test_help_of_the_command_is_light() -> None:
    code = (
        "from octavo.entrypoints.cli.main import make_parser\nmake_parser(['--help']).format_help()"
    )
    assert not loaded_by(code) & HEAVY


def test_a_server_starts_its_engine_before_it_imports_much() -> None:
    code = "from octavo.entrypoints.cli.main import make_parser\nmake_parser(['serve'])"
    assert loaded_by(code) & HEAVY == {"msgspec"}


def test_the_engine_process_loads_nothing_of_the_front() -> None:
    """Each is 10 to 30 ms of every start, and memory for nothing."""
    code = "import octavo.engine.worker, octavo.engine.factory"
    assert not loaded_by(code) & {"asyncio", "jinja2", "rich", "starlette", "tokenizers", "yaml"}


def test_the_public_names_are_there() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from octavo import LLM, SamplingParams, __version__"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    import octavo

    with pytest.raises(AttributeError, match="no attribute 'LLMM'"):
        octavo.LLMM  # noqa: B018
