"""Requests of this node to the active controller, in this process or on another node.

A request is sent to the node that leads the quorum, as far as this node knows. It is sent again, after a back-off,
when that node refuses it with NOT_CONTROLLER, when it does not serve the API, because it has started with an empty disk
and is not a controller yet, or when the connection fails; and at once to a new leader, if the leader changes before the
response. A controller can therefore receive a request twice. The promise fails with `PeerError` when the timeout has
passed, when both nodes have no version of the API in common, when no controller was found before the node stops, and
when the channel is closed.

Each channel has its own connections, because a node handles the requests of a connection one after the other:
heartbeats must not wait for client requests. Connections are opened when they are first needed; a node that is the
only voter opens none.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.base.timer import TimerHandle
from ottla.peer.connection import Timers
from ottla.peer.errors import PeerError, Reason
from ottla.peer.peers import PeerRequests
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)

NO_LEADER: Final = -1
_TICK_S: Final = 0.02
_BACKOFF_S: Final = 0.05
_FINAL: Final = frozenset({Reason.UNSUPPORTED_VERSION, Reason.SHUTDOWN})
"""Reasons for which a further attempt would fail in the same way."""


class ControllerPeers(PeerRequests, Protocol):
    """Connections to the controller listeners of other nodes; see `ottla.peer.peers.Peers`."""

    def close(self) -> None: ...


class _Pending:
    """A request without a response. `node_id` is the node of the current attempt, None during a back-off."""

    __slots__ = ("attempt", "deadline", "failure", "message", "node_id", "promise", "response", "retry_at")

    def __init__(self, message: Message, response: type[Message], deadline: float) -> None:
        self.message = message
        self.response = response
        self.deadline = deadline
        self.promise: Promise[Any] = Promise()
        self.attempt = 0
        self.node_id: int | None = None
        self.retry_at = 0.0
        self.failure = "no active controller is known"


class ControllerChannel:
    """Sends requests to the active controller; `local` calls the controller of this node."""

    def __init__(
        self,
        node_id: int,
        leader_id: Callable[[], int],
        local: Callable[[Message], Promise[Any]],
        peers: ControllerPeers,
        timers: Timers,
    ) -> None:
        self._node_id = node_id
        self._leader_id = leader_id
        self._local = local
        self._peers = peers
        self._timers = timers
        self._pending: dict[_Pending, None] = {}
        self._timer: TimerHandle | None = None
        self._closed = False
        self._search_ends_at = inf

    def request(self, message: Message, response: type[M], *, timeout_s: float) -> Promise[M]:
        """Send a request to the active controller; the promise fails with PeerError after `timeout_s`."""
        pending = _Pending(message, response, self._timers.time() + timeout_s)
        if self._closed:
            self._fail(pending, Reason.SHUTDOWN, "this node is shutting down")
            return pending.promise
        self._pending[pending] = None
        self._send(pending, self._leader_id())
        self._schedule()
        return pending.promise

    def end_search(self, within_s: float) -> None:
        """Fail requests, from this time on, that no controller handles: this node is stopping."""
        self._search_ends_at = self._timers.time() + within_s

    def close(self) -> None:
        """Fail all requests and close the connections."""
        self._closed = True
        self._peers.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pending in list(self._pending):
            self._fail(pending, Reason.SHUTDOWN, "this node is shutting down")

    # Attempts

    def _send(self, pending: _Pending, leader_id: int) -> None:
        if leader_id == NO_LEADER:
            return
        pending.node_id = leader_id
        pending.attempt += 1
        attempt = pending.attempt
        if leader_id == self._node_id:
            sent = self._local(pending.message)
        else:
            timeout_s = pending.deadline - self._timers.time()
            sent = self._peers.request(leader_id, pending.message, pending.response, timeout_s=timeout_s)
        sent.when_done(lambda value, error: self._done(pending, attempt, value, error))

    def _done(self, pending: _Pending, attempt: int, value: Any, error: BaseException | None) -> None:
        if pending.attempt != attempt or pending not in self._pending:
            return  # the result of an attempt that was given up
        if error is None and getattr(value, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
            del self._pending[pending]
            pending.promise.keep(value)
        elif error is not None and (not isinstance(error, PeerError) or error.reason in _FINAL):
            del self._pending[pending]
            pending.promise.fail(error)
        else:
            pending.failure = (
                f"node {pending.node_id} is not the active controller" if error is None else str(error)
            )
            pending.node_id = None
            pending.retry_at = self._timers.time() + _BACKOFF_S

    # The timer runs while requests are pending

    def _schedule(self) -> None:
        if self._timer is None and self._pending:
            self._timer = self._timers.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._timers.time()
        leader_id = self._leader_id()
        for pending in list(self._pending):
            if now >= pending.deadline or (pending.node_id is None and now >= self._search_ends_at):
                self._fail(
                    pending, Reason.TIMED_OUT, f"no response of a controller in time: {pending.failure}"
                )
            elif pending.node_id is None:
                if now >= pending.retry_at:
                    self._send(pending, leader_id)
            elif leader_id not in (NO_LEADER, pending.node_id):
                self._send(pending, leader_id)
        self._schedule()

    def _fail(self, pending: _Pending, reason: Reason, why: str) -> None:
        self._pending.pop(pending, None)
        name = type(pending.message).__name__
        pending.promise.fail(PeerError(reason, f"{name}: {why}", sent=pending.attempt > 0))
