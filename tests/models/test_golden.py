"""The program of each architecture, as text. A change that alters one shows it in its diff.

After an intended change: python -m tests.models.test_golden
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from octavo.ops.compile import compile_program
from octavo.weights.loader import held_format, is_integer_format
from octavo.weights.weight import Weight
from tests.models.checks import open_model
from tests.models.conftest import MakeTiny
from tests.models.tiny import MIXED, RECIPES, write_tiny

GOLDEN = Path(__file__).parent / "golden"


def program_text(path: Path, dtype: str, *, fuse: bool = True) -> str:
    file, model = open_model(path)

    def is_integer(weight: Weight) -> bool:
        return is_integer_format(held_format(file, weight, dtype))

    return compile_program(model.forward, is_integer, fuse=fuse).to_text()


@pytest.mark.parametrize("name", RECIPES)
def test_program_text_is_the_golden_one(name: str, make_tiny: MakeTiny) -> None:
    text = program_text(make_tiny(name, MIXED).path, "auto")
    assert text == (GOLDEN / f"{name}.txt").read_text()


def test_program_text_of_float_weights_has_no_quantisation(make_tiny: MakeTiny) -> None:
    text = program_text(make_tiny("llama", MIXED).path, "float32")
    assert text == (GOLDEN / "llama-float32.txt").read_text()
    assert "quantize" not in text


def test_unfused_program_text_is_the_golden_one(make_tiny: MakeTiny) -> None:
    text = program_text(make_tiny("llama", MIXED).path, "auto", fuse=False)
    assert text == (GOLDEN / "llama-unfused.txt").read_text()


def _update() -> None:
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in RECIPES:
            path = write_tiny(name, Path(folder), MIXED).path
            (GOLDEN / f"{name}.txt").write_text(program_text(path, "auto"))
        path = write_tiny("llama", Path(folder), MIXED).path
        (GOLDEN / "llama-float32.txt").write_text(program_text(path, "float32"))
        (GOLDEN / "llama-unfused.txt").write_text(program_text(path, "auto", fuse=False))


if __name__ == "__main__":
    _update()
