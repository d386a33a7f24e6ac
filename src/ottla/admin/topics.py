"""Topics: list, describe, create, delete, add partitions, delete records, look up offsets.

Values that no broker reports, such as the offsets of a partition without a leader, are None.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.admin.log_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, leaders_of, list_offsets
from ottla.admin.session import Session, check
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition, uuid_text
from ottla.client.raw import Refused, UnknownTopic, Unsupported
from ottla.client.raw.metadata import NO_LEADER
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

BROKER_DEFAULT = -1
"""For the number of partitions and the replication factor of a new topic."""
_NAMES_ONLY_UP_TO = 5
"""The newest version of DeleteTopics without topic ids."""


@dataclass(frozen=True)
class PartitionInfo:
    """One partition. `leader` is -1 if it has none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: they have all committed records, but are not in sync."""
    offline: tuple[int, ...] = ()
    start_offset: int | None = None
    end_offset: int | None = None
    max_timestamp: int | None = None
    """The largest timestamp of a record (ms); None if there is no record."""
    size: int | None = None
    """Bytes of the leader's log."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)

    @property
    def offsets(self) -> int | None:
        """The number of offsets from the start to the end. Markers and compacted records count as well."""
        if self.start_offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.start_offset


@dataclass(frozen=True)
class TopicInfo:
    """One topic with all its partitions, ordered by index."""

    name: str
    id: str
    internal: bool
    partitions: tuple[PartitionInfo, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)

    @property
    def offsets(self) -> int | None:
        """The sum of all partitions; None if one of them is not known."""
        return _total(each.offsets for each in self.partitions)

    @property
    def size(self) -> int | None:
        """The bytes of the leaders' logs; None if one of them is not known."""
        return _total(each.size for each in self.partitions)

    @property
    def max_timestamp(self) -> int | None:
        """The largest timestamp of a record (ms): when the topic was last written."""
        return max(
            (each.max_timestamp for each in self.partitions if each.max_timestamp is not None), default=None
        )

    @property
    def under_replicated(self) -> int:
        """The number of partitions with fewer in-sync replicas than replicas."""
        return sum(each.under_replicated for each in self.partitions)

    @property
    def without_leader(self) -> int:
        return sum(not each.has_leader for each in self.partitions)


def topic_names(session: Session, *, internal: bool = False) -> list[str]:
    """The names of all topics; one request."""
    listed = session.metadata(None).topics
    return sorted(each.name or "" for each in listed if internal or not _is_internal(each))


def list_topics(session: Session, *, internal: bool = False) -> list[TopicInfo]:
    """All topics with their offsets and sizes, ordered by name; eligible leader replicas where replicas are missing."""
    response = session.metadata(None)
    if not internal:
        response.topics = [each for each in response.topics if not _is_internal(each)]
    behind = [
        each.name or ""
        for each in response.topics
        if any(len(one.isr_nodes) < len(one.replica_nodes) for one in each.partitions)
    ]
    return _with_details(session, response, _eligible(session, behind) if behind else {})


def describe_topics(session: Session, names: Iterable[str]) -> list[TopicInfo]:
    """These topics with offsets, sizes and eligible leader replicas. Raise UnknownTopic if one does not exist."""
    wanted = list(dict.fromkeys(names))
    response = _existing(session, wanted)
    return _with_details(session, response, _eligible(session, wanted))


def describe_topic(session: Session, name: str) -> TopicInfo:
    """One topic. Raise UnknownTopic."""
    return describe_topics(session, [name])[0]


def partitions_of(session: Session, name: str) -> list[TopicPartition]:
    """The partitions of a topic, ordered by index; one request. Raise UnknownTopic."""
    (topic,) = _existing(session, [name]).topics
    return [TopicPartition(name, index) for index in sorted(one.partition_index for one in topic.partitions)]


def _existing(session: Session, names: Sequence[str]) -> MetadataResponse:
    def attempt() -> MetadataResponse:
        response = session.metadata(names)
        for topic in response.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(f"topic {topic.name}", topic.error_code, "it does not exist")
            if topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                check(f"topic {topic.name}", topic.error_code)
        return response

    return session.retrying("describing topics", attempt)


def _is_internal(topic: MetadataResponseTopic) -> bool:
    return topic.is_internal or (topic.name or "").startswith("__")


def _with_details(
    session: Session, response: MetadataResponse, eligible: Mapping[TopicPartition, tuple[int, ...]]
) -> list[TopicInfo]:
    leaders = leaders_of(response)
    starts = list_offsets(session, dict.fromkeys(leaders, EARLIEST), leaders)
    ends = list_offsets(session, dict.fromkeys(leaders, LATEST), leaders)
    written = [tp for tp, (end, _) in ends.items() if tp in starts and end > starts[tp][0]]
    newest = list_offsets(session, dict.fromkeys(written, MAX_TIMESTAMP), leaders)
    sizes = _sizes(session, leaders)
    found = []
    for topic in sorted(response.topics, key=lambda each: each.name or ""):
        name = topic.name or ""
        partitions = []
        for one in sorted(topic.partitions, key=lambda each: each.partition_index):
            tp = TopicPartition(name, one.partition_index)
            stamp = newest[tp][1] if tp in newest else -1
            partitions.append(
                PartitionInfo(
                    name,
                    one.partition_index,
                    one.leader_id,
                    one.leader_epoch,
                    tuple(one.replica_nodes),
                    tuple(sorted(one.isr_nodes)),
                    eligible.get(tp, ()),
                    tuple(sorted(one.offline_replicas)),
                    starts[tp][0] if tp in starts else None,
                    ends[tp][0] if tp in ends else None,
                    stamp if stamp >= 0 else None,
                    sizes.get((tp, one.leader_id)),
                )
            )
        found.append(TopicInfo(name, uuid_text(topic.topic_id), _is_internal(topic), tuple(partitions)))
    return found


