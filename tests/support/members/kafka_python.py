"""Members on kafka-python, each in a thread of its own: classic eager and classic cooperative.

kafka-python 3.0 goes on claiming what it has lost: a cooperative member that was expelled joins again with its former
partitions as its own, and a leader that believes it gives them away while others have them, on any broker. So a member
here takes back its claim when it hears of the loss.
"""

from __future__ import annotations

import threading

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from tests.support.members.report import Report, Settings, run_in_threads

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}


class Member(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, name: str, settings: Settings, leave: threading.Event) -> None:
        self.report = Report(name)
        self.topic = settings.topic
        self.leave = leave
        self.uncommitted: dict[int, list[int]] = {}
        self.consumer = KafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            client_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(ASSIGNORS[settings.protocol],),
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            metadata_max_age_ms=5_000,
        )

    def run(self) -> None:
        self.consumer.subscribe([self.topic], listener=self)
        while not self.leave.is_set():
            self.process(self.poll())
        self.consumer.close()
        self.report.closed()

    def poll(self) -> dict[TopicPartition, list[object]]:
        try:
            return self.consumer.poll(timeout_ms=200, max_records=200)  # type: ignore[no-any-return]
        except KafkaError as error:
            # This client lets a broker that is away interrupt a poll; the next one finds it again.
            self.report.refused(repr(error))
            return {}

    def process(self, batches: dict[TopicPartition, list[object]]) -> None:
        """Tells and commits what it has seen; a refused commit is tried again while the partition is its own."""
        done = {place.partition: [one.offset for one in records] for place, records in batches.items()}  # type: ignore[attr-defined]
        if done:
            self.report.processed(done)
        for partition, seen in done.items():
            self.uncommitted.setdefault(partition, []).extend(seen)
        if not self.uncommitted:
            return
        offsets = {
            TopicPartition(self.topic, number): OffsetAndMetadata(seen[-1] + 1, "", -1)
            for number, seen in self.uncommitted.items()
        }
        try:
            self.consumer.commit(offsets)
        except KafkaError as refusal:
            self.report.refused(repr(refusal))
        else:
            self.report.committed(self.uncommitted)
            self.uncommitted = {}

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._forget(revoked)
        self.report.revoked(place.partition for place in revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        for assignor in self.consumer._coordinator._assignors.values():
            assignor.member_assignment = None
        self._forget(lost)
        self.report.lost(place.partition for place in lost)

    def _forget(self, places: set[TopicPartition]) -> None:
        for place in places:
            self.uncommitted.pop(place.partition, None)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.report.assigned(place.partition for place in assigned)


if __name__ == "__main__":
    run_in_threads(Member)
