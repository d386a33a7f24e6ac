"""Requests that only a leader or a coordinator handles, sent to every node of three; and pages of metadata.

The internal topics are created by hand, so that groups and transactional ids have the same coordinators in both
clusters. Group `of-0` belongs to node 0, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.broker.coordination.coordinators import partition_of
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchRequest, ReplicaState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.schema import Message
from tests.compat.differential.dead_coordinator import DeadCoordinator
from tests.compat.differential.fetching import fetch, want
from tests.compat.differential.records import batch, produce, record
from tests.compat.differential.three_nodes import ClusterPlayer, NodePlayer, create
from tests.support.waiting import wait_until

LED, ALONE = "led", "alone"
LED_ASSIGNMENT = {0: [0, 1, 2], 1: [1, 2, 0]}
ALONE_ASSIGNMENT = {0: [0], 1: [1], 2: [2]}
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
INTERNAL_PARTITIONS = 50
SPECIAL_TIMES = (-1, -2, -3, -4, -5, -6, -7, 0, 1 << 60)


def name_of(node: int, prefix: str = "of") -> str:
    """A group or transactional id whose coordinator is a node."""
    names = (f"{prefix}-{node}-{number}" for number in range(1000))
    return next(name for name in names if partition_of(name, INTERNAL_PARTITIONS) % 3 == node)


def internal_topics(player: ClusterPlayer) -> None:
    """Create the topics of the coordinators: partition p is led by node p modulo 3."""
    for name in INTERNAL_TOPICS:
        assignment = {p: [(p + each) % 3 for each in range(3)] for p in range(INTERNAL_PARTITIONS)}
        wanted = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in assignment.items()
            ],
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="min.insync.replicas", value="2"),
            ],
        )
        answer = player.nodes[0].quietly(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
        assert answer.topics[0].error_code == 0, answer
        player.names[answer.topics[0].topic_id] = name
        player.until_leaders(name, {index: replicas[0] for index, replicas in assignment.items()})


def coordinators(player: ClusterPlayer, label: str) -> None:
    names = [name_of(node) for node in range(3)]
    for kind in (0, 1, 2):
        for version in FindCoordinatorRequest.SPEC.versions:
            if version < 4 and kind < 2:
                for name in names:
                    asked = FindCoordinatorRequest(key=name, key_type=kind if version else 0)
                    player.ask(f"{label}: coordinator {kind} {name}", asked, version)
            elif version >= 4:
                asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[*names, ""])
                player.ask(f"{label}: coordinators {kind}", asked, version)


def at_coordinators(name: str, topic_id: Any) -> Iterator[tuple[str, Message]]:
    """Requests that the coordinator of a group handles."""
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    yield "heartbeat", HeartbeatRequest(group_id=name, generation_id=1, member_id="m")
    yield "sync", SyncGroupRequest(group_id=name, generation_id=1, member_id="m")
    yield "describe", DescribeGroupsRequest(groups=[name])
    yield "describe consumer group", ConsumerGroupDescribeRequest(group_ids=[name])
    yield (
        "consumer heartbeat",
        ConsumerGroupHeartbeatRequest(group_id=name, member_id="m", member_epoch=5),
    )
    yield (
        "commit",
        OffsetCommitRequest(
            group_id=name,
            topics=[OffsetCommitRequestTopic(name=LED, topic_id=topic_id, partitions=[offset])],
        ),
    )
    yield (
        "join",
        JoinGroupRequest(
            group_id=name,
            session_timeout_ms=10_000,
            member_id="m",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        ),
    )
    yield (
        "delete offsets",
        OffsetDeleteRequest(
            group_id=name,
            topics=[
                OffsetDeleteRequestTopic(
                    name=LED, partitions=[OffsetDeleteRequestPartition(partition_index=1)]
                )
            ],
        ),
    )
    yield (
        "commit in a transaction",
        TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=name,
            producer_id=99,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=LED,
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        ),
    )
    yield "describe transactions", DescribeTransactionsRequest(transactional_ids=[name])
    yield (
        "add offsets",
        AddOffsetsToTxnRequest(transactional_id=name, producer_id=99, producer_epoch=0, group_id=name),
    )
    yield "end", EndTxnRequest(transactional_id=name, producer_id=99, producer_epoch=0, committed=True)


def groups(player: ClusterPlayer, label: str) -> None:
    for node in player.running:
        one = player.nodes[node]
        topic_id = one.topic_id(LED)
        for owner in range(3):
            name = name_of(owner)
            for title, request in at_coordinators(name, topic_id):
                low, high = request.SPEC.versions[0], request.SPEC.versions[-1]
                for version in sorted({low, high}):
                    answer = one.quietly(request, version)
                    if isinstance(answer, DescribeTransactionsResponse):
                        hide_ids(answer)
                    one.keep(f"{label}: {title} v{version} of {owner} at {node}", one.plain(answer))
            _members(one, f"{label}: of {owner} at {node}", name)
            _offsets(one, f"{label}: offsets of {owner} at {node}", name, topic_id)
            _transactions(one, f"{label}: of {owner} at {node}", name)
        everything = DeleteGroupsRequest(groups_names=[name_of(owner, "none") for owner in range(3)])
        one.ask(f"{label}: delete groups at {node}", everything, 2)
        listed = one.quietly(ListGroupsRequest(), 5)
        listed.groups.sort(key=lambda each: each.group_id)
        one.keep(f"{label}: list groups at {node}", one.plain(listed))
        transactions = one.quietly(ListTransactionsRequest(), 1)
        hide_ids(transactions)
        one.keep(f"{label}: list transactions at {node}", one.plain(transactions))


def hide_ids(answer: DescribeTransactionsResponse | ListTransactionsResponse) -> None:
    """Each cluster has its own producer ids."""
    for state in answer.transaction_states:
        state.producer_id = 0


def _members(one: NodePlayer, label: str, name: str) -> None:
    for version in (0, 2):
        one.ask(f"{label}: leave v{version}", LeaveGroupRequest(group_id=name, member_id="m"), version)
    members = [MemberIdentity(member_id="m"), MemberIdentity(group_instance_id="i")]
    for version in (3, 5):
        one.ask(f"{label}: leave v{version}", LeaveGroupRequest(group_id=name, members=members), version)


def _offsets(one: NodePlayer, label: str, name: str, topic_id: Any) -> None:
    topic = OffsetFetchRequestTopic(name=LED, partition_indexes=[0, 1])
    for version in (1, 2, 7):
        one.ask(f"{label}: fetch v{version}", OffsetFetchRequest(group_id=name, topics=[topic]), version)
    one.ask(f"{label}: fetch all", OffsetFetchRequest(group_id=name, topics=None), 7)
    topics = OffsetFetchRequestTopics(name=LED, topic_id=topic_id, partition_indexes=[0, 1])
    for version in (8, 9, 10):
        wanted = [OffsetFetchRequestGroup(group_id=each, topics=[topics]) for each in (name, name_of(1))]
        one.ask(
            f"{label}: fetch v{version}",
            OffsetFetchRequest(groups=wanted[: 1 + (name != name_of(1))]),
            version,
        )


def _transactions(one: NodePlayer, label: str, name: str) -> None:
    parts = [AddPartitionsToTxnTopic(name=LED, partitions=[0, 1])]
    for version in (0, 3):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=99,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=parts,
        )
        one.ask(f"{label}: add partitions v{version}", request, version)
    for verify in (False, True):
        wanted = AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=99, producer_epoch=0, verify_only=verify, topics=parts
        )
        request = AddPartitionsToTxnRequest(transactions=[wanted])
        one.ask(f"{label}: add partitions v5, verify {verify}", request, 5)
    for version in (0, 5):
        started = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answer = one.quietly(started, version)
        if getattr(answer, "producer_id", -1) >= 0:
            answer.producer_id, answer.producer_epoch = 1, 0
        one.keep(f"{label}: init v{version}", one.plain(answer))


def offsets(player: ClusterPlayer, label: str) -> None:
    """ListOffsets with every special time, and OffsetForLeaderEpoch with current epochs."""
    for node in player.running:
        one = player.nodes[node]
        for topic, index in ((LED, 0), (LED, 1), (ALONE, 2)):
            where = f"{label}: {topic}-{index} at {node}"
            for version in ListOffsetsRequest.SPEC.versions:
                for time in SPECIAL_TIMES:
                    _list(one, f"{where}: list {time} v{version}", topic, index, version, timestamp=time)
            for epoch in (0, 1, 99):
                for replica in (-1, -2, 1):
                    _list(
                        one,
                        f"{where}: list in epoch {epoch} as {replica}",
                        topic,
                        index,
                        6,
                        replica=replica,
                        timestamp=-1,
                        current_leader_epoch=epoch,
                    )
                for asked in (0, 1, 99):
                    for replica in (-1, -2, 1):
                        wanted = OffsetForLeaderPartition(
                            partition=index, current_leader_epoch=epoch, leader_epoch=asked
                        )
                        request = OffsetForLeaderEpochRequest(
                            replica_id=replica,
                            topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])],
                        )
                        one.ask(f"{where}: end of {asked} in {epoch} as {replica}", request, 4)


def _list(
    one: NodePlayer, label: str, topic: str, index: int, version: int, replica: int = -1, **fields: int
) -> None:
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, **fields)])
    one.ask(label, ListOffsetsRequest(replica_id=replica, topics=[wanted], timeout_ms=3_000), version)


def fetches(player: ClusterPlayer, label: str) -> None:
    """Fetch with racks, as replicas, and with isolation levels, at leaders and followers."""
    for node in player.running:
        one = player.nodes[node]
        for topic, index in ((LED, 0), (LED, 1), (ALONE, 2)):
            where = f"{label}: {topic}-{index} at {node}"
            for rack in ("", "r0", "r1", "r2", "elsewhere"):
                for version in (11, 12, 17):
                    request = fetch(one, want(topic, index, 1), rack_id=rack, max_wait_ms=200, min_bytes=1)
                    one.ask(f"{where}: fetch in rack {rack!r} v{version}", _as(request, version, -1), version)
            for replica in (0, 1, 2, 7, -2):
                for version in (11, 15, 17):
                    request = fetch(one, want(topic, index, 1), max_wait_ms=200)
                    one.ask(
                        f"{where}: fetch as {replica} v{version}", _as(request, version, replica), version
                    )
            for level in (0, 1):
                request = fetch(one, want(topic, index, 0), isolation_level=level, max_wait_ms=200)
                one.ask(f"{where}: fetch with level {level}", _as(request, 17, -1), 17)
            for last in (0, 1, 5):
                request = fetch(one, want(topic, index, 2, last_fetched_epoch=last, current_leader_epoch=0))
                one.ask(f"{where}: fetch after epoch {last}", _as(request, 17, -1), 17)


def _as(request: FetchRequest, version: int, replica: int) -> FetchRequest:
    if version >= 15:
        request.replica_id = -1
        request.replica_state = ReplicaState(replica_id=replica, replica_epoch=-1)
    else:
        request.replica_id = replica
    return request


def writes(player: ClusterPlayer, label: str) -> None:
    """DeleteRecords, WriteTxnMarkers, AlterReplicaLogDirs at every node."""
    for node in player.running:
        one = player.nodes[node]
        for topic, index in ((LED, 0), (LED, 1), (ALONE, 2), (LED, 7), ("nowhere", 0)):
            for offset in (0, -1, -2, 1 << 40):
                if offset == -1 and topic == LED:
                    continue
                gone = DeleteRecordsPartition(partition_index=index, offset=offset)
                request = DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name=topic, partitions=[gone])], timeout_ms=2_000
                )
                one.ask(f"{label}: delete {topic}-{index} to {offset} at {node}", request, 2)
            moved = AlterReplicaLogDir(
                path="/nowhere", topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])]
            )
            one.ask(f"{label}: move {topic}-{index} at {node}", AlterReplicaLogDirsRequest(dirs=[moved]), 2)
            for version in (1, 2):
                marker = WritableTxnMarker(
                    producer_id=77,
                    producer_epoch=0,
                    topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
                )
                request_ = WriteTxnMarkersRequest(markers=[marker])
                one.ask(f"{label}: marker {topic}-{index} at {node} v{version}", request_, version)


def pages(player: ClusterPlayer, label: str) -> None:
    topics = [TopicRequest(name=name) for name in (LED, ALONE, "nowhere", LED)]
    for limit in (-1, 0, 1, 2, 3, 4, 2000):
        for cursor in (
            None,
            Cursor(topic_name=LED, partition_index=1),
            Cursor(topic_name=ALONE, partition_index=2),
            Cursor(topic_name=ALONE, partition_index=9),
            Cursor(topic_name="m", partition_index=0),
            Cursor(topic_name="zzz", partition_index=1),
            Cursor(topic_name=LED, partition_index=-1),
        ):
            request = DescribeTopicPartitionsRequest(
                topics=topics, response_partition_limit=limit, cursor=cursor
            )
            at = None if cursor is None else (cursor.topic_name, cursor.partition_index)
            player.ask(f"{label}: page of {limit} from {at}", request, 0)


def prepare(player: ClusterPlayer) -> None:
    """Create the topics; wait until each coordinator has producer ids; write some records."""
    internal_topics(player)
    create(player, LED, LED_ASSIGNMENT, 0)
    create(player, ALONE, ALONE_ASSIGNMENT, 0)
    for node in player.running:
        begun = InitProducerIdRequest(transactional_id=name_of(node, "first"), transaction_timeout_ms=60_000)
        wait_until(
            lambda node=node, begun=begun: player.nodes[node].quietly(begun, 4).error_code == 0,
            f"producer ids at node {node}",
            60,
        )
    fill(player)


def fill(player: ClusterPlayer) -> None:
    """Some records, so that offsets differ from 0."""
    for topic, assignment in ((LED, LED_ASSIGNMENT), (ALONE, ALONE_ASSIGNMENT)):
        for index, replicas in assignment.items():
            one = player.nodes[replicas[0]]
            for number in range(3):
                answer = one.quietly(produce(one, (topic, index, batch(record(at=number)))), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0, answer
            player.until_copied(topic, index)


def everything(player: ClusterPlayer, label: str) -> None:
    coordinators(player, label)
    groups(player, label)
    offsets(player, label)
    fetches(player, label)
    writes(player, label)
    pages(player, label)


def play(player: ClusterPlayer) -> None:
    """All steps, with all nodes up and with node 2 down."""
    prepare(player)
    everything(player, "up")
    dead = DeadCoordinator(player, name_of(2, "committed"), name_of(2, "open"))
    dead.before()
    player.kill(2)
    player.until_isr(LED, {0: {0, 1}, 1: {0, 1}})
    player.until_leaders(ALONE, {0: 0, 1: 1, 2: -1})
    for topic in INTERNAL_TOPICS:
        leaders = {index: 0 if index % 3 == 2 else index % 3 for index in range(INTERNAL_PARTITIONS)}
        player.until_leaders(topic, leaders)
    dead.after()
    everything(player, "one down")
    player.restart(2)
    player.until_isr(LED, {0: {0, 1, 2}, 1: {0, 1, 2}})
