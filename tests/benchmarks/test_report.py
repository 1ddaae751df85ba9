"""The page's tables and charts from reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.report import BEGIN, END, draw_charts, replaced, sections
from octavo.bench.fingerprint import fingerprint
from octavo.bench.report import Metric, Report, now
from octavo.errors import ConfigError

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"


def metric(
    name: str, *samples: float, unit: str = "tokens/s", share: float | None = None
) -> Metric:
    return Metric(name=name, unit=unit, better="higher", samples=list(samples), share=share)


def report_of(kind: str, *metrics: Metric, results: dict[str, float] | None = None) -> Report:
    return Report(
        kind=kind,
        created=now(),
        machine=fingerprint(2),
        model=SMOLLM2,
        settings={"octavo": ""},
        metrics=list(metrics),
        results=results or {},
    )


def page_of(report: Report, folder: Path = Path("docs")) -> list[str]:
    return "\n".join(sections([(folder / "a.json", report)], folder)).splitlines()


CONTEST = report_of(
    "side-by-side",
    metric("octavo prefill", 1000.0, 1200.0, 1100.0, share=0.55),
    metric("octavo decode", 300.0, share=0.61),
    metric("llama.cpp prefill", 100.0),
    metric("llama.cpp decode", 150.0),
    metric("octavo / llama.cpp prefill", 10.0, 12.0, 11.0, unit="times"),
    metric("octavo / llama.cpp decode", 2.0, unit="times"),
)


def test_a_contest_shows_rates_ratios_and_what_is_wanted() -> None:
    lines = page_of(CONTEST)
    assert "| prefill | 1100 | 55% | 100 | 11.00 × [10.00, 12.00] | 10 × ✓ |" in lines
    assert "| decode | 300 | 61% (wanted 60%) | 150 | 2.00 × [2.00, 2.00] | 2.5 × ✗ |" in lines


def test_a_peer_that_was_not_measured_has_no_column() -> None:
    assert not any("openvino" in line for line in page_of(CONTEST))


def test_a_profile_shows_shares_of_the_step() -> None:
    report = report_of(
        "step-profile",
        metric("1 tokens: linear", 0.003, unit="s"),
        metric("1 tokens: attention", 0.001, unit="s"),
        metric("512 tokens: linear", 0.1, unit="s"),
    )
    lines = page_of(report)
    assert "| kernel | 1 tokens: 4.00 ms | 512 tokens: 100.00 ms |" in lines
    assert "| `linear` | 75.0% | 100.0% |" in lines
    assert "| `attention` | 25.0% | 0.0% |" in lines


def test_perplexities_stand_in_one_row_a_model() -> None:
    results = {"float32 reference": 20.0, "KV int8": 20.1, "KV int8, excess in %": 0.5}
    lines = page_of(report_of("perplexity", results=results))
    assert f"| {SMOLLM2} | 20.0000 | 20.1000 (+0.50 %) |" in lines


def test_a_chart_stands_beside_its_report(tmp_path: Path) -> None:
    draw_charts([(tmp_path / "a.json", CONTEST)])
    assert (tmp_path / "a.svg").read_text().count("<polyline") == 2
    assert any("](a.svg)" in line for line in page_of(CONTEST, tmp_path))


def test_a_report_without_points_has_no_chart(tmp_path: Path) -> None:
    prefix = report_of("serving side by side", metric("octavo, cold prefix", 1.0))
    draw_charts([(tmp_path / "a.json", prefix)])
    assert not (tmp_path / "a.svg").exists()


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replaced(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replaced(replaced(page, "new"), "new") == replaced(page, "new")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ConfigError, match="lacks"):
        replaced("text", "new")
