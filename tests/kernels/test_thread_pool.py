"""Workers, barrier and parking, seen through programs: Python reaches them in no other way."""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from octavo.kernels import DType, OperandKind, RowKind
from octavo.kernels import _native as native
from tests.kernels.harness import F32, LEVELS, StepArrays

NUM_ROWS = 64
NUM_CORES = len(os.sched_getaffinity(0))


def operand(offset: int = 0) -> native.OperandSpec:
    """32 float32 columns."""
    return (OperandKind.ARENA, RowKind.TOKENS, DType.F32, 32, offset, 0, 128, None)


def doubling_program(
    num_adds: int, num_threads: int = 2, pool: native.ThreadPool | None = None
) -> native.Program:
    """`num_adds` times x = x + x: wrong if any worker ran ahead of a barrier."""
    x = operand()
    instructions: list[native.InstructionSpec] = [("add", 0, [x, x], [x], [], [])] * num_adds
    pool = pool or native.ThreadPool(num_threads)
    program = native.Program(pool, LEVELS[0], instructions, (128, 0, 0), (NUM_ROWS, 1, 1))
    value_of(program)[:] = 2.0**-100
    return program


def value_of(program: native.Program) -> F32:
    return program.view(operand(), NUM_ROWS)


def run(program: native.Program) -> None:
    program.run(StepArrays(NUM_ROWS).native(), NUM_ROWS, 1, 1)


@pytest.mark.parametrize("num_threads", [1, 2, 3, 4 * NUM_CORES])
def test_no_worker_passes_a_barrier_early(num_threads: int) -> None:
    """100 doublings per step, 30 steps; exact in float32."""
    program = doubling_program(100, num_threads)
    for _ in range(30):
        value_of(program)[:] = 2.0**-100
        run(program)
        assert np.all(value_of(program) == 1.0)


def test_thousands_of_instructions_with_more_threads_than_cores_end_soon() -> None:
    program = doubling_program(3000, NUM_CORES + 3)
    start = time.monotonic()
    run(program)
    assert time.monotonic() - start < 30


def test_an_idle_pool_takes_no_processor_time() -> None:
    program = doubling_program(10)
    run(program)
    time.sleep(0.01)  # the workers' last spin ends well before
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_python_runs_while_a_program_does() -> None:
    """The GIL is released: another thread counts on during one long program."""
    program = doubling_program(50_000, 1)
    running = threading.Thread(target=run, args=(program,))
    running.start()
    ticks = 0
    while running.is_alive():
        ticks += 1
        time.sleep(0)
    assert ticks > 10


def test_programs_of_several_callers_take_turns() -> None:
    """Two programs on one pool, and one program from two threads."""
    pool = native.ThreadPool(2)
    programs = [doubling_program(10, pool=pool) for _ in range(2)]

    def call(program: native.Program) -> None:
        for _ in range(5):
            run(program)

    callers = [threading.Thread(target=call, args=(p,)) for p in (*programs, *programs)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for program in programs:
        assert np.all(value_of(program) == 1.0)


@pytest.mark.skipif(NUM_CORES < 2, reason="needs a core for each of two threads")
def test_workers_keep_off_the_callers_core() -> None:
    """Woken there, they would wait until the caller sleeps. The caller's cores stay its own."""
    program, workers = doubling_program_and_workers()
    cores = os.sched_getaffinity(0)
    for core in sorted(cores):
        caller = threading.Thread(target=run_on, args=(core, program))
        caller.start()
        caller.join()
        for worker in workers:
            assert core not in os.sched_getaffinity(worker)
            assert os.sched_getaffinity(worker) <= cores
    assert os.sched_getaffinity(0) == cores


def doubling_program_and_workers() -> tuple[native.Program, set[int]]:
    """And the thread ids of its pool."""
    before = thread_ids()
    program = doubling_program(10)
    return program, thread_ids() - before


def thread_ids() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def run_on(core: int, program: native.Program) -> None:
    os.sched_setaffinity(threading.get_native_id(), {core})
    run(program)


def test_pools_come_and_go() -> None:
    for num_threads in (1, 2, 5, 2, 1) * 10:
        assert native.ThreadPool(num_threads).num_threads == num_threads


@pytest.mark.parametrize("num_threads", [0, -1, 1025])
def test_thread_counts_out_of_range_are_refused(num_threads: int) -> None:
    with pytest.raises(ValueError, match=f"num_threads is {num_threads}; 1 to 1024"):
        native.ThreadPool(num_threads)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets the x86 rounding mode")
def test_rounding_does_not_depend_on_the_caller() -> None:
    """A library that changes the calling thread's rounding must not change results."""
    upward, nearest = 0x800, 0
    libm = ctypes.CDLL(None)
    a, b = operand(), operand(128)
    pool = native.ThreadPool(1)
    program = native.Program(
        pool, LEVELS[0], [("add", 0, [a, b], [a], [], [])], (256, 0, 0), (1, 1, 1)
    )
    program.view(a, 1)[:] = 1.0
    program.view(b, 1)[:] = 2.0**-30
    assert libm.fesetround(upward) == 0
    try:
        program.run(StepArrays(1).native(), 1, 1, 1)
    finally:
        libm.fesetround(nearest)
    assert np.all(program.view(a, 1) == 1.0)
