"""The requests that a replica has sent: one at most per node, with a pause after a failure.

A response counts only while its request is outstanding. A change of the role discards all requests, so that a response
from an earlier role has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.quorum.raft.messages import Request


class Outbound:
    """Outstanding requests and retry times, by node id."""

    __slots__ = ("_outstanding", "_retry_at_ms", "_retry_backoff_ms")

    def __init__(self, retry_backoff_ms: float) -> None:
        self._retry_backoff_ms = retry_backoff_ms
        self._outstanding: dict[int, Request] = {}
        self._retry_at_ms: dict[int, float] = {}

    @property
    def idle(self) -> bool:
        return not self._outstanding

    def ready(self, node_id: int) -> bool:
        """Whether a request may be sent to this node."""
        return node_id not in self._outstanding and node_id not in self._retry_at_ms

    def end_pauses(self, now_ms: float) -> None:
        """Allow requests to the nodes whose backoff has ended."""
        for node_id in [node_id for node_id, at in self._retry_at_ms.items() if at <= now_ms]:
            del self._retry_at_ms[node_id]

    def sent(self, node_id: int, request: Request) -> None:
        self._outstanding[node_id] = request
        self._retry_at_ms.pop(node_id, None)

    def finished(self, node_id: int, request: Request) -> bool:
        """A request has ended; False if it was not outstanding any more."""
        if self._outstanding.get(node_id) is not request:
            return False
        del self._outstanding[node_id]
        return True

    def back_off(self, node_id: int, now_ms: float) -> None:
        """Send nothing to this node for a while."""
        if node_id not in self._outstanding:
            self._retry_at_ms[node_id] = now_ms + self._retry_backoff_ms

    def pause(self, node_ids: Iterable[int], until_ms: float) -> None:
        """Send nothing to these nodes until then."""
        self._retry_at_ms |= dict.fromkeys(node_ids, until_ms)

    def forget(self, node_id: int) -> None:
        self._outstanding.pop(node_id, None)
        self._retry_at_ms.pop(node_id, None)

    def forget_all(self) -> None:
        self._outstanding.clear()
        self._retry_at_ms.clear()

    def retry_times(self) -> list[float]:
        return list(self._retry_at_ms.values())
