"""Transactional producers of the Python clients behind one small interface, and readers of either isolation."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError as KafkaPythonError

TIMEOUT_S = 30.0


class Refused(Exception):
    """The producer may not go on: its cause is what the client raised."""


class Transactions(ABC):
    """A producer with a transactional id, ready for its first transaction once it is made."""

    @abstractmethod
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        """The records are in the log when this returns."""

    @abstractmethod
    def send_offset(self, topic: str, offset: int, group: str) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class ConfluentTransactions(Transactions):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 1}
        quiet = {"log_level": 0, "error_cb": lambda _: None, "reconnect.backoff.max.ms": 200}
        limits = {"transaction.timeout.ms": timeout_ms, "message.timeout.ms": timeout_ms}
        self.producer = Producer({**settings, **quiet, **limits})
        self._do(self.producer.init_transactions, TIMEOUT_S)

    @staticmethod
    def _do(call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except KafkaException as failure:
            raise Refused from failure

    def begin(self) -> None:
        self._do(self.producer.begin_transaction)

    def send(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        # No delivery reports: the binding raises a fatal error while it makes them, and loses it.
        for value in values:
            self._do(self.producer.produce, topic, value, None, partition)
        self._do(self.producer.flush, TIMEOUT_S)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap(), "group.id": group})
        metadata = consumer.consumer_group_metadata()
        self._do(
            self.producer.send_offsets_to_transaction,
            [TopicPartition(topic, 0, offset)],
            metadata,
            TIMEOUT_S,
        )
        consumer.close()

    def bootstrap(self) -> str:
        (node,) = self.producer.list_topics(timeout=TIMEOUT_S).brokers.values()
        return f"{node.host}:{node.port}"

    def commit(self) -> None:
        self._do(self.producer.commit_transaction, TIMEOUT_S)

    def abort(self) -> None:
        self._do(self.producer.abort_transaction, TIMEOUT_S)

    def close(self) -> None:
        self.producer.purge()


class AiokafkaTransactions(Transactions):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.runner = asyncio.Runner()
        try:
            self.producer = self.runner.run(self._make(bootstrap, transactional_id, timeout_ms))
        except Refused:
            self.runner.close()
            raise

    @staticmethod
    async def _make(bootstrap: str, transactional_id: str, timeout_ms: int) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            retry_backoff_ms=20,
        )
        try:
            await producer.start()
        except AioError as failure:
            await producer.stop()
            raise Refused from failure
        return producer

    def _do(self, call: Awaitable[Any]) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(call, TIMEOUT_S)

        try:
            self.runner.run(bounded())
        except AioError as failure:
            raise Refused from failure

    def begin(self) -> None:
        self._do(self.producer.begin_transaction())

    def send(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        async def all_of_them() -> None:
            sent = [await self.producer.send(topic, value, partition=partition) for value in values]
            await asyncio.gather(*sent)

        self._do(all_of_them())

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        self._do(self.producer.send_offsets_to_transaction({AioPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._do(self.producer.commit_transaction())

    def abort(self) -> None:
        self._do(self.producer.abort_transaction())

    def close(self) -> None:
        self.runner.run(self.producer.stop())
        self.runner.close()


class KafkaPythonTransactions(Transactions):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            reconnect_backoff_max_ms=200,
        )
        try:
            self._do(self.producer.init_transactions)
        except Refused:
            self.close()
            raise

    @staticmethod
    def _do(call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except KafkaPythonError as failure:
            raise Refused from failure

    def begin(self) -> None:
        self._do(self.producer.begin_transaction)

    def send(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        def all_of_them() -> None:
            for sent in [self.producer.send(topic, value, partition=partition) for value in values]:
                sent.get(TIMEOUT_S)

        self._do(all_of_them)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        offsets = {KafkaPythonPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._do(self.producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._do(self.producer.commit_transaction)

    def abort(self) -> None:
        self._do(self.producer.abort_transaction)

    def close(self) -> None:
        self.producer.close(timeout=1)


def read_to_end(bootstrap: str, topic: str, isolation: str, partition: int = 0) -> list[bytes]:
    """The values that a consumer at this isolation level reads up to the end of the partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no end of {topic} after {len(values)} records"
            if message.error() is None:
                values.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def committed_offset(bootstrap: str, topic: str, group: str) -> int | None:
    """What is committed now. With read_committed the answer would wait for an open transaction."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_uncommitted"}
    consumer = Consumer(settings)
    (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
    consumer.close()
    return place.offset if place.offset >= 0 else None
