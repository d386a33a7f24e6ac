"""The raw client on a real broker: reading, writing, transactions, and brokers that go away in between."""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer

from ottla.base.clock import SystemClock
from ottla.base.ids import TopicPartition
from ottla.client.raw import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NO_OFFSET,
    ClientSettings,
    Cluster,
    ClusterUnreachable,
    Fenced,
    OffsetOutOfRange,
    RawProducer,
    Refused,
    TransactionEnd,
    UnknownTopic,
    cluster_for,
    describe_transaction,
    end_transaction,
    init_producer_id,
    transactions,
)
from ottla.local.broker_process import BrokerProcess
from ottla.records import columns
from ottla.records.compression import Codec
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.conftest import MakeBroker
from tests.support.clients import create_topic, fresh
from tests.support.waiting import wait_until

# Records of last year would be old enough to be deleted, and their producers to be forgotten.
NOW_MS = SystemClock().now_ms()
TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}


def settings(broker: BrokerProcess, **options: object) -> ClientSettings:
    given = {name.replace("_", "."): value for name, value in options.items()}
    return ClientSettings.from_options({"bootstrap.servers": broker.bootstrap, **given})


@pytest.fixture
def cluster(broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(settings(broker)) as made:
        yield made


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap, fresh("raw"))


def batches_of(values: Sequence[bytes], **options: int) -> list[bytearray]:
    offsets = array("i", [0])
    for value in values:
        offsets.append(offsets[-1] + len(value))
    column = columns.BinaryColumn(offsets.tobytes(), b"".join(values))
    return columns.encode(column, len(values), timestamp_ms=NOW_MS, **options)


def produce(cluster: Cluster, tp: TopicPartition, values: Sequence[bytes], **options: int) -> None:
    producer = RawProducer(cluster)
    producer.init()
    producer.send(tp, batches_of(values, **options))
    producer.flush()


