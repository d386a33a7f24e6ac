"""The phases at the end of an iteration of the event loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.turn import Turn


class Iterations:
    """An event loop whose iterations are run by the test."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []
        self.turn = Turn(self)
        self.ran: list[str] = []

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.ready.append(callback)

    def note(self, name: str) -> Callable[[], None]:
        return lambda: self.ran.append(name)

    def iterate(self) -> list[str]:
        ready, self.ready = self.ready, []
        self.ran = []
        for callback in ready:
            callback()
        return self.ran


@pytest.fixture
def loop() -> Iterations:
    return Iterations()


def test_each_phase_leads_to_the_next_one_in_the_same_iteration(loop: Iterations) -> None:
    def write() -> None:
        loop.ran.append("write")
        loop.turn.check(check)

    def check() -> None:
        loop.ran.append("check")
        loop.turn.send(loop.note("send"))

    loop.turn.send(loop.note("earlier send"))
    loop.turn.write(write)
    assert len(loop.ready) == 1
    assert loop.iterate() == ["write", "check", "earlier send", "send"]
    assert loop.ready == []


def test_what_a_phase_adds_to_itself_or_to_an_earlier_one_runs_in_the_next_iteration(
    loop: Iterations,
) -> None:
    def send() -> None:
        loop.turn.write(loop.note("write"))
        loop.turn.send(loop.note("second send"))
        loop.turn.check(loop.note("check"))

    loop.turn.send(send)
    assert loop.iterate() == []
    assert loop.iterate() == ["write", "check", "second send"]
    assert loop.ready == []


def test_the_other_callbacks_run_after_an_exception(loop: Iterations) -> None:
    def fail() -> None:
        raise ValueError("broken")

    loop.turn.write(fail)
    loop.turn.write(loop.note("write"))
    loop.turn.send(loop.note("send"))
    with pytest.raises(ValueError, match="broken"):
        loop.iterate()
    assert loop.iterate() == ["write", "send"]
