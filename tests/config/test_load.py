"""Flag over YAML over environment over default; an unknown name is refused wherever it stands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from octavo.config.load import FlagValue, load_options
from octavo.config.options import option
from octavo.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class First:
    max_length: int = option(1, "Length.")
    fast: bool = option(False, "Fast.")


@dataclass(frozen=True, kw_only=True)
class Second:
    names: tuple[str, ...] = option((), "Names.")


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    port: int = option(1, "Port.")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OCTAVO_MAX_LENGTH", "OCTAVO_FAST", "OCTAVO_NAMES", "OCTAVO_PORT"):
        monkeypatch.delenv(name, raising=False)


def load(
    flags: dict[str, FlagValue] | None = None, yaml_file: Path | None = None
) -> dict[type, dict[str, object]]:
    return load_options((First, Second), (First, Second, Elsewhere), flags or {}, yaml_file)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_nothing_given_leaves_the_defaults() -> None:
    assert load() == {First: {}, Second: {}}


def test_precedence_is_flag_then_yaml_then_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_MAX_LENGTH", "2")
    assert load()[First] == {"max_length": 2}
    file = write(tmp_path, "max-length: 3")
    assert load(yaml_file=file)[First] == {"max_length": 3}
    assert load({"max_length": "4"}, file)[First] == {"max_length": 4}


def test_options_go_to_the_dataclass_that_declares_them(tmp_path: Path) -> None:
    file = write(tmp_path, "fast: true\nnames: [a, b]\n")
    assert load(yaml_file=file) == {First: {"fast": True}, Second: {"names": ("a", "b")}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max-lenght: 3", "'max-lenght' is not an option; did you mean max-length"),
        ("max_length: 3", "'max_length' is not an option"),
        ("port: 3", "'port' is not an option"),
        ("max-length: three", "max-length is 'three'; an integer is allowed"),
        ("fast: 1", "fast is 1; true or false is allowed"),
        ("- a list", "a mapping"),
        ("a: [", "not YAML"),
        ("!!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load(yaml_file=write(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert "config.yaml" in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(yaml_file=tmp_path / "absent.yaml")


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert load(yaml_file=write(tmp_path, "")) == {First: {}, Second: {}}


def test_a_variable_of_another_command_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_PORT", "1234")
    assert load() == {First: {}, Second: {}}


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_MAX_LENGHT", "2")
    with pytest.raises(ConfigError, match="OCTAVO_MAX_LENGHT names no option"):
        load()


def test_what_kubernetes_injects_for_a_service_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("OCTAVO_PORT_80_TCP", "tcp://10.0.0.1:80")
    assert load() == {First: {}, Second: {}}


def test_a_bad_variable_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_FAST", "perhaps")
    with pytest.raises(ConfigError, match="OCTAVO_FAST is 'perhaps'; true or false is allowed"):
        load()


def test_a_bad_flag_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="--max-length is 'x'; an integer is allowed"):
        load({"max_length": "x"})
