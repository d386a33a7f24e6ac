"""Actions on brokers: requested by one thread, executed by another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.base.errors import LocalError
from ottla.console.broker_control import BrokerControl


def test_the_owner_executes_what_is_requested() -> None:
    control = BrokerControl(lambda: {0: "running", 1: "running"})
    executed: list[tuple[str, int, threading.Thread]] = []

    def execute(action: str, node_id: int) -> str:
        executed.append((action, node_id, threading.current_thread()))
        return "killed"

    with ThreadPoolExecutor(1) as other:
        requested = other.submit(control.request, "kill", 1)
        while not requested.done():
            control.execute_pending(execute)
    assert requested.result() == "killed"
    assert executed == [("kill", 1, threading.current_thread())]


def test_an_error_is_raised_where_the_action_was_requested() -> None:
    control = BrokerControl(lambda: {0: "running"})

    def execute(action: str, node_id: int) -> str:
        raise LocalError("the broker did not stop")

    with ThreadPoolExecutor(1) as other:
        requested = other.submit(control.request, "restart", 0)
        while not requested.done():
            control.execute_pending(execute)
    with pytest.raises(LocalError, match="did not stop"):
        requested.result()


@pytest.mark.parametrize(("action", "node_id"), [("kill", 7), ("format", 0), ("", 0)])
def test_an_unknown_broker_or_action_is_refused(action: str, node_id: int) -> None:
    control = BrokerControl(lambda: {0: "running"})
    with pytest.raises(LocalError):
        control.request(action, node_id)


def test_an_action_that_is_not_executed_in_time_is_not_executed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.console.broker_control.TIMEOUT_S", 0.0)
    control = BrokerControl(lambda: {0: "running"})
    with pytest.raises(LocalError, match="not executed"):
        control.request("kill", 0)
    executed: list[str] = []
    control.execute_pending(lambda action, _: executed.append(action) or "")  # type: ignore[func-returns-value]
    assert executed == []
