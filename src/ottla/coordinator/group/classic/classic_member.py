"""A member of a classic group: what it told when it joined, and what it waits for now.

What it told is kept by the log from the moment its generation has a plan. Whether it waits for an answer lives
in memory alone: a member has at most one parked join and one parked sync, and parking another answers the one
before, whose sender has given up on it.
"""

from __future__ import annotations

from collections.abc import Container

from ottla.base.errors import ErrorCode, violated
from ottla.base.promise import Promise
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""What a member can speak, in the order of its preference: names, each with bytes for the leader."""


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
        """Added in the present rebalance: it has never been answered, so it cannot send heartbeats."""
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
        """Whether it need not send heartbeats: it waits for us. A new member's patience has an end all the same."""
        return not self.is_new and (self.awaits_join or self.awaits_sync)

    def named(self, member_id: str) -> ClassicMember:
        """The same member under another id, waiting for nothing."""
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
        """What it told for one of its protocols."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        violated(f"member {self.member_id} does not speak {protocol_name}")

    def vote(self, candidates: Container[str]) -> str:
        """The candidate that it likes best."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        violated(f"member {self.member_id} speaks none of the protocols that all speak")

    def park_join(self, promise: Promise[JoinGroupResponse]) -> None:
        """Wait for the end of the join phase."""
        superseded, self._awaited_join = self._awaited_join, promise
        if superseded is not None:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            superseded.keep(JoinGroupResponse(error_code=code, member_id=self.member_id))

    def complete_join(self, response: JoinGroupResponse) -> bool:
        """Answer the parked join, if there is one."""
        promise, self._awaited_join = self._awaited_join, None
        if promise is not None:
            promise.keep(response)
        return promise is not None

    def park_sync(self, promise: Promise[SyncGroupResponse]) -> None:
        """Wait for the leader's plan."""
        superseded, self._awaited_sync = self._awaited_sync, promise
        if superseded is not None:
            superseded.keep(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def fail_sync(self, code: ErrorCode) -> bool:
        """Answer the parked sync, if there is one, with an error."""
        return self.complete_sync(SyncGroupResponse(error_code=code))

    def complete_sync(self, response: SyncGroupResponse) -> bool:
        """Answer the parked sync, if there is one."""
        promise, self._awaited_sync = self._awaited_sync, None
        if promise is not None:
            promise.keep(response)
        return promise is not None
