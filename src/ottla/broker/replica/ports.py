"""What replica fetchers need of the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.base.clock import Clock
from ottla.base.errors import StorageFault
from ottla.base.promise import Promise
from ottla.base.timer import TimerHandle
from ottla.broker.replica.settings import ReplicaFetchSettings
from ottla.peer.exchange import RawResponse
from ottla.peer.peers import PeerRequests
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.storage.log.log import Log
from ottla.wire.frames import EncodedRequest
from ottla.wire.schema import Message


class Loop(Protocol):
    """The event loop: callbacks after a delay, and in its next iteration."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> TimerHandle: ...

    def call_soon(self, callback: Callable[[], None], /) -> object: ...


class FetchPeers(PeerRequests, Protocol):
    """Connections to the leaders (`ottla.peer.peers.Peers`) that are used for replication alone."""

    def request_raw(
        self,
        node_id: int,
        message: Message | EncodedRequest,
        *,
        timeout_s: float,
        versions: range | None = None,
    ) -> Promise[RawResponse]: ...


class TruncatableLogs(Protocol):
    """The logs of the broker (`ottla.storage.log_dirs.LogDirs`)."""

    def truncate(self, log: Log, offset: int, now_ms: int) -> Promise[None]: ...

    def restart(self, log: Log, offset: int, now_ms: int) -> Promise[None]: ...

    def fail(self, fault: StorageFault) -> None: ...


class FetcherEnvironment(NamedTuple):
    """What all fetchers of a node share."""

    node_id: int
    peers: FetchPeers
    logs: TruncatableLogs
    schedule: Callable[[Log], None]
    """Write what was appended to a log (`GroupCommit.schedule`)."""
    clock: Clock
    loop: Loop
    settings: ReplicaFetchSettings
    broker_epoch: Callable[[], int]
    quota: ReplicationQuota
    """The limit of throttled replicas that follow."""
    on_replaced: Callable[[Partition], None]
    """Called when the leader has accepted the first fetch of a log that replaces a lost one."""
