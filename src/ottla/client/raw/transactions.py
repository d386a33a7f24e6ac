"""Requests to transaction coordinators: producer ids, partitions, the end of transactions.

Any process that knows the transactional id, producer id and epoch can end a transaction. Ending it again in the same
way succeeds, so a driver that crashed can repeat it. `TransactionEnd` distinguishes the other results.

The protocol depends on `transaction.version` of the cluster. From 2 (KIP-890) a write adds its partition to the
transaction, and the end of a transaction increments the epoch of the producer; before, AddPartitionsToTxn is needed.
Two-phase commit (KIP-939) is requested if the broker serves version 6 of InitProducerId: they never expire.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw.connection import Connection, PendingRequest
from ottla.client.raw.errors import (
    ConnectionLost,
    Fenced,
    Refused,
    RetriableError,
    error_name,
    is_retriable,
)
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

FEATURE = "transaction.version"
IMPLICIT_SINCE = 2
"""The first level of the feature with which a write adds its partition to the transaction."""
TWO_PHASE_VERSION = 6
_ONE_PHASE_NEWEST = 5
_ADD_BY_CLIENTS_NEWEST = 3
_END_KEEPS_EPOCH_NEWEST = 4
_TRANSACTION = 1
_WRONG_COORDINATOR = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_UNKNOWN = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


class ProducerIdentity(NamedTuple):
    """Producer id and epoch of the batches of a producer."""

    producer_id: int
    epoch: int
    two_phase: bool = False
    """Whether its transactions do not expire."""
    ongoing_id: int = -1
    ongoing_epoch: int = -1
    """With `keep_prepared`: the transaction that was open and stays open; -1 if there is none."""


class TransactionEnd(Enum):
    """Result of the end of a transaction."""

    ENDED = "ended as requested, now or before"
    OTHERWISE = (
        "the transaction is not open and did not end as requested: it ended the other way, or has no records"
    )
    FENCED = "a newer producer fenced this one, or the transaction expired: it was aborted"
    UNKNOWN = "the coordinator does not know this transactional id, or not with this producer id"


_RESULTS: Mapping[int, TransactionEnd] = {
    ErrorCode.NONE: TransactionEnd.ENDED,
    ErrorCode.INVALID_TXN_STATE: TransactionEnd.OTHERWISE,
    **dict.fromkeys(_FENCED, TransactionEnd.FENCED),
    **dict.fromkeys(_UNKNOWN, TransactionEnd.UNKNOWN),
}


class TransactionDescription(NamedTuple):
    """State of a transactional id at its coordinator."""

    state: str
    """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ..."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]


def adds_partitions_implicitly(cluster: Cluster) -> bool:
    """Whether a write adds its partition to the transaction (`transaction.version` 2)."""
    return cluster.features().get(FEATURE, 0) >= IMPLICIT_SINCE


def init_producer_id(
    cluster: Cluster,
    transactional_id: str | None,
    *,
    timeout_ms: int,
    two_phase: bool = False,
    keep_prepared: bool = False,
) -> ProducerIdentity:
    """Get a producer id and epoch. With a transactional id, fence all earlier producers that have it.

    Their open transaction is aborted unless `keep_prepared` is set. `two_phase` is used if the cluster supports it; the
    result contains whether it is.
    """
    retry = cluster.retry(f"initializing producer {transactional_id or ''}".strip())
    while True:
        try:
            connection = _connection(cluster, transactional_id)
            granted = two_phase and _serves_two_phase(connection)
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                enable2_pc=granted,
                keep_prepared_txn=granted and keep_prepared,
            )
            newest = TWO_PHASE_VERSION if granted else _ONE_PHASE_NEWEST
            response = connection.request(request, InitProducerIdResponse, newest=newest)
            _check(cluster, transactional_id, response.error_code, "initializing")
        except (ConnectionLost, RetriableError) as error:
            if isinstance(error, ConnectionLost) and transactional_id is not None:
                cluster.forget_coordinator(_TRANSACTION, transactional_id)
            retry.backoff(error)
        else:
            return ProducerIdentity(
                response.producer_id,
                response.producer_epoch,
                granted,
                response.ongoing_txn_producer_id,
                response.ongoing_txn_producer_epoch,
            )


def _connection(cluster: Cluster, transactional_id: str | None) -> Connection:
    if transactional_id is None:
        return cluster.any_connection()
    return cluster.coordinator(_TRANSACTION, transactional_id)


def _serves_two_phase(connection: Connection) -> bool:
    return TWO_PHASE_VERSION in connection.versions.get(ApiKey.INIT_PRODUCER_ID, range(0))


