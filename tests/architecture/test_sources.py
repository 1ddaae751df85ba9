"""House rules that no linter knows: sizes, charters, and who may touch what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "octavo"
MODULES = sorted(SOURCE.rglob("*.py"))
NATIVE = sorted(
    path for path in (SOURCE / "kernels/native").rglob("*") if path.suffix in {".cc", ".h"}
)

MAX_FILE_LINES = 500
MAX_MODEL_FILE_LINES = 300
MAX_FUNCTION_LINES = 70
MAX_PARAMETERS = 8

READS_ENVIRONMENT = {"config/environment.py"}
IMPORTS_IN_FUNCTIONS = {
    "__init__.py": "the public names load on first use",
    "config/load.py": "the YAML parser is slow to import and few runs have a file",
    "config/tenants.py": "as config/load.py",
    "entrypoints/cli/loading.py": "a server whose file lies here draws no progress bar",
    "engine/grammars.py": "two libraries that few engines need load with the first grammar",
    "engine/stop_regexes.py": "the grammar library loads with the first regex",
    "hub/find.py": "the hub's client is slow to import and seldom needed",
    "entrypoints/openai/serve.py": "the web framework is imported while the engine loads",
    "entrypoints/cli/run.py": "readline is imported for its effect on input(), where there is one",
}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", [*MODULES, *NATIVE], ids=name_of)
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    limit = MAX_MODEL_FILE_LINES if path.parent == SOURCE / "models" else MAX_FILE_LINES
    assert len(path.read_text().splitlines()) <= limit


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_function_is_short_and_takes_few_parameters(path: Path) -> None:
    for function in functions(parsed(path)):
        assert function.end_lineno is not None
        assert function.end_lineno - function.lineno < MAX_FUNCTION_LINES, function.name
        arguments = function.args
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        others = [item for item in names if item.arg not in {"self", "cls"}]
        assert len(others) <= MAX_PARAMETERS, function.name


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    tree = parsed(path)
    is_empty_marker = path.name == "__init__.py" and not tree.body
    assert is_empty_marker or ast.get_docstring(tree), "the charter is missing"


@pytest.mark.parametrize("path", NATIVE, ids=name_of)
def test_a_native_file_says_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith("//"), "the charter is missing"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_one_module_reads_the_environment(path: Path) -> None:
    names = {"environ", "environb", "getenv", "putenv"}
    reads = any(
        isinstance(node, ast.Attribute)
        and node.attr in names
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        for node in ast.walk(parsed(path))
    )
    assert not reads or name_of(path) in READS_ENVIRONMENT


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_doors_print(path: Path) -> None:
    if path.is_relative_to(SOURCE / "entrypoints"):
        return
    for node in ast.walk(parsed(path)):
        is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        assert not (is_print and node.func.id == "print"), node.lineno  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_runs_code_out_of_data(path: Path) -> None:
    tree = parsed(path)
    for module in imported_modules(tree):
        assert module.partition(".")[0] not in FORBIDDEN_MODULES
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, node.lineno
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            assert (node.func.value.id, node.func.attr) != ("torch", "load"), node.lineno


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_stand_on_top(path: Path) -> None:
    hidden = [
        node.lineno
        for function in functions(parsed(path))
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not hidden or name_of(path) in IMPORTS_IN_FUNCTIONS


def test_lists_of_exceptions_hold_no_dead_entries() -> None:
    for name in [*READS_ENVIRONMENT, *IMPORTS_IN_FUNCTIONS]:
        assert (SOURCE / name).is_file(), name


def test_test_files_mirror_the_source() -> None:
    """tests/<package>/ exists in src/octavo, unless it is about the whole."""
    about_the_whole = {"architecture", "benchmarks", "server"}
    for folder in (ROOT / "tests").iterdir():
        if folder.is_dir() and not folder.name.startswith("__"):
            assert (SOURCE / folder.name).is_dir() or folder.name in about_the_whole, folder.name
