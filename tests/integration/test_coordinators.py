"""Coordinators of a real broker come and go: made on first use, loaded after a start, let go at a stop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import Message
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.raw import Address, Closed, RawClient
from tests.support.transactional import read_to_end
from tests.support.waiting import wait_until

R = TypeVar("R", bound=Message)


def ask(broker: BrokerProcess, request: Message, version: int, response: type[R]) -> R:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        answer = client.ask(request, version, response)
    assert not isinstance(answer, Closed)
    return answer


def find(broker: BrokerProcess, *groups: str) -> list[int]:
    """The errors of looking for these groups' coordinators."""
    request = FindCoordinatorRequest(coordinator_keys=list(groups))
    return [each.error_code for each in ask(broker, request, 4, FindCoordinatorResponse).coordinators]


def commit(broker: BrokerProcess, group: str, topic: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    answer = ask(broker, request, 7, OffsetCommitResponse)
    return answer.topics[0].partitions[0].error_code


def committed(broker: BrokerProcess, group: str, topic: str) -> int:
    """The offset, or minus the error while there is one."""
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    answer = ask(broker, request, 5, OffsetFetchResponse)
    if answer.error_code:
        return -answer.error_code
    return answer.topics[0].partitions[0].committed_offset


def test_the_first_find_coordinator_requests_create_the_topic(make_broker: MakeBroker) -> None:
    broker = make_broker()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert ask(broker, beat, 3, HeartbeatResponse).error_code == ErrorCode.NOT_COORDINATOR
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: find(broker, f"g{number}", "g"), range(8)))
    assert answers == [[0, 0]] * 8
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=20).topics
    assert len(topics["__consumer_offsets"].partitions) == 50
    wait_until(
        lambda: ask(broker, beat, 3, HeartbeatResponse).error_code == ErrorCode.UNKNOWN_MEMBER_ID,
        "the group to be coordinated",
    )


def test_offsets_outlive_a_kill_at_once_after_their_commit(make_broker: MakeBroker) -> None:
    broker = make_broker({"offsets.topic.num.partitions": "3"})
    topic = create_topic(broker.bootstrap, fresh("t"))
    groups = [f"g{number}" for number in range(10)]
    assert find(broker, *groups) == [0] * 10
    for round_ in range(3):
        for number, group in enumerate(groups):
            wait_until(lambda g=group, o=round_ * 100 + number: commit(broker, g, topic, o) == 0, "a commit")
        broker.kill()
        broker.start()
        for number, group in enumerate(groups):
            wait_until(
                lambda g=group: committed(broker, g, topic) != -ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                "its coordinator to be loaded",
            )
            assert committed(broker, group, topic) == round_ * 100 + number


def test_a_stop_completes_waiting_join_requests(make_broker: MakeBroker) -> None:
    """A waiting JoinGroup request is completed with an error, and the broker stops promptly."""
    broker = make_broker({"group.initial.rebalance.delay.ms": "300000"})
    assert find(broker, "g") == [0]
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    wait_until(
        lambda: commit(broker, "g", create_topic(broker.bootstrap, fresh("t")), 1) == 0, "a coordinator"
    )
    answers: list[JoinGroupResponse | Closed] = []

    def join() -> None:
        with RawClient(Address.parse(broker.bootstrap)) as client:
            client.set_timeout(60)
            answers.append(client.ask(request, 3, JoinGroupResponse))

    member = threading.Thread(target=join)
    member.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wait_until(
        lambda: admin.describe_consumer_groups(["g"])["g"].result(20).members != [], "the member to join"
    )
    assert broker.stop() == 0
    member.join(30)
    (answer,) = answers
    # A stop that waited for the rebalance would close the connection instead.
    assert not isinstance(answer, Closed)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_a_record_that_cannot_be_decoded_stops_one_coordinator_and_not_the_broker(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker({"offsets.topic.num.partitions": "2"})
    topic = create_topic(broker.bootstrap, fresh("t"))
    assert find(broker, "a", "b") == [0, 0]  # "a" hashes to 97, "b" to 98
    for group in ("a", "b"):
        wait_until(lambda g=group: commit(broker, g, topic, 5) == 0, "a commit")
    damaged = build_batch([NewRecord(b"\0\x01\0\x7f", b"\0\x01", timestamp=1)])
    part = PartitionProduceData(index=1, records=damaged)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=20_000,
        topic_data=[TopicProduceData(name="__consumer_offsets", partition_data=[part])],
    )
    with RawClient(Address.parse(broker.bootstrap)) as client:
        answer = client.ask(request, 9, ProduceResponse, client_id="__admin_client")
    assert not isinstance(answer, Closed)
    assert answer.responses[0].partition_responses[0].error_code == 0
    broker.kill()
    broker.start()
    wait_until(lambda: committed(broker, "b", topic) == 5, "the other group")
    wait_until(lambda: committed(broker, "a", topic) == -ErrorCode.NOT_COORDINATOR, "the damage to show")
    assert "coordinator cannot be loaded" in broker.output()


def test_a_large_log_is_loaded_while_the_broker_serves(make_broker: MakeBroker) -> None:
    broker = make_broker({"offsets.topic.num.partitions": "1"})
    topic = create_topic(broker.bootstrap, fresh("t"), 100)
    assert find(broker, "g") == [0]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    places = [TopicPartition(topic, number, 0) for number in range(100)]
    for round_ in range(1, 101):
        for place in places:
            place.offset = round_
        consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    broker.kill()
    broker.start()
    sent = Publisher(broker.bootstrap).send(topic, [{"value": b"meanwhile", "partition": 0}])
    assert len(sent) == 1
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [ConsumerGroupTopicPartitions("g", [TopicPartition(topic, number) for number in range(100)])]
    found = admin.list_consumer_group_offsets(wanted, request_timeout=30)["g"].result(30)
    assert {each.offset for each in found.topic_partitions} == {100}


def test_a_transaction_that_was_open_at_a_kill_is_aborted_by_its_next_producer(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker({"transaction.state.log.num.partitions": "3"})
    topic = create_topic(broker.bootstrap, fresh("t"))
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "mine", "log_level": 0}
    first = Producer(settings)
    first.init_transactions(30)
    first.begin_transaction()
    first.produce(topic, b"lost", partition=0)
    assert first.flush(30) == 0
    broker.kill()
    broker.start()
    assert read_to_end(broker.bootstrap, topic, "read_committed", 0) == []
    second = Producer(settings)
    second.init_transactions(30)
    second.begin_transaction()
    second.produce(topic, b"kept", partition=0)
    second.commit_transaction(30)
    wait_until(
        lambda: read_to_end(broker.bootstrap, topic, "read_committed", 0) == [b"kept"], "the second alone"
    )
    assert read_to_end(broker.bootstrap, topic, "read_uncommitted", 0) == [b"lost", b"kept"]
