"""Actions on the brokers of a local cluster, requested by the console and executed by the thread that owns the cluster.

`ottla up` and `ottla demo` own their `LocalCluster`, which is not thread-safe. The console calls `request` from its own
threads and waits for the result; the owner calls `execute_pending` in its loop. Brokers are also started by the owner:
the kernel then ends them with it.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Literal

from ottla.base.errors import LocalError

Action = Literal["kill", "pause", "stop", "restart"]
ACTIONS: tuple[Action, ...] = ("kill", "pause", "stop", "restart")
TIMEOUT_S = 60.0


class BrokerControl:
    """A queue of actions. `states` returns the state of each broker process and may be called from any thread."""

    def __init__(self, states: Callable[[], Mapping[int, str]]) -> None:
        self.states = states
        self._pending: queue.SimpleQueue[tuple[Action, int, Future[str]]] = queue.SimpleQueue()

    def request(self, action: str, node_id: int) -> str:
        """Have an action executed; return what was done. Raises LocalError for an unknown broker or action."""
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
