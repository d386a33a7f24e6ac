"""Reading of records as a member of a consumer group, with an end.

The member reads the partitions that it is assigned. Unless it follows, it ends when it has reached, in each of them,
the offset that was the end when the partition was assigned. librdkafka reports the end of a partition by its position,
so transaction markers and compacted offsets do not make it wait. Offsets are committed when the caller requests the
next records: records that were not handled completely are read again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from ottla.admin.records.scan import ConsumedRecord, Headers
from ottla.admin.records.where import Filter
from ottla.base.ids import TopicPartition
from ottla.client.raw import LATEST, ClientError

if TYPE_CHECKING:
    from ottla.admin.session import Session

BATCH_RECORDS: Final = 500
POLL_S: Final = 0.1
_NO_LOG: Final = "0"
"""librdkafka writes its log to standard error; what it reports there is retried, or an error of a message."""
_LOG_APPEND_TIME: Final = 2
"""The type of a timestamp in confluent-kafka that the broker has set."""


class GroupReadFailed(ClientError):
    """The group, or a topic, cannot be read."""


class GroupReader:
    """A member of a group. Use it as a context manager."""

    def __init__(
        self,
        session: Session,
        topics: Sequence[str],
        group: str,
        *,
        where: Filter | None = None,
        committed: bool = False,
        follow: bool = False,
        from_end: bool = False,
    ) -> None:
        """`from_end`: partitions without a committed offset are read from their end, not from their start."""
        for topic in topics:
            session.cluster.topic(topic)
        self._cluster = session.cluster
        self._where = where
        self._committed = committed
        self._follow = follow
        self._stop = threading.Event()
        self._ends: dict[TopicPartition, int] | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._uncommitted: dict[TopicPartition, int] = {}
        self._consumer = Consumer(
            {
                "log_level": _NO_LOG,
                **session.client_settings(),
                "group.id": group,
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
                "auto.offset.reset": "latest" if from_end else "earliest",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
            }
        )
        self._consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    def __enter__(self) -> GroupReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def cancel(self) -> None:
        """End the iteration. May be called from any thread."""
        self._stop.set()

    def records(self, limit: int | None = None) -> Iterator[list[ConsumedRecord]]:
        """The matching records, some at a time, possibly none. What was yielded is committed before the next ones.

        With a limit, records after it are not read, so their offsets are not committed.
        """
        left = BATCH_RECORDS if limit is None else limit
        while left and not self._stop.is_set() and (self._follow or not self._is_complete()):
            found = [
                record
                for message in self._consumer.consume(min(left, BATCH_RECORDS), POLL_S)
                if (record := self._received(message)) is not None
            ]
            left -= 0 if limit is None else len(found)
            yield found
            self._commit()

    def _is_complete(self) -> bool:
        return self._ends is not None and all(
            self._positions.get(tp, -1) >= end for tp, end in self._ends.items()
        )

    def _received(self, message: Message) -> ConsumedRecord | None:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise GroupReadFailed(f"reading as a member of the group: {error.str()}")
        tp = TopicPartition(message.topic() or "", message.partition() or 0)
        offset = message.offset() or 0
        following = offset if error is not None else offset + 1
        self._positions[tp] = self._uncommitted[tp] = following
        if error is not None:
            return None
        kind, timestamp = message.timestamp()
        record = ConsumedRecord(
            tp.topic,
            tp.partition,
            offset,
            timestamp,
            int(kind == _LOG_APPEND_TIME),
            message.key(),
            message.value(),
            _headers_of(message),
        )
        return record if self._where is None or self._where.matches(record.row()) else None

    def _on_assign(self, _: Consumer, partitions: list[ClientPartition]) -> None:
        assigned = [TopicPartition(one.topic, one.partition) for one in partitions]
        ends = self._cluster.list_offsets(dict.fromkeys(assigned, LATEST), self._committed)
        self._ends = (self._ends or {}) | {tp: ends[tp][0] for tp in assigned}

    def _on_revoke(self, _: Consumer, partitions: list[ClientPartition]) -> None:
        for one in partitions:
            tp = TopicPartition(one.topic, one.partition)
            for known in (self._ends, self._positions, self._uncommitted):
                if known is not None:
                    known.pop(tp, None)
        # Without partitions it is not complete: another assignment follows.
        self._ends = self._ends or None

    def _commit(self) -> None:
        if not self._uncommitted:
            return
        offsets = [
            ClientPartition(tp.topic, tp.partition, offset) for tp, offset in self._uncommitted.items()
        ]
        self._uncommitted = {}
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise GroupReadFailed(f"the offsets could not be committed: {error.args[0].str()}") from None


def _headers_of(message: Message) -> Headers:
    given: Any = message.headers() or ()
    return tuple(given)