def _eligible(session: Session, names: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """The eligible leader replicas; none from a cluster without DescribeTopicPartitions."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in sorted(names)], cursor=cursor
        )
        try:
            response = session.request(request, DescribeTopicPartitionsResponse)
        except Unsupported:
            return found
        for topic in response.topics:
            for one in topic.partitions:
                tp = TopicPartition(topic.name or "", one.partition_index)
                found[tp] = tuple(sorted(one.eligible_leader_replicas or ()))
        if response.next_cursor is None:
            return found
        cursor = Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )


def _sizes(session: Session, leaders: Mapping[TopicPartition, int]) -> dict[tuple[TopicPartition, int], int]:
    """The bytes of logs by partition and broker."""
    request = DescribeLogDirsRequest(topics=None)
    responses, _ = session.broadcast(
        dict.fromkeys(sorted(set(leaders.values())), request), DescribeLogDirsResponse
    )
    return {
        (TopicPartition(topic.name, one.partition_index), node): one.partition_size
        for node, response in responses.items()
        for directory in response.results
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }


def _total(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(each for each in known if each is not None)


# --- changes


def create_topic(
    session: Session,
    name: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Create a topic, and wait until it is listed with its leaders. Raise Refused."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=session.timeout_ms, validate_only=validate_only)

    def attempt() -> None:
        for each in session.request(request, CreateTopicsResponse).topics:
            check(f"creating topic {name}", each.error_code, each.error_message)

    session.retrying(f"creating topic {name}", attempt)
    if not validate_only:
        session.cluster.topic(name, wait=True)


def delete_topics(session: Session, names: Iterable[str]) -> None:
    """Delete topics with all their records. Raise UnknownTopic or Refused for the first that fails."""
    wanted = list(dict.fromkeys(names))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in wanted], timeout_ms=session.timeout_ms
    )
    connection = session.cluster.any_connection()
    if connection.version_of(DeleteTopicsRequest) <= _NAMES_ONLY_UP_TO:
        request = DeleteTopicsRequest(topic_names=wanted, timeout_ms=session.timeout_ms)

    def attempt() -> None:
        for each in session.request(request, DeleteTopicsResponse).responses:
            what = f"deleting topic {each.name}"
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(what, each.error_code, "it does not exist")
            check(what, each.error_code, each.error_message)

    session.retrying("deleting topics", attempt)
    for name in wanted:
        session.cluster.forget_topic(name)


def add_partitions(session: Session, name: str, count: int, *, validate_only: bool = False) -> None:
    """Increase the number of partitions of a topic to `count`. Raise Refused."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=[topic], timeout_ms=session.timeout_ms, validate_only=validate_only
    )

    def attempt() -> None:
        for each in session.request(request, CreatePartitionsResponse).results:
            what = f"adding partitions to topic {name}"
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(what, each.error_code, "it does not exist")
            check(what, each.error_code, each.error_message)

    session.retrying(f"adding partitions to topic {name}", attempt)
    session.cluster.forget_topic(name)


def trim(session: Session, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before these offsets; return the new start offsets. Raise Refused.

    Partitions may have been trimmed when another one is refused.
    """
    found: dict[TopicPartition, int] = {}

    def attempt() -> None:
        missing = {tp: offset for tp, offset in offsets.items() if tp not in found}
        by_leader: dict[int, dict[str, list[DeleteRecordsPartition]]] = defaultdict(lambda: defaultdict(list))
        for tp, offset in missing.items():
            by_leader[session.cluster.leader(tp).leader][tp.topic].append(
                DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
            )
        requests = {
            node: DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=each) for name, each in topics.items()],
                timeout_ms=session.timeout_ms,
            )
            for node, topics in by_leader.items()
        }
        responses, failed = session.broadcast(requests, DeleteRecordsResponse)
        for topic in (topic for each in responses.values() for topic in each.topics):
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    session.cluster.forget_topic(topic.name)
                if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise Refused(f"trimming {tp}", one.error_code, f"offset {offsets[tp]} is not in the log")
                check(f"trimming {tp}", one.error_code)
                found[tp] = one.low_watermark
        for error in failed.values():
            raise error

    session.retrying("deleting records", attempt)
    return found


def offsets_at(session: Session, name: str, time_ms: int) -> dict[int, tuple[int, int | None]]:
    """For each partition the offset and timestamp of the first record at or after a time.

    The end offset and None where no record is that recent. `time_ms` may also be EARLIEST, LATEST or MAX_TIMESTAMP.
    """
    partitions = partitions_of(session, name)
    found = session.cluster.list_offsets(dict.fromkeys(partitions, time_ms))
    late = [tp for tp, (offset, _) in found.items() if offset < 0]
    ends = session.cluster.list_offsets(dict.fromkeys(late, LATEST)) if late else {}
    return {
        tp.partition: (ends[tp][0], None) if tp in ends else (found[tp][0], _known(found[tp][1]))
        for tp in partitions
    }


def _known(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None
