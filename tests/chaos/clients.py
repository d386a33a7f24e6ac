"""Clients of a chaos run: idempotent producers, a group, and transactional copies, with one history of all of them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from math import inf
from pathlib import Path

from ottla.base.ids import TopicPartition
from ottla.testing import Cluster
from ottla.testing.history import Anomaly, History, Kind
from tests.chaos.copy_history import copy_history, original_value
from tests.chaos.java_load import JavaLoad
from tests.chaos.summary import Summary, pause_around
from tests.fault.load import AiokafkaLoad, ConfluentLoad, Load
from tests.support.clients import create_topic, fresh, read_all
from tests.support.members.copier import EXIT_FENCED
from tests.support.replicated import GroupReader
from tests.support.transactional_copy import CommittedReader, Copying, Job, confluent_copier
from tests.support.waiting import wait_until

PARTITIONS = 6
RATE = 200
JAVA_RATE = 100
PROGRESS_TIMEOUT_S = 150.0
"""Longer than the time after which a producer gives up a request."""
COPIER_STALL_S = 15.0
"""A copier that has copied nothing for this long is started again.

`send_offsets_to_transaction` of librdkafka 2.16 can block until another broker changes its state, regardless of its
timeout. The client removes a broker that the metadata do not list any more (a killed one), but keeps it as the group's
coordinator in its cache: it waits for a connection that it never opens, and does not look up the coordinator
(librdkafka issues 5511 and 5456). The call blocks in the same way on Apache Kafka 4.3.1, which also lists only live
brokers."""
PAUSE_WINDOW_S = 20.0
COPY_SIZE = 100


class Clients:
    """All clients of one cluster."""

    def __init__(
        self, cluster: Cluster, folder: Path, summary: Summary, *, java: bool, rate: int = RATE
    ) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._cluster = cluster
        self._folder = folder
        self._summary = summary
        bootstrap = cluster.bootstrap
        self.topic = create_topic(bootstrap, fresh("chaos"), PARTITIONS, replicas=-1)
        self.copy = create_topic(bootstrap, fresh("copy"), PARTITIONS, replicas=-1)
        self.loads: list[Load] = [
            kind(kind.__name__, bootstrap, self.topic, PARTITIONS, rate=rate)
            for kind in (ConfluentLoad, AiokafkaLoad)
        ]
        self._java = (
            JavaLoad(bootstrap, self.topic, PARTITIONS, rate=JAVA_RATE, errors=folder / "java.err")
            if java
            else None
        )
        if self._java is not None:
            self.loads.append(self._java)
        group = fresh("readers")
        self._readers = [GroupReader(bootstrap, self.topic, group, f"member {n}") for n in range(2)]
        self._job = Job(bootstrap, self.topic, self.copy, COPY_SIZE, str(folder / "journal"))
        self._copying = Copying(confluent_copier("assign")(self._job), folder, {EXIT_FENCED})
        self._copied_history = History(time.monotonic)
        self._copied = CommittedReader(bootstrap, self.copy, PARTITIONS, self._copied_history)
        self._copied_before, self._copied_at = 0, time.monotonic()
        for load in self.loads:
            load.start()

    def close(self) -> None:
        self._copying.kill()
        self._copied.close()
        if self._java is not None:
            self._java.kill()

    # Progress

    def wait_for_progress(self, when: str, records: int) -> None:
        """Wait until each producer has received some more acknowledgements."""
        goals = {load: load.acknowledged + records for load in self.loads}

        def reached() -> bool:
            self._look_at_copier()
            return all(load.acknowledged >= goal or load.failure for load, goal in goals.items())

        try:
            wait_until(reached, f"producers to go on {when}", PROGRESS_TIMEOUT_S)
        except AssertionError as error:
            stalled = [load for load, goal in goals.items() if load.acknowledged < goal]
            states = "\n".join(f"{load.name}: {load.state()}" for load in stalled)
            raise AssertionError(f"{error}\n{states}") from error
        failed = [load.failure for load in self.loads if load.failure is not None]
        if failed:
            raise failed[0]

    def _look_at_copier(self) -> None:
        self._copying.look()
        now, count = time.monotonic(), self._copied.count
        if count != self._copied_before:
            self._copied_before, self._copied_at = count, now
        elif now - self._copied_at > COPIER_STALL_S:
            self._summary.faults["restart of the copier"] += 1
            self._copied_at = now
            self._copying.kill()
            self._copying.start()

    # The end

    def finish(self) -> None:
        """Stop all clients when everything is read and copied; put the results into the summary."""
        history = History()
        if self._java is not None:
            self._java.finish_producing()
        for load in self.loads:
            if load is not self._java:
                history.extend(load.stop())
        if self._java is not None:
            wait_until(self._java_finished, "the Java producer to end", PROGRESS_TIMEOUT_S)
        original = self._read_original(history)
        total = sum(map(len, original.values()))
        self._wait_until_read(total)
        for reader in self._readers:
            self._summary.read += reader.count
            history.extend(reader.close())
        if self._java is not None:
            history.extend(self._java.stop())
            self._summary.read_by_java = len(self._java.seen)
        self._summary.acknowledged = {load.name: load.acknowledged for load in self.loads}
        self._summary.new_epochs = sum(load.new_epochs for load in self.loads)
        self._summary.faults["restart of a producer"] = sum(load.restarts for load in self.loads)
        found = list(self._copy_anomalies(original, total))
        self._copying.kill()
        self._copied.close()
        history.extend(self._journals())
        history.extend(self._copied_history)
        self._summary.transactions = history.committed_count
        self._summary.anomalies = history.anomalies() + found

    def _java_finished(self) -> bool:
        assert self._java is not None
        return self._java.finished or self._java.failure is not None

    def _read_original(self, history: History) -> dict[int, list[bytes]]:
        original: dict[int, list[bytes]] = {}
        for partition in range(PARTITIONS):
            messages = read_all(self._cluster.bootstrap, self.topic, partition)
            original[partition] = [message.value() for message in messages]
            for message in messages:
                tp = TopicPartition(self.topic, partition)
                history.read("all", tp, message.offset(), message.value())
        return original

    def _journals(self) -> History:
        def lines() -> Iterator[str]:
            for path in sorted(self._folder.glob("journal.*")):
                with path.open() as file:
                    yield from file

        return copy_history(lines(), self.topic, self.copy, self._job.group)

    def _wait_until_read(self, total: int) -> None:
        def all_read() -> bool:
            by_group = len(set().union(*(reader.seen for reader in self._readers)))
            return by_group >= total and (self._java is None or len(self._java.seen) >= total)

        wait_until(all_read, f"the groups to read {total} records", PROGRESS_TIMEOUT_S)

    def _copy_anomalies(self, original: dict[int, list[bytes]], total: int) -> Iterator[Anomaly]:
        """What is wrong with the copy; it is also wrong if it does not become complete."""

        def copied() -> bool:
            self._look_at_copier()
            return self._copied.count >= total

        try:
            wait_until(copied, f"{total} records to be copied in transactions", PROGRESS_TIMEOUT_S)
        except AssertionError as error:
            copier = self._copying.errors.read_text()[-1000:]
            detail = f"{error}; copied: {self._copied.count}; copier: {copier}"
            yield Anomaly(Kind.LOST_WRITE, TopicPartition(self.copy, 0), detail)
        self._summary.copied = self._copied.count
        for partition, values in original.items():
            copies = [original_value(value) for value in self._copied.values[partition]]
            if copies != values[: len(copies)]:
                twice = [value for value, count in Counter(copies).items() if count > 1]
                detail = f"the copy differs from the original; copied twice: {twice[:5]}"
                yield Anomaly(Kind.INCONSISTENT_OFFSET, TopicPartition(self.copy, partition), detail)

    def measure(self, moments: list[tuple[str, float]]) -> None:
        """Pauses as the first producer saw them, the longest of all partitions, up to the next fault."""
        ends = [moment for _, moment in moments[1:]] + [inf]
        for (name, moment), end in zip(moments, ends, strict=True):
            window_s = min(PAUSE_WINDOW_S, end - moment)
            found = [pause_around(acks, moment, window_s) for acks in self.loads[0].times.values()]
            known = [pause for pause in found if pause is not None]
            if known:
                self._summary.pauses.setdefault(name, []).append(max(known))
