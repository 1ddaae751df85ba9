"""Reports as JSON: they read back equal, and anything else is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.bench.report import report_from_json, report_to_json
from octavo.errors import ConfigError
from tests.bench.reports import metric, report


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=9))
def test_a_report_reads_back_equal(samples: list[float]) -> None:
    made = report(metric(samples), metric(samples, "lower", "ttft"))
    assert report_from_json(report_to_json(made), "r.json") == made


def test_medians_stand_beside_the_samples() -> None:
    fields = json.loads(report_to_json(report(metric([1.0, 2.0, 9.0]))))
    assert fields["schema"] == "octavo-bench/1"
    assert fields["metrics"][0]["median"] == 2.0
    assert fields["metrics"][0]["mean"] == 4.0
    assert fields["machine"]["commit"] == "abc1234"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "r.json is no report"),
        (b"{}", "r.json is no report"),
        (b'{"kind": 1}', "r.json is no report"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        report_from_json(content, "r.json")


def test_another_schema_is_refused() -> None:
    other = report_to_json(report()).replace(b"octavo-bench/1", b"octavo-bench/9")
    with pytest.raises(ConfigError, match="octavo-bench/9"):
        report_from_json(other, "r.json")


def test_a_metric_without_samples_is_refused() -> None:
    fields = json.loads(report_to_json(report(metric([1.0]))))
    fields["metrics"][0]["samples"] = []
    with pytest.raises(ConfigError, match="without samples"):
        report_from_json(json.dumps(fields).encode(), "r.json")
