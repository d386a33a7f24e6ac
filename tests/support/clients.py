"""The few client calls that tests repeat, on confluent-kafka: create a topic, publish, read a partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import wait_until

TIMEOUT_S = 30.0
_LOADING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)


def fresh(name: str) -> str:
    """A topic name of the test's own: the broker is shared."""
    return f"{name}-{uuid4().hex[:8]}"


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    config: dict[str, str] | None = None,
    *,
    replicas: int = 1,
    security: dict[str, str] | None = None,
) -> str:
    """Creates a topic; `replicas` -1 is the default of the broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **(security or {})})
    new = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config or {})
    admin.create_topics([new], request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    return name


@dataclass(frozen=True)
class Sent:
    """Where an acknowledged record ended up."""

    value: bytes
    partition: int
    offset: int


def commit_offsets(bootstrap: str, group: str, *offsets: TopicPartition) -> None:
    """Commits for a group without members; again while the coordinator of a new cluster loads its partition."""

    def committed() -> bool:
        try:
            consumer.commit(offsets=list(offsets), asynchronous=False)
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in _LOADING:
                raise
            return False
        return True

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        wait_until(committed, f"the offsets of {group} to be committed")
    finally:
        consumer.close()


@dataclass
class Publisher:
    """Publishes and waits: `send` returns the places of the records in the order they were given."""

    bootstrap: str
    settings: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", **self.settings})

    def send(self, topic: str, records: Iterable[dict[str, object]]) -> list[Sent]:
        places: dict[int, Sent] = {}
        count = 0
        for count, record in enumerate(records, start=1):
            self._producer.produce(topic, **record, on_delivery=self._keep(places, count))
            self._producer.poll(0)
        assert self._producer.flush(TIMEOUT_S) == 0, "not everything was acknowledged in time"
        return [places[number] for number in range(1, count + 1)]

    @staticmethod
    def _keep(places: dict[int, Sent], number: int):  # type: ignore[no-untyped-def]
        def delivered(error: object, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            places[number] = Sent(message.value(), message.partition(), message.offset())

        return delivered


class Reader:
    """A consumer that was given its partitions and keeps its own place in each."""

    def __init__(self, bootstrap: str, topic: str, partitions: Iterable[int], start: int = 0) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, start) for number in partitions])

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def take(self, count: int) -> list[Message]:
        """Exactly `count` more records."""
        taken: list[Message] = []
        while len(taken) < count:
            messages = self._consumer.consume(count - len(taken), timeout=TIMEOUT_S)
            assert messages, f"only {len(taken)} of {count} records arrived"
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
            taken += messages
        return taken

    def nothing_more(self) -> bool:
        """Whether every partition was read to its end, as the broker tells it."""
        return all(
            self._consumer.position([place])[0].offset == self.end(place.partition, place.topic)
            for place in self._consumer.assignment()
        )

    def end(self, partition: int, topic: str) -> int:
        return int(self._consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)[1])

    def start(self, partition: int, topic: str) -> int:
        return int(self._consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)[0])


def read_all(bootstrap: str, topic: str, partition: int) -> list[Message]:
    """Everything between the start and the end of a partition."""
    with Reader(bootstrap, topic, [partition]) as reader:
        start, end = reader.start(partition, topic), reader.end(partition, topic)
    with Reader(bootstrap, topic, [partition], start) as reader:
        return reader.take(end - start)
