"""Producing of records from the command line and the console, with the result of each record.

Uses confluent-kafka: its producer batches, retries and has the partitioner of Java's clients (`murmur2_random`).
Records that cannot be produced are counted and reported, and never make the others fail, except in a transaction: that
is committed only if all its records were written. One thread at a time; `cancel` may be called from any thread.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.admin.records.record_json import OutgoingRecord
from ottla.base.clock import Clock
from ottla.client.raw.errors import ClientError

if TYPE_CHECKING:
    from ottla.admin.session import Session

ERRORS_KEPT: Final = 20
_BATCH_BYTES_MIN: Final = 1000
_BATCH_BYTES_MAX: Final = 1_000_000_000
"""The limits of librdkafka."""
_RANDOM_PARTITION: Final = -1
_POLL_S: Final = 0.1
_NO_LOG: Final = "0"
"""librdkafka writes its log to standard error; what it reports there is retried, or an error of a record."""


class SendFailed(ClientError):
    """A producer or its transaction could not be started or ended."""


@dataclass
class Sent:
    """The result of producing."""

    delivered: int = 0
    failed: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)
    """The numbers of the first records that failed, and why."""
    aborted: bool = False
    """Whether the transaction was aborted, so that no record is visible to readers of committed records."""
    last: tuple[int, int] | None = None
    """Partition and offset of the last record that was acknowledged."""

    def fail(self, number: int, reason: str) -> None:
        self.failed += 1
        if len(self.errors) < ERRORS_KEPT:
            self.errors.append((number, reason))


class Pacer:
    """Limits a rate: record n is due n / rate seconds after the first one."""

    def __init__(self, rate: float, clock: Clock, stop: threading.Event) -> None:
        self._rate = rate
        self._clock = clock
        self._stop = stop
        self._started: float | None = None
        self._count = 0

    def wait(self) -> None:
        """Wait until the next record is due, or until `stop` is set."""
        now = self._clock.monotonic()
        if self._started is None:
            self._started = now
        due = self._started + self._count / self._rate
        self._count += 1
        if due > now:
            self._stop.wait(due - now)


class Sender:
    """Produces records to one topic. Use it as a context manager; leaving it waits for all acknowledgements."""

    def __init__(
        self, session: Session, topic: str, *, transactional: bool = False, rate: float | None = None
    ) -> None:
        # Raises UnknownTopic if the broker does not create topics. Otherwise the producer would only time out.
        session.cluster.topic(topic, create=True)
        self._session = session
        self._topic = topic
        self._transactional = transactional
        self._stop = threading.Event()
        self._pacer = None if rate is None else Pacer(rate, session.clock, self._stop)
        self._finished = False
        self.result = Sent()
        settings: dict[str, Any] = {
            "partitioner": "murmur2_random",
            "enable.idempotence": "true",
            "message.max.bytes": str(_batch_bytes(session, topic)),
            "message.timeout.ms": str(session.timeout_ms),
            "linger.ms": "5",
            "log_level": _NO_LOG,
            **session.client_settings(),
        }
        if transactional:
            settings.setdefault("transactional.id", f"ottla-produce-{secrets.token_hex(8)}")
        try:
            self._producer = Producer(settings)
            if transactional:
                self._producer.init_transactions(session.timeout_s)
                self._producer.begin_transaction()
        except KafkaException as error:
            raise SendFailed(f"cannot start a producer: {_reason(error.args[0])}") from None

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.finish(abort=kind is not None)

    def cancel(self) -> None:
        """End `send_all` before its next record."""
        self._stop.set()

    def send_all(self, records: Iterable[tuple[int, OutgoingRecord]]) -> None:
        """Send numbered records; the numbers are used to report errors."""
        for number, record in records:
            if self._pacer is not None:
                self._pacer.wait()
            if self._stop.is_set():
                return
            self.send(number, record)

    def send(self, number: int, record: OutgoingRecord) -> None:
        """Add a record to the queue of the producer; wait if the queue is full."""

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.result.delivered += 1
                self.result.last = (message.partition() or 0, message.offset() or 0)
            else:
                self.result.fail(number, _reason(error))

        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    partition=_RANDOM_PARTITION if record.partition is None else record.partition,
                    timestamp=record.timestamp or 0,
                    headers=list(record.headers),
                    on_delivery=on_delivery,
                )
            except BufferError:
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                self.result.fail(number, _reason(error.args[0]))
                return
            else:
                self._producer.poll(0)
                return

    def finish(self, *, abort: bool = False) -> Sent:
        """Wait for all acknowledgements; end the transaction. Abort it if a record failed. May be repeated."""
        if self._finished:
            return self.result
        self._finished = True
        try:
            # Every record is acknowledged or fails within message.timeout.ms.
            self._producer.flush()
            if self._transactional:
                self._end_transaction(abort or bool(self.result.failed))
        except KafkaException as error:
            raise SendFailed(f"the transaction could not be ended: {_reason(error.args[0])}") from None
        return self.result

    def _end_transaction(self, abort: bool) -> None:
        if abort:
            self._producer.abort_transaction(self._session.timeout_s)
            self.result.aborted = True
        else:
            self._producer.commit_transaction(self._session.timeout_s)


def _batch_bytes(session: Session, topic: str) -> int:
    """The limit of the topic: a larger record fails alone, not together with the batch that it is in."""
    limit = session.cluster.batch_limit(topic)
    return _BATCH_BYTES_MAX if limit is None else min(max(limit, _BATCH_BYTES_MIN), _BATCH_BYTES_MAX)


def _reason(error: KafkaError) -> str:
    text = error.str()
    return text if error.name() in text else f"{text} ({error.name()})"
