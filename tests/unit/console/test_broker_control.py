"""Actions on brokers: requested by one thread, executed by another."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.admin.contexts import LOCAL, Context, ContextFolder
from ottla.base.errors import LocalError
from ottla.console.broker_control import ActionQueue, RemoteControl
from ottla.local.control import ControlInbox


def test_the_owner_executes_what_is_requested() -> None:
    control = ActionQueue(lambda: {0: "running", 1: "running"})
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
    control = ActionQueue(lambda: {0: "running"})

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
    control = ActionQueue(lambda: {0: "running"})
    with pytest.raises(LocalError):
        control.request(action, node_id)


def test_an_action_that_is_not_executed_in_time_is_not_executed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.console.broker_control.TIMEOUT_S", 0.0)
    control = ActionQueue(lambda: {0: "running"})
    with pytest.raises(LocalError, match="not executed"):
        control.request("kill", 0)
    executed: list[str] = []
    control.execute_pending(lambda action, _: executed.append(action) or "")  # type: ignore[func-returns-value]
    assert executed == []


def test_actions_are_sent_to_the_process_that_runs_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    control = RemoteControl("127.0.0.1:9092,127.0.0.1:9093")
    assert control.states() == {}
    with pytest.raises(LocalError, match="no action kill"):
        control.request("kill", 0)
    ContextFolder.of_user().save(Context(LOCAL, "127.0.0.1:9093", {}, tmp_path, os.getpid()))
    performed: list[tuple[str, int]] = []
    with ControlInbox(tmp_path) as inbox, ThreadPoolExecutor(1) as other:

        def perform(action: str, node_id: int) -> str:
            requested = other.submit(control.request, action, node_id)
            while not requested.done():
                for each in inbox.requests():
                    performed.append((each.action, each.broker))
                    inbox.respond(each, each.action, True)
            return requested.result()

        inbox.publish_states({0: "running", 1: "paused"})
        assert [perform("pause", 0), perform("pause", 1), perform("kill", 1)] == ["pause", "resume", "kill"]
        with pytest.raises(LocalError, match="no action kill on broker 7"):
            perform("kill", 7)
    assert performed == [("pause", 0), ("resume", 1), ("kill", 1)]
    assert control.states() == {}