def add_partitions(
    cluster: Cluster,
    transactional_id: str,
    identity: ProducerIdentity,
    partitions: Collection[TopicPartition],
) -> None:
    """Add partitions to a transaction; needed if writes do not add them."""
    topics: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(tp.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
        ],
    )
    retry = cluster.retry(f"adding partitions to transaction {transactional_id}")
    while True:
        try:
            response = cluster.request_coordinator(
                _TRANSACTION,
                transactional_id,
                request,
                AddPartitionsToTxnResponse,
                newest=_ADD_BY_CLIENTS_NEWEST,
            )
            for topic in response.results_by_topic_v3_and_below:
                for one in topic.results_by_partition:
                    what = f"adding {topic.name}-{one.partition_index} to a transaction"
                    _check(cluster, transactional_id, one.partition_error_code, what)
        except (ConnectionLost, RetriableError) as error:
            retry.backoff(error)
        else:
            return


def end_transaction(
    cluster: Cluster, transactional_id: str, producer_id: int, epoch: int, commit: bool
) -> TransactionEnd:
    """Commit or abort; may be repeated. Raise TimedOut without a response: then the result is unknown."""
    identity = ProducerIdentity(producer_id, epoch)
    return end(cluster, transactional_id, identity, commit, adds_partitions_implicitly(cluster))[0]


def end_transactions(
    cluster: Cluster, transactions: Sequence[tuple[str, int, int]], commit: bool
) -> list[TransactionEnd]:
    """As `end_transaction` for several (transactional id, producer id, epoch); the requests are sent together."""
    newest = None if adds_partitions_implicitly(cluster) else _END_KEEPS_EPOCH_NEWEST
    sent_requests: list[tuple[Connection, PendingRequest] | None] = []
    results = []
    with ExitStack() as stack:
        for name, producer_id, epoch in transactions:
            request = EndTxnRequest(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit
            )
            try:
                connection = cluster.coordinator(_TRANSACTION, name)
                pending = connection.send(request, newest=newest)
            except (ConnectionLost, RetriableError):
                sent_requests.append(None)
            else:
                sent_requests.append((connection, pending))
                stack.callback(connection.discard, pending)
        for one, sent in zip(transactions, sent_requests, strict=True):
            result = None if sent is None else _receive_end(*sent)
            # A transaction with a retriable or other error is ended again separately.
            results.append(end_transaction(cluster, *one, commit) if result is None else result)
    return results


def _receive_end(connection: Connection, pending: PendingRequest) -> TransactionEnd | None:
    try:
        return _RESULTS.get(connection.receive(pending, EndTxnResponse).error_code)
    except ConnectionLost:
        return None


def end(
    cluster: Cluster, transactional_id: str, identity: ProducerIdentity, commit: bool, implicit: bool
) -> tuple[TransactionEnd, ProducerIdentity]:
    """End a transaction; return the result and the identity for the next transaction."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
    newest = None if implicit else _END_KEEPS_EPOCH_NEWEST
    retry = cluster.retry(f"ending transaction {transactional_id}")
    while True:
        try:
            response = cluster.request_coordinator(
                _TRANSACTION, transactional_id, request, EndTxnResponse, newest=newest
            )
            code = response.error_code
            result = _RESULTS.get(code)
            if result is not None:
                return result, _following(identity, response)
            _check(cluster, transactional_id, code, "ending a transaction")
        except (ConnectionLost, RetriableError) as error:
            retry.backoff(error)


def _following(identity: ProducerIdentity, response: EndTxnResponse) -> ProducerIdentity:
    if response.error_code or response.producer_id < 0:
        return identity
    return identity._replace(producer_id=response.producer_id, epoch=response.producer_epoch)


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription | None:
    """Describe a transactional id; None if its coordinator does not know it."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    retry = cluster.retry(f"describing transaction {transactional_id}")
    while True:
        try:
            response = cluster.request_coordinator(
                _TRANSACTION, transactional_id, request, DescribeTransactionsResponse
            )
            (state,) = response.transaction_states
            if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            _check(cluster, transactional_id, state.error_code, "describing a transaction")
        except (ConnectionLost, RetriableError) as error:
            retry.backoff(error)
        else:
            return TransactionDescription(
                state.transaction_state,
                state.producer_id,
                state.producer_epoch,
                state.transaction_timeout_ms,
                state.transaction_start_time_ms,
                frozenset(
                    TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions
                ),
            )


def _check(cluster: Cluster, transactional_id: str | None, code: int, what: str) -> None:
    if code == ErrorCode.NONE:
        return
    context = f"{what} ({transactional_id})" if transactional_id else what
    if code in _WRONG_COORDINATOR and transactional_id is not None:
        cluster.forget_coordinator(_TRANSACTION, transactional_id)
    if is_retriable(code):
        raise RetriableError(f"{context}: {error_name(code)}")
    raise Fenced(context, code) if code in _FENCED else Refused(context, code)
