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

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

OPEN_STATE = "Ongoing"
_PATTERN_VERSION = 2
"""Before, all ids come and are sorted out here."""
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
    nodes = cluster.brokers()
    answers = _ask_all(cluster, nodes, prefix)
    silent = [node for node in nodes if node not in answers]
    if silent:
        # A kept connection may be one to a broker that has restarted since. Now it gets a new one.
        answers |= _ask_all(cluster, silent, prefix)
    found = {
        one.transactional_id: one.producer_id
        for answer in answers.values()
        for one in answer.transaction_states
        if one.transactional_id.startswith(prefix)
    }
    told = [node for node, answer in answers.items() if answer.error_code == ErrorCode.NONE]
    return OpenTransactions(found, complete=len(told) == len(nodes))


def _ask_all(cluster: Cluster, nodes: Iterable[int], prefix: str) -> dict[int, ListTransactionsResponse]:
    """The answers of the brokers that could be asked; all are asked before one is awaited."""
    asked: dict[int, tuple[Connection, Ticket]] = {}
    answers: dict[int, ListTransactionsResponse] = {}
    with ExitStack() as stack:
        for node in nodes:
            with suppress(ConnectionLost):
                connection = cluster.connection(node)
                ticket = connection.send(_question(connection, prefix))
                asked[node] = connection, ticket
                stack.callback(connection.forget, ticket)
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
