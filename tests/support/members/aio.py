"""Members on aiokafka, all on one event loop: classic eager."""

from __future__ import annotations

import asyncio
import threading

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from tests.support.members.report import Report, Settings, leave_sign


class Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """The lock keeps a rebalance from overtaking records that are being processed."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.report = Report(name)
        self.topic = settings.topic
        self.lock = asyncio.Lock()
        self.uncommitted: dict[int, list[int]] = {}
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            client_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            request_timeout_ms=10_000,
            metadata_max_age_ms=5_000,
        )

    async def run(self, leave: threading.Event) -> None:
        await self.consumer.start()
        self.consumer.subscribe([self.topic], listener=self)
        while not leave.is_set():
            batches = await self.consumer.getmany(timeout_ms=200, max_records=200)
            async with self.lock:
                await self.process(batches)
        await self.consumer.stop()
        self.report.closed()

    async def process(self, batches: dict[TopicPartition, list[object]]) -> None:
        """Tells and commits what it has seen; a refused commit is tried again while the partition is its own."""
        done = {place.partition: [one.offset for one in records] for place, records in batches.items()}  # type: ignore[attr-defined]
        if done:
            self.report.processed(done)
        for partition, seen in done.items():
            self.uncommitted.setdefault(partition, []).extend(seen)
        if not self.uncommitted:
            return
        offsets = {
            TopicPartition(self.topic, number): seen[-1] + 1 for number, seen in self.uncommitted.items()
        }
        try:
            await self.consumer.commit(offsets)
        except KafkaError as refusal:
            self.report.refused(repr(refusal))
        else:
            self.report.committed(self.uncommitted)
            self.uncommitted = {}

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        async with self.lock:
            for place in revoked:
                self.uncommitted.pop(place.partition, None)
            self.report.revoked(place.partition for place in revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.report.assigned(place.partition for place in assigned)


async def run() -> None:
    settings = Settings.from_arguments()
    leave = leave_sign()
    async with asyncio.TaskGroup() as tasks:
        for name in settings.names:
            tasks.create_task(Member(name, settings).run(leave))


if __name__ == "__main__":
    asyncio.run(run())
