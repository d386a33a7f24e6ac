"""Members on confluent-kafka, each in a thread of its own: classic eager, classic cooperative, KIP-848."""

from __future__ import annotations

import threading
from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.members.report import Report, Settings, run_in_threads

GATHER_MAX = 200


class Member:
    def __init__(self, name: str, settings: Settings, leave: threading.Event) -> None:
        self.report = Report(name)
        self.topic = settings.topic
        self.leave = leave
        self.pending: defaultdict[int, list[int]] = defaultdict(list)
        self.uncommitted: dict[int, list[int]] = {}
        self.consumer = Consumer(client_settings(name, settings))

    def run(self) -> None:
        self.consumer.subscribe(
            [self.topic], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost
        )
        while not self.leave.is_set():
            self.gather()
            self.process()
        self.consumer.close()
        self.report.closed()

    def gather(self) -> None:
        """Takes what is there, one record after the other: a rebalance may come between any two."""
        for number in range(GATHER_MAX):
            message = self.consumer.poll(0 if number else 0.2)
            if message is None:
                return
            if message.error() is None:
                self.pending[message.partition()].append(message.offset())

    def process(self) -> None:
        """Tells and commits what it has seen; a refused commit is tried again while the partition is its own."""
        done, self.pending = dict(self.pending), defaultdict(list)
        if done:
            self.report.processed(done)
        for partition, seen in done.items():
            self.uncommitted.setdefault(partition, []).extend(seen)
        if self.uncommitted:
            self.commit(dict(self.uncommitted))

    def commit(self, done: dict[int, list[int]]) -> None:
        offsets = [TopicPartition(self.topic, partition, seen[-1] + 1) for partition, seen in done.items()]
        try:
            answers = self.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refusal:
            self.report.refused(refusal)
            return
        taken = {answer.partition for answer in answers if answer.error is None}
        self.report.committed({partition: seen for partition, seen in done.items() if partition in taken})
        for partition in taken:
            self.uncommitted.pop(partition, None)

    def on_assign(self, _: Consumer, places: list[TopicPartition]) -> None:
        self.report.assigned(place.partition for place in places)

    def on_revoke(self, _: Consumer, places: list[TopicPartition]) -> None:
        self.process()
        for place in places:
            self.uncommitted.pop(place.partition, None)
        self.report.revoked(place.partition for place in places)

    def on_lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        self.pending.clear()
        self.uncommitted.clear()
        self.report.lost(place.partition for place in places)


def ignore(_: KafkaError) -> None:
    """Brokers come and go in these tests."""


def client_settings(name: str, settings: Settings) -> dict[str, object]:
    common: dict[str, object] = {
        "bootstrap.servers": settings.bootstrap,
        "group.id": settings.group,
        "client.id": name,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 5_000,
        "log_level": 0,
        "error_cb": ignore,
    }
    if settings.protocol == "consumer":
        return {**common, "group.protocol": "consumer"}
    strategy = {"range": "range", "cooperative": "cooperative-sticky"}[settings.protocol]
    return {
        **common,
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": settings.session_ms,
        "heartbeat.interval.ms": settings.heartbeat_ms,
    }


if __name__ == "__main__":
    run_in_threads(Member)
