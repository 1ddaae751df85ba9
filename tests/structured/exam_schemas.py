"""The schemas of the exam: written ones, from files, and random ones, put together from them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "schemas"
FILES: Final = ("strings", "numbers", "arrays", "objects", "combinations", "references")
NUM_RANDOM: Final = 120
NAMES: Final = ("id", "name", "größe", 'a"b', "名前", "x y", "n", "nn", "")


class ExamSchema(NamedTuple):
    name: str
    schema: object


def written_schemas() -> list[ExamSchema]:
    return [
        ExamSchema(f"{file}: {name}", schema)
        for file in FILES
        for name, schema in _read(file).items()
    ]


def refused_schemas() -> list[ExamSchema]:
    """Named by the place that is to be named, and a number where one place has several."""
    return [ExamSchema(name, schema) for name, schema in _read("refused").items()]


def random_schemas() -> list[ExamSchema]:
    """The same ones every time."""
    return [ExamSchema(f"random {seed}", _Maker(seed).whole()) for seed in range(NUM_RANDOM)]


def all_schemas() -> list[ExamSchema]:
    return written_schemas() + random_schemas()


def _read(file: str) -> dict[str, object]:
    document: dict[str, object] = json.loads((FOLDER / f"{file}.json").read_text())
    return document


class _Maker:
    """Draws one schema."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._leaves = [*_read("strings").values(), *_read("numbers").values()]
        self._definitions: dict[str, object] = {}

    def whole(self) -> object:
        root = self._schema(4)
        return {"$defs": self._definitions, **root} if self._definitions else root

    def _schema(self, depth: int) -> dict[str, object]:
        if depth == 0:
            return self._leaf()
        makers = (self._object, self._object, self._array, self._tuple, self._any_of)
        others = (self._nullable, self._all_of, self._map, self._reference)
        return self._random.choice([*makers, *others])(depth - 1)

    def _child(self, depth: int) -> dict[str, object]:
        return self._schema(depth) if self._random.random() < 0.5 else self._leaf()

    def _leaf(self) -> dict[str, object]:
        leaf = self._random.choice(self._leaves)
        assert isinstance(leaf, dict)
        return leaf

    def _object(self, depth: int) -> dict[str, object]:
        names = self._random.sample(NAMES, self._random.randint(1, 4))
        return {
            "type": "object",
            "properties": {name: self._child(depth) for name in names},
            "required": [name for name in names if self._random.random() < 0.6],
            "additionalProperties": self._random.choice([False, False, {"type": "null"}]),
        }

    def _array(self, depth: int) -> dict[str, object]:
        least = self._random.randint(0, 2)
        return {
            "type": "array",
            "items": self._child(depth),
            "minItems": least,
            "maxItems": least + self._random.randint(0, 2),
        }

    def _tuple(self, depth: int) -> dict[str, object]:
        places = [self._child(depth) for _ in range(self._random.randint(1, 3))]
        more = self._random.choice([False, self._leaf()])
        return {"type": "array", "prefixItems": places, "items": more, "minItems": len(places)}

    def _any_of(self, depth: int) -> dict[str, object]:
        return {"anyOf": [self._child(depth) for _ in range(self._random.randint(1, 3))]}

    def _nullable(self, depth: int) -> dict[str, object]:
        return {"anyOf": [self._child(depth), {"type": "null"}], "default": None}

    def _all_of(self, depth: int) -> dict[str, object]:
        first, second = self._object(depth), self._object(depth)
        del first["additionalProperties"], second["additionalProperties"]
        return {"allOf": [first, second]}

    def _map(self, depth: int) -> dict[str, object]:
        value = self._child(depth)
        if self._random.random() < 0.5:
            return {"type": "object", "additionalProperties": value, "maxProperties": 2}
        return {
            "type": "object",
            "patternProperties": {"^[a-f]{1,3}$": value},
            "additionalProperties": False,
        }

    def _reference(self, depth: int) -> dict[str, object]:
        name = f"d{len(self._definitions)}"
        self._definitions[name] = {}
        self._definitions[name] = self._child(depth)
        return {"$ref": f"#/$defs/{name}"}
