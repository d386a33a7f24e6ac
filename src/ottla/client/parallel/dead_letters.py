"""Dead letters: records that failed permanently are produced to another topic, with headers that describe the error.

The headers have the names that Kafka uses for share groups: `__dlq.errors.topic`, `.partition`, `.offset`,
`.group`, `.delivery.count` (attempts) and `.message` (the error). They follow the headers of the record. Key and
value are those of the record.

A separate thread produces them. A dead letter that is not acknowledged ends the consumer: librdkafka has retried
for `message.timeout.ms` by then, and the consumer can neither lose the record nor wait without an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from ottla.client.parallel.assignment import Work
from ottla.client.parallel.errors import DeadLetterFailed

HEADER_PREFIX = "__dlq.errors."
_ERROR_CHARACTERS_MAX = 1_000
_POLL_S = 0.05
_Letter = tuple[Work, Exception]
_Headers = list[tuple[str, str | bytes | None]]


def headers_of(work: Work, error: Exception, group_id: str) -> _Headers:
    """The headers of the record, followed by those of the dead letter."""
    message = work.message
    own: _Headers = list(message.headers() or [])  # type: ignore[arg-type]
    text = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS_MAX]
    added = {
        "topic": work.assignment.partition.topic,
        "partition": str(work.assignment.partition.partition),
        "offset": str(work.offset),
        "group": group_id,
        "delivery.count": str(work.attempts),
        "message": text,
    }
    return own + [(HEADER_PREFIX + name, value.encode()) for name, value in added.items()]


class DeadLetters:
    def __init__(self, settings: Mapping[str, Any], topic: str, group_id: str) -> None:
        self._topic = topic
        self._group_id = group_id
        self._producer = Producer(dict(settings))
        self._letters: SimpleQueue[_Letter | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="parallel-consumer-dead-letters", daemon=True)
        self._acknowledged: Callable[[Work], None] = lambda _work: None
        self._failed: Callable[[Work, BaseException], None] = lambda _work, _error: None

    def start(
        self, acknowledged: Callable[[Work], None], failed: Callable[[Work, BaseException], None]
    ) -> None:
        """Start the thread, which calls both functions."""
        self._acknowledged = acknowledged
        self._failed = failed
        self._thread.start()

    def put(self, work: Work, error: Exception) -> None:
        self._letters.put((work, error))

    def close(self, timeout_s: float) -> None:
        self._letters.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (letter := self._next()) is not None:
            self._send(*letter)
        self._producer.flush()

    def _next(self) -> _Letter | None:
        """The next dead letter; process acknowledgements while any is missing."""
        while len(self._producer):
            try:
                return self._letters.get_nowait()
            except Empty:
                self._producer.poll(_POLL_S)
        return self._letters.get()

    def _send(self, work: Work, error: Exception) -> None:
        def delivered(error_: KafkaError | None, _message: Message) -> None:
            if error_ is None:
                self._acknowledged(work)
            else:
                self._failed(work, self._failure(work, error_))

        headers = headers_of(work, error, self._group_id)
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    work.message.value(),
                    work.message.key(),
                    on_delivery=delivered,
                    headers=headers,
                )
            except BufferError:
                self._producer.poll(_POLL_S)
            except Exception as error_:  # noqa: BLE001 - any error means that the dead letter was not produced
                self._failed(work, self._failure(work, error_))
                return
            else:
                return

    def _failure(self, work: Work, cause: object) -> DeadLetterFailed:
        return DeadLetterFailed(
            f"the dead letter of {work} was not accepted by topic {self._topic!r}: {cause}. The record is not"
            " committed and is delivered again after a restart. Check that the topic exists, that this client may"
            " write to it, and that its max.message.bytes leaves room for the headers"
        )
