"""The view of a running server, from metrics that a small HTTP server of the test's own shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from msgspec.structs import replace
from rich.console import Console

from octavo.core.outputs import EngineOutputs, EngineStats, RequestTimes, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.cli.engine_view import engine_view
from octavo.entrypoints.cli.main import run_command
from octavo.metrics.engine_metrics import EngineMetrics
from octavo.metrics.snapshot import parse_snapshot

MAX_LOOKS = 3
"""So often the test's server answers."""

KEY = "key-of-the-server"
STATS = EngineStats(
    num_running=4,
    num_waiting=3,
    num_pages=40,
    num_used_pages=10,
    num_steps=7,
    num_wasted_slots=8,
    num_wasted_tokens=123,
    num_preemptions=5,
    prefix_cache_queries=100,
    prefix_cache_hits=25,
    num_waiting_by_reason={"slots": 2, "pages": 1},
    num_waiting_by_tenant={"alice": 3},
)


def _metrics() -> EngineMetrics:
    """Of a server with one request behind it, and several that wait."""
    metrics = EngineMetrics("m", 100, {"block_size": "16"}, policy="fair")
    metrics.started({}, num_pages=40)
    metrics.submitted(
        EngineRequest(
            request_id="r",
            prompt_token_ids=[1],
            sampling_params=SamplingParams(max_tokens=1),
            arrival_time=0.0,
            tenant="alice",
        )
    )
    times = RequestTimes(queue_seconds=0.4, num_prompt_tokens=1, num_generation_tokens=1)
    output = SequenceOutput(request_id="r", token_ids=[7], finish_reason="stop")
    metrics.stepped(EngineOutputs(outputs=[output], finished=[("r", 0, times)], stats=STATS))
    metrics.refused("queue_full")
    return metrics


@pytest.fixture
def url() -> Iterator[str]:
    text = _metrics().text()
    looks: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            looks.append(self.path)
            is_known = self.headers["Authorization"] == f"Bearer {KEY}" and len(looks) <= MAX_LOOKS
            body = text if is_known and self.path == "/metrics" else b"who are you?"
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def _rows(text: str) -> dict[str, str]:
    """The rest of each line by its first words, the first such line."""
    lines = [line.strip() for line in text.splitlines() if "  " in line.strip()]
    rows: dict[str, str] = {}
    for line in lines:
        rows.setdefault(line.partition("  ")[0], line.partition("  ")[2].strip())
    return rows


@pytest.mark.parametrize("suffix", ["", "/", "/v1"])
def test_once(url: str, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["inspect", "engine", url + suffix, "--once", "--api-key", KEY]) == 0
    rows = _rows(capsys.readouterr().out)
    assert rows["running"] == "4"
    assert rows["waiting"] == "3 (slots 2, pages 1)"
    assert rows["pages"] == "10 of 40 held (25.0%), 0 only cached"
    assert rows["waste in pages"] == "8 slots (5.0%)"
    assert rows["preemptions"].split() == ["5", "-"]
    assert rows["tokens computed again"].split() == ["123", "-"]
    assert rows["prompt tokens cached (25.0%)"].split() == ["25", "-"]
    assert rows["refused (queue_full 1)"].split() == ["1", "-"]
    assert rows["finished (stop 1)"].split() == ["1", "-"]
    assert rows["alice"].split() == ["3", "0.400", "0.498"]  # of the bucket from 0.3 to 0.5
    assert len(rows["first token"].split()) == 3


def test_the_key_comes_from_the_environment(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_API_KEY", f"{KEY},another")
    assert run_command(["inspect", "engine", url, "--once"]) == 0
    assert "running" in capsys.readouterr().out


def test_the_live_view_looks_again_until_the_server_is_gone(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes rich take the test's pipe for a terminal
    assert run_command(["inspect", "engine", url, "--interval", "0.1", "--api-key", KEY]) == 1
    captured = capsys.readouterr()
    assert "waste in pages" in captured.out
    assert "HTTP 401" in captured.err


@pytest.mark.parametrize("interval", ["0", "soon", "nan", "4000"])
def test_intervals_out_of_range(interval: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command(["inspect", "engine", "http://127.0.0.1:1", "--interval", interval])
    assert "0.1 to 3600 seconds" in capsys.readouterr().err


def test_rates_and_percentiles_are_of_the_time_between_two_looks() -> None:
    metrics = _metrics()
    before = parse_snapshot(metrics.text().decode(), 10.0)
    metrics.stepped(EngineOutputs(stats=replace(STATS, num_steps=27, num_running=0)))
    now = parse_snapshot(metrics.text().decode(), 14.0)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(engine_view(now, before))
    rows = _rows(capture.get())
    assert rows["steps"].split() == ["20", "5.0"]
    assert rows["preemptions"].split() == ["0", "0.0"]
    assert rows["running"] == "0"
    assert rows["first token"].split() == ["-", "-", "-"]


def test_what_cannot_be_shown_is_told_in_one_line(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, code, message in (
        ([url, "--api-key", "wrong"], 1, "shows no metrics: HTTP 401"),
        (["http://127.0.0.1:1"], 1, "127.0.0.1 port 1 shows no metrics"),
        (["nonsense"], 2, "'nonsense' is no http or https URL"),
    ):
        assert run_command(["inspect", "engine", *arguments, "--once"]) == code
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
