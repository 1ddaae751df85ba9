"""What the documents name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "octavo"
PLACE = re.compile(r"`([\w/]+\.(?:py|cc|h)):([\w.]+)`")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
FILE = re.compile(r"`(\w[\w/]*(?:/|\.(?:py|cc|h|md|toml)))`")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
PLACES = sorted(set(PLACE.findall(ARCHITECTURE)))
FILES = sorted(set(FILE.findall(ARCHITECTURE)) - {"models/NAME.py"})


def defined_names(path: Path) -> set[str]:
    """Names and dotted members that a Python module defines."""
    names: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            names.update(prefix + item.id for item in targets if isinstance(item, ast.Name))

    visit(ast.parse(path.read_text()).body, "")
    return names


@pytest.mark.parametrize(("file", "symbol"), PLACES, ids=[":".join(place) for place in PLACES])
def test_a_place_named_in_the_architecture_exists(file: str, symbol: str) -> None:
    path = SOURCE / file
    assert path.is_file()
    if path.suffix == ".py":
        assert symbol in defined_names(path)
    else:
        assert re.search(rf"\b{re.escape(symbol)}\b", path.read_text())


@pytest.mark.parametrize("file", FILES)
def test_a_file_named_in_the_architecture_exists(file: str) -> None:
    assert (SOURCE / file).exists() or (ROOT / file).exists()


def test_the_architecture_names_places() -> None:
    assert len(PLACES) > 10


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_within_the_project_lead_somewhere(document: str) -> None:
    for target in LINK.findall((ROOT / document).read_text()):
        assert (ROOT / target).exists(), target


def test_the_readme_names_every_command() -> None:
    from octavo.entrypoints.cli.main import COMMANDS

    text = (ROOT / "README.md").read_text()
    for name in COMMANDS:
        assert f"octavo {name}" in text, name
