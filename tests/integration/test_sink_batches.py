"""An exactly-once batch job's commit and abort, and tasks that fail, on a real broker without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from ottla.base.ids import TopicPartition
from ottla.client.raw import (
    Cluster,
    ClusterUnreachable,
    RawProducer,
    TransactionEnd,
    cluster_for,
    end_transactions,
)
from ottla.client.raw import producer as producer_module
from ottla.local.broker_process import BrokerProcess
from ottla.records import columns
from ottla.records.columns import BinaryColumn
from ottla.spark.sink import spark_writers as sink
from ottla.spark.sink.batch_commit import TransactionLost
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.spark_writers import OttlaWriter
from ottla.spark.sink.task_transaction import TaskTransaction
from ottla.spark.sink.transactions import QueryTransactions, Task, TaskCommitMessage
from tests.support.clients import create_topic, fresh
from tests.support.sink_queries import committed_values, open_transactions
from tests.support.waiting import wait_until


class Job:
    """A batch write under a name of its own."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.bootstrap = broker.bootstrap
        self.topic = create_topic(broker.bootstrap, fresh("batch"))
        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "topic": self.topic,
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": self.topic,
        }
        self.options = SinkOptions.parse(given, streaming=False)
        self.writer = OttlaWriter(self.options, "job")

    @property
    def cluster(self) -> Cluster:
        return cluster_for(self.options.settings)

    def task(self, number: int) -> TaskCommitMessage:
        transaction = TaskTransaction(self.cluster, self.options, Task("job", "job", 0, number, 0))
        value = b"%d" % number
        column = BinaryColumn(b"\0\0\0\0" + len(value).to_bytes(4, "little"), value)
        transaction.send([(TopicPartition(self.topic, 0), columns.encode(column, 1, timestamp_ms=1))])
        return transaction.leave_open()

    @property
    def open(self) -> list[str]:
        return open_transactions(self.bootstrap, self.topic)

    def expect(self, *values: str) -> None:
        wait_until(
            lambda: committed_values(self.bootstrap, self.topic, 1) == list(values),
            f"{values} to be all that is visible",
        )


@pytest.fixture
def job(broker: BrokerProcess) -> Job:
    return Job(broker)


def test_reported_transactions_are_committed_and_the_others_aborted(job: Job) -> None:
    reported, unreported = [job.task(0), job.task(1)], job.task(2)
    assert unreported.transaction is not None
    job.writer.commit([*reported, None])
    assert job.open == []
    job.expect("0", "1")


def test_nothing_is_committed_when_something_is_lost(job: Job) -> None:
    reported = [job.task(0), job.task(1)]
    assert reported[1].transaction is not None
    assert end_transactions(job.cluster, [reported[1].transaction], commit=False) == [TransactionEnd.ENDED]
    with pytest.raises(TransactionLost, match="1 of 2 transactions"):
        job.writer.commit(reported)
    job.writer.abort(reported)
    assert job.open == []
    job.expect()


def test_a_job_that_is_committed_has_not_failed(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """To repeat it would write everything twice."""

    def fail(*_: object, **__: object) -> None:
        raise ClusterUnreachable("no broker responds")

    monkeypatch.setattr(QueryTransactions, "abandoned", fail)
    job.writer.commit([job.task(0)])
    job.expect("0")


@pytest.mark.parametrize("is_reported", [True, False])
def test_a_job_that_failed_leaves_nothing_open(
    job: Job, monkeypatch: pytest.MonkeyPatch, is_reported: bool
) -> None:
    """Reported transactions are aborted even if brokers do not list them; the others are found in the list."""
    reported = [job.task(0), job.task(1)]
    if is_reported:
        monkeypatch.setattr(QueryTransactions, "abandoned", lambda *_, **__: [])
    job.writer.abort(reported if is_reported else [None, None])
    assert job.open == []
    job.expect()


def test_a_task_that_fails_takes_back_what_it_wrote(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "REQUEST_BYTES", 1)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array([b"0"])})
        wait_until(lambda: len(job.open) == 1, "the transaction to be open")
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        sink._write(job.options, Task("job", "job", 0, 0, 0), rows())
    assert job.open == []
    job.expect()


def test_a_task_that_fails_closes_its_producer(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least once: no response is waited for."""
    monkeypatch.setattr(producer_module, "REQUEST_BYTES", 1)
    options = replace(job.options, exactly_once=False)
    closed: list[RawProducer] = []
    close = RawProducer.close

    def closing(producer: RawProducer) -> None:
        closed.append(producer)
        close(producer)

    monkeypatch.setattr(RawProducer, "close", closing)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array([b"0"])})
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        sink._write(options, Task("job", "job", 0, 0, 0), rows())
    assert len(closed) == 1
