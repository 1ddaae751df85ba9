from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from octavo.config.engine import EngineConfig
from octavo.engine.child import ChildEngine, SupervisionLimits
from octavo.errors import ConfigError, EngineDead, WeightError
from tests.engine.test_client_in_process import Recorder
from tests.engine.tiny_engine import DIE, FOREVER, HANG, RAISE, REFUSE, tiny_request

WORKER = (sys.executable, str(Path(__file__).with_name("tiny_engine.py")))
QUICK = SupervisionLimits(first_backoff_seconds=0.01, watch_interval_seconds=0.05)

Scenario = Callable[[ChildEngine], Awaitable[None]]


def _child(model: str = "tiny", limits: SupervisionLimits = QUICK) -> ChildEngine:
    return ChildEngine(EngineConfig(model=model), limits=limits, command=WORKER)


def _run(scenario: Scenario, limits: SupervisionLimits = QUICK) -> None:
    async def run() -> None:
        client = _child(limits=limits)
        facts = await client.start()
        assert facts.num_pages == 8
        assert facts.start_seconds["load"] >= 0
        try:
            await scenario(client)
        finally:
            pid = client.process_id
            await client.shutdown()
            assert pid is None or not _is_alive(pid)

    asyncio.run(asyncio.wait_for(run(), 60))