def values_in(
    cluster: Cluster, tp: TopicPartition, *, committed: bool = False, size: int = 1 << 20
) -> list[bytes]:
    """All values up to the end, read in small answers."""
    ((end, _),) = cluster.list_offsets({tp: LATEST}, committed).values()
    found: list[bytes] = []
    for at, fetched in cluster.stream(tp, 0, end, max_bytes=size, committed=committed):
        made = columns.decode(
            fetched.data, start_offset=at, end_offset=end, wanted={columns.VALUE}, aborted=fetched.aborted
        )
        assert made.value is not None
        offsets = memoryview(made.value.offsets).cast("i")
        found += [bytes(made.value.data[offsets[row] : offsets[row + 1]]) for row in range(made.rows)]
    return found


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_sent_is_read(cluster: Cluster, topic: str, codec: Codec) -> None:
    tp = TopicPartition(topic, 0)
    values = [b"%d" % number for number in range(5_000)]
    produce(cluster, tp, values, codec=codec, max_batch_bytes=4_000)
    assert values_in(cluster, tp, size=8_000) == values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_packs_is_read(
    broker: BrokerProcess, cluster: Cluster, topic: str, codec: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50})
    values = [b"value-%d" % number * 10 for number in range(200)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    assert values_in(cluster, TopicPartition(topic, 0)) == values


def test_offsets_by_time(cluster: Cluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    for minute in range(3):
        column = columns.BinaryColumn(array("i", [0, 1]).tobytes(), b"v")
        producer = RawProducer(cluster)
        producer.init()
        producer.send(tp, columns.encode(column, 1, timestamp_ms=NOW_MS + minute * 60_000))
        producer.flush()
    asked = [EARLIEST, LATEST, MAX_TIMESTAMP, NOW_MS + 1, NOW_MS + 10**9]
    found = [cluster.list_offsets({tp: time})[tp] for time in asked]
    assert [offset for offset, _ in found] == [0, 3, 2, 1, NO_OFFSET]
    assert found[3][1] == NOW_MS + 60_000


def test_a_producer_returns_the_offset_of_its_last_batch(cluster: Cluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    produce(cluster, tp, [b"a", b"b", b"c"])
    producer = RawProducer(cluster)
    producer.init()
    producer.send(tp, batches_of([b"d", b"e"]))
    producer.flush()
    assert producer.last_offset(tp) == 3


def test_refusals_are_clear(cluster: Cluster, topic: str) -> None:
    with pytest.raises(OffsetOutOfRange, match="offset 77"):
        cluster.fetch(TopicPartition(topic, 0), 77)
    with pytest.raises(UnknownTopic, match=f"{topic}-9"):
        cluster.fetch(TopicPartition(topic, 9), 0)
    assert cluster.topics(["nowhere"]) == {}
    with pytest.raises(Refused, match=r"MESSAGE_TOO_LARGE.*max\.message\.bytes"):
        produce(cluster, TopicPartition(topic, 0), [b"x" * 2_000_000])


def test_a_group_without_members_keeps_offsets(cluster: Cluster, topic: str) -> None:
    group, tp = fresh("group"), TopicPartition(topic, 0)
    assert cluster.committed_offsets(group, [tp]) == {}
    cluster.commit_offsets(group, {tp: 42})
    assert cluster.committed_offsets(group, [tp, TopicPartition(topic, 5)]) == {tp: 42}


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_is_ended_by_another(
    broker: BrokerProcess, cluster: Cluster, topic: str, commits: bool
) -> None:
    tp, name = TopicPartition(topic, 0), fresh("id")
    producer = RawProducer(cluster, name)
    identity = producer.init()
    producer.begin()
    producer.send(tp, batches_of([b"1", b"2"]))
    assert producer.flush().records == 2
    assert producer.partitions == [tp]
    assert values_in(cluster, tp, committed=True) == []
    described = describe_transaction(cluster, name)
    assert described is not None
    assert (described.state, described.partitions) == ("Ongoing", {tp})
    with Cluster(settings(broker)) as driver:
        ends = [
            end_transaction(driver, name, identity.producer_id, identity.epoch, how)
            for how in (commits, commits, not commits)
        ]
    assert ends == [TransactionEnd.ENDED, TransactionEnd.ENDED, TransactionEnd.OTHERWISE]
    expected = [b"1", b"2"] if commits else []
    wait_until(lambda: values_in(cluster, tp, committed=True) == expected, "the markers")


@pytest.mark.parametrize("newest_generation", [True, False])
def test_transactions_one_after_another(
    cluster: Cluster, topic: str, newest_generation: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both generations of the protocol; what was given up before it was sent leaves no gap."""
    if not newest_generation:
        monkeypatch.setattr(transactions, "IMPLICIT_SINCE", 99)
    tp = TopicPartition(topic, 0)
    producer = RawProducer(cluster, fresh("id"))
    first = producer.init()
    for number in range(6):
        producer.begin()
        producer.send(tp, batches_of([b"%d" % number]))
        if number % 3 == 1:
            producer.flush()
        assert producer.end(commit=number % 3 == 0) is TransactionEnd.ENDED
    producer.begin()
    assert producer.end(commit=True) is TransactionEnd.ENDED
    assert (producer.identity.epoch > first.epoch) is newest_generation
    wait_until(lambda: values_in(cluster, tp, committed=True) == [b"0", b"3"], "the markers")
    assert values_in(cluster, tp) == [b"0", b"1", b"3", b"4"]


def test_a_later_producer_fences_the_earlier_one(cluster: Cluster, topic: str) -> None:
    tp, name = TopicPartition(topic, 0), fresh("id")
    zombie = RawProducer(cluster, name)
    before = zombie.init()
    zombie.begin()
    zombie.send(tp, batches_of([b"lost"]))
    zombie.flush()
    after = init_producer_id(cluster, name, timeout_ms=60_000)
    assert (after.producer_id, after.epoch > before.epoch) == (before.producer_id, True)
    zombie.send(tp, batches_of([b"zombie"]))
    with pytest.raises(Fenced):
        zombie.flush()
    ended = end_transaction(cluster, name, before.producer_id, before.epoch, True)
    assert ended is TransactionEnd.FENCED
    unknown = end_transaction(cluster, fresh("id"), before.producer_id, before.epoch, True)
    assert unknown is TransactionEnd.UNKNOWN
    assert describe_transaction(cluster, fresh("id")) is None
    assert values_in(cluster, tp, committed=True) == []


def test_two_phases_where_the_cluster_offers_them(
    make_broker: MakeBroker, request: pytest.FixtureRequest
) -> None:
    offered = not request.config.getoption("--on-kafka")
    with Cluster(settings(make_broker(TWO_PHASE))) as cluster:
        producer = RawProducer(cluster, "id", two_phase=True, timeout_ms=60_000)
        assert producer.init().two_phase is offered


def test_a_child_process_has_connections_of_its_own(broker: BrokerProcess, topic: str) -> None:
    """Both talk at once: what the parent has asked when it forks is answered to the parent."""
    chosen = settings(broker, client_id="fork", request_timeout_ms=5_000)
    cluster = cluster_for(chosen)
    produce(cluster, TopicPartition(topic, 0), [b"parent"])
    connections = [cluster.connection(node) for node in cluster.brokers()]
    in_flight = [(one, one.send(MetadataRequest(topics=[]))) for one in connections]
    child = os.fork()
    if child == 0:
        try:
            same = cluster_for(chosen)
            read = values_in(same, TopicPartition(topic, 0))
            produce(same, TopicPartition(topic, 0), [b"child"])
            left = all(one.closed for one in connections)
            os._exit(0 if read == [b"parent"] and same is cluster and left else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for connection, pending in in_flight:
        assert len(connection.receive(pending, MetadataResponse).brokers) == len(connections)
    assert values_in(cluster, TopicPartition(topic, 0)) == [b"parent", b"child"]


def test_a_broker_that_is_killed_costs_time_but_no_record(make_broker: MakeBroker) -> None:
    """Five requests are under way when the broker dies; none is lost and none comes twice."""
    broker = make_broker()
    tp = TopicPartition(create_topic(broker.bootstrap, fresh("raw")), 0)
    with Cluster(settings(broker)) as cluster:
        producer = RawProducer(cluster)
        producer.init()
        values = [b"%06d" % number * 20 for number in range(30_000)]
        restart = threading.Thread(target=lambda: (broker.kill(), broker.start()))
        for first in range(0, len(values), 1_000):
            producer.send(tp, batches_of(values[first : first + 1_000], max_batch_bytes=20_000))
            if first == 15_000:
                restart.start()
        assert producer.flush().records == len(values)
        restart.join()
        reader = cluster.stream(tp, 0, len(values), max_bytes=200_000)
        seen = 0
        for at, fetched in reader:
            made = columns.decode(
                fetched.data,
                start_offset=at,
                end_offset=len(values),
                wanted={columns.VALUE},
                limit_rows=10**6,
            )
            assert made.value is not None
            expected = values[at : made.next_offset]
            assert bytes(made.value.data) == b"".join(expected)
            seen += made.rows
            if at == 0:
                broker.kill()
                broker.start()
        assert seen == len(values)


def test_a_cluster_that_is_not_there_is_named(make_broker: MakeBroker) -> None:
    broker = make_broker()
    chosen = settings(broker, default_api_timeout_ms=300)
    broker.kill()
    with pytest.raises(ClusterUnreachable, match=broker.bootstrap):
        Cluster(chosen).topics()
