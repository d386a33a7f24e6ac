"""Tests of simulated hosts: processes, disk, clock and power."""

from __future__ import annotations

import pytest

from ottla.base.rng import Random
from ottla.testing.disk import Survival
from ottla.testing.sim.kernel.disk import PowerLossDisk, PowerLost
from ottla.testing.sim.kernel.events import START_MS, Kernel
from ottla.testing.sim.kernel.executor import SimExecutor
from ottla.testing.sim.kernel.host import Host


@pytest.fixture
def host() -> Host:
    return Host(Kernel(1), "host")


def run(host: Host) -> None:
    while host.kernel.step():
        pass


def write(host: Host, name: str, *, sync: bool) -> None:
    """Write a file whose name is durable."""
    file = host.disk.open(name, create=True)
    host.disk.sync_dir("/")
    file.pwritev([b"data"], 0, sync=sync)


def test_a_killed_host_keeps_all_writes(host: Host) -> None:
    write(host, "/unsynced", sync=False)
    host.kill()

    assert host.disk.read("/unsynced") == b"data"


def test_a_host_without_power_loses_what_was_not_synced(host: Host) -> None:
    write(host, "/synced", sync=True)
    write(host, "/unsynced", sync=False)
    host.power_off(Survival.NONE)

    assert host.disk.read("/synced") == b"data"
    assert host.disk.read("/unsynced") == b""


def test_nothing_runs_on_a_host_that_is_switched_off(host: Host) -> None:
    process = host.start_process("p")
    process.call_soon(pytest.fail, "the process is dead")
    host.power_off(Survival.NONE)
    run(host)

    assert host.processes == []
    with pytest.raises(RuntimeError, match="switched off"):
        host.start_process("q")


def test_a_host_runs_processes_after_it_is_switched_on(host: Host) -> None:
    host.power_off(Survival.NONE)
    host.power_on()
    seen: list[str] = []
    host.start_process("p").call_soon(seen.append, "runs")
    run(host)

    assert seen == ["runs"]


def test_a_pause_delays_all_processes_and_resume_ends_it(host: Host) -> None:
    times: list[int] = []
    first, second = host.start_process("p"), host.start_process("q")
    host.pause(10)
    for process in (first, second):
        process.call_soon(lambda: times.append(host.kernel.now_ms))
    run(host)
    host.pause(1000)
    host.resume()
    first.call_soon(lambda: times.append(host.kernel.now_ms))
    run(host)

    assert times == [10, 10, 10]


def test_a_clock_jump_affects_one_host_and_not_its_monotonic_clock(host: Host) -> None:
    other = Host(host.kernel, "other")
    before = host.clock.monotonic()
    host.clock.offset_ms += 5000

    assert host.clock.now_ms() == START_MS + 5000
    assert host.clock.monotonic() == before
    assert other.clock.now_ms() == START_MS


def test_random_streams_differ_between_hosts_and_purposes(host: Host) -> None:
    other = Host(host.kernel, "other")
    draws = {host.stream("x").random(), host.stream("y").random(), other.stream("x").random()}

    assert len(draws) == 3
    assert host.stream("x").random() in draws


def test_the_executor_runs_work_later_and_reports_its_failure(host: Host) -> None:
    seen: list[object] = []
    executor = SimExecutor(host, host.start_process("p"))

    def fail() -> None:
        raise OSError("disk")

    executor.submit(lambda: seen.append("work"), seen.append)
    executor.submit(fail, seen.append)
    assert seen == []
    run(host)

    assert {str(each) for each in seen} == {"work", "None", "disk"}


def test_the_executor_reports_nothing_after_a_power_failure(host: Host) -> None:
    seen: list[object] = []
    host.disk.lose_power_in(0)
    executor = SimExecutor(host, host.start_process("p"))
    executor.submit(lambda: host.disk.mkdir("/x"), seen.append)
    run(host)

    assert seen == []
    assert host.disk.power_lost
    with pytest.raises(PowerLost):
        host.disk.mkdir("/y")


def test_a_slow_disk_delays_work(host: Host) -> None:
    host.slow_chance, host.slow_ms_max = 1.0, 1000.0
    executor = SimExecutor(host, host.start_process("p"))
    for _ in range(5):
        executor.submit(lambda: None, lambda _: None)
    run(host)

    assert host.kernel.now_ms > 5


def test_a_failed_directory_cannot_be_used_by_a_node_but_by_checkers() -> None:
    disk = PowerLossDisk(Random("disk"))
    disk.makedirs("/data")
    disk.replace("/data/a", b"x")
    disk.failed_dir = "/data"
    with pytest.raises(OSError, match="Input/output error"):
        disk.open("/data/a")
    disk.inspected = True
    assert disk.read("/data/a") == b"x"
