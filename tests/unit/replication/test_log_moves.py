"""Which requests start, replace and end moves between log directories, and what partitions notice of them."""

from __future__ import annotations

import errno
import random
import uuid
from collections import deque
from collections.abc import Callable

import pytest

from ottla.base.errors import ErrorCode, StorageFault
from ottla.base.ids import TopicPartition
from ottla.metadata.records import PartitionChangeRecord, RemoveTopicRecord
from ottla.replication.log_moves import LogMoves
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.storage.log_move import MoveEnvironment
from ottla.testing.disk import Survival
from tests.support.logs import append, batch
from tests.support.metadata import replayed
from tests.support.replica_fetches import FakeClock
from tests.unit.replication.test_replicas import NODE, TOPIC_ID, FixedClock, Setup

A, B, C = "/a", "/b", "/c"
NONE, NOT_HERE = ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE


class Moves(Setup):
    def __init__(self, quota: ReplicationQuota | None = None) -> None:
        super().__init__(stepped=True, directories=(A, B, C))
        self.timers: deque[Callable[[], None]] = deque()
        self.moved: list[Partition] = []
        environment = MoveEnvironment(
            self.dirs,
            self.disk,
            self.executor,
            FixedClock(),
            random.Random(3),
            lambda _, call: self.timers.append(call),
            self.write,
        )
        self.clock = FakeClock()
        self.quota = quota or ReplicationQuota(11, 1000, self.clock)
        self.moves = LogMoves(
            NODE, self.replicas, environment, lambda: self.image, self.moved.append, self.quota
        )

    def write(self, log: object) -> None:
        for each in self.dirs.logs():
            if each is log:
                each.flush(0)

    def run(self, steps: int = 1_000) -> None:
        for _ in range(steps):
            if not self.executor.step():
                if not self.timers:
                    return
                self.timers.popleft()()

    def prepare(self, *indexes: int, reported: bool = True) -> None:
        """Partitions with records, in directory /a."""
        for index in indexes:
            self.dirs.preferred[TopicPartition("t", index)] = A
        self.create(*indexes)
        self.run()
        for index in indexes:
            append(self.replicas.get("t", index).log, batch(5), leader_epoch=3)
            if reported:
                self.report(index)

    def report(self, index: int) -> None:
        directory = self.dirs.dir_of(self.replicas.get("t", index).log).directory_id
        self.replay(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, directories=[directory]))
        self.run()

    def where(self, index: int = 0) -> str:
        return self.replicas.get("t", index).log.log_dir

    def alter(self, path: str, index: int = 0, topic: str = "t") -> ErrorCode:
        """The code of the response; NONE while it waits for the copy."""
        code = self.moves.alter(TopicPartition(topic, index), path)
        return code.result() if code.done else NONE

    def copies(self, path: str) -> list[str]:
        return [name for name in self.disk.listdir(path) if name.endswith("-future")]


@pytest.fixture
def setup() -> Moves:
    found = Moves()
    found.prepare(0)
    return found


def test_a_replica_is_moved_and_reported(setup: Moves) -> None:
    partition = setup.replicas.get("t", 0)
    assert setup.alter(B) is NONE
    setup.run()
    assert setup.where() == B
    assert setup.replicas.get("t", 0) is partition
    assert setup.moved == [partition]
    assert partition.log.log_end_offset == 5
    assert list(setup.moves) == []


