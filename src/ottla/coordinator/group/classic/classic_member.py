"""A member of a classic group: the data of its JoinGroup request, and its waiting requests.

The log stores the data of a member once its generation has an assignment. Waiting requests exist only in memory. A
member has at most one waiting JoinGroup and one waiting SyncGroup. A second one completes the first with
REBALANCE_IN_PROGRESS, because its client has given up on it.
"""

from __future__ import annotations

from collections.abc import Container

from ottla.base.errors import ErrorCode, violated
from ottla.base.promise import Promise
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member supports, in the order of preference: name and metadata for the leader."""


class ClassicMember:
    """One member."""

    __slots__ = (
        "_awaited_join",
        "_awaited_sync",
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """Added in the current rebalance: it has no response yet, so it cannot send heartbeats."""
        self._awaited_join: Promise[JoinGroupResponse] | None = None
        self._awaited_sync: Promise[SyncGroupResponse] | None = None

    @property
    def awaits_join(self) -> bool:
        return self._awaited_join is not None

    @property
    def awaits_sync(self) -> bool:
        return self._awaited_sync is not None

    @property
    def is_exempt_from_heartbeats(self) -> bool:
        """Whether no heartbeat is expected, because the member waits for a response. A new member still times out."""
        return not self.is_new and (self.awaits_join or self.awaits_sync)

    def named(self, member_id: str) -> ClassicMember:
        """A copy with another member id and without waiting requests."""
        return ClassicMember(
            member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    def metadata(self, protocol_name: str) -> bytes:
        """The metadata of one of its protocols."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        violated(f"member {self.member_id} does not support {protocol_name}")

    def vote(self, candidates: Container[str]) -> str:
        """The candidate that the member prefers."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        violated(f"member {self.member_id} supports none of the common protocols")

    def park_join(self, promise: Promise[JoinGroupResponse]) -> None:
        """Let a JoinGroup wait for the end of the join phase."""
        superseded, self._awaited_join = self._awaited_join, promise
        if superseded is not None:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            superseded.keep(JoinGroupResponse(error_code=code, member_id=self.member_id))

    def complete_join(self, response: JoinGroupResponse) -> bool:
        """Complete the waiting JoinGroup; False if there is none."""
        promise, self._awaited_join = self._awaited_join, None
        if promise is not None:
            promise.keep(response)
        return promise is not None

    def park_sync(self, promise: Promise[SyncGroupResponse]) -> None:
        """Let a SyncGroup wait for the leader's assignment."""
        superseded, self._awaited_sync = self._awaited_sync, promise
        if superseded is not None:
            superseded.keep(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def fail_sync(self, code: ErrorCode) -> bool:
        """Complete the waiting SyncGroup with an error; False if there is none."""
        return self.complete_sync(SyncGroupResponse(error_code=code))

    def complete_sync(self, response: SyncGroupResponse) -> bool:
        """Complete the waiting SyncGroup; False if there is none."""
        promise, self._awaited_sync = self._awaited_sync, None
        if promise is not None:
            promise.keep(response)
        return promise is not None
