"""Mission, seed A: the scoreboard. A producer tells of a match; a mobile and a computer show it."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from ottla.base.clock import SystemClock
from ottla.local.broker_process import BrokerProcess
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, Reader, create_topic, fresh, read_all
from tests.support.waiting import wait_until

EVENTS = [b"Quarter Start", b"Foul", b"Free Throw", b"Score 39-46", b"Score 41-46", b"Quarter End"]
HOUR_MS = 3_600_000


def test_A1_match_events_reach_both_consumers_each_at_its_own_place(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"))
    publisher = Publisher(broker.bootstrap)
    publisher.send(topic, [{"value": event} for event in EVENTS[:4]])
    with Reader(broker.bootstrap, topic, [0]) as mobile, Reader(broker.bootstrap, topic, [0]) as computer:
        shown_on_mobile = mobile.take(2)
        shown_on_computer = computer.take(4)
        publisher.send(topic, [{"value": event} for event in EVENTS[4:]])
        shown_on_mobile += mobile.take(4)
        shown_on_computer += computer.take(2)
        assert mobile.nothing_more()
        assert computer.nothing_more()
    assert [message.value() for message in shown_on_mobile] == EVENTS
    assert [message.value() for message in shown_on_computer] == EVENTS
    assert [message.offset() for message in shown_on_mobile] == list(range(6))


def test_A2_without_a_key_the_order_of_a_match_breaks(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"), partitions=4)
    scattered = Publisher(broker.bootstrap, {"partitioner": "random", "sticky.partitioning.linger.ms": 0})
    events = [f"event {number:03d}".encode() for number in range(100)]
    places = scattered.send(topic, [{"value": event} for event in events])
    assert {place.partition for place in places} == {0, 1, 2, 3}
    per_queue = [
        [message.value() for message in read_all(broker.bootstrap, topic, queue)] for queue in range(4)
    ]
    assert all(queue == sorted(queue) for queue in per_queue), "within one queue the order is kept"
    read_queue_by_queue = [event for queue in per_queue for event in queue]
    assert read_queue_by_queue != events
    assert sorted(read_queue_by_queue) == events


def test_A2_with_the_match_as_key_its_events_stay_in_order(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"), partitions=4)
    matches = ["Canada vs USA", "France vs Spain", "Japan vs Brazil", "Kenya vs Ghana", "Italy vs Peru"]
    records = [{"key": match, "value": f"{match}: {number:03d}"} for number in range(40) for match in matches]
    places = Publisher(broker.bootstrap, {"partitioner": "murmur2_random"}).send(topic, records)
    for match in matches:
        queues = {place.partition for place in places if place.value.startswith(match.encode())}
        assert len(queues) == 1, "every event of one match is in one partition"
        messages = read_all(broker.bootstrap, topic, queues.pop())
        seen = [message.value().decode() for message in messages if message.key() == match.encode()]
        assert seen == [f"{match}: {number:03d}" for number in range(40)]


def test_A3_one_producer_many_topics_on_the_same_brokers(broker: BrokerProcess) -> None:
    topics = [create_topic(broker.bootstrap, fresh(sport)) for sport in ("basketball", "football", "hockey")]
    publisher = Publisher(broker.bootstrap)
    for number in range(10):
        for topic in topics:
            publisher.send(topic, [{"value": f"{topic} {number}"}])
    for topic in topics:
        values = [message.value().decode() for message in read_all(broker.bootstrap, topic, 0)]
        assert values == [f"{topic} {number}" for number in range(10)]
    known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics().topics
    assert len({known[topic].partitions[0].leader for topic in topics}) == 1, (
        "different matches share a broker"
    )


def test_A6_records_older_than_24_hours_disappear_and_the_newest_stay(make_broker: MakeBroker) -> None:
    broker = make_broker({"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100"})
    config = {"retention.ms": str(24 * HOUR_MS), "segment.ms": str(HOUR_MS), "file.delete.delay.ms": "100"}
    topic = create_topic(broker.bootstrap, fresh("matches"), config=config)
    now_ms = SystemClock().now_ms()
    hours_ago = [30, 28, 26, 20, 10, 0]
    publisher = Publisher(broker.bootstrap)
    for hours in hours_ago:  # one batch each: only whole segments disappear, and a batch is never split
        publisher.send(topic, [{"value": str(hours), "timestamp": now_ms - hours * HOUR_MS}])
    with Reader(broker.bootstrap, topic, [0]) as watcher:
        wait_until(lambda: watcher.start(0, topic) == 3, "the three records older than a day to be gone")
    kept = [int(message.value()) for message in read_all(broker.bootstrap, topic, 0)]
    assert kept == [20, 10, 0]
    folder = broker.data / f"{topic}-0"
    wait_until(lambda: len(list(folder.glob("*.log"))) == 3, "the files of the old records to be gone")
