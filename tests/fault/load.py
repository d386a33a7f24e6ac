"""Producers that keep sending while the broker restarts, and record the responses.

Each runs in a thread of its own with a history of its own. `acknowledged` may be read from any thread. A
record that was given up on (its delivery timed out) stays unknown in the history: it may be in the log or
not.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError
from confluent_kafka import Message, Producer

from ottla.base.ids import TopicPartition
from ottla.testing.history import History

IN_FLIGHT_MAX = 2_000
GIVE_UP_S = 120
PAUSE_S = 0.01
LOG_DEBUG = 7
_AIOKAFKA_REQUEST_S = 10
_AIOKAFKA_STALL_S = 30


class Load(ABC):
    """A producer. `rate` limits the records per second, about; without it the producer is as fast as it can be."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, *, rate: int | None = None
    ) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.rate = rate
        self.history = History()
        self.times: dict[int, list[float]] = {number: [] for number in range(partitions)}
        """When records of each partition were acknowledged, in seconds of the monotonic clock."""
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self.new_epochs = 0
        """How often the client has begun a new producer epoch, if it reports that."""
        self.restarts = 0
        """How often the client has given up, so that another one took its place."""
        self._sent = 0
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> History:
        """Everything sent is answered when this returns; raises what broke the producer, if anything did."""
        self._stop.set()
        self._thread.join(GIVE_UP_S * 2)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        if self.failure is not None:
            raise self.failure
        return self.history

    @property
    def acknowledged(self) -> int:
        return self.history.acknowledged_count

    def next_value(self) -> tuple[int, bytes]:
        self._sent += 1
        value = f"{self.name} {self._sent}".encode()
        # A record of a client that has given up may still be appended: the order is that of one client.
        self.history.sent(f"{self.name} {self.restarts}", value)
        return self._sent % self.partitions, value

    def keep(self, value: bytes, partition: int, offset: int) -> None:
        """A record was acknowledged."""
        self.history.acknowledged(value, TopicPartition(self.topic, partition), offset)
        self.times[partition].append(time.monotonic())

    def burst(self, largest: int) -> int:
        """How many records to send before the next pause of `PAUSE_S`."""
        return largest if self.rate is None else max(1, int(self.rate * PAUSE_S))

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as failure:  # noqa: BLE001 - handed to the thread that asks for the history
            self.failure = failure

    @abstractmethod
    def run(self) -> None: ...

    def state(self) -> str:
        """What the producer waits for, if it can be found out; for messages about one that makes no progress."""
        return f"{self._sent} sent, {self.acknowledged} acknowledged"


class ConfluentLoad(Load):
    """librdkafka, idempotent, acks=all, five requests in flight.

    It never gives up a record: it would then begin a new producer epoch, in which records of other partitions that are
    written but not acknowledged are written again (librdkafka issue 4953). New epochs for other reasons are counted.
    """

    def run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 50,
                "delivery.timeout.ms": 0,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 10,
                "log_level": LOG_DEBUG,
                "debug": "eos",
            },
            logger=self._epochs(),
        )
        while not self._stop.is_set():
            for _ in range(self.burst(IN_FLIGHT_MAX)):
                if len(producer) >= IN_FLIGHT_MAX:
                    break
                partition, value = self.next_value()
                producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
                producer.poll(0)
            if self.rate is not None:
                self._stop.wait(PAUSE_S)
            producer.poll(PAUSE_S if self.rate is None else 0)
        assert producer.flush(GIVE_UP_S) == 0

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.keep(message.value(), message.partition(), message.offset())

    def _epochs(self) -> logging.Logger:
        """A logger that counts the new producer epochs of the client."""
        logger = logging.getLogger(f"{__name__}.{id(self)}")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addFilter(self._count_epoch)
        return logger

    def _count_epoch(self, record: logging.LogRecord) -> bool:
        self.new_epochs += "bumped epoch" in record.getMessage()
        return False


def _awaited(waiting: object) -> Iterator[str]:
    """The functions of a task that wait for each other, and what the last one waits for."""
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        yield f"{frame.f_code.co_name}:{frame.f_lineno}"
        waiting = getattr(waiting, "cr_await", None)
    yield repr(waiting)[:200]


async def _close(producer: AIOKafkaProducer) -> None:
    """Stop a producer, also if it cannot send what it has accepted."""
    try:
        await asyncio.wait_for(producer.stop(), _AIOKAFKA_REQUEST_S)
    except TimeoutError:
        await producer._sender.close()
        await producer.client.close()


class AiokafkaLoad(Load):
    """aiokafka, idempotent; one record a partition at a time in a window.

    A request may get no response although the connection was closed: aiokafka 0.14 drops a connection that has ended,
    and with it the futures of its requests, if another request looks for a connection before the end is processed. The
    request then ends with its timeout, after which the producer may end with an error (KeyError in `client.send`). So
    the timeout is short, and the producer is replaced.

    A producer is also replaced if a record is not acknowledged for `_AIOKAFKA_STALL_S`. After a failure of all brokers
    it may have metadata that list only the first one that serves clients again. If that one is killed next, aiokafka
    knows no other broker, and does not return to its bootstrap servers.
    """

    def run(self) -> None:
        asyncio.run(self._produce())

    def state(self) -> str:
        """The requests without a response, and where the tasks of the client wait."""
        lines = [super().state()]
        for (node_id, _), connection in list(self._producer.client._conns.items()):
            requests = [f"{type(each[1]).__name__} {each[0]}" for each in list(connection._requests)]
            lines.append(f"node {node_id}, connected {connection.connected()}, waiting for {requests}")
        for task in asyncio.all_tasks(self._loop):
            lines.append(" > ".join(_awaited(task.get_coro())))
        return "\n".join(lines)

    async def _produce(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            self._producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                enable_idempotence=True,
                linger_ms=2,
                request_timeout_ms=_AIOKAFKA_REQUEST_S * 1000,
                retry_backoff_ms=20,
            )
            try:
                await self._produce_with(self._producer)
            except KafkaError:
                self.restarts += 1
                await asyncio.sleep(PAUSE_S)

    async def _produce_with(self, producer: AIOKafkaProducer) -> None:
        await producer.start()
        try:
            while not self._stop.is_set():
                window = [self.next_value() for _ in range(self.burst(200))]
                futures = [
                    (value, await producer.send(self.topic, value, partition=partition))
                    for partition, value in window
                ]
                for value, future in futures:
                    await self._wait_for(value, future)
                if self.rate is not None:
                    await asyncio.sleep(PAUSE_S)
        finally:
            await _close(producer)

    async def _wait_for(self, value: bytes, future: asyncio.Future[object]) -> None:
        done, _ = await asyncio.wait([future], timeout=_AIOKAFKA_STALL_S)
        if not done:
            raise KafkaTimeoutError(f"{value!r} was not acknowledged in time")
        try:
            place = future.result()
        except KafkaError:
            return
        self.keep(value, place.partition, place.offset)  # type: ignore[attr-defined]
