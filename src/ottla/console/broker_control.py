"""Actions on the brokers of a local cluster, requested by the console and executed by the owner of the cluster.

`ottla up` and `ottla demo` own their `LocalCluster`, which is not thread-safe. Brokers are started by the owner only:
the kernel then ends them with it. The console calls `BrokerControl.request` from its own threads and waits for the
result. In the process of the owner it is an `ActionQueue`: the owner calls `execute_pending` in its loop. In another
process it is a `RemoteControl`, which sends the action to the `ottla up` that runs at the same address.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, Protocol

from ottla.admin.contexts import local_cluster
from ottla.base.errors import LocalError
from ottla.local.control import read_states, send

Action = Literal["kill", "pause", "stop", "restart"]
ACTIONS: tuple[Action, ...] = ("kill", "pause", "stop", "restart")
TIMEOUT_S = 60.0


class BrokerControl(Protocol):
    """Both methods may be called from any thread."""

    def states(self) -> Mapping[int, str]:
        """The state of each broker process; empty if no broker can be controlled."""
        ...

    def request(self, action: str, node_id: int) -> str:
        """Have an action executed; return what was done. Raise LocalError for an unknown broker or action."""
        ...


def can_control(control: BrokerControl | None) -> bool:
    """Whether brokers can be killed, paused and restarted now."""
    return control is not None and bool(control.states())


class RemoteControl:
    """The brokers of an `ottla up` of the same user, if one runs at these addresses."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def states(self) -> Mapping[int, str]:
        data = self._data()
        return {} if data is None else read_states(data)

    def request(self, action: str, node_id: int) -> str:
        data = self._data()
        state = self.states().get(node_id)
        if data is None or action not in ACTIONS or state is None:
            raise LocalError(f"no action {action} on broker {node_id}")
        wanted = "resume" if action == "pause" and state == "paused" else action
        return send(data, wanted, node_id, timeout_s=TIMEOUT_S)

    def _data(self) -> Path | None:
        found = local_cluster(self._bootstrap)
        return None if found is None else found.data


class ActionQueue:
    """A queue of actions. `states` returns the state of each broker process and may be called from any thread."""

    def __init__(self, states: Callable[[], Mapping[int, str]]) -> None:
        self._states = states
        self._pending: queue.SimpleQueue[tuple[Action, int, Future[str]]] = queue.SimpleQueue()

    def states(self) -> Mapping[int, str]:
        return self._states()

    def request(self, action: str, node_id: int) -> str:
        if action not in ACTIONS or node_id not in self.states():
            raise LocalError(f"no action {action} on broker {node_id}")
        done: Future[str] = Future()
        self._pending.put((action, node_id, done))
        try:
            return done.result(TIMEOUT_S)
        except TimeoutError:
            done.cancel()
            raise LocalError(f"broker {node_id}: {action} was not executed in {TIMEOUT_S:g} s") from None

    def execute_pending(self, execute: Callable[[Action, int], str]) -> None:
        """Execute what was requested, on the caller's thread."""
        while True:
            try:
                action, node_id, done = self._pending.get_nowait()
            except queue.Empty:
                return
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(execute(action, node_id))
            except Exception as error:  # noqa: BLE001 - raised in the thread that requested the action
                done.set_exception(error)
