"""A consumer group that lives in this process while a tool looks at it."""

from __future__ import annotations

import threading
from types import TracebackType

from confluent_kafka import Consumer, TopicPartition

from tests.support.waiting import wait_until

CLASSIC = {"partition.assignment.strategy": "range"}
CONSUMER = {"group.protocol": "consumer"}


class LiveGroup:
    """Members that read a topic to its end and commit, until the context ends; ready when all is committed.

    A member's consumer belongs to its thread; another one answers the questions.
    """

    def __init__(
        self, bootstrap: str, group: str, topic: str, settings: dict[str, str], members: int = 2
    ) -> None:
        self.topic = topic
        self._common = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self._settings = {**self._common, **settings}
        self._owned: list[list[TopicPartition]] = [[] for _ in range(members)]
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[number]) for number in range(members)]

    def _run(self, number: int) -> None:
        consumer = Consumer({**self._settings, "client.id": f"client-{number}", "enable.auto.commit": False})
        consumer.subscribe([self.topic])
        while not self._over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                consumer.commit(message, asynchronous=False)
            self._owned[number] = consumer.assignment()
        consumer.close()

    def __enter__(self) -> LiveGroup:
        for thread in self._threads:
            thread.start()
        asking = Consumer(self._common)
        partitions = len(asking.list_topics(self.topic, 30).topics[self.topic].partitions)
        try:
            wait_until(lambda: self._is_at_end(asking, partitions), "the group to have read everything")
        except AssertionError:
            self._end()
            raise
        finally:
            asking.close()
        return self

    def _is_at_end(self, asking: Consumer, partitions: int) -> bool:
        owned = [place for places in self._owned for place in places]
        if len(owned) != partitions or not all(self._owned):
            return False
        committed = asking.committed([TopicPartition(self.topic, place.partition) for place in owned], 10)
        return all(place.offset == asking.get_watermark_offsets(place, timeout=10)[1] for place in committed)

    def _end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit without joining: the group has offsets and no members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
