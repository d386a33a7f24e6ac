"""Checker of logs: notifies other checkers of every committed batch, and compares the replicas of each partition.

After each event of a node, for every replica on it:

- log start <= last stable offset <= high watermark <= log end;
- a leader epoch has one leader, and what two replicas have at one offset in one epoch is the same batch;
- what is below the high watermark of a replica is what was committed there, byte for byte;
- a new leader has every committed batch;
- the high watermark of a leader does not decrease while it leads; that of a partition with one replica never does;
- a replica never removes records below its own high watermark, and a member of the ISR or of the eligible replicas has
  every committed record (`is_in_sync`), when it joins the ISR (`joined`), is opened or is truncated;
- the last stable offset is the start of the earliest undecided transaction, or the high watermark.

Listeners are notified of each batch once, in order, when the first replica has it below its high watermark. When a
node starts, its logs are read again. A compacted topic may lose batches; `checkers.replay` compares what its records
mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ottla.base.ids import TopicPartition, Uuid
from ottla.records.batch import BatchHeader, crc_ok
from ottla.records.control import read_end_txn
from ottla.records.record import Record, iter_records
from ottla.replication.partition import Partition
from ottla.storage.log.log import Log
from ottla.testing.sim.kernel.events import Kernel


class Listener(Protocol):
    """Is notified of every batch that is committed in the partitions of some topics."""

    def data(self, tp: TopicPartition, header: BatchHeader, records: list[Record]) -> None: ...

    def marker(self, tp: TopicPartition, header: BatchHeader, *, committed: bool) -> None: ...


class Batch(NamedTuple):
    """Identity of a batch: its offsets, the epoch of the leader that appended it, and its checksum."""

    base_offset: int
    end_offset: int
    epoch: int
    crc: int


class CommittedLog:
    """Committed state of one partition: the truth that all replicas are compared with."""

    __slots__ = ("batches", "high_watermark", "last_stable", "leaders", "next_offset", "open")

    def __init__(self) -> None:
        self.high_watermark = 0
        self.last_stable = 0
        self.next_offset = 0
        self.batches: list[Batch] = []
        self.open: dict[int, int] = {}  # producer id -> first offset of its undecided transaction
        self.leaders: dict[int, int] = {}  # leader epoch -> node id

    def between(self, start: int, end: int) -> list[Batch]:
        """The committed batches from `start` to before `end`."""
        first = bisect_left(self.batches, start, key=_base_offset)
        return self.batches[first : bisect_left(self.batches, end, key=_base_offset)]


class _Replica:
    """What the checker has seen of one replica in one incarnation of its node."""

    __slots__ = ("batches", "checked", "end_offset", "isr", "log", "next_offset", "state")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.state: tuple[int, int, int, int, bool] = (-1, -1, -1, -1, False)
        self.batches: dict[int, Batch] = {}
        self.next_offset = log.log_start_offset
        self.end_offset = 0
        self.isr: tuple[int, ...] = ()
        self.checked = log.log_start_offset
        """Below this offset the batches were compared with the committed ones."""


class LogChecker:
    """Follows the logs of all replicas. `on_committed` is called for each batch that a leader commits."""

    def __init__(self, kernel: Kernel, listener_of: Callable[[str], Listener]) -> None:
        self._kernel = kernel
        self._listener_of = listener_of
        self.on_committed: Callable[[int, Partition, list[Batch]], None] = lambda *_: None
        self.recreated: set[str] = set()
        """Topics that are deleted and created again under the same name."""
        self.is_in_sync: Callable[[int, Partition], bool] = lambda *_: False
        """Whether a node is in the ISR or the ELR of a partition, according to the newest metadata."""
        self.is_damaged: Callable[[int], bool] = lambda _: False
        """Whether files of a node are damaged."""
        self._committed: dict[TopicPartition, CommittedLog] = {}
        self._replicas: dict[tuple[int, TopicPartition], _Replica] = {}
        self._appended: dict[tuple[TopicPartition, int, int], int] = {}  # offset and epoch -> crc

    def high_watermark(self, tp: TopicPartition) -> int:
        found = self._committed.get(tp)
        return 0 if found is None else found.high_watermark

    def undecided(self) -> dict[TopicPartition, list[int]]:
        """The producers with open transactions, by partition."""
        return {tp: sorted(each.open) for tp, each in self._committed.items() if each.open}

    def differences(self, replicas: Iterable[Partition]) -> dict[TopicPartition, str]:
        """Batches that differ between these replicas of a partition, from the latest log start on."""
        found: dict[TopicPartition, str] = {}
        first: dict[TopicPartition, tuple[int, _Replica]] = {}
        logs = {id(each.log) for each in replicas}
        for (node_id, tp), replica in self._replicas.items():
            if id(replica.log) not in logs or replica.log.config.compacted:
                continue
            other_id, other = first.setdefault(tp, (node_id, replica))
            start = max(replica.log.log_start_offset, other.log.log_start_offset)
            mine, others = (
                {batch for batch in each.batches.values() if batch.base_offset >= start}
                for each in (replica, other)
            )
            if mine != others:
                found[tp] = f"nodes {other_id} and {node_id}: {sorted(mine ^ others)[:3]}"
        return found

    def key(self, partition: Partition) -> TopicPartition:
        """The name of a partition in all checkers. A topic that is created again is another one."""
        tp = partition.log.topic_partition
        return recreated(tp, partition.topic_id) if tp.topic in self.recreated else tp

    def check(self, node_id: int, partition: Partition) -> None:
        """Check a replica that may have changed."""
        log = partition.log
        tp = self.key(partition)
        key = (node_id, tp)
        replica = self._replicas.get(key)
        if replica is None or replica.log is not log:
            replica = self._replicas[key] = _Replica(log)
            self._check_in_sync(node_id, tp, partition)
        isr, replica.isr = replica.isr, partition.isr
        state = (
            log.high_watermark,
            log.last_stable_offset,
            log.readable_offset,
            partition.leader_epoch,
            partition.leads,
        )
        if state == replica.state:
            return
        before, replica.state = replica.state, state
        if log.log_end_offset < replica.end_offset:
            self._kernel.check(
                log.log_end_offset >= before[0],
                "R8 nothing is truncated below the high watermark",
                f"{log} on {node_id}: high watermark {before[0]}, end {log.log_end_offset}",
            )
            self._check_in_sync(node_id, tp, partition)
        replica.end_offset = log.log_end_offset
        committed = self._committed.get(tp)
        if committed is None:
            committed = self._committed[tp] = CommittedLog()
        if not log.config.compacted:
            self._read(tp, replica, log, damaged=self.is_damaged(node_id))
        self._check_offsets(replica, partition, committed, before)
        if partition.leads and (not before[4] or before[3] != partition.leader_epoch):
            self._elected(node_id, replica, partition, committed)
        if log.high_watermark > committed.high_watermark:
            # The ISR may have become smaller in this event, after the high watermark had moved.
            least = min(log.config.min_insync_replicas, len(partition.replicas))
            self._kernel.check(
                max(len(isr), len(partition.isr)) >= least or not partition.leads,
                "R3 nothing is committed while the ISR is too small",
                f"{log}, leader {node_id}: ISR {isr} to {partition.isr}",
            )
            self._follow(node_id, partition, committed)
        elif log.high_watermark == committed.high_watermark == log.log_end_offset:
            # After a clean restart a marker above the high watermark counts already. The decision behind it is durable.
            self._check_stable(log, committed)
        if not log.config.compacted:
            self._compare(replica, committed, replica.checked, log.high_watermark, str(key))
            replica.checked = max(replica.checked, log.high_watermark)

    def joined(self, node_id: int, partition: Partition) -> None:
        """A replica has joined the ISR, according to the newest metadata."""
        committed, end = self.high_watermark(self.key(partition)), partition.log.committable_offset
        self._kernel.check(
            end >= committed,
            "R5 a replica that joins the ISR has every committed record",
            f"{partition.log} on {node_id} is durable to {end}, {committed} was committed",
        )

    # One replica

    def _check_in_sync(self, node_id: int, tp: TopicPartition, partition: Partition) -> None:
        """Check a replica whose log was opened or truncated."""
        committed, end = self.high_watermark(tp), partition.log.log_end_offset
        self._kernel.check(
            end >= committed or not self.is_in_sync(node_id, partition),
            "R5 in-sync and eligible replicas have every committed record",
            f"{partition.log} on {node_id} ends at {end}, {committed} was committed",
        )

    def _read(self, tp: TopicPartition, replica: _Replica, log: Log, *, damaged: bool) -> None:
        """Read what was appended; forget what was truncated."""
        end = log.readable_offset
        if end < replica.next_offset:
            for base_offset in [base for base, batch in replica.batches.items() if batch.end_offset > end]:
                del replica.batches[base_offset]
            replica.next_offset = end
        offline, log.offline = log.offline, False
        for header, data in log.batches(max(replica.next_offset, log.log_start_offset), upto=end):
            if header.base_offset < replica.next_offset:
                continue
            batch = Batch(
                header.base_offset, header.last_offset + 1, header.partition_leader_epoch, header.crc
            )
            replica.batches[batch.base_offset] = batch
            replica.next_offset = batch.end_offset
            crc = self._appended.setdefault((tp, batch.base_offset, batch.epoch), batch.crc)
            self._kernel.check(
                crc == batch.crc,
                "R6 one epoch has one batch at an offset",
                f"{log}: {batch}, another replica had crc {crc}",
            )
            self._kernel.check(
                damaged or crc_ok(data), "R13 no replica gets a damaged batch", f"{log}: {batch}"
            )
        log.offline = offline

    def _check_offsets(
        self,
        replica: _Replica,
        partition: Partition,
        committed: CommittedLog,
        before: tuple[int, int, int, int, bool],
    ) -> None:
        log = partition.log
        high_watermark, last_stable, _, epoch, leads = replica.state
        order = (log.log_start_offset, last_stable, high_watermark, log.log_end_offset)
        self._kernel.check(
            order == tuple(sorted(order)), "R10 start <= stable <= high watermark <= end", f"{log}: {order}"
        )
        least = before[0] if leads and before[3:] == (epoch, True) else 0
        if leads and len(partition.replicas) == 1:
            least = committed.high_watermark
        self._kernel.check(
            high_watermark >= least,
            "R3 the high watermark never decreases",
            f"{log}: {least} to {high_watermark}",
        )

    def _elected(
        self, node_id: int, replica: _Replica, partition: Partition, committed: CommittedLog
    ) -> None:
        epoch = partition.leader_epoch
        known = committed.leaders
        if epoch not in known:
            self._kernel.count("partition elections")
            known[epoch] = node_id
        self._kernel.check(
            known[epoch] == node_id,
            "R6 a leader epoch has one leader",
            f"{partition.log}: epoch {epoch} has {known[epoch]} and {node_id}",
        )
        if epoch < max(known):
            return  # a deposed leader that has not learned of it yet: it commits nothing any more
        end = committed.high_watermark
        self._kernel.check(
            partition.log.log_end_offset >= end,
            "R1 no committed record is lost",
            f"{partition.log} of leader {node_id} in epoch {epoch} ends at {partition.log.log_end_offset}, "
            f"{end} was committed",
        )
        if not partition.log.config.compacted:
            self._compare(replica, committed, partition.log.log_start_offset, end, f"leader {node_id}")

    def _compare(self, replica: _Replica, committed: CommittedLog, start: int, end: int, where: str) -> None:
        """Compare the batches of a replica with the committed ones."""
        for batch in committed.between(max(start, replica.log.log_start_offset), end):
            if replica.batches.get(batch.base_offset) != batch:
                self._kernel.violated(
                    "R2 what is committed never changes",
                    f"{replica.log} ({where}): {replica.batches.get(batch.base_offset)} instead of {batch}",
                )
                return

    # The committed log

    def _follow(self, node_id: int, partition: Partition, committed: CommittedLog) -> None:
        """Notify the listeners of the batches that have been committed."""
        log = partition.log
        # An offline log cannot be read, but the checker must see what it committed before its disk failed.
        offline, log.offline = log.offline, False
        new: list[Batch] = []
        for header, data in log.batches(committed.next_offset, upto=log.high_watermark):
            if header.base_offset < committed.next_offset:
                continue
            self._apply(self.key(partition), header, data, committed)
            new.append(
                Batch(header.base_offset, header.last_offset + 1, header.partition_leader_epoch, header.crc)
            )
            committed.next_offset = header.last_offset + 1
        log.offline = offline
        committed.batches += new
        self.on_committed(node_id, partition, new)
        self._check_stable(log, committed)
        committed.high_watermark, committed.last_stable = log.high_watermark, log.last_stable_offset

    def _check_stable(self, log: Log, committed: CommittedLog) -> None:
        last_stable = log.last_stable_offset
        self._kernel.check(
            last_stable >= committed.last_stable,
            "T5 the last stable offset never decreases",
            f"{log}: {committed.last_stable} to {last_stable}",
        )
        expected = min([*committed.open.values(), log.high_watermark])
        self._kernel.check(
            last_stable == expected,
            "T5 the last stable offset is the start of the earliest open transaction",
            f"{log}: {last_stable} instead of {expected}; open {committed.open}",
        )

    def _apply(
        self, tp: TopicPartition, header: BatchHeader, data: memoryview, committed: CommittedLog
    ) -> None:
        listener = self._listener_of(tp.topic)
        records = list(iter_records(data, header))
        if not header.is_control:
            if header.is_transactional:
                committed.open.setdefault(header.producer_id, header.base_offset)
            listener.data(tp, header, records)
            return
        marker = read_end_txn(records[0].key, records[0].value)
        if marker is not None:
            # Notify the listener first: it determines which open records this marker ends.
            listener.marker(tp, header, committed=marker.committed)
            committed.open.pop(header.producer_id, None)


def recreated(tp: TopicPartition, topic_id: Uuid) -> TopicPartition:
    """The name, in all checkers, of a partition of a topic that is created again under the same name."""
    return TopicPartition(f"{tp.topic}@{topic_id}", tp.partition)


def _base_offset(batch: Batch) -> int:
    return batch.base_offset
