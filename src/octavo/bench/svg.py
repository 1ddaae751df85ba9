"""Line charts as SVG text, written by hand: axes, ticks, lines, a legend. Knows no benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 80, 180, 44, 56
COLOURS = ("#1f6feb", "#d1495b", "#2a9d5c", "#b8860b", "#7b4fc9", "#0f8b9d", "#6b7280", "#c2571a")
NUM_TICKS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y) in the order in which they are joined."""

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (self.end - self.start) * (value - self.low) / span


def line_chart(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> str:
    """An SVG document. Raises ValueError without points. The y axis begins at 0."""
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError("a chart without points")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_low, x_high = _widened(min(xs), max(xs))
    _, y_high = _widened(0.0, max(ys))
    x_scale = _Scale(x_low, x_high, LEFT, WIDTH - RIGHT)
    y_scale = _Scale(0.0, y_high, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(LEFT, 24, title, size=16),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label, anchor="middle"),
        _text(LEFT - 60, TOP - 10, y_label),
        *_grid(x_scale, y_scale),
        *(
            part
            for index, line in enumerate(lines)
            for part in _line(index, line, x_scale, y_scale)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / NUM_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _widened(low: float, high: float) -> tuple[float, float]:
    """A span that is not empty, and can be divided."""
    unit = max(1.0, abs(low))
    return (low, high) if high - low > 1e-9 * unit else (low, low + unit)


def _grid(x_scale: _Scale, y_scale: _Scale) -> Iterable[str]:
    for value in ticks(x_scale.low, x_scale.high):
        x = x_scale.place(value)
        yield _segment(x, y_scale.start, x, y_scale.end)
        yield _text(x, y_scale.start + 18, f"{value:g}", anchor="middle")
    for value in ticks(y_scale.low, y_scale.high):
        y = y_scale.place(value)
        yield _segment(x_scale.start, y, x_scale.end, y)
        yield _text(x_scale.start - 8, y + 4, f"{value:g}", anchor="end")


def _line(index: int, line: Line, x_scale: _Scale, y_scale: _Scale) -> Iterable[str]:
    colour = COLOURS[index % len(COLOURS)]
    places = [f"{x_scale.place(x):.1f},{y_scale.place(y):.1f}" for x, y in line.points]
    yield f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(places)}"/>'
    y = TOP + 10 + 20 * index
    x = WIDTH - RIGHT + 14
    yield f'<rect x="{x}" y="{y - 5}" width="16" height="4" fill="{colour}"/>'
    yield _text(x + 24, y + 2, line.label)


def _segment(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        ' stroke="#d8dee4" stroke-width="1"/>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place}>{escape(text)}</text>"