def _is_alive(pid: int) -> bool:
    """A zombie that nobody has collected yet is not alive."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def _text(client: ChildEngine, request_id: str, *token_ids: int) -> str:
    stream = client.submit(tiny_request(request_id, *token_ids))
    return "".join([output.text async for output in stream])


async def _until_healthy(client: ChildEngine) -> None:
    while True:
        try:
            await client.check_health()
        except EngineDead:
            await asyncio.sleep(0.01)
        else:
            return


def test_requests_cross_the_pipe_and_come_back() -> None:
    async def scenario(client: ChildEngine) -> None:
        texts = await asyncio.gather(*(_text(client, f"r{i}", i, i + 1) for i in range(20)))
        assert texts == [f"{i} {i + 1} " for i in range(20)]
        refused = [output async for output in client.submit(tiny_request("bad", REFUSE))]
        assert refused[0].error == "refused by the engine"
        await client.check_health()

    _run(scenario)


def test_closing_a_stream_aborts_in_the_worker() -> None:
    async def scenario(client: ChildEngine) -> None:
        stream = client.submit(tiny_request("r", FOREVER))
        await anext(stream)
        stream.close()
        while client.stats().num_running:
            await asyncio.sleep(0.005)

    _run(scenario)


@pytest.mark.parametrize("command", [DIE, RAISE], ids=["killed", "raised"])
def test_a_dead_engine_fails_open_requests_at_once_and_is_restarted(command: int) -> None:
    async def scenario(client: ChildEngine) -> None:
        recorder = Recorder()
        client.observe(recorder)
        bystander = client.submit(tiny_request("bystander", FOREVER))
        await anext(bystander)
        first_pid = client.process_id
        started = time.monotonic()
        with pytest.raises(EngineDead):
            await _text(client, "r", command)
        with pytest.raises(EngineDead):
            [output async for output in bystander]
        assert time.monotonic() - started < 10  # no time-out of minutes was waited for
        with pytest.raises(EngineDead):
            await client.check_health()
        with pytest.raises(EngineDead):
            client.submit(tiny_request("s", 5))
        assert sorted(recorder.lost_ids) == ["bystander", "r"]
        await _until_healthy(client)
        assert client.process_id != first_pid
        assert await _text(client, "again", 7) == "7 "

    _run(scenario)


def test_a_stopped_engine_is_unhealthy_within_a_second_and_recovers_without_loss() -> None:
    async def scenario(client: ChildEngine) -> None:
        stream = client.submit(tiny_request("r", FOREVER))
        await anext(stream)
        pid = client.process_id
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(1.3)
        with pytest.raises(EngineDead, match="not answered"):
            await client.check_health()
        waiting = asyncio.create_task(_text(client, "patient", 7))
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGCONT)
        await _until_healthy(client)
        assert client.process_id == pid
        assert await waiting == "7 "
        assert (await anext(stream)).token_ids
        stream.close()

    _run(scenario)


def test_an_engine_that_stays_silent_is_given_no_more_requests() -> None:
    async def scenario(client: ChildEngine) -> None:
        pid = client.process_id
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(1.0)
        with pytest.raises(EngineDead, match="not answered"):
            client.submit(tiny_request("s", 5))
        os.kill(pid, signal.SIGCONT)
        await _until_healthy(client)
        assert await _text(client, "again", 7) == "7 "

    _run(scenario, SupervisionLimits(refusal_seconds=0.6))


def test_a_step_that_never_ends_is_killed_and_the_engine_restarted() -> None:
    async def scenario(client: ChildEngine) -> None:
        await asyncio.sleep(0.5)
        with pytest.raises(EngineDead):
            await _text(client, "r", HANG)
        await _until_healthy(client)
        assert await _text(client, "again", 7) == "7 "

    _run(scenario, SupervisionLimits(stall_seconds=1.0, watch_interval_seconds=0.05))


def test_idleness_is_no_stall() -> None:
    async def scenario(client: ChildEngine) -> None:
        pid = client.process_id
        await asyncio.sleep(1.5)
        assert client.process_id == pid
        assert await _text(client, "r", 7) == "7 "

    _run(scenario, SupervisionLimits(stall_seconds=1.0, watch_interval_seconds=0.05))


def test_an_engine_that_stood_still_together_with_its_front_goes_on_where_it_was() -> None:
    async def scenario(client: ChildEngine) -> None:
        stream = client.submit(tiny_request("r", FOREVER))
        await anext(stream)
        pid = client.process_id
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(0.2)  # what it said before is heard
        time.sleep(1.5)  # the front stands still as well
        await asyncio.sleep(0.2)
        os.kill(pid, signal.SIGCONT)
        await _until_healthy(client)
        assert client.process_id == pid
        assert (await anext(stream)).token_ids
        stream.close()

    _run(scenario, SupervisionLimits(stall_seconds=1.0, watch_interval_seconds=0.05))


def test_it_gives_up_after_too_many_crashes() -> None:
    limits = SupervisionLimits(first_backoff_seconds=0.01, max_num_crashes=2)

    async def scenario(client: ChildEngine) -> None:
        for name in ("a", "b"):
            await _until_healthy(client)
            with pytest.raises(EngineDead):
                await _text(client, name, DIE)
        await client.wait_gone()
        with pytest.raises(EngineDead, match="given up"):
            await client.check_health()

    _run(scenario, limits)


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        ("bad-config", ConfigError, "^the option is bad$"),
        ("bad-weights", WeightError, r"^model.gguf \(byte 7\): the tensor is bad$"),
        ("crash", EngineDead, "ended with status -9 while it was loading"),
    ],
)
def test_a_failure_to_load_is_raised_as_it_was(
    model: str, kind: type[Exception], message: str
) -> None:
    async def run() -> None:
        client = _child(model)
        with pytest.raises(kind, match=message):
            await client.start()
        await client.shutdown()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_progress_of_loading_is_reported() -> None:
    async def run() -> None:
        heard: list[tuple[int, int]] = []
        client = ChildEngine(
            EngineConfig(model="tiny"),
            command=WORKER,
            on_progress=lambda done, total: heard.append((done, total)),
        )
        await client.start()
        await client.shutdown()
        assert heard == [(1, 2), (2, 2)]

    asyncio.run(asyncio.wait_for(run(), 30))


def test_the_worker_ends_with_a_killed_parent() -> None:
    program = textwrap.dedent(
        """
        import asyncio, sys
        from octavo.config.engine import EngineConfig
        from octavo.engine.child import ChildEngine

        async def main():
            client = ChildEngine(EngineConfig(model="tiny"), command=sys.argv[1:])
            await client.start()
            print(client.process_id, flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, *WORKER], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker_pid = int(parent.stdout.readline())
        assert _is_alive(worker_pid)
        parent.kill()
    deadline = time.monotonic() + 5
    while _is_alive(worker_pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_alive(worker_pid)


def test_a_reset_crosses_the_pipe_before_what_is_submitted_later() -> None:
    async def scenario(client: ChildEngine) -> None:
        client.reset_prefix_cache()
        await _text(client, "r", 1, 2)
        assert client.stats().num_steps > 0
        assert client.stats().num_cached_pages == 0

    _run(scenario)
