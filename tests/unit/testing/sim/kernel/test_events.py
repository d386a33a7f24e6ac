"""Tests of virtual time: order, pauses, traces and random streams."""

from __future__ import annotations

import pytest

from ottla.testing.sim.kernel.events import Kernel, Owner


def owner(kernel: Kernel, name: str) -> Owner:
    return Owner(name, kernel.trace(name))


def test_events_of_one_moment_run_in_the_order_in_which_they_were_scheduled() -> None:
    kernel = Kernel(1)
    host = owner(kernel, "a")
    seen: list[int] = []
    for number in range(3):
        kernel.schedule(10, host, lambda number=number: seen.append(number))  # type: ignore[misc]
    kernel.schedule(5, host, lambda: seen.append(9))

    while kernel.step():
        pass

    assert seen == [9, 0, 1, 2]
    assert kernel.now_us == 10


def test_an_event_is_scheduled_after_the_event_that_schedules_it() -> None:
    kernel = Kernel(1)
    host = owner(kernel, "a")
    times: list[int] = []

    def again() -> None:
        times.append(kernel.now_us)
        if len(times) < 3:
            kernel.schedule(0, host, again)

    kernel.schedule(7, host, again)
    while kernel.step():
        pass

    assert times == [7, 8, 9]


def test_a_paused_owner_runs_its_events_after_the_pause_and_in_order() -> None:
    kernel = Kernel(1)
    paused, other = owner(kernel, "paused"), owner(kernel, "other")
    seen: list[str] = []
    paused.paused_until_us = 100
    kernel.schedule(10, paused, lambda: seen.append("first"))
    kernel.schedule(20, paused, lambda: seen.append("second"))
    kernel.schedule(30, other, lambda: seen.append("other"))

    while kernel.step():
        pass

    assert seen == ["other", "first", "second"]


def test_events_of_a_dead_owner_are_discarded() -> None:
    kernel = Kernel(1)
    dead = owner(kernel, "dead")
    kernel.schedule(10, dead, lambda: pytest.fail("a dead owner has no events"))
    dead.alive = False

    assert not kernel.step()


def test_the_trace_of_a_host_does_not_depend_on_other_hosts() -> None:
    def run(noise: int) -> dict[str, str]:
        kernel = Kernel(1)
        host, other = owner(kernel, "host"), owner(kernel, "other")
        for number in range(noise):
            kernel.schedule(number, other, lambda: kernel.note("other", "event"))
        for number in range(10):
            kernel.schedule(number, host, lambda: kernel.schedule(0, host, lambda: kernel.note("host", "x")))
        while kernel.step():
            pass
        return {name: trace.digest for name, trace in kernel.traces.items()}

    quiet, noisy = run(0), run(50)

    assert quiet["host"] == noisy["host"]
    assert quiet["other"] != noisy["other"]


def test_counts_and_digest_of_a_run_include_all_hosts() -> None:
    kernel = Kernel(1)
    before = kernel.digest
    for name in ("a", "b"):
        kernel.schedule(1, owner(kernel, name), lambda: kernel.count("faults", 2))
    while kernel.step():
        pass

    assert kernel.counts == {"faults": 4}
    assert kernel.traces["a"].counts == {"faults": 2}
    assert kernel.digest != before


def test_only_the_first_violation_counts() -> None:
    kernel = Kernel(1)
    kernel.check(True, "rule 0", "holds")
    kernel.check(False, "rule 1", "does not hold")
    kernel.check(False, "rule 2", "follows")

    assert str(kernel.violation) == "rule 1: does not hold"


def test_two_hosts_cannot_have_one_name() -> None:
    kernel = Kernel(1)
    kernel.trace("a")
    with pytest.raises(ValueError, match="unique"):
        kernel.trace("a")
