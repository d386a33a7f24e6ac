"""Kafka's transactional copy under fire: copiers and the broker are killed, the copy is the original.

Records go in as fast as they come out, so that there is always work and never much. A concurrent reader with
read_committed sees, at any time, the beginning of each partition: in order, nothing twice, nothing missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from ottla.base.ids import TopicPartition as Partition
from ottla.local.broker_process import BrokerProcess
from ottla.testing.history import History
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.group_storm import ROOT, broker_settings
from tests.support.members.copier import EXIT_FENCED
from tests.support.waiting import wait_until

TIMEOUT_S = 90.0
SESSION_MS = 3_000
COMMITTED_READER = "reader of committed records"
BROKER_SETTINGS = {**broker_settings(SESSION_MS), "transaction.state.log.num.partitions": "4"}


@dataclass(frozen=True)
class Job:
    bootstrap: str
    source: str
    target: str
    size: int
    journal: str | None = None
    group: str = field(default_factory=lambda: fresh("copy"))


CopierCommand = Callable[[Job], list[str]]


def confluent_copier(mode: str) -> CopierCommand:
    def command(job: Job) -> list[str]:
        settings = {**vars(job), "transactional_id": job.group, "mode": mode}
        if job.journal is None:
            del settings["journal"]
        return [sys.executable, "-m", "tests.support.members.copier", json.dumps(settings)]

    return command


class CommittedReader:
    """Reads a topic from its start with read_committed in a thread of its own, until it is closed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, history: History | None = None) -> None:
        self._history = history
        if history is not None:
            history.reads_committed(COMMITTED_READER)
        self.keys: dict[int, list[bytes | None]] = {number: [] for number in range(partitions)}
        self.values: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))

    def _read(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                if message.error() is None:
                    self.keys[message.partition()].append(message.key())
                    self.values[message.partition()].append(message.value())
                    if self._history is not None:
                        where = Partition(message.topic(), message.partition())
                        self._history.read(COMMITTED_READER, where, message.offset(), message.value())

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()


class Copying:
    """A copier that is started again when it ends as a copier may, and can be killed."""

    def __init__(self, command: list[str], folder: Path, may_end_with: set[int]) -> None:
        self.command = command
        self.errors = folder / "copier.err"
        self.may_end_with = may_end_with
        self.start()

    def start(self) -> None:
        with self.errors.open("ab") as err:
            self.process = subprocess.Popen(self.command, stdout=err, stderr=err, cwd=ROOT)

    def look(self) -> None:
        code = self.process.poll()
        if code is None:
            return
        assert code in self.may_end_with, f"ended with {code}: {self.errors.read_text()[-3000:]}"
        self.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Feed:
    """The original: record n goes to partition n modulo the number of partitions."""

    topic: str
    partitions: int
    publisher: Publisher
    count: int = 0

    def add(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self.publisher.send(
            self.topic, [{"value": b"%d" % n, "partition": n % self.partitions} for n in numbers]
        )
        self.count += count

    def original(self) -> dict[int, list[bytes]]:
        return {
            part: [b"%d" % n for n in range(part, self.count, self.partitions)]
            for part in range(self.partitions)
        }


def copy_under_fire(
    broker: BrokerProcess,
    folder: Path,
    copier: CopierCommand,
    *,
    records: int,
    size: int,
    kills: int,
    partitions: int = 2,
    window: int | None = None,
    may_end_with: frozenset[int] = frozenset({EXIT_FENCED}),
) -> None:
    """Kills the copier and the broker in turn, `kills` times in all, evenly over the whole copy.

    At most about a `window` of records is in the original and not yet in the copy.
    """
    source = create_topic(broker.bootstrap, fresh("original"), partitions)
    target = create_topic(broker.bootstrap, fresh("copy"), partitions)
    feed = Feed(source, partitions, Publisher(broker.bootstrap, {"linger.ms": 5, "log_level": 0}))
    reader = CommittedReader(broker.bootstrap, target, partitions)
    window = window or size * 6
    feed.add(window)
    copying = Copying(copier(Job(broker.bootstrap, source, target, size)), folder, set(may_end_with))
    killed = 0
    kill_at = [records * (number + 1) // (kills + 2) for number in range(kills)]

    def moved_on(goal: int) -> bool:
        copying.look()
        return reader.count >= goal

    try:
        while reader.count < records:
            goal = records if feed.count == records else feed.count - window // 2
            goal = min([goal, *kill_at[killed : killed + 1]])
            wait_until(lambda goal=goal: moved_on(goal), f"{goal} records to be copied", TIMEOUT_S)
            if feed.count < min(records, reader.count + window):
                feed.add(min(window, records - feed.count))
            if killed < kills and reader.count >= kill_at[killed]:
                killed += 1
                if killed % 2:
                    copying.kill()
                    copying.start()
                else:
                    broker.kill()
                    broker.start()
    finally:
        copying.kill()
        reader.close()
    assert killed == kills
    assert reader.values == feed.original()
    again = CommittedReader(broker.bootstrap, target, partitions)
    try:
        wait_until(lambda: again.count >= records, "the copy to be read again")
    finally:
        again.close()
    assert again.values == feed.original()
