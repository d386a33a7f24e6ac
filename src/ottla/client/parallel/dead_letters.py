"""Records that failed for good go to another topic, with headers that tell where from and why.

The headers have the names that Kafka gives those of its share groups, so one tool reads both:
`__dlq.errors.topic`, `.partition`, `.offset`, `.group`, `.delivery.count` (attempts) and `.message` (the error).
They follow the record's own. Key and value are the record's.

A thread of its own produces them, and sleeps while there are none. A letter that is not acknowledged ends the
consumer: librdkafka has tried for `message.timeout.ms` by then, and going on would mean to lose the record or to
stand still in silence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from ottla.client.parallel.assigned import Work
from ottla.client.parallel.errors import DeadLetterFailed

HEADER_PREFIX = "__dlq.errors."
_ERROR_CHARACTERS_MAX = 1_000
_POLL_S = 0.05
_Letter = tuple[Work, Exception]
_Headers = list[tuple[str, str | bytes | None]]


def headers_of(work: Work, error: Exception, group_id: str) -> _Headers:
    """The record's own headers, then ours."""
    message = work.message
    own: _Headers = list(message.headers() or [])  # type: ignore[arg-type]
    text = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS_MAX]
    told = {
        "topic": work.assigned.partition.topic,
        "partition": str(work.assigned.partition.partition),
        "offset": str(work.offset),
        "group": group_id,
        "delivery.count": str(work.attempts),
        "message": text,
    }
    return own + [(HEADER_PREFIX + name, value.encode()) for name, value in told.items()]


class DeadLetters:
    def __init__(self, settings: Mapping[str, Any], topic: str, group_id: str) -> None:
        self._topic = topic
        self._group_id = group_id
        self._producer = Producer(dict(settings))
        self._letters: SimpleQueue[_Letter | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="parallel-consumer-dead-letters", daemon=True)
        self._acknowledged: Callable[[Work], None] = lambda _work: None
        self._refused: Callable[[Work, BaseException], None] = lambda _work, _error: None

    def start(
        self, acknowledged: Callable[[Work], None], refused: Callable[[Work, BaseException], None]
    ) -> None:
        """Both are called on the thread here."""
        self._acknowledged = acknowledged
        self._refused = refused
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
        """The next letter; acknowledgements are served while any is missing."""
        while len(self._producer):
            try:
                return self._letters.get_nowait()
            except Empty:
                self._producer.poll(_POLL_S)
        return self._letters.get()

    def _send(self, work: Work, error: Exception) -> None:
        def delivered(refusal: KafkaError | None, _message: Message) -> None:
            if refusal is None:
                self._acknowledged(work)
            else:
                self._refused(work, self._failure(work, refusal))

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
            except Exception as refusal:  # noqa: BLE001 - whatever it is, the record is not set aside
                self._refused(work, self._failure(work, refusal))
                return
            else:
                return

    def _failure(self, work: Work, cause: object) -> DeadLetterFailed:
        return DeadLetterFailed(
            f"the dead letter of {work} was not accepted by topic {self._topic!r}: {cause}. The record is not"
            " committed and comes again after a restart. Make sure that the topic exists, that this client may"
            " write to it, and that its max.message.bytes leaves room for the headers"
        )
