"""Handshake steps: a bounded number at once, in order."""

from __future__ import annotations

from ottla.base.executor import Done, Work
from ottla.broker.net.tls_listeners import TlsListeners


class Steps:
    """An executor whose work is finished by the test."""

    def __init__(self) -> None:
        self.started: list[tuple[Work, Done]] = []

    def submit(self, work: Work, done: Done) -> None:
        self.started.append((work, done))

    def finish(self, error: BaseException | None = None) -> None:
        work, done = self.started.pop(0)
        work()
        done(error)


def test_two_steps_at_once_and_the_others_in_order() -> None:
    executor = Steps()
    tls = TlsListeners({}, executor)
    computed: list[int] = []
    finished: list[tuple[int, BaseException | None]] = []
    for number in range(4):
        tls.compute(
            lambda number=number: computed.append(number),  # type: ignore[misc]
            lambda error, number=number: finished.append((number, error)),  # type: ignore[misc]
        )
    assert len(executor.started) == 2
    failure = OSError("failed")
    executor.finish(failure)
    assert len(executor.started) == 2, "the next one starts"
    for _ in range(3):
        executor.finish()
    assert computed == [0, 1, 2, 3]
    assert finished == [(0, failure), (1, None), (2, None), (3, None)]
    assert executor.started == []
