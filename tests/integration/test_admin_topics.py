"""Topics and their settings through the library of administration, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.admin import topics
from ottla.admin.configs import alter_configs, configs
from ottla.admin.log_offsets import MAX_TIMESTAMP
from ottla.admin.session import CannotConnect, Session
from ottla.base.ids import TopicPartition
from ottla.client.raw import Refused, UnknownTopic
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.support.clients import Publisher, fresh
from tests.support.waiting import wait_until


@pytest.fixture
def session(broker: BrokerProcess) -> Iterator[Session]:
    with Session(broker.bootstrap) as opened:
        yield opened


def publish(broker: BrokerProcess, topic: str, values: list[bytes], partition: int) -> None:
    Publisher(broker.bootstrap).send(topic, [{"value": each, "partition": partition} for each in values])


def test_a_refused_connection_is_reported_at_once_with_the_address() -> None:
    address = f"127.0.0.1:{free_port()}"
    with Session(address, timeout_s=600) as session, pytest.raises(CannotConnect, match=address):
        session.connect()


def test_a_topic_is_created_described_and_deleted(session: Session, broker: BrokerProcess) -> None:
    name = fresh("described")
    topics.create_topic(session, name, partitions=2, configs={"retention.ms": "-1"})
    publish(broker, name, [b"a", b"b", b"c"], 1)
    topic = topics.describe_topic(session, name)
    assert (topic.name, topic.internal, topic.replication_factor, topic.offsets) == (name, False, 1, 3)
    empty, written = topic.partitions
    assert (empty.start_offset, empty.end_offset, empty.max_timestamp, empty.size) == (0, 0, None, 0)
    assert (written.start_offset, written.end_offset) == (0, 3)
    assert written.max_timestamp is not None
    assert written.size is not None
    assert written.size > 0
    assert written.replicas == written.isr == (written.leader,)
    assert topic.max_timestamp == written.max_timestamp
    assert topic in topics.list_topics(session)
    topics.delete_topics(session, [name])
    with pytest.raises(UnknownTopic, match=name):
        topics.describe_topic(session, name)
    assert name not in topics.topic_names(session)


def test_internal_topics_are_listed_on_request(session: Session) -> None:
    name = fresh("__internal")
    topics.create_topic(session, name, partitions=1)
    assert name not in topics.topic_names(session)
    assert name not in [each.name for each in topics.list_topics(session)]
    assert name in topics.topic_names(session, internal=True)
    assert name in [each.name for each in topics.list_topics(session, internal=True)]


def test_a_refusal_has_the_reason_of_the_cluster(session: Session) -> None:
    name = fresh("refused")
    with pytest.raises(Refused, match="INVALID_REPLICATION_FACTOR"):
        topics.create_topic(session, name, replication_factor=7)
    topics.create_topic(session, name, validate_only=True)
    assert name not in topics.topic_names(session)
    with pytest.raises(UnknownTopic, match=name):
        topics.delete_topics(session, [name])
    with pytest.raises(UnknownTopic, match=name):
        topics.add_partitions(session, name, 3)


def test_partitions_are_added(session: Session) -> None:
    name = fresh("grown")
    topics.create_topic(session, name, partitions=1)
    topics.add_partitions(session, name, 4, validate_only=True)
    assert len(topics.describe_topic(session, name).partitions) == 1
    topics.add_partitions(session, name, 4)
    assert len(topics.describe_topic(session, name).partitions) == 4
    with pytest.raises(Refused, match="INVALID_PARTITIONS"):
        topics.add_partitions(session, name, 2)


def test_records_before_an_offset_are_deleted(session: Session, broker: BrokerProcess) -> None:
    name = fresh("trimmed")
    topics.create_topic(session, name, partitions=2)
    publish(broker, name, [b"%d" % each for each in range(10)], 0)
    tp = TopicPartition(name, 0)
    assert topics.trim(session, {tp: 4}) == {tp: 4}
    assert topics.describe_topic(session, name).partitions[0].start_offset == 4
    with pytest.raises(Refused, match="offset 11 is not in the log"):
        topics.trim(session, {tp: 11})


def test_offsets_are_looked_up_by_time(session: Session, broker: BrokerProcess) -> None:
    name = fresh("times")
    topics.create_topic(session, name, partitions=2)
    publish(broker, name, [b"a", b"b"], 0)
    newest = topics.describe_topic(session, name).max_timestamp
    assert newest is not None
    at_start = topics.offsets_at(session, name, 0)
    assert at_start[0][0] == 0
    assert at_start[1] == (0, None)
    assert topics.offsets_at(session, name, newest + 1) == {0: (2, None), 1: (0, None)}
    assert topics.offsets_at(session, name, MAX_TIMESTAMP)[0][1] == newest


def test_settings_are_read_and_changed(session: Session) -> None:
    name = fresh("settings")
    topics.create_topic(session, name, configs={"retention.ms": "60000"})

    def own() -> dict[str, str | None]:
        return {each.name: each.value for each in configs(session, name) if each.source == "topic"}

    assert own() == {"retention.ms": "60000"}
    alter_configs(session, name, assign={"retention.ms": "1000", "segment.ms": "2000"}, validate_only=True)
    assert own() == {"retention.ms": "60000"}
    alter_configs(session, name, assign={"segment.ms": "2000"}, delete=["retention.ms"])
    # A broker of Kafka applies it after the response.
    wait_until(lambda: own() == {"segment.ms": "2000"}, "the settings of the topic")
    alter_configs(session, name, append={"cleanup.policy": "compact"})
    assert own()["cleanup.policy"] == "delete,compact"
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        alter_configs(session, name, assign={"retention.ms": "soon"})
    with pytest.raises(UnknownTopic):
        configs(session, fresh("missing"))
