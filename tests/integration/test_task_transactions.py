"""The transactions of tasks that follow each other in one worker process, on a real broker."""

from __future__ import annotations

import pytest

from ottla.base.ids import TopicPartition
from ottla.client.raw import Cluster, TransactionEnd, cluster_for, describe_transaction, end_transactions
from ottla.coordinator.txn.transaction import NEVER_TIMES_OUT_MS
from ottla.local.broker_process import BrokerProcess
from ottla.records import columns
from ottla.records.columns import BinaryColumn
from ottla.spark.sink import task_transaction
from ottla.spark.sink.commit_log import PreparedTransaction
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task_transaction import Part, TaskTransaction
from ottla.spark.sink.transactions import Task, TaskCommitMessage
from tests.conftest import MakeBroker
from tests.support.clients import create_topic, fresh
from tests.support.sink_queries import committed_values
from tests.support.waiting import wait_until


class Worker:
    """A process that Spark gives one task of every batch."""

    def __init__(self, broker: BrokerProcess, partitions: int = 1) -> None:
        self.bootstrap = broker.bootstrap
        self.topic = create_topic(broker.bootstrap, fresh("answers"), partitions)
        given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": self.topic}
        self.options = SinkOptions.parse(given, streaming=True)
        self.query = fresh("query")
        self.batch = 0

    @property
    def cluster(self) -> Cluster:
        return cluster_for(self.options.settings)

    def part(self, value: bytes, partition: int = 0) -> Part:
        column = BinaryColumn(b"\0\0\0\0" + len(value).to_bytes(4, "little"), value)
        return TopicPartition(self.topic, partition), columns.encode(column, 1, timestamp_ms=1)

    def begin(self) -> TaskTransaction:
        self.batch += 1
        return TaskTransaction(self.cluster, self.options, Task(self.query, "run", self.batch, 0, 0))

    def write(self, *values: bytes) -> TaskCommitMessage:
        transaction = self.begin()
        transaction.send([self.part(value) for value in values])
        return transaction.leave_open()

    def end(self, written: TaskCommitMessage, *, commit: bool) -> list[TransactionEnd]:
        assert written.transaction is not None
        return end_transactions(self.cluster, [written.transaction], commit)

    def expect(self, *values: str) -> None:
        """That so much is visible, and nothing else, as soon as the last transaction is."""
        count = len(self.cluster.topic(self.topic).partitions)
        wait_until(
            lambda: committed_values(self.bootstrap, self.topic, count) == list(values),
            f"{values} to be visible",
        )


@pytest.fixture
def worker(broker: BrokerProcess) -> Worker:
    return Worker(broker)


def who(written: TaskCommitMessage) -> tuple[str, int]:
    assert written.transaction is not None
    return written.transaction.transactional_id, written.transaction.producer_id


def epoch(written: TaskCommitMessage) -> int:
    assert written.transaction is not None
    return written.transaction.epoch


def test_the_next_task_continues_with_the_raised_epoch(worker: Worker) -> None:
    written = []
    for value in (b"a", b"b", b"c"):
        written.append(worker.write(value))
        assert worker.end(written[-1], commit=True) == [TransactionEnd.ENDED]
    assert len({who(one) for one in written}) == 1
    assert [epoch(one) - epoch(written[0]) for one in written] == [0, 1, 2], "no question in between"
    worker.expect("a", "b", "c")


def test_a_task_may_send_more_than_its_first_batches(worker: Worker) -> None:
    worker.end(worker.write(b"a"), commit=True)
    transaction = worker.begin()
    for value in (b"b", b"c"):
        transaction.send([worker.part(value)])
    written = transaction.leave_open()
    assert written.records == 2
    worker.end(written, commit=True)
    worker.expect("a", "b", "c")


def test_a_transaction_that_was_aborted_is_followed_in_the_same_way(worker: Worker) -> None:
    first = worker.write(b"a")
    worker.end(first, commit=False)
    second = worker.write(b"b")
    worker.end(second, commit=True)
    assert epoch(second) == epoch(first) + 1
    worker.expect("b")


def test_a_transaction_that_was_not_ended_is_aborted(worker: Worker) -> None:
    left = worker.write(b"a", b"b")
    second = worker.write(b"c")
    assert second.transaction is not None
    assert second.records == 1
    (outcome,) = worker.end(left, commit=True)
    assert outcome in (TransactionEnd.FENCED, TransactionEnd.OTHERWISE)
    assert worker.end(second, commit=True) == [TransactionEnd.ENDED]
    worker.expect("c")


def test_what_is_refused_to_a_kept_producer_is_written_whole_by_the_next(broker: BrokerProcess) -> None:
    """The first batches of a task go to several partitions: none is there twice, none is missing."""
    worker = Worker(broker, partitions=3)
    worker.write(b"left")
    transaction = worker.begin()
    transaction.send([worker.part(b"%d" % number, number) for number in range(3)])
    worker.end(transaction.leave_open(), commit=True)
    worker.expect("0", "1", "2")


def test_after_a_pause_a_producer_begins_anew(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    first = worker.write(b"a")
    worker.end(first, commit=True)
    monkeypatch.setattr(task_transaction, "CACHED_S", 0.0)
    second = worker.write(b"b")
    worker.end(second, commit=True)
    assert epoch(second) > epoch(first) + 1
    worker.expect("a", "b")


def test_a_task_that_fails_leaves_no_producer_behind(worker: Worker) -> None:
    failed = worker.begin()
    failed.send([worker.part(b"a")])
    failed.abort()
    worker.end(worker.write(b"b"), commit=True)
    worker.expect("b")


def test_a_task_without_records_has_no_transaction(worker: Worker) -> None:
    transaction = worker.begin()
    transaction.send([])
    assert transaction.leave_open().transaction is None


def test_two_phase_commit_holds_for_all_transactions_of_a_producer(
    make_broker: MakeBroker, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--on-kafka"):
        pytest.skip("Kafka 4.3 has two-phase commit and does not offer it to clients yet")
    worker = Worker(make_broker({"transaction.two.phase.commit.enable": "true"}))
    for value in (b"a", b"b"):
        written = worker.write(value)
        assert not written.can_expire
        assert written.transaction is not None
        description = describe_transaction(worker.cluster, written.transaction.transactional_id)
        assert description is not None
        assert description.timeout_ms == NEVER_TIMES_OUT_MS
        worker.end(written, commit=True)


def test_an_id_that_is_taken_over_is_not_used_again(worker: Worker) -> None:
    """Whatever the epoch is meanwhile, the task's records are there once."""
    first = worker.write(b"a")
    worker.end(first, commit=True)
    name = who(first)[0]
    other = task_transaction.open_producer(worker.cluster, name, 60_000)
    other.send(*worker.part(b"foreign"))
    other.flush()
    second = worker.write(b"b")
    assert second.transaction is not None
    foreign = PreparedTransaction(name, other.identity.producer_id, other.identity.epoch)
    assert end_transactions(worker.cluster, [foreign], commit=True) != [TransactionEnd.ENDED]
    worker.end(second, commit=True)
    worker.expect("a", "b")
