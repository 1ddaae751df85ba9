"""Hypothesis strategies for programs that are legal but look like no model."""

from __future__ import annotations

from hypothesis import strategies as st

from octavo.ops.program import Program
from octavo.ops.recording import AbstractValue, RecordingOps
from octavo.weights.weight import Weight

WIDTHS = (32, 64, 96)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Embeds, linears, adds, norms, in-place caps of parts, and a gather at the end."""
    ops = RecordingOps()
    alive: list[AbstractValue] = [ops.embed(Weight("table", (9, width))) for width in WIDTHS]
    for number in range(draw(st.integers(1, 25))):
        index = draw(st.integers(0, len(alive) - 1))
        x = alive[index]
        match draw(st.sampled_from(("linear", "add", "norm", "cap"))):
            case "linear":
                width = draw(st.sampled_from(WIDTHS))
                alive.append(ops.linear(x, (Weight(f"w{number}", (width, x.width)),)))
            case "add":
                same = [value for value in alive if value.width == x.width]
                alive.append(ops.add(x, draw(st.sampled_from(same))))
            case "norm":
                alive.append(ops.rms_norm(x, Weight(f"n{number}", (x.width,)), 1e-5))
            case "cap":
                alive[index] = ops.softcap(x, 5.0)
    return ops.finish(ops.gather_rows(draw(st.sampled_from(alive))))
