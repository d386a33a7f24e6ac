"""A consumer group that lives in this process while a tool looks at it."""

from __future__ import annotations

import threading
from types import TracebackType

from confluent_kafka import Consumer, TopicPartition

from tests.support.waiting import wait_until

CLASSIC = {"partition.assignment.strategy": "range"}
CONSUMER = {"group.protocol": "consumer"}


class LiveGroup:
    """Members that read a topic to its end and commit, until the context ends; ready when all is committed."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, settings: dict[str, str], members: int = 2
    ) -> None:
        common = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self.consumers = [
            Consumer({**common, **settings, "client.id": f"client-{number}", "enable.auto.commit": False})
            for number in range(members)
        ]
        self.topic = topic
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._poll, args=[one]) for one in self.consumers]

    def _poll(self, consumer: Consumer) -> None:
        consumer.subscribe([self.topic])
        while not self._over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                consumer.commit(message, asynchronous=False)
        consumer.close()

    def __enter__(self) -> LiveGroup:
        for thread in self._threads:
            thread.start()
        partitions = self.consumers[0].list_topics(self.topic, 30).topics[self.topic].partitions
        wait_until(lambda: self._read_everything(len(partitions)), "the group to have read everything")
        return self

    def _read_everything(self, partitions: int) -> bool:
        owned = [place for one in self.consumers for place in one.assignment()]
        return len(owned) == partitions and all(map(self._at_end, owned))

    def _at_end(self, place: TopicPartition) -> bool:
        (committed,) = self.consumers[0].committed([place], timeout=10)
        return bool(committed.offset == self.consumers[0].get_watermark_offsets(place, timeout=10)[1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commits as somebody who is no member: the group has offsets and nobody in it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
