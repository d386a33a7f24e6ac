"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only what changes.

A session remembers the partitions of one client and what it was last told about each; a response then carries
only partitions with news. Epochs number the requests of a session: 0 asks for a new one, -1 for none (both
end the old one), n must be the next number. Partitions that returned records to an incremental request move to
the end of the order, so that a response limit does not starve the others.

A session by topic ids remembers the names they had: once a topic is gone its id is no longer "unknown", but a
name without partitions, or the name of another topic.

The number of sessions is bounded. A full cache makes room by dropping the session unused for longest, if that
is long enough, else a smaller session that has had its time; otherwise the client simply gets no session.

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
    """What the client wants of one partition, and what it was told last."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, data: PartitionData) -> bool:
        """Whether the answer must be sent; remembers what it says."""
        news = bool(data.records) or data.diverging is not None
        if data.high_watermark != self.high_watermark or data.log_start_offset != self.log_start_offset:
            news = True
            self.high_watermark = data.high_watermark
            self.log_start_offset = data.log_start_offset
        if data.error_code:
            # The client forgets the watermark on an error, so the next good answer counts as news.
            self.high_watermark = -1
            news = True
        return news


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

    def update(self, request: FetchRequest) -> None:
        """Add and change what the request names, drop what it forgets."""
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

    def news(
        self, answers: Iterable[tuple[bytes, PartitionData]], *, reorder: bool
    ) -> list[tuple[bytes, PartitionData]]:
        """The answers worth sending; served partitions go to the end of the order, if told so."""
        out = []
        for key, data in answers:
            known = self.partitions.get((key, data.index))
            if known is None or not known.has_news(data):
                continue
            out.append((key, data))
            if reorder and data.records:
                self.partitions[key, data.index] = self.partitions.pop((key, data.index))
        return out

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class FetchContext:
    """How one request is answered: which partitions to read, and how much of the answer to send."""

    __slots__ = ("_full", "error", "session", "wanted")

    def __init__(
        self,
        wanted: list[tuple[bytes, FetchPartition]],
        session: FetchSession | None = None,
        *,
        full: bool = True,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.wanted = wanted
        self.session = session
        self.error = error
        self._full = full

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id

    def select(self, answers: list[tuple[bytes, PartitionData]]) -> list[tuple[bytes, PartitionData]]:
        """The part of the answers that the client does not know yet."""
        if self.session is None:
            return answers
        news = self.session.news(answers, reorder=not self._full)
        return answers if self._full else news


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, rng: Random, slots: int, eviction_seconds: float = 120.0) -> None:
        self._rng = rng
        self._slots = slots
        self._eviction_seconds = eviction_seconds
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchRequest, version: int, now: float) -> FetchContext:
        """Find, make, or refuse the session a request asks for."""
        by_id = version >= FIRST_TOPIC_IDS
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._sessions.pop(request.session_id, None)
            wanted = _flat(request)
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext(wanted)
            return FetchContext(wanted, self._create(request, by_id, len(wanted), now))
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.by_id != by_id:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != request.session_epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.update(request)
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchContext(_flat(request))
        session.used = now
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.next_epoch()
        wanted = [(key, partition.wanted) for (key, _), partition in session.partitions.items()]
        return FetchContext(wanted, session, full=False)

    def _create(self, request: FetchRequest, by_id: bool, size: int, now: float) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._make_room(size, now):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randint(1, _EPOCH_MAX)
        session = FetchSession(session_id, by_id, now)
        session.update(request)
        self._sessions[session_id] = session
        return session

    def _make_room(self, size: int, now: float) -> bool:
        if not self._sessions:
            return False
        patience = self._eviction_seconds
        victim = next(iter(self._sessions.values()))
        if now - victim.used <= patience:
            victim = min(self._sessions.values(), key=lambda one: len(one.partitions))
            if now - victim.created <= patience or len(victim.partitions) >= size:
                return False
        del self._sessions[victim.session_id]
        return True


def _flat(request: FetchRequest) -> list[tuple[bytes, FetchPartition]]:
    """The partitions in request order; of a partition named twice the last entry counts."""
    flat: dict[PartitionKey, FetchPartition] = {}
    for key, wanted in request.topics:
        for partition in wanted:
            flat[key, partition.partition] = partition
    return [(key, partition) for (key, _), partition in flat.items()]
