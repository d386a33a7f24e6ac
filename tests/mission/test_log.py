"""Mission, seeds C and D: what a broker, a partition and a topic are."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, Reader, create_topic, fresh, read_all


def test_C2_a_broker_holds_queues_several_partitions_each(broker: BrokerProcess) -> None:
    topics = {
        create_topic(broker.bootstrap, fresh("queues"), partitions): partitions for partitions in (3, 5)
    }
    known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics()
    assert len(known.brokers) == 1
    (node,) = known.brokers
    for topic, partitions in topics.items():
        assert {number: p.leader for number, p in known.topics[topic].partitions.items()} == dict.fromkeys(
            range(partitions), node
        )
        folders = {path.name for path in broker.data.glob(f"{topic}-*") if path.is_dir()}
        assert folders == {f"{topic}-{number}" for number in range(partitions)}


def test_C3_a_partition_is_an_ordered_immutable_log_that_is_appended_to(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("log"))
    publisher = Publisher(broker.bootstrap)
    file = broker.data / f"{topic}-0" / f"{0:020d}.log"
    sent: list[bytes] = []
    images = [b""]
    for turn in range(5):
        values = [f"turn {turn}, record {number}".encode() for number in range(20)]
        places = publisher.send(topic, [{"value": value} for value in values])
        assert [place.offset for place in places] == list(range(len(sent), len(sent) + 20))
        sent += values
        images.append(file.read_bytes())
        assert images[-1].startswith(images[-2]), "what was written stays as it was"
        assert len(images[-1]) > len(images[-2])
    for _ in range(2):
        messages = read_all(broker.bootstrap, topic, 0)
        assert [message.value() for message in messages] == sent
        assert [message.offset() for message in messages] == list(range(100))


def test_C4_publish_to_a_topic_and_consume_from_it(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("group-of-partitions"), partitions=3)
    other = create_topic(broker.bootstrap, fresh("another"), partitions=3)
    publisher = Publisher(broker.bootstrap, {"partitioner": "murmur2_random"})
    records = [{"key": str(number), "value": f"event {number}"} for number in range(60)]
    places = publisher.send(topic, records)
    publisher.send(other, [{"value": b"of another topic"}])
    assert {place.partition for place in places} == {0, 1, 2}
    with Reader(broker.bootstrap, topic, range(3)) as reader:
        messages = reader.take(60)
        assert reader.nothing_more()
    assert {message.value().decode() for message in messages} == {f"event {number}" for number in range(60)}


def test_D1_three_partitions_have_three_independent_offset_sequences(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("sequences"), partitions=3)
    counts = {0: 5, 1: 1, 2: 9}
    for partition, count in counts.items():
        records = [{"value": b"x", "partition": partition} for _ in range(count)]
        places = Publisher(broker.bootstrap).send(topic, records)
        assert [place.offset for place in places] == list(range(count))


def test_D1_made_with_no_number_given_a_topic_has_one_partition(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    named, automatic = fresh("default"), fresh("automatic")
    admin.create_topics([NewTopic(named)])[named].result(30)
    Publisher(broker.bootstrap).send(automatic, [{"value": b"creates its topic"}])
    topics = admin.list_topics().topics
    assert set(topics[named].partitions) == {0}
    assert set(topics[automatic].partitions) == {0}
