"""Incremental fetch sessions (KIP-227): a client sends its partitions once, then only the changes.

A session stores the partitions of one client and the state of each in its last response; an incremental response
contains only partitions that changed. Epochs number the requests of a session: 0 requests a new session, -1 none (both
close the old one), n must be the next number. Partitions that returned records to an incremental request move to the
end of the order, so that a response limit does not always exclude the same partitions.

A session by topic ids also stores the names of the topics: after a topic is deleted, its id is not "unknown" but
resolves to a name without partitions, or to the name of another topic.

The number of sessions is limited. A full cache evicts the least recently used session if it is old enough, otherwise a
smaller session that is old enough; if there is none, the client gets no session. Sessions of followers are kept
apart (`fetch.replica_sessions`).

Concurrency: the event loop only. Sessions do not survive a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.rng import Random
from ottla.wire.fetch import FIRST_TOPIC_IDS, FetchPartition, FetchRequest, PartitionData

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_SESSION: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

PartitionKey = tuple[bytes, int]


class SessionPartition:
    """The request for one partition, and its state in the last response."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def update(self, data: PartitionData) -> bool:
        """Store the state of `data` and return whether it must be sent."""
        changed = bool(data.records) or data.diverging is not None or data.preferred_read_replica >= 0
        if data.high_watermark != self.high_watermark or data.log_start_offset != self.log_start_offset:
            changed = True
            self.high_watermark = data.high_watermark
            self.log_start_offset = data.log_start_offset
        if data.error_code:
            # The client discards the high watermark on an error: the next success must be sent.
            self.high_watermark = -1
            changed = True
        return changed


class FetchSession:
    """The partitions of one client, in the order in which they are served."""

    __slots__ = ("by_id", "created", "epoch", "names", "partitions", "session_id", "used")

    def __init__(self, session_id: int, by_id: bool, now: float) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.created = self.used = now
        self.partitions: dict[PartitionKey, SessionPartition] = {}
        self.names: dict[bytes, str] = {}

    def wanted(self) -> list[tuple[bytes, FetchPartition]]:
        """The partitions that the next response is made from."""
        return [(key, partition.wanted) for (key, _), partition in self.partitions.items()]

    def update(self, request: FetchRequest) -> None:
        """Add or change the requested partitions and remove the forgotten ones."""
        for key, wanted in request.topics:
            for partition in wanted:
                known = self.partitions.get((key, partition.partition))
                if known is None:
                    self.partitions[key, partition.partition] = SessionPartition(partition)
                else:
                    known.wanted = partition
        for key, indexes in request.forgotten:
            for index in indexes:
                self.partitions.pop((key, index), None)

    def changed(
        self, results: Iterable[tuple[bytes, PartitionData]], *, reorder: bool
    ) -> list[tuple[bytes, PartitionData]]:
        """Return the results that must be sent; with `reorder`, served partitions move to the end of the order."""
        out = []
        for key, data in results:
            known = self.partitions.get((key, data.index))
            if known is None or not known.update(data):
                continue
            out.append((key, data))
            if reorder and data.records:
                self.partitions[key, data.index] = self.partitions.pop((key, data.index))
        return out

    def close(self) -> None:
        """The session is removed."""

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class FetchContext:
    """The partitions that one request reads, and the part of the results that is sent."""

    __slots__ = ("_wanted", "error", "full", "session")

    def __init__(
        self,
        wanted: list[tuple[bytes, FetchPartition]] | None,
        session: FetchSession | None = None,
        *,
        full: bool = True,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """`wanted` is None for an incremental request, which reads the partitions of its session."""
        self._wanted = wanted
        self.session = session
        self.error = error
        self.full = full

    @property
    def wanted(self) -> list[tuple[bytes, FetchPartition]]:
        """The partitions to read."""
        if self._wanted is None:
            self._wanted = [] if self.session is None else self.session.wanted()
        return self._wanted

    def renew(self) -> None:
        """Read the partitions that the session wants now."""
        self._wanted = None

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id

    def select(self, results: list[tuple[bytes, PartitionData]]) -> list[tuple[bytes, PartitionData]]:
        """Return the results to send: all of a full request, the changed ones of an incremental request."""
        if self.session is None:
            return results
        changed = self.session.changed(results, reorder=not self.full)
        return results if self.full else changed


class FetchSessions:
    """The sessions of a broker."""

    def __init__(self, rng: Random, slots: int, eviction_seconds: float = 120.0) -> None:
        self._rng = rng
        self._slots = slots
        self._eviction_seconds = eviction_seconds
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchRequest, version: int, now: float) -> FetchContext:
        """Find or create the session of a request; the context has an error if that is not possible."""
        by_id = version >= FIRST_TOPIC_IDS
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id in self._sessions:
                self._remove(request.session_id)
            wanted = _flat(request)
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext(wanted)
            return FetchContext(wanted, self._create(request, by_id, len(wanted), now))
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        if not session.partitions:
            self._remove(session.session_id)
            return FetchContext(_flat(request))
        session.used = now
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.next_epoch()
        return FetchContext(None, session, full=False)

    def discard(self, context: FetchContext) -> int:
        """Undo what a request has changed, whose response has no partitions; the session id of the response.

        A session that the request has created is removed, because its client does not get its partitions.
        """
        session = context.session
        if session is None or not context.full:
            return context.session_id
        if self._sessions.get(session.session_id) is session:
            self._remove(session.session_id)
        return NO_SESSION

    def _create(self, request: FetchRequest, by_id: bool, size: int, now: float) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(size, now):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randint(1, _EPOCH_MAX)
        session = self._new(session_id, by_id, now, request)
        session.update(request)
        self._sessions[session_id] = session
        return session

    def _new(self, session_id: int, by_id: bool, now: float, request: FetchRequest) -> FetchSession:
        return FetchSession(session_id, by_id, now)

    def _remove(self, session_id: int) -> None:
        self._sessions.pop(session_id).close()

    def _evict(self, size: int, now: float) -> bool:
        if not self._sessions:
            return False
        age_min = self._eviction_seconds
        evicted = next(iter(self._sessions.values()))
        if now - evicted.used <= age_min:
            evicted = min(self._sessions.values(), key=lambda one: len(one.partitions))
            if now - evicted.created <= age_min or len(evicted.partitions) >= size:
                return False
        self._remove(evicted.session_id)
        return True


def _flat(request: FetchRequest) -> list[tuple[bytes, FetchPartition]]:
    """Return the partitions in request order; if a partition occurs twice, with its last entry."""
    flat: dict[PartitionKey, FetchPartition] = {}
    for key, wanted in request.topics:
        for partition in wanted:
            flat[key, partition.partition] = partition
    return [(key, partition) for (key, _), partition in flat.items()]
