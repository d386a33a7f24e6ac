"""The command `demo`: how it ends, and which cause it reports for a failure."""

from __future__ import annotations

import io
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ottla.base.errors import LocalError
from ottla.cli import demo
from ottla.local import broker_process


class Broker:
    """Fake broker; `fails` is the error of its start."""

    bootstrap = "127.0.0.1:1"
    fails: Exception | None = None
    stopped = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def start(self) -> None:
        if self.fails is not None:
            raise self.fails

    def stop(self) -> None:
        type(self).stopped += 1


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> type[Broker]:
    class One(Broker):
        pass

    monkeypatch.setattr(broker_process, "BrokerProcess", One)
    return One


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), record=True)


def test_a_broker_that_does_not_start_is_reported(broker: type[Broker], console: Console) -> None:
    broker.fails = TimeoutError("not ready\nreason=no room")
    with (
        pytest.raises(LocalError, match=r"^the broker did not start: no room$"),
        demo._broker(console, Path("data"), None),
    ):
        raise AssertionError("it has not started")
    assert broker.stopped == 1


def test_a_later_error_is_not_reported_as_a_failed_start(broker: type[Broker], console: Console) -> None:
    with pytest.raises(TimeoutError, match="something else"), demo._broker(console, Path("data"), None):
        raise TimeoutError("something else")
    assert broker.stopped == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_stop_is_reported_at_once_and_requested_once(console: Console, number: signal.Signals) -> None:
    with demo._interruptible(console):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.raise_signal(number)
        assert console.export_text() == "Stopping ...\n"
