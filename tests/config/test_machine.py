"""Cores and memory are those that this process may use, not those that the machine has."""

from __future__ import annotations

from pathlib import Path

from octavo.config import machine


def cpu(folder: Path, number: int, siblings: str) -> None:
    topology = folder / f"cpu{number}" / "topology"
    topology.mkdir(parents=True)
    (topology / "thread_siblings_list").write_text(f"{siblings}\n")


def test_two_hyperthreads_are_one_core(tmp_path: Path) -> None:
    for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        cpu(tmp_path, number, siblings)
    assert machine._physical_cores({0, 1, 2, 3}, tmp_path) == 2
    assert machine._physical_cores({0, 2}, tmp_path) == 1


def test_without_topology_each_processor_is_a_core(tmp_path: Path) -> None:
    assert machine._physical_cores({0, 5}, tmp_path) == 2


def test_a_quota_limits_the_cores(tmp_path: Path) -> None:
    assert machine._quota_cores(tmp_path) is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert machine._quota_cores(tmp_path) is None
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert machine._quota_cores(tmp_path) == 2


def test_memory_is_the_lesser_of_machine_and_container(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000 kB\nMemAvailable:    10 kB\n")
    assert machine._memory_bytes(tmp_path, meminfo) == 1000 << 10
    (tmp_path / "memory.max").write_text("max\n")
    assert machine._memory_bytes(tmp_path, meminfo) == 1000 << 10
    (tmp_path / "memory.max").write_text("5000\n")
    assert machine._memory_bytes(tmp_path, meminfo) == 5000


def test_this_machine_has_a_core_and_memory() -> None:
    here = machine.this_machine()
    assert here.num_cores >= 1
    assert here.memory_bytes > 0
