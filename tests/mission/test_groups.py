"""Mission, seeds A, C and D: consumer groups. All the mobiles share the records, all the computers see them again."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import TIMEOUT_S, Publisher, Reader, create_topic, fresh
from tests.support.member import Member, wait_shared
from tests.support.waiting import wait_until

BOTH_PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@BOTH_PROTOCOLS
def test_A5_a_group_shares_the_partitions_and_another_group_sees_everything_again(
    broker: BrokerProcess, protocol: str
) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"), partitions=4)
    mobiles, computers = fresh("mobile"), fresh("computer")
    settings = {"group.protocol": protocol}
    events = [f"event {number:03d}".encode() for number in range(120)]
    with (
        Member(broker.bootstrap, mobiles, topic, settings) as first,
        Member(broker.bootstrap, mobiles, topic, settings) as second,
        Member(broker.bootstrap, computers, topic, settings) as computer,
    ):
        wait_until(lambda: len(first.owned) == len(second.owned) == 2, "the mobiles to share fairly", 60.0)
        wait_shared([first, second], 4)
        wait_shared([computer], 4)
        places = Publisher(broker.bootstrap).send(
            topic, [{"value": event, "partition": number % 4} for number, event in enumerate(events)]
        )
        wait_until(
            lambda: len(first.messages) + len(second.messages) >= 120, "the mobiles to share the events"
        )
        wait_until(lambda: len(computer.messages) >= 120, "the computer to see all events")
        assert sorted(first.values + second.values) == events, "each record goes to one member"
        assert {m.partition() for m in first.messages}.isdisjoint(m.partition() for m in second.messages)
        assert sorted(computer.values) == events, "the other group sees every record again"
    assert _committed(broker.bootstrap, mobiles, topic, 4) == [30] * 4
    assert _committed(broker.bootstrap, computers, topic, 4) == [30] * 4
    assert len(places) == 120


def test_C1_one_topic_is_a_queue_for_a_group_and_a_stream_for_a_processor(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"), partitions=3)
    totals = create_topic(broker.bootstrap, fresh("totals"))
    teams = ["Canada", "USA", "France", "Spain", "Japan"]
    points = [(teams[number % 5], 1 + number % 3) for number in range(90)]
    Publisher(broker.bootstrap).send(
        topic, [{"key": team, "value": f"{number} {score}"} for number, (team, score) in enumerate(points)]
    )

    # As a queue: two workers of one group, every job done once, each by one of them.
    group = fresh("workers")
    with Member(broker.bootstrap, group, topic) as one, Member(broker.bootstrap, group, topic) as other:
        wait_until(lambda: len(one.messages) + len(other.messages) >= 90, "the workers to empty the queue")
        jobs = Counter(int(value.split()[0]) for value in one.values + other.values)
    assert jobs == Counter(range(90))

    # As a stream: the same records again from the start, state per key, results into another topic.
    state: Counter[str] = Counter()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh("totals")})
    producer.init_transactions(TIMEOUT_S)

    def add_up(message: Message) -> None:
        team = (message.key() or b"").decode()
        state[team] += int((message.value() or b"").split()[1])
        producer.begin_transaction()
        producer.produce(totals, str(state[team]), key=team)
        producer.commit_transaction(TIMEOUT_S)

    with Member(broker.bootstrap, fresh("stream"), topic, on_message=add_up) as processor:
        wait_until(lambda: len(processor.messages) >= 90, "the processor to have seen the stream")
    expected = Counter[str]()
    for team, score in points:
        expected[team] += score
    with Reader(broker.bootstrap, totals, [0]) as reader:
        results = reader.take(90)
    latest = {(result.key() or b"").decode(): int(result.value() or b"") for result in results}
    assert latest == dict(expected)


@BOTH_PROTOCOLS
def test_D4_members_beyond_the_partitions_are_idle_and_a_leaving_ones_partitions_move(
    broker: BrokerProcess, protocol: str
) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"), partitions=2)
    group, settings = fresh("mobile"), {"group.protocol": protocol}
    members = [Member(broker.bootstrap, group, topic, settings) for _ in range(3)]
    try:
        wait_shared(members, 2)
        wait_until(
            lambda: sorted(len(member.owned) for member in members) == [0, 1, 1], "one member to be idle"
        )
        leaver = next(member for member in members if member.owned)
        members.remove(leaver)
        leaver.leave()
        wait_shared(members, 2)
        wait_until(lambda: all(member.owned for member in members), "the idle member to take over")
        Publisher(broker.bootstrap).send(
            topic, [{"value": b"after", "partition": number} for number in (0, 1)]
        )
        wait_until(lambda: all(member.messages for member in members), "both to work")
        assert leaver.messages == []
    finally:
        for member in members:
            member.leave()


def _committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return [place.offset for place in consumer.committed(places, TIMEOUT_S)]
    finally:
        consumer.close()
