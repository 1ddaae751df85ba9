"""Charts are well-formed XML, whatever is drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.bench.svg import HEIGHT, WIDTH, Line, line_chart, ticks

COORDINATE = st.floats(0, 1e9)
SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.tuples(COORDINATE, COORDINATE), min_size=1, max_size=8), st.text("a<&>\"'é"))
def test_a_chart_is_xml_and_its_points_lie_within(
    points: list[tuple[float, float]], text: str
) -> None:
    root = ElementTree.fromstring(line_chart(text, text, text, [Line(text, points)]))
    (line,) = root.iter(f"{SVG}polyline")
    places = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert len(places) == len(points)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
    assert text in [node.text or "" for node in root.iter(f"{SVG}text")]


def test_larger_values_stand_higher_and_further_right() -> None:
    root = ElementTree.fromstring(line_chart("t", "x", "y", [Line("a", [(1, 1), (2, 3)])]))
    (line,) = root.iter(f"{SVG}polyline")
    (x1, y1), (x2, y2) = (map(float, pair.split(",")) for pair in line.attrib["points"].split())
    assert x2 > x1
    assert y2 < y1


def test_a_chart_needs_points() -> None:
    with pytest.raises(ValueError, match="without points"):
        line_chart("t", "x", "y", [])


@given(st.floats(0, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_round_and_within(low: float, span: float) -> None:
    places = ticks(low, low + span)
    assert len(places) <= 7
    assert places == sorted(places)
    assert all(low - 1e-6 * span <= place <= low + span * (1 + 1e-6) for place in places)
