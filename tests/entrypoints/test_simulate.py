"""`octavo simulate` from its flags to its files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import octavo.entrypoints.cli.simulate_fit
from octavo.bench.fingerprint import fingerprint
from octavo.bench.report import Metric, Report, report_to_json
from octavo.core.step_load import StepLoad
from octavo.entrypoints.cli.main import run_command
from octavo.simulate.measured import Sample, profile_from_json
from octavo.simulate.report import SimulationReport

FEW = ("--num-requests", "40", "--request-rate", "20", "--lengths", "alpaca")


def simulate(*arguments: object) -> int:
    return run_command(["simulate", *map(str, arguments)])


def test_a_simulation_is_told_written_and_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output, plot = tmp_path / "r.json", tmp_path / "r.svg"
    shape = ["--tenant", "busy=3", "quiet=1", "--num-prefixes", 2, "--prefix-len", 64]
    wanted = ["--slo", "ttft=0.5,tpot=0.05", "--replicas", 2, "--router", "prefix_aware"]
    assert simulate(*FEW, *shape, *wanted, "-o", output, "--plot", plot) == 0
    report = msgspec.json.decode(output.read_bytes(), type=SimulationReport)
    assert report.results["num_finished"] == 40
    assert report.results["slo_share"] == 1.0
    assert report.settings["devices"] == 2
    assert {one.tenant for one in report.tenants} == {"busy", "quiet"}
    assert plot.read_text().startswith("<svg")
    shown = capsys.readouterr().out
    for words in ("taken for granted", "a100-80gb", "left out", "per_token", "busy"):
        assert words in shown


def test_the_fewest_replicas_are_searched(capsys: pytest.CaptureFixture[str]) -> None:
    heavy = ["--model", "gpt3-175b", "--tensor-parallel-size", 8, "--request-rate", 40]
    assert simulate(*FEW[:2], *FEW[4:], *heavy, "--slo", "e2e=60", "--search", "replicas") == 0
    captured = capsys.readouterr()
    assert "1 replicas: 100.00% in time, 0.00% pile up: enough" in captured.err
    assert "answer: 1 replicas, 8 devices keep e2e=60" in captured.out


def test_a_profile_is_fitted_and_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def metric(name: str, rate: float) -> Metric:
        return Metric(name=name, unit="tokens/s", better="higher", samples=[rate])

    report = Report(
        kind="latency",
        created="",
        machine=fingerprint(1),
        model="tiny",
        settings={"max_num_batched_tokens": 64},
        metrics=[
            metric("prefill context 128 batch 1", 1600.0),
            metric("decode context 128 batch 1", 100.0),
        ],
    )
    measured, profile = tmp_path / "latency.json", tmp_path / "profile.json"
    measured.write_bytes(report_to_json(report))
    assert simulate("fit", measured, "-o", profile) == 0
    assert "tiny on" in capsys.readouterr().out
    assert simulate(*FEW, "--profile", profile) == 2
    assert "give --num-pages" in capsys.readouterr().err
    assert simulate(*FEW, "--profile", profile, "--num-pages", 500, "--max-num-seqs", 8) == 0
    assert "measured: tiny" in capsys.readouterr().out


def test_a_server_that_tells_no_steps_is_measured_from_outside(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    base_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fake model says all at once; so only its name and pages are the server's own here."""

    async def measured(*_: object) -> list[Sample]:
        steps = (StepLoad(n, n, n, 9 * n, 0, 9 * n) for n in (1, 2))
        return [Sample([step], 0.001 * step.num_tokens) for step in steps]

    async def nothing(_: object) -> None:
        return None

    monkeypatch.setattr(octavo.entrypoints.cli.simulate_fit, "probe", measured)
    monkeypatch.setattr(octavo.entrypoints.cli.simulate_fit, "step_report", nothing)
    profile = tmp_path / "profile.json"
    assert simulate("fit", base_url, "--max-num-seqs", 2, "-o", profile) == 0
    assert "measured: fake" in capsys.readouterr().out
    made = profile_from_json(profile.read_bytes(), "profile")
    assert (made.max_num_seqs, made.max_num_batched_tokens) == (2, 512)
    assert simulate(*FEW, "--profile", profile, "--num-pages", 99) == 0


def test_a_server_is_measured_by_its_own_steps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, base_url: str
) -> None:
    profile = tmp_path / "profile.json"
    assert simulate("fit", base_url, "--no-load") == 2
    assert "tells of no step" in capsys.readouterr().err
    load = ["--clients", 2, "--input-len", 3, "--output-len", 2]
    assert simulate("fit", base_url, *load, "--max-num-seqs", 2, "-o", profile) == 0
    counts = [count for count, _ in profile_from_json(profile.read_bytes(), "profile").knots]
    assert counts[0] == 1
    assert counts[-1] >= 4
    assert simulate("fit", base_url, "--no-load", "-o", profile) == 0
    assert profile_from_json(profile.read_bytes(), "profile").request_seconds == 0.0
    assert simulate(*FEW, "--profile", profile, "--num-pages", 99) == 0


def test_a_server_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("fit", "http://127.0.0.1:1") == 1
    assert "does not list its models" in capsys.readouterr().err


def test_weights_and_keys_have_types_of_accelerators(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(*FEW, "--device", "h100", "--dtype", "fp8", "--kv-cache-dtype", "fp8") == 0
    assert "8.03 GB as fp8" in capsys.readouterr().out


def test_a_trace_is_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"time": 0, "prompt_tokens": 30, "output_tokens": 3}\n' * 3)
    assert simulate("--trace", trace, "--clients", 1) == 0
    assert "num_output_tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--device", "abacus"], "--device is 'abacus'"),
        (["--model", "eliza"], "--model is 'eliza'"),
        (["--model", "opt-175b"], "leave no room"),
        (["--model-params", "depth=1"], "names 'depth'"),
        (["--efficiency", "luck=1"], "names 'luck'"),
        (["--efficiency", "memory"], "NAME=NUMBER"),
        (["--router", "psychic"], "--router is 'psychic'"),
        (["--lengths", "novel"], "--lengths is 'novel'"),
        (["--input-len", "x"], "--input-len is 'x'"),
        (["--arrivals", "never"], "--arrivals is 'never'"),
        (["--request-rate", "0"], "--request-rate is 0.0"),
        (["--tenant", "a=0"], "--tenant gives 'a'"),
        (["--prefix-len", "-1"], "--prefix-len is -1"),
        (["--slo", "x"], "--slo is 'x'"),
        (["--search", "replicas"], "needs --slo"),
        (["--plot", "x.png"], "--plot is 'x.png'"),
        (["--num-requests", "0"], "an integer from 1"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    try:
        code = simulate(*arguments)
    except SystemExit as exited:
        code = int(str(exited.code))
    assert code == 2
    assert error in capsys.readouterr().err
