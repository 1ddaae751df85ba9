"""From names to processors, and what is said when there is none."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from octavo.config import plugins
from octavo.errors import ConfigError
from octavo.sampling.processors import registry
from octavo.sampling.processors.contract import ProcessorFacts
from octavo.sampling.processors.registry import load_processors
from tests.sampling.processors.examples import Bans

EXAMPLES = "tests.sampling.processors.examples"
FACTS = ProcessorFacts(vocab_size=8, stop_token_ids=frozenset())


def failing_factory(_facts: ProcessorFacts) -> Bans:
    raise RuntimeError("no licence")


@pytest.fixture
def _entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("bans", f"{EXAMPLES}:Bans", registry.ENTRY_POINT_GROUP),
            EntryPoint("gone", "no_such_module:Bans", registry.ENTRY_POINT_GROUP),
        ]
    )
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))


@pytest.mark.usefixtures("_entry_points")
def test_processors_are_found_by_entry_point_and_by_class() -> None:
    loaded = load_processors(["bans", f"{EXAMPLES}:Bans"], FACTS)
    assert list(loaded) == ["bans", f"{EXAMPLES}:Bans"]
    assert all(isinstance(one, Bans) and one.facts is FACTS for one in loaded.values())


@pytest.mark.usefixtures("_entry_points")
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("lottery", "bans, gone, a name from the entry points of octavo.logits_processors"),
        ("gone", "gone (no_such_module:Bans) cannot be loaded: ModuleNotFoundError"),
        (f"{EXAMPLES}:Nothing", "cannot be loaded: AttributeError"),
        (f"{EXAMPLES}:Old", "has contract_version 0; 1 is allowed"),
        (f"{__name__}:failing_factory", "cannot be made: RuntimeError: no licence"),
        (f"{__name__}:EXAMPLES", "a class or function is allowed"),
    ],
)
def test_one_that_cannot_be_had_is_an_error_of_configuration(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_processors([name], FACTS)
    assert complaint in str(caught.value)
    assert f"--logits-processors {name}" in str(caught.value).replace("is '", "").replace("'", "")


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        load_processors([f"{EXAMPLES}:Bans"] * 2, FACTS)
