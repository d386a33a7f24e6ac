"""The little of administration that a sink needs: open transactions, a topic of its own, how large a batch may be.

Open transactions are known to their coordinators, so every broker is asked. The transactions of one that cannot be
reached are another's soon, which has to load them first; until then the answer says that it may lack some.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.client.raw.connection import Connection, Ticket
from ottla.client.raw.errors import ConnectionLost, Refused, TryAgain, Unsupported, code_name, is_retriable
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

OPEN_STATE = "Ongoing"
_PATTERN_VERSION = 2
"""Before, all ids come and are sorted out here."""
_ATTEMPTS = 2
"""A kept connection may be one to a broker that has restarted since; the second time it gets a new one."""
_BROKERS_DEFAULT = -1
_TOPIC_RESOURCE = 2
_BATCH_LIMIT = "max.message.bytes"


class OpenTransactions(NamedTuple):
    """The producers of open transactions by transactional id."""

    producers: dict[str, int]
    complete: bool
    """Whether every broker told what it knows."""


def list_open_transactions(cluster: Cluster, prefix: str) -> OpenTransactions:
    """Transactions that somebody has begun and nobody has ended, whose ids begin with `prefix`."""
    with OpenTransactionsQuestion(cluster, prefix) as question:
        return question.answer()


class OpenTransactionsQuestion:
    """The same in two steps: asked when it is made, wherever there is a connection, and answered later.

    Asked on connections that are in use, it is with the brokers before what is sent after it.
    """

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._stack = ExitStack()
        self._asked = _ask(self._stack, cluster.open_connections(), prefix)
        self._brokers: tuple[Connection, Ticket] | None = None
        for connection, _ in self._asked.values():
            with suppress(ConnectionLost):
                self._brokers = connection, connection.send(MetadataRequest(topics=[]))
                self._stack.callback(connection.forget, self._brokers[1])
                break

    def __enter__(self) -> OpenTransactionsQuestion:
        return self

    def __exit__(self, *_: object) -> None:
        """Answers that were not taken are not waited for."""
        self._stack.close()

    def answer(self) -> OpenTransactions:
        """Wait for the brokers; those that were not asked yet, or have not answered, are asked now."""
        answers = _answers(self._asked)
        nodes = self._nodes()
        for _ in range(_ATTEMPTS):
            silent = [node for node in nodes if node not in answers]
            if silent:
                answers |= _ask_all(self._cluster, silent, self._prefix)
        found = {
            one.transactional_id: one.producer_id
            for answer in answers.values()
            for one in answer.transaction_states
            if one.transactional_id.startswith(self._prefix)
        }
        told = [node for node in nodes if node in answers and answers[node].error_code == ErrorCode.NONE]
        return OpenTransactions(found, complete=len(told) == len(nodes))

    def _nodes(self) -> list[int]:
        """The brokers that the cluster has now."""
        if self._brokers is not None:
            connection, ticket = self._brokers
            with suppress(ConnectionLost):
                return self._cluster.learn_brokers(connection.receive(ticket, MetadataResponse))
        return self._cluster.brokers()


_Asked = dict[int, tuple[Connection, Ticket]]


def _ask_all(cluster: Cluster, nodes: Iterable[int], prefix: str) -> dict[int, ListTransactionsResponse]:
    """The answers of the brokers that could be asked; all are asked before one is awaited."""
    connections: dict[int, Connection] = {}
    for node in nodes:
        with suppress(ConnectionLost):
            connections[node] = cluster.connection(node)
    with ExitStack() as stack:
        return _answers(_ask(stack, connections, prefix))


def _ask(stack: ExitStack, connections: Mapping[int, Connection], prefix: str) -> _Asked:
    """What was asked; `stack` forgets the questions."""
    asked: _Asked = {}
    for node, connection in connections.items():
        with suppress(ConnectionLost):
            ticket = connection.send(_question(connection, prefix))
            asked[node] = connection, ticket
            stack.callback(connection.forget, ticket)
    return asked


def _answers(asked: _Asked) -> dict[int, ListTransactionsResponse]:
    answers: dict[int, ListTransactionsResponse] = {}
    for node, (connection, ticket) in asked.items():
        with suppress(ConnectionLost):
            answers[node] = connection.receive(ticket, ListTransactionsResponse)
    return answers


def _question(connection: Connection, prefix: str) -> ListTransactionsRequest:
    request = ListTransactionsRequest(state_filters=[OPEN_STATE])
    if connection.version_of(ListTransactionsRequest) >= _PATTERN_VERSION:
        request.transactional_id_pattern = re.escape(prefix) + ".*"
    return request


def ensure_topic(cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Make a topic unless it is there, with the cluster's replication; waits until it can be written."""
    patience = cluster.patience(f"making topic {name}")
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=_BROKERS_DEFAULT,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
        ],
        timeout_ms=cluster.settings.request_timeout_ms,
    )
    while not cluster.topics([name]):
        try:
            answer = cluster.any_connection().ask(request, CreateTopicsResponse)
            for topic in answer.topics:
                _check_made(topic.name, topic.error_code, topic.error_message)
            raise TryAgain(f"topic {name} is not known to all brokers yet")
        except (ConnectionLost, TryAgain) as error:
            patience.again(error)


def _check_made(name: str, code: int, message: str | None) -> None:
    if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return
    if is_retriable(code):
        raise TryAgain(f"making topic {name}: {code_name(code)}")
    raise Refused(f"making topic {name}", code, message)


def batch_limit(cluster: Cluster, topic: str) -> int | None:
    """The topic's `max.message.bytes`; None if there is no telling, for want of rights for instance."""
    wanted = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[_BATCH_LIMIT]
    )
    patience = cluster.patience(f"asking for {_BATCH_LIMIT} of topic {topic}")
    while True:
        try:
            request = DescribeConfigsRequest(resources=[wanted])
            answer = cluster.any_connection().ask(request, DescribeConfigsResponse)
            (told,) = answer.results
            if not is_retriable(told.error_code):
                values = [one.value for one in told.configs if one.name == _BATCH_LIMIT and one.value]
                return int(values[0]) if values else None
            patience.again(TryAgain(f"topic {topic}: {code_name(told.error_code)}"))
        except Unsupported:
            return None
        except ConnectionLost as error:
            patience.again(error)
