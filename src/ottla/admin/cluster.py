"""Brokers, quorum, log directories and health of a cluster, and elections of leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.admin.session import Session, check
from ottla.base.errors import ErrorCode
from ottla.base.ids import METADATA_TOPIC, TopicPartition, uuid_text
from ottla.client.raw import ClientError, Unsupported
from ottla.client.raw.errors import error_name
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

NO_CONTROLLER = -1
_FENCED_VERSION = 2
"""The first version of DescribeCluster with fenced brokers."""


@dataclass(frozen=True)
class NodeInfo:
    """One broker as the cluster describes it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    """Whether the controller has stopped to count on it: no heartbeats, or not started completely."""
    controller: bool
    """Whether it is the active controller."""
    voter: bool
    leads: int
    """Partitions that it leads."""
    replicas: int
    in_sync: int
    """Its replicas that are in sync, with those that it leads."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ClusterInfo:
    """A cluster in numbers."""

    cluster_id: str
    controller: int | None
    brokers: int
    fenced: int
    topics: int
    partitions: int
    features: dict[str, int]
    """The finalized levels, such as `transaction.version`."""


@dataclass(frozen=True)
class QuorumReplica:
    """One voter or observer of the metadata log."""

    node_id: int
    directory: str
    voter: bool
    leader: bool
    log_end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    listeners: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuorumInfo:
    """The metadata quorum. `leader` is None if none is known."""

    leader: int | None
    epoch: int
    high_watermark: int
    replicas: tuple[QuorumReplica, ...]

    @property
    def voters(self) -> tuple[QuorumReplica, ...]:
        return tuple(each for each in self.replicas if each.voter)


@dataclass(frozen=True)
class LogDir:
    """One log directory of a broker."""

    node_id: int
    path: str
    error: str | None
    """The name of its error; None if it is online."""
    partitions: int
    size: int
    """Bytes of all logs."""
    total: int | None
    usable: int | None
    """Bytes of its file system."""
    cordoned: bool


@dataclass(frozen=True)
class Election:
    """The result of the election of one partition; `error` is None if a leader was elected."""

    topic: str
    partition: int
    error: str | None
    message: str | None


def _describe(session: Session) -> DescribeClusterResponse:
    """The cluster, with its fenced brokers if the broker serves the version that has them."""
    fenced = session.cluster.any_connection().version_of(DescribeClusterRequest) >= _FENCED_VERSION

    def attempt() -> DescribeClusterResponse:
        request = DescribeClusterRequest(include_fenced_brokers=fenced)
        response = session.request(request, DescribeClusterResponse)
        check("describing the cluster", response.error_code, response.error_message)
        return response

    return session.retrying("describing the cluster", attempt)


def cluster_info(session: Session) -> ClusterInfo:
    """The cluster in numbers."""
    described = _describe(session)
    topics = session.metadata(None).topics
    found = _quorum_or_none(session)
    return ClusterInfo(
        described.cluster_id,
        found.leader if found is not None else _known_controller(described.controller_id),
        len(described.brokers),
        sum(each.is_fenced for each in described.brokers),
        len(topics),
        sum(len(each.partitions) for each in topics),
        dict(sorted(session.cluster.features().items())),
    )


def _known_controller(node: int) -> int | None:
    return None if node == NO_CONTROLLER else node


def nodes(session: Session) -> list[NodeInfo]:
    """All registered brokers, with fenced ones, ordered by id."""
    described = _describe(session)
    found = _quorum_or_none(session)
    voters = set() if found is None else {each.node_id for each in found.voters}
    leader = None if found is None else found.leader
    leads: dict[int, int] = defaultdict(int)
    replicas: dict[int, int] = defaultdict(int)
    in_sync: dict[int, int] = defaultdict(int)
    for topic in session.metadata(None).topics:
        for one in topic.partitions:
            leads[one.leader_id] += 1
            for node in one.replica_nodes:
                replicas[node] += 1
            for node in one.isr_nodes:
                in_sync[node] += 1
    listed = [
        NodeInfo(
            each.broker_id,
            each.host,
            each.port,
            each.rack,
            each.is_fenced,
            each.broker_id == leader,
            each.broker_id in voters,
            leads[each.broker_id],
            replicas[each.broker_id],
            in_sync[each.broker_id],
        )
        for each in described.brokers
    ]
    return sorted(listed, key=lambda each: each.node_id)


# --- quorum


def quorum(session: Session) -> QuorumInfo:
    """The metadata quorum. Raise Refused or Unsupported."""
    topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData()])
    request = DescribeQuorumRequest(topics=[topic])
    what = "describing the quorum"

    def attempt() -> QuorumInfo:
        response = session.request(request, DescribeQuorumResponse)
        check(what, response.error_code, response.error_message)
        ((partition,),) = (each.partitions for each in response.topics)
        check(what, partition.error_code, partition.error_message)
        listeners = {
            node.node_id: tuple(f"{each.name}://{each.host}:{each.port}" for each in node.listeners)
            for node in response.nodes
        }
        ends = [
            each.log_end_offset for each in partition.current_voters if each.replica_id == partition.leader_id
        ]
        end = max(ends, default=partition.high_watermark)

        def replica(state: ReplicaState, voter: bool) -> QuorumReplica:
            return QuorumReplica(
                state.replica_id,
                uuid_text(state.replica_directory_id),
                voter,
                state.replica_id == partition.leader_id,
                state.log_end_offset,
                max(0, end - state.log_end_offset),
                _known_time(state.last_fetch_timestamp),
                _known_time(state.last_caught_up_timestamp),
                listeners.get(state.replica_id, ()),
            )

        replicas = [replica(each, True) for each in partition.current_voters]
        replicas += [replica(each, False) for each in partition.observers]
        return QuorumInfo(
            partition.leader_id if partition.leader_id >= 0 else None,
            partition.leader_epoch,
            partition.high_watermark,
            tuple(sorted(replicas, key=lambda each: (not each.voter, each.node_id))),
        )

    return session.retrying(what, attempt)


def _known_time(stamp_ms: int) -> int | None:
    return stamp_ms if stamp_ms >= 0 else None


def _quorum_or_none(session: Session) -> QuorumInfo | None:
    """None from a cluster that does not describe its quorum, or whose controllers do not respond."""
    try:
        return quorum(session)
    except (ClientError, Unsupported):
        return None


# --- log directories


def log_dirs(session: Session) -> tuple[list[LogDir], dict[int, ClientError]]:
    """The log directories of all brokers, and the errors of brokers that did not respond."""
    request = DescribeLogDirsRequest(topics=None)
    responses, failed = session.broadcast(dict.fromkeys(session.nodes(), request), DescribeLogDirsResponse)
    found = []
    for node, response in sorted(responses.items()):
        check(f"describing the log directories of broker {node}", response.error_code)
        for each in response.results:
            logs = [one for topic in each.topics for one in topic.partitions]
            found.append(
                LogDir(
                    node,
                    each.log_dir,
                    None if each.error_code == ErrorCode.NONE else error_name(each.error_code),
                    sum(not one.is_future_key for one in logs),
                    sum(one.partition_size for one in logs),
                    each.total_bytes if each.total_bytes >= 0 else None,
                    each.usable_bytes if each.usable_bytes >= 0 else None,
                    each.is_cordoned,
                )
            )
    return found, failed


# --- elections


def elect(
    session: Session, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
) -> list[Election]:
    """Elect the preferred leader of these partitions, or of all. `unclean` elects a replica that may miss records.

    Partitions that need no election are omitted if all were requested.
    """
    wanted: list[TopicPartitions] | None = None
    if partitions is not None:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for tp in partitions:
            by_topic[tp.topic].append(tp.partition)
        wanted = [TopicPartitions(topic=name, partitions=each) for name, each in by_topic.items()]
    request = ElectLeadersRequest(
        election_type=int(unclean), topic_partitions=wanted, timeout_ms=session.timeout_ms
    )

    def attempt() -> list[Election]:
        response = session.request(request, ElectLeadersResponse)
        check("electing leaders", response.error_code)
        return [
            Election(
                topic.topic,
                one.partition_id,
                None if one.error_code == ErrorCode.NONE else error_name(one.error_code),
                one.error_message,
            )
            for topic in response.replica_election_results
            for one in topic.partition_result
            if partitions is not None or one.error_code != ErrorCode.ELECTION_NOT_NEEDED
        ]

    return session.retrying("electing leaders", attempt)
