"""The pace of a host: later events wait for a busy event loop, and completions of work are late."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.kernel.executor import SimExecutor
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.kernel.pace import EVEN, PACES, Pace


def started(pace: Pace, seed: int = 1) -> tuple[Kernel, Host, SimLoop]:
    kernel = Kernel(seed)
    host = Host(kernel, "host")
    host.pace = pace
    return kernel, host, host.start_process("process")


def run(kernel: Kernel) -> None:
    while kernel.step():
        pass


def test_an_even_pace_takes_no_time() -> None:
    kernel, _, loop = started(EVEN)
    times: list[int] = []
    for _ in range(3):
        loop.call_later(0.001, lambda: times.append(kernel.now_us))
    run(kernel)
    assert times == [1000, 1000, 1000]


def test_later_events_wait_in_order_while_the_loop_is_busy() -> None:
    kernel, _, loop = started(Pace("busy", busy_ms_max=5.0))
    seen: list[tuple[int, int]] = []
    for number in range(50):
        loop.call_later(0.001 + number * 1e-6, lambda number=number: seen.append((number, kernel.now_us)))
    run(kernel)
    assert [number for number, _ in seen] == list(range(50))
    gaps = [later - earlier for (_, earlier), (_, later) in pairwise(seen)]
    assert max(gaps) <= 5001
    assert sum(gaps) > 50_000, "an event takes 2.5 ms on average"


def test_only_some_events_stall() -> None:
    pace = Pace("stalling", stall_chance=0.1, stall_ms_max=10.0)
    rng = Kernel(7).stream("test")
    times = [pace.event_us(rng) for _ in range(1000)]
    assert 50 < sum(time > 0 for time in times) < 200
    assert max(times) <= 10_000


def test_a_completion_is_late_and_the_work_is_not() -> None:
    kernel, host, loop = started(Pace("late", work_ms=(1.0, 1.0), notice_ms_max=100.0))
    executor = SimExecutor(host, loop)
    worked: list[int] = []
    done: list[int] = []
    for _ in range(20):
        executor.submit(lambda: worked.append(kernel.now_us), lambda _: done.append(kernel.now_us))
    run(kernel)
    assert worked == [1000] * 20
    assert len(done) == 20
    assert max(done) > 20_000


@pytest.mark.parametrize("pace", PACES, ids=[pace.name for pace in PACES])
def test_a_pace_repeats_with_its_seed(pace: Pace) -> None:
    def digest(seed: int) -> str:
        kernel, host, loop = started(pace, seed)
        executor = SimExecutor(host, loop)

        def again(left: int) -> None:
            if left:
                executor.submit(lambda: None, lambda _: again(left - 1))

        again(30)
        run(kernel)
        return kernel.digest

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)
