"""Figures out of records: targets, fairness, charts, and the search for replicas."""

from __future__ import annotations

from array import array
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import ConfigError
from octavo.simulate.charts import draw
from octavo.simulate.cluster import Source
from octavo.simulate.records import Finished, Gaps
from octavo.simulate.report import SimulationReport, jain, report_of, report_to_json
from octavo.simulate.search import bisect_least, search_replicas
from octavo.simulate.simulation import Setup
from octavo.simulate.slo import Slo, keeps, parse_slo
from tests.simulate.machines import LinearTimes, engine, request, run_of

TWO = [request(tenant="a"), request(at=0.005, tenant="b")]


def test_targets_are_kept_or_not() -> None:
    finished = Finished(array("d", [0.1, 0.9]), array("d", [1.0, 1.0]), array("q", [5, 5]))
    finished.num_output_tokens.extend([10, 1])
    kept = keeps(finished, Slo({"ttft": 0.5, "tpot": 0.2, "per_token": 0.5}))
    assert kept == {
        "ttft": [True, False],
        "tpot": [True, True],
        "per_token": [True, False],
        "all": [True, False],
    }


@pytest.mark.parametrize("text", ["", "ttft", "ttft=0", "ttft=x", "speed=1", "ttft=1,"])
def test_other_targets_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--slo is"):
        parse_slo(text)


def test_a_share_of_more_than_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="--slo-percent is 101"):
        parse_slo("ttft=1", 1.01)


def test_a_report_tells_rates_targets_and_tenants() -> None:
    run = run_of([*TWO, request(prompt=9999)])
    report = report_of(run, {"seed": 1}, parse_slo("ttft=0.031,e2e=9"))
    figures = report.results
    duration = run.records.last_seconds
    assert figures["request_throughput"] == pytest.approx(2 / duration)
    assert figures["output_throughput"] == pytest.approx(10 / duration)
    assert (figures["num_finished"], figures["num_too_long"]) == (2, 1)
    assert figures["slo_share"] == pytest.approx(1 / 3)  # who is not answered is not in time
    assert figures["slo_share_e2e"] == pytest.approx(2 / 3)
    assert figures["goodput"] == pytest.approx(1 / duration)
    assert figures["busy_share"] == pytest.approx(1.0)
    assert figures["num_wasted_tokens"] == 0
    assert [one.tenant for one in report.tenants] == ["a", "b"]
    assert set(report.latencies) == {"ttft", "tpot", "itl", "e2e", "per_token"}
    assert report.assumptions == ["linear"]
    back = msgspec.json.decode(report_to_json(report), type=SimulationReport)
    assert back == report


def test_tokens_computed_twice_are_wasted() -> None:
    run = run_of(
        [request(prompt=30, answer=60) for _ in range(8)],
        engine(enable_prefix_caching=False),
        num_pages=20,
    )
    report = report_of(run, {}, None)
    assert report.results["num_preemptions"] > 0
    assert report.results["num_wasted_tokens"] >= 30 * report.results["num_preemptions"]


def test_hits_of_the_prefix_cache_are_not_waste() -> None:
    requests = [request(at=float(i), prompt=64, prefix=((1, 48),)) for i in range(4)]
    figures = report_of(run_of(requests), {}, None).results
    assert figures["prefix_hit_share"] == pytest.approx(3 * 48 / (4 * 64))
    assert figures["num_wasted_tokens"] == 0


def test_fairness_is_one_for_equals_and_less_for_others() -> None:
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) == 1.0


@given(st.lists(st.integers(1, 10**5), min_size=1, max_size=50), st.integers(1, 100))
def test_percentiles_of_gaps_are_those_of_the_samples(units: list[int], percent: int) -> None:
    gaps = Gaps()
    for unit in units:
        gaps.add(unit * 1e-5, 1)
    (found,) = gaps.percentiles([percent])
    rank = max(0, -(-len(units) * percent // 100) - 1)
    assert found == pytest.approx(sorted(units)[rank] * 1e-5)
    assert gaps.mean == pytest.approx(sum(units) / len(units) * 1e-5)


def test_no_gaps_are_zeros() -> None:
    assert Gaps().percentiles([50, 99]) == [0.0, 0.0]


def test_charts_are_one_document() -> None:
    run = run_of(TWO)
    root = ElementTree.fromstring(draw(run, report_of(run, {}, None)))
    charts = list(root)
    assert len(charts) == 4
    assert len({chart.attrib["y"] for chart in charts}) == 4
    assert "First token by tenant" in "".join(root.itertext())


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60))
def test_the_search_finds_the_least(wanted: int, guess: int, most: int) -> None:
    asked: list[int] = []

    def is_enough(number: int) -> bool:
        asked.append(number)
        assert 1 <= number <= most
        return number >= wanted

    found = bisect_least(is_enough, guess=min(guess, most), most=most)
    assert found == (wanted if wanted <= most else None)
    assert len(asked) == len(set(asked))
    assert len(asked) <= 14


def test_replicas_are_searched_until_the_targets_hold() -> None:
    """Each replica does one request in 74 ms, and 200 a second come: about 15 are needed."""
    setup = Setup(times=LinearTimes(), num_pages=50, engine=engine(max_num_seqs=1))
    source = Source([request(at=i / 200) for i in range(200)])
    told: list[int] = []
    found = search_replicas(
        setup, source, Slo({"ttft": 0.1}), 100, lambda one: told.append(one.num_replicas)
    )
    best = found.run.setup.num_replicas
    assert 10 <= best <= 20
    assert told == [one.num_replicas for one in found.attempts]
    assert {one.num_replicas: one.is_enough for one in found.attempts}[best - 1] is False


def test_replicas_that_fall_behind_are_not_enough_though_all_of_the_trace_is_in_time() -> None:
    """Two replicas do 27 requests a second, and 30 come: after ten seconds some 30 wait."""
    setup = Setup(times=LinearTimes(), num_pages=50, engine=engine(max_num_seqs=1))
    source = Source([request(at=i / 30) for i in range(300)])
    found = search_replicas(setup, source, Slo({"ttft": 60.0}), 100)
    behind = {one.num_replicas: one for one in found.attempts}[2]
    assert (behind.kept_share, behind.is_enough) == (1.0, False)
    assert behind.backlog_share == pytest.approx(0.1, abs=0.03)
    assert found.run.setup.num_replicas == 3


def test_a_search_that_cannot_succeed_says_so() -> None:
    """A prompt alone takes 30 ms."""
    setup = Setup(times=LinearTimes(), num_pages=50, engine=engine(max_num_seqs=1))
    source = Source([request() for _ in range(40)])
    with pytest.raises(ConfigError, match=r"4 replicas keep the targets for 10\.0%"):
        search_replicas(setup, source, Slo({"ttft": 0.04}), 4)
    with pytest.raises(ConfigError, match=r"even alone on a replica, only 0\.0%"):
        search_replicas(setup, source, Slo({"ttft": 0.001}), 1000)
