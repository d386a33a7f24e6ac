"""Transactions and producers: list, describe, find transactions that hang, abort them.

A transaction hangs if a partition has it open although its coordinator does not: no commit or abort will ever be
written, and consumers that read committed records wait at its first offset. It is ended with a marker that is written
directly to the partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ottla.admin.log_offsets import leaders_of
from ottla.admin.session import Session, check
from ottla.admin.topics import partitions_of, topic_names
from ottla.base.errors import ErrorCode, LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientError, TransactionDescription, describe_transaction, init_producer_id
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ONGOING = "Ongoing"
MAX_TIMEOUT_MS = 15 * 60_000
"""The default of `transaction.max.timeout.ms`: an open transaction that is older has passed every timeout."""
_MARKER_VERSION = 1
_TRANSACTION_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class TransactionListing:
    """One transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True)
class TransactionInfo:
    """The state of a transactional id at its coordinator."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """When its transaction was started; None if none is open."""
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class ProducerInfo:
    """An active producer of a partition: one that has written with a producer id."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int | None
    """The first offset of its open transaction; None if it has none."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class HangingTransaction:
    """An open transaction of a partition that its coordinator does not know as open."""

    producer: ProducerInfo
    transactional_id: str | None
    reason: str


def list_transactions(
    session: Session,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
) -> list[TransactionListing]:
    """Transactional ids, ordered; only those in these states, or with these producer ids."""
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
    responses, failed = session.broadcast(dict.fromkeys(session.nodes(), request), ListTransactionsResponse)
    for error in failed.values():
        raise error
    found = {}
    for node, response in responses.items():
        check(f"listing the transactions of broker {node}", response.error_code)
        if response.unknown_state_filters:
            raise LocalError(f"{response.unknown_state_filters[0]} is not a state of transactions")
        for one in response.transaction_states:
            found[one.transactional_id] = TransactionListing(
                one.transactional_id, one.producer_id, one.transaction_state, node
            )
    return [found[name] for name in sorted(found)]


def describe(session: Session, transactional_id: str) -> TransactionInfo:
    """One transactional id. Raise LocalError if its coordinator does not know it."""
    found = describe_transaction(session.cluster, transactional_id)
    if found is None:
        raise LocalError(f"there is no transactional id {transactional_id}")
    return TransactionInfo(
        transactional_id,
        found.state,
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        found.start_ms if found.start_ms >= 0 else None,
        tuple(sorted(found.partitions)),
    )


def producers(session: Session, topics: Iterable[str] | None = None) -> list[ProducerInfo]:
    """The active producers of these topics, or of all, ordered by partition and producer id."""
    names = topic_names(session, internal=True) if topics is None else list(dict.fromkeys(topics))
    wanted = [tp for name in names for tp in partitions_of(session, name)] if topics is not None else None
    leaders = leaders_of(session.metadata(names))
    by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for tp in wanted if wanted is not None else leaders:
        if tp in leaders:
            by_leader[leaders[tp]][tp.topic].append(tp.partition)
    requests = {
        node: DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=each) for name, each in by_topic.items()]
        )
        for node, by_topic in by_leader.items()
    }
    responses, failed = session.broadcast(requests, DescribeProducersResponse)
    for error in failed.values():
        raise error
    found = []
    for topic in (topic for response in responses.values() for topic in response.topics):
        for one in topic.partitions:
            if one.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER):
                continue
            check(
                f"describing the producers of {topic.name}-{one.partition_index}",
                one.error_code,
                one.error_message,
            )
            found += [
                ProducerInfo(
                    topic.name,
                    one.partition_index,
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.coordinator_epoch,
                    each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                )
                for each in one.active_producers
            ]
    return sorted(found, key=lambda each: (each.topic, each.partition, each.producer_id))


def hanging(
    session: Session, topics: Iterable[str] | None = None, *, older_than_ms: int = MAX_TIMEOUT_MS
) -> list[HangingTransaction]:
    """The transactions that hang in these topics, or in all, and have not been written to for `older_than_ms`."""
    limit_ms = session.clock.now_ms() - older_than_ms
    open_ones = [
        each
        for each in producers(session, topics)
        if each.start_offset is not None and each.last_timestamp_ms <= limit_ms
    ]
    if not open_ones:
        return []
    ids = {
        each.producer_id: each.transactional_id
        for each in list_transactions(session, producer_ids={each.producer_id for each in open_ones})
    }
    described = {
        name: describe_transaction(session.cluster, name)
        for name in {ids[each.producer_id] for each in open_ones if each.producer_id in ids}
    }
    return [
        HangingTransaction(each, ids.get(each.producer_id), reason)
        for each in open_ones
        if (reason := why_hanging(each, ids, described)) is not None
    ]


def why_hanging(
    producer: ProducerInfo,
    ids: Mapping[int, str],
    described: Mapping[str, TransactionDescription | None],
) -> str | None:
    """Why the open transaction of a producer hangs; None if its coordinator will end it."""
    name = ids.get(producer.producer_id)
    coordinated = described.get(name) if name is not None else None
    if coordinated is None:
        return "no coordinator knows the producer id"
    if coordinated.state == ONGOING or coordinated.state.startswith("Prepare"):
        if producer.tp in coordinated.partitions:
            return None
        return "the coordinator has a transaction without this partition"
    return f"the coordinator has no open transaction ({coordinated.state})"


def abort(session: Session, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id, and fence its producer. Raise LocalError if none is open."""
    found = describe(session, transactional_id)
    if found.state != ONGOING:
        raise LocalError(f"{transactional_id} has no open transaction: its state is {found.state}")
    init_producer_id(session.cluster, transactional_id, timeout_ms=_TRANSACTION_TIMEOUT_MS)


def abort_hanging(session: Session, producer: ProducerInfo) -> None:
    """Write an abort marker for the open transaction of a producer to its partition."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=producer.topic, partition_indexes=[producer.partition])],
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )
    what = f"aborting the transaction of producer {producer.producer_id} in {producer.tp}"

    def attempt() -> None:
        leader = session.cluster.leader(producer.tp).leader
        request = WriteTxnMarkersRequest(markers=[marker])
        try:
            response = session.cluster.connection(leader).request(
                request, WriteTxnMarkersResponse, newest=_MARKER_VERSION
            )
        except ClientError:
            session.cluster.forget_topic(producer.topic)
            raise
        for result in response.markers:
            for topic in result.topics:
                for one in topic.partitions:
                    if one.error_code:
                        session.cluster.forget_topic(producer.topic)
                    check(what, one.error_code)

    session.retrying(what, attempt)