def test_the_codes_of_kafka(setup: Moves) -> None:
    assert setup.alter("/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert setup.alter("/nowhere", topic="unknown") is ErrorCode.LOG_DIR_NOT_FOUND
    assert setup.alter("/a/") is ErrorCode.LOG_DIR_NOT_FOUND
    assert setup.alter(B, topic="unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert setup.alter(B, index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert setup.alter("/nowhere", topic="l" * 230) is ErrorCode.INVALID_TOPIC_EXCEPTION
    setup.dirs.fail(StorageFault(C, OSError()))
    assert setup.alter(C) is ErrorCode.KAFKA_STORAGE_ERROR
    setup.dirs.fail(StorageFault(A, OSError()))
    assert setup.alter(B) is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_directory_of_a_replica_that_does_not_exist_is_used_when_it_is_created() -> None:
    setup, other = Moves(), uuid.UUID(int=78)
    setup.create(1, replicas=[5], topic_id=TOPIC_ID)
    assert setup.alter(C, index=1) is NOT_HERE
    setup.replay(
        PartitionChangeRecord(
            topic_id=TOPIC_ID, partition_id=1, replicas=[5, NODE], directories=[other, uuid.UUID(int=0)]
        )
    )
    setup.run()
    assert setup.where(1) == C


def test_the_same_directory_changes_nothing_and_ends_a_move(setup: Moves) -> None:
    assert setup.alter(A) is NONE
    assert list(setup.moves) == []
    assert setup.alter(B) is NONE
    setup.run(2)
    assert [move.target.path for move in setup.moves] == [B]
    assert setup.alter(B) is NONE
    assert setup.alter(A) is NONE
    setup.run()
    assert (setup.where(), list(setup.moves)) == (A, [])


@pytest.mark.parametrize("steps", range(0, 30, 3))
def test_another_directory_replaces_a_move(setup: Moves, steps: int) -> None:
    setup.alter(B)
    setup.run(steps)
    assert setup.alter(C) is NONE
    setup.run()
    if setup.where() == B:  # the first move was complete: its directory is reported first
        setup.report(0)
        setup.run()
    assert setup.where() == C


def test_an_exchange_waits_until_the_metadata_names_the_directory() -> None:
    setup = Moves()
    setup.prepare(0, reported=False)
    setup.alter(B)
    setup.run()
    assert setup.where() == A
    setup.report(0)
    setup.run()
    assert setup.where() == B


def test_a_log_that_is_reassigned_to_another_broker_is_not_exchanged(setup: Moves) -> None:
    assert setup.alter(B) is NONE
    (move,) = setup.moves
    assert setup.moves.may_exchange(move)
    change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[2], isr=[2], leader=2)
    setup.image = replayed([change], setup.image)
    assert not setup.moves.may_exchange(move)


def test_two_logs_are_copied_at_a_time() -> None:
    setup = Moves()
    setup.prepare(0, 1, 2, 3, reported=False)
    for index in range(4):
        assert setup.alter(B, index) is NONE
    setup.run(200)
    assert sorted(move.end_offset for move in setup.moves) == [0, 0, 5, 5]
    for index in range(4):
        setup.report(index)
    setup.run()
    assert {setup.where(index) for index in range(4)} == {B}


def test_a_deleted_topic_ends_its_move(setup: Moves) -> None:
    setup.alter(B)
    setup.run(3)
    setup.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    setup.run()
    assert list(setup.moves) == []
    assert setup.moved == []
    assert not setup.copies(B)


def test_a_move_is_answered_when_its_copy_is_durable(setup: Moves) -> None:
    """A crash after the response does not forget the move."""
    first = setup.moves.alter(TopicPartition("t", 0), B)
    assert not first.done
    while not first.done:
        setup.run(1)
    assert (first.result(), len(setup.copies(B))) == (NONE, 1)
    second = setup.moves.alter(TopicPartition("t", 0), C)
    assert not second.done
    while not second.done:
        setup.run(1)
    assert (second.result(), setup.copies(B), len(setup.copies(C))) == (NONE, [], 1)
    assert setup.moves.alter(TopicPartition("t", 0), C).result() is NONE
    after_crash = setup.disk.crash(Survival.NONE)
    assert [name for name in after_crash.listdir(C) if name.endswith("-future")] == setup.copies(C)


def test_a_directory_that_fails_before_the_copy_exists_is_in_the_response(setup: Moves) -> None:
    code = setup.moves.alter(TopicPartition("t", 0), B)
    setup.disk.fail_at(0, errno.EIO)
    setup.run()
    setup.disk.fail_at(-1)
    assert code.result() is ErrorCode.KAFKA_STORAGE_ERROR
    assert (setup.where(), list(setup.moves)) == (A, [])


def test_a_failed_target_ends_its_moves(setup: Moves) -> None:
    setup.alter(B)
    setup.run(3)
    setup.dirs.fail(StorageFault(B, OSError()))
    setup.run()
    assert (setup.where(), list(setup.moves)) == (A, [])
    assert not setup.replicas.get("t", 0).log.offline


def test_a_stop_ends_all_moves_and_nothing_starts_afterwards(setup: Moves) -> None:
    setup.alter(B)
    setup.run(3)
    stopped = setup.moves.stop()
    setup.run()
    assert stopped.done
    assert list(setup.moves) == []
    assert any(name.endswith("-future") for name in setup.disk.listdir(B))
    assert setup.alter(C) is NONE
    assert list(setup.moves) == []


def test_interrupted_moves_are_repeated(setup: Moves) -> None:
    """A copy that an earlier move has left, where the log is now, does not count. All of them are removed."""
    for path in (A, B, C):
        setup.disk.makedirs(f"{path}/t-0.{'0' * 32}-future")
    setup.disk.makedirs(f"{B}/gone-0.{'0' * 32}-future")
    for log_dir in setup.dirs.dirs:
        log_dir.find_partitions()
    setup.moves.resume()
    setup.run()
    assert setup.where() == B
    assert not [name for path in (A, B, C) for name in setup.disk.listdir(path) if name.endswith("-future")]


def test_moves_pause_while_their_limit_is_exceeded(setup: Moves) -> None:
    setup.quota.set_bound(10_000)
    setup.quota.record(1_000_000)
    assert setup.alter(B) is NONE
    for _ in range(50):
        setup.run(steps=20)
    assert setup.where() == A
    assert [move.size_bytes for move in setup.moves] == [0]
    setup.clock.seconds += 60.0
    setup.run()
    assert setup.where() == B


def test_copied_bytes_count_toward_the_limit_of_moves(setup: Moves) -> None:
    setup.quota.set_bound(1)
    size = setup.replicas.get("t", 0).log.size_bytes
    assert not setup.quota.exceeded
    assert setup.alter(B) is NONE
    setup.run(steps=50)
    assert [move.size_bytes for move in setup.moves] == [size]
    assert setup.quota.exceeded
    setup.clock.seconds += 60.0
    setup.run()
    assert setup.where() == B


class ExceededWhileHeld(ReplicationQuota):
    """A limit that is exceeded from the moment in which a move holds its log."""

    moves: LogMoves

    @property
    def exceeded(self) -> bool:
        return any(move.holds_log for move in self.moves)


def test_a_held_log_is_not_delayed_by_the_limit() -> None:
    quota = ExceededWhileHeld(11, 1000, FakeClock())
    setup = Moves(quota)
    quota.moves = setup.moves
    quota.set_bound(1)
    setup.prepare(0)
    assert setup.alter(B) is NONE
    setup.run()
    assert setup.where() == B
