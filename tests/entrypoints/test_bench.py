"""`octavo bench` from the command line: short runs on the real model and a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.bench.report import Report, report_from_json, report_to_json
from octavo.entrypoints.cli.bench import SUBJECTS
from octavo.entrypoints.cli.main import run_command
from tests.bench.reports import metric, report

SMALL = ["--max-model-len", "256", "--max-num-seqs", "4", "--kv-cache-memory", "64M"]


def bench(*arguments: object) -> int:
    return run_command(["bench", *map(str, arguments)])


def read(path: Path) -> Report:
    return report_from_json(path.read_bytes(), str(path))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_has_help(capsys: pytest.CaptureFixture[str], subject: str) -> None:
    with pytest.raises(SystemExit) as exited:
        bench(subject, "--help")
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: octavo bench {subject}")


def test_serve_measures_any_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, base_url: str
) -> None:
    output, plot = tmp_path / "r.json", tmp_path / "r.svg"
    load = ["--num-prompts", 5, "--input-len", "uniform:2:4", "--output-len", 3, "--ignore-eos"]
    shape = ["--max-concurrency", 2, "--request-rate", 500, "--prefix-len", 3]
    goodput = ["--goodput", "e2el:60000"]
    files = ["-o", output, "--plot", plot, "--profile"]
    assert bench("serve", "--base-url", base_url, *load, *shape, *goodput, *files) == 0
    made = read(output)
    assert made.model == "fake"
    assert (made.results["completed"], made.results["failed"]) == (5, 0)
    assert made.results["total_output_tokens"] == 15
    assert made.results["cpu_front_seconds"] > 0
    assert 0 <= made.results["cpu_overhead_percent"] <= 100
    assert made.results["request_goodput"] == made.results["request_throughput"]
    assert {one.name for one in made.metrics} >= {"ttft", "e2el"}
    assert plot.read_text().startswith("<svg")
    assert "request_throughput" in capsys.readouterr().out


def test_serve_counts_failures(capsys: pytest.CaptureFixture[str], base_url: str) -> None:
    arguments = ["--model", "other", "--num-prompts", 2, "--num-warmups", 0]
    assert bench("serve", "--base-url", base_url, *arguments) == 1
    assert "2 requests failed: HttpError: HTTP 404" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--base-url", "nowhere"], "--base-url"),
        (["--request-rate", "0"], "--request-rate is 0.0"),
        (["--input-len", "x"], "--input-len is 'x'"),
        (["--goodput", "fast:1"], "--goodput is 'fast:1'"),
        (["--plot", "x.png"], "--plot is 'x.png'"),
        (["--prefix-len", "-1"], "--prefix-len is -1"),
        (["-o", "/no/such/folder/x.json"], "folder does not exist"),
    ],
)
def test_serve_refuses_what_it_cannot_do(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert bench("serve", *arguments) == 2
    assert error in capsys.readouterr().err


def test_latency_reports_rates_and_their_share(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, smollm2_path: Path
) -> None:
    output, plot = tmp_path / "r.json", tmp_path / "r.svg"
    sizes = ["--contexts", 16, 9999, "--batch-sizes", 1, 2, "--decode-steps", 2, "--repeats", 1]
    files = ["-o", output, "--plot", plot]
    assert bench("latency", smollm2_path, *sizes, *files, *SMALL) == 0
    made = read(output)
    assert [one.name for one in made.metrics] == [
        "prefill context 16 batch 1",
        "decode context 16 batch 1",
        "prefill context 16 batch 2",
        "decode context 16 batch 2",
    ]
    assert [len(one.samples) for one in made.metrics] == [1, 2, 1, 2]
    assert all(one.share is not None and one.share > 0 for one in made.metrics)
    assert len(made.skipped) == 2
    assert made.rates is not None
    assert plot.read_text().startswith("<svg")
    assert "of limit" in capsys.readouterr().out


def test_latency_takes_limits_from_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, smollm2_path: Path
) -> None:
    machine = tmp_path / "machine.json"
    machine.write_bytes(report_to_json(report()))  # avx2, 2 threads
    arguments = ["--machine", machine, "--isa", "scalar", "--threads", 1, *SMALL]
    assert bench("latency", smollm2_path, *arguments) == 2
    assert "was measured with 2 threads at avx2" in capsys.readouterr().err


def test_throughput_and_startup_leave_reports(tmp_path: Path, smollm2_path: Path) -> None:
    offline, startup = tmp_path / "t.json", tmp_path / "s.json"
    sizes = ["--num-prompts", 2, "--input-len", 4, "--output-len", 3]
    assert bench("throughput", smollm2_path, *sizes, "-o", offline, *SMALL) == 0
    assert [one.name for one in read(offline).metrics] == [
        "requests",
        "output tokens",
        "all tokens",
    ]
    assert bench("startup", smollm2_path, "--repeats", 1, "-o", startup, *SMALL) == 0
    by_name = {one.name: one.samples[0] for one in read(startup).metrics}
    assert by_name["process to ready"] >= by_name["phase total"]
    assert by_name["peak resident"] >= by_name["idle resident"] > 50e6


def test_machine_leaves_a_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "m.json"
    assert bench("machine", "--quick", "--threads", 1, "-o", output) == 0
    rates = read(output).rates
    assert rates is not None
    assert rates.threads == 1
    assert "GB/s" in capsys.readouterr().out


def test_compare_tells_and_may_fail(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fast, slow = tmp_path / "fast.json", tmp_path / "slow.json"
    fast.write_bytes(report_to_json(report(metric([100, 101, 102]))))
    slow.write_bytes(report_to_json(report(metric([50, 51, 52]))))
    assert bench("compare", fast, slow) == 0
    assert "worse" in capsys.readouterr().out
    assert bench("compare", fast, slow, "--fail-if-worse") == 1
    assert bench("compare", slow, fast, "--fail-if-worse") == 0
    assert bench("compare", fast, slow, "--fail-if-worse", "--least-noise", 60) == 0
    assert bench("compare", fast, fast, "--fail-if-worse") == 0
    assert "no difference" in capsys.readouterr().out


def test_compare_needs_a_metric_in_common(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, other = tmp_path / "a.json", tmp_path / "b.json"
    one.write_bytes(report_to_json(report(metric([1], name="a"))))
    other.write_bytes(report_to_json(report(metric([1], name="b"))))
    assert bench("compare", one, other) == 2
    assert "no metric in common" in capsys.readouterr().err
