"""The sink's commit log and its transactions on a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientSettings, Cluster, TransactionEnd
from ottla.client.raw.admin import ensure_topic, list_open_transactions
from ottla.local.broker_process import BrokerProcess
from ottla.records import columns
from ottla.records.columns import BinaryColumn
from ottla.spark.sink.batch_commit import Superseded
from ottla.spark.sink.commit_log import CommitEntry, PreparedTransaction, State
from ottla.spark.sink.commit_log_topic import CONFIGS, PARTITIONS, TopicCommitLog
from ottla.spark.sink.transactions import QueryTransactions, open_producer, run_prefix
from tests.conftest import MakeBroker
from tests.support.clients import create_topic, fresh

ONE = BinaryColumn(b"\0\0\0\0\3\0\0\0", b"one")
PREPARED = CommitEntry(1, State.PREPARED, (PreparedTransaction("a", 1, 2), PreparedTransaction("b", 3, 4)))


@pytest.fixture
def cluster(broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(ClientSettings.from_options({"bootstrap.servers": broker.bootstrap})) as made:
        yield made


def write(cluster: Cluster, name: str, topic: str, timeout_ms: int = 60_000) -> PreparedTransaction:
    """What a task leaves behind."""
    producer = open_producer(cluster, name, timeout_ms)
    producer.send(TopicPartition(topic, 0), columns.encode(ONE, 1, timestamp_ms=1))
    producer.flush()
    return PreparedTransaction(name, producer.identity.producer_id, producer.identity.epoch)


def test_what_one_driver_records_the_next_one_reads(cluster: Cluster) -> None:
    topic, query = fresh("commit_log"), fresh("query")
    first = TopicCommitLog(cluster, topic, query, "run-1")
    assert first.entry() is None
    first.record(PREPARED)
    assert first.entry() == PREPARED
    second = TopicCommitLog(cluster, topic, query, "run-2")
    assert second.entry() == PREPARED
    second.record(CommitEntry(1, State.DONE))
    assert TopicCommitLog(cluster, topic, query, "run-3").entry() == CommitEntry(1, State.DONE)
    assert TopicCommitLog(cluster, topic, fresh("query"), "run-1").entry() is None


@pytest.mark.parametrize("run", ["another", "the same"])
def test_a_driver_that_does_not_know_the_present_decides_nothing(cluster: Cluster, run: str) -> None:
    """Of the same run may be a record that was given up, and has come after all."""
    topic, query = fresh("commit_log"), fresh("query")
    slow, quick = (
        TopicCommitLog(cluster, topic, query, "the same"),
        TopicCommitLog(cluster, topic, query, run),
    )
    assert slow.entry() is None
    assert quick.entry() is None
    quick.record(PREPARED)
    with pytest.raises(Superseded, match="another driver"):
        slow.record(CommitEntry(1, State.PREPARED, (PreparedTransaction("c", 5, 6),)))
    assert TopicCommitLog(cluster, topic, query, "third").entry() == PREPARED
    assert slow.entry() == PREPARED


def test_who_has_decided_the_batch_before_expects_it_to_be_so(cluster: Cluster) -> None:
    topic, query = fresh("commit_log"), fresh("query")
    slow, quick = (
        TopicCommitLog(cluster, topic, query, "slow"),
        TopicCommitLog(cluster, topic, query, "quick"),
    )
    assert slow.expected(1) is None
    slow.record(PREPARED)
    assert quick.expected(1) == PREPARED
    quick.record(CommitEntry(1, State.DONE))
    assert slow.expected(2) == PREPARED, "as far as it knows"
    assert slow.expected(3) == CommitEntry(1, State.DONE), "it did not decide batch 2"
    with pytest.raises(Superseded, match="another driver"):
        TopicCommitLog(cluster, topic, query, "third").record(CommitEntry(2, State.PREPARED))


def test_a_driver_that_expected_wrongly_looks_the_next_time(cluster: Cluster) -> None:
    topic, query = fresh("commit_log"), fresh("query")
    slow, quick = (
        TopicCommitLog(cluster, topic, query, "slow"),
        TopicCommitLog(cluster, topic, query, "quick"),
    )
    slow.entry()
    slow.record(PREPARED)
    quick.entry()
    quick.record(CommitEntry(1, State.DONE))
    with pytest.raises(Superseded, match="another driver"):
        slow.record(CommitEntry(2, State.PREPARED))
    assert slow.expected(2) == CommitEntry(1, State.DONE)


def test_any_process_of_a_run_may_decide_its_next_batch(cluster: Cluster) -> None:
    """As Spark has it where several queries share its Python processes."""
    topic, query = fresh("commit_log"), fresh("query")
    processes = [TopicCommitLog(cluster, topic, query, "run") for _ in range(3)]
    for batch, turn in enumerate([0, 1, 1, 2, 0, 0, 1, 2, 1]):
        commit_log = processes[turn]
        before = commit_log.expected(batch)
        assert before == (None if batch == 0 else CommitEntry(batch - 1, State.DONE))
        commit_log.record(CommitEntry(batch, State.PREPARED, PREPARED.transactions))
        commit_log.record(CommitEntry(batch, State.DONE))


def test_all_queries_share_one_compacted_commit_log_topic(broker: BrokerProcess, cluster: Cluster) -> None:
    topic = fresh("commit_log")
    for query in ("a", "b", "c"):
        TopicCommitLog(cluster, topic, query, "run").entry()
    assert len(cluster.topics([topic])[topic].partitions) == PARTITIONS
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = admin.describe_configs([resource])[resource].result(30)
    assert {name: found[name].value for name in CONFIGS} == CONFIGS


def test_a_commit_log_with_too_few_partitions_is_rejected(broker: BrokerProcess, cluster: Cluster) -> None:
    topic = create_topic(broker.bootstrap, fresh("commit_log"), 3)
    with pytest.raises(LocalError, match="has 3 partitions, but needs 16"):
        TopicCommitLog(cluster, topic, "query", "run").entry()


def test_making_a_topic_that_is_there_changes_nothing(broker: BrokerProcess, cluster: Cluster) -> None:
    topic = create_topic(broker.bootstrap, fresh("there"), 3)
    ensure_topic(cluster, topic, 16, {})
    assert len(cluster.topics([topic])[topic].partitions) == 3


def test_open_transactions_are_found_by_their_beginning(broker: BrokerProcess, cluster: Cluster) -> None:
    topic, prefix = create_topic(broker.bootstrap, fresh("t")), fresh("a.b+c")
    mine = write(cluster, f"{prefix}.1", topic)
    other = write(cluster, f"x{prefix}.1", topic)
    assert list_open_transactions(cluster, prefix) == ({f"{prefix}.1": mine.producer_id}, True)
    transactions = QueryTransactions(cluster, prefix, "q", "r", 0)
    assert transactions.end([mine, other], commit=False) == [TransactionEnd.ENDED] * 2
    assert list_open_transactions(cluster, prefix).producers == {}


def test_a_transaction_is_ended_once_however_often(broker: BrokerProcess, cluster: Cluster) -> None:
    topic, prefix = create_topic(broker.bootstrap, fresh("t")), fresh("sink")
    one = write(cluster, f"{prefix}.q.r.p.0", topic)
    transactions = QueryTransactions(cluster, prefix, "q", "r", 0)
    assert transactions.are_open([one]) == {one: True}
    assert transactions.end([one], commit=True) == [TransactionEnd.ENDED]
    assert transactions.end([one], commit=True) == [TransactionEnd.ENDED]
    assert transactions.end([one], commit=False) == [TransactionEnd.OTHERWISE]
    assert transactions.are_open([one]) == {one: False}


def test_a_later_batch_under_the_same_name_aborts_what_is_left(
    broker: BrokerProcess, cluster: Cluster
) -> None:
    topic, prefix = create_topic(broker.bootstrap, fresh("t")), fresh("sink")
    left = write(cluster, f"{prefix}.q.r.p.0", topic)
    again = write(cluster, f"{prefix}.q.r.p.0", topic)
    transactions = QueryTransactions(cluster, prefix, "q", "r", 0)
    (outcome,) = transactions.end([left], commit=True)
    assert outcome in (TransactionEnd.FENCED, TransactionEnd.OTHERWISE)
    assert transactions.end([again], commit=True) == [TransactionEnd.ENDED]


def test_transactions_that_no_run_needs_are_abandoned(broker: BrokerProcess, cluster: Cluster) -> None:
    topic, prefix = create_topic(broker.bootstrap, fresh("t")), fresh("sink")
    early = write(cluster, f"{run_prefix(prefix, 'q', 'run1')}p.0", topic)
    began_ms = cluster.clock.now_ms() + 1
    mine = write(cluster, f"{run_prefix(prefix, 'q', 'run2')}p.0", topic)
    loser = write(cluster, f"{run_prefix(prefix, 'q', 'run2')}p.1", topic)
    later = write(cluster, f"{run_prefix(prefix, 'q', 'run3')}p.0", topic)
    foreign = write(cluster, f"{run_prefix(prefix, 'q2', 'run1')}p.0", topic)
    transactions = QueryTransactions(cluster, prefix, "q", "run2", began_ms)
    assert transactions.abandoned(keep=[mine]) == [early, loser]
    everything = [early, mine, loser, later, foreign]
    assert transactions.end(everything, commit=False) == [TransactionEnd.ENDED] * 5


def test_two_phase_commit_is_used_where_it_is_offered(
    make_broker: MakeBroker, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--on-kafka"):
        pytest.skip("Kafka 4.3 has two-phase commit and does not offer it to clients yet")
    broker = make_broker({"transaction.two.phase.commit.enable": "true"})
    topic = create_topic(broker.bootstrap, fresh("t"))
    with Cluster(ClientSettings.from_options({"bootstrap.servers": broker.bootstrap})) as cluster:
        producer = open_producer(cluster, "sink.q.r.p.0", 1_000_000_000)
        assert producer.identity.two_phase
        one = write(cluster, "sink.q.r.p.1", topic)
        broker.kill()
        broker.start()
        transactions = QueryTransactions(cluster, "sink", "q", "r", 0)
        assert transactions.are_open([one]) == {one: True}
        assert transactions.end([one], commit=True) == [TransactionEnd.ENDED]


def test_a_timeout_that_is_not_allowed_is_reported(cluster: Cluster) -> None:
    with pytest.raises(LocalError, match=r"transaction\.max\.timeout\.ms"):
        open_producer(cluster, fresh("sink"), 1_000_000_000)
