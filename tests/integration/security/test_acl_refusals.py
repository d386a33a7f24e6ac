"""Clients that use what they may not use: hidden topics, revoked rights, crafted requests."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, cast

import pytest

from ottla.base.clock import SystemClock
from ottla.broker.net.listeners import ListenerType
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from ottla.records.builder import NewRecord, build_batch
from ottla.security import principal as principals
from ottla.security.resources import CLUSTER, Operation, PatternType, Permission, ResourceType
from ottla.wire.frames import request_frame
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.support.authorized_broker import SUPER, AuthorizedBroker, settings
from tests.support.raw import CLOSED, RawClient
from tests.support.rights import TOPIC, Right, World, build, group, record_batch, topic
from tests.support.sasl import SaslClient
from tests.support.waiting import wait_until

READ, WRITE, DESCRIBE, CREATE = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE
DENIED, NO_TRANSACTION = 29, 53
USER = "allowed"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedBroker]:
    client, opened, controller, control = ports = cast(tuple[int, int, int, int], tuple(free_ports(4)))
    folder = tmp_path_factory.mktemp("refusals") / "data"
    with BrokerProcess(folder, settings(client, opened, controller, control), port=client):
        broker = AuthorizedBroker(ports)
        broker.prepare()
        yield broker


def produced(
    client: RawClient,
    name: str = TOPIC,
    *,
    acks: int = 1,
    records: bytes | None = None,
    txn: str | None = None,
) -> Any:
    partition = {"index": 0, "records": record_batch() if records is None else records}
    request = build(
        ProduceRequest,
        {
            "acks": acks,
            "timeout_ms": 10_000,
            "transactional_id": txn,
            "topic_data": [{"name": name, "partition_data": [partition]}],
        },
    )
    response: Any = client.ask(request, 9, ProduceResponse)
    return response if response is CLOSED else response.responses[0].partition_responses[0].error_code


def fetch(client: RawClient, topics: list[dict[str, Any]], version: int = 12, **more: object) -> Any:
    request = build(FetchRequest, {"max_bytes": 100_000, "topics": topics, **more})
    return client.ask(request, version, FetchResponse)


def wanted(name: str = TOPIC) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}]


def create(secured: AuthorizedBroker, name: str) -> None:
    with secured.connect(SUPER) as admin:
        new = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        created: Any = admin.ask(
            CreateTopicsRequest(topics=[new], timeout_ms=30_000), 7, CreateTopicsResponse
        )
        assert created.topics[0].error_code == 0
        partition = {"partition_index": 0, "timestamp": -1}
        listing = build(
            ListOffsetsRequest, {"replica_id": -1, "topics": [{"name": name, "partitions": [partition]}]}
        )

        def is_led() -> bool:
            listed: Any = admin.ask(listing, 5, ListOffsetsResponse)
            return listed.topics[0].partitions[0].error_code == 0

        wait_until(is_led, "the leader")


# Existence is hidden


def test_responses_do_not_depend_on_the_existence_of_a_topic(secured: AuthorizedBroker) -> None:
    with secured.connect("without") as client:
        described, deleted, written, read = [], [], [], []
        for name in (TOPIC, "absent"):
            for auto in (False, True):
                request = build(
                    MetadataRequest, {"topics": [{"name": name}], "allow_auto_topic_creation": auto}
                )
                response: Any = client.ask(request, 12, MetadataResponse)
                (found,) = response.topics
                described.append((found.error_code, found.topic_id, found.is_internal, found.partitions))
            removal: Any = client.ask(
                DeleteTopicsRequest(topic_names=[name], timeout_ms=1), 5, DeleteTopicsResponse
            )
            deleted.append((removal.responses[0].error_code, removal.responses[0].error_message))
            written.append(produced(client, name))
            read.append(fetch(client, wanted(name)).responses[0].partitions)
        assert described[0][0] == DENIED
        assert described == [described[0]] * 4
        assert deleted[0] == deleted[1]
        assert deleted[0][0] == DENIED
        assert written == [DENIED, DENIED]
        assert read[0] == read[1]
        assert read[0][0].error_code == DENIED


def test_an_id_does_not_reveal_the_name_of_a_topic(secured: AuthorizedBroker) -> None:
    with secured.connect("without") as client:
        state = {"name": None, "topic_id": secured.world.topic_id}
        request = build(DeleteTopicsRequest, {"topics": [state], "timeout_ms": 1})
        response: Any = client.ask(request, 6, DeleteTopicsResponse)
        (refused,) = response.responses
        assert (refused.error_code, refused.name, refused.topic_id) == (DENIED, None, secured.world.topic_id)
    with secured.entries([topic(DESCRIBE)], USER), secured.connect(USER) as client:
        response = client.ask(request, 6, DeleteTopicsResponse)
        assert (response.responses[0].error_code, response.responses[0].name) == (DENIED, TOPIC)


def test_a_deletion_without_time_is_refused_before_rights_are_checked(secured: AuthorizedBroker) -> None:
    with secured.connect("without") as client:
        for name in (TOPIC, "unknown"):
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=0)
            response: Any = client.ask(request, 5, DeleteTopicsResponse)
            assert [each.error_code for each in response.responses] == [7]


def test_a_topic_is_created_automatically_only_for_clients_that_may_create_it(
    secured: AuthorizedBroker,
) -> None:
    request = build(MetadataRequest, {"topics": [{"name": "automatic"}], "allow_auto_topic_creation": True})
    with secured.connect(USER) as client, secured.entries([topic(DESCRIBE, "automatic")], USER):
        response: Any = client.ask(request, 12, MetadataResponse)
        assert (response.topics[0].error_code, response.topics[0].name) == (DENIED, "automatic")
        with secured.connect(SUPER) as admin:
            quiet = build(
                MetadataRequest, {"topics": [{"name": "automatic"}], "allow_auto_topic_creation": False}
            )
            absent: Any = admin.ask(quiet, 12, MetadataResponse)
            assert absent.topics[0].error_code == 3
        with secured.entries([topic(CREATE, "automatic")], USER):
            response = client.ask(request, 12, MetadataResponse)
            assert response.topics[0].error_code in (0, 3, 5)


# Entries


def test_a_denied_prefix_has_priority_over_an_allowed_name(secured: AuthorizedBroker) -> None:
    prefix: Right = (WRITE, ResourceType.TOPIC, TOPIC[:3])
    with secured.entries([topic(WRITE)], USER), secured.connect(USER) as client:
        assert produced(client) == 0
        secured.add([prefix], USER, Permission.DENY, PatternType.PREFIXED)
        assert produced(client) == DENIED
        secured.remove([prefix], USER, Permission.DENY, PatternType.PREFIXED)
        assert produced(client) == 0


def test_the_removal_of_one_entry_leaves_the_others(secured: AuthorizedBroker) -> None:
    """CVE-2024-27309: with several entries of a resource, the removal of one must not end the others."""
    with secured.connect("without") as other:
        secured.add([topic(READ), topic(WRITE)], USER)
        secured.add([topic(DESCRIBE)], "denied", Permission.DENY)
        secured.remove([topic(READ)], USER)
        with secured.connect(USER) as client:
            assert produced(client) == 0
            assert fetch(client, wanted()).responses[0].partitions[0].error_code == DENIED
        with secured.connect("denied") as client:
            request = build(
                MetadataRequest, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
            )
            response: Any = client.ask(request, 12, MetadataResponse)
            assert response.topics[0].error_code == DENIED
        assert produced(other) == DENIED
        secured.remove([topic(WRITE)], USER)
        secured.remove([topic(DESCRIBE)], "denied", Permission.DENY)


# Revoked rights


def test_a_revoked_right_stops_an_open_producer(secured: AuthorizedBroker) -> None:
    """From the second request on the requests of this connection are appended in bulk."""
    batch = bytes(build_batch([NewRecord(b"k", b"v", (), SystemClock().now_ms())]))

    def several(client: RawClient) -> set[int]:
        return {produced(client, records=batch) for _ in range(5)}

    with secured.connect(USER) as client:
        with secured.entries([topic(WRITE)], USER):
            assert several(client) == {0}
        assert several(client) == {DENIED}
        with secured.entries([topic(WRITE)], USER):
            assert several(client) == {0}
            with secured.entries([topic(WRITE)], USER, Permission.DENY):
                assert several(client) == {DENIED}
            assert several(client) == {0}


def test_a_revoked_right_stops_an_incremental_fetch_session(secured: AuthorizedBroker) -> None:
    with secured.connect(USER) as client:
        with secured.entries([topic(READ)], USER):
            first = fetch(client, wanted(), session_epoch=0)
            assert first.session_id
            assert first.responses[0].partitions[0].error_code == 0
            again = fetch(client, [], session_id=first.session_id, session_epoch=1)
            assert again.error_code == 0
        stopped = fetch(client, [], session_id=first.session_id, session_epoch=2)
        assert stopped.responses[0].partitions[0].error_code == DENIED
        assert not stopped.responses[0].partitions[0].records


def test_another_client_does_not_get_the_records_of_a_session(secured: AuthorizedBroker) -> None:
    with secured.connect(SUPER) as admin, secured.connect("without") as client:
        assert produced(admin) == 0
        opened = fetch(admin, wanted(), session_epoch=0)
        stolen = fetch(client, [], session_id=opened.session_id, session_epoch=1)
        assert stolen.responses[0].partitions[0].error_code == DENIED
        assert not stolen.responses[0].partitions[0].records


def test_a_right_is_revoked_while_a_fetch_waits(secured: AuthorizedBroker) -> None:
    create(secured, "waiting")
    with secured.connect(USER) as client, secured.connect(SUPER) as admin:
        with secured.entries([topic(READ, "waiting")], USER):
            request = build(
                FetchRequest,
                {"max_bytes": 1000, "topics": wanted("waiting"), "min_bytes": 1, "max_wait_ms": 15_000},
            )
            client.send(request_frame(request, 12, 77, "raw"))
        assert produced(admin, "waiting") == 0
        response: Any = client.read(1, 12, FetchResponse, 77)
        assert response.responses[0].partitions[0].error_code == DENIED


# Crafted requests


def test_a_consumer_cannot_fetch_as_a_follower(secured: AuthorizedBroker) -> None:
    """CVE-2018-1288: a client with a right to read could otherwise act on the state of replicas."""
    with secured.entries([topic(READ)], USER), secured.connect(USER) as client:
        for version, more in ((12, {"replica_id": 1}), (16, {"replica_state": {"replica_id": 1}})):
            topics = wanted()
            if version >= 13:
                topics[0]["topic_id"] = secured.world.topic_id
            response = fetch(client, topics, version, session_epoch=0, **more)
            assert response.responses[0].partitions[0].error_code == DENIED
            assert response.session_id == 0


@pytest.mark.parametrize("user", [SUPER, "allowed"])
def test_a_transactional_batch_needs_a_transactional_id(secured: AuthorizedBroker, user: str) -> None:
    """CVE-2018-17196: it could otherwise write as the producer of any transaction."""
    with secured.entries([topic(WRITE)], "allowed"), secured.connect(user) as client:
        batch = record_batch(World(producer_id=secured.world.producer_id, producer_epoch=0))
        assert produced(client, records=batch) == NO_TRANSACTION


def test_a_refused_request_without_acknowledgement_closes_the_connection(secured: AuthorizedBroker) -> None:
    with secured.connect("without") as client:
        assert produced(client, acks=0) is CLOSED


@pytest.mark.parametrize("listener", list(ListenerType))
def test_a_client_cannot_send_an_envelope(secured: AuthorizedBroker, listener: ListenerType) -> None:
    """It could otherwise act as any principal."""
    inner = request_frame(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1), 5, 1, None)[4:]
    request = EnvelopeRequest(
        request_data=inner,
        request_principal=principals.encode(principals.user(SUPER)),
        client_host_address=b"\x7f\0\0\x01",
    )
    everything: Right = (Operation.ALTER, ResourceType.CLUSTER, CLUSTER)
    with secured.entries([everything], USER), secured.connect(USER, listener) as client:
        response: Any = client.ask(request, 0, EnvelopeResponse)
        if listener is ListenerType.BROKER:
            assert response is CLOSED
        else:
            assert (response.error_code, response.response_data) == (31, None)


def test_a_large_size_before_authentication_closes_the_connection(secured: AuthorizedBroker) -> None:
    """CVE-2022-34917: no memory is allocated for a frame that a client has only announced."""
    with secured.connect(SUPER) as working:
        port = secured.port(ListenerType.BROKER)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(struct.pack(">i", 100 << 20) + b"\0\3\0\0")
            assert client.recv(1) == b""
        assert produced(working) == 0


# Groups


def beat(client: SaslClient, group_id: str, member: str, epoch: int = 0, **more: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member, member_epoch=epoch, rebalance_timeout_ms=60_000,
        topic_partitions=[] if epoch == 0 else None, **more,
    )  # fmt: skip
    return client.ask(request, 1, ConsumerGroupHeartbeatResponse)


def test_a_regular_expression_matches_only_topics_that_may_be_described(secured: AuthorizedBroker) -> None:
    create(secured, "pattern-seen")
    create(secured, "pattern-hidden")
    rights = [group(READ, "patterns"), group(DESCRIBE, "patterns"), topic(DESCRIBE, "pattern-seen")]
    with secured.entries(rights, USER), secured.connect(USER) as client, secured.connect(SUPER) as admin:
        member = "AAAAAAAAAAAAAAAAAAAAAQ"
        joined = beat(client, "patterns", member, subscribed_topic_regex="pattern-.*")
        assert joined.error_code == 0, joined
        epoch = [joined.member_epoch]

        def assigned() -> list[str]:
            response = beat(client, "patterns", member, epoch[0])
            epoch[0] = response.member_epoch
            described: Any = admin.ask(
                ConsumerGroupDescribeRequest(group_ids=["patterns"]), 0, ConsumerGroupDescribeResponse
            )
            found = described.groups[0].members[0].target_assignment.topic_partitions
            return [each.topic_name for each in found]

        wait_until(lambda: bool(assigned()), "an assignment")
        assert assigned() == ["pattern-seen"]


def test_a_group_with_a_hidden_topic_is_not_described(secured: AuthorizedBroker) -> None:
    create(secured, "described")
    with secured.connect(SUPER) as admin, secured.connect(USER) as client:
        member = "AAAAAAAAAAAAAAAAAAAAAg"
        joined = beat(admin, "hidden-topic", member, subscribed_topic_names=["described"])
        assert joined.error_code == 0, joined
        request = ConsumerGroupDescribeRequest(group_ids=["hidden-topic"])
        with secured.entries([group(DESCRIBE, "hidden-topic")], USER):
            response: Any = client.ask(request, 0, ConsumerGroupDescribeResponse)
            assert (response.groups[0].error_code, response.groups[0].members) == (DENIED, [])
            with secured.entries([topic(DESCRIBE, "described")], USER):
                response = client.ask(request, 0, ConsumerGroupDescribeResponse)
                assert response.groups[0].error_code == 0
                assert len(response.groups[0].members) == 1
