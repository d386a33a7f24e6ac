"""Transactions as their coordinator sees them: begun by a producer, ended by whoever knows its id and epoch.

Ending is idempotent: to end a transaction again in the same way succeeds, whoever does it. That is what a driver needs
which may die between two ends. What the coordinator answers otherwise is told apart in `TransactionEnd`.

Two generations of the protocol are spoken, by the cluster's `transaction.version`: from 2 on (KIP-890) a partition
joins a transaction by being written to, and every end raises the producer's epoch; before, partitions are added first.
Two-phase commit (KIP-939) is asked for where InitProducerId has version 6: such transactions never time out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw.connection import Connection, Ticket
from ottla.client.raw.errors import (
    ConnectionLost,
    Fenced,
    Refused,
    TryAgain,
    code_name,
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
"""The level of the feature from which partitions join by being written to."""
TWO_PHASE_VERSION = 6
_ONE_PHASE_NEWEST = 5
_ADD_BY_CLIENTS_NEWEST = 3
_END_KEEPS_EPOCH_NEWEST = 4
_TRANSACTION = 1
_ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_UNKNOWN = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


class ProducerIdentity(NamedTuple):
    """What a producer signs its batches with."""

    producer_id: int
    epoch: int
    two_phase: bool = False
    """Whether its transactions stay open until they are ended, however long that takes."""
    ongoing_id: int = -1
    ongoing_epoch: int = -1
    """With `keep_prepared`: the transaction that was found open and left so; -1 if there was none."""


class TransactionEnd(Enum):
    """What became of the wish to end a transaction."""

    ENDED = "ended as asked, now or before"
    OTHERWISE = "it is not open and did not end that way: it ended the other way, or nothing was written"
    FENCED = "a newer producer took over its transactional id, or it timed out: it was aborted"
    UNKNOWN = "the coordinator does not know this transactional id, or not with this producer id"


_OUTCOMES: Mapping[int, TransactionEnd] = {
    ErrorCode.NONE: TransactionEnd.ENDED,
    ErrorCode.INVALID_TXN_STATE: TransactionEnd.OTHERWISE,
    **dict.fromkeys(_FENCED, TransactionEnd.FENCED),
    **dict.fromkeys(_UNKNOWN, TransactionEnd.UNKNOWN),
}


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator has it."""

    state: str
    """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ..."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]


def joins_by_writing(cluster: Cluster) -> bool:
    """Whether the cluster speaks the newer generation of the protocol."""
    return cluster.features().get(FEATURE, 0) >= IMPLICIT_SINCE


def initialise(
    cluster: Cluster,
    transactional_id: str | None,
    *,
    timeout_ms: int,
    two_phase: bool = False,
    keep_prepared: bool = False,
) -> ProducerIdentity:
    """An id and an epoch; with a transactional id all earlier holders of it are fenced.

    Their open transaction is aborted, unless `keep_prepared` asks to leave it. `two_phase` is a wish: the answer tells
    whether the cluster grants it.
    """
    patience = cluster.patience(f"initialising producer {transactional_id or ''}".strip())
    while True:
        try:
            connection = _connection(cluster, transactional_id)
            granted = two_phase and _offers_two_phase(connection)
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                enable2_pc=granted,
                keep_prepared_txn=granted and keep_prepared,
            )
            newest = TWO_PHASE_VERSION if granted else _ONE_PHASE_NEWEST
            answer = connection.ask(request, InitProducerIdResponse, newest=newest)
            _check(cluster, transactional_id, answer.error_code, "initialising")
        except (ConnectionLost, TryAgain) as error:
            if isinstance(error, ConnectionLost) and transactional_id is not None:
                cluster.forget_coordinator(_TRANSACTION, transactional_id)
            patience.again(error)
        else:
            return ProducerIdentity(
                answer.producer_id,
                answer.producer_epoch,
                granted,
                answer.ongoing_txn_producer_id,
                answer.ongoing_txn_producer_epoch,
            )


def _connection(cluster: Cluster, transactional_id: str | None) -> Connection:
    if transactional_id is None:
        return cluster.any_connection()
    return cluster.coordinator(_TRANSACTION, transactional_id)


def _offers_two_phase(connection: Connection) -> bool:
    return TWO_PHASE_VERSION in connection.versions.get(ApiKey.INIT_PRODUCER_ID, range(0))


def add_partitions(
    cluster: Cluster,
    transactional_id: str,
    identity: ProducerIdentity,
    partitions: Collection[TopicPartition],
) -> None:
    """Tell the coordinator where a transaction will write; only the older generation needs it."""
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
    patience = cluster.patience(f"adding partitions to transaction {transactional_id}")
    while True:
        try:
            answer = cluster.ask_coordinator(
                _TRANSACTION,
                transactional_id,
                request,
                AddPartitionsToTxnResponse,
                newest=_ADD_BY_CLIENTS_NEWEST,
            )
            for topic in answer.results_by_topic_v3_and_below:
                for one in topic.results_by_partition:
                    what = f"adding {topic.name}-{one.partition_index} to a transaction"
                    _check(cluster, transactional_id, one.partition_error_code, what)
        except (ConnectionLost, TryAgain) as error:
            patience.again(error)
        else:
            return


def end_transaction(
    cluster: Cluster, transactional_id: str, producer_id: int, epoch: int, commit: bool
) -> TransactionEnd:
    """Commit or abort; may be repeated. Raises TimedOut when the coordinator cannot be reached: then nobody knows."""
    identity = ProducerIdentity(producer_id, epoch)
    return end(cluster, transactional_id, identity, commit, joins_by_writing(cluster))[0]


def end_transactions(
    cluster: Cluster, transactions: Sequence[tuple[str, int, int]], commit: bool
) -> list[TransactionEnd]:
    """As `end_transaction`, for (transactional id, producer id, epoch) of many: all are asked before one is awaited."""
    newest = None if joins_by_writing(cluster) else _END_KEEPS_EPOCH_NEWEST
    asked: list[tuple[Connection, Ticket] | None] = []
    outcomes = []
    with ExitStack() as stack:
        for name, producer_id, epoch in transactions:
            request = EndTxnRequest(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit
            )
            try:
                connection = cluster.coordinator(_TRANSACTION, name)
                ticket = connection.send(request, newest=newest)
            except (ConnectionLost, TryAgain):
                asked.append(None)
            else:
                asked.append((connection, ticket))
                stack.callback(connection.forget, ticket)
        for one, sent in zip(transactions, asked, strict=True):
            outcome = None if sent is None else _outcome(*sent)
            # Whatever asks for patience, or is an error, is asked again on its own.
            outcomes.append(end_transaction(cluster, *one, commit) if outcome is None else outcome)
    return outcomes


def _outcome(connection: Connection, ticket: Ticket) -> TransactionEnd | None:
    try:
        return _OUTCOMES.get(connection.receive(ticket, EndTxnResponse).error_code)
    except ConnectionLost:
        return None


def end(
    cluster: Cluster, transactional_id: str, identity: ProducerIdentity, commit: bool, implicit: bool
) -> tuple[TransactionEnd, ProducerIdentity]:
    """Also who the producer is in its next transaction."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
    newest = None if implicit else _END_KEEPS_EPOCH_NEWEST
    patience = cluster.patience(f"ending transaction {transactional_id}")
    while True:
        try:
            answer = cluster.ask_coordinator(
                _TRANSACTION, transactional_id, request, EndTxnResponse, newest=newest
            )
            code = answer.error_code
            outcome = _OUTCOMES.get(code)
            if outcome is not None:
                return outcome, _following(identity, answer)
            _check(cluster, transactional_id, code, "ending a transaction")
        except (ConnectionLost, TryAgain) as error:
            patience.again(error)


def _following(identity: ProducerIdentity, answer: EndTxnResponse) -> ProducerIdentity:
    if answer.error_code or answer.producer_id < 0:
        return identity
    return identity._replace(producer_id=answer.producer_id, epoch=answer.producer_epoch)


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription | None:
    """What the coordinator knows of a transactional id; None if nothing."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    patience = cluster.patience(f"describing transaction {transactional_id}")
    while True:
        try:
            answer = cluster.ask_coordinator(
                _TRANSACTION, transactional_id, request, DescribeTransactionsResponse
            )
            (state,) = answer.transaction_states
            if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            _check(cluster, transactional_id, state.error_code, "describing a transaction")
        except (ConnectionLost, TryAgain) as error:
            patience.again(error)
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
    who = f"{what} ({transactional_id})" if transactional_id else what
    if code in _ELSEWHERE and transactional_id is not None:
        cluster.forget_coordinator(_TRANSACTION, transactional_id)
    if is_retriable(code):
        raise TryAgain(f"{who}: {code_name(code)}")
    raise Fenced(who, code) if code in _FENCED else Refused(who, code)
