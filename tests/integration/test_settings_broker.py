"""Settings of the broker: as it is started, and as they are changed while it runs."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, ResourceType
from kafka import KafkaConsumer

from ottla.base.clock import SystemClock
from ottla.local.broker_process import BrokerProcess
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, Reader, create_topic, fresh
from tests.support.settings import alter_broker, describe, pairs, refusal
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory, peer: MakeBroker) -> Iterator[BrokerProcess]:
    """A broker whose own settings are changed; every test leaves them as they were."""
    settings = {
        "log.initial.task.delay.ms": "100",
        "log.retention.check.interval.ms": "100",
        "log.cleaner.backoff.ms": str(HOUR_MS),
        "num.partitions": "3",
        "log.retention.hours": "1000",
        "log.retention.minutes": "2000",
        "log.retention.ms": str(DAY_MS),
    }
    with peer(tmp_path_factory.mktemp("changing") / "data", settings) as process:
        yield process


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory, peer: MakeBroker) -> Iterator[BrokerProcess]:
    """A broker that does not create topics automatically and does not delete topics."""
    settings = {
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "false",
        "log.retention.hours": "1000",
        "log.retention.minutes": "3",
        "log.roll.hours": "5",
    }
    with peer(tmp_path_factory.mktemp("strict") / "data", settings) as process:
        yield process


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


# --- changed while running


def test_message_max_bytes_for_all_brokers_for_one_and_for_a_topic(changing: BrokerProcess) -> None:
    plain = create_topic(changing.bootstrap, fresh("plain"))
    own = create_topic(changing.bootstrap, fresh("own"), config={"max.message.bytes": "9000"})
    setting = "message.max.bytes"

    def taken(topic: str, size: int) -> bool:
        return refusal(changing.bootstrap, topic, value=noise(size)) is None

    alter_broker(changing.bootstrap, {setting: "1000"})
    assert not taken(plain, 2_000)
    assert taken(own, 2_000)
    alter_broker(changing.bootstrap, {setting: "5000"}, node=1)
    assert taken(plain, 2_000)
    assert not taken(plain, 6_000)
    later = create_topic(changing.bootstrap, fresh("later"))
    assert not taken(later, 6_000)
    alter_broker(changing.bootstrap, {setting: None}, node=1)
    assert not taken(plain, 2_000)
    alter_broker(changing.bootstrap, {setting: None})
    assert taken(plain, 100_000)


def test_log_retention_ms_takes_old_records_of_topics_without_their_own(changing: BrokerProcess) -> None:
    plain = create_topic(changing.bootstrap, fresh("plain"))
    own = create_topic(changing.bootstrap, fresh("own"), config={"retention.ms": str(DAY_MS)})
    old = SystemClock().now_ms() - 2 * HOUR_MS
    for topic in (plain, own):
        Publisher(changing.bootstrap).send(topic, [{"value": b"v", "timestamp": old}])
    alter_broker(changing.bootstrap, {"log.retention.ms": str(HOUR_MS)})
    with Reader(changing.bootstrap, plain, [0]) as reader:
        wait_until(lambda: reader.start(0, plain) == 1, "old records to go")
        assert reader.start(0, own) == 0
    alter_broker(changing.bootstrap, {"log.retention.ms": None})


def test_the_cleaner_takes_a_new_rhythm_at_once(changing: BrokerProcess) -> None:
    """The cleaner of this broker runs once an hour until the setting is changed."""
    config = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
    topic = create_topic(changing.bootstrap, fresh("cleaned"), config=config)
    publisher = Publisher(changing.bootstrap)
    for number, key in enumerate([b"a", b"a", b"end"]):
        publisher.send(topic, [{"key": key, "value": b"%d" % number, "timestamp": 1_000_000 * (number + 1)}])
    assert len(pairs(changing.bootstrap, topic)) == 3
    alter_broker(changing.bootstrap, {"log.cleaner.backoff.ms": "50"})
    wait_until(
        lambda: pairs(changing.bootstrap, topic) == [(1, b"a", b"1"), (2, b"end", b"2")],
        "the topic to be cleaned",
    )
    alter_broker(changing.bootstrap, {"log.cleaner.backoff.ms": None})


def admitted(connection: socket.socket) -> bool:
    """Whether the broker answers on it: ApiVersions is asked for."""
    request = bytes.fromhex("0000000b 0012 0000 00000007 0001 78".replace(" ", ""))
    try:
        connection.sendall(request)
        return bool(connection.recv(4))
    except ConnectionError:
        return False


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=20)


def test_connections_from_one_address_are_limited_while_running(changing: BrokerProcess) -> None:
    alter_broker(changing.bootstrap, {"max.connections.per.ip.overrides": "127.0.0.1:12"}, node=1)
    opened = [connect(changing) for _ in range(20)]
    try:
        served = [admitted(one) for one in opened]
        assert 1 <= sum(served) <= 12, "clients of this test hold some of the twelve"
        assert served == sorted(served, reverse=True), "who comes too late is turned away"
    finally:
        for one in opened:
            one.close()
    wait_until(lambda: _served(changing), "room for another connection")
    alter_broker(changing.bootstrap, {"max.connections.per.ip.overrides": None}, node=1)
    opened = [connect(changing) for _ in range(20)]
    assert all(admitted(one) for one in opened)
    for one in opened:
        one.close()


def _served(broker: BrokerProcess) -> bool:
    with connect(broker) as connection:
        return admitted(connection)


def test_all_connections_are_limited_while_running(changing: BrokerProcess) -> None:
    alter_broker(changing.bootstrap, {"max.connections": "12"})
    opened = [connect(changing) for _ in range(20)]
    try:
        assert 1 <= sum(admitted(one) for one in opened) <= 12
    finally:
        for one in opened:
            one.close()
    wait_until(lambda: _served(changing), "room for another connection")
    alter_broker(changing.bootstrap, {"max.connections": None})


@pytest.mark.parametrize(
    ("changes", "node"),
    [
        ({"num.partitions": "5"}, 1),
        ({"log.retention.hours": "5"}, None),
        ({"message.max.bytes": "many"}, 1),
        ({"message.max.bytes": "-1"}, 1),
        ({"log.cleaner.threads": "0"}, 1),
        ({"max.connections.per.ip.overrides": "127.0.0.1"}, 1),
        ({"message.max.bytes": "1000"}, 7),
    ],
)
def test_what_cannot_be_changed_while_running_is_refused(
    changing: BrokerProcess, changes: dict[str, str | None], node: int | None
) -> None:
    before = describe(changing.bootstrap, ResourceType.BROKER, "1")
    with pytest.raises(KafkaException) as refused:
        alter_broker(changing.bootstrap, changes, node)
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    after = describe(changing.bootstrap, ResourceType.BROKER, "1")
    for name in changes:
        assert after[name].value == before[name].value


def test_settings_survive_a_restart(make_broker: MakeBroker) -> None:
    broker = make_broker()
    alter_broker(broker.bootstrap, {"message.max.bytes": "1000"})
    broker.stop()
    broker.start()
    topic = create_topic(broker.bootstrap, "small")
    assert refusal(broker.bootstrap, topic, value=noise(2_000)) == KafkaError.MSG_SIZE_TOO_LARGE


# --- as it is started


def retention_of(broker: BrokerProcess, topic: str) -> str:
    return str(describe(broker.bootstrap, ResourceType.TOPIC, topic)["retention.ms"].value)


def test_log_retention_in_milliseconds_overrides_minutes_and_hours(
    changing: BrokerProcess, strict: BrokerProcess, brisk: BrokerProcess
) -> None:
    topic = create_topic(changing.bootstrap, fresh("ms"))
    assert retention_of(changing, topic) == str(DAY_MS)
    topic = create_topic(strict.bootstrap, fresh("minutes"))
    assert retention_of(strict, topic) == "180000"
    topic = create_topic(brisk.bootstrap, fresh("hours"))
    assert retention_of(brisk, topic) == str(168 * HOUR_MS)


def test_num_partitions_is_for_topics_that_do_not_say(changing: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": changing.bootstrap})
    named, automatic, said = fresh("named"), fresh("automatic"), fresh("said")
    admin.create_topics([NewTopic(named)])[named].result(30)
    Publisher(changing.bootstrap).send(automatic, [{"value": b"creates its topic"}])
    create_topic(changing.bootstrap, said, partitions=2)
    topics = admin.list_topics().topics
    assert [len(topics[name].partitions) for name in (named, automatic, said)] == [3, 3, 2]


def test_auto_create_topics_enable_false_does_not_create_topics(strict: BrokerProcess) -> None:
    missing = fresh("missing")
    admin = AdminClient({"bootstrap.servers": strict.bootstrap})
    assert admin.list_topics(missing, 30).topics[missing].error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    impatient: dict[str, object] = {"message.timeout.ms": 3000, "topic.metadata.propagation.max.ms": 500}
    assert refusal(strict.bootstrap, missing, impatient, value=b"v") is not None
    consumer = KafkaConsumer(bootstrap_servers=strict.bootstrap)
    assert not consumer.partitions_for_topic(missing)
    assert missing not in consumer.topics()
    consumer.close()
    assert not any(strict.data.glob(f"{missing}*"))


def test_delete_topic_enable_false_keeps_topics(strict: BrokerProcess) -> None:
    topic = create_topic(strict.bootstrap, fresh("kept"))
    admin = AdminClient({"bootstrap.servers": strict.bootstrap})
    with pytest.raises(KafkaException) as refused:
        admin.delete_topics([topic])[topic].result(30)
    assert refused.value.args[0].code() == KafkaError.TOPIC_DELETION_DISABLED
    assert topic in admin.list_topics(timeout=30).topics
    assert (strict.data / f"{topic}-0").is_dir()


def test_min_insync_replicas_is_capped_at_the_replicas_there_are(changing: BrokerProcess) -> None:
    topic = create_topic(changing.bootstrap, fresh("isr"), config={"min.insync.replicas": "2"})
    assert refusal(changing.bootstrap, topic, {"acks": "all"}, value=b"v") is None
    assert refusal(changing.bootstrap, topic, {"acks": "1"}, value=b"v") is None
